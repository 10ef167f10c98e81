"""Array allocator: aligned memory for arrays, pooled by size class.

Each allocation has an *owner*, a small object that every NumPy view of the memory refers to. When
the last view is gone, so is the owner, and the allocation returns to the pool: memory that a user
can still see is never reused. When the pool holds more than the setting `pool_megabytes`, it frees
allocations of the sizes that were used least recently.

The owners of small allocations that were used last are also kept in a short queue by size. An owner
whose reference count shows no other user is reused directly, without the pool and its lock.

Allocations of 2 MiB and more are aligned to huge pages, which Linux is asked for: they cost far
fewer page faults and TLB misses than pages of 4 KiB.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
import sys
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from sys import getrefcount
from typing import Any, Final

import numpy as np

from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.ir.facts.semantics import Array

ALIGNMENT: Final = 128
"""Bytes that addresses are multiples of: two cache lines, twice the widest vector."""

CLASSES_PER_DOUBLING: Final = 8
"""Size classes between two powers of two: at most an eighth of an allocation is unused."""

MEGABYTE: Final = 1 << 20

HUGE_PAGE: Final = 2 * MEGABYTE
"""Bytes of a huge page; allocations from this size on use them where the system has them."""

SMALL_BYTES: Final = 1 << 16
"""Largest allocation, in bytes, whose owner is kept for direct reuse; chosen by hand."""

SMALL_SIZES, OWNERS_PER_SIZE = 32, 8
"""Sizes in bytes for which owners are kept for reuse, and owners per size; chosen by hand."""

HAS_HUGE_PAGES: Final = hasattr(mmap, "MADV_HUGEPAGE")


class OutOfMemory(PorismError, MemoryError):  # noqa: N818 - the name says it all
    """The system has no memory left; also a MemoryError, as Python would raise."""


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """Memory used for the values of tensors, in bytes."""

    in_use: int
    """Behind arrays that are referred to."""
    pooled: int
    """Free, and kept in the pool for reuse."""
    peak: int
    """The largest `in_use` so far."""
    limit: int
    """The largest `pooled` that is allowed."""

    def __str__(self) -> str:
        parts = (("in use", self.in_use), ("pooled", self.pooled), ("peak", self.peak))
        return ", ".join(f"{size / MEGABYTE:.1f} MB {name}" for name, size in parts)


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """A piece of aligned memory: address and size in bytes, and the object that keeps it alive."""

    address: int
    size: int
    memory: Array | mmap.mmap


class _Lease(weakref.ref[Any]):
    """A weak reference to the owner of an allocation, with the allocation."""

    __slots__ = ("allocation",)
    allocation: Allocation


_free: dict[int, list[Allocation]] = {}
"""Free allocations by size class; the class that was used last is at the end."""
_returned: deque[_Lease] = deque()
"""Leases whose owners are gone, not yet in `_free`; filled at any moment, also under the lock."""
leases: Final[dict[int, _Lease]] = {}
"""Leases of all allocations in use, by address; they keep the memory alive."""
_recent_owners: dict[int, deque[tuple[Any, int]]] = {}
"""Owners of small allocations with their addresses, by bytes; least recently used first."""
_lock = threading.RLock()  # garbage collection may allocate while it is held
_in_use = _pooled = _peak = 0


def size_class(size: int) -> int:
    """Return the size in bytes of the size class for some bytes.

    >>> [size_class(size) for size in (1, 128, 129, 1025, 5000, 1 << 20)]
    [128, 128, 256, 1152, 5120, 1048576]
    """
    granularity = (
        max(1 << max((size - 1).bit_length(), 1) - 1, ALIGNMENT * CLASSES_PER_DOUBLING)
        // CLASSES_PER_DOUBLING
    )
    return -(-max(size, 1) // granularity) * granularity


@functools.lru_cache(256)  # a class takes some kilobytes
def _size_and_owner_type(size: int) -> tuple[int, Any]:
    """Return the size class of some bytes, and the ctypes class of their owner."""
    return size_class(size), ctypes.c_char * size


def _unshared_refcount() -> int:
    """Return what `getrefcount` says of an object that only a tuple refers to."""
    entry = (object(),)
    return getrefcount(entry[0])


_UNSHARED: Final = _unshared_refcount()
HAS_EXACT_REFCOUNTS: Final = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether reference counts are exact at any moment; not so without the GIL."""


def allocate(size: int) -> tuple[Any, int]:
    """Return the owner of `size` uninitialized bytes, and their address."""
    owners = _recent_owners.get(size)
    if owners is None:
        return _allocate_from_pool(size)
    try:
        entry = owners.popleft()
    except IndexError:  # another thread took the last one
        return _allocate_from_pool(size)
    if getrefcount(entry[0]) == _UNSHARED:
        owner, address = entry  # from here on its count says that it is used
        owners.append(entry)
        return owner, address
    if len(owners) < OWNERS_PER_SIZE - 1:
        owners.append(entry)
    return _allocate_from_pool(size)


def _allocate_from_pool(size: int) -> tuple[Any, int]:
    """Return an owner and its address, with memory from the pool or the system."""
    class_size, owner_type = _size_and_owner_type(size)
    with _lock:
        allocation = _next_allocation(class_size)
        owner = owner_type.from_address(allocation.address)
        lease = _Lease(owner, _returned.append)
        lease.allocation = allocation
        leases[allocation.address] = lease
        if size <= SMALL_BYTES and HAS_EXACT_REFCOUNTS:
            if size not in _recent_owners and len(_recent_owners) >= SMALL_SIZES:
                _recent_owners.clear()
            _recent_owners.setdefault(size, deque()).append((owner, allocation.address))
    return owner, allocation.address


def _next_allocation(size: int) -> Allocation:
    """Return an allocation of a size class, counted as in use."""
    global _in_use, _pooled, _peak
    while _returned:
        allocation = _returned.popleft().allocation
        if allocation.size == size:
            return allocation  # it was never counted as free
        _return_to_pool(allocation)
    allocations = _free.get(size)
    if allocations:
        allocation = allocations.pop()
        _pooled -= size
    else:
        allocation = _new_allocation(size)
    _in_use += size
    _peak = max(_peak, _in_use)
    return allocation


def new_array(size: int, dtype: np.dtype[Any]) -> tuple[Array, int]:
    """Return an uninitialized one-dimensional array of `size` elements, and its address."""
    owner, address = allocate(size * dtype.itemsize)
    return array_view(owner, dtype), address


array_view: Final = np.frombuffer
"""Return the memory of an owner as an array of a dtype; also keeps the owner alive."""


def address_of(array: Array) -> int:
    """Return the address of the first element of an array."""
    return int(array.__array_interface__["data"][0])


def is_pool_array(array: Array) -> bool:
    """Return whether an array is all of an allocation of this pool, and no other view.

    Memory of another device says for itself whether the device allocated it.
    """
    if not isinstance(array, np.ndarray):
        return bool(array.is_owned)
    lease = leases.get(address_of(array))
    return lease is not None and array.base is not None and lease() is array.base


def memory_usage() -> MemoryUsage:
    """Return how much memory is in use and pooled now."""
    with _lock:
        _reclaim_returned()
        return MemoryUsage(_in_use, _pooled, _peak, settings.pool_megabytes * MEGABYTE)


def release_pool() -> None:
    """Free all pooled memory, and reset the peak."""
    global _peak
    with _lock:
        _reclaim_returned()
        _trim_pool(0)
        _peak = _in_use


def _reclaim_returned() -> None:
    """Return to the pool the allocations whose owners are gone, also unused recent owners."""
    _recent_owners.clear()
    while _returned:
        _return_to_pool(_returned.popleft().allocation)


def _return_to_pool(allocation: Allocation) -> None:
    """Put an allocation into the pool, and trim the pool to its limit."""
    global _in_use, _pooled
    del leases[allocation.address]
    allocations = _free.pop(allocation.size, [])
    allocations.append(allocation)
    _free[allocation.size] = allocations  # at the end, as the most recently used size
    _in_use -= allocation.size
    _pooled += allocation.size
    if _pooled >= MEGABYTE and _pooled > (limit := settings.pool_megabytes * MEGABYTE):
        _trim_pool(limit)


def _trim_pool(limit: int) -> None:
    """Free allocations until the pool has at most `limit` bytes, by least recently used size."""
    global _pooled
    for size in list(_free):
        allocations = _free[size]
        while allocations and _pooled > limit:
            allocations.pop()
            _pooled -= size
        if not allocations:
            del _free[size]


def _new_allocation(size: int) -> Allocation:
    new = _huge_page_allocation if size >= HUGE_PAGE and HAS_HUGE_PAGES else _heap_allocation
    try:
        return new(size)
    except MemoryError:
        _trim_pool(0)
    try:
        return new(size)
    except MemoryError:
        raise OutOfMemory(
            f"there is no memory for {size / MEGABYTE:.1f} MB",
            why=f"the system gives no more, and {_in_use / MEGABYTE:.1f} MB are in use",
            fix="let go of tensors that are not needed, or compute in smaller parts",
        ) from None


def _heap_allocation(size: int) -> Allocation:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = address_of(memory)
    return Allocation(start + -start % ALIGNMENT, size, memory)


def _huge_page_allocation(size: int) -> Allocation:
    """Return an allocation aligned to a huge page, made of such pages if the system has them."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        memory = mmap.mmap(-1, size + HUGE_PAGE, flags=flags)
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryError(str(error)) from None
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    begin = -start % HUGE_PAGE
    with contextlib.suppress(OSError):  # a system without them gives pages of the usual size
        memory.madvise(mmap.MADV_HUGEPAGE, begin, size)
    return Allocation(start + begin, size, memory)


def _after_fork() -> None:
    # Another thread may have held the lock, which is not in this process.
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
