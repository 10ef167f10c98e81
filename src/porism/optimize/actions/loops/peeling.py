"""Loop peeling: the last iterations of a reduction in a loop of their own.

    for k < 100: s += x[k]        for k < 96: s += x[k]
                                  for k < 4: s += x[96 + k]

The extent of the main loop is then a multiple of the vector length, and needs no masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.action import Action
from porism.optimize.actions.loop_substitution import closers_of


@dataclass(frozen=True)
class Peel(Action):
    """Split a reduction into a loop over a multiple of some amount and one over the remainder."""

    axis: str
    amount: int

    def apply(self, kernel: UOp, target: Target) -> UOp:
        k = self.loop(kernel, self.axis)
        self.require_kind(k, (Axis.REDUCE,))
        extent = self.extent_of(k)
        if not 1 < self.amount < extent or extent % self.amount == 0:
            raise self.refuse(
                f"the extent of {self.axis} is {extent}",
                f"it leaves no remainder modulo {self.amount}",
                f"use an amount below {extent} that does not divide it, or leave it out",
            )
        reductions = closers_of(kernel, k)
        if any(n.op is not ops.REDUCE or n.src[1:] != (k,) for n in reductions):
            raise self.refuse(
                f"{self.axis} is not the only loop of each reduction over it",
                "the order of the reduction is kept",
                "choose another loop",
            )
        inside = toposort(*(n.src[0] for n in reductions))
        if any(n.op in (ops.END, ops.REDUCE) and k in n.ranges for n in inside):
            raise self.refuse(
                f"there are loops inside of {self.axis}",
                "they would be duplicated",
                "choose another loop",
            )
        return peel_reductions(kernel, reductions, k, extent - extent % self.amount)


def peel_reductions(kernel: UOp, reductions: Sequence[UOp], k: UOp, split: int) -> UOp:
    """Return a kernel with reductions over `k` as two loops: below `split`, and from there on."""
    axis, _ = k.arg
    main = UOp.range(split, (*axis, 0), Axis.REDUCE)
    rest = UOp.range(int(k.src[0].arg) - split, (*axis, 1), Axis.REDUCE)
    peeled: dict[UOp, UOp] = {}
    for reduction in reductions:
        value = substitute(reduction.src[0], peeled)
        parts = [
            substitute(value, {k: position}).reduce(reduction.arg, loop)
            for position, loop in ((main, main), (rest + split, rest))
        ]
        peeled[reduction] = reduction.arg(*parts)
    return substitute(kernel, peeled)
