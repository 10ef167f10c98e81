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

MOST_TIMES: Final = 1 << 31
"""Iterations of a loop of which no size is known."""


def lane_ranges(order: Sequence[UOp], spread: Sequence[UOp], widest: int) -> dict[UOp, int]:
    """The ranges whose iterations become lanes, and how many; of those that a node depends on one.

    Ranges along which neighbours are accessed most often come first; a store counts as two loads,
    and of ranges with as many, one that is stored along comes first: loads can be transposed.
    """
    accesses = [n for n in order if n.op is ops.INDEX]
    stored = {n.src[0] for n in order if n.op is ops.STORE}
    vectors = [n for n in order if n.op is ops.WMMA]  # they have lanes of their own
    ranked: list[tuple[tuple[int, bool, bool], int, UOp, int]] = []
    for place, counter in enumerate(spread):
        width = math.gcd(int(counter.vmax) + 1, widest)
        if width < 2 or width & (width - 1) or any(counter in n.ranges for n in vectors):
            continue
        wide, stores = 0, False
        for access in accesses:
            if counter in access.ranges:
                strides = [stride(p, counter) for p in without_masks(access.src[1:])[0]]
                if strides and strides[-1] == 1 and not any(strides[:-1]):
                    wide += _times(access) * (2 if access in stored else 1)
                    stores = stores or access in stored
        rank = (-wide, counter.arg[1] is not Axis.UPCAST, not stores)
        ranked.append((rank, place, counter, width))
    chosen: dict[UOp, int] = {}
    scopes = {scope_of(n) for n in order}
    for _, _, counter, width in sorted(ranked, key=lambda row: row[:2]):
        together = {r for ranges in scopes if counter in ranges for r in ranges}
        if not together & chosen.keys():
            chosen[counter] = width
    return chosen


def scope_of(node: UOp) -> tuple[UOp, ...]:
    """The ranges of a node; of a reduction those that it closes, too.

    A reduction is computed for all of them, also where its value does not depend on one: lanes of
    that one and lanes of the value's would be the same vector.
    """
    if node.op is not ops.REDUCE:
        return node.ranges
    return tuple(dict.fromkeys((*node.src[0].ranges, *node.src[1:])))


def _times(access: UOp) -> int:
    """How often an access is made, at most, in an iteration of the loops around all of them.

    It is made in each, whether it depends on them or not.
    """
    inner = [r for r in access.ranges if r.arg[1] not in (Axis.LOOP, Axis.THREAD)]
    return math.prod(int(min(r.vmax, MOST_TIMES)) + 1 for r in inner)


def without_masks(indices: Sequence[UOp]) -> tuple[list[UOp], list[UOp]]:
    """Indices without their masks, and the conditions for the access to happen."""
    places, conditions = [], []
    for at in indices:
        if at.dtype.kind is Kind.BOOL:
            conditions.append(at)
        elif is_masked(at):
            conditions.append(at.src[0])
            places.append(at.src[1])
        else:
            places.append(at)
    return places, conditions
