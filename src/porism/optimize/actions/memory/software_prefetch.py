"""Software prefetch: load cache lines for later iterations of a loop ahead of time.

    Prefetch(1, "r1", 8)    with each load of a buffer, prefetch for 8 iterations of a loop later

It pays where the hardware prefetcher does not predict the addresses: many streams at once, or
indirect accesses. A prefetch beyond the end of a buffer has no effect. A buffer may be read in
several loops; it is prefetched in all of them, or within those that are named. Where the index is
itself loaded in each iteration, the index of the later iteration is loaded as well
(`lower.indirect_prefetch`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.op_signatures import PREFETCH
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action
from porism.optimize.actions.memory.streaming_stores import is_of_buffer
from porism.optimize.analysis.loop_strides import access_stride


@dataclass(frozen=True)
class Prefetch(Action):
    """Prefetch what a buffer is read for in a later iteration of a loop."""

    buffer: int
    axis: str
    ahead: int
    """The prefetch distance in iterations."""
    within: tuple[str, ...] = ()
    """Loops: only the loads inside of one of them prefetch. Empty: all loads do."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        if target.block:
            raise self.refuse("the target is a GPU", "it hides latency by threads", "leave it out")
        loop = self.loop(kernel, self.axis)
        self.require_kind(loop, (Axis.LOOP, Axis.THREAD, Axis.REDUCE, Axis.ORDERED))
        if self.ahead < 1:
            raise self.refuse(
                f"it is {self.ahead} iterations ahead", "that is 1 or more", "use a larger number"
            )
        stride = self._stride(kernel, loop)
        entry: tuple[Any, ...]
        entries = kernel.arg[1:] if isinstance(kernel.arg, tuple) else ()
        if any(number == self.buffer for number, *_ in entries):
            raise self.refuse("the buffer is prefetched already", "once is enough", "leave it out")
        within = tuple(self.loop(kernel, name).arg[0] for name in self.within)
        if stride is None:
            self.extent_of(loop)
            if self.within:
                raise self.refuse(
                    "the accesses to the buffer are indirect",
                    "an indirect prefetch is done in all loops",
                    "name no loops",
                )
            entry = self.buffer, self.ahead, within, loop.arg[0]
        else:
            entry = self.buffer, stride * self.ahead, within
        entries = tuple(sorted((*entries, entry)))
        return ops.SINK(*kernel.src, arg=(PREFETCH, *entries))

    def _loads(self, kernel: UOp) -> list[UOp]:
        """Return the unmasked loads of the buffer, if loops are named those within them."""
        order = toposort(kernel)
        stored = {n.src[0] for n in order if n.op is ops.STORE}
        loads = [n for n in order if n.op is ops.INDEX and n not in stored and len(n.src) == 2]
        loads = [n for n in loads if is_of_buffer(n, self.buffer)]
        if not self.within:
            return loads
        loops = {self.loop(kernel, name) for name in self.within}
        return [n for n in loads if not loops.isdisjoint(n.ranges)]

    def _stride(self, kernel: UOp, loop: UOp) -> int | None:
        """Return the stride of a loop in all loads of the buffer, in elements; None if indirect."""
        loads = self._loads(kernel)
        strides = {access_stride(n.src[1], loop) for n in loads}
        if not strides:
            raise self.refuse(
                f"nothing is read from buffer {self.buffer}",
                "the buffers that a kernel reads are 1, 2 …",
                "use the number of one of them",
            )
        if all(is_indirect(n, loop) for n in loads):
            return None
        (stride, *others) = strides
        if others or not stride:
            raise self.refuse(
                f"the addresses of later iterations of {self.axis} are not known",
                "all loads of the buffer must have the same stride",
                "name a loop along which they have",
            )
        return stride


def is_indirect(access: UOp, loop: UOp) -> bool:
    """Return whether the index of an access is itself loaded in each iteration of a loop."""
    below = toposort(access.src[1])
    return any(n.op is ops.INDEX and loop in n.ranges for n in below)
