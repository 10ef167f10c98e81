"""Actions for kernels that are limited by memory.

    Stream(0)    what is stored in a buffer goes past the caches

A store that goes past the caches need not read the line that it writes to, and leaves what is there
to others. It pays where a result is larger than the cache, so that none of it would be found there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from porism.base.target import Target
from porism.evaluate.scope import base_of
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.signatures import STREAM
from porism.ir.walk import substitute, toposort
from porism.optimize.actions import Action
from porism.rules.invalid import is_masked
from porism.rules.strides import stride

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
        base = base_of(access)
        return base.op is ops.PARAM and bool(base.arg == self.buffer)

    def _need_vectors(self, store: UOp) -> None:
        """Whole vectors, each at a multiple of its size."""
        at = store.src[0].src[1]
        if is_masked(at) or len(store.src[0].src) > 2:
            raise self.refuse(
                "a part of the vectors is not stored",
                "a store past the caches writes all of its bytes",
                "use an amount of Upcast that divides the size",
            )
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
    for counter in at.ranges:
        if counter.arg[1] is Axis.UPCAST and stride(at, counter) == 1:
            count = int(counter.vmax) + 1
            modulus, remainder = substitute(at, {counter: UOp.const(counter.dtype, 0)}).residue
            return math.gcd(math.gcd(modulus, remainder), count)
    return 1
