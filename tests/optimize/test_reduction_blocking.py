"""Reduction blocking: blocks of k, by hand and by the heuristic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.dtypes import f32
from porism.base.errors import ActionError
from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU, Target
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.loops.loop_interchange import Move, Swap
from porism.optimize.actions.loops.loop_tiling import OverlapTail, Split
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.reduction_blocking import Block
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.actions.memory.packed_panels import Pack
from porism.optimize.strategy import heuristic
from porism.pipeline import unscheduled_kernel
from tests.optimize.programs import kernel_of, values

PRODUCT = [
    [Block("r2", 8, "r1")],
    [Block("r2", 1, "r0")],
    [Block("r2", 8, "r0"), Upcast("r1", 16), Unroll("r2_1", 8)],
    [Upcast("r1", 16), Block("r2", 8, "r1_1"), Thread("r0")],
    [Upcast("r1", 16), Block("r2", 8, "r1_0"), Upcast("r0", 4)],
    [OverlapTail("r0", 5), Upcast("r0_1", 5), Block("r2", 4, "r1")],
    [Block("r2", 4, "r0"), OverlapTail("r0", 5), Upcast("r0_1", 5)],
    [Block("r2", 8, "r0"), Swap("r0", "r1")],
    [Pack(2, ("r2", "r1")), Block("r2", 8, "r1")],
    [Move("r1", "r0"), Block("r2", 8, "r0"), Pack(2, ("r2_1",)), Pack(1, ("r2_1",)),
     Thread("r1")],
    [Split("r1", 16), Block("r2", 8, "r1_1"), Upcast("r1_1", 16)],
    [Block("r2", 5, "r1")],
    [Upcast("r0", 4), Upcast("r1", 16), Block("r2", 7, "r1_0"), Unroll("r2_1", 7),
     Unroll("r2_2", 4), Thread("r0_0")],
    [Block("r2", 31, "r0"), OverlapTail("r1", 24), Upcast("r1_1", 24)],
    [Upcast("r0", 4), OverlapTail("r1", 48), Upcast("r1_1", 16), Block("r2", 5, "r1_1_0"),
     Pack(1, ("r0_1", "r2_1")), Thread("r0_0")],
]  # fmt: skip


@pytest.mark.parametrize("actions", PRODUCT, ids=str)
def test_blocking_with_other_actions_keeps_the_result(actions: list[Action]) -> None:
    kernel = kernel_of((values(12, 32) @ values(32, 64) + 1).exp())
    assert porism.opt(kernel, actions).check() < 1e-5


def test_lanes_outside_of_the_outer_loops_are_moved_inside() -> None:
    output = UOp(ops.PARAM, f32.pointer(size=24), (), 0)
    rows, columns = UOp.range(3, 0), UOp.range(8, 1)
    terms = UOp.range(4, 2, Axis.REDUCE)
    total = columns.cast(f32).reduce(ops.ADD, terms)
    kernel = ops.SINK(output.index(rows * 8 + columns).store(total).end(rows, columns))
    actions = [Upcast("r1", 4), Move("r1_1", "r0"), Block("r2", 2, "r1_0")]
    blocked = apply_all(kernel, actions, GENERIC_CPU)
    (actual,) = evaluate(blocked, {0: np.zeros(24, np.float32)})
    assert actual.tolist() == [4.0 * k for k in range(8)] * 3


def test_several_reductions_are_blocked_together() -> None:
    x = values(16, 64)
    kernel = kernel_of(x.sum(axis=0) / x.max(axis=0))
    changed = porism.opt(kernel, [Block("r1", 4, "r0")])
    assert changed.text.count("# ordered") == 1
    assert changed.check() < 1e-6


def test_each_core_has_partial_results_of_its_own() -> None:
    kernel = kernel_of(values(12, 32) @ values(32, 64))
    changed = porism.opt(kernel, [Block("r2", 8, "r1"), Thread("r0")])
    assert "# thread" in changed.text.splitlines()[0]
    with pytest.raises(ActionError, match="depend on each other"):
        porism.opt(kernel, [Block("r2", 8, "r0"), Thread("r0")])


def chain() -> UOp:
    """Return a kernel with a reduction that needs another one over the same loop."""
    i, k = UOp.range(8, 0), UOp.range(4, 1, Axis.REDUCE)
    out, read = (UOp(ops.PARAM, f32.pointer(size=n), (), p) for p, n in ((0, 8), (1, 32)))
    value = read.index(i * 4 + k)
    most = value.reduce(ops.MAX, k)
    total = (value - most).reduce(ops.ADD, k)
    return ops.SINK(out.index(i).store(total).end(i))


def test_a_reduction_that_needs_another_is_not_blocked() -> None:
    with pytest.raises(ActionError, match="one reduction over r1 needs another"):
        Block("r1", 2, "r0").apply(chain(), GENERIC_CPU)


def test_a_reduction_is_blocked_around_a_loop_that_it_depends_on() -> None:
    i, j, k = UOp.range(4, 0), UOp.range(8, 1), UOp.range(4, 2, Axis.REDUCE)
    out, read = (UOp(ops.PARAM, f32.pointer(size=n), (), p) for p, n in ((0, 32), (1, 16)))
    total = read.index(i * 4 + k).reduce(ops.ADD, k)
    kernel = ops.SINK(out.index(i * 8 + j).store(total * j.cast(f32)).end(i, j))
    with pytest.raises(ActionError, match="does not depend on r1"):
        Block("r2", 2, "r1").apply(kernel, GENERIC_CPU)


def test_only_the_outermost_reduction_axis_is_blocked() -> None:
    i, k, m = UOp.range(4, 0), UOp.range(4, 1, Axis.REDUCE), UOp.range(2, 2, Axis.REDUCE)
    out, read = (UOp(ops.PARAM, f32.pointer(size=n), (), p) for p, n in ((0, 4), (1, 32)))
    total = read.index(i * 8 + k * 2 + m).reduce(ops.ADD, k, m)
    kernel = ops.SINK(out.index(i).store(total).end(i))
    Block("r1", 2, "r0").apply(kernel, GENERIC_CPU)
    with pytest.raises(ActionError, match="inside of another loop of the reduction"):
        Block("r2", 1, "r0").apply(kernel, GENERIC_CPU)


def test_partial_results_have_a_size_limit() -> None:
    kernel = unscheduled_kernel(kernel_of(values(2048, 8) @ values(8, 1024)).node, GENERIC_CPU)
    with pytest.raises(ActionError, match="the partial results would take 8388608 bytes"):
        Block("r2", 4, "r0").apply(kernel, GENERIC_CPU)


def test_packed_operands_need_an_amount_that_divides() -> None:
    kernel = kernel_of(values(12, 32) @ values(32, 64))
    with pytest.raises(ActionError, match=r"its operands are packed[\s\S]*divides 32"):
        porism.opt(kernel, [Pack(2, ("r2",)), Block("r2", 5, "r1")])


def test_reductions_are_not_blocked_on_a_gpu() -> None:
    with pytest.raises(ActionError, match="the target is a GPU"):
        Block("r1", 2, "r0").apply(chain(), H200)


# -- where the heuristic uses them -----------------------------------------------------------------


def small_caches(l3: int = 1 << 17) -> Target:
    memory = replace(GENERIC_CPU.memory, l1=1 << 12, l2=1 << 18, l3=l3, registers=32)
    return replace(GENERIC_CPU, cores=2, vector_bits=(128, 256, 512), memory=memory)


def chosen(kernel: Any, l3: int = 1 << 17) -> tuple[Action, ...]:
    target = small_caches(l3)
    return heuristic.choose_actions(unscheduled_kernel(kernel.node, target), target)


@pytest.mark.parametrize("rows", [None, 1, 3, 7, 12])
@pytest.mark.parametrize(("k", "columns"), [(320, 1024), (321, 1100), (317, 2311)])
def test_a_few_rows_times_a_large_matrix_are_blocked(
    rows: int | None, k: int, columns: int
) -> None:
    left = values(k) if rows is None else values(rows, k)
    kernel = kernel_of(left @ values(k, columns))
    is_few = rows is None or rows <= 3  # then the last cache has to hold the matrix
    actions = chosen(kernel, 1 << 24 if is_few else 1 << 17)
    assert any(isinstance(a, Block) for a in actions)
    assert any(isinstance(a, Thread) for a in actions)
    assert any(isinstance(a, Pack) for a in actions) == (rows is not None and rows >= 5)
    assert porism.opt(kernel, actions).check() < 1e-5


def test_each_of_several_matrices_is_blocked() -> None:
    kernel = kernel_of(values(3, 1, 320) @ values(3, 320, 1024))
    actions = chosen(kernel, 1 << 24)
    assert any(isinstance(a, Block) for a in actions)
    assert porism.opt(kernel, actions).check() < 1e-5


def test_a_row_times_a_matrix_in_memory_is_not_blocked() -> None:
    """A tile of one row has sixteen vectors of columns: it reads as much of a row together."""
    assert not any(
        isinstance(a, Block) for a in chosen(kernel_of(values(1, 320) @ values(320, 1024)))
    )


def test_many_rows_are_not_blocked() -> None:
    actions = chosen(kernel_of(values(64, 320) @ values(320, 1024)))
    assert not any(isinstance(a, Block) for a in actions)


def test_a_small_matrix_is_not_blocked() -> None:
    assert not any(isinstance(a, Block) for a in chosen(kernel_of(values(8) @ values(8, 64))))


def test_a_reduction_that_an_index_needs_is_not_blocked() -> None:
    places = porism.asarray(np.arange(40).reshape(4, 10) * 7 % 50)
    kernel = kernel_of(values(50)[places.max(axis=1)])
    with pytest.raises(ActionError, match="an index is computed from the reduction"):
        porism.opt(kernel, [Block("r1", 2, "r0")])


def test_a_reduction_inside_of_another_is_not_blocked() -> None:
    """Partial results are kept for the output loops only."""
    i, j, k = UOp.range(4, 0), UOp.range(2, 1, Axis.REDUCE), UOp.range(6, 2, Axis.REDUCE)
    p0, p1 = (UOp(ops.PARAM, f32.pointer(size=n), (), k) for k, n in enumerate((4, 48)))
    rows = p1.index(i * 12 + j * 6 + k).reduce(ops.ADD, k)
    kernel = ops.SINK(p0.index(i).store(rows.reduce(ops.MAX, j)).end(i))
    with pytest.raises(ActionError, match="inside of a loop of another reduction"):
        Block("r2", 2, "r0").apply(kernel, GENERIC_CPU)
