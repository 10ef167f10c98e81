"""Blocking: a reduction in blocks of terms, with the loop over the blocks outside of others.

    for j: s = 0                              for j: t[j] = 0
           for k < 64: s += x[k] * a[k, j]    for k < 8: for j: s = 0
           y[j] = s                                             for l < 8: s += x[8k + l] * a[…]
                                                                t[j] += s
                                              for j: y[j] = t[j]

The sums so far are kept in local memory. It pays where the terms of one sum are far apart, or more
than a cache holds: the terms of a block are used for all sums before those of the next. Terms that
are left over, fewer than a block has, are added where the sums are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from porism.base.dtypes import Space, index
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.loop_actions import Action
from porism.optimize.actions.loop_transforms import says_where
from porism.optimize.actions.packed_panels import MOST_BYTES, SPREAD, local_bytes


@dataclass(frozen=True)
class Block(Action):
    """The loop of a reduction in blocks, the loop over these around a loop of the output."""

    axis: str
    amount: int
    """Terms of a block."""
    around: str
    """The outermost of the loops that are run for each block."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        terms, first = self.loop(kernel, self.axis), self.loop(kernel, self.around)
        if target.block:
            raise self.refuse("the target is a GPU", "it has other memory", "leave it out")
        self.need_kind(terms, (Axis.REDUCE,))
        self.need_kind(first, (Axis.LOOP, Axis.UPCAST))
        size = self.counted(terms)
        if not 1 <= self.amount < size:
            raise self.refuse(
                f"{self.axis} has {size} iterations",
                f"they are no blocks of {self.amount}",
                f"use an amount below {size}",
            )
        end = kernel.src[0]
        if len(kernel.src) != 1 or end.op is not ops.END or first not in end.src[1:]:
            raise self.refuse(
                f"{self.around} is not a loop around all that the kernel stores",
                "the sums are kept for all iterations of such loops",
                "name a loop of the output",
            )
        sums = self._sums(kernel, end, terms)
        inner = end.src[end.src.index(first, 1) :]
        loops = [r for r in end.src[1:] if r in inner or r.arg[1] in SPREAD]
        slots = [r for r in loops if any(r in s.ranges for s in sums)]
        for counter in slots:
            self.counted(counter)
        if not all(first in s.ranges for s in sums):
            raise self.refuse(
                f"what is added up is the same for all iterations of {self.around}",
                "it would be added up again for each of them",
                "name a loop that it depends on",
            )
        below = toposort(*(s.src[0] for s in sums))
        if size % self.amount and any(n.op is ops.END and n.ranges for n in below):
            raise self.refuse(
                f"{self.axis} has {size} iterations, and what is added up is copied before",
                f"{size % self.amount} of them are no block of {self.amount}, and done elsewhere",
                f"use an amount that divides {size}, or copy it after",
            )
        if says_where(kernel, sums):
            raise self.refuse(
                "an index is computed from what is added up",
                "how large it may be is not known of what is kept in memory",
                "leave it out",
            )
        bytes_kept = sum(s.dtype.numpy.itemsize for s in sums) * _product(slots)
        copied = local_bytes(kernel)
        if bytes_kept + copied > MOST_BYTES:
            beside = f", beside {copied} of copies" if copied else ""
            raise self.refuse(
                f"the sums would take {bytes_kept} bytes{beside}",
                f"they may take {MOST_BYTES}",
                f"Split {self.around}, and name the inner part",
            )
        outer = [r for r in end.src[1:] if r not in loops]
        return blocked(kernel, sums, terms, self.amount, slots, outer)

    def _sums(self, kernel: UOp, end: UOp, terms: UOp) -> list[UOp]:
        """The reductions over a loop."""
        inside = toposort(end.src[0], within=lambda n: n.op is not ops.END)
        sums = [n for n in inside if n.op is ops.REDUCE and terms in n.src[1:]]
        closers = [n for n in toposort(kernel) if terms in n.src[1:] and n.op is not ops.RANGE]
        if [n for n in closers if n.op in (ops.REDUCE, ops.END)] != sums or not sums:
            raise self.refuse(
                f"{self.axis} is a loop of something that is kept before",
                "only the last step of a kernel is done in blocks",
                "choose another loop",
            )
        if any(s.src[1] is not terms for s in sums):
            raise self.refuse(
                f"{self.axis} is inside of another loop of the reduction",
                "the order of what is added up is kept",
                "name the outermost one",
            )
        if any(not set(s.ranges) <= set(end.src[1:]) for s in sums):
            raise self.refuse(
                f"{self.axis} is inside of a loop of another reduction",
                "the sums are kept for the loops of the output only",
                "choose the loop of an outermost reduction",
            )
        below = {n for s in sums for n in toposort(s.src[0])}
        if any(s in below for s in sums):
            raise self.refuse(
                f"one reduction over {self.axis} needs another",
                "that must be complete before",
                "leave them as they are",
            )
        return sums


def blocked(
    kernel: UOp,
    sums: Sequence[UOp],
    terms: UOp,
    amount: int,
    slots: Sequence[UOp],
    outer: Sequence[UOp],
) -> UOp:
    """A kernel with reductions in blocks of terms; a sum is kept for each iteration of `slots`.

    All of them begin anew in each iteration of the outer loops.
    """
    axis, _ = terms.arg
    count, left = divmod(int(terms.src[0].arg), amount)
    blocks = UOp.range(count, (*axis, 0), Axis.ORDERED)
    within = UOp.range(amount, (*axis, 1), Axis.REDUCE)
    at = UOp.const(index, 0)
    for counter in slots:
        at = at * (int(counter.vmax) + 1) + counter
    numbers = [n.arg for n in toposort(kernel) if n.op is ops.DEFINE_LOCAL]
    number = max(numbers, default=-1) + 1
    starts, steps, memories = [], [], []
    for place, whole in enumerate(sums):
        dtype = whole.dtype.pointer(Space.LOCAL, _product(slots))
        memories.append(UOp(ops.DEFINE_LOCAL, dtype, (), number + place))
        fresh = memories[-1].after(*outer) if outer else memories[-1]
        zero = UOp.const(whole.dtype, identity(whole.arg, whole.dtype))
        starts.append(fresh.index(at, dtype=whole.dtype).store(zero))
    started = _together(starts).end(*slots)
    for whole, memory in zip(sums, memories, strict=True):
        there = memory.after(started, blocks).index(at, dtype=whole.dtype)
        steps.append(there.store(whole.arg(there, _part(whole, terms, blocks * amount + within))))
    done = _together(steps).end(blocks, *slots)
    results = {}
    for whole, memory in zip(sums, memories, strict=True):
        results[whole] = memory.after(done).index(at, dtype=whole.dtype)
        if left:
            last = UOp.range(left, (*axis, 2), Axis.REDUCE)
            results[whole] = whole.arg(results[whole], _part(whole, terms, last + count * amount))
    return substitute(kernel, results)


def _part(whole: UOp, terms: UOp, at: UOp) -> UOp:
    """The same reduction over some of its terms; `at` is on a range over these."""
    (within,) = (r for r in at.ranges if r.arg[1] is Axis.REDUCE)
    value = substitute(whole.src[0], {terms: at})
    return value.reduce(whole.arg, within, *whole.src[2:])


def _together(effects: Sequence[UOp]) -> UOp:
    return effects[0] if len(effects) == 1 else ops.GROUP(*effects)


def _product(ranges: Sequence[UOp]) -> int:
    return math.prod(int(r.vmax) + 1 for r in ranges)
