"""Loops that carry a reduction on: what they read and store is compared, and what they keep."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import porism
from porism.base.dtypes import f32
from porism.base.target import GENERIC_CPU
from porism.ir import ops
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.loops.scan_loop import Scan
from porism.pipeline import unscheduled_kernel
from porism.verification.accesses import stage_equivalence, verify_scans
from porism.verification.verification_report import How
from tests.optimize.programs import kernel_of, values


def kernel() -> UOp:
    node = kernel_of(porism.cumsum(values(12, 96), axis=1)).node
    return unscheduled_kernel(node, GENERIC_CPU)


def holds(before: UOp, after: UOp) -> bool:
    found = verify_scans.compare(before, after)
    if found is None:
        found = list(stage_equivalence.compare(before, after, needs=True))
    return all(each.answer.holds and each.answer.how is not How.OPEN for each in found)


@pytest.mark.parametrize("amount", [1, 8])
def test_what_is_right_is_accepted(amount: int) -> None:
    before = kernel()
    after = Scan("r1", amount).apply(before, GENERIC_CPU)
    assert verify_scans.compare(before, after) is not None
    assert holds(before, after)


def read_next(kernel: UOp) -> UOp:
    """The element after the one that is wanted, where there is one."""
    (read,) = {n for n in toposort(kernel) if n.op is ops.INDEX and base_of(n).arg == 1
               and base_of(n).op is ops.PARAM}  # fmt: skip
    buffer, at = read.src
    other = buffer.index(ops.MIN(at + 1, at.lift(12 * 96 - 1)), dtype=f32)
    return substitute(kernel, {read: other})


def begun_with_one(kernel: UOp) -> UOp:
    (store,) = [n for n in toposort(kernel) if n.op is ops.STORE and n.src[1].op is ops.CONST]
    return substitute(kernel, {store: store.src[0].store(UOp.const(f32, 1.0))})


def not_carried(kernel: UOp) -> UOp:
    """Each step begins anew."""
    end = kernel.src[0]
    first, *_ = end.src[0].src
    return ops.SINK(first.end(*end.src[1:]))


def taken_twice(kernel: UOp) -> UOp:
    end = kernel.src[0]
    first, kept = end.src[0].src
    twice = kept.src[0].store(kept.src[1] + kept.src[1])
    return ops.SINK(ops.GROUP(first, twice).end(*end.src[1:]))


def without_the_last(kernel: UOp) -> UOp:
    """The elements of a step before each of it."""
    (chosen,) = [n for n in toposort(kernel) if n.op is ops.LE]
    return substitute(kernel, {chosen: ops.LT(*chosen.src)})


def test_parts_of_a_step_are_those_up_to_each_element() -> None:
    before = kernel()
    assert not holds(before, without_the_last(Scan("r1", 8).apply(before, GENERIC_CPU)))


@pytest.mark.parametrize("amount", [1, 8])
@pytest.mark.parametrize("wrong", [read_next, begun_with_one, not_carried, taken_twice])
def test_what_is_wrong_is_not(wrong: Callable[[UOp], UOp], amount: int) -> None:
    before = kernel()
    assert not holds(before, wrong(Scan("r1", amount).apply(before, GENERIC_CPU)))
