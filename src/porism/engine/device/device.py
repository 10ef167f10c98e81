"""Device: the interface to a machine that has memory and runs kernels.

A device allocates memory, copies to, from and within it, compiles kernels for its target, and
builds *launches*: the kernels of a program with their arguments, which run again when some of the
arguments have changed. All addresses are numbers; what is at one, only the device knows.

The engine uses the processor's memory directly, as NumPy's arrays (`host_device`). Everything that
another device needs to be is here.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import numpy as np

from porism.base.errors import PorismError
from porism.engine.run.array_allocator import MEGABYTE, MemoryUsage, OutOfMemory
from porism.engine.run.buffer_storage import Storage
from porism.ir.facts.semantics import Array

if TYPE_CHECKING:
    from porism.backends.backend_table import Backend
    from porism.backends.kernel_function import KernelFunction
    from porism.engine.run.argument_block import ArgumentLayout
    from porism.schedule.schedule import Schedule

MOST_NAMED: Final = 5
"""The largest allocations that an error about memory lists; chosen by hand."""


class DeviceError(PorismError, RuntimeError):
    """A device cannot be used, or has reported a fault."""


class HostAccess(PorismError, TypeError):  # noqa: N818 - the name says it all
    """The memory of a device was taken for an array of the host."""


class DeviceArray:
    """One-dimensional memory on a device: the first half of its storage, and no array.

    Memory that the device allocated is freed when nothing refers to the DeviceArray any more.
    """

    __slots__ = ("__weakref__", "address", "device", "dtype", "is_owned", "keeps", "size")

    def __init__(
        self,
        device: Device,
        address: int,
        size: int,
        dtype: np.dtype[Any],
        *,
        is_owned: bool = True,
        keeps: object = None,
    ) -> None:
        self.device = device
        self.address = address
        self.size = size
        """The number of elements."""
        self.dtype = dtype
        self.is_owned = is_owned
        """Whether the device allocated it, so that nobody else can write to it."""
        self.keeps = keeps
        """What keeps imported memory alive."""

    @property
    def nbytes(self) -> int:
        """The memory in bytes."""
        return self.size * self.dtype.itemsize

    def to_host(self) -> Array:
        """Return a copy of the values as an array of NumPy's."""
        array = np.empty(self.size, self.dtype)
        if self.nbytes:
            self.device.read(self.address, array)
        return array

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise HostAccess(
            f"the memory of the device {self.device.name!r} is taken for an array",
            why="the processor cannot read it",
            fix="this is a fault of Porism: please report it",
        )


class Launches(ABC):
    """The kernels of a program with their arguments, ready to run; used by one run at a time."""

    @abstractmethod
    def set_word(self, word: int, value: int) -> None:
        """Give an argument, an address or a number, another value."""

    @abstractmethod
    def set_shared(self, shared: Sequence[int], variables: Mapping[str, int]) -> None:
        """Give the sizes of a run: the iterations of each parallel loop, and the variables."""

    @abstractmethod
    def run(self) -> None:
        """Run all kernels in their order; the device may go on after the return."""

    @abstractmethod
    def run_one(self, number: int) -> None:
        """Run one kernel, and wait until it has ended."""


class _Lease(weakref.ref[Any]):
    """A weak reference to a DeviceArray, with its address and its bytes."""

    __slots__ = ("address", "dtype", "nbytes", "size")
    address: int
    nbytes: int
    size: int
    dtype: np.dtype[Any]


class Device(ABC):
    """A machine with memory of its own."""

    name: str
    """As in `device="cuda:1"`; the first of a kind has no number."""
    dlpack: tuple[int, int]
    """The type and the number of the device for DLPack."""
    alignment = 1
    """Bytes that the addresses of buffers are multiples of, as kernels take it for granted."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._leases: dict[int, _Lease] = {}
        self._returned: deque[_Lease] = deque()
        self._in_use = self._peak = 0
        self._memory_lock = threading.RLock()  # garbage collection may allocate while it is held

    # -- what a device implements ------------------------------------------------------------------

    @abstractmethod
    def backend(self) -> Backend:
        """Return what compiles kernels for its target; its name tells targets apart."""

    @abstractmethod
    def take(self, nbytes: int) -> int:
        """Return the address of new memory; raise MemoryError if there is none."""

    @abstractmethod
    def free(self, address: int, nbytes: int) -> None:
        """Free memory, once everything that was launched before has ended."""

    @abstractmethod
    def write(self, address: int, array: Array) -> None:
        """Copy a contiguous array of the host to an address."""

    @abstractmethod
    def read(self, address: int, array: Array) -> None:
        """Copy from an address to a contiguous array of the host, and wait for it."""

    @abstractmethod
    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the memory of the device."""

    @abstractmethod
    def build(
        self, schedule: Schedule, layout: ArgumentLayout, functions: Sequence[KernelFunction]
    ) -> Launches:
        """Return the compiled kernels of a schedule, with arguments that are not set yet."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything that was launched has ended; raise if something went wrong."""

    @abstractmethod
    def time(self, launches: Launches, number: int) -> float:
        """Return the seconds that one kernel takes, by the clock of the device."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what there is to say of the device, by topic."""

    @property
    def stream_number(self) -> int | None:
        """The stream on which everything runs, for other libraries; None if there are none."""
        return None

    def let_wait(self, stream: Any) -> None:
        """Let a stream of another library wait for everything that was asked for so far."""
        raise DeviceError(
            f"the stream {stream!r} of another library waits for the device {self.name!r}",
            why="it has no streams",
            fix="leave out stream",
        )

    def copy_from(self, other: Device, source: DeviceArray) -> Storage:
        """Return a copy of memory on another device; by way of the host unless overridden."""
        return self.store(source.to_host())

    # -- memory ------------------------------------------------------------------------------------

    def allocate(self, size: int, dtype: np.dtype[Any]) -> Storage:
        """Return uninitialized memory for `size` elements."""
        nbytes = max(size * dtype.itemsize, 1)
        with self._memory_lock:
            if self._returned:
                self.reclaim()
            try:
                address = self.take(nbytes)
            except MemoryError:
                raise self._out_of_memory(nbytes) from None
            array = DeviceArray(self, address, size, dtype)
            lease = _Lease(array, self._returned.append)
            lease.address, lease.nbytes = address, nbytes
            lease.size, lease.dtype = size, dtype
            self._leases[address] = lease
            self._in_use += nbytes
            if self._in_use > self._peak:
                self._peak = self._in_use
        return cast(Array, array), address

    def store(self, array: Array) -> Storage:
        """Return memory with a copy of an array of the host."""
        flat = np.ascontiguousarray(array).reshape(-1)
        storage = self.allocate(flat.size, flat.dtype)
        if flat.nbytes:
            self.write(storage[1], flat)
        return storage

    def duplicate(self, storage: Storage) -> Storage:
        """Return a copy of memory of this device."""
        source: DeviceArray = storage[0]  # type: ignore[assignment]
        copied = self.allocate(source.size, source.dtype)
        if source.nbytes:
            self.copy(copied[1], storage[1], source.nbytes)
        return copied

    def reclaim(self) -> None:
        """Free the memory that nothing refers to any more."""
        while self._returned:
            lease = self._returned.popleft()
            del self._leases[lease.address]
            self._in_use -= lease.nbytes
            self.free(lease.address, lease.nbytes)

    def memory_usage(self) -> MemoryUsage:
        """Return how much memory of the device is in use."""
        with self._memory_lock:
            self.reclaim()
            return MemoryUsage(self._in_use, 0, self._peak, 0)

    def _out_of_memory(self, nbytes: int) -> OutOfMemory:
        """Return the error for memory that there is not; it says what holds the rest."""
        held = sorted(self._leases.values(), key=lambda lease: -lease.nbytes)[:MOST_NAMED]
        rows = [f"{one.nbytes / MEGABYTE:.1f} MB: {one.size} × {one.dtype}" for one in held]
        return OutOfMemory(
            f"the device {self.name!r} has no memory for {nbytes / MEGABYTE:.1f} MB",
            why=f"tensors and programs hold {self._in_use / MEGABYTE:.1f} MB in "
            f"{len(self._leases)} allocations; the largest are\n" + "\n".join(rows or ["none"]),
            fix="let go of tensors that are not needed, or compute in smaller parts",
        )
