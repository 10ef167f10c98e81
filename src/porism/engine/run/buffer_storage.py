"""Storage: the arrays behind BUFFER nodes, and the nodes whose value is already in one.

A BUFFER node owns its array, and lives as long as a tensor or a graph refers to it. The tables here
refer to nodes weakly, so an array is freed with the last tensor that uses it.

A *placeholder* is a BUFFER without an array: the argument of a function while it is traced.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from sys import getrefcount
from typing import Any, Final

import numpy as np

from porism.base.dtypes import DType, i64, index
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.base.weak_tables import WeakKeys
from porism.engine.run import array_allocator
from porism.ir import buffer_node, ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp

PLACEHOLDER: Final = "traced"
"""The device name of placeholders."""

Storage = tuple[Array, int]
"""A one-dimensional array, and the address of its first element."""

_realized: WeakKeys[UOp, UOp] = WeakKeys()
_realized_fast_math: WeakKeys[UOp, UOp] = WeakKeys()
"""The BUFFER of each realized node; the second table has values computed with fast math, which are
only returned while `fast_math` is on."""


class NoValue(PorismError):  # noqa: N818 - the name says it all
    """The value of a placeholder was requested: there is none while a function is traced."""


def new_buffer(dtype: DType, dims: Sequence[int], array: Array, device: str = "cpu") -> UOp:
    """Return a BUFFER node for a row-major array, which is not copied.

    >>> from porism.base.dtypes import i64
    >>> node = new_buffer(i64, (2,), np.array([3, 4]))
    >>> array_of(node)
    array([3, 4])
    """
    flat = array.reshape(-1)
    assert array.size == 0 or np.shares_memory(flat, array), "the array is not row-major"
    sizes = tuple(UOp.const(index, int(n)) for n in dims)
    return buffer_for_array(dtype, sizes, flat, array_allocator.address_of(flat), device)


def buffer_for_array(
    dtype: DType, dims: tuple[UOp, ...], array: Array, address: int, device: str = "cpu"
) -> UOp:
    """Return a BUFFER node for a one-dimensional array at an address; dims are constants."""
    return buffer_node.new_buffer(dtype, dims, device, (array, address))


def buffer_for_constant(node: UOp) -> UOp:
    """Return a BUFFER node of one element with the value of a CONST."""
    array, address = array_allocator.new_array(1, node.dtype.numpy)
    array[0] = node.arg
    return buffer_for_array(node.dtype, (), array, address)


def new_placeholder(dtype: DType, dims: tuple[UOp, ...]) -> UOp:
    """Return a BUFFER node without an array."""
    return buffer_node.new_buffer(dtype, dims, PLACEHOLDER)


def is_placeholder(node: UOp) -> bool:
    """Return whether a BUFFER is a placeholder."""
    return bool(node.arg[1] == PLACEHOLDER)


def node_storage(node: UOp) -> Storage:
    """Return the array behind a BUFFER and its address; a `NoValue` error if it has none."""
    storage = find_storage(node)
    if storage is None:
        raise NoValue("the value of a placeholder is asked for", why="it has none")
    return storage


def find_storage(node: UOp) -> Storage | None:
    """Return the array behind a node and its address; None unless it is a BUFFER with an array."""
    storage: Storage | None = getattr(node, "held", None)
    return storage


def array_of(node: UOp) -> Array:
    """Return the one-dimensional array behind a BUFFER."""
    return node_storage(node)[0]


class _Holder:
    """Refers to a BUFFER as a tensor does."""

    __slots__ = ("node",)
    node: UOp


def _reference_counts(node: UOp) -> tuple[int, int, int]:
    """Return the reference counts of a BUFFER with an array, of its storage, and of the array."""
    storage = node.held
    return getrefcount(node), getrefcount(storage), getrefcount(storage[0])


def _counts_of_argument(node: UOp) -> tuple[int, int, int]:
    """Return what `_reference_counts` returns to a function that has the node as an argument.

    Whether an argument counts as a reference depends on the version of Python.
    """
    return _reference_counts(node)


@functools.cache
def _unshared_counts() -> tuple[int, int, int]:
    """Return the reference counts of a BUFFER that only a tensor and a variable refer to."""
    holder = _Holder()
    holder.node = buffer_for_constant(UOp.const(i64, 0))
    node = holder.node
    return _counts_of_argument(node)


def is_unshared(node: UOp) -> bool:
    """Return whether only one tensor and one variable of the caller refer to a BUFFER.

    Views of its memory, other tensors and graphs all keep a reference to the node or the array.
    Memory of other libraries is never taken for unshared.
    """
    if not array_allocator.HAS_EXACT_REFCOUNTS or getattr(node, "held", None) is None:
        return False
    now, alone = _reference_counts(node), _unshared_counts()
    if now[0] > alone[0] or now[1] > alone[1] or now[2] > alone[2]:
        return False
    return array_allocator.is_pool_array(node.held[0])


def read_only_view(node: UOp) -> Array:
    """Return the values of a BUFFER as a read-only array on its memory, which it keeps alive.

    The array is made of a read-only buffer, so that no flag makes it writable.

    >>> from porism.base.dtypes import i64
    >>> view = read_only_view(new_buffer(i64, (2,), np.array([3, 4])))
    >>> view[0] = 5
    Traceback (most recent call last):
        ...
    ValueError: assignment destination is read-only
    """
    array = array_of(node)
    sizes = [int(size.arg) for size in node.src]
    exported: Any = array if array.dtype.isbuiltin == 1 else array.view(np.uint8)
    return np.frombuffer(memoryview(exported).toreadonly(), array.dtype).reshape(sizes)


def record_realized(node: UOp, buffer: UOp, *, exact: bool = True) -> None:
    """Record that the BUFFER `buffer` holds the value of `node`.

    A value that is not `exact` is only returned while `fast_math` is on.
    """
    if node is not buffer:
        (_realized if exact else _realized_fast_math)[node] = buffer


def realized_buffer(node: UOp) -> UOp | None:
    """Return the BUFFER that holds the value of a node, or None."""
    if node.op is ops.BUFFER:
        return node
    buffer = _realized.get(node)
    if buffer is None and _realized_fast_math and settings.fast_math:
        return _realized_fast_math.get(node)
    return buffer
