"""Column cost: what the columns of a tile cost, and which operands are packed for them.

An operand along the vectorized loop reads, for all k of a tile, a *panel* of the tile's columns. It
is packed if its lanes are not contiguous or need masks; or if it jumps so far from k to k that
reading it in place costs more than packing once for all rows. Windows of a convolution that overlap
share elements of a packed panel. All costs are in slots (`core_rates`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from porism.base.target import Target
from porism.ir.node import UOp
from porism.optimize.actions.memory.packed_panels import ROW_ALIGNMENT, row_stride
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.analysis.loop_strides import extent_of, is_near, trip_count
from porism.optimize.model.core_rates import core_rates

OPERAND_REGISTERS: Final = 8
"""Vector registers that hold no accumulators, but operands, some of them loaded early."""

EARLY_LOADS: Final = 4
"""Registers of vectors that LLVM loads before the last ones are used (read from its assembly)."""

FAR_STRIDE: Final = 1024
"""Bytes from one k to the next, from which on reading in place is slower than reading a panel."""

CONFLICT_PENALTY: Final = 0.3
"""Slowdown, in proportion, of reading in place a stride that exceeds the cache's associativity."""

STRIDE_PENALTY: Final = 0.04
"""Slowdown, in proportion, of reading in place any other far stride."""

SHORT_K: Final = 128
"""Reduction length up to which storing the results takes longer than reading operands again."""

MAX_PREPACK_GROWTH: Final = 1.25
"""Size of a pre-packed constant, at most, in sizes of the constant: panels have padding."""

COPY, GATHER, WINDOW = 0.2, 0.8, 0.65
"""Slots to pack an element: of contiguous rows, of others or under a mask, and of each window."""


class Columns(NamedTuple):
    """The columns of a tile: the vectorized loop, the n loop, and what is merged with them."""

    vector_loop: UOp
    lanes: int
    n_loop: UOp | None = None
    n: int = 1
    flattened_loop: UOp | None = None
    flattened: int = 1
    is_transposed: bool = False
    shared_loop: UOp | None = None
    shared: int = 1


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


class OperandCost(NamedTuple):
    """What one operand along the vectorized loop adds to the estimate."""

    loads: float
    """Slots of the load ports in an iteration of k."""
    bandwidth: float = 0.0
    """Slots of moving its bytes into the L1 cache in an iteration of k."""
    packing: float | None = None
    """Slots of packing, all in all; None if it is read in place."""
    penalty: float = 0.0
    """Slowdown of the arithmetic, in proportion."""
    misses: float = 0.0
    """Slots of cache misses in an iteration of k."""
    reading: float = 0.0
    """Slots of reading all of it once from the last cache, by each core that needs all of it."""


class ColumnCost(NamedTuple):
    """What the columns of a tile add to the estimate, whatever its rows."""

    register_lanes: int
    """Lanes of one register: less than a whole vector has, if the lanes are no multiple."""
    vectors: int
    """Registers for all columns of a row."""
    vector_cost: float
    """Slots of a multiply-add on one of these registers."""
    padding: float
    """Computed columns in stored ones."""
    packed: tuple[Operand, ...]
    packing: float
    """Slots of packing, and of reading from the last cache what is not packed."""
    loads: float
    bandwidth: float
    penalties: float
    """Slowdowns of the arithmetic, in proportion."""
    misses: float
    by_rows: bool
    """Whether the m loop is outside of the vectorized one."""
    outer: list[int]
    """Trip counts of the loops around the m loop, the outermost first."""


class ColumnCosts:
    """The costs of columns of one contraction; each is computed once."""

    def __init__(self, nest: Contraction, target: Target) -> None:
        self.nest = nest
        self.rates = rates = core_rates(target)
        self.width = rates.vector_bits // nest.bits
        self.accumulators = (rates.registers - OPERAND_REGISTERS) // nest.reductions
        """The most registers for the sums of one reduction."""
        self.stored = nest.results * nest.bits // 8
        self.is_store_bound = nest.k <= SHORT_K and self.stored * 2 >= rates.last_cache
        self._columns: dict[tuple[Columns, tuple[Operand, ...] | None], ColumnCost | None] = {}

    def floor(self, columns: Columns) -> float:
        """Return slots that no tile of some columns takes less than: those of multiply-adds."""
        register_lanes = min(math.gcd(columns.lanes, 4 * self.width), self.width)
        vector_cost = self.rates.vector_cost(register_lanes * self.nest.bits)
        return self.nest.work * column_padding(columns) * vector_cost / register_lanes

    def columns(
        self, columns: Columns, packed: tuple[Operand, ...] | None = None
    ) -> ColumnCost | None:
        """Return the cost of columns with some operands packed, or with those that it pays for.

        None if a panel that is needed does not fit.
        """
        key = columns, packed
        if key not in self._columns:
            self._columns[key] = self._cost_columns(columns, packed)
        return self._columns[key]

    def _cost_columns(
        self, columns: Columns, packed: tuple[Operand, ...] | None
    ) -> ColumnCost | None:
        nest, lanes = self.nest, columns.lanes
        register_lanes = min(math.gcd(lanes, 4 * self.width), self.width)
        vector_cost = self.rates.vector_cost(register_lanes * nest.bits)
        vectors = lanes // register_lanes
        along = [o for o in nest.operands if columns.vector_loop in o.ranges]
        if columns.flattened_loop is not None:
            costs = [self._flattened(columns, o, vectors * vector_cost) for o in along]
        elif columns.is_transposed:
            return self._transposed(columns, along[0], register_lanes, vectors, vector_cost, packed)
        else:
            costs = [
                self._operand(columns, o, register_lanes, vectors, vector_cost, packed)
                for o in along
            ]
        chosen = tuple(o for o, c in zip(along, costs, strict=True) if c.packing is not None)
        loops = columns.vector_loop, columns.n_loop
        by_rows = not chosen and self.prefers_row_order(along, *loops)
        return ColumnCost(
            register_lanes,
            vectors * columns.n,
            vector_cost,
            column_padding(columns),
            chosen,
            sum((c.packing or 0.0) + c.reading for c in costs),
            sum(c.loads for c in costs),
            sum(c.bandwidth for c in costs),
            sum(c.penalty for c in costs),
            sum(c.misses for c in costs),
            by_rows,
            self._outer_trip_counts(along, columns),
        )

    def _operand(
        self, columns: Columns, o: Operand, register_lanes: int, vectors: int, vector_cost: float,
        packed: tuple[Operand, ...] | None,
    ) -> OperandCost:  # fmt: skip
        """Return the cost of an operand, packed or in place."""
        panel = self._panel(columns, o, vectors * (columns.n if columns.n_loop in o.ranges else 1))
        if packed is None or o in packed:
            cost = self._packed(columns, o, panel, register_lanes, vector_cost, packed is not None)
            if cost is not None:
                return cost
        return self._in_place(o, panel, register_lanes, vector_cost)

    def _panel(self, columns: Columns, o: Operand, vectors: int) -> _Panel:
        """Describe the panel of an operand for the columns of a tile."""
        nest, rates = self.nest, self.rates
        n_loop, n, lanes = columns.n_loop, columns.n, columns.lanes
        window = o.window(columns.vector_loop, nest.k_loops)
        lane_taps = extent_of(window[0]) if window is not None and window[1] == 1 else 1
        k = trip_count(r for r in nest.k_loops if r in o.ranges)
        n_window = (
            o.window(n_loop, nest.k_loops) if n_loop is not None and n_loop in o.ranges else None
        )
        n_taps = 1 if n_window is None else extent_of(n_window[0])
        n_rows = n if n_window is None else (n - 1) * n_window[1] + n_taps
        length = row_stride(lanes + lane_taps - 1, o.itemsize) if lane_taps * n_taps > 1 else lanes
        size = length * n_rows * k // (lane_taps * n_taps) * o.itemsize
        k_stride = abs(o.stride(nest.k_loops[-1]) or 0) * o.itemsize
        exceeds_tlb = k_stride * k > rates.tlb_bytes and k_stride >= 2 * lanes * o.itemsize
        is_far = (k_stride >= FAR_STRIDE or exceeds_tlb) and size > rates.l1 // 2
        stride = o.stride(columns.vector_loop)
        return _Panel(stride, vectors, k, k_stride, lane_taps, n_taps, n_rows, size, is_far)

    def _packed(
        self, columns: Columns, o: Operand, panel: _Panel, register_lanes: int, vector_cost: float,
        is_decided: bool,
    ) -> OperandCost | None:  # fmt: skip
        """Return the cost of an operand if it is packed; None if that does not fit or not pay."""
        nest, rates = self.nest, self.rates
        is_needed = panel.stride != 1 or o.is_masked
        if panel.size > rates.l2 // 2 or not (is_needed or panel.is_far or is_decided):
            return None
        vector_loop, lanes, n = columns.vector_loop, columns.lanes, columns.n
        padding = padding_ratio(extent_of(vector_loop), lanes)
        others = [r for r in o.ranges if r is not vector_loop]
        elements = trip_count(others) * extent_of(vector_loop) * padding / panel.lane_taps
        elements *= panel.n_rows / (n * panel.n_taps)
        slots = self._pack_slots(o, panel.stride) * (0.5 + 0.5 * max(self.width / lanes, 0.5))
        penalty = self._stride_penalty(o, panel)
        is_large = o.elements * o.itemsize > rates.l2
        if not is_needed and is_large:
            slots += o.itemsize / rates.l3_bytes  # FMAs hide that, but a copy does not
        if o.buffer in nest.constant_buffers and padding <= MAX_PREPACK_GROWTH:
            slots = 0.0  # it is packed once, before all calls
        pays = elements * slots < penalty * nest.work / self.width
        if not (is_needed or is_decided or pays):
            return None
        bandwidth = 0.0
        if panel.size > rates.l1 * 7 // 8:
            shared = n * panel.n_taps * panel.lane_taps
            distinct = panel.vectors * register_lanes * panel.n_rows / shared
            bandwidth = distinct * o.itemsize / rates.l2_bytes
        # A vector that windows share crosses cache lines; a large panel comes from the L2 cache.
        is_slow = panel.lane_taps > 1 or panel.size > rates.l1 // 2
        loads = panel.vectors * vector_cost * rates.load * (2.0 if is_slow else 1.0)
        return OperandCost(loads, bandwidth, elements * slots)

    def _in_place(
        self, o: Operand, panel: _Panel, register_lanes: int, vector_cost: float
    ) -> OperandCost:
        """Return the cost of an operand that is read where it is."""
        rates = self.rates
        if not is_near(panel.stride):
            return OperandCost(panel.vectors * register_lanes * 3 * rates.broadcast)
        if panel.stride != 1:
            return OperandCost(panel.vectors * 4.0)  # shuffled out of wide loads
        loads = panel.vectors * vector_cost * rates.load
        read, size = panel.vectors * register_lanes * o.itemsize, o.elements * o.itemsize
        reading = size / rates.l3_bytes if size > rates.l2 else 0.0
        if panel.is_far:
            bandwidth = read / (rates.l3_bytes if panel.size > rates.l2 // 2 else rates.l2_bytes)
            penalty = self._stride_penalty(o, panel)
            misses = rates.miss if size > rates.l2 and penalty > STRIDE_PENALTY else 0.0
            return OperandCost(loads, bandwidth, None, penalty, misses, reading)
        if panel.size > rates.l1:
            bandwidth = read / (rates.l3_bytes if panel.size > rates.l2 else rates.l2_bytes)
            return OperandCost(loads, bandwidth, reading=reading)
        return OperandCost(loads, reading=reading)

    def _stride_penalty(self, o: Operand, panel: _Panel) -> float:
        """Return the slowdown, in proportion, of reading an operand in place, far from k to k."""
        exceeds_cache = o.elements * o.itemsize + self.stored > self.rates.last_cache // 2
        is_slow = exceeds_cache or self.rates.has_set_conflicts(panel.k_stride, panel.k)
        return CONFLICT_PENALTY if is_slow else STRIDE_PENALTY

    def _pack_slots(self, o: Operand, stride: int | None) -> float:
        """Return the slots to pack one element, given its stride along the vectorized loop.

        Rows are copied as vectors; what is contiguous along k is transposed in registers; small
        strides are shuffled out of wide loads; and all else is copied element by element.
        """
        if stride == 1:
            return GATHER if o.is_masked else COPY
        if any(o.stride(r) == 1 for r in self.nest.k_loops):
            return WINDOW
        return GATHER if is_near(stride) else 2 * GATHER

    def _flattened(self, columns: Columns, o: Operand, loads: float) -> OperandCost:
        """Return the cost of an operand of which the windows of some rows are packed."""
        assert columns.flattened_loop is not None, "a flattened tile"
        rows = padding_ratio(extent_of(columns.flattened_loop), columns.flattened)
        packing = o.elements * rows * (WINDOW if o.is_masked else WINDOW / 2)
        bytes_read = columns.lanes * o.itemsize
        is_beyond_l1 = bytes_read * self.nest.k > self.rates.l1 // 2
        bandwidth = bytes_read / self.rates.l2_bytes if is_beyond_l1 else 0.0
        return OperandCost(loads * self.rates.load, bandwidth, packing)

    def _transposed(
        self, columns: Columns, constant: Operand, register_lanes: int, vectors: int,
        vector_cost: float, packed: tuple[Operand, ...] | None,
    ) -> ColumnCost | None:  # fmt: skip
        """Return the cost of columns of a constant whose results are transposed."""
        rates, lanes = self.rates, columns.lanes
        panels = extent_of(columns.vector_loop) // lanes
        panel_bytes = lanes * self.nest.k * constant.itemsize
        source = rates.l2_bytes if panel_bytes <= rates.l2 // 2 else rates.l3_bytes
        windows = next((o for o in packed or () if o is not constant), None)
        copies = rates.cores if panels % rates.cores == 0 else panels
        packing = 0.0
        if windows is not None:
            elements = window_elements(self.nest, windows, columns.shared_loop, columns.shared)
            packing = elements * GATHER * copies
        return ColumnCost(
            register_lanes, vectors, vector_cost, 1.0, packed or (), packing,
            vectors * rates.load, lanes * constant.itemsize / source, 0.0, 0.0, False,
            [panels],
        )  # fmt: skip

    def prefers_row_order(self, along: list[Operand], vector_loop: UOp, n_loop: UOp | None) -> bool:
        """Return whether the m loop belongs outside of the vectorized one, to store whole rows.

        It does if k is short and what all columns read stays in the L2 cache from row to row.
        """
        if self.nest.k > SHORT_K:
            return False
        loops = [
            [r for r in o.ranges if r in self.nest.k_loops or r in (vector_loop, n_loop)]
            for o in along
        ]
        read = sum(trip_count(own) * o.itemsize for own, o in zip(loops, along, strict=True))
        return read <= 2 * self.rates.l2

    def _outer_trip_counts(self, along: list[Operand], columns: Columns) -> list[int]:
        """Return the trip counts of the loops around the m loop of a tile, the outermost first."""
        parts = {
            columns.vector_loop: columns.lanes,
            columns.n_loop: columns.n,
            columns.flattened_loop: columns.flattened,
        }
        if columns.flattened_loop is not None:
            parts[columns.vector_loop] = extent_of(columns.vector_loop)
        return [
            -(-extent_of(r) // parts.get(r, 1))
            for r in self.nest.outputs
            if extent_of(r) > parts.get(r, 1) and any(r in o.ranges for o in along)
        ]


# -- extents ---------------------------------------------------------------------------------------


def trips(loop: UOp | None) -> int:
    """Return the iterations of a loop; 1 of none."""
    return 1 if loop is None else extent_of(loop)


def padding_ratio(extent: int, part: int) -> float:
    """Return the iterations of all parts, the last one padded, divided by those of the loop.

    >>> padding_ratio(12, 8)
    1.3333333333333333
    """
    return -(-extent // part) * part / extent


def column_padding(columns: Columns) -> float:
    """Return the computed columns in stored ones."""
    extent = extent_of(columns.vector_loop)
    if columns.flattened_loop is None:
        return padding_ratio(extent, columns.lanes)
    rows = padding_ratio(extent_of(columns.flattened_loop), columns.flattened)
    return rows * padding_ratio(columns.flattened * extent, columns.lanes)


def flattened_panel_bytes(nest: Contraction, o: Operand, rows: int, columns: int) -> int:
    """Return the bytes of all windows of some rows, each row of them from a cache line on."""
    line = ROW_ALIGNMENT // o.itemsize
    return -(-rows * columns // line) * ROW_ALIGNMENT * nest.k


def spills(accumulators: int, vectors: int, broadcasts: int, registers: int) -> bool:
    """Return whether a tile of several rows keeps accumulators in memory, and is slow.

    LLVM loads the vectors of one k before the rows use them, and then the rows' scalars, some of
    them early: many scalars, or many vectors, leave too few registers to the accumulators.
    """
    if min(vectors, broadcasts) < 2:  # operands of instructions, in no register
        return False
    return accumulators + max(vectors + EARLY_LOADS, broadcasts) > registers


# -- loops of the reduction ------------------------------------------------------------------------


def merges_k(nest: Contraction, packed: Sequence[Operand]) -> bool:
    """Return whether all reduction loops can be merged into one without divisions.

    Panels are packed in the order of these loops; any other operand has to lie like that already.
    """
    return all(o in packed or _has_mergeable_k(o, nest) for o in nest.operands)


def _has_mergeable_k(operand: Operand, nest: Contraction) -> bool:
    """Return whether each reduction loop continues where the one inside of it has ended."""
    for outer, inner in zip(nest.k_loops, nest.k_loops[1:], strict=False):
        stride = operand.stride(inner)
        is_continued = stride is not None and operand.stride(outer) == stride * extent_of(inner)
        if not is_continued or operand.is_masked:
            return False
    return True


def peels_k(nest: Contraction, k_loop: UOp, lanes: int) -> bool:
    """Return whether the last iterations of k, fewer than the lanes, get a loop of their own."""
    k = extent_of(k_loop)
    return len(nest.k_loops) == 1 and lanes < k and k % lanes > 0


def windows_of_own_taps(nest: Contraction, o: Operand) -> dict[UOp, tuple[UOp, int]] | None:
    """Return the window of an operand along each of its output loops: its taps, and its stride.

    None if it has no window along one of them, or if two windows have the same taps.
    """
    windows = {}
    for loop in nest.outputs:
        if loop in o.ranges:
            window = o.window(loop, nest.k_loops)
            if window is None:
                return None
            windows[loop] = window
    return windows if len({tap for tap, _ in windows.values()}) == len(windows) else None


def window_elements(nest: Contraction, o: Operand, shared_loop: UOp | None, shared: int) -> int:
    """Return the elements of all packed copies, each of the windows of some shared iterations."""
    windows = windows_of_own_taps(nest, o)
    assert windows is not None, "an operand that is packed for windows"
    spans = [
        ((shared if r is shared_loop else extent_of(r)) - 1) * stride + extent_of(tap)
        for r, (tap, stride) in windows.items()
    ]
    taps = {tap for tap, _ in windows.values()}
    channels = trip_count(r for r in nest.k_loops if r not in taps)
    return channels * math.prod(spans) * (trips(shared_loop) // shared)
