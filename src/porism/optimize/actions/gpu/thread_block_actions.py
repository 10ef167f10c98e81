"""Thread block actions: loops distributed over the threads of a GPU's thread block.

    Local("r1", 16)      16 neighbouring iterations of an output loop by 16 threads
    Group("r2", 16)      a reduction by 16 threads together, each takes every 16th element
    GroupTop("r2", 16)   the same, each takes a contiguous part
    NoLocals()           no threads of a block in this kernel

The rest of the loop of a Local is distributed over the blocks when the kernel is lowered. A loop
that fills local memory can be a Local as well: then the threads of the block fill it together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action
from porism.optimize.actions.loop_substitution import ranges_of, split_loop
from porism.rules.addresses.grid_dims import block_limit_problem, has_independent_iterations

NO_LOCALS: Final = "no locals"
"""The argument of a kernel that may not use threads of a block."""


@dataclass(frozen=True)
class NoLocals(Action):
    """Forbid threads of a block in this kernel."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        if kernel.arg == NO_LOCALS:
            raise self.refuse("NoLocals was applied before", "once is enough", "leave it out")
        if any(r.arg[1] in (Axis.LOCAL, Axis.GROUP, Axis.WARP) for r in ranges_of(kernel)):
            raise self.refuse(
                "the kernel has threads of a block",
                "no action takes them back",
                "apply it before Local and Group",
            )
        return ops.SINK(*kernel.src, arg=NO_LOCALS)


class ThreadBlockAction(Action):
    """An action that distributes a loop over the threads of a block."""

    def require_threads(self, kernel: UOp, target: Target) -> None:
        """Refuse a target without thread blocks, and a kernel that may not use threads."""
        if not target.block:
            raise self.refuse(
                f"the target {target.name} has no blocks of threads",
                "only a GPU has them",
                "use Thread or Upcast",
            )
        if kernel.arg == NO_LOCALS:
            raise self.refuse(
                "the kernel is to have no threads of a block",
                "NoLocals was applied before",
                "leave NoLocals out",
            )

    def split_to_threads(
        self, kernel: UOp, target: Target, loop: UOp, amount: int, kind: Axis, *, top: bool
    ) -> UOp:
        """Return a kernel with some iterations of a loop as threads, if they fit in a block."""
        self.divisible_extent(loop, amount)
        self.require_no_ordered_loop(kernel)
        for other in ranges_of(kernel):
            if other is not loop and loop in other.src[0].ranges:
                raise self.refuse(
                    f"the extent of {show(other)} depends on {show(loop)}",
                    "the threads of a block run the same iterations",
                    "choose another loop",
                )
        changed, _, _ = split_loop(kernel, loop, amount, kind, top=top)
        misfit = block_limit_problem(changed, target)
        if misfit is not None:
            raise self.refuse(*misfit, "use a smaller amount")
        return changed


@dataclass(frozen=True)
class Local(ThreadBlockAction):
    """Distribute iterations of an output loop over the threads of a block."""

    axis: str
    amount: int

    def apply(self, kernel: UOp, target: Target) -> UOp:
        loop = self.loop(kernel, self.axis)
        self.require_threads(kernel, target)
        self.require_kind(loop, (Axis.LOOP, Axis.GLOBAL))
        if not has_independent_iterations(kernel, loop):
            raise self.refuse(
                f"the iterations of {self.axis} depend on each other",
                "several write one element, or one reads what another writes",
                "choose a loop whose iterations write elements of their own",
            )
        return self.split_to_threads(kernel, target, loop, self.amount, Axis.LOCAL, top=False)


@dataclass(frozen=True)
class Group(ThreadBlockAction):
    """Reduce by the threads of a block together; neighbouring threads take neighbouring terms."""

    axis: str
    amount: int

    def apply(self, kernel: UOp, target: Target) -> UOp:
        return self.reduce_in_group(kernel, target, top=False)

    def reduce_in_group(self, kernel: UOp, target: Target, *, top: bool) -> UOp:
        """Return a kernel with a reduction axis distributed over threads; `top`: in parts."""
        loop = self.loop(kernel, self.axis)
        self.require_threads(kernel, target)
        self.require_kind(loop, (Axis.REDUCE,))
        reductions = [n for n in toposort(kernel) if n.op is ops.REDUCE and loop in n.src[1:]]
        if any(not n.dtype.bits for n in reductions):
            raise self.refuse(
                f"{self.axis} reduces an index",
                "an index has no width yet, so that it cannot be kept in local memory",
                "choose another loop",
            )
        if any(r.arg[1] is Axis.WARP for n in reductions for r in n.src[1:]):
            raise self.refuse(
                f"{self.axis} is the reduction of a tensor core",
                "its result is distributed over the threads of a warp",
                "Group another reduction",
            )
        return self.split_to_threads(kernel, target, loop, self.amount, Axis.GROUP, top=top)


@dataclass(frozen=True)
class GroupTop(Group):
    """Reduce by the threads of a block together; each thread takes a contiguous part."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        return self.reduce_in_group(kernel, target, top=True)
