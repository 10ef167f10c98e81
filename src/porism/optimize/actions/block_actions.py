"""Block actions: what the threads of a block do, on targets that have blocks of threads.

    Local("r1", 16)      16 neighbouring iterations of an output loop by 16 threads of a block
    Group("r2", 16)      a reduction by 16 threads together, each takes every 16th element
    GroupTop("r2", 16)   the same, each takes a part of its own

What is left of the loop of a Local is shared among the blocks when the kernel is lowered. A loop
that fills local memory can be a Local as well: then the threads of the block fill it together.
"""

from __future__ import annotations

from dataclasses import dataclass

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.loop_actions import NO_LOCALS, Action
from porism.optimize.actions.loop_transforms import ranges_of, split
from porism.rules.addresses.grid_dims import is_independent, problem


class BlockAction(Action):
    """An action that makes threads of a block out of a loop."""

    def need_threads(self, kernel: UOp, target: Target) -> None:
        if not target.block:
            raise self.refuse(
                f"the target {target.name} has no blocks of threads",
                "they are what a GPU has",
                "use Thread or Upcast",
            )
        if kernel.arg == NO_LOCALS:
            raise self.refuse(
                "the kernel is to have no threads of a block",
                "NoLocals was applied before",
                "leave NoLocals out",
            )

    def into_threads(
        self, kernel: UOp, target: Target, counter: UOp, amount: int, kind: Axis, *, top: bool
    ) -> UOp:
        """The kernel with some iterations of a loop made threads, if they fit a block."""
        self.divided(counter, amount)
        self.need_no_order(kernel)
        for other in ranges_of(kernel):
            if other is not counter and counter in other.src[0].ranges:
                raise self.refuse(
                    f"the size of {show(other)} depends on {show(counter)}",
                    "the threads of a block go through the same loops",
                    "choose another loop",
                )
        changed, _, _ = split(kernel, counter, amount, kind, top=top)
        wrong = problem(changed, target)
        if wrong is not None:
            raise self.refuse(*wrong, "use a smaller amount")
        return changed


@dataclass(frozen=True)
class Local(BlockAction):
    """Iterations of an output loop by the threads of a block."""

    axis: str
    amount: int

    def apply(self, kernel: UOp, target: Target) -> UOp:
        counter = self.loop(kernel, self.axis)
        self.need_threads(kernel, target)
        self.need_kind(counter, (Axis.LOOP, Axis.GLOBAL))
        if not is_independent(kernel, counter):
            raise self.refuse(
                f"the iterations of {self.axis} depend on each other",
                "several write one element, or one reads what another writes",
                "choose a loop whose iterations write elements of their own",
            )
        return self.into_threads(kernel, target, counter, self.amount, Axis.LOCAL, top=False)


@dataclass(frozen=True)
class Group(BlockAction):
    """A reduction by threads of a block together, neighbours by neighbouring threads."""

    axis: str
    amount: int

    def apply(self, kernel: UOp, target: Target) -> UOp:
        return self.grouped(kernel, target, top=False)

    def grouped(self, kernel: UOp, target: Target, *, top: bool) -> UOp:
        counter = self.loop(kernel, self.axis)
        self.need_threads(kernel, target)
        self.need_kind(counter, (Axis.REDUCE,))
        closed = [n for n in toposort(kernel) if n.op is ops.REDUCE and counter in n.src[1:]]
        if any(not n.dtype.bits for n in closed):
            raise self.refuse(
                f"{self.axis} reduces an index",
                "an index has no width yet, so that it cannot be kept in local memory",
                "choose another loop",
            )
        if any(r.arg[1] is Axis.WARP for n in closed for r in n.src[1:]):
            raise self.refuse(
                f"{self.axis} is the reduction of a tensor core",
                "its result is spread over the threads of a warp",
                "Group another reduction",
            )
        return self.into_threads(kernel, target, counter, self.amount, Axis.GROUP, top=top)


@dataclass(frozen=True)
class GroupTop(Group):
    """A reduction by threads of a block together, each with a part of its own."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        return self.grouped(kernel, target, top=True)
