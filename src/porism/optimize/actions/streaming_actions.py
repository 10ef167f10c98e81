"""Actions for kernels that are limited by memory.

    Stream(0)               what is stored in a buffer goes past the caches
    Prefetch(1, "r1", 8)    what a buffer is read for 8 iterations of a loop later is fetched now

A store that goes past the caches need not read the line that it writes to, and leaves what is there
to others. It pays where a result is larger than the cache, so that none of it would be found there.
Fetching ahead pays where a processor does not see by itself what is read next: many streams side by
side, or jumps. It reads nothing: beyond the end of a buffer it has no effect. A buffer may be read
in several loops; it is fetched in all of them, or within those that are named. Where it is looked
up in each iteration what is read, it is looked up for the later one as well (`lower.later`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.op_signatures import PREFETCH, STREAM
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.loop_actions import Action
from porism.optimize.analysis.loop_strides import step
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked

SHORTEST = 16
"""Bytes that one store past the caches writes, at least."""


@dataclass(frozen=True)
class Stream(Action):
    """The stores to a buffer past the caches."""

    buffer: int

    def apply(self, kernel: UOp, target: Target) -> UOp:
        if target.block:
            raise self.refuse("the target is a GPU", "it has no such stores", "leave it out")
        order = toposort(kernel)
        stores = [n for n in order if n.op is ops.STORE and self._is_its(n.src[0])]
        if not stores:
            raise self.refuse(
                f"nothing is stored in buffer {self.buffer}",
                "that of a kernel's result is 0",
                "use its number",
            )
        if all(store.arg == STREAM for store in stores):
            raise self.refuse("it is said already", "once is enough", "leave it out")
        places = {store.src[0] for store in stores}
        if any(n.op is ops.INDEX and n not in places and self._is_its(n) for n in order):
            raise self.refuse(
                "what is stored is read again in the kernel",
                "it would not be in the cache",
                "leave it out",
            )
        for store in stores:
            self._need_vectors(store)
        return substitute(kernel, {s: ops.STORE(*s.src, arg=STREAM) for s in stores})

    def _is_its(self, access: UOp) -> bool:
        return _is_of(access, self.buffer)

    def _need_vectors(self, store: UOp) -> None:
        """Vectors, each at a multiple of its size; those that are not whole are stored as usual."""
        found = lanes_of_store(store)
        if found * store.src[1].dtype.numpy.itemsize < SHORTEST:
            raise self.refuse(
                "the elements are not stored in vectors that begin at a multiple of their size",
                f"a store past the caches writes {SHORTEST} bytes or more at such a place",
                "Upcast the loop along which they are neighbours; rows of other lengths do not fit",
            )


def lanes_of_store(store: UOp) -> int:
    """How many elements are stored side by side, each time at a multiple of as many."""
    at = store.src[0].src[1]
    at = at.src[1] if is_masked(at) else at
    for counter in at.ranges:
        if counter.arg[1] is Axis.UPCAST and stride(at, counter) == 1:
            count = int(counter.vmax) + 1
            modulus, remainder = substitute(at, {counter: UOp.const(counter.dtype, 0)}).residue
            return math.gcd(math.gcd(modulus, remainder), count)
    return 1


@dataclass(frozen=True)
class Prefetch(Action):
    """What a buffer is read for some iterations of a loop later, fetched into the caches now."""

    buffer: int
    axis: str
    ahead: int
    """Iterations."""
    within: tuple[str, ...] = ()
    """Loops; only with the loads inside of them. None: with all."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        if target.block:
            raise self.refuse("the target is a GPU", "it fetches by itself", "leave it out")
        counter = self.loop(kernel, self.axis)
        self.need_kind(counter, (Axis.LOOP, Axis.THREAD, Axis.REDUCE, Axis.ORDERED))
        if self.ahead < 1:
            raise self.refuse(
                f"it is {self.ahead} iterations ahead", "that is 1 or more", "use a larger number"
            )
        elements = self._step(kernel, counter)
        entry: tuple[Any, ...]
        said = kernel.arg[1:] if isinstance(kernel.arg, tuple) else ()
        if any(number == self.buffer for number, *_ in said):
            raise self.refuse("it is said already", "once is enough", "leave it out")
        within = tuple(self.loop(kernel, name).arg[0] for name in self.within)
        if elements is None:
            self.counted(counter)
            if self.within:
                raise self.refuse(
                    "it is looked up where the buffer is read",
                    "what comes later is then fetched in all loops",
                    "name no loops",
                )
            entry = self.buffer, self.ahead, within, counter.arg[0]
        else:
            entry = self.buffer, elements * self.ahead, within
        said = tuple(sorted((*said, entry)))
        return ops.SINK(*kernel.src, arg=(PREFETCH, *said))

    def _step(self, kernel: UOp, counter: UOp) -> int | None:
        """Elements from one iteration to the next, in all places where the buffer is read.

        None if these are looked up in each iteration.
        """
        order = toposort(kernel)
        stored = {n.src[0] for n in order if n.op is ops.STORE}
        loads = [n for n in order if n.op is ops.INDEX and n not in stored and len(n.src) == 2]
        loads = [n for n in loads if _is_of(n, self.buffer)]
        if self.within:
            loops = {self.loop(kernel, name) for name in self.within}
            loads = [n for n in loads if not loops.isdisjoint(n.ranges)]
        steps = {step(n.src[1], counter) for n in loads}
        if not steps:
            raise self.refuse(
                f"nothing is read from buffer {self.buffer}",
                "the buffers that a kernel reads are 1, 2 …",
                "use the number of one of them",
            )
        if all(looked_up(n, counter) for n in loads):
            return None
        (found, *others) = steps
        if others or not found:
            raise self.refuse(
                f"it is not known where it will be read in later iterations of {self.axis}",
                "all that is read goes so many elements further in each",
                "name a loop along which it does",
            )
        return found


def looked_up(access: UOp, counter: UOp) -> bool:
    """Whether it is read in each iteration of a loop what place is accessed."""
    below = toposort(access.src[1])
    return any(n.op is ops.INDEX and counter in n.ranges for n in below)


def _is_of(access: UOp, buffer: int) -> bool:
    base = base_of(access)
    return base.op is ops.PARAM and bool(base.arg == buffer)
