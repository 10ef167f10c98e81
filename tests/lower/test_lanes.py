"""Lane ranges: the range whose vectors save most becomes vector lanes."""

from __future__ import annotations

import numpy as np
import pytest

import porism
from porism.base.target import GENERIC_CPU
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.lower.expand import expand
from porism.optimize.actions.action import apply_all
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.pipeline import unscheduled_kernel


def accesses(kernel: UOp, *, contiguous: bool) -> int:
    """Count the vector accesses that are contiguous, or those with an index for each lane."""
    vectors = [n for n in toposort(expand(kernel, 8)) if n.op is ops.INDEX and n.dtype.count > 1]
    return sum((n.src[1].dtype.count == 1) is contiguous for n in vectors)


@pytest.mark.parametrize("order", ["rows first", "lanes first"])
def test_few_contiguous_loads_do_not_decide_the_lanes(order: str) -> None:
    """Three vectors along the rows are loaded once, and the operand in each iteration of k."""
    a, b = (porism.asarray(np.ones(s, np.float32)) for s in ((32, 64), (64, 48)))
    offset, scale, shift = (porism.asarray(np.ones((32, 1), np.float32)) for _ in range(3))
    (kernel,) = porism.kernels((a @ b - offset) * scale + shift)
    actions = [Upcast("r0", 8), Upcast("r1", 8)]
    if order == "lanes first":
        actions.reverse()
    loops = unscheduled_kernel(kernel.node, GENERIC_CPU)
    tiled = apply_all(loops, actions, GENERIC_CPU)
    assert accesses(tiled, contiguous=True) > 0
    assert accesses(tiled, contiguous=False) == 0


def test_a_store_counts_more_than_loads_that_can_be_transposed() -> None:
    """A transposed matrix times a vector along its rows, which are columns of the result."""
    x, scale = (porism.asarray(np.ones(s, np.float32)) for s in ((16, 32), (16, 1)))
    (kernel,) = porism.kernels((x.T * scale.T).reshape(32, 16))
    loops = unscheduled_kernel(kernel.node, GENERIC_CPU)
    tiled = apply_all(loops, [Upcast("r0", 8), Upcast("r1", 8)], GENERIC_CPU)
    stored = [n.src[0] for n in toposort(expand(tiled, 8)) if n.op is ops.STORE]
    assert stored
    assert all(address.src[1].dtype.count == 1 for address in stored)


@pytest.mark.parametrize(("row", "lanes"), [(10, 8), (6, 8), (8, 8)])
def test_arithmetic_is_on_whole_vectors_where_rows_are_short(row: int, lanes: int) -> None:
    """Rows of 10 elements are loaded in pairs: exponentials of pairs would be 4 times as many."""
    x = porism.asarray(np.ones((32, row), np.float32))
    (kernel,) = porism.kernels(porism.exp2(x).sum(-1))
    loops = unscheduled_kernel(kernel.node, GENERIC_CPU)
    actions = [Upcast("r0", 16), Unroll("r1", row)]
    expanded = expand(apply_all(loops, actions, GENERIC_CPU), 8)
    exponentials = [n for n in toposort(expanded) if n.op is ops.EXP2]
    assert {n.dtype.count for n in exponentials} == {lanes}
    assert len(exponentials) == 16 * row // lanes
