"""Guard pages: arrays that end where memory ends, and are gone when nothing refers to them.

A kernel may only access the elements of its buffers. An access beyond the last one, or to an array
that was freed, ends the process here, where elsewhere it finds something by chance.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Iterator
from typing import Any, Final
from unittest import mock

import numpy as np

from porism.engine.run import array_allocator
from porism.engine.run.array_allocator import Allocation

_PAGE: Final = mmap.PAGESIZE
_PRIVATE, _READ_AND_WRITE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype, function.argtypes = result, list(arguments)
    return function


_SIZES: Final = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_map: Final = _function("mmap", ctypes.c_void_p, *_SIZES, *[ctypes.c_int] * 2, ctypes.c_long)
_protect: Final = _function("mprotect", ctypes.c_int, *_SIZES)
_unmap: Final = _function("munmap", ctypes.c_int, *_SIZES[:2])


def _guarded(size: int) -> Allocation:
    """Return memory that ends at a page that cannot be accessed."""
    whole = -(-size // _PAGE) * _PAGE
    start = _map(None, whole + _PAGE, 0, _PRIVATE, -1, 0)
    if start in (None, ctypes.c_void_p(-1).value) or _protect(start, whole, _READ_AND_WRITE):
        raise MemoryError
    return Allocation(start + whole - size, size, np.asarray([start, whole + _PAGE]))


def _gone(allocation: Allocation) -> None:
    del array_allocator.leases[allocation.address]
    _unmap(*map(int, np.asarray(allocation.memory)))


def _next(size: int) -> Allocation:
    while array_allocator._returned:
        _free(array_allocator._returned.popleft().allocation)
    return _guarded(size)


_return_to_pool: Final = array_allocator._return_to_pool


def _free(allocation: Allocation) -> None:
    """Free an allocation, or return it to the pool if it is from there."""
    is_guarded = isinstance(allocation.memory, np.ndarray) and allocation.memory.dtype == np.int64
    (_gone if is_guarded else _return_to_pool)(allocation)


def _exact(size: int) -> tuple[int, Any]:
    return max(size, 1), ctypes.c_char * size


@contextlib.contextmanager
def guard_pages() -> Iterator[None]:
    """Give every array of tensors memory of its own inside of the block."""
    with mock.patch.multiple(
        array_allocator,
        _next_allocation=_next,
        _return_to_pool=_free,
        _size_and_owner_type=_exact,
        SMALL_BYTES=-1,
    ):
        array_allocator._recent_owners.clear()
        yield
    while array_allocator._returned:
        _free(array_allocator._returned.popleft().allocation)


def at_the_end(array: Any) -> Any:
    """Return a copy of an array that ends where memory ends, inside of `guard_pages`."""
    if array_allocator._next_allocation is not _next or not array.size:
        return array
    copy, _ = array_allocator.new_array(array.size, array.dtype)
    copy[:] = array.ravel()
    return copy.reshape(array.shape)
