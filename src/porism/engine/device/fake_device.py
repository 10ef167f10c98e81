"""Fake device: a device for tests, whose memory the host may not touch.

Its memory is a range of addresses that no code may read or write, except while one of its own
operations runs: a copy, or kernels, which are machine code for the processor. An access from
anywhere else ends the process. So a program that is right here makes no assumption of memory that
the host shares.

New and freed memory holds a pattern that is neither zero nor a useful number, and allocations have
margins, which are looked at when they are freed: a kernel that writes beyond its buffer is found.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import mmap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from porism.backends.backend_table import Backend, selected_backend
from porism.backends.kernel_function import KernelFunction
from porism.backends.llvm.thread_pool import ORDER_WORDS
from porism.engine.device.device import Device, DeviceError, Launches
from porism.engine.run.argument_block import ArgumentBlock, ArgumentLayout
from porism.engine.run.program import JOB_BYTES, thread_pool
from porism.ir.facts.semantics import Array
from porism.schedule.schedule import Schedule, launches

T = TypeVar("T")

MEMORY_BYTES: Final = 1 << 30
"""The memory of a fake device: it takes none of the system's until it is used."""

MARGIN: Final = 128
"""Bytes before each allocation that nothing may write to; also its alignment."""

PATTERN: Final = 0xAB
"""Every byte of memory that was not written: as f32 a small negative number."""

_CLOSED, _OPEN = 0, mmap.PROT_READ | mmap.PROT_WRITE
_EXTENSION_DEVICE: Final = 12
"""The type kDLExtDev of DLPack."""


def _function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype, function.argtypes = result, list(arguments)
    return function  # type: ignore[no-any-return]


class FakeDevice(Device):
    """Memory that only its own operations can access, and kernels that run on the processor."""

    def __init__(self, name: str, number: int, memory_bytes: int = MEMORY_BYTES) -> None:
        super().__init__(name)
        self.dlpack = (_EXTENSION_DEVICE, number)
        self.memory_bytes = memory_bytes
        map_memory = _function(
            "mmap", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3,
            ctypes.c_long,
        )  # fmt: skip
        self._protect = _function(
            "mprotect", ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        )
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        start = map_memory(None, memory_bytes, _CLOSED, flags, -1, 0)
        if start in (None, ctypes.c_void_p(-1).value):
            raise DeviceError(f"there is no memory for the device {name!r}")
        self.start: int = start
        self._end = start
        """The first address that was never allocated."""
        self._free: list[tuple[int, int]] = [(start, memory_bytes)]
        """Begin and size of the free parts, in order."""
        self._lock = threading.RLock()
        self._depth = 0

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Let code access the memory inside of the block."""
        with self._lock:
            self._set_protection(_OPEN, +1)
            try:
                yield
            finally:
                self._set_protection(_CLOSED, -1)

    def _set_protection(self, protection: int, change: int) -> None:
        outermost = self._depth == (0 if change > 0 else 1)
        self._depth += change
        pages = -(-(self._end - self.start) // mmap.PAGESIZE) * mmap.PAGESIZE
        if outermost and pages and self._protect(self.start, pages, protection):
            raise DeviceError(f"the memory of the device {self.name!r} cannot be protected")

    # -- memory ------------------------------------------------------------------------------------

    def take(self, nbytes: int) -> int:
        whole = _whole(nbytes)
        with self._lock:
            fitting = (k for k, (_, size) in enumerate(self._free) if size >= whole)
            number = next(fitting, None)
            if number is None:
                raise MemoryError
            address, size = self._free.pop(number)
            if size > whole:
                self._free.insert(number, (address + whole, size - whole))
            self._end = max(self._end, address + whole)
            with self.opened():
                ctypes.memset(address, PATTERN, whole)
        return int(address) + MARGIN

    def free(self, address: int, nbytes: int) -> None:
        whole = _whole(nbytes)
        with self.opened():
            before = ctypes.string_at(address - MARGIN, MARGIN)
            after = ctypes.string_at(address + nbytes, whole - MARGIN - nbytes)
            ctypes.memset(address - MARGIN, PATTERN, whole)
            self._return(address - MARGIN, whole)
        if {*before, *after} - {PATTERN}:
            raise DeviceError(
                f"memory beyond an allocation of {nbytes} bytes was written on {self.name!r}",
                why="a kernel or a copy has written outside of its buffers",
                fix="this is a fault of Porism: please report it",
            )

    def _return(self, begin: int, size: int) -> None:
        """Add memory to the free parts, together with its neighbours among them."""
        number = bisect.bisect(self._free, (begin, size))
        if number < len(self._free) and begin + size == self._free[number][0]:
            size += self._free.pop(number)[1]
        if number and sum(self._free[number - 1]) == begin:
            begin, before = self._free.pop(number - 1)
            size, number = size + before, number - 1
        self._free.insert(number, (begin, size))

    def write(self, address: int, array: Array) -> None:
        with self.opened():
            ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def read(self, address: int, array: Array) -> None:
        with self.opened():
            ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        with self.opened():
            ctypes.memmove(target, source, nbytes)

    def view(self, address: int, size: int, dtype: np.dtype[Any]) -> Array:
        """Return memory as an array, which may be used while the memory is open."""
        if not size:
            return np.empty(0, dtype)
        memory: Any = (ctypes.c_char * (size * dtype.itemsize)).from_address(address)
        view: Array = np.frombuffer(memory, dtype)
        return view

    # -- programs ----------------------------------------------------------------------------------

    def backend(self) -> Backend:
        return selected_backend()

    def build(
        self, schedule: Schedule, layout: ArgumentLayout, functions: Sequence[KernelFunction]
    ) -> Launches:
        return FakeLaunches(self, ArgumentBlock(layout, functions, schedule), schedule)

    def synchronize(self) -> None:
        """Do nothing: everything has ended when a launch returns."""

    def time(self, launches: Launches, number: int) -> float:
        begin = time.perf_counter()
        launches.run_one(number)
        return time.perf_counter() - begin

    def describe(self) -> dict[str, Any]:
        return {"kind": "memory that the host may not touch, for tests"}


def _whole(nbytes: int) -> int:
    """Return the bytes of an allocation with its margin, rounded up."""
    return MARGIN + -(-nbytes // MARGIN) * MARGIN


class FakeLaunches(Launches):
    """Kernels that the thread pool of the processor runs on the memory of a fake device."""

    def __init__(self, device: FakeDevice, block: ArgumentBlock, schedule: Schedule) -> None:
        self.device = device
        self.block = block
        self.count = len(launches(schedule.steps))

    def set_word(self, word: int, value: int) -> None:
        self.block.words[word] = value

    def set_shared(self, shared: Sequence[int], variables: Mapping[str, int]) -> None:
        for k, (count, (words, slot)) in enumerate(zip(shared, self.block.counts, strict=True)):
            self.block.jobs[3 * k + 2] = words[slot] = count

    def run(self) -> None:
        with self.device.opened():
            thread_pool().run(self.block.address + 8 * ORDER_WORDS, self.count)

    def run_one(self, number: int) -> None:
        with self.device.opened():
            thread_pool().run(ctypes.addressof(self.block.jobs) + JOB_BYTES * number, 1)
