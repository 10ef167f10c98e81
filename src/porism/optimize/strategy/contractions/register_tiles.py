"""Register tiles: which part of a contraction is accumulated in registers, chosen by an estimate.

As in a GEMM after Goto and BLIS, the innermost loop over k updates a tile of accumulators:

    for each panel of columns: pack it        around the tile: output loops, one of them parallel
        for each m rows:                      the m loop
            for k:                            the reduction, one loop if the strides allow it
                c[m, n * lanes] += a[m, k] * b[k, n * lanes]      unrolled m × n, vectorized

- The *vectorized loop* is an output loop along which results are stored contiguously. Operands
  along it are loaded as vectors; what does not depend on it is broadcast.
- The *m loop* is one that only the broadcast operands depend on: unrolled and jammed, so that a
  vector is loaded once for m rows.
- The *n loop* is one that only the vector operands depend on, such as the rows of an image: also
  unrolled, so that a broadcast scalar serves n times as many vectors.
- An operand whose lanes are not contiguous, or that jumps far from k to k, is *packed*: the panel
  that all rows read is copied into local memory in the order of the inner loops. Where windows of a
  convolution overlap, the panel holds what they share once.

Where all operands are contiguous along k, as in a product with a transposed matrix, the vectors may
be along k instead: a tile of m × n dot products, each a vector of partial sums.

What the estimate counts is described in `tile_costs`; what is packed is decided in `panel_costs`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from porism.base.target import Target
from porism.ir.node import UOp
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.analysis.loop_strides import extent_of
from porism.optimize.strategy.contractions.panel_costs import ColumnCost, Columns, cost_columns
from porism.optimize.strategy.contractions.tile_costs import (
    FMA_LATENCY,
    L3_BANDWIDTH,
    MISS_CYCLES,
    OPERAND_REGISTERS,
    PREFETCH_STREAMS,
    WAYS,
    allows_nontemporal_stores,
    epilogue_cycles,
    padding_ratio,
    parallel_cycles,
    part_vector_cost,
    peels_k,
    same_set_fraction,
    spills,
)

M_CHOICES: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14)
"""Unroll factors of the m loop that are compared."""

LANE_CHOICES: Final = (8, 16, 24, 32, 40, 48, 56, 64, 128, 256)
"""Lanes of a tile that are compared, in sixteenths of a vector."""

MAX_LANES: Final = 64
"""Lanes of a tile with several rows, at most, in sixteenths of a vector."""

N_CHOICES: Final = (1, 2, 3, 4, 7, 8)
"""Unroll factors of the n loop that are compared."""

K_VECTORS: Final = (1, 2, 4)
"""Vectors of partial sums along k that are compared."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A register tile of m × (n · lanes) results, or of m × n dot products, and its estimate."""

    cycles: float
    """Of all cores together, for the whole contraction."""
    vector_loop: UOp
    lanes: int
    """Iterations of the vectorized loop in a tile: one or several vectors."""
    m_loop: UOp | None = None
    m: int = 1
    n_loop: UOp | None = None
    n: int = 1
    packed: tuple[Operand, ...] = ()
    """Operands that are packed into panels."""
    vectorizes_k: bool = False
    """Whether the vectorized loop is a loop of the reduction."""
    parallelizes_m: bool = False
    """Whether the m loop, and no other, is divided among the cores."""
    flattened_loop: UOp | None = None
    """An output loop around the vectorized one that is merged with it; see `flattened_tiles`."""
    flattened: int = 1
    """Iterations of it that are merged."""


def best_tile(contraction: Contraction, target: Target) -> Tile | None:
    """Return the tile with the fewest estimated cycles; None if there is no vectorized one."""
    return min(enumerate_tiles(contraction, target), key=lambda tile: tile.cycles, default=None)


def enumerate_tiles(contraction: Contraction, target: Target) -> Iterator[Tile]:
    """Yield every tile that is compared, with its estimate."""
    width = target.vector_bits[-1] // contraction.bits if target.vector_bits else 1
    if width < 2:
        return
    for loop in contraction.outputs:
        if contraction.is_stored_along(loop):
            yield from _tiles_along_output(contraction, loop, width, target)
    for loop in contraction.k_loops:
        if all(o.stride(loop) in (0, 1) for o in contraction.operands):
            yield from _tiles_along_k(contraction, loop, width, target)


def _extent(loop: UOp | None) -> int:
    return 1 if loop is None else extent_of(loop)


# -- vectors along an output loop ------------------------------------------------------------------


def _tiles_along_output(
    contraction: Contraction, vector_loop: UOp, width: int, target: Target
) -> Iterator[Tile]:
    """Yield the tiles that are vectorized along an output loop."""
    along = [o for o in contraction.operands if vector_loop in o.ranges]
    others = [o for o in contraction.operands if vector_loop not in o.ranges]
    if not along:
        return
    m_loops = _loops_of_only(others, along, vector_loop, contraction)
    n_loops = _loops_of_only(along, others, vector_loop, contraction)
    max_accumulators = (target.memory.registers - OPERAND_REGISTERS) // contraction.reductions
    m_choices: list[UOp | None] = [*m_loops] or [None]
    for lanes in _lane_counts(extent_of(vector_loop), width):
        max_m = 1 if lanes > MAX_LANES * width // 16 else max(M_CHOICES)
        column_costs = [
            (columns, cost_columns(contraction, target, columns, along))
            for columns in _column_choices(contraction, target, vector_loop, lanes, width, n_loops)
            if columns.vectors * columns.n <= max_accumulators
        ]
        for m_loop, (columns, cost) in itertools.product(m_choices, column_costs):
            wide = columns.vectors * columns.n
            in_registers = max_accumulators // wide
            for m in M_CHOICES:
                if m > min(in_registers, max_m, _extent(m_loop)):
                    break
                accumulators = wide * m * contraction.reductions
                if not spills(accumulators, wide, m, target.memory.registers):
                    yield _estimate(contraction, target, columns, m_loop, m, cost, others)


def _column_choices(
    contraction: Contraction, target: Target, vector_loop: UOp, lanes: int, width: int,
    n_loops: list[UOp],
) -> Iterator[Columns]:  # fmt: skip
    """Yield the columns of some lanes that are compared: without an n loop, and with each one."""
    register_lanes = min(math.gcd(lanes, 4 * width), width)
    vectors = lanes // register_lanes
    cost = part_vector_cost(target, register_lanes, width, len(contraction.k_loops) > 1)
    yield Columns(vector_loop, lanes, register_lanes, vectors, cost, None, 1)
    for n_loop in n_loops:
        for n in N_CHOICES:
            if n > 1 and extent_of(n_loop) % n == 0:
                yield Columns(vector_loop, lanes, register_lanes, vectors, cost, n_loop, n)


def _loops_of_only(
    operands: list[Operand], others: list[Operand], vector_loop: UOp, contraction: Contraction
) -> list[UOp]:
    """Return the output loops that some of the operands depend on, and none of the others."""
    return [
        r
        for r in contraction.outputs
        if r is not vector_loop
        and not any(r in o.ranges for o in others)
        and any(r in o.ranges for o in operands)
    ]


def _lane_counts(extent: int, width: int) -> list[int]:
    """Return the lanes to be compared: some vectors, or one a little longer than the loop."""
    counts = [n * width // 16 for n in LANE_CHOICES if n * width // 16 >= 4]
    fitting = [n for n in counts if n <= extent]
    longer = [n for n in counts if extent < n <= extent * 4 / 3]
    if not fitting and not longer:
        power = 1 << (extent - 1).bit_length()
        longer = [power] if extent >= 2 and power * 3 <= extent * 4 else []
    return fitting + longer[:1]


def _estimate(
    contraction: Contraction, target: Target, columns: Columns, m_loop: UOp | None, m: int,
    column_cost: ColumnCost, others: list[Operand],
) -> Tile:  # fmt: skip
    """Return a tile with the cycles of all cores together, given the cost of its columns."""
    vector_loop, lanes, _, vectors, vector_cost, n_loop, n = columns
    accumulators = vectors * n * m * contraction.reductions
    fma = accumulators * vector_cost
    extra, reread = 0.0, 0.0  # cycles per k, and cycles all in all
    for penalty, misses in column_cost.slowdowns:
        extra += penalty * fma + misses
    loads, by_rows = column_cost.loads, column_cost.by_rows
    fits_registers = accumulators + min(m, vectors * n) < target.memory.registers
    for o in others:
        broadcasts = (m if m_loop in o.ranges else 1) * (n if n_loop in o.ranges else 1)
        if not fits_registers:  # broadcast again for each accumulator
            broadcasts = max(broadcasts, accumulators)
        bytes_read = o.elements * o.itemsize
        if bytes_read > target.memory.l2:  # read again for each panel
            panels = -(-extent_of(vector_loop) // lanes) * _extent(n_loop) / n
            reread += bytes_read * panels / L3_BANDWIDTH
        if broadcasts > PREFETCH_STREAMS and bytes_read > target.memory.l2 // 4:
            extra += 0.1 * fma
        conflicts = (
            m_loop is not None and m * same_set_fraction(o.stride(m_loop), o.itemsize) > WAYS / 2
        )
        loads += broadcasts * (2.0 if o.is_masked else 1.5 if conflicts else 0.5)
    stored = contraction.results * contraction.bits // 8
    if column_cost.store_bound and not allows_nontemporal_stores(
        contraction, vector_loop, lanes, m_loop, m
    ):
        reread += stored / L3_BANDWIDTH  # a line is read before it is written
        if by_rows:  # and evicts what is read
            extra += 0.4 * fma
    per_k = max(fma, loads, column_cost.bandwidth, FMA_LATENCY) + 0.1 * loads + extra + 1.0
    per_k += 2.0 if column_cost.is_short else 0.0
    padding = padding_ratio(extent_of(vector_loop), lanes) * padding_ratio(_extent(m_loop), m)
    tiles = contraction.results * padding / (lanes * m * n)
    epilogue = 10.0 + epilogue_cycles(contraction, vectors * m * n, vector_cost)
    if stored > target.memory.l2 and not by_rows:
        epilogue += MISS_CYCLES * m * n
    cycles = tiles * (contraction.k * per_k + epilogue)
    outer = column_cost.outer
    if by_rows and all(r in (m_loop, vector_loop, n_loop) for r in contraction.outputs):
        outer = [-(-_extent(m_loop) // m), *outer]  # the m loop is outermost then
    cycles, parallelizes_m = parallel_cycles(
        cycles + reread, column_cost.packing, outer, _extent(m_loop), m, target.cores
    )
    return Tile(
        cycles, vector_loop, lanes, m_loop, m, n_loop, n, column_cost.packed,
        parallelizes_m=parallelizes_m,
    )  # fmt: skip


# -- vectors along the reduction -------------------------------------------------------------------


def _m_choices(m_loop: UOp | None, n_loop: UOp | None) -> tuple[int, ...]:
    """Return the unroll factors of the m loop that are compared for vectors along k."""
    if m_loop is None:
        return (1,)
    return (1, 2, 3, 4, 5, 6) if n_loop is not None else (1, 2, 3, 4, 5, 6, 8)


def _m_and_n_loops(contraction: Contraction) -> list[tuple[UOp | None, UOp | None]]:
    """Return the pairs of output loops, or one or none, whose iterations share operands."""
    loops = [
        r for r in contraction.outputs if len({r in o.ranges for o in contraction.operands}) > 1
    ]
    pairs: list[tuple[UOp | None, UOp | None]] = [(None, None), *((r, None) for r in loops)]
    pairs += [
        (m_loop, n_loop)
        for m_loop in loops
        for n_loop in loops
        if m_loop is not n_loop
        and not any({m_loop, n_loop} <= o.ranges for o in contraction.operands)
    ]
    return pairs


def _tiles_along_k(
    contraction: Contraction, k_loop: UOp, width: int, target: Target
) -> Iterator[Tile]:
    """Yield the tiles of m × n dot products that are vectorized along a reduction loop."""
    if extent_of(k_loop) < width:
        return
    max_accumulators = (target.memory.registers - OPERAND_REGISTERS) // contraction.reductions
    for m_loop, n_loop in _m_and_n_loops(contraction):
        for m in _m_choices(m_loop, n_loop):
            for n in (1, 2, 3, 4, 6) if n_loop is not None else (1,):
                if _extent(m_loop) < m or _extent(n_loop) < n or m * n > max_accumulators:
                    continue
                for vectors in K_VECTORS:
                    if extent_of(k_loop) < vectors * width or (vectors > 1 and m * n * vectors > 8):
                        continue
                    cycles = _k_cycles(
                        contraction, k_loop, vectors, width, (m_loop, m), (n_loop, n)
                    )
                    yield Tile(
                        cycles, k_loop, vectors * width, m_loop, m, n_loop, n, vectorizes_k=True
                    )


def _k_cycles(
    contraction: Contraction, k_loop: UOp, vectors: int, width: int,
    rows: tuple[UOp | None, int], columns: tuple[UOp | None, int],
) -> float:  # fmt: skip
    """Return the cycles of all cores for a tile of dot products, with some vectors along k."""
    (m_loop, m), (n_loop, n) = rows, columns
    lanes, extent = vectors * width, extent_of(k_loop)
    loads = sum(
        (m if m_loop in o.ranges else 1) * (n if n_loop in o.ranges else 1)
        for o in contraction.operands
    )
    fma = m * n * vectors * (1 if vectors == 1 else 2) * contraction.reductions
    per_step = max(fma, loads * vectors, FMA_LATENCY) + 1.0
    steps = contraction.k / lanes
    epilogue = 12.0 + 12 * m * n * contraction.reductions  # each vector of sums is added up
    if peels_k(contraction, k_loop, lanes):
        epilogue += 2.0 * loads * vectors + 4
    elif extent % lanes:
        steps *= padding_ratio(extent, lanes)
        per_step += 2.0 * loads
    padding = padding_ratio(_extent(m_loop), m) * padding_ratio(_extent(n_loop), n)
    return contraction.results * padding / (m * n) * (steps * per_step + epilogue)
