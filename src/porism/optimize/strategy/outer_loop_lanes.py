"""Outer-loop vectorization: lanes are iterations of a loop around local buffers.

    for i: for j < 2: t[j] = f(x[i, j])           for i in steps of 16:
           for j < 2: y[i, j] = t[j] + t[1 - j]       for j < 2: t[j][0:16] = f(x[i:i+16, j])
                                                      for j < 2: y[i:i+16, j] = t[j] + t[1 - j]

The lanes of a vector then compute the same with a local buffer each, whatever the strides inside
are. That is better where the loops inside are shorter than a vector, as in a sorting network, or in
a softmax over a few classes; the price is that the accesses to global buffers are strided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.ir import ops
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.analysis.loop_strides import (
    access_stride,
    extent_of,
    is_unscheduled,
    lanes_of_widest_type,
    loads_for,
    stores_of,
    trip_count,
)
from porism.optimize.strategy.action_plan import Plan
from porism.optimize.strategy.vector_lanes import choose_lanes_with_half_vectors

STRIDED_ACCESS: Final = 1.0
"""Cost of an element that is accessed alone, in operations on vectors; chosen by hand."""

SHORT_VECTOR: Final = 2.0
"""The same of an operation on a part of a vector, with the shuffle that it needs."""


def vectorize_outer_loop(plan: Plan) -> bool:
    """Vectorize the best loop around local buffers or short reductions, and say if that pays."""
    ends, order = plan.ends(), toposort(plan.kernel)
    reductions = [n for n in order if n.op is ops.REDUCE]
    if not ends or (len(ends) < 2 and not reductions):
        return False
    *fills, output = ends
    width = lanes_of_widest_type(order, plan.target)
    around = [
        loop
        for loop in output.src[1:]
        if is_unscheduled(loop) and all(loop in n.ranges for n in (*fills, *reductions))
    ]
    inside = [r for end in ends for r in end.src[1:] if r not in around]
    inside += [r for n in reductions for r in n.src[1:]]
    if reductions and not (inside and len(around) < len(output.src) - 1):
        return False  # the reductions are as many as the elements
    if reductions and any(r.src[0].vmax >= width for r in inside):
        return False
    lanes_of = {r: choose_lanes_with_half_vectors(extent_of(r), width, []) for r in around}
    long = [r for r, lanes in lanes_of.items() if width > 1 and 2 * lanes >= width]
    if not long:
        return False
    best = min(long, key=lambda loop: _outer_cost(ends, around, loop, width))
    # Inner loops that are shorter than a vector leave most lanes of reductions empty.
    pays = reductions or _outer_cost(ends, around, best, width) < _inner_cost(ends, around, width)
    if not pays:
        return False
    lanes = lanes_of[best]
    plan.pad(show(best), lanes)
    plan.do(Upcast(show(best), lanes))
    return True


def _inner_cost(ends: Sequence[UOp], around: Sequence[UOp], width: int) -> float:
    """Return about how many vectors are computed in an iteration, with lanes along inner loops."""
    total = 0.0
    for end in ends:
        inside = [r for r in end.src[1:] if r not in around]
        contiguous = [
            extent_of(r)
            for r in inside
            for store in stores_of(end)
            if access_stride(store.src[0].src[1], r) == 1
        ]
        lanes = min(width, max(contiguous, default=1))
        total += trip_count(inside) / lanes * (1.0 if lanes == width else SHORT_VECTOR)
    return total


def _outer_cost(ends: Sequence[UOp], around: Sequence[UOp], loop: UOp, width: int) -> float:
    """Return the same with lanes along an outer loop, and what strided accesses cost beside."""
    total = 0.0
    for end in ends:
        iterations = trip_count(r for r in end.src[1:] if r not in around)
        total += iterations / width
        places = [store.src[0] for store in stores_of(end)]
        for access in [*places, *loads_for(end.src[0])]:
            is_global = base_of(access).op is ops.PARAM
            if is_global and access_stride(access.src[1], loop) not in (0, 1):
                total += STRIDED_ACCESS * iterations
    return total
