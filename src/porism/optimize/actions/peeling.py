"""Peeling: the last terms of a reduction in a loop of their own.

    for k < 100: s += x[k]        for k < 96: s += x[k]
                                  for k < 4: s += x[96 + k]

What is left then has a size that vectors fit, and needs no masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.loop_actions import Action, Unroll
from porism.optimize.actions.loop_transforms import CLOSERS
from porism.optimize.strategy.action_plan import Plan, extent_of


@dataclass(frozen=True)
class Peel(Action):
    """The loop of a reduction as one over a multiple of some amount, and one over the rest."""

    axis: str
    amount: int

    def apply(self, kernel: UOp, target: Target) -> UOp:
        terms = self.loop(kernel, self.axis)
        self.need_kind(terms, (Axis.REDUCE,))
        size = self.counted(terms)
        if not 1 < self.amount < size or size % self.amount == 0:
            raise self.refuse(
                f"{self.axis} has {size} iterations",
                f"nothing is left over by multiples of {self.amount}",
                f"use an amount below {size} that does not divide it, or leave it out",
            )
        order = toposort(kernel)
        sums = [n for n in order if n.op in CLOSERS and terms in n.src[1:]]
        if any(n.op is not ops.REDUCE or n.src[1:] != (terms,) for n in sums):
            raise self.refuse(
                f"{self.axis} is not the only loop of each reduction over it",
                "the order of what is added up is kept",
                "choose another loop",
            )
        inside = toposort(*(n.src[0] for n in sums))
        if any(n.op in (ops.END, ops.REDUCE) and terms in n.ranges for n in inside):
            raise self.refuse(
                f"there are loops inside of {self.axis}",
                "they would be there twice",
                "choose another loop",
            )
        return peeled(kernel, sums, terms, size - size % self.amount)


def peeled(kernel: UOp, sums: list[UOp], terms: UOp, first: int) -> UOp:
    """A kernel with the first terms of reductions in one loop and the others in another."""
    axis, _ = terms.arg
    most = UOp.range(first, (*axis, 0), Axis.REDUCE)
    rest = UOp.range(int(terms.src[0].arg) - first, (*axis, 1), Axis.REDUCE)
    found: dict[UOp, UOp] = {}
    for whole in sums:
        value = substitute(whole.src[0], found)
        parts = [
            substitute(value, {terms: at}).reduce(whole.arg, counter)
            for at, counter in ((most, most), (rest + first, rest))
        ]
        found[whole] = whole.arg(*parts)
    return substitute(kernel, found)


def in_whole_vectors(plan: Plan, axis: str, amounts: Sequence[int]) -> bool:
    """A reduction along neighbours in vectors without masks, but for those that are left over.

    So many elements may go side by side, the most first; the last is the lanes of a vector. False
    if nothing was done: that is not legal, or nothing is left over.
    """
    size, width = extent_of(plan.loop(axis)), amounts[-1]
    amount = next((n for n in amounts if size >= 2 * n or n <= size <= n + width), width)
    action = Peel(axis, amount)
    if plan.target.block or not action.is_legal(plan.kernel, plan.target):
        return False
    plan.do(action)
    plan.do(Unroll(f"{axis}_0", amount))
    rest, left = f"{axis}_1", size % amount
    whole = -(-left // width) * width
    if whole <= 4 * left:
        plan.pad(rest, width)
        left = whole
    if left > 1:
        plan.do(Unroll(rest, left))
    return True
