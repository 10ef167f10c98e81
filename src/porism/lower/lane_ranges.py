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

from porism.base.dtypes import Kind
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked

MAX_TRIP_COUNT: Final = 1 << 31
"""Iterations that a loop of unknown extent counts for; chosen by hand."""


def lane_ranges(
    order: Sequence[UOp],
    expanded: Sequence[UOp],
    max_lanes: int,
    interleaved: Mapping[UOp, tuple[UOp, UOp]] = MappingProxyType({}),
) -> dict[UOp, int]:
    """Return the ranges that become vector lanes, with their number of lanes; one per node at most.

    `expanded` are all UPCAST and UNROLL ranges, `max_lanes` is the widest vector. Ranges along
    which most accesses are contiguous come first: a store counts as two loads, and among equals a
    range with contiguous stores comes first, since loads can be transposed. A store that can be
    `interleaved` is contiguous along the range of its lanes, and not along that of its parts.
    """
    accesses = [n for n in order if n.op is ops.INDEX]
    stored = {n.src[0] for n in order if n.op is ops.STORE}
    lanes = _possible_lanes(order, expanded, max_lanes)
    chosen: dict[UOp, int] = {}
    scopes = {scope_of(n) for n in order}
    for loop in sorted(lanes, key=lambda loop: _lane_order(loop, accesses, stored, interleaved)):
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
    accesses: Sequence[UOp],
    stored: Set[UOp],
    interleaved: Mapping[UOp, tuple[UOp, UOp]],
) -> tuple[int, bool, bool]:
    """Return a sort key: the most contiguous accesses, UPCAST, and contiguous stores come first."""
    contiguous = [
        a
        for a in accesses
        if loop in a.ranges
        and (interleaved[a][0] is loop if a in interleaved else _is_contiguous(a, loop))
    ]
    count = sum(_trip_count(a) * (2 if a in stored else 1) for a in contiguous)
    return -count, loop.arg[1] is not Axis.UPCAST, stored.isdisjoint(contiguous)


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
    for index in indices:
        if index.dtype.kind is Kind.BOOL:
            conditions.append(index)
        elif is_masked(index):
            conditions.append(index.src[0])
            plain.append(index.src[1])
        else:
            plain.append(index)
    return plain, conditions
