"""Contraction cost: the cycles of a tile plan by part, from the nest, the plan and the machine.

The estimate says which plan is faster rather than how fast it is. Per iteration of the reduction
(k) it takes the largest of

- the multiply-adds: a slot for a whole vector, the unit of all that follows (`core_rates`);
- the load ports: vectors along the vectorized loop, and broadcast scalars of the other operands;
- the bytes that come from behind the L1 cache, by the bandwidth of each cache;
- the latency of a multiply-add, which bounds a tile of too few accumulators.

To these come packing, the epilogue, what is read again, and cores that wait for others. What the
machine does is in `Machine`; the constants below are of the code that is generated, and were fitted
to timings of products and convolutions (`docs/machine.md`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from porism.base.target import CACHE_LINE, Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.optimize.actions.memory.streaming_stores import MIN_STORE_BYTES
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.analysis.loop_strides import extent_of, trip_count
from porism.optimize.model.column_cost import (
    COPY,
    GATHER,
    ColumnCost,
    ColumnCosts,
    Columns,
    padding_ratio,
    peels_k,
    trips,
)
from porism.optimize.model.tile_plan import Cycles, TilePlan

ITERATION: Final = 0.5
"""Slots of an iteration of k beside its arithmetic: the loop itself, and what does not overlap."""

NOT_OVERLAPPED: Final = 0.1
"""Part of the bytes from behind the L1 cache, and of two loads, that arithmetic does not hide."""

TILE_START: Final = 10.0
"""Slots to begin a tile."""

OVERLAPPED_VECTORS: Final = 8
"""Vectors of results whose epilogue is executed beside the begin of the next tile."""

CONVERSION: Final = 1.0
"""Slots to convert or to mask a scalar before it is broadcast."""

MAX_IMBALANCE: Final = 0.1
"""Load imbalance that is accepted: how much longer than the average the last core works."""

CHUNKS_PER_CORE: Final = 4
"""Chunks of a parallel loop for each core, of which a core that is done takes the next."""

MIN_COPIED: Final = 4
"""Contiguous elements that packing copies as a vector, at least."""

TRANSPOSE: Final = 5.0
"""Slots to transpose and store a vector in registers."""

TRANSPOSED_LANES: Final = 8
"""Lanes that are transposed together: 8 × 8 floats of 32 bits fill eight 256-bit registers."""


class Serial(NamedTuple):
    """The slots of all tiles on one core, by part, without packing."""

    arithmetic: float
    loads: float
    caches: float
    memory: float
    epilogue: float

    def on_cores(self, parallel: tuple[float, float], slot: float) -> Cycles:
        """Return the cycles of all cores, given the slots of packing and of waiting."""
        packing, imbalance = parallel
        return Cycles(
            self.arithmetic * slot, self.loads * slot, self.caches * slot, self.memory * slot,
            packing * slot, self.epilogue * slot, imbalance * slot,
        )  # fmt: skip


class ContractionCost(ColumnCosts):
    """The costs of the plans of one contraction; what plans share is computed once."""

    limit = math.inf
    """Slots from which on a candidate is of no interest: those of the best so far."""

    def tile_floor(self, columns: Columns, cost: ColumnCost, m_loop: UOp | None, m: int) -> float:
        """Return slots that the tiles of m rows do not take less than: those of their k loops."""
        nest = self.nest
        tiles = nest.results * cost.padding * padding_ratio(trips(m_loop), m)
        fma = cost.vectors * m * nest.reductions * cost.vector_cost
        per_k = max(fma, self.rates.latency) + ITERATION
        return tiles / (columns.lanes * m * columns.n) * nest.k * per_k

    def cost(self, plan: TilePlan) -> Cycles | None:
        """Return the cycles of a plan; None if it needs panels that do not fit."""
        if plan.vectorizes_k:
            return self._dot_products(plan)
        columns = Columns(
            plan.vector_loop, plan.lanes, plan.n_loop, plan.n, plan.flattened_loop, plan.flattened,
            plan.is_transposed, plan.shared_loop, plan.shared,
        )  # fmt: skip
        column_cost = self.columns(columns, plan.packed)
        if column_cost is None:
            return None
        serial, by_m, by_outermost = self.tile(
            columns, column_cost, plan.m_loop, plan.m, plan.packed
        )
        return serial.on_cores(by_m if plan.parallelizes_m else by_outermost, self.rates.slot)

    def tile(
        self, columns: Columns, cost: ColumnCost, m_loop: UOp | None, m: int,
        packed: Sequence[Operand] | None = None,
    ) -> tuple[Serial, tuple[float, float], tuple[float, float]]:  # fmt: skip
        """Return the slots of all tiles of m rows.

        With them, the slots of packing and of waiting if the cores share the m loop, and if they
        share the outermost loop.
        """
        nest, rates = self.nest, self.rates
        accumulators = cost.vectors * m * nest.reductions
        fma = accumulators * cost.vector_cost
        loads, bandwidth, reread = cost.loads, cost.bandwidth, 0.0
        extra = cost.penalties * fma + cost.misses
        for o in nest.operands:
            if columns.vector_loop in o.ranges:
                continue
            rows = m if m_loop in o.ranges else 1
            broadcasts = rows * (columns.n if columns.n_loop in o.ranges else 1)
            bytes_read = o.elements * o.itemsize
            if bytes_read > rates.l2 and not columns.is_transposed:  # read again for each panel
                reread += bytes_read * self._panels(columns) / rates.l3_bytes
            if broadcasts > rates.prefetch_streams and bytes_read > rates.l2 // 4:
                extra += 0.1 * fma
            loads += broadcasts * rates.broadcast
            if o in cost.packed:
                continue
            bandwidth += self._row_bandwidth(o, m_loop, rows)
            if o.value.op is ops.INDEX:
                continue
            if o in packed if packed is not None else self.packs_rows(columns, o, m_loop, m):
                reread += self._row_packing(columns, o, m_loop)
            else:
                loads += broadcasts * CONVERSION
        if self.is_store_bound and not self._allows_nontemporal_stores(columns, m_loop, m):
            reread += self.stored / rates.l3_bytes  # a line is read before it is written
        padding = cost.padding * padding_ratio(trips(m_loop), m)
        tiles = nest.results * padding / (columns.lanes * m * columns.n)
        iterations = tiles * nest.k
        instructions = loads / rates.broadcast
        exposed = NOT_OVERLAPPED * (bandwidth + instructions / 2)
        per_k = max(fma, loads, bandwidth, rates.latency) + exposed + ITERATION
        in_caches = max(bandwidth - max(fma, loads, rates.latency), 0.0) + extra
        serial = Serial(
            iterations * fma,
            iterations * (per_k + extra - fma - in_caches),
            iterations * in_caches,
            reread,
            tiles * self._epilogue(columns, cost, m),
        )
        return (serial, *self._parallel(sum(serial), columns, cost, m_loop, m))

    def _row_bandwidth(self, o: Operand, m_loop: UOp | None, rows: int) -> float:
        """Return the slots to move what rows of a broadcast operand read in an iteration of k.

        Nothing if the L1 cache holds it for all k. Rows that are far from k to k move a line each.
        """
        k_stride = abs(o.stride(self.nest.k_loops[-1]) or 0) * o.itemsize
        if k_stride < CACHE_LINE:
            return 0.0
        m_stride = abs(o.stride(m_loop) or 0) * o.itemsize if m_loop is not None else 0
        moved = CACHE_LINE + (rows - 1) * min(m_stride, CACHE_LINE)
        size = moved * self.nest.k
        if size <= self.rates.l1 // 2:
            return 0.0
        fits = size <= self.rates.l2 // 2
        return moved / (self.rates.l2_bytes if fits else self.rates.l3_bytes)

    def packs_rows(self, columns: Columns, o: Operand, m_loop: UOp | None, m: int) -> bool:
        """Return whether m rows of a broadcast operand are packed, to be converted only once."""
        nest = self.nest
        if o.value.op is ops.INDEX or columns.is_transposed or not row_axes(nest, o, m_loop, m):
            return False
        fits = m * nest.k * o.value.dtype.numpy.itemsize <= self.rates.l2 // 4
        conversions = nest.results / (columns.lanes * columns.n) * nest.k * CONVERSION
        return fits and self._row_packing(columns, o, m_loop) < conversions

    def _row_packing(self, columns: Columns, o: Operand, m_loop: UOp | None) -> float:
        """Return the slots to pack the rows of a broadcast operand, again for each panel."""
        others = trip_count(r for r in self.nest.outputs if r not in o.ranges)
        is_along_k = o.stride(self.nest.k_loops[-1]) == 1
        slots = COPY if is_along_k else GATHER / 2
        return o.elements * others / (columns.lanes * columns.n) * slots

    def _panels(self, columns: Columns) -> float:
        """Return how many panels of columns read the operands that do not depend on them."""
        inner = -(-extent_of(columns.vector_loop) // columns.lanes)
        if columns.flattened_loop is not None:
            return -(-extent_of(columns.flattened_loop) // columns.flattened)
        return inner * trips(columns.n_loop) / columns.n

    def _epilogue(self, columns: Columns, cost: ColumnCost, m: int) -> float:
        """Return the slots from the accumulators of a tile to the stored results."""
        vectors, nest = cost.vectors * m, self.nest
        if columns.is_transposed:
            registers = max(power_of_two(m) / TRANSPOSED_LANES, 1.0)
            each = TRANSPOSE + 0.5 * nest.epilogue_cost
            return TILE_START + columns.lanes * registers * each
        visible = max(vectors * cost.vector_cost - OVERLAPPED_VECTORS, 0)
        slots = TILE_START + 2.0 * vectors + nest.epilogue_cost * visible
        if self.stored > self.rates.l2 and not cost.by_rows:
            slots += self.rates.miss * m * columns.n
        return slots

    def _parallel(
        self, slots: float, columns: Columns, cost: ColumnCost, m_loop: UOp | None, m: int
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return packing and waiting if the cores share the m loop, and the outermost loop.

        Sharing the outermost loop can leave cores idle; sharing the m loop makes each core pack its
        own panels.
        """
        cores, outer, extent = self.rates.cores, cost.outer, trips(m_loop)
        rows = -(-extent // m) * m
        chunk = -(-extent // (cores * m)) * m
        by_m = cost.packing * cores, slots * (chunk * cores / rows - 1)
        loops = (m_loop, columns.vector_loop, columns.n_loop)
        if cost.by_rows and all(r in loops for r in self.nest.outputs):
            outer = [rows // m, *outer]  # the m loop is outermost then
        if outer:
            imbalance = load_imbalance(outer[0], cores)
            if imbalance >= MAX_IMBALANCE:
                imbalance = min(load_imbalance(n, cores) for n in outer)
            return by_m, (cost.packing, (slots + cost.packing) * imbalance)
        tiles = rows // m
        copies = min(CHUNKS_PER_CORE * cores, tiles)
        return by_m, (cost.packing * copies, slots * load_imbalance(tiles, cores))

    def _allows_nontemporal_stores(self, columns: Columns, m_loop: UOp | None, m: int) -> bool:
        """Return whether a tile can be stored without the caches: in whole, aligned vectors."""
        row = extent_of(columns.vector_loop)
        is_aligned = row * self.nest.bits % (8 * MIN_STORE_BYTES) == 0
        return is_aligned and row % columns.lanes == 0 and trips(m_loop) % m == 0

    def _dot_products(self, plan: TilePlan) -> Cycles:
        """Return the cycles of a tile of m × n dot products, with some vectors along k."""
        nest, rates, m, n = self.nest, self.rates, plan.m, plan.n
        vectors, extent = plan.lanes // self.width, extent_of(plan.vector_loop)
        loads = rates.load * sum(
            (m if plan.m_loop in o.ranges else 1) * (n if plan.n_loop in o.ranges else 1)
            for o in nest.operands
        )
        fma = m * n * vectors * (1 if vectors == 1 else 2) * nest.reductions
        per_step = max(fma, loads * vectors, rates.latency) + ITERATION
        steps = nest.k / plan.lanes
        epilogue = TILE_START + 12 * m * n * nest.reductions  # each vector of sums is added up
        if peels_k(nest, plan.vector_loop, plan.lanes):
            epilogue += 2.0 * loads * vectors + 4
        elif extent % plan.lanes:
            steps *= padding_ratio(extent, plan.lanes)
            per_step += 2.0 * loads
        padding = padding_ratio(trips(plan.m_loop), m) * padding_ratio(trips(plan.n_loop), n)
        tiles = nest.results * padding / (m * n)
        arithmetic, waiting = tiles * steps * fma, tiles * steps * (per_step - fma)
        return Serial(arithmetic, waiting, 0.0, 0.0, tiles * epilogue).on_cores(
            (0.0, 0.0), rates.slot
        )


def cost(nest: Contraction, plan: TilePlan, target: Target) -> Cycles | None:
    """Return the cycles of a plan by part; None if it needs panels that do not fit."""
    return ContractionCost(nest, target).cost(plan)


def load_imbalance(chunks: int, cores: int) -> float:
    """Return how much longer than the average the last core works, in proportion."""
    return -(-chunks // cores) * cores / chunks - 1


def power_of_two(m: int) -> int:
    """Return the lanes of the vectors that store m contiguous results, some of them masked."""
    return 1 << (m - 1).bit_length()


def row_axes(nest: Contraction, o: Operand, m_loop: UOp | None, m: int) -> tuple[UOp, ...]:
    """Return the loops for which rows of a broadcast operand are packed, the contiguous one last.

    None where it is contiguous along neither k nor enough rows.
    """
    k_loops = tuple(r for r in nest.k_loops if r in o.ranges)
    rows = (m_loop,) if m_loop is not None and m > 1 and m_loop in o.ranges else ()
    if k_loops and o.stride(k_loops[-1]) == 1:
        return (*rows, *k_loops)
    if rows and o.stride(rows[0]) == 1 and m >= MIN_COPIED:
        return (*k_loops, *rows)
    return ()
