"""A plan: actions that are being chosen for a kernel, each applied at once to see the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.loop_actions import Action, PadTo, Upcast, upcast_together
from porism.optimize.actions.loop_transforms import named_ranges

COPIED: Final = 16
"""Elements that are copied together."""


class Plan:
    """A kernel, a target, and the actions so far."""

    def __init__(self, kernel: UOp, target: Target) -> None:
        self.kernel = kernel
        self.target = target
        self.actions: list[Action] = []

    def do(self, action: Action) -> None:
        """One more action."""
        self.kernel = action.apply(self.kernel, self.target)
        self.actions.append(action)

    def upcast_disjoint(self, actions: Sequence[Upcast]) -> None:
        """Several more, about loops of which none is inside another."""
        self.kernel = upcast_together(actions, self.kernel, self.target)
        self.actions += actions

    def pad(self, axis: str, multiple: int) -> None:
        """A loop made longer, if it is no multiple."""
        if extent_of(self.loop(axis)) % multiple:
            self.do(PadTo(axis, multiple))

    def copy(self) -> Plan:
        """The same so far, to be continued in another way."""
        other = Plan(self.kernel, self.target)
        other.actions += self.actions
        return other

    def loops(self) -> dict[str, UOp]:
        """The loops by name."""
        return named_ranges(self.kernel)

    def loop(self, axis: str) -> UOp:
        return self.loops()[axis]

    def ends(self) -> list[UOp]:
        """What closes the loops of stores, in order."""
        return [n for n in toposort(self.kernel) if n.op is ops.END]


def extent_of(counter: UOp) -> int:
    """The iterations of a loop, at most."""
    size = counter.src[0]
    return int(size.arg) if size.op is ops.CONST else int(counter.vmax) + 1


def copy_width(size: int) -> int:
    """Elements of a row of a copy that are moved by one instruction; the row may be padded."""
    return COPIED if size > COPIED // 2 else COPIED // 2


def is_unscheduled(counter: UOp) -> bool:
    """A loop that nothing was done to and whose size is known."""
    return counter.arg[1] in (Axis.LOOP, Axis.REDUCE) and counter.src[0].op is ops.CONST
