"""Lane ranges: the UPCAST and UNROLL ranges whose iterations become the lanes of vectors.

The lanes of a vector are the iterations of one range, and a vector does not say of which. So no two
lane ranges are in the scope of one node: neither among the ranges that it depends on nor, of a
reduction, among those that it closes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from porism.base.dtypes import Kind
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked

MAX_TRIP_COUNT: Final = 1 << 31
"""Iterations that a loop of unknown extent counts for; chosen by hand."""


def lane_ranges(order: Sequence[UOp], expanded: Sequence[UOp], max_lanes: int) -> dict[UOp, int]:
    """Return the ranges that become vector lanes, with their number of lanes; one per node at most.

    `expanded` are all UPCAST and UNROLL ranges, `max_lanes` is the widest vector. Ranges along
    which most accesses are contiguous come first: a store counts as two loads, and among equals a
    range with contiguous stores comes first, since loads can be transposed.
    """
    accesses = [n for n in order if n.op is ops.INDEX]
    stored = {n.src[0] for n in order if n.op is ops.STORE}
    vectors = [n for n in order if n.op is ops.WMMA]  # they have lanes of their own
    ranked: list[tuple[tuple[int, bool, bool], int, UOp, int]] = []
    for position, loop in enumerate(expanded):
        width = math.gcd(int(loop.vmax) + 1, max_lanes)
        if width < 2 or width & (width - 1) or any(loop in n.ranges for n in vectors):
            continue
        contiguous, stores = 0, False
        for access in accesses:
            if loop in access.ranges:
                strides = [stride(i, loop) for i in split_masks(access.src[1:])[0]]
                if strides and strides[-1] == 1 and not any(strides[:-1]):
                    contiguous += _trip_count(access) * (2 if access in stored else 1)
                    stores = stores or access in stored
        rank = (-contiguous, loop.arg[1] is not Axis.UPCAST, not stores)
        ranked.append((rank, position, loop, width))
    chosen: dict[UOp, int] = {}
    scopes = {scope_of(n) for n in order}
    for _, _, loop, width in sorted(ranked, key=lambda row: row[:2]):
        together = {r for ranges in scopes if loop in ranges for r in ranges}
        if not together & chosen.keys():
            chosen[loop] = width
    return chosen


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
