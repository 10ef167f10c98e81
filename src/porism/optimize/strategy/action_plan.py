"""Plan: the actions that a strategy is choosing for a kernel, each applied as it is chosen.

A strategy looks at the loops that its last action has left to decide on the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.base.errors import ActionError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action
from porism.optimize.actions.loop_substitution import named_ranges
from porism.optimize.actions.loops.loop_interchange import Move
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.upcast_unroll import Upcast, upcast_together
from porism.optimize.analysis.loop_strides import extent_of

COPY_LANES: Final = 16
"""Elements that one instruction of a packing loop copies: 512 bits of 32-bit elements."""


class Plan:
    """A kernel that is being scheduled for a target, and the actions applied so far."""

    def __init__(self, kernel: UOp, target: Target) -> None:
        self.kernel = kernel
        self.target = target
        self.actions: list[Action] = []

    def do(self, action: Action) -> None:
        """Apply an action to the kernel and append it to the list; raise ActionError if illegal."""
        self.kernel = action.apply(self.kernel, self.target)
        self.actions.append(action)

    def attempt(self, action: Action) -> bool:
        """Apply an action and append it to the list; return False if it is illegal."""
        try:
            self.do(action)
        except ActionError:
            return False
        return True

    def create_loops(self, action: Action) -> list[str]:
        """Apply an action, and return the names of the loops that it creates, outermost first."""
        before = set(self.loops())
        self.do(action)
        return sorted(set(self.loops()) - before, key=lambda name: int(name[1:]))

    def try_create_loops(self, action: Action) -> list[str]:
        """Apply an action, and return the names of the loops that it creates; none if illegal."""
        try:
            return self.create_loops(action)
        except ActionError:
            return []

    def upcast_disjoint(self, actions: Sequence[Upcast]) -> None:
        """Apply several upcasts of loops of which none is inside another, in one traversal."""
        self.kernel = upcast_together(actions, self.kernel, self.target)
        self.actions += actions

    def pad(self, axis: str, multiple: int) -> None:
        """Pad the extent of a loop to a multiple, if it is none already."""
        if extent_of(self.loop(axis)) % multiple:
            self.do(PadTo(axis, multiple))

    def move_in_order(self, order: Sequence[UOp]) -> None:
        """Interchange output loops of the kernel's one nest, so that these are in this order."""
        loops = [r for r in self.kernel.src[0].src[1:] if r in order]
        for position, loop in enumerate(order):
            if loops[position] is not loop:
                self.do(Move(show(loop), show(loops[position])))
                loops.remove(loop)
                loops.insert(position, loop)

    def copy(self) -> Plan:
        """Return a plan with the same actions so far, to be continued independently."""
        other = Plan(self.kernel, self.target)
        other.actions += self.actions
        return other

    def loops(self) -> dict[str, UOp]:
        """Return all loops of the kernel, by name."""
        return named_ranges(self.kernel)

    def loop(self, axis: str) -> UOp:
        """Return the loop of a name."""
        return self.loops()[axis]

    def ends(self) -> list[UOp]:
        """Return the END nodes that close loops around stores, in topological order."""
        return [n for n in toposort(self.kernel) if n.op is ops.END]


def copy_width(extent: int) -> int:
    """Return how many elements of a row are copied by one instruction; the row may be padded."""
    return COPY_LANES if extent > COPY_LANES // 2 else COPY_LANES // 2
