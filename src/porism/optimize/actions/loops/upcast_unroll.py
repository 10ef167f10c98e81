"""Vectorizing and unrolling: some iterations of a loop as vector lanes and unrolled copies.

    Upcast("r1", 4)    4 iterations of an output loop (unroll-and-jam)
    Unroll("r2", 4)    4 iterations of a reduction axis

Lowering makes vector lanes of the iterations that access neighbours, and copies of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.target import Target
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.loop_substitution import (
    replace_loops,
    split_loop,
    split_replacement,
)
from porism.rules.addresses.grid_dims import block_limit_problem

UNROLLED_KINDS: Final = frozenset({Axis.UPCAST, Axis.UNROLL})
"""The kinds of loops that are unrolled or vectorized."""

MAX_UNROLLED: Final = 2048
"""Unrolled copies times lanes of one node, at most; chosen by hand: more compile slowly."""


@dataclass(frozen=True)
class Upcast(Action):
    """Unroll or vectorize some iterations of an output loop."""

    axis: str
    amount: int
    top: bool = False
    """Whether the iterations are extent/amount apart, and not neighbours."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        return _unroll_loop(self, kernel, target, self.output_loop(kernel), Axis.UPCAST)

    def output_loop(self, kernel: UOp) -> UOp:
        """Return the loop that the action names, which must be one of the output."""
        loop = self.loop(kernel, self.axis)
        self.require_kind(loop, (Axis.LOOP, Axis.THREAD, Axis.GLOBAL, Axis.LOCAL))
        return loop


@dataclass(frozen=True)
class Unroll(Action):
    """Unroll or vectorize some iterations of a reduction axis."""

    axis: str
    amount: int
    top: bool = False
    """Whether the iterations are extent/amount apart, and not neighbours."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        loop = self.loop(kernel, self.axis)
        self.require_kind(loop, (Axis.REDUCE, Axis.GROUP))
        return _unroll_loop(self, kernel, target, loop, Axis.UNROLL)


def upcast_together(actions: Sequence[Upcast], kernel: UOp, target: Target) -> UOp:
    """Apply several Upcasts in one walk of the graph.

    The loops must be different, and none inside another.
    """
    if len(actions) < 2 or target.block:
        return apply_all(kernel, actions, target)
    loops = [action.output_loop(kernel) for action in actions]
    scopes = _scopes(kernel)
    for action, loop in zip(actions, loops, strict=True):
        _check_amount(action, scopes, loop)
    replacements = {
        loop: split_replacement(loop, action.amount, Axis.UPCAST, top=action.top)[2]
        for action, loop in zip(actions, loops, strict=True)
    }
    return replace_loops(kernel, replacements)


def unroll_factor(kernel: UOp, loop: UOp) -> int:
    """Return the largest number of unrolled copies and lanes of a node that depends on a loop."""
    return _unroll_factor(_scopes(kernel), loop)


def _unroll_factor(scopes: Iterable[tuple[UOp, ...]], loop: UOp) -> int:
    largest = 1
    for loops in scopes:
        if loop in loops:
            copies = 1
            for r in loops:
                if r.arg[1] in UNROLLED_KINDS:
                    copies *= int(r.vmax) + 1
            largest = max(largest, copies)
    return largest


def _scopes(kernel: UOp) -> set[tuple[UOp, ...]]:
    """Return the sets of loops that the nodes of a kernel depend on."""
    return {n.ranges for n in toposort(kernel)}


def _check_amount(action: Upcast | Unroll, scopes: Iterable[tuple[UOp, ...]], loop: UOp) -> None:
    """Refuse an amount that does not divide the extent, or unrolls too much."""
    action.divisible_extent(loop, action.amount)
    copies = _unroll_factor(scopes, loop) * action.amount
    if copies > MAX_UNROLLED:
        raise action.refuse(
            f"{copies} iterations would be unrolled or vectorized",
            f"more than {MAX_UNROLLED} are slow to compile and do not fit in registers",
            "use a smaller amount",
        )


def _unroll_loop(
    action: Upcast | Unroll, kernel: UOp, target: Target, loop: UOp, kind: Axis
) -> UOp:
    """Return a kernel with some iterations of a loop of the kind UPCAST or UNROLL."""
    _check_amount(action, _scopes(kernel), loop)
    changed = split_loop(kernel, loop, action.amount, kind, top=action.top)[0]
    misfit = block_limit_problem(changed, target) if target.block else None
    if misfit is not None:
        raise action.refuse(*misfit, "use a smaller amount")
    return changed
