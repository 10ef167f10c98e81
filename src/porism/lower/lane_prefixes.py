"""Prefixes: what the lanes up to each lane of a vector reduce to, in a few exchanges of lanes.

    sum of (x[l] where l <= k) for l < 4, in the lanes k < 4

    x0      x1          x2               x3
    x0      x0+x1       x1+x2            x2+x3             with those one lane before
    x0      x0+x1       x0+(x1+x2)       (x0+x1)+(x2+x3)   with those two lanes before

That takes log n steps for a vector of n lanes. Lanes that are far apart are not shifted: the last
one of a group is what comes before all of the next. The last lane is the reduction of all of them.
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
from porism.lower.shuffles import wide

GROUP: Final = 16
"""Bytes of lanes that are shifted together, beside others."""


class Prefixes(NamedTuple):
    """A reduction of the iterations of one range that are not beyond those of another."""

    value: UOp
    """What is reduced, in the iterations of the other range."""
    lane: UOp


def prefixes_in(order: Iterable[UOp]) -> dict[UOp, Prefixes]:
    """The reductions of a kernel that are prefixes, and those of all that prefixes are made of."""
    reductions = [n for n in order if n.op is ops.REDUCE and len(n.src) == 2]
    found: dict[UOp, Prefixes] = {}
    wholes: dict[tuple[Op, UOp, UOp], Prefixes] = {}
    for node in reductions:
        parts = _prefixes(node)
        if parts is not None:
            own, lane = parts
            found[node] = Prefixes(substitute(own, {node.src[1]: lane}), lane)
            wholes[node.arg, own, node.src[1]] = found[node]
    if found:
        for node in reductions:
            whole = wholes.get((node.arg, node.src[0], node.src[1]))
            if whole is not None:
                found[node] = whole
    return found


def _prefixes(node: UOp) -> tuple[UOp, UOp] | None:
    """What is reduced, and the range up to which it is."""
    chosen, terms = node.src
    if chosen.op is not ops.WHERE or terms.arg[1] is not Axis.UNROLL:
        return None
    condition, value, other = chosen.src
    if condition.op is not ops.LE or condition.src[0] is not terms:
        return None
    lane = condition.src[1]
    if lane.op is not ops.RANGE or lane.arg[1] is not Axis.UPCAST:
        return None
    fits = lane.src[0] is terms.src[0] and lane not in value.ranges
    start = identity(node.arg, node.dtype)
    return (value, lane) if fits and other.op is ops.CONST and other.arg == start else None


def running(op: Op, vectors: Sequence[UOp]) -> list[UOp]:
    """The prefixes of vectors that follow each other."""
    found: list[UOp] = []
    for vector in vectors:
        own = _of_lanes(op, vector)
        if found:
            own = op(wide(last_lane(found[-1]), own.dtype.count), own)
        found.append(own)
    return found


def last_lane(vector: UOp) -> UOp:
    return vector.gep(vector.dtype.count - 1)


def _of_lanes(op: Op, vector: UOp) -> UOp:
    """Within groups of lanes that machines shift at once; then from one group to the next."""
    width, item = vector.dtype.count, vector.dtype.element
    start = UOp.const(vector.dtype, identity(op, item))
    group = min(max(GROUP // item.numpy.itemsize, 1), width)
    far = 1
    while far < width:
        if far < group:
            lanes = [k - far if k % group >= far else None for k in range(width)]
        else:
            lanes = [k // far * far - 1 if k & far else None for k in range(width)]
        before = [0 if lane is None else width + lane for lane in lanes]
        vector = op(ops.CAT(start, vector).gep(*before), vector)
        far *= 2
    return vector
