"""Action: the base class of all transformations of a kernel's loops.

An action checks on which kernels and targets it is legal, raises an `ActionError` that says why
where it is not, and returns a kernel that computes the same. Loops have the names that listings
show: `r0`, and `r0_0` and `r0_1` after `r0` was split.

Each action is a frozen dataclass in a module of its own; `action_registry` lists all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import MISSING, fields

from porism.base.errors import ActionError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.action_registry import ACTIONS
from porism.optimize.actions.loop_substitution import closers_of, named_ranges, ranges_of


class Action(ABC):
    """A transformation of a kernel's loops that does not change what the kernel computes."""

    @abstractmethod
    def apply(self, kernel: UOp, target: Target) -> UOp:
        """Return the transformed kernel; raise an `ActionError` where the action is not legal."""

    def is_legal(self, kernel: UOp, target: Target) -> bool:
        """Return whether `apply` succeeds."""
        try:
            self.apply(kernel, target)
        except ActionError:
            return False
        return True

    def __str__(self) -> str:
        """Return the action as Python source, without the fields that have their default."""
        arguments = []
        for field in fields(self):  # type: ignore[arg-type]  # every action is a dataclass
            value = getattr(self, field.name)
            if field.default is MISSING:
                arguments.append(repr(value))
            elif value != field.default:
                arguments.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"

    def refuse(self, what: str, why: str, fix: str) -> ActionError:
        """Return the error of an action that is not legal, to be raised by the caller."""
        return ActionError(f"{self}: {what}", why=why, fix=fix)

    def loop(self, kernel: UOp, name: str) -> UOp:
        """Return the loop of a kernel that has this name."""
        loops = named_ranges(kernel)
        if name not in loops:
            raise self.refuse(
                f"there is no loop {name}",
                f"the loops of the kernel are {', '.join(loops) or 'none'}",
                "use one of these names",
            )
        return loops[name]

    def extent_of(self, loop: UOp) -> int:
        """Return the extent of a loop, which must be a constant."""
        extent = loop.src[0]
        if extent.op is not ops.CONST:
            raise self.refuse(
                f"the extent of {show(loop)} is {show(extent)}",
                "a loop is transformed only where its extent is a constant",
                "leave this loop as it is",
            )
        return int(extent.arg)

    def divisible_extent(self, loop: UOp, amount: int) -> int:
        """Return the extent of a loop, which must be a multiple of the amount."""
        extent = self.extent_of(loop)
        if amount < 2:
            raise self.refuse(f"the amount is {amount}", "it is at least 2", "use a larger amount")
        if extent % amount:
            raise self.refuse(
                f"the extent of {show(loop)} is {extent}",
                f"that is no multiple of {amount}",
                f"PadTo({show(loop)!r}, {amount}) first, or use an amount that divides {extent}",
            )
        return extent

    def require_kind(self, loop: UOp, kinds: Sequence[Axis]) -> None:
        """Refuse a loop that is of none of these kinds."""
        if loop.arg[1] not in kinds:
            raise self.refuse(
                f"{show(loop)} is a loop of the kind {loop.arg[1].value}",
                f"it must be of the kind {' or '.join(k.value for k in kinds)}",
                "choose another loop",
            )

    def require_no_ordered_loop(self, kernel: UOp, unless_inside: UOp | None = None) -> None:
        """Refuse to parallelize a kernel with an ordered loop: threads do not wait for each other.

        An ordered loop inside of `unless_inside` is allowed if each iteration of that loop has
        memory of its own.
        """
        ordered = [r for r in ranges_of(kernel) if r.arg[1] is Axis.ORDERED]
        if unless_inside is not None:
            ordered = [r for r in ordered if not _is_private_to(kernel, r, unless_inside)]
        if ordered:
            raise self.refuse(
                f"the iterations of {show(ordered[0])} depend on each other, and on what is stored "
                "before",
                "threads do not wait for each other there",
                "leave the kernel to one thread",
            )


Actions = tuple[Action, ...]
"""Actions that are applied one after the other."""


def apply_all(kernel: UOp, actions: Sequence[Action], target: Target) -> UOp:
    """Return a kernel after some actions, applied one after the other."""
    for action in actions:
        if not isinstance(action, Action):
            raise ActionError(
                f"{action!r} is no action",
                why=f"actions are {', '.join(ACTIONS)}",
                fix="make one, such as porism.Upcast('r0', 4)",
            )
        kernel = action.apply(kernel, target)
    return kernel


def _is_private_to(kernel: UOp, ordered: UOp, loop: UOp) -> bool:
    """Return whether each iteration of a loop runs the ordered loop on memory of its own.

    That is so if the ordered loop is inside of it, and what it stores outside of local buffers is
    never loaded in the kernel.
    """
    if any(closer not in kernel.src for closer in closers_of(kernel, loop)):
        return False
    stored: set[UOp] = set()
    for closer in closers_of(kernel, ordered):
        effect = closer.src[0]
        stores = effect.src if effect.op is ops.GROUP else (effect,)
        if any(s.op is not ops.STORE for s in stores):
            return False
        stored.update(s.src[0] for s in stores if base_of(s.src[0]).op is not ops.DEFINE_LOCAL)
        if stored and loop not in closer.src[1:]:
            return False
    buffers = {base_of(access) for access in stored}
    return not any(
        n.op is ops.INDEX and n not in stored and base_of(n) in buffers for n in toposort(kernel)
    )
