"""Expand: a vector has the lanes of one range, and loads come after the stores they read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from porism.base.dtypes import Space, i32
from porism.base.errors import LevelError
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.lower import expand as module
from porism.lower.expand import expand
from porism.lower.private_memory import private_memory
from porism.rules.addresses.validity import masked
from tests.watching import Kernels, same


def check_expand(kernel: UOp) -> None:
    """Check that a kernel stores the same after `expand` as before."""
    kernels = Kernels(1, "")
    kernels.begin(kernel)
    same("expand", kernels.wanted, kernels.result(expand(kernel, 8)))


def pointer(number: int, size: int) -> UOp:
    """Return a PARAM of a kernel."""
    return UOp(ops.PARAM, i32.pointer(Space.GLOBAL, size), (), number)


def invariant_reduction(op: ops.Op, lanes: int, extent: int, factor: int = 1) -> UOp:
    """Return a kernel whose reduction does not depend on the range that it closes."""
    output, term = UOp.range(lanes, 0, Axis.UPCAST), UOp.range(extent, 1, Axis.UNROLL)
    loop = UOp.range(factor, 2, Axis.REDUCE)
    value = pointer(1, lanes).index(output, dtype=i32)
    ranges = (term,) if factor == 1 else (loop, term)
    store = pointer(0, lanes).index(output, dtype=i32).store(value.reduce(op, *ranges))
    return ops.SINK(store.end(output))


@pytest.mark.parametrize("op", [ops.ADD, ops.MAX, ops.MUL])
@pytest.mark.parametrize(("lanes", "extent"), [(8, 2), (4, 4), (8, 3), (2, 16), (1, 4), (3, 8)])
@pytest.mark.parametrize("factor", [1, 3])
def test_a_reduction_of_a_loop_invariant_value(
    op: ops.Op, lanes: int, extent: int, factor: int
) -> None:
    check_expand(invariant_reduction(op, lanes, extent, factor))


def test_a_constant_is_reduced_once_per_iteration() -> None:
    outer, inner = UOp.range(6, 0, Axis.UNROLL), UOp.range(4, 1, Axis.UNROLL)
    two = pointer(1, 1).index(UOp.const(outer.dtype, 0), dtype=i32)
    total = two.reduce(ops.ADD, inner).reduce(ops.ADD, outer)
    check_expand(ops.SINK(pointer(0, 1).index(UOp.const(outer.dtype, 0), dtype=i32).store(total)))


def test_lanes_of_two_ranges_in_one_vector_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check finds lane ranges that ignore the ranges that reductions close."""

    def all_ranges(
        order: Sequence[UOp], expanded: Sequence[UOp], *_: object, **__: object
    ) -> dict[UOp, int]:
        return dict.fromkeys(expanded, 2)

    monkeypatch.setattr(module, "lane_ranges", all_ranges)
    with settings.override(check=True), pytest.raises(LevelError, match="lanes of r0 and r1"):
        expand(invariant_reduction(ops.ADD, 8, 2), 8)


@pytest.mark.parametrize("filled", [3, 6, 7])
@pytest.mark.parametrize("copies", [2, 3, 4, 8])
def test_a_tile_of_local_memory_is_read_after_all_of_its_stores(filled: int, copies: int) -> None:
    """A local buffer of each UPCAST iteration, padded to the lanes, is reduced in lanes."""
    row, column = UOp.range(copies, 0, Axis.UPCAST), UOp.range(8, 1, Axis.UPCAST)
    term = UOp.range(8, 2, Axis.UNROLL)
    memory = UOp(ops.DEFINE_LOCAL, i32.pointer(Space.LOCAL, filled), (), 0)
    value = pointer(1, copies * 8).index(row * 8 + column, dtype=i32)
    store = memory.index(masked(column < filled, column), dtype=i32).store(value * value)
    element = memory.after(store.end(column)).index(masked(term < filled, term), dtype=i32)
    total = (term < filled).where(element, 0).reduce(ops.ADD, term)
    other = UOp.range(64, 3, Axis.UPCAST)  # the lanes of what is stored
    scaled = total * pointer(2, 64).index(other, dtype=i32)
    stored = pointer(0, copies * 64).index(row * 64 + other, dtype=i32).store(scaled)
    check_expand(private_memory(ops.SINK(stored.end(row, other))))
