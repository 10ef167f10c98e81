"""Vector lanes: how many iterations of a contiguous loop one tile takes, and along which loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.ir import ops
from porism.ir.node import UOp
from porism.optimize.analysis.loop_strides import (
    access_stride,
    extent_of,
    is_contiguous_reduction,
    loads_for,
    nodes_inside,
)

LONG_LOOP: Final = 128
"""Iterations of a vectorized loop, from which on the padding of the last one is negligible."""

MAX_GROWTH: Final = 4 / 3
"""Lanes that a loop is padded to, at most, in iterations of the loop."""

MAX_WASTE: Final = 1.1
"""Iterations of a padded loop, at most, in those of the loop, if half vectors fit it better."""

MAX_HALVES: Final = 7
"""Half vectors that are computed together, at most, if they fit a row that whole ones do not."""


def choose_lanes(extent: int, width: int, multiples: Sequence[int]) -> int:
    """Return the lanes along a loop: one vector of `width`, or a multiple that divides the extent.

    A loop that is a little shorter than a power of two is padded to it; 0 if it is too short.
    """
    for vectors in multiples:
        if extent % (vectors * width) == 0:
            return vectors * width
    if extent >= width:
        return width
    lanes = 1 << (extent - 1).bit_length()
    return lanes if extent * MAX_GROWTH >= lanes else lanes // 2 if extent == lanes // 2 else 0


def choose_lanes_with_half_vectors(
    extent: int, width: int, multiples: Sequence[int], *, is_nontemporal: bool = False
) -> int:
    """Return the lanes along a loop, in half vectors where these waste less on padding.

    Rows that are written by non-temporal stores are not padded if half vectors fit them.
    """
    if extent % width == 0:
        return choose_lanes(extent, width, multiples)
    half, most = width // 2, max(multiples, default=1) * 2
    fitting = [n for n in range(MAX_HALVES, 0, -1) if extent % (n * half) == 0]
    several = [n * half for n in fitting if 1 < n <= most]
    if is_nontemporal and several:
        return several[0]
    for vectors in multiples:
        if extent >= LONG_LOOP * vectors * width:
            return vectors * width
    if extent > half > 1 and -(-extent // width) * width > extent * MAX_WASTE and fitting:
        return several[0] if several else half
    return choose_lanes(extent, width, multiples)


def is_contiguous_along_k_only(end: UOp, loop: UOp, min_extent: int = 1) -> bool:
    """Return whether a reduction is strided along an output loop, but contiguous along its own.

    Reduction loops of fewer iterations than `min_extent` do not count.
    """
    for node in nodes_inside(end):
        if node.op is ops.REDUCE and loop in node.ranges:
            loads = [n for n in loads_for(node.src[0]) if loop in n.ranges]
            is_strided = any(access_stride(n.src[1], loop) not in (0, 1) for n in loads)
            k_loops = (r for r in node.src[1:] if extent_of(r) >= min_extent)
            if is_strided and any(is_contiguous_reduction(node, r) for r in k_loops):
                return True
    return False
