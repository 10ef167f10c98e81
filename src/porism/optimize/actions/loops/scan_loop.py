"""Scans: prefix reductions as one loop that carries the result from iteration to iteration.

    for i < n: s = 0                               t = 0
               for j < n: s += x[j] where j <= i   for i < n: s = t + x[i]
               y[i] = s                                       y[i] = s
                                                              t = s

That is n steps instead of n². The loop is ordered: each iteration needs the value that the one
before it has stored in a local buffer. To vectorize along the axis, one iteration does a vector of
elements, from the carried values of its lanes and the prefixes within the vector:

    for b < n/16: for k < 16: s = 0
                              for l < 16: s += x[16b + l] where l <= k
                              y[16b + k] = t[k] + s
                              t[k] += x[16b] + … + x[16b + 15]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.action import Action
from porism.optimize.actions.local_buffers import (
    MAX_LOCAL_BYTES,
    group_effects,
    is_index_computed_from,
    local_buffer,
    local_bytes,
    next_buffer_number,
    row_major,
)
from porism.optimize.analysis.loop_strides import nodes_inside


@dataclass(frozen=True)
class Scan(Action):
    """Compute prefix reductions along an output loop with a loop-carried value."""

    axis: str
    amount: int = 1
    """Elements of one iteration."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        if target.block:
            raise self.refuse("the target is a GPU", "its local memory is shared", "leave it out")
        loop = self.loop(kernel, self.axis)
        self.require_kind(loop, (Axis.LOOP,))
        extent = self.extent_of(loop)
        end = kernel.src[0]
        if len(kernel.src) != 1 or end.op is not ops.END or loop not in end.src[1:]:
            raise self.refuse(
                f"{self.axis} is not a loop around all stores of the kernel",
                "a value is carried along one such loop",
                "name a loop of the output",
            )
        scans = [n for n in nodes_inside(end) if _scan_loop(n) is loop]
        if not scans:
            raise self.refuse(
                f"nothing is a prefix reduction along {self.axis}",
                "the terms of such a reduction are masked by j <= i",
                "name the loop along which a scan is stored",
            )
        if not 1 <= self.amount < extent or extent % self.amount:
            raise self.refuse(
                f"the extent of {self.axis} is {extent}",
                f"it is not several times {self.amount}",
                f"use an amount that divides {extent}",
            )
        inner = end.src[end.src.index(loop, 1) + 1 :]
        self._check_nest(kernel, scans, loop, inner)
        carried_bytes = sum(s.dtype.numpy.itemsize for s in scans) * self.amount
        carried_bytes *= math.prod(self.extent_of(r) for r in inner)
        if carried_bytes + local_bytes(kernel) > MAX_LOCAL_BYTES:
            raise self.refuse(
                f"the carried values would take {carried_bytes} bytes",
                f"local buffers may take {MAX_LOCAL_BYTES}",
                f"Split a loop inside of {self.axis}, and move its outer part around it",
            )
        return carry_scans(kernel, scans, loop, self.amount, inner)

    def _check_nest(
        self, kernel: UOp, scans: Sequence[UOp], loop: UOp, inner: Sequence[UOp]
    ) -> None:
        """Refuse a nest in which anything but the scans depends on the order of the loop."""
        end = kernel.src[0]
        others = [n for n in toposort(kernel) if n.op in (ops.REDUCE, ops.END) and n not in scans]
        if any(loop in n.ranges for n in others) or end.src[0].op is not ops.STORE:
            raise self.refuse(
                f"something else is stored or reduced in each iteration of {self.axis}",
                "the scans must be all that one iteration leaves to the next",
                "leave it as it is",
            )
        if is_index_computed_from(kernel, scans):
            raise self.refuse(
                "an index is computed from the reduction",
                "the bounds of what is loaded from memory are not known",
                "leave it out",
            )
        # Each iteration of the inner loops has a carried value of its own: a loop on which the
        # reductions do not depend would otherwise update one value several times.
        if any(r.arg[1] not in (Axis.LOOP, Axis.UPCAST) for r in inner):
            raise self.refuse(
                f"loops inside of {self.axis} are parallel already",
                "each of their iterations needs the carried value",
                "apply Scan first",
            )


def scan_axis(kernel: UOp) -> UOp | None:
    """Return the loop along which a kernel has prefix reductions; None if none or several."""
    (end, *others) = kernel.src
    if others or end.op is not ops.END:
        return None
    axes = {_scan_loop(n) for n in nodes_inside(end) if n.op is ops.REDUCE}
    (axis, *more) = axes or {None}
    return None if more or axis not in end.src[1:] else axis


def _scan_loop(node: UOp) -> UOp | None:
    """Return the output loop of a prefix reduction; None if a node is no such reduction."""
    scan = _match_scan(node)
    return None if scan is None else scan[0]


def _match_scan(node: UOp) -> tuple[UOp, UOp] | None:
    """Match a prefix reduction; return its output loop and its terms without the mask j <= i."""
    if node.op is not ops.REDUCE or len(node.src) != 2:
        return None
    value, j = node.src
    start = identity(node.arg, node.dtype)
    selects: list[tuple[UOp, UOp]] = []
    while value.op is ops.WHERE and value.src[2].op is ops.CONST:
        condition, value, other = value.src
        i = condition.src[-1]
        if condition.op is ops.LE and condition.src[0] is j and i.op is ops.RANGE:
            for outer, otherwise in reversed(selects):
                value = outer.where(value, otherwise)
            is_scan = i.src[0] is j.src[0] and other.arg == start and i not in value.ranges
            return (i, value) if is_scan else None
        selects.append((condition, other))
    return None


def carry_scans(
    kernel: UOp, scans: Sequence[UOp], loop: UOp, amount: int, inner: Sequence[UOp]
) -> UOp:
    """Return a kernel with prefix reductions along a loop carried in local buffers."""
    end = kernel.src[0]
    axis, _ = loop.arg
    steps = UOp.range(int(loop.src[0].arg) // amount, (*axis, 0), Axis.ORDERED)
    lane = UOp.range(amount, (*axis, 1), Axis.LOOP)
    position, kept = (steps, inner) if amount == 1 else (steps * amount + lane, [lane, *inner])
    offset = row_major(kept)
    outer = end.src[1 : end.src.index(loop, 1)]
    number = next_buffer_number(kernel)
    starts, buffers = [], []
    for place, scan in enumerate(scans):
        size = math.prod(int(r.vmax) + 1 for r in kept)
        buffers.append(local_buffer(scan.dtype, size, number + place))
        fresh = buffers[-1].after(*outer) if outer else buffers[-1]
        zero = UOp.const(scan.dtype, identity(scan.arg, scan.dtype))
        starts.append(fresh.index(offset, dtype=scan.dtype).store(zero))
    initialized = group_effects(starts).end(*kept)
    updates, results = [], {loop: position}
    for scan, buffer in zip(scans, buffers, strict=True):
        carried = buffer.after(initialized, steps).index(offset, dtype=scan.dtype)
        results[scan], total = _scan_step(scan, carried, steps, lane)
        updates.append(carried.store(total))
    store = substitute(end.src[0], results)
    loops = []
    for r in end.src[1:]:
        loops += [r] if r is not loop else [steps] if amount == 1 else [steps, lane]
    return ops.SINK(group_effects([store, *updates]).end(*loops), arg=kernel.arg)


def _scan_step(scan: UOp, carried: UOp, steps: UOp, lane: UOp) -> tuple[UOp, UOp]:
    """Return the result of one iteration for a lane, and the value that is carried on."""
    match = _match_scan(scan)
    assert match is not None, "it is a scan"
    j, terms = scan.src[1], match[1]
    amount = int(lane.src[0].arg)
    if amount == 1:
        result = scan.arg(carried, substitute(terms, {j: steps}))
        return result, result
    within = UOp.range(amount, (*j.arg[0], 1), Axis.REDUCE)
    own = substitute(terms, {j: steps * amount + within})
    zero = UOp.const(scan.dtype, identity(scan.arg, scan.dtype))
    prefix = (within <= lane).where(own, zero).reduce(scan.arg, within)
    return scan.arg(carried, prefix), scan.arg(carried, own.reduce(scan.arg, within))
