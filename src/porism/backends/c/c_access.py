"""C access: the base, index and gate of a load or store."""

from __future__ import annotations

from dataclasses import dataclass

from porism.base.dtypes import DType, boolean
from porism.ir import ops
from porism.ir.node import UOp


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """The element of memory that a pointer points to."""

    base: UOp
    """The PARAM, register or local buffer."""
    index: UOp
    gate: UOp | None
    viewed: DType | None
    """The element type of the access if it is not that of the base; else None."""


def access_of(pointer: UOp) -> MemoryAccess:
    """Return the access of a pointer."""
    while pointer.op is not ops.INDEX:
        pointer = pointer.src[0]
    gate = pointer.src[-1] if pointer.src[-1].dtype.element is boolean else None
    element = pointer.src[0].dtype.element
    base = base_of(pointer.src[0])
    viewed = element.element if element.element is not base.dtype.element.element else None
    return MemoryAccess(base, pointer.src[1], gate, viewed)


def base_of(pointer: UOp) -> UOp:
    """Return the buffer that a pointer points into."""
    while pointer.op in (ops.AFTER, ops.CAST, ops.INDEX):
        pointer = pointer.src[0]
    return pointer
