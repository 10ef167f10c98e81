"""Verification of scans: accesses and loop-carried reductions are compared."""

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
    comparisons = verify_scans.compare(before, after)
    if comparisons is None:
        comparisons = list(stage_equivalence.compare(before, after, with_use_conditions=True))
    return all(
        comparison.answer.holds and comparison.answer.how is not How.OPEN
        for comparison in comparisons
    )


@pytest.mark.parametrize("amount", [1, 8])
def test_a_correct_scan_is_accepted(amount: int) -> None:
    before = kernel()
    after = Scan("r1", amount).apply(before, GENERIC_CPU)
    assert verify_scans.compare(before, after) is not None
    assert holds(before, after)


def read_next(kernel: UOp) -> UOp:
    """Read the next element, where there is one."""
    (read,) = {n for n in toposort(kernel) if n.op is ops.INDEX and base_of(n).arg == 1
               and base_of(n).op is ops.PARAM}  # fmt: skip
    buffer, at = read.src
    other = buffer.index(ops.MIN(at + 1, at.lift(12 * 96 - 1)), dtype=f32)
    return substitute(kernel, {read: other})


def initialized_by_one(kernel: UOp) -> UOp:
    (store,) = [n for n in toposort(kernel) if n.op is ops.STORE and n.src[1].op is ops.CONST]
    return substitute(kernel, {store: store.src[0].store(UOp.const(f32, 1.0))})


def reset_in_every_iteration(kernel: UOp) -> UOp:
    """Drop the store of the carried value."""
    end = kernel.src[0]
    first, *_ = end.src[0].src
    return ops.SINK(first.end(*end.src[1:]))


def added_twice(kernel: UOp) -> UOp:
    end = kernel.src[0]
    first, carried = end.src[0].src
    twice = carried.src[0].store(carried.src[1] + carried.src[1])
    return ops.SINK(ops.GROUP(first, twice).end(*end.src[1:]))


def without_the_last_term(kernel: UOp) -> UOp:
    """Exclude the last term of each prefix within an iteration of the outer loop."""
    (chosen,) = [n for n in toposort(kernel) if n.op is ops.LE]
    return substitute(kernel, {chosen: ops.LT(*chosen.src)})


def test_an_inner_prefix_includes_its_last_term() -> None:
    before = kernel()
    assert not holds(before, without_the_last_term(Scan("r1", 8).apply(before, GENERIC_CPU)))


@pytest.mark.parametrize("amount", [1, 8])
@pytest.mark.parametrize(
    "wrong", [read_next, initialized_by_one, reset_in_every_iteration, added_twice]
)
def test_a_wrong_scan_is_rejected(wrong: Callable[[UOp], UOp], amount: int) -> None:
    before = kernel()
    assert not holds(before, wrong(Scan("r1", amount).apply(before, GENERIC_CPU)))
