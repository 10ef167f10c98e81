"""Tile costs: the estimates that all register tiles of a contraction are compared by.

An estimate is in cycles of all cores together, and says which tile is faster rather than how fast
it is. Per iteration of the reduction (k) it takes the largest of

- the cycles of the FMA ports: one full vector a cycle;
- the cycles of the load ports: one full vector, or two broadcast scalars, a cycle;
- the bytes that come from the L2 or the L3 cache, by the bandwidth of each;
- the latency of an FMA, which bounds a tile of too few accumulators.

To these come the cycles of packing, of the epilogue, and of cores that wait for others. The values
below were fitted by hand to timings of float32 products and convolutions on two cores of an x86-64
machine with AVX-512, unless they say otherwise (`docs/measurements.md`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from porism.base.target import Target
from porism.ir.node import UOp
from porism.optimize.actions.memory.streaming_stores import MIN_STORE_BYTES
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.analysis.loop_strides import extent_of, trip_count

OPERAND_REGISTERS: Final = 8
"""Vector registers that hold no accumulators, but operands, some of them loaded early."""

EARLY_LOADS: Final = 4
"""Registers of vectors that LLVM loads before the last ones are used (read from its assembly)."""


def spills(accumulators: int, vectors: int, broadcasts: int, registers: int) -> bool:
    """Return whether a tile of several rows keeps accumulators in memory, and is slow.

    LLVM loads the vectors of one k before the rows use them, and then the rows' scalars, some of
    them early: many scalars, or many vectors, leave too few registers to the accumulators.
    """
    if min(vectors, broadcasts) < 2:  # operands of instructions, in no register
        return False
    return accumulators + max(vectors + EARLY_LOADS, broadcasts) > registers


HALF_VECTOR_COST: Final = (0.54, 0.5)
"""Cycles of an instruction on half a vector, in those of a whole one, where arithmetic units are
half as wide as vectors: with one reduction loop, and with several. Measured on such a core."""


def part_vector_cost(target: Target, register_lanes: int, width: int, is_deep: bool) -> float:
    """Return the cycles of an instruction on some of `width` lanes, in those of one on all of them.

    A unit as wide as a register takes as long for a part of it; `is_deep` is whether there are
    several reduction loops.
    """
    if not 0 < target.fma_bits < max(target.vector_bits, default=0):
        return 1.0
    return max(register_lanes / width, HALF_VECTOR_COST[is_deep])


FMA_LATENCY: Final = 4.0
"""Cycles from an FMA to the next on the same accumulator, as on most x86-64 cores since 2015."""

PREFETCH_STREAMS: Final = 8
"""Rows that the hardware prefetcher follows, if they come from beyond the L1 cache."""

WAYS: Final = 8
"""Associativity of the L1 and the L2 cache, as on most x86-64 cores."""

PAGE: Final = 4096
"""Bytes of a page, and of a way of the L1 cache: addresses that differ by a multiple of it are in
the same cache set."""

TLB_PAGES: Final = 64
"""Pages that can be accessed in turn without a miss of the first-level TLB."""

SHORT_K: Final = 128
"""Reduction length up to which storing the results takes longer than reading operands again."""

MAX_IMBALANCE: Final = 0.1
"""Load imbalance that is accepted: how much longer than the average the last core works."""

CHUNKS_PER_CORE: Final = 4
"""Chunks of a parallel loop for each core, of which a core that is done takes the next."""

FAR_STRIDE: Final = 1024
"""Bytes from one k to the next, from which on reading in place is slower than reading a panel."""

CONFLICT_PENALTY: Final = 0.3
"""Slowdown, in proportion, of reading in place a stride that exceeds the cache's associativity."""

STRIDE_PENALTY: Final = 0.04
"""Slowdown, in proportion, of reading in place any other far stride."""

MISS_CYCLES: Final = 16.0
"""Cycles to begin to access another part of memory, of which the prefetcher knows nothing."""

L2_BANDWIDTH: Final = 20.0
"""Bytes a cycle from the L2 cache of a core."""

L3_BANDWIDTH: Final = 8.0
"""Bytes a cycle and core from the cache that all cores share."""

MIN_LAST_CACHE: Final = 1 << 25
"""Bytes of the last cache, at least."""

MAX_PREPACK_GROWTH: Final = 1.25
"""Size of a pre-packed constant, at most, in sizes of the constant: panels have padding."""

OVERLAPPED_VECTORS: Final = 8
"""Vectors of results whose epilogue is executed beside the begin of the next tile."""

DEFAULT_L2: Final = 1 << 18
"""Bytes of the L2 cache where its size is not known, or smaller."""


# -- extents that the tile does not divide ---------------------------------------------------------


def padding_ratio(extent: int, part: int) -> float:
    """Return the iterations of all parts, the last one padded, divided by those of the loop.

    >>> padding_ratio(12, 8)
    1.3333333333333333
    """
    return -(-extent // part) * part / extent


def load_imbalance(chunks: int, cores: int) -> float:
    """Return how much longer than the average the last core works, in proportion."""
    return -(-chunks // cores) * cores / chunks - 1


# -- caches ----------------------------------------------------------------------------------------


def same_set_fraction(stride: int | None, item: int) -> float:
    """Return which fraction of rows, `stride` elements apart, falls into the same L1 cache set."""
    return math.gcd((stride or 1) * item, PAGE) / PAGE


def has_set_conflicts(stride: int, count: int, target: Target) -> bool:
    """Return whether so many lines, `stride` bytes apart, exceed half the L2's associativity."""
    way = max(target.memory.l2, DEFAULT_L2) // WAYS
    return count * math.gcd(stride, way) > way * WAYS // 2


def stride_penalty(
    operand: Operand, stride: int, k: int, contraction: Contraction, target: Target
) -> float:
    """Return the slowdown, in proportion, of reading an operand in place, `stride` bytes per k."""
    bytes_used = operand.elements * operand.itemsize + contraction.results * contraction.bits // 8
    exceeds_last_cache = bytes_used > max(target.memory.l3, MIN_LAST_CACHE) // 2
    is_slow = exceeds_last_cache or has_set_conflicts(stride, k, target)
    return CONFLICT_PENALTY if is_slow else STRIDE_PENALTY


def pack_cycles(operand: Operand, stride: int | None, contraction: Contraction) -> float:
    """Return the cycles to pack one element, given its stride along the vectorized loop.

    Rows are copied as vectors; what is contiguous along k is transposed in registers; small strides
    are shuffled out of wide loads; and all else is copied element by element.
    """
    if stride == 1:
        return 0.8 if operand.is_masked else 0.2
    if any(operand.stride(r) == 1 for r in contraction.k_loops):
        return 0.6
    return 0.8 if stride is not None and 1 < stride <= 4 else 1.6


# -- loops of the reduction ------------------------------------------------------------------------


def merges_k(contraction: Contraction, packed: Sequence[Operand]) -> bool:
    """Return whether all reduction loops can be merged into one without divisions.

    Panels are packed in the order of these loops; any other operand has to lie like that already.
    """
    return all(o in packed or _has_mergeable_k(o, contraction) for o in contraction.operands)


def _has_mergeable_k(operand: Operand, contraction: Contraction) -> bool:
    """Return whether each reduction loop continues where the one inside of it has ended."""
    for outer, inner in zip(contraction.k_loops, contraction.k_loops[1:], strict=False):
        stride = operand.stride(inner)
        is_continued = stride is not None and operand.stride(outer) == stride * extent_of(inner)
        if not is_continued or operand.is_masked:
            return False
    return True


def peels_k(contraction: Contraction, k_loop: UOp, lanes: int) -> bool:
    """Return whether the last iterations of k, fewer than the lanes, get a loop of their own."""
    k = extent_of(k_loop)
    return len(contraction.k_loops) == 1 and lanes < k and k % lanes > 0


# -- the output ------------------------------------------------------------------------------------


def is_store_bound(contraction: Contraction, target: Target) -> bool:
    """Return whether the output takes longer than the arithmetic: no cache holds it, k is short."""
    stored = contraction.results * contraction.bits // 8
    return contraction.k <= SHORT_K and stored * 2 >= max(target.memory.l3, MIN_LAST_CACHE)


def prefers_row_order(
    contraction: Contraction,
    along: list[Operand],
    vector_loop: UOp,
    n_loop: UOp | None,
    target: Target,
) -> bool:
    """Return whether the m loop belongs outside of the vectorized one, to store whole rows.

    It does if k is short and what all columns read stays in the L2 cache from row to row.
    """
    if contraction.k > SHORT_K:
        return False
    loops = [
        [r for r in o.ranges if r in contraction.k_loops or r in (vector_loop, n_loop)]
        for o in along
    ]
    read = sum(trip_count(own) * o.itemsize for own, o in zip(loops, along, strict=True))
    return read <= 2 * target.memory.l2


def allows_nontemporal_stores(
    contraction: Contraction, vector_loop: UOp, lanes: int, m_loop: UOp | None, m: int
) -> bool:
    """Return whether a tile can be stored without the caches: in whole, aligned vectors."""
    columns = extent_of(vector_loop)
    is_aligned = columns * contraction.bits % (8 * MIN_STORE_BYTES) == 0
    return is_aligned and columns % lanes == 0 and (m_loop is None or extent_of(m_loop) % m == 0)


def epilogue_cycles(contraction: Contraction, vectors: int, vector_cost: float) -> float:
    """Return the cycles from the accumulators of a tile, in vectors, to the stored results."""
    visible = max(vectors * vector_cost - OVERLAPPED_VECTORS, 0)
    return 2.0 * vectors + contraction.epilogue_cost * visible


# -- cores -----------------------------------------------------------------------------------------


def parallel_cycles(
    cycles: float, packing: float, outer: list[int], m_extent: int, m: int, cores: int
) -> tuple[float, bool]:
    """Return the cycles of all cores, and whether the m loop is the one to be parallelized.

    `outer` are the trip counts of the loops around the m loop. Parallelizing the outermost loop
    can leave cores idle; parallelizing the m loop makes each core pack its own panels.
    """
    chunk = -(-m_extent // (cores * m)) * m
    by_m = cycles * chunk * cores / (-(-m_extent // m) * m) + packing * cores
    if outer:
        imbalance = load_imbalance(outer[0], cores)
        if imbalance >= MAX_IMBALANCE:
            imbalance = min(load_imbalance(n, cores) for n in outer)
        by_outermost = (cycles + packing) * (1 + imbalance)
    else:
        tiles = -(-m_extent // m)
        copies = min(CHUNKS_PER_CORE * cores, tiles)
        by_outermost = cycles * (1 + load_imbalance(tiles, cores)) + packing * copies
    gain = 0.98 if outer else 1.0  # small chunks balance better if a core is held up
    return (by_m, True) if by_m < by_outermost * gain and cores > 1 else (by_outermost, False)
