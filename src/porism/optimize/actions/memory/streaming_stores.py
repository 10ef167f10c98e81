"""Non-temporal (streaming) stores: stores that bypass the caches.

    NonTemporal(0)    the stores to a buffer do not allocate cache lines

A non-temporal store need not read the line that it writes, and evicts nothing. It pays where a
result is larger than the cache, so that none of it would be there when it is read again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.op_signatures import NON_TEMPORAL
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.action import Action
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked

MIN_STORE_BYTES: Final = 16
"""Bytes of one non-temporal vector store, at least: one 128-bit register."""


@dataclass(frozen=True)
class NonTemporal(Action):
    """Make the stores to a buffer non-temporal."""

    buffer: int

    def apply(self, kernel: UOp, target: Target) -> UOp:
        if target.block:
            raise self.refuse(
                "the target is a GPU", "it has no non-temporal stores", "leave it out"
            )
        order = toposort(kernel)
        stores = [n for n in order if n.op is ops.STORE and is_of_buffer(n.src[0], self.buffer)]
        if not stores:
            raise self.refuse(
                f"nothing is stored in buffer {self.buffer}",
                "that of a kernel's result is 0",
                "use its number",
            )
        if all(store.arg == NON_TEMPORAL for store in stores):
            raise self.refuse(
                "the stores are non-temporal already", "once is enough", "leave it out"
            )
        stored = {store.src[0] for store in stores}
        accesses = (n for n in order if n.op is ops.INDEX and is_of_buffer(n, self.buffer))
        if not stored.issuperset(accesses):
            raise self.refuse(
                "what is stored is read again in the kernel",
                "it would not be in the cache",
                "leave it out",
            )
        for store in stores:
            self._require_aligned_vectors(store)
        return substitute(kernel, {s: ops.STORE(*s.src, arg=NON_TEMPORAL) for s in stores})

    def _require_aligned_vectors(self, store: UOp) -> None:
        """Refuse a store that is not of aligned vectors, but for a masked last one."""
        lanes = aligned_store_lanes(store)
        if lanes * store.src[1].dtype.numpy.itemsize < MIN_STORE_BYTES:
            raise self.refuse(
                "the elements are not stored in vectors aligned to their size",
                f"a non-temporal store writes {MIN_STORE_BYTES} aligned bytes or more",
                "Upcast the loop along which they are contiguous, by a divisor of the row length",
            )


def aligned_store_lanes(store: UOp) -> int:
    """Return how many contiguous elements are stored at once at a multiple of their number."""
    at = store.src[0].src[1]
    at = at.src[1] if is_masked(at) else at
    for loop in at.ranges:
        if loop.arg[1] is Axis.UPCAST and stride(at, loop) == 1:
            extent = int(loop.vmax) + 1
            modulus, remainder = substitute(at, {loop: UOp.const(loop.dtype, 0)}).residue
            return math.gcd(math.gcd(modulus, remainder), extent)
    return 1


def is_of_buffer(access: UOp, buffer: int) -> bool:
    """Return whether an access is to the parameter of this number."""
    base = base_of(access)
    return base.op is ops.PARAM and bool(base.arg == buffer)
