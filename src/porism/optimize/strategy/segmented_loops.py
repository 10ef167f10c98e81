"""Segmented loops: loops whose iterations are computed differently in parts of equal length.

    before    for r < 4 * 100: y[r] = a[r] if r < 100 else b[r - 100] if r < 200 else …
    after     for r_1 < 100: y[r_1] = a[r_1]; y[100 + r_1] = b[r_1]; …

As in a concatenation: each element selects one of all inputs. Conditions compare the loop with
constants, its *bounds*. Where these are multiples of one length, the loop is split by it and the
outer part is unrolled completely, so that each copy has conditions that are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import substitute
from porism.optimize.actions.loops.loop_tiling import Split
from porism.optimize.actions.loops.upcast_unroll import MAX_UNROLLED, Upcast, unroll_factor
from porism.optimize.analysis.loop_strides import (
    access_stride,
    extent_of,
    is_unscheduled,
    lanes_of_widest_type,
    nodes_inside,
    stores_of,
)
from porism.optimize.strategy.action_plan import Plan
from porism.rules.addresses.strides import stride

MAX_SEGMENTS: Final = 32
"""Segments of a loop, at most, each with code of its own; chosen by hand."""

MAX_UNROLLED_VECTORS: Final = 16
"""Vectors of a loop, at most, that is unrolled completely, and not split; chosen by hand."""

MAX_NODES: Final = 1 << 15
"""Nodes of all segments together, at most, before those that are never used are left out; chosen
by hand, for the time of compiling."""


def unroll_segments(plan: Plan) -> None:
    """Unroll the segments of each loop of an elementwise kernel that has them."""
    for end in plan.ends():
        inside = nodes_inside(end)
        if any(n.op is ops.REDUCE for n in inside):
            continue
        for loop in end.src[1:]:
            if is_unscheduled(loop):
                length = _segment_length(plan, end, loop)
                if length and _fits(plan, loop, extent_of(loop) // length, len(inside)):
                    _unroll(plan, loop, length)
                    return


def _segment_length(plan: Plan, end: UOp, loop: UOp) -> int:
    """Return the length of the segments of a loop; 0 if it has none, or many alike."""
    bounds = set(_bounds(end, loop))
    if not bounds:
        return 0
    extent = extent_of(loop)
    length = math.gcd(extent, *bounds)
    segments = extent // length
    if not 2 <= segments <= min(MAX_SEGMENTS, 2 * (len(bounds) + 1)):
        return 0
    stores = [s for s in stores_of(end) if s.op is ops.STORE]
    is_contiguous = all(access_stride(s.src[0].src[1], loop) == 1 for s in stores)
    if not is_contiguous:
        return length
    width = lanes_of_widest_type(nodes_inside(end), plan.target)
    is_short = extent <= MAX_UNROLLED_VECTORS * width and length % width == 0
    return length if length >= width and not is_short else 0


def _bounds(end: UOp, loop: UOp) -> Iterator[int]:
    """Yield the iterations of a loop, but for the first, at which a condition changes."""
    start = {loop: UOp.const(loop.dtype, 0)}
    for node in nodes_inside(end):
        if node.op in (ops.LT, ops.GE, ops.LE, ops.GT) and tuple(node.ranges) == (loop,):
            index, bound = node.src
            is_past = node.op in (ops.LE, ops.GT)  # r <= 9 changes after 9, r >= 9 at 9
            if index.op is ops.CONST:
                index, bound, is_past = bound, index, not is_past
            if bound.op is ops.CONST and stride(index, loop) == 1:
                first = substitute(index, start)
                if first.vmin == first.vmax:
                    at = int(bound.arg) - int(first.vmin) + is_past
                    if 0 < at < extent_of(loop):
                        yield at


def _fits(plan: Plan, loop: UOp, segments: int, nodes: int) -> bool:
    """Return whether so many copies of a body of some nodes may be made."""
    fits = unroll_factor(plan.kernel, loop) * segments <= MAX_UNROLLED
    return fits and segments * nodes <= MAX_NODES


def _unroll(plan: Plan, loop: UOp, length: int) -> None:
    axis = show(loop)
    if length > 1:
        plan.do(Split(axis, length))
        axis = f"{axis}_0"
    plan.do(Upcast(axis, extent_of(plan.loop(axis))))
