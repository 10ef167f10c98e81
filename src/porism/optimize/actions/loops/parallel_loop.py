"""Parallel loops: the outermost loop of a CPU kernel distributed over the cores.

Thread("r0")
"""

from __future__ import annotations

from dataclasses import dataclass

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.optimize.actions.action import Action
from porism.optimize.actions.loop_substitution import change_kind, ranges_of


@dataclass(frozen=True)
class Thread(Action):
    """Distribute the iterations of the outermost loop over the cores of a CPU."""

    axis: str

    def apply(self, kernel: UOp, target: Target) -> UOp:
        loop = self.loop(kernel, self.axis)
        if target.block:
            raise self.refuse("the target is a GPU", "it has blocks, and no cores", "use Local")
        self.require_kind(loop, (Axis.LOOP,))
        self.require_no_ordered_loop(kernel, unless_inside=loop)
        if any(r.arg[1] is Axis.THREAD for r in ranges_of(kernel)):
            raise self.refuse(
                "a loop is parallel already", "one loop is", "parallelize the outermost alone"
            )
        outermost = [end for end in kernel.src if end.op is ops.END and end.src[1] is loop]
        if len(outermost) != len(kernel.src):
            raise self.refuse(
                f"{self.axis} is not the outermost loop of the kernel",
                "each core runs some iterations of a loop around the whole kernel",
                "Swap it outwards first",
            )
        return change_kind(kernel, loop, Axis.THREAD)
