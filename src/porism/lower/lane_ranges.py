"""Lane ranges: the UPCAST and UNROLL ranges whose iterations become the lanes of vectors.

The lanes of a vector are the iterations of one range, and a vector does not say of which. So no two
lane ranges are in the scope of one node: neither among the ranges that it depends on nor, of a
reduction, among those that it closes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType
from typing import Final

from porism.base.dtypes import Kind, index
from porism.ir import ops
from porism.ir.axis import EXPANDED_AXES, Axis
from porism.ir.node import UOp
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked

MAX_LANE_STRIDE: Final = 4
"""Elements from lane to lane up to which shuffled vector loads replace scalar loads; by hand."""

MIN_TILE_COLUMNS: Final = 4
"""Contiguous elements from which on a tile is loaded by rows and transposed; chosen by hand."""

MAX_TRIP_COUNT: Final = 1 << 31
"""Iterations that a loop of unknown extent counts for; chosen by hand."""


def lane_ranges(
    order: Sequence[UOp],
    expanded: Sequence[UOp],
    max_lanes: int,
    interleaved: Mapping[UOp, tuple[UOp, UOp]] = MappingProxyType({}),
    *,
    is_simd: bool = True,
) -> dict[UOp, int]:
    """Return the ranges that become vector lanes, with their number of lanes; one per node at most.

    `expanded` are all UPCAST and UNROLL ranges, `max_lanes` is the widest vector. Ranges whose
    vectors save most come first; among equals those with contiguous stores, since loads can be
    transposed. A store that can be `interleaved` is contiguous along the range of its lanes, and
    not along that of its parts. On a machine that has vectors for accesses alone, as a GPU
    (`is_simd` is false), a range is taken only if accesses are contiguous along it.
    """
    stored = {n.src[0] for n in order if n.op is ops.STORE}
    lanes = _possible_lanes(order, expanded, max_lanes)
    chosen: dict[UOp, int] = {}
    scopes = {scope_of(n) for n in order}
    if not is_simd:
        order = [n for n in order if n.op is ops.INDEX]
        lanes = {r: n for r, n in lanes.items() if any(_is_contiguous(a, r) for a in order)}

    def key(loop: UOp) -> tuple[float, bool, bool]:
        return _lane_order(loop, lanes[loop], order, stored, interleaved)

    for loop in sorted(lanes, key=key):
        together = {r for ranges in scopes if loop in ranges for r in ranges}
        if not together & chosen.keys():
            chosen[loop] = lanes[loop]
    return chosen


def _possible_lanes(
    order: Sequence[UOp], expanded: Sequence[UOp], max_lanes: int
) -> dict[UOp, int]:
    """Return the ranges whose iterations fill vectors of a power of two, with the lanes of each."""
    products = [n for n in order if n.op is ops.WMMA]  # they have lanes of their own
    free = [loop for loop in expanded if not any(loop in n.ranges for n in products)]
    lanes = {loop: math.gcd(int(loop.vmax) + 1, max_lanes) for loop in free}
    return {loop: n for loop, n in lanes.items() if n > 1 and n.bit_count() == 1}


def _lane_order(
    loop: UOp,
    lanes: int,
    order: Sequence[UOp],
    stored: Set[UOp],
    interleaved: Mapping[UOp, tuple[UOp, UOp]],
) -> tuple[float, bool, bool]:
    """Return a sort key: the largest savings, UPCAST, and contiguous stores come first."""
    nodes = [n for n in order if loop in n.ranges or (n.op is ops.REDUCE and loop in n.src)]
    contiguous = {
        n
        for n in nodes
        if n.op is ops.INDEX
        and (interleaved[n][0] is loop if n in interleaved else _is_contiguous(n, loop))
    }
    saved = sum(_saved(n, loop, lanes, n in stored, n in contiguous) for n in nodes)
    return -saved, loop.arg[1] is not Axis.UPCAST, stored.isdisjoint(contiguous)


def _saved(node: UOp, loop: UOp, lanes: int, is_stored: bool, is_contiguous: bool) -> float:
    """Return the additions that vectors along a range save for a node, beside one at a time.

    A contiguous access of all lanes is one; other loads of a tile are transposed, with a shuffle
    for each vector; lanes far apart are accessed one at a time, and joined. A store counts twice.
    """
    if node.op is ops.INDEX:
        weight = 2 if is_stored else 1
        if is_contiguous:
            per_access = 1 - 1 / lanes
        elif is_stored or not _has_columns(node, loop, lanes):
            per_access = -1.0
        else:
            per_access = 1 - 2 / lanes
        return weight * per_access * _trip_count(node)
    if node.op is ops.REDUCE:
        return (1 - 1 / lanes) * _trip_count(node.src[0])
    is_computed = node.op.elementwise and node.dtype is not index
    return node.op.cost * (1 - 1 / lanes) * _trip_count(node) if is_computed else 0.0


def _has_columns(access: UOp, loop: UOp, lanes: int) -> bool:
    """Return whether a load for lanes along a range is made of vector loads (see `expand`)."""
    plain = split_masks(access.src[1:])[0]
    if len(plain) != 1:
        return False
    near = stride(plain[0], loop)
    if near is not None and (near == -1 or 0 <= near <= MAX_LANE_STRIDE):
        return True
    expanded = (r for r in access.ranges if r is not loop and r.arg[1] in EXPANDED_AXES)
    return any(
        stride(plain[0], r) == 1 and math.gcd(int(r.vmax) + 1, lanes) >= MIN_TILE_COLUMNS
        for r in expanded
    )


def _is_contiguous(access: UOp, loop: UOp) -> bool:
    """Return whether an access has a unit stride in its last index alone."""
    strides = [stride(i, loop) for i in split_masks(access.src[1:])[0]]
    return bool(strides) and strides[-1] == 1 and not any(strides[:-1])


def scope_of(node: UOp) -> tuple[UOp, ...]:
    """Return the ranges of a node; of a reduction also those that the reduction closes.

    A reduction runs over all of them, even if its value does not depend on one: otherwise lanes of
    that range and lanes of the value would be in the same vector.
    """
    if node.op is not ops.REDUCE:
        return node.ranges
    return tuple(dict.fromkeys((*node.src[0].ranges, *node.src[1:])))


def _trip_count(access: UOp) -> int:
    """Return the trip count of an access within the outer (LOOP, THREAD) loops, at most.

    Those outer loops are left out: every access runs in each of their iterations.
    """
    inner = [r for r in access.ranges if r.arg[1] not in (Axis.LOOP, Axis.THREAD)]
    return math.prod(int(min(r.vmax, MAX_TRIP_COUNT)) + 1 for r in inner)


def split_masks(indices: Sequence[UOp]) -> tuple[list[UOp], list[UOp]]:
    """Return the indices of an access without their masks, and the conditions of the access."""
    plain, conditions = [], []
    for part in indices:
        if part.dtype.kind is Kind.BOOL:
            conditions.append(part)
        elif is_masked(part):
            conditions.append(part.src[0])
            plain.append(part.src[1])
        else:
            plain.append(part)
    return plain, conditions
