"""Column panels: a few rows times a matrix that no near cache holds, k-blocked in wide panels.

    for panel of 2048 columns:                     parallel
        t[rows, panel] = 0                         partial sums in a local buffer
        for block of 8 k:
            for 16 columns of the panel:           vectorized, rows unrolled
                for k of the block: t += a[row, k] * b[k, columns]
        c[rows, panel] = t

Such a product takes the time to read the matrix once, and a core reads fastest what is contiguous.
A register tile would read a cache line or two of each row of the matrix before it goes to the next;
a panel reads as many columns of a row in sequence as it is wide. The price is that partial sums
are loaded and stored once for each block of k; they stay in the L1 cache.

It pays if the matrix takes longer to read, from the last cache or from memory, than to multiply.
Panels are compared by padding and load imbalance alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from porism.base.target import Target
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.actions.loops.loop_interchange import Move
from porism.optimize.actions.loops.loop_tiling import OverlapTail, Split
from porism.optimize.actions.loops.reduction_blocking import Block
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.actions.memory.packed_panels import Pack
from porism.optimize.analysis.buffer_loads import loads_of
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.analysis.loop_strides import extent_of
from porism.optimize.model.column_cost import OPERAND_REGISTERS
from porism.optimize.model.contraction_cost import load_imbalance
from porism.optimize.model.core_rates import core_rates
from porism.optimize.strategy.action_plan import Plan
from porism.optimize.strategy.contractions.tile_actions import parallelize_outermost, upcast
from porism.optimize.strategy.prefetch_placement import insert_prefetches

MAX_WIDTH: Final = 2048
"""Columns of a panel, about: 8 KiB of float32 from each row of the matrix."""

MIN_COLUMNS: Final = 512
"""Columns of a matrix that is read in panels, at least."""

ROW_START: Final = 128
"""Columns whose time it takes to begin to read a row of a panel."""

MIN_RUN: Final = 256
"""Bytes of each row that a tile should read together from memory (measured)."""

K_BLOCK: Final = 8
"""Iterations of k in a block: so many rows of the matrix are read in turn (measured)."""

VECTORS: Final = (1, 2, 3, 4)
"""Vectors of columns in a register tile, the best first."""

MIN_PACKED_ROWS: Final = 5
"""Rows from which on their elements of a block of k are packed: they may be far apart."""

CACHED_COPIES: Final = 2
"""A matrix of which so many fit the last cache is assumed to stay there from call to call."""


@dataclass(frozen=True, slots=True)
class Panels:
    """How a contraction is computed in panels of columns."""

    vector_loop: UOp
    """The loop over the columns."""
    lanes: int
    width: int
    """Columns of a panel."""
    m_loop: UOp | None
    """The loop over the rows, which is unrolled completely."""
    k_block: int
    """Iterations of the reduction in a block."""


def choose_panels(contraction: Contraction, target: Target) -> Panels | None:
    """Return the panels for a product of a few rows and a large matrix; None of another kernel."""
    if len(contraction.k_loops) != 1 or contraction.reductions != 1 or not target.vector_bits:
        return None
    for vector_loop in contraction.outputs:
        along = [o for o in contraction.operands if vector_loop in o.ranges]
        if len(along) != 1 or along[0].buffer in contraction.constant_buffers:  # it is pre-packed
            continue
        (matrix,) = along
        if contraction.is_stored_along(vector_loop) and _has_long_rows(matrix, vector_loop):
            m_loops = _m_loops(contraction, vector_loop, matrix)
            if m_loops is not None and _pays(contraction, matrix, _product(m_loops), target):
                return _fit_panels(contraction, matrix, vector_loop, m_loops, target)
    return None


def _has_long_rows(matrix: Operand, vector_loop: UOp) -> bool:
    """Return whether the rows of a matrix are contiguous along a loop, and long."""
    is_contiguous = not matrix.is_masked and matrix.stride(vector_loop) == 1
    return is_contiguous and extent_of(vector_loop) >= MIN_COLUMNS


def _m_loops(contraction: Contraction, vector_loop: UOp, matrix: Operand) -> list[UOp] | None:
    """Return the loop over the rows, or none of one row; None if there are several such loops.

    All other output loops have to be batch loops, which every operand depends on.
    """
    m_loops = [r for r in contraction.outputs if r is not vector_loop and r not in matrix.ranges]
    batch = [r for r in contraction.outputs if r is not vector_loop and r in matrix.ranges]
    if len(m_loops) > 1 or any(r not in o.ranges for r in batch for o in contraction.operands):
        return None
    return m_loops


def _pays(contraction: Contraction, matrix: Operand, rows: int, target: Target) -> bool:
    """Return whether a matrix that no L2 cache holds takes longer to read than to multiply.

    A register tile of few rows has so many columns that it reads memory as fast.
    """
    rates = core_rates(target)
    width = rates.vector_bits // contraction.bits
    multiplying = rows / width  # slots for an element of the matrix
    if _stays_in_cache(matrix, target):
        exceeds_l2 = matrix.elements * matrix.itemsize > rates.l2 * rates.cores // 2
        return exceeds_l2 and multiplying < matrix.itemsize / rates.l3_bytes
    tile_row = (rates.registers - OPERAND_REGISTERS) // rows * rates.vector_bits // 8
    return tile_row < MIN_RUN and multiplying < matrix.itemsize / rates.memory_bytes


def _stays_in_cache(matrix: Operand, target: Target) -> bool:
    """Return whether a matrix stays in the last cache from call to call."""
    return matrix.elements * matrix.itemsize * CACHED_COPIES <= target.memory.last_cache


def _product(loops: list[UOp]) -> int:
    return math.prod(extent_of(r) for r in loops)


def _fit_panels(
    contraction: Contraction, matrix: Operand, vector_loop: UOp, m_loops: list[UOp], target: Target
) -> Panels | None:
    """Return the panels with the least padding and load imbalance; None if none fits."""
    vector_width = target.vector_bits[-1] // contraction.bits
    rows, columns = _product(m_loops), extent_of(vector_loop)
    batch = contraction.results // (columns * rows)
    choices: list[tuple[float, int, int, int]] = []
    for rank, vectors in enumerate(VECTORS):
        if rows * vectors > target.memory.registers - OPERAND_REGISTERS:
            continue
        lanes = vectors * vector_width
        for count in range(1, 2 * target.cores * -(-columns // MAX_WIDTH) + 1):
            width = -(-columns // (count * lanes)) * lanes
            if lanes < width <= MAX_WIDTH * 9 // 8:
                waste = count * width / columns * (1 + load_imbalance(batch * count, target.cores))
                choices.append((waste * (1 + ROW_START / width), rank, lanes, width))
    if not choices or contraction.k <= K_BLOCK or vector_width < 2:
        return None
    _, _, lanes, width = min(choices)
    return Panels(vector_loop, lanes, width, m_loops[0] if m_loops else None, K_BLOCK)


def apply_panels(plan: Plan, contraction: Contraction, panels: Panels) -> None:
    """Apply the actions of column panels to a plan."""
    if panels.m_loop is not None:
        upcast(plan, panels.m_loop, extent_of(panels.m_loop))
    axis, columns = show(panels.vector_loop), extent_of(panels.vector_loop)
    if panels.width < columns:
        split = OverlapTail if columns % panels.width else Split
        plan.do(split(axis, panels.width))
        axis = f"{axis}_1"
        plan.do(Upcast(axis, panels.lanes))
    else:
        upcast(plan, panels.vector_loop, panels.lanes)
    inner = f"{axis}_0"
    ranges = plan.kernel.src[0].src[1:]
    outermost = next(r for r in ranges if r.arg[1] is Axis.LOOP)
    if outermost is not ranges[0]:
        plan.do(Move(show(outermost), show(ranges[0])))
    (k_loop,) = contraction.k_loops
    plan.do(Block(show(k_loop), panels.k_block, inner))
    if panels.m_loop is not None and extent_of(panels.m_loop) >= MIN_PACKED_ROWS:
        _pack_rows(plan, contraction, panels.m_loop, f"{show(k_loop)}_1")
    if show(outermost) != inner:
        parallelize_outermost(plan)
    insert_prefetches(plan)


def _pack_rows(plan: Plan, contraction: Contraction, m_loop: UOp, k_axis: str) -> None:
    """Pack what all rows read in a block of k, so that it is contiguous."""
    k_loop = plan.loop(k_axis)
    for operand in contraction.operands:
        if m_loop not in operand.ranges:
            continue
        for which, load in enumerate(loads_of(plan.kernel, operand.buffer)):
            unrolled = [r for r in load.ranges if r.arg[1] is Axis.UPCAST]
            if k_loop in load.ranges and len(unrolled) == 1:
                plan.attempt(Pack(operand.buffer, (show(unrolled[0]), k_axis), which))
                break
