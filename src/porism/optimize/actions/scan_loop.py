"""Scanning: a reduction of the first 1, 2, … n elements as one loop that carries it on.

    for i < n: s = 0                               t = 0
               for j < n: s += x[j] where j <= i   for i < n: s = t + x[i]
               y[i] = s                                       y[i] = s
                                                              t = s

That is n steps instead of n². The loop is ordered: each iteration needs what the one before it has
kept, in local memory. Along the axis a vector of elements is done in one iteration, from what was
kept for all of them and the few elements of the vector itself:

    for b < n/16: for k < 16: s = 0
                              for l < 16: s += x[16b + l] where l <= k
                              y[16b + k] = t[k] + s
                              t[k] += x[16b] + … + x[16b + 15]
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
from porism.optimize.actions.packed_panels import MOST_BYTES, local_bytes


@dataclass(frozen=True)
class Scan(Action):
    """The reductions of the elements up to an iteration of a loop, carried from one to the next."""

    axis: str
    amount: int = 1
    """Elements of an iteration."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        if target.block:
            raise self.refuse("the target is a GPU", "it has other memory", "leave it out")
        counter = self.loop(kernel, self.axis)
        self.need_kind(counter, (Axis.LOOP,))
        size = self.counted(counter)
        end = kernel.src[0]
        if len(kernel.src) != 1 or end.op is not ops.END or counter not in end.src[1:]:
            raise self.refuse(
                f"{self.axis} is not a loop around all that the kernel stores",
                "what is carried is kept for one such loop",
                "name a loop of the output",
            )
        sums = [n for n in _inside(end) if _scanned_by(n) is counter]
        if not sums:
            raise self.refuse(
                f"nothing is reduced up to the iteration of {self.axis}",
                "the terms of such a reduction are those whose number is not beyond it",
                "name the loop along which a scan is stored",
            )
        if not 1 <= self.amount < size or size % self.amount:
            raise self.refuse(
                f"{self.axis} has {size} iterations",
                f"they are not several parts of {self.amount}",
                f"use an amount that divides {size}",
            )
        others = [n for n in toposort(kernel) if n.op in (ops.REDUCE, ops.END) and n not in sums]
        if any(counter in n.ranges for n in others) or end.src[0].op is not ops.STORE:
            raise self.refuse(
                f"something else is kept or reduced in each iteration of {self.axis}",
                "what is carried is all that one iteration leaves to the next",
                "leave it as it is",
            )
        if says_where(kernel, sums):
            raise self.refuse(
                "an index is computed from what is reduced",
                "how large it may be is not known of what is kept in memory",
                "leave it out",
            )
        # each iteration of the loops inside carries on what it has kept itself: a loop on which the
        # reductions do not depend would carry them on several times otherwise
        inner = end.src[end.src.index(counter, 1) + 1 :]
        if any(r.arg[1] not in (Axis.LOOP, Axis.UPCAST) for r in inner):
            raise self.refuse(
                f"loops inside of {self.axis} are shared already",
                "each needs what was kept before",
                "do that after",
            )
        kept = sum(s.dtype.numpy.itemsize for s in sums) * self.amount
        kept *= math.prod(self.counted(r) for r in inner)
        if kept + local_bytes(kernel) > MOST_BYTES:
            raise self.refuse(
                f"what is carried would take {kept} bytes",
                f"it may take {MOST_BYTES}",
                f"Split a loop inside of {self.axis}, and move its outer part around it",
            )
        return _carried(kernel, sums, counter, self.amount, inner)


def scanned(kernel: UOp) -> UOp | None:
    """The loop up to whose iteration something is reduced; None if there is none, or several."""
    (end, *others) = kernel.src
    if others or end.op is not ops.END:
        return None
    found = {_scanned_by(n) for n in _inside(end) if n.op is ops.REDUCE}
    (one, *more) = found or {None}
    return None if more or one not in end.src[1:] else one


def _inside(end: UOp) -> list[UOp]:
    return toposort(end.src[0], within=lambda n: n.op is not ops.END)


def _scanned_by(node: UOp) -> UOp | None:
    """The loop up to whose iteration a node reduces its terms, if it is such a reduction."""
    found = _taken_apart(node)
    return None if found is None else found[0]


def _taken_apart(node: UOp) -> tuple[UOp, UOp] | None:
    """The loop up to whose iteration a node reduces its terms, and what is reduced."""
    if node.op is not ops.REDUCE or len(node.src) != 2:
        return None
    value, terms = node.src
    start = identity(node.arg, node.dtype)
    around: list[tuple[UOp, UOp]] = []
    while value.op is ops.WHERE and value.src[2].op is ops.CONST:
        condition, value, other = value.src
        upto = condition.src[-1]
        if condition.op is ops.LE and condition.src[0] is terms and upto.op is ops.RANGE:
            for outer, beyond in reversed(around):
                value = outer.where(value, beyond)
            fits = upto.src[0] is terms.src[0] and other.arg == start and upto not in value.ranges
            return (upto, value) if fits else None
        around.append((condition, other))
    return None


def _carried(
    kernel: UOp, sums: Sequence[UOp], counter: UOp, amount: int, slots: Sequence[UOp]
) -> UOp:
    end = kernel.src[0]
    axis, _ = counter.arg
    steps = UOp.range(int(counter.src[0].arg) // amount, (*axis, 0), Axis.ORDERED)
    lane = UOp.range(amount, (*axis, 1), Axis.LOOP)
    now, keeps = (steps, slots) if amount == 1 else (steps * amount + lane, [lane, *slots])
    at = UOp.const(index, 0)
    for each in keeps:
        at = at * (int(each.vmax) + 1) + each
    outer = end.src[1 : end.src.index(counter, 1)]
    number = max((n.arg for n in toposort(kernel) if n.op is ops.DEFINE_LOCAL), default=-1) + 1
    values, starts = {counter: now}, []
    memories = []
    for place, whole in enumerate(sums):
        dtype = whole.dtype.pointer(Space.LOCAL, math.prod(int(r.vmax) + 1 for r in keeps))
        memories.append(UOp(ops.DEFINE_LOCAL, dtype, (), number + place))
        fresh = memories[-1].after(*outer) if outer else memories[-1]
        zero = UOp.const(whole.dtype, identity(whole.arg, whole.dtype))
        starts.append(fresh.index(at, dtype=whole.dtype).store(zero))
    started = _together(starts).end(*keeps)
    kept, results = [], {}
    for whole, memory in zip(sums, memories, strict=True):
        before = memory.after(started, steps).index(at, dtype=whole.dtype)
        found = _taken_apart(whole)
        assert found is not None, "it is a scan"
        terms, value = whole.src[1], found[1]
        if amount == 1:
            total = upto = whole.arg(before, substitute(value, {terms: steps}))
        else:
            part = UOp.range(amount, (*terms.arg[0], 1), Axis.REDUCE)
            own = substitute(value, {terms: steps * amount + part})
            other = UOp.const(whole.dtype, identity(whole.arg, whole.dtype))
            prefix = (part <= lane).where(own, other).reduce(whole.arg, part)
            upto = whole.arg(before, prefix)
            total = whole.arg(before, own.reduce(whole.arg, part))
        results[whole] = upto
        kept.append(before.store(total))
    store = substitute(end.src[0], results | values)
    loops = []
    for r in end.src[1:]:
        loops += [r] if r is not counter else [steps] if amount == 1 else [steps, lane]
    return ops.SINK(_together([store, *kept]).end(*loops), arg=kernel.arg)


def _together(effects: Sequence[UOp]) -> UOp:
    return effects[0] if len(effects) == 1 else ops.GROUP(*effects)
