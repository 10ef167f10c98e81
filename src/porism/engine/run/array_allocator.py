"""Memory: aligned rooms for arrays, used again when nobody looks at the arrays in them.

A room belongs to an *owner*, a small object that every view of the room holds on to. When the last
view is gone, so is the owner, and its room goes back to the pool: no array that a user still has
can ever be written over. Rooms that nobody took for a while are freed when the pool holds more than
the setting `pool_megabytes` allows.

Small rooms that were used last stay with their owners on a shelf: one that nobody else refers to is
taken again as it is.

Large rooms begin at a huge page, and Linux is asked for such pages: touching memory for the first
time, and finding it again, is cheaper by far than with pages of 4 KiB.
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
"""Of rooms, in bytes: a cache line or two, and the widest vector."""

STEPS: Final = 8
"""Sizes of rooms between two powers of two: at most an eighth of a room is not used."""

MEGABYTE: Final = 1 << 20

HUGE_PAGE: Final = 2 * MEGABYTE
"""Rooms from this size on are made of huge pages where the system has them."""

SMALL: Final = 1 << 16
"""Bytes of a room that is kept on a shelf, at most."""

SHELVES, DEPTH = 32, 8
"""Sizes that have a shelf, and owners on each."""

HAS_HUGE_PAGES: Final = hasattr(mmap, "MADV_HUGEPAGE")


class OutOfMemory(PorismError, MemoryError):  # noqa: N818 - the name says it all
    """Memory that the system does not give; also a MemoryError, as Python would raise."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Where the memory for values is, in bytes."""

    in_use: int
    """Behind arrays that somebody holds."""
    pooled: int
    """Kept for the next ones."""
    peak: int
    """The most that was in use at a time."""
    limit: int
    """The most that is kept."""

    def __str__(self) -> str:
        parts = (("in use", self.in_use), ("pooled", self.pooled), ("peak", self.peak))
        return ", ".join(f"{size / MEGABYTE:.1f} MB {name}" for name, size in parts)


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """A piece of memory."""

    address: int
    size: int
    memory: Array | mmap.mmap


class _Lease(weakref.ref[Any]):
    """A room while it has an owner."""

    __slots__ = ("room",)
    room: Room


_rooms: dict[int, list[Room]] = {}
"""Rooms that nobody uses by size; a size that was used lately is at the end."""
_returned: deque[_Lease] = deque()
"""Leases whose owners are gone; that happens at any moment, also while the lock is held."""
leases: Final[dict[int, _Lease]] = {}
"""Those of all rooms that are in use, by address; whoever holds this keeps their memory."""
_shelves: dict[int, deque[tuple[Any, int]]] = {}
"""Owners of small rooms with their addresses, by their bytes; the one used longest ago first."""
_lock = threading.RLock()  # the collector may call code that takes memory while it is held
_in_use = _pooled = _peak = 0


def room_size(size: int) -> int:
    """The size of the room for some bytes.

    >>> [room_size(size) for size in (1, 128, 129, 1025, 5000, 1 << 20)]
    [128, 128, 256, 1152, 5120, 1048576]
    """
    step = max(1 << max((size - 1).bit_length(), 1) - 1, ALIGNMENT * STEPS) // STEPS
    return -(-max(size, 1) // step) * step


@functools.lru_cache(256)  # a class takes some kilobytes
def _kind(size: int) -> tuple[int, Any]:
    """For some bytes the size of their room, and the class of their owners."""
    return room_size(size), ctypes.c_char * size


def _least_uses() -> int:
    """How many refer to something that only a tuple holds, and who counts."""
    entry = (object(),)
    return getrefcount(entry[0])


_UNUSED: Final = _least_uses()
_COUNTS_USES: Final = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether Python knows at any moment who refers to what."""


def take(size: int) -> tuple[Any, int]:
    """An owner of so many bytes, which are not set to anything, and their address."""
    shelf = _shelves.get(size)
    if shelf is None:
        return _taken(size)
    try:
        entry = shelf.popleft()
    except IndexError:  # another thread has the last
        return _taken(size)
    if getrefcount(entry[0]) == _UNUSED:
        owner, address = entry  # from here on it is used, whoever finds it on the shelf
        shelf.append(entry)
        return owner, address
    if len(shelf) < DEPTH - 1:
        shelf.append(entry)
    return _taken(size)


def _taken(size: int) -> tuple[Any, int]:
    """The same, from the pool or new."""
    wanted, kind = _kind(size)
    with _lock:
        room = _next_room(wanted)
        owner = kind.from_address(room.address)
        lease = _Lease(owner, _returned.append)
        lease.room = room
        leases[room.address] = lease
        if size <= SMALL and _COUNTS_USES:
            if size not in _shelves and len(_shelves) >= SHELVES:
                _shelves.clear()
            _shelves.setdefault(size, deque()).append((owner, room.address))
    return owner, room.address


def _next_room(size: int) -> Room:
    """A room of this size, which counts as used."""
    global _in_use, _pooled, _peak
    while _returned:
        room = _returned.popleft().room
        if room.size == size:
            return room  # which was never counted as free
        _keep(room)
    rooms = _rooms.get(size)
    if rooms:
        room = rooms.pop()
        _pooled -= size
    else:
        room = _new_room(size)
    _in_use += size
    _peak = max(_peak, _in_use)
    return room


def new_array(size: int, dtype: np.dtype[Any]) -> tuple[Array, int]:
    """An array in one dimension that is not set to anything, and its address."""
    owner, address = take(size * dtype.itemsize)
    return array_in(owner, dtype), address


array_in: Final = np.frombuffer
"""The memory of an owner as an array of a type."""


def address_of(array: Array) -> int:
    """Where the first element of an array is."""
    return int(array.__array_interface__["data"][0])


def is_own(array: Array) -> bool:
    """Whether an array is all of a room of the pool, and not a view of something else."""
    lease = leases.get(address_of(array))
    return lease is not None and array.base is not None and lease() is array.base


def figures() -> Figures:
    """What is used, and what is kept, at this moment."""
    with _lock:
        _settle()
        return Figures(_in_use, _pooled, _peak, settings.pool_megabytes * MEGABYTE)


def clear() -> None:
    """Free the rooms that nobody uses, and forget the peak."""
    global _peak
    with _lock:
        _settle()
        _drop(0)
        _peak = _in_use


def _settle() -> None:
    """Take in the rooms that came back, and those on shelves that nobody uses."""
    _shelves.clear()
    while _returned:
        _keep(_returned.popleft().room)


def _keep(room: Room) -> None:
    """Put a room into the pool, which stays within its limit."""
    global _in_use, _pooled
    del leases[room.address]
    rooms = _rooms.pop(room.size, [])
    rooms.append(room)
    _rooms[room.size] = rooms  # at the end, as the size that was used last
    _in_use -= room.size
    _pooled += room.size
    if _pooled >= MEGABYTE and _pooled > (limit := settings.pool_megabytes * MEGABYTE):
        _drop(limit)


def _drop(limit: int) -> None:
    """Free rooms until the pool is no larger; first those of sizes that were not used lately."""
    global _pooled
    for size in list(_rooms):
        rooms = _rooms[size]
        while rooms and _pooled > limit:
            rooms.pop()
            _pooled -= size
        if not rooms:
            del _rooms[size]


def _new_room(size: int) -> Room:
    make = _huge_room if size >= HUGE_PAGE and HAS_HUGE_PAGES else _small_room
    try:
        return make(size)
    except MemoryError:
        _drop(0)
    try:
        return make(size)
    except MemoryError:
        raise OutOfMemory(
            f"there is no memory for {size / MEGABYTE:.1f} MB",
            why=f"the system gives no more, and {_in_use / MEGABYTE:.1f} MB are in use",
            fix="let go of tensors that are not needed, or compute in smaller parts",
        ) from None


def _small_room(size: int) -> Room:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = address_of(memory)
    return Room(start + -start % ALIGNMENT, size, memory)


def _huge_room(size: int) -> Room:
    """A room that begins at a huge page, and is of such pages if the system has some."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        memory = mmap.mmap(-1, size + HUGE_PAGE, flags=flags)
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryError(str(error)) from None
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    begin = -start % HUGE_PAGE
    with contextlib.suppress(OSError):  # a system without them gives pages of the usual size
        memory.madvise(mmap.MADV_HUGEPAGE, begin, size)
    return Room(start + begin, size, memory)


def _after_fork() -> None:
    # Another thread may have held the lock, which is not in this process.
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
