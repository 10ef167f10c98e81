"""Access: where a load or store goes, taken apart."""

from __future__ import annotations

from dataclasses import dataclass

from porism.base.dtypes import DType, boolean
from porism.ir import ops
from porism.ir.node import UOp


@dataclass(frozen=True, slots=True)
class Place:
    """An element of memory."""

    base: UOp
    """The parameter, register or local memory."""
    index: UOp
    gate: UOp | None
    viewed: DType | None
    """The type of its elements, where it is not the memory's own."""


def place_of(pointer: UOp) -> Place:
    """The place that a pointer points to."""
    while pointer.op is not ops.INDEX:
        pointer = pointer.src[0]
    gate = pointer.src[-1] if pointer.src[-1].dtype.element is boolean else None
    element = pointer.src[0].dtype.element
    base = memory_of(pointer.src[0])
    viewed = element.element if element.element is not base.dtype.element.element else None
    return Place(base, pointer.src[1], gate, viewed)


def memory_of(pointer: UOp) -> UOp:
    """What a pointer points into."""
    while pointer.op in (ops.AFTER, ops.CAST, ops.INDEX):
        pointer = pointer.src[0]
    return pointer
