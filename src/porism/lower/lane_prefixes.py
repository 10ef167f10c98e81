"""Lane prefixes: the prefix reduction (scan) of the lanes of a vector, by lane shuffles.

    lane k of the result = sum of x[l] for l <= k, for a vector of 4 lanes:

    x0      x1          x2               x3
    x0      x0+x1       x1+x2            x2+x3             add the lane 1 before
    x0      x0+x1       x0+(x1+x2)       (x0+x1)+(x2+x3)   add the lane 2 before

This takes log2 n steps for n lanes. Shifts stay within groups of lanes; between groups, the last
lane of one is added to all lanes of the next. The last lane is the reduction of all lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import substitute
from porism.lower.shuffles import broadcast

GROUP: Final = 16
"""Bytes of the lanes that one shuffle instruction shifts: SSE and NEON registers have 16."""


class Prefixes(NamedTuple):
    """A reduction over the iterations up to the current one of an UPCAST range."""

    value: UOp
    """The reduced value, as an expression of that range."""
    lane: UOp
    """That range."""


def prefix_reductions(order: Iterable[UOp]) -> dict[UOp, Prefixes]:
    """Return the prefix reductions of a kernel, and the full reductions of the same values."""
    reductions = [n for n in order if n.op is ops.REDUCE and len(n.src) == 2]
    prefixes: dict[UOp, Prefixes] = {}
    wholes: dict[tuple[Op, UOp, UOp], Prefixes] = {}
    for node in reductions:
        parts = _prefix_parts(node)
        if parts is not None:
            own, lane = parts
            prefixes[node] = Prefixes(substitute(own, {node.src[1]: lane}), lane)
            wholes[node.arg, own, node.src[1]] = prefixes[node]
    if prefixes:
        for node in reductions:
            whole = wholes.get((node.arg, node.src[0], node.src[1]))
            if whole is not None:
                prefixes[node] = whole
    return prefixes


def _prefix_parts(node: UOp) -> tuple[UOp, UOp] | None:
    """Return the value that a prefix reduction reduces, and its range; None of another one."""
    masked, axis = node.src
    if masked.op is not ops.WHERE or axis.arg[1] is not Axis.UNROLL:
        return None
    condition, value, other = masked.src
    if condition.op is not ops.LE or condition.src[0] is not axis:
        return None
    lane = condition.src[1]
    if lane.op is not ops.RANGE or lane.arg[1] is not Axis.UPCAST:
        return None
    fits = lane.src[0] is axis.src[0] and lane not in value.ranges
    start = identity(node.arg, node.dtype)
    return (value, lane) if fits and other.op is ops.CONST and other.arg == start else None


def prefix_reduce(op: Op, vectors: Sequence[UOp]) -> list[UOp]:
    """Return the prefix reduction of consecutive vectors."""
    prefixes: list[UOp] = []
    for vector in vectors:
        own = _scan_lanes(op, vector)
        if prefixes:
            own = op(broadcast(last_lane(prefixes[-1]), own.dtype.count), own)
        prefixes.append(own)
    return prefixes


def last_lane(vector: UOp) -> UOp:
    """Return the last lane of a vector."""
    return vector.gep(vector.dtype.count - 1)


def _scan_lanes(op: Op, vector: UOp) -> UOp:
    """Return the prefix reduction of one vector: within groups of lanes, then across groups."""
    width, item = vector.dtype.count, vector.dtype.element
    start = UOp.const(vector.dtype, identity(op, item))
    group = min(max(GROUP // item.numpy.itemsize, 1), width)
    distance = 1
    while distance < width:
        if distance < group:
            lanes = [k - distance if k % group >= distance else None for k in range(width)]
        else:
            lanes = [k // distance * distance - 1 if k & distance else None for k in range(width)]
        before = [0 if lane is None else width + lane for lane in lanes]
        vector = op(ops.CAT(start, vector).gep(*before), vector)
        distance *= 2
    return vector
