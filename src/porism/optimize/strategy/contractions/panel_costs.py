"""Panel costs: what the columns of a register tile cost, and which operands are packed for them.

An operand along the vectorized loop reads, for all k of a tile, a *panel* of the tile's columns. It
is packed if its lanes are not contiguous or need masks; or if it jumps so far from k to k that
reading it in place costs more than packing once for all rows. Windows of a convolution that overlap
share elements of a packed panel.
"""

from __future__ import annotations

from typing import NamedTuple

from porism.base.target import Target
from porism.ir.node import UOp
from porism.optimize.actions.memory.packed_panels import row_stride
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.analysis.loop_strides import extent_of, trip_count
from porism.optimize.strategy.contractions.tile_costs import (
    DEFAULT_L2,
    FAR_STRIDE,
    L2_BANDWIDTH,
    L3_BANDWIDTH,
    MAX_PREPACK_GROWTH,
    MISS_CYCLES,
    PAGE,
    STRIDE_PENALTY,
    TLB_PAGES,
    is_store_bound,
    merges_k,
    pack_cycles,
    padding_ratio,
    prefers_row_order,
    stride_penalty,
)


class Columns(NamedTuple):
    """The columns of a tile: the vectorized loop and the n loop."""

    vector_loop: UOp
    lanes: int
    register_lanes: int
    """Lanes of one register: less than a whole vector has, if the lanes are no multiple."""
    vectors: int
    """Registers for the lanes."""
    vector_cost: float
    """Cycles of an instruction on one of these registers, in those of a whole vector."""
    n_loop: UOp | None
    n: int


class _Panel(NamedTuple):
    """What an operand reads in the columns of a tile for all k."""

    stride: int | None
    """Elements from lane to lane."""
    vectors: int
    """Vectors that are loaded in an iteration of k."""
    k: int
    """Iterations of the reduction loops that the operand depends on."""
    k_stride: int
    """Bytes from one k to the next."""
    lane_taps: int
    """How many windows along the vectorized loop share an element of the panel."""
    n_taps: int
    """The same along the n loop."""
    n_rows: int
    """Rows of the panel that n overlapping windows need."""
    size: int
    """Bytes."""
    is_far: bool
    """Whether reading in place misses the L1 cache or the TLB at each k."""


def _panel(contraction: Contraction, target: Target, columns: Columns, o: Operand) -> _Panel:
    """Describe the panel of an operand for the columns of a tile."""
    n_loop, n, lanes = columns.n_loop, columns.n, columns.lanes
    vectors = columns.vectors * (n if n_loop in o.ranges else 1)
    window = o.window(columns.vector_loop, contraction.k_loops)
    lane_taps = extent_of(window[0]) if window is not None and window[1] == 1 else 1
    k = trip_count(r for r in contraction.k_loops if r in o.ranges)
    n_window = (
        o.window(n_loop, contraction.k_loops) if n_loop is not None and n_loop in o.ranges else None
    )
    n_taps = 1 if n_window is None else extent_of(n_window[0])
    n_rows = n if n_window is None else (n - 1) * n_window[1] + n_taps
    length = row_stride(lanes + lane_taps - 1, o.itemsize) if lane_taps * n_taps > 1 else lanes
    size = length * n_rows * k // (lane_taps * n_taps) * o.itemsize
    k_stride = abs(o.stride(contraction.k_loops[-1]) or 0) * o.itemsize
    exceeds_tlb = k_stride * k > TLB_PAGES * PAGE and k_stride >= 2 * lanes * o.itemsize
    is_far = (k_stride >= FAR_STRIDE or exceeds_tlb) and size > target.memory.l1 // 2
    stride = o.stride(columns.vector_loop)
    return _Panel(stride, vectors, k, k_stride, lane_taps, n_taps, n_rows, size, is_far)


class _OperandCost(NamedTuple):
    """What one operand adds to the estimate."""

    loads: float
    """Cycles of the load ports in an iteration of k."""
    bandwidth: float = 0.0
    """Cycles of moving its bytes into the L1 cache in an iteration of k."""
    packing: float | None = None
    """Cycles of packing, all in all; None if it is read in place."""
    slowdown: tuple[float, float] | None = None
    """If it is read in place, far apart: the penalty in proportion, and in cycles per k."""


class ColumnCost(NamedTuple):
    """What the columns of a tile add to the estimate, whatever its rows: sums of `_OperandCost`."""

    packed: tuple[Operand, ...]
    packing: float
    """Cycles of packing, all in all."""
    loads: float
    """Cycles of the load ports in an iteration of k."""
    bandwidth: float
    """Cycles of moving bytes into the L1 cache in an iteration of k."""
    slowdowns: list[tuple[float, float]]
    """Penalties of reading in place: in proportion to FMAs, and in cycles per k."""
    by_rows: bool
    """Whether the m loop is outside of the vectorized one."""
    is_short: bool
    """Whether the innermost reduction loop is short, but a loop."""
    outer: list[int]
    """Trip counts of the loops around the m loop, the outermost first."""
    store_bound: bool
    """Whether storing the output takes longer than the arithmetic."""


def cost_columns(
    contraction: Contraction, target: Target, columns: Columns, along: list[Operand]
) -> ColumnCost:
    """Decide which operands along the vectorized loop are packed, and add up their costs."""
    packed: list[Operand] = []
    slowdowns: list[tuple[float, float]] = []
    packing, loads, bandwidth = 0.0, 0.0, 0.0
    for o in along:
        panel = _panel(contraction, target, columns, o)
        cost = _cost_packed(contraction, target, columns, o, panel)
        if cost is None:
            cost = _cost_in_place(contraction, target, columns, o, panel)
        if cost.packing is not None:
            packed.append(o)
            packing += cost.packing
        if cost.slowdown is not None:
            slowdowns.append(cost.slowdown)
        loads += cost.loads
        bandwidth += cost.bandwidth
    vector_loop, n_loop = columns.vector_loop, columns.n_loop
    by_rows = not packed and prefers_row_order(contraction, along, vector_loop, n_loop, target)
    is_short = 4 < extent_of(contraction.k_loops[-1]) < 8 and not merges_k(contraction, packed)
    outer = _outer_trip_counts(contraction, along, columns)
    return ColumnCost(
        tuple(packed), packing, loads, bandwidth, slowdowns, by_rows, is_short, outer,
        is_store_bound(contraction, target),
    )  # fmt: skip


def _cost_packed(
    contraction: Contraction, target: Target, columns: Columns, o: Operand, panel: _Panel
) -> _OperandCost | None:
    """Return the cost of an operand if it is packed; None if that does not fit or not pay."""
    is_needed = panel.stride != 1 or o.is_masked
    limit = max(target.memory.l2, DEFAULT_L2) // 2
    if not (is_needed or panel.is_far) or panel.size > (limit * 3 // 2 if is_needed else limit):
        return None
    vector_loop, lanes, n = columns.vector_loop, columns.lanes, columns.n
    width = target.vector_bits[-1] // contraction.bits
    padding = padding_ratio(extent_of(vector_loop), lanes)
    others = [r for r in o.ranges if r is not vector_loop]
    elements = trip_count(others) * extent_of(vector_loop) * padding / panel.lane_taps
    elements *= panel.n_rows / (n * panel.n_taps)
    cycles = pack_cycles(o, panel.stride, contraction) * (0.5 + 0.5 * max(width / lanes, 0.5))
    penalty = stride_penalty(o, panel.k_stride, panel.k, contraction, target)
    is_large = o.elements * o.itemsize > target.memory.l2
    if not is_needed and penalty == STRIDE_PENALTY and is_large:
        cycles += o.itemsize / L3_BANDWIDTH  # FMAs hide that, but a copy does not
    if o.buffer in contraction.constant_buffers and padding <= MAX_PREPACK_GROWTH:
        cycles = 0.0  # it is packed once, before all calls
    if not is_needed and elements * cycles >= penalty * contraction.work / width:
        return None
    bandwidth = 0.0
    if panel.size > target.memory.l1 * 7 // 8:
        shared = n * panel.n_taps * panel.lane_taps
        distinct = panel.vectors * columns.register_lanes * panel.n_rows / shared
        bandwidth = distinct * o.itemsize / L2_BANDWIDTH
    # A vector that windows share crosses cache lines; one of a large panel comes from the L2 cache.
    is_slow = panel.lane_taps > 1 or panel.size > target.memory.l1 // 2
    loads = panel.vectors * columns.vector_cost * (2.0 if is_slow else 1.0)
    return _OperandCost(loads, bandwidth, elements * cycles)


def _cost_in_place(
    contraction: Contraction, target: Target, columns: Columns, o: Operand, panel: _Panel
) -> _OperandCost:
    """Return the cost of an operand that is read where it is."""
    if panel.stride is None or not -4 <= panel.stride <= 4:
        return _OperandCost(panel.vectors * columns.register_lanes * 1.5)  # element by element
    if panel.stride != 1:
        return _OperandCost(panel.vectors * 4.0)  # shuffled out of wide loads
    loads = panel.vectors * columns.vector_cost * (1.5 if o.is_masked else 1.0)
    l2 = max(target.memory.l2, DEFAULT_L2)
    read = panel.vectors * columns.register_lanes * o.itemsize
    if panel.is_far:
        bandwidth = read / (L3_BANDWIDTH if panel.size > l2 // 2 else L2_BANDWIDTH)
        penalty = stride_penalty(o, panel.k_stride, panel.k, contraction, target)
        is_large = o.elements * o.itemsize > target.memory.l2
        misses = MISS_CYCLES if is_large and penalty > STRIDE_PENALTY else 0.0
        return _OperandCost(loads, bandwidth, slowdown=(penalty, misses))
    if panel.size > target.memory.l1:
        return _OperandCost(loads, read / (L3_BANDWIDTH if panel.size > l2 else L2_BANDWIDTH))
    return _OperandCost(loads)


def _outer_trip_counts(
    contraction: Contraction, along: list[Operand], columns: Columns
) -> list[int]:
    """Return the trip counts of the loops around the m loop of a tile, the outermost first."""
    parts = {columns.vector_loop: columns.lanes, columns.n_loop: columns.n}
    return [
        -(-extent_of(r) // parts.get(r, 1))
        for r in contraction.outputs
        if extent_of(r) > parts.get(r, 1) and any(r in o.ranges for o in along)
    ]
