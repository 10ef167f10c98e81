"""Shared memory: arrays on the memory of tensors, and tensors on the memory of arrays.

Values of tensors do not change, so an array on the memory of a tensor is read-only. It refers to
the array that the tensor stores, and that to the owner of the allocation. While it lives, the
allocator does not reuse the memory, and `movement.inplace_update` does not write to it: reference
counts tell both.

A tensor on the memory of an array refers to the array, and never writes to it. If the owner of the
array does, values that are not computed yet are computed from the new elements.
"""

from __future__ import annotations

from typing import Any

from porism.base.errors import TypeMismatch
from porism.ir.facts.semantics import Array
from porism.tensor.memory.strided_view import view_of_array
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line


class NotShared(TypeMismatch, BufferError, ValueError):  # noqa: N818 - the name says it all
    """Memory cannot be shared, and copying was ruled out; also what NumPy and DLPack raise then."""


def not_shared(what: str, why: str, fix: str = "leave out copy=False") -> NotShared:
    """Return the error for memory that cannot be shared."""
    return NotShared(what, where=users_line(), why=why, fix=fix)


def shared_tensor(array: Array) -> Tensor | str:
    """Return a tensor on the memory of an array, or the reason why there is none."""
    if not array.flags.aligned:
        return "its elements are not aligned"
    if not array.dtype.isnative:
        return "its bytes are in another order"
    node = view_of_array(array)
    if node is None:
        return "its elements overlap, or are interleaved, so that no slices of memory hold them"
    return Tensor(node)


def shared(obj: Any, array: Array) -> Tensor:
    """Return a tensor that shares the memory of `obj`, of which `array` is a view, or refuse."""
    tensor = shared_tensor(array)
    if isinstance(tensor, str):
        raise refused(obj, tensor)
    return tensor


def refused(obj: Any, why: str) -> NotShared:
    """Return the error for an object whose memory a tensor cannot share."""
    what = f"cannot share the memory of a {type(obj).__name__}"
    return not_shared(what, why, "pass copy=True, or an array that fits")
