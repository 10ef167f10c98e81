"""Column reductions: sums over the rows of a matrix, k-blocked in panels of columns.

    for panel of columns:                          parallel
        t[panel] = 0                               partial sums in the L1 cache
        for block of 8 rows:
            for 16 columns of the panel:           vectorized
                t += row 0 + … + row 7             unrolled
        result[panel] = t

Along the contiguous loop of the output such a reduction reads contiguous elements, and from one of
its iterations to the next it jumps by a row or more. With accumulators in registers, only a short
piece of each row would be read before the next row; so a panel of many columns is summed for a few
rows at a time, with partial sums in a local buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.errors import ActionError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.actions.loops.loop_tiling import Split
from porism.optimize.actions.loops.reduction_blocking import Block
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.analysis.loop_strides import (
    access_stride,
    extent_of,
    is_unscheduled,
    lanes_of_widest_type,
    loads_for,
    nodes_inside,
    shared_k_loops,
    single_nest,
    stores_of,
    trip_count,
)
from porism.optimize.strategy.action_plan import Plan

HALF_VECTORS: Final = (8, 6, 10, 12, 4, 14, 5, 7)
"""Half vectors of columns in a register tile, the best first (measured)."""

PADDED_HALF_VECTORS: Final = (8, 16, 32, 64)
"""Half vectors to a multiple of which columns are padded, where none of those divides them."""

MAX_PADDING: Final = 8
"""Padded columns, at most, are the columns divided by this (chosen by hand)."""

MAX_PANEL: Final = 4096
"""Columns of a panel of 32-bit sums, at most: 16 KiB, half of a usual L1 cache."""

MAX_ROWS: Final = 8
"""Rows of a block, at most (measured)."""


@dataclass(frozen=True, slots=True)
class ColumnPanels:
    """How the columns of a matrix are reduced in panels."""

    vector_loop: UOp
    """The loop over the columns."""
    lanes: int
    groups: int
    """Groups of lanes in a panel."""
    k_loop: UOp
    """The loop over the rows."""
    multiple: int
    """What the columns are padded to a multiple of."""
    rows: int
    """Rows of a block."""


@dataclass(frozen=True, slots=True)
class _ColumnReductions:
    """The loops of a kernel that reduces the columns of matrices, and what it loads."""

    vector_loop: UOp
    k_loop: UOp
    outer_trips: int
    """The trip count of the other output loops."""
    count: int
    """The number of reductions."""
    loads: Sequence[UOp]
    """The loads of the reductions that depend on the loop over the columns."""
    width: int
    """Lanes of a vector of the widest type."""

    @property
    def itemsize(self) -> int:
        """Bytes of the widest element that is loaded."""
        return max(n.dtype.numpy.itemsize for n in self.loads)


def choose_column_panels(kernel: UOp, target: Target) -> ColumnPanels | None:
    """Return the panels for a kernel that reduces columns; None of another kernel."""
    result = _match_column_reductions(kernel, target)
    if result is None or not _profits_from_panels(result, target):
        return None
    columns = extent_of(result.vector_loop)
    rows = _rows_per_block(extent_of(result.k_loop))
    max_columns = MAX_PANEL * 4 // (result.itemsize * result.count)
    for lanes, multiple in _lane_choices(columns, result.width // 2):
        count = -(-columns // multiple) * multiple // lanes
        groups = _groups_per_panel(count, result.outer_trips, max_columns // lanes, target.cores)
        if groups > 1:
            return ColumnPanels(result.vector_loop, lanes, groups, result.k_loop, multiple, rows)
    return None


def _match_column_reductions(kernel: UOp, target: Target) -> _ColumnReductions | None:
    """Return the column reductions of a kernel that can be vectorized; None of another kernel."""
    end = single_nest(kernel)
    if end is None or target.block:
        return None
    nodes = nodes_inside(end)
    reductions = [n for n in nodes if n.op is ops.REDUCE]
    k_loops = shared_k_loops(reductions)
    width = lanes_of_widest_type(nodes, target)
    if len(k_loops) != 1 or width < 2:
        return None
    vector_loop = next((r for r in end.src[1:] if _is_contiguous_output(end, r)), None)
    if vector_loop is None or not all(map(is_unscheduled, (vector_loop, *k_loops))):
        return None
    loads = _loads_of_rows(reductions, vector_loop, k_loops[0])
    if not loads:
        return None
    outer_trips = trip_count(r for r in end.src[1:] if r is not vector_loop)
    return _ColumnReductions(vector_loop, k_loops[0], outer_trips, len(reductions), loads, width)


def _profits_from_panels(result: _ColumnReductions, target: Target) -> bool:
    """Return whether columns exceed the registers and loads the L2 cache, for many rows."""
    in_registers = target.memory.registers // 2 * result.width
    loaded = trip_count(result.loads[0].ranges) * result.itemsize
    return (
        extent_of(result.vector_loop) > in_registers
        and loaded > target.memory.l2
        and extent_of(result.k_loop) >= 2 * MAX_ROWS
    )


def _rows_per_block(extent: int) -> int:
    """Return the rows of a block: a divisor of all rows, if one is large enough."""
    rows = max(n for n in range(1, MAX_ROWS + 1) if extent % n == 0)
    return rows if 2 * rows > MAX_ROWS else MAX_ROWS


def _lane_choices(columns: int, half: int) -> Iterator[tuple[int, int]]:
    """Yield lanes of a register tile, and the multiple that the columns are padded to for them."""
    for halves in HALF_VECTORS:
        if columns % (halves * half) == 0:
            yield halves * half, halves * half
    for halves in PADDED_HALF_VECTORS:
        multiple = halves * half
        if -columns % multiple * MAX_PADDING <= columns:
            yield PADDED_HALF_VECTORS[0] * half, multiple


def _is_contiguous_output(end: UOp, loop: UOp) -> bool:
    """Return whether all stores are contiguous along a loop."""
    return all(
        s.op is ops.STORE and access_stride(s.src[0].src[1], loop) == 1 for s in stores_of(end)
    )


def _loads_of_rows(reductions: Sequence[UOp], vector_loop: UOp, k_loop: UOp) -> list[UOp]:
    """Return the loads of reductions along the columns; [] if one of them does not read rows."""
    loads = [n for s in reductions for n in loads_for(s.src[0]) if vector_loop in n.ranges]
    return loads if all(_reads_rows(n, vector_loop, k_loop) for n in loads) else []


def _reads_rows(load: UOp, vector_loop: UOp, k_loop: UOp) -> bool:
    """Return whether a load is contiguous along a loop, and jumps by a row or more along k."""
    along, across = access_stride(load.src[1], vector_loop), access_stride(load.src[1], k_loop)
    return along == 1 and across is not None and abs(across) >= extent_of(vector_loop)


def _groups_per_panel(count: int, others: int, most: int, cores: int) -> int:
    """Return the most groups of lanes in a panel, of all `count`, with equal work for all cores."""
    divisors = [n for n in range(1, min(count, most) + 1) if count % n == 0]
    balanced: Sequence[int] = [n for n in divisors if others * (count // n) % cores == 0]
    return max(balanced, default=1)


def apply_column_panels(plan: Plan, panels: ColumnPanels) -> Plan | None:
    """Return a copy of the plan with the actions of panels; None if one of them is illegal."""
    trial = plan.copy()
    axis, k_axis = show(panels.vector_loop), show(panels.k_loop)
    try:
        trial.pad(axis, panels.multiple)
        trial.do(Upcast(axis, panels.lanes))
        inner = f"{axis}_0"
        if panels.groups < extent_of(trial.loop(inner)):
            trial.do(Split(inner, panels.groups))
            inner = f"{inner}_1"
        trial.do(Block(k_axis, panels.rows, inner))
        trial.do(Unroll(f"{k_axis}_1", panels.rows))
    except ActionError:  # the kernel has more in it than was looked at
        return None
    return trial
