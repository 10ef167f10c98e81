"""Thread plan: a plan for a GPU, with steps that distribute parts of a loop over threads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from porism.base.errors import ActionError
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action
from porism.optimize.actions.gpu.thread_block_actions import Group, Local
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.analysis.loop_strides import access_stride, extent_of
from porism.optimize.strategy.action_plan import Plan

ACCESS_BYTES: Final = 16
"""Bytes of the widest access of a thread, which has the full bandwidth (measured on an H200)."""

BLOCK_THREADS: Final = 256
"""Threads of a block of a kernel that streams (measured on an H200: as fast as any)."""

MAX_WASTE: Final = 0.25
"""Iterations that padding may add, in iterations of a loop; chosen by hand."""


class ThreadPlan(Plan):
    """A plan whose loops are distributed over the threads of a block."""

    def attempt(self, action: Action) -> bool:
        """Apply an action if it is legal; return whether it was."""
        try:
            self.do(action)
        except ActionError:
            return False
        return True

    def extent(self, axis: str) -> int:
        """Return the extent of a loop; 1 for one that is not there, as nothing was left of it."""
        loop = self.loops().get(axis)
        return 1 if loop is None else extent_of(loop)

    def is_reduction(self, axis: str) -> bool:
        """Return whether a loop is a reduction axis."""
        return self.loop(axis).arg[1] is Axis.REDUCE

    def vectorize(self, axis: str, amount: int, *, top: bool = False) -> str:
        """Vectorize or unroll some iterations; return the name of the loop around them."""
        if amount < 2 or self.extent(axis) % amount:
            return axis
        kind = Unroll if self.is_reduction(axis) else Upcast
        return f"{axis}_0" if self.attempt(kind(axis, amount, top=top)) else axis

    def distribute(self, axis: str, threads: int) -> str:
        """Run some iterations by threads; return the name of the loop around them."""
        if threads < 2 or self.extent(axis) % threads:
            return axis
        kind = Group if self.is_reduction(axis) else Local
        return f"{axis}_0" if self.attempt(kind(axis, threads)) else axis

    def fit_threads(self, axis: str, most: int) -> int:
        """Return how many threads a loop is distributed over; pad it if little is wasted."""
        extent = self.extent(axis)
        if self.loop(axis).src[0].op is not ops.CONST:
            return 1
        threads = min(power_below(most), power_above(extent))
        while threads > 1 and -extent % threads > MAX_WASTE * extent:
            threads //= 2
        if extent % threads and not self.attempt(PadTo(axis, threads)):
            return power_divisor(extent, threads)
        return threads


def power_below(number: int) -> int:
    """Return the largest power of two that is not larger than a number from 1 on."""
    return 1 << max(number, 1).bit_length() - 1


def power_above(number: int) -> int:
    """Return the least power of two that is not smaller than a number from 1 on."""
    return 1 << (max(number, 1) - 1).bit_length()


def power_divisor(number: int, most: int) -> int:
    """Return the largest power of two up to `most` that divides a number."""
    return min(number & -number, power_below(most)) if number else 1


def accesses_along(kernel: UOp, loop: UOp) -> list[UOp]:
    """Return the accesses to buffers, local ones too, that depend on a loop."""
    return [n for n in toposort(kernel) if n.op is ops.INDEX and loop in n.ranges]


def is_contiguous(access: UOp, loop: UOp) -> bool:
    """Return whether an access has a stride of one element along a loop."""
    return access_stride(access.src[1], loop) == 1


def vector_of(accesses: Iterable[UOp], loop: UOp, extent: int) -> int:
    """Return how many iterations of a loop fill one access of `ACCESS_BYTES`; 1 if none does."""
    contiguous = [a for a in accesses if is_contiguous(a, loop)]
    sizes = [a.dtype.numpy.itemsize for a in contiguous if a.dtype.bits]
    if not sizes:
        return 1
    return power_divisor(extent, ACCESS_BYTES // max(sizes))


def name_of(loop: UOp) -> str:
    """Return the name of a loop."""
    return show(loop)
