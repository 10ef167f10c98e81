"""Transposed copies: kernels on a GPU that read along another loop than they write.

A warp that writes neighbouring elements would read elements that are far apart, a cache line each.
So a block copies a square tile to shared memory, along what is contiguous in the buffer, and reads
it the other way round. Rows of the tile have one element more than columns, so that both ways
neighbouring threads access different banks.

    Split(i, 32), Split(j, 32), Upcast(i_1, 4), Local(i_1_0, 8), Local(j_1, 32),
    Stage(1, (j, i), 256, padding=1)
"""

from __future__ import annotations

from typing import Final

from porism.base.errors import ActionError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.optimize.actions.gpu.shared_tile import Stage
from porism.optimize.actions.gpu.thread_block_actions import Local
from porism.optimize.actions.loops.loop_tiling import Split
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.analysis.buffer_loads import buffer_number, loads_of
from porism.optimize.analysis.loop_strides import extent_of, single_nest, stores_of
from porism.optimize.strategy.gpu.thread_plan import (
    ThreadPlan,
    is_contiguous,
    name_of,
    power_below,
)

EDGE: Final = 32
"""Elements along an edge of a tile: a warp reads and writes whole cache lines."""

ROWS_EACH: Final = 4
"""Rows of a tile that one thread copies."""


def plan_transpose(kernel: UOp, target: Target) -> ThreadPlan | None:
    """Return a plan for a kernel with one nest that reads a buffer transposed; None for another."""
    end = single_nest(kernel)
    if end is None:
        return None
    stored = [s.src[0] for s in stores_of(end) if s.op is ops.STORE]
    found = _transposed_load(kernel, list(end.src[1:]), stored)
    edge = power_below(min(EDGE, target.block_threads * ROWS_EACH // EDGE))
    if found is None or edge < ROWS_EACH:
        return None
    written, read, number, position = found
    if min(extent_of(written), extent_of(read)) < edge:
        return None
    plan = ThreadPlan(kernel, target)
    try:
        _apply(plan, (name_of(written), name_of(read)), (number, position), edge)
    except ActionError:  # an index is no sum of the loops
        return None
    return plan


def _transposed_load(
    kernel: UOp, loops: list[UOp], stored: list[UOp]
) -> tuple[UOp, UOp, int, int] | None:
    """Return the contiguous loops of the stores and of a load, and which load it is."""
    along = [r for r in loops if stored and all(is_contiguous(s, r) for s in stored)]
    if not along or any(r.src[0].op is not ops.CONST for r in loops):
        return None
    for number in sorted({n for s in loads_of(kernel) if (n := buffer_number(s)) is not None}):
        for position, load in enumerate(loads_of(kernel, number)):
            for loop in loops:
                reads_across = along[0] in load.ranges and not is_contiguous(load, along[0])
                if loop is not along[0] and reads_across and is_contiguous(load, loop):
                    return along[0], loop, number, position
    return None


def _apply(plan: ThreadPlan, axes: tuple[str, str], load: tuple[int, int], edge: int) -> None:
    """Apply the actions; raise ActionError where one is not legal."""
    written, read = axes
    inner = []
    for axis in (read, written):
        plan.pad(axis, edge)
        if plan.extent(axis) > edge:
            plan.do(Split(axis, edge))
            axis = f"{axis}_1"
        inner.append(axis)
    rows, columns = inner
    plan.do(Upcast(rows, ROWS_EACH, top=True))
    plan.do(Local(f"{rows}_0", edge // ROWS_EACH))
    plan.do(Local(columns, edge))
    across = f"{edge // ROWS_EACH}*{rows}_1+{rows}_0_1"
    threads = edge * edge // ROWS_EACH
    plan.do(Stage(load[0], (f"{columns}_1", across), threads, 1, 1, load[1]))
