"""Tile plans: which plans of a contraction are compared by their costs.

They are enumerated, not chosen, here: the heuristic takes the cheapest, and a search measures some
of the others. Four kinds share one description (`TilePlan`) and one cost (`ContractionCost`):

- vectors along an output loop that results are contiguous along, with or without an n loop;
- the same of two output loops merged, where the inner one fits no vectors;
- vectors along another output loop, for a constant that is pre-packed: the results are transposed;
- vectors along k, where all operands are contiguous along it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from porism.base.target import Target
from porism.ir.node import UOp
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.analysis.loop_strides import extent_of
from porism.optimize.model.column_cost import (
    ColumnCost,
    Columns,
    flattened_panel_bytes,
    padding_ratio,
    spills,
    window_elements,
    windows_of_own_taps,
)
from porism.optimize.model.contraction_cost import ContractionCost
from porism.optimize.model.tile_plan import Cycles, TilePlan

M_CHOICES: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14)
"""Unroll factors of the m loop that are compared."""

HALF_VECTORS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32)
"""Half vectors of a row of a tile that are compared."""

MAX_HALVES: Final = 8
"""Half vectors of a tile with several rows, at most."""

MIN_LANES: Final = 4
"""Lanes of a tile, at least; and its rows, at least, if it is transposed in registers."""

N_CHOICES: Final = (2, 3, 4, 7, 8)
"""Unroll factors of the n loop that are compared."""

K_VECTORS: Final = (1, 2)
"""Vectors of partial sums along k that are compared."""

MIN_FLATTENED_M: Final = 32
"""Rows of the broadcast operand, below which packing every window does not pay (measured)."""

MAX_GROWTH: Final = 4 / 3
"""Lanes of a tile that is wider than its loop, at most, in iterations of that."""

MAX_PADDING: Final = 1.2
"""Computed results of a flattened tile, at most, in results that are stored."""

MAX_LONE_PADDING: Final = 2.0
"""The same where there is no other tile, as for images of 5 x 5; chosen by hand."""


class Candidate(NamedTuple):
    """A plan with its cost; the plan is constructed when it is asked for."""

    cycles: float
    model: ContractionCost
    columns: Columns
    column_cost: ColumnCost
    m_loop: UOp | None
    m: int
    parallelizes_m: bool

    @property
    def plan(self) -> TilePlan:
        """The plan itself."""
        columns, packed = self.columns, self.column_cost.packed
        others = (o for o in self.model.nest.operands if columns.vector_loop not in o.ranges)
        rows = (o for o in others if self.model.packs_rows(columns, o, self.m_loop, self.m))
        packed = (*packed, *(o for o in rows if o not in packed))
        return TilePlan(
            columns.vector_loop, columns.lanes, self.m_loop, self.m, columns.n_loop, columns.n,
            packed, False, self.parallelizes_m, columns.flattened_loop, columns.flattened,
            columns.is_transposed, columns.shared_loop, columns.shared,
        )  # fmt: skip


def best_plan(nest: Contraction, target: Target) -> TilePlan | None:
    """Return the plan with the fewest estimated cycles; None if there is no vectorized one."""
    best = best_candidate(nest, target)
    return None if best is None else best[1]


def best_candidate(nest: Contraction, target: Target) -> tuple[float, TilePlan] | None:
    """Return the plan with the fewest estimated cycles, and these; None if there is none."""
    model = ContractionCost(nest, target)
    best = cheapest(model, output_candidates(model))
    dots = min(_dot_products(model), key=lambda pair: pair[0].total, default=None)
    if best is None and dots is None:
        best = cheapest(model, _flattened(model, MAX_LONE_PADDING))
    if dots is not None and (best is None or dots[0].total < best.cycles):
        return dots[0].total, dots[1]
    return None if best is None else (best.cycles, best.plan)


def cheapest(model: ContractionCost, candidates: Iterator[Candidate]) -> Candidate | None:
    """Return the cheapest candidate; those that cannot be cheaper than it are not costed."""
    best: Candidate | None = None
    for candidate in candidates:
        if best is None or candidate.cycles < best.cycles:
            best, model.limit = candidate, candidate.cycles / model.rates.slot
    return best


def ranked_plans(nest: Contraction, target: Target) -> list[tuple[float, TilePlan]]:
    """Return all plans that are compared with their cycles, the fewest first."""
    model = ContractionCost(nest, target)
    plans = [(c.cycles, c.plan) for c in output_candidates(model)]
    plans += [(cycles.total, plan) for cycles, plan in _dot_products(model)]
    return sorted(plans, key=lambda pair: pair[0])


def output_candidates(model: ContractionCost) -> Iterator[Candidate]:
    """Yield the plans with vectors along an output loop."""
    if model.width < 2:
        return
    for loop in model.nest.outputs:
        if model.nest.is_stored_along(loop):
            yield from _along_output(model, loop)
    yield from _flattened(model, MAX_PADDING)
    yield from _transposed(model)


def _tiles(
    model: ContractionCost, columns: Columns, m_loop: UOp | None, most: int,
    packed: tuple[Operand, ...] | None = None,
) -> Iterator[Candidate]:  # fmt: skip
    """Yield the tiles of some columns for each number of rows that fits the registers."""
    if model.floor(columns) >= model.limit:
        return
    cost = model.columns(columns, packed)
    if cost is None:
        return
    slot, extent = model.rates.slot, _extent(m_loop)
    most = min(most, extent, model.accumulators // cost.vectors)
    for m in reversed(M_CHOICES):
        if m > most or (columns.is_transposed and (m < MIN_LANES or extent % m)):
            continue
        if spills(m * cost.vectors * model.nest.reductions, cost.vectors, m, model.rates.registers):
            continue
        if model.tile_floor(columns, cost, m_loop, m) >= model.limit:
            continue
        serial, by_m, by_outermost = model.tile(columns, cost, m_loop, m)
        outermost = sum(serial) + sum(by_outermost)
        shared = sum(serial) + sum(by_m)
        is_m = shared < outermost and model.rates.cores > 1 and not columns.is_transposed
        slots = shared if is_m else outermost
        yield Candidate(slots * slot, model, columns, cost, m_loop, m, is_m)


def _extent(loop: UOp | None) -> int:
    return 1 if loop is None else extent_of(loop)


# -- vectors along an output loop ------------------------------------------------------------------


def _along_output(model: ContractionCost, vector_loop: UOp) -> Iterator[Candidate]:
    """Yield the tiles that are vectorized along an output loop."""
    nest, width = model.nest, model.width
    along = [o for o in nest.operands if vector_loop in o.ranges]
    others = [o for o in nest.operands if vector_loop not in o.ranges]
    if not along:
        return
    m_loops: list[UOp | None] = [*_loops_of_only(others, along, vector_loop, nest)] or [None]
    n_loops = _loops_of_only(along, others, vector_loop, nest)
    for lanes in _lane_counts(extent_of(vector_loop), width):
        most = 1 if lanes > MAX_HALVES * width // 2 else max(M_CHOICES)
        for columns in _column_choices(vector_loop, lanes, n_loops):
            vectors = -(-lanes // width) * columns.n
            if vectors <= model.accumulators:
                for m_loop in m_loops:
                    yield from _tiles(model, columns, m_loop, most)


def _column_choices(vector_loop: UOp, lanes: int, n_loops: list[UOp]) -> Iterator[Columns]:
    """Yield the columns of some lanes that are compared: without an n loop, and with each one."""
    yield Columns(vector_loop, lanes)
    for n_loop in n_loops:
        for n in N_CHOICES:
            if extent_of(n_loop) % n == 0:
                yield Columns(vector_loop, lanes, n_loop, n)


def _loops_of_only(
    operands: list[Operand], others: list[Operand], vector_loop: UOp, nest: Contraction
) -> list[UOp]:
    """Return the output loops that some of the operands depend on, and none of the others."""
    return [
        r
        for r in nest.outputs
        if r is not vector_loop
        and not any(r in o.ranges for o in others)
        and any(r in o.ranges for o in operands)
    ]


def _lane_counts(extent: int, width: int) -> list[int]:
    """Return the lanes to be compared: some vectors, or one a little longer than the loop."""
    counts = [n * width // 2 for n in HALF_VECTORS if n * width // 2 >= MIN_LANES]
    fitting = [n for n in counts if n <= extent]
    longer = [n for n in counts if extent < n <= extent * MAX_GROWTH]
    if not fitting and not longer:
        power = 1 << (extent - 1).bit_length()
        longer = [power] if extent >= 2 and power <= extent * MAX_GROWTH else []
    return sorted(fitting + longer[:1], key=lambda n: abs(n - 2 * width))


# -- two output loops merged -----------------------------------------------------------------------


def _flattened(model: ContractionCost, max_padding: float) -> Iterator[Candidate]:
    """Yield the tiles of merged loops, if packing can make the operands contiguous in them."""
    nest = model.nest
    for outer, inner in zip(nest.outputs, nest.outputs[1:], strict=False):
        if model.width < 2 or not nest.is_stored_flat(outer, inner):
            continue
        along = [o for o in nest.operands if inner in o.ranges or outer in o.ranges]
        others = [o for o in nest.operands if o not in along]
        if not along or not all({inner, outer} <= o.ranges for o in along):
            continue
        is_contiguous = all(o.stride(inner) == 1 and not o.is_masked for o in along)
        if is_contiguous and extent_of(inner) % model.width == 0:
            continue
        for m_loop in _loops_of_only(others, along, inner, nest):
            if extent_of(m_loop) >= MIN_FLATTENED_M:
                for columns in _flattened_columns(model, outer, inner, along[0], max_padding):
                    yield from _tiles(model, columns, m_loop, max(M_CHOICES))


def _flattened_columns(
    model: ContractionCost, outer: UOp, inner: UOp, o: Operand, max_padding: float
) -> Iterator[Columns]:
    """Yield the columns whose panels fit half of the L2 cache, the least padding of each lanes."""
    columns, extent = extent_of(inner), extent_of(outer)
    limit = model.rates.l2 // 2
    row_counts = [
        rows
        for rows in range(2, extent + 1)
        if padding_ratio(extent, rows) <= max_padding
        and flattened_panel_bytes(model.nest, o, rows, columns) <= limit
    ]
    for halves in HALF_VECTORS:
        lanes = halves * model.width // 2
        fitting = [rows for rows in row_counts if rows * columns * MAX_GROWTH >= lanes]
        if halves > MAX_HALVES or lanes < MIN_LANES or not fitting:
            continue
        paddings = {
            rows: padding_ratio(extent, rows) * padding_ratio(rows * columns, lanes)
            for rows in fitting
        }
        rows = min(fitting, key=lambda rows: paddings[rows])
        if paddings[rows] <= max_padding:
            yield Columns(inner, lanes, flattened_loop=outer, flattened=rows)


# -- vectors along another output loop, of a constant ----------------------------------------------


def _transposed(model: ContractionCost) -> Iterator[Candidate]:
    """Yield the tiles whose results are transposed."""
    nest = model.nest
    if not nest.constant_buffers or nest.reductions != 1 or len(nest.stores) != 1:
        return
    contiguous = [r for r in nest.outputs if nest.is_stored_along(r)]
    for vector_loop in nest.outputs:
        operands = _constant_and_other(nest, vector_loop)
        if vector_loop in contiguous or operands is None:
            continue
        constant, other = operands
        outer = [r for r in nest.outputs if r is not vector_loop]
        if any(r not in other.ranges or r in constant.ranges for r in outer):
            continue
        for m_loop in contiguous:
            packing = _packing(model, other, m_loop)
            if packing is None:
                continue
            for halves in range(2, MAX_HALVES + 1, 2):
                lanes = halves * model.width // 2
                if lanes >= MIN_LANES and extent_of(vector_loop) % lanes == 0:
                    columns = Columns(
                        vector_loop, lanes, is_transposed=True,
                        shared_loop=packing[0], shared=packing[1],
                    )  # fmt: skip
                    packed = (constant, other) if packing[1] else (constant,)
                    yield from _tiles(model, columns, m_loop, max(M_CHOICES), packed)


def _constant_and_other(nest: Contraction, vector_loop: UOp) -> tuple[Operand, Operand] | None:
    """Return the operand along a loop if it can be pre-packed, and the other one; None if not."""
    along = [o for o in nest.operands if vector_loop in o.ranges]
    others = [o for o in nest.operands if vector_loop not in o.ranges]
    if len(along) != 1 or len(others) != 1:
        return None
    constant = along[0]
    if constant.is_masked or constant.buffer not in nest.constant_buffers:
        return None
    return (constant, others[0]) if constant.ranges.issuperset(nest.k_loops) else None


def _packing(model: ContractionCost, o: Operand, m_loop: UOp) -> tuple[UOp | None, int] | None:
    """Return a loop of which some iterations share a packed copy of an operand, and how many do.

    0 iterations if the operand is read in place; None if that is slow, and it cannot be packed.
    """
    nest = model.nest
    if not o.is_masked:
        k_stride = max(abs(o.stride(r) or 0) for r in nest.k_loops) * o.itemsize
        in_order = len(nest.k_loops) == 1 or o.stride(nest.k_loops[-1]) == 1
        is_fast = in_order and not model.rates.has_set_conflicts(k_stride, nest.k)
        return (None, 0) if is_fast else None
    windows = windows_of_own_taps(nest, o)
    if windows is None:
        return None
    shared_loop = next((r for r in windows if r is not m_loop), None)
    extent = _extent(shared_loop)
    for shared in (n for n in range(extent, 0, -1) if extent % n == 0):
        copies = extent // shared
        elements = window_elements(nest, o, shared_loop, shared) // copies
        if elements * o.itemsize <= model.rates.l2 // 2:
            return shared_loop, shared
    return None


# -- vectors along the reduction -------------------------------------------------------------------


def _dot_products(model: ContractionCost) -> Iterator[tuple[Cycles, TilePlan]]:
    """Yield the tiles of m × n dot products that are vectorized along a reduction loop."""
    nest, width = model.nest, model.width
    for k_loop in nest.k_loops if width > 1 else ():
        if extent_of(k_loop) < width or any(o.stride(k_loop) not in (0, 1) for o in nest.operands):
            continue
        for m_loop, n_loop in _m_and_n_loops(nest):
            most = 1 if m_loop is None else 6 if n_loop is not None else 8
            for m in (m for m in M_CHOICES if m <= min(most, _extent(m_loop))):
                for n in (1, 2, 3, 4, 6) if n_loop is not None else (1,):
                    if n > _extent(n_loop) or m * n > model.accumulators:
                        continue
                    for vectors in K_VECTORS:
                        is_long = extent_of(k_loop) >= vectors * width
                        if is_long and (vectors == 1 or m * n * vectors <= 8):
                            plan = TilePlan(
                                k_loop, vectors * width, m_loop, m, n_loop, n, vectorizes_k=True
                            )
                            cycles = model.cost(plan)
                            assert cycles is not None, "dot products need no panels"
                            yield cycles, plan


def _m_and_n_loops(nest: Contraction) -> list[tuple[UOp | None, UOp | None]]:
    """Return the pairs of output loops, or one or none, whose iterations share operands."""
    loops = [r for r in nest.outputs if len({r in o.ranges for o in nest.operands}) > 1]
    pairs: list[tuple[UOp | None, UOp | None]] = [(None, None), *((r, None) for r in loops)]
    pairs += [
        (m_loop, n_loop)
        for m_loop in loops
        for n_loop in loops
        if m_loop is not n_loop and not any({m_loop, n_loop} <= o.ranges for o in nest.operands)
    ]
    return pairs
