"""Reduction blocking: a reduction in blocks of k, with the loop over the blocks outside of others.

    for j: s = 0                              for j: t[j] = 0
           for k < 64: s += x[k] * a[k, j]    for k < 8: for j: s = 0
           y[j] = s                                             for l < 8: s += x[8k + l] * a[…]
                                                                t[j] += s
                                              for j: y[j] = t[j]

The partial results are kept in a local buffer. Cache blocking of k pays where the terms of one
result are far apart, or more than a cache holds: a block is used for all results before the next
block is loaded. The remainder of k is reduced where the results are used.
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
from porism.optimize.actions.loops.upcast_unroll import UNROLLED_KINDS


@dataclass(frozen=True)
class Block(Action):
    """Split a reduction axis into blocks, with the loop over them around a loop of the output."""

    axis: str
    amount: int
    """The extent of a block."""
    around: str
    """The outermost of the loops that are run for each block."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        k, first = self.loop(kernel, self.axis), self.loop(kernel, self.around)
        if target.block:
            raise self.refuse("the target is a GPU", "its local memory is shared", "leave it out")
        self.require_kind(k, (Axis.REDUCE,))
        self.require_kind(first, (Axis.LOOP, Axis.UPCAST))
        extent = self.extent_of(k)
        if not 1 <= self.amount < extent:
            raise self.refuse(
                f"the extent of {self.axis} is {extent}",
                f"it is not larger than a block of {self.amount}",
                f"use an amount below {extent}",
            )
        end = kernel.src[0]
        if len(kernel.src) != 1 or end.op is not ops.END or first not in end.src[1:]:
            raise self.refuse(
                f"{self.around} is not a loop around all stores of the kernel",
                "partial results are kept for all iterations of such loops",
                "name a loop of the output",
            )
        reductions = self._reductions(kernel, end, k)
        inner = end.src[end.src.index(first, 1) :]
        loops = [r for r in end.src[1:] if r in inner or r.arg[1] in UNROLLED_KINDS]
        kept = [r for r in loops if any(r in n.ranges for n in reductions)]
        for loop in kept:
            self.extent_of(loop)
        self._check_operands(kernel, reductions, first, extent)
        self._check_memory(kernel, reductions, kept)
        outer = [r for r in end.src[1:] if r not in loops]
        # partial results are computed inside of the outer loops, and so is what uses them
        nested = substitute(kernel, {end: end.src[0].end(*outer, *loops)})
        return block_reductions(nested, reductions, k, self.amount, kept, outer)

    def _check_operands(
        self, kernel: UOp, reductions: Sequence[UOp], first: UOp, extent: int
    ) -> None:
        """Refuse reductions whose partial results cannot be kept for the loops inside."""
        if not all(first in n.ranges for n in reductions):
            raise self.refuse(
                f"the reduction does not depend on {self.around}",
                "each iteration would reduce the same again",
                "name a loop that it depends on",
            )
        below = toposort(*(n.src[0] for n in reductions))
        if extent % self.amount and any(n.op is ops.END and n.ranges for n in below):
            raise self.refuse(
                f"the extent of {self.axis} is {extent}, and its operands are packed",
                f"the remainder modulo {self.amount} is reduced outside of the loops of the panel",
                f"use an amount that divides {extent}, or Pack after",
            )
        if is_index_computed_from(kernel, reductions):
            raise self.refuse(
                "an index is computed from the reduction",
                "the bounds of what is loaded from memory are not known",
                "leave it out",
            )

    def _check_memory(self, kernel: UOp, reductions: Sequence[UOp], kept: Sequence[UOp]) -> None:
        """Refuse partial results that exceed the limit of local buffers."""
        partial_bytes = sum(n.dtype.numpy.itemsize for n in reductions) * _trip_count(kept)
        packed_bytes = local_bytes(kernel)
        if partial_bytes + packed_bytes > MAX_LOCAL_BYTES:
            beside = f", beside {packed_bytes} of other local buffers" if packed_bytes else ""
            raise self.refuse(
                f"the partial results would take {partial_bytes} bytes{beside}",
                f"local buffers may take {MAX_LOCAL_BYTES}",
                f"Split {self.around}, and name the inner part",
            )

    def _reductions(self, kernel: UOp, end: UOp, k: UOp) -> list[UOp]:
        """Return the reductions over an axis, which must be the outermost of the last nest."""
        inside = toposort(end.src[0], within=lambda n: n.op is not ops.END)
        reductions = [n for n in inside if n.op is ops.REDUCE and k in n.src[1:]]
        if not reductions or _closers(kernel, k) != reductions:
            raise self.refuse(
                f"{self.axis} is a loop that fills a local buffer",
                "only the last loop nest of a kernel is blocked",
                "choose another loop",
            )
        if any(n.src[1] is not k for n in reductions):
            raise self.refuse(
                f"{self.axis} is inside of another loop of the reduction",
                "the order of the reduction is kept",
                "name the outermost one",
            )
        if any(not set(n.ranges) <= set(end.src[1:]) for n in reductions):
            raise self.refuse(
                f"{self.axis} is inside of a loop of another reduction",
                "partial results are kept for the loops of the output only",
                "choose the loop of an outermost reduction",
            )
        below = {n for reduction in reductions for n in toposort(reduction.src[0])}
        if any(n in below for n in reductions):
            raise self.refuse(
                f"one reduction over {self.axis} needs another",
                "that must be complete before",
                "leave them as they are",
            )
        return reductions


def block_reductions(
    kernel: UOp,
    reductions: Sequence[UOp],
    k: UOp,
    amount: int,
    kept: Sequence[UOp],
    outer: Sequence[UOp],
) -> UOp:
    """Return a kernel with reductions in blocks, and a partial result for each iteration of `kept`.

    The partial results are initialized in each iteration of the outer loops.
    """
    axis, _ = k.arg
    count, remainder = divmod(int(k.src[0].arg), amount)
    blocks = UOp.range(count, (*axis, 0), Axis.ORDERED)
    within = UOp.range(amount, (*axis, 1), Axis.REDUCE)
    offset = row_major(kept)
    number = next_buffer_number(kernel)
    starts, updates, buffers = [], [], []
    for place, whole in enumerate(reductions):
        buffers.append(local_buffer(whole.dtype, _trip_count(kept), number + place))
        fresh = buffers[-1].after(*outer) if outer else buffers[-1]
        zero = UOp.const(whole.dtype, identity(whole.arg, whole.dtype))
        starts.append(fresh.index(offset, dtype=whole.dtype).store(zero))
    initialized = group_effects(starts).end(*kept)
    for whole, buffer in zip(reductions, buffers, strict=True):
        partial = buffer.after(initialized, blocks).index(offset, dtype=whole.dtype)
        block = _reduce_part(whole, k, blocks * amount + within)
        updates.append(partial.store(whole.arg(partial, block)))
    reduced = group_effects(updates).end(blocks, *kept)
    results = {}
    for whole, buffer in zip(reductions, buffers, strict=True):
        results[whole] = buffer.after(reduced).index(offset, dtype=whole.dtype)
        if remainder:
            last = UOp.range(remainder, (*axis, 2), Axis.REDUCE)
            rest = _reduce_part(whole, k, last + count * amount)
            results[whole] = whole.arg(results[whole], rest)
    return substitute(kernel, results)


def _reduce_part(whole: UOp, k: UOp, position: UOp) -> UOp:
    """Return a reduction over those values of `k` that `position` takes in its own loop."""
    (within,) = (r for r in position.ranges if r.arg[1] is Axis.REDUCE)
    value = substitute(whole.src[0], {k: position})
    return value.reduce(whole.arg, within, *whole.src[2:])


def _trip_count(loops: Sequence[UOp]) -> int:
    """Return the largest product of the extents of some loops."""
    return math.prod(int(r.vmax) + 1 for r in loops)


def _closers(kernel: UOp, loop: UOp) -> list[UOp]:
    """Return the nodes that close a loop, in topological order."""
    return [n for n in toposort(kernel) if n.op in (ops.REDUCE, ops.END) and loop in n.src[1:]]
