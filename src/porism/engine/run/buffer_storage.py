"""Storage: the memory behind BUFFER nodes, and the nodes whose value is already in some.

A BUFFER node owns its memory, and lives as long as a tensor or a graph refers to it. The tables
here refer to nodes weakly, so memory is freed with the last tensor that uses it. On the processor
memory is an array; on another device it is a `DeviceArray`, which the host cannot read.

A *placeholder* is a BUFFER without memory: the argument of a function while it is traced.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy as np

from porism.base import device_use
from porism.base.device_use import HOST
from porism.base.dtypes import DType, i64, index
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.base.weak_tables import WeakKeys
from porism.engine.run import array_allocator
from porism.ir import buffer_node, ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp

Storage = tuple[Array, int]
"""One-dimensional memory, and the address of its first element. On the processor memory is an
array; on another device it is a `DeviceArray`, which the engine only hands on."""

_realized: WeakKeys[UOp, UOp | ref[UOp]] = WeakKeys()
_realized_fast_math: WeakKeys[UOp, UOp | ref[UOp]] = WeakKeys()
"""The BUFFER of each realized node, or a reference to one that may move; the second table has
values computed with fast math, which are only returned while `fast_math` is on."""

_origins: WeakKeys[UOp, UOp] = WeakKeys()
"""BUFFERs that are on their device by chance, and what they are on another one."""


class NoValue(PorismError):  # noqa: N818 - the name says it all
    """The value of a placeholder was requested: there is none while a function is traced."""


def new_buffer(dtype: DType, dims: Sequence[int], array: Array) -> UOp:
    """Return a BUFFER node for a row-major array, which is not copied.

    >>> from porism.base.dtypes import i64
    >>> node = new_buffer(i64, (2,), np.array([3, 4]))
    >>> array_of(node)
    array([3, 4])
    """
    flat = array.reshape(-1)
    assert array.size == 0 or np.shares_memory(flat, array), "the array is not row-major"
    sizes = tuple(UOp.const(index, int(n)) for n in dims)
    return buffer_for_array(dtype, sizes, flat, array_allocator.address_of(flat))


def buffer_for_array(
    dtype: DType, dims: tuple[UOp, ...], array: Array, address: int, device: str = HOST
) -> UOp:
    """Return a BUFFER node for memory of a device at an address; dims are constants."""
    return buffer_node.new_buffer(dtype, dims, device, (array, address))


def buffer_with_copy(dtype: DType, dims: tuple[UOp, ...], array: Array, device: str = HOST) -> UOp:
    """Return a BUFFER node for a copy of an array of the host in the memory of a device."""
    return buffer_node.new_buffer(dtype, dims, device, storage_with_copy(array, device))


def storage_with_copy(array: Array, device: str = HOST) -> Storage:
    """Return memory of a device with a copy of an array of the host."""
    if device != HOST:
        from porism.engine.device.device_table import find_device

        return find_device(device).store(array)
    flat, address = array_allocator.new_array(array.size, array.dtype)
    flat.reshape(array.shape)[...] = array
    return flat, address


def duplicate(storage: Storage) -> Storage:
    """Return a copy of memory, on the device that it is on."""
    array = storage[0]
    if isinstance(array, np.ndarray):
        return storage_with_copy(array)
    return array.device.duplicate(storage)


def device_name_of(storage: Storage) -> str:
    """Return the name of the device whose memory this is."""
    array: Any = storage[0]
    return HOST if isinstance(array, np.ndarray) else array.device.name


def storage_on(storage: Storage, device: str) -> Storage:
    """Return memory on a device: this one, or a copy of it."""
    array: Any = storage[0]
    if isinstance(array, np.ndarray):
        return storage if device == HOST else storage_with_copy(array, device)
    if array.device.name == device:
        return storage
    if device == HOST:
        return storage_with_copy(array.to_host())
    from porism.engine.device.device_table import find_device

    return find_device(device).copy_from(array.device, array)


def buffer_for_constant(node: UOp, device: str = HOST) -> UOp:
    """Return a BUFFER node of one element with the value of a CONST."""
    if device != HOST:
        return buffer_with_copy(node.dtype, (), np.full(1, node.arg, node.dtype.numpy), device)
    array, address = array_allocator.new_array(1, node.dtype.numpy)
    array[0] = node.arg
    return buffer_for_array(node.dtype, (), array, address)


def new_placeholder(dtype: DType, dims: tuple[UOp, ...], device: str | None = HOST) -> UOp:
    """Return a BUFFER node without memory; with None it goes along with other operands."""
    return buffer_node.new_buffer(dtype, dims, device or "")


def is_placeholder(node: UOp) -> bool:
    """Return whether a BUFFER is a placeholder."""
    return getattr(node, "held", None) is None


def node_storage(node: UOp) -> Storage:
    """Return the memory behind a BUFFER and its address; a `NoValue` error if it has none."""
    storage = find_storage(node)
    if storage is None:
        raise NoValue("the value of a placeholder is asked for", why="it has none")
    return storage


def find_storage(node: UOp) -> Storage | None:
    """Return the memory behind a node and its address; None unless it is a BUFFER with memory."""
    storage: Storage | None = getattr(node, "held", None)
    return storage


def array_of(node: UOp) -> Array:
    """Return the one-dimensional array behind a BUFFER of the processor."""
    return node_storage(node)[0]


def host_array_of(node: UOp) -> Array:
    """Return the values of a BUFFER: its array, or a copy of them from another device."""
    memory: Any = node_storage(node)[0]
    return memory if isinstance(memory, np.ndarray) else memory.to_host()


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

    The values on another device are copied.

    The array is made of a read-only buffer, so that no flag makes it writable.

    >>> from porism.base.dtypes import i64
    >>> view = read_only_view(new_buffer(i64, (2,), np.array([3, 4])))
    >>> view[0] = 5
    Traceback (most recent call last):
        ...
    ValueError: assignment destination is read-only
    """
    array = host_array_of(node)
    sizes = [int(size.arg) for size in node.src]
    exported: Any = array if array.dtype.isbuiltin == 1 else array.view(np.uint8)
    return np.frombuffer(memoryview(exported).toreadonly(), array.dtype).reshape(sizes)


def record_realized(node: UOp, buffer: UOp, *, exact: bool = True) -> None:
    """Record that the BUFFER `buffer` holds the value of `node`.

    A value that is not `exact` is only returned while `fast_math` is on.
    """
    if node is not buffer:
        # A BUFFER that may move refers to the node, and both would be kept for ever.
        known = buffer if _origins.get(buffer) is None else ref(buffer)
        (_realized if exact else _realized_fast_math)[node] = known


def realized_buffer(node: UOp) -> UOp | None:
    """Return the BUFFER that holds the value of a node, or None."""
    if node.op is ops.BUFFER:
        return node
    buffer = _realized.get(node)
    if buffer is None and _realized_fast_math and settings.fast_math:
        buffer = _realized_fast_math.get(node)
    return buffer() if buffer.__class__ is ref else buffer  # type: ignore[return-value]


def note_movable(buffer: UOp, origin: UOp) -> None:
    """Note that a BUFFER is on its device by chance: on another one it is computed or copied.

    `origin` is the value that it was computed from and that is on no device, or the BUFFER itself.
    """
    _origins[buffer] = origin


def origin_of(buffer: UOp) -> UOp | None:
    """Return what a BUFFER that is on its device by chance is on another one, else None."""
    return _origins.get(buffer)


def realized_on(node: UOp, device: str) -> UOp | None:
    """Return the BUFFER on a device that holds the value of a node, or None."""
    buffer = realized_buffer(node)
    if buffer is None or not device_use.others_are_used or node is buffer:
        return buffer
    return buffer if buffer.arg[1] in (device, "") else None
