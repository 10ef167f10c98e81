"""CUDA device: one NVIDIA GPU, by calls of the driver.

Everything runs on one stream, in the order in which it was asked for: allocations from the driver's
pool, copies, and programs. So memory is freed after the last kernel that uses it without waiting
for the GPU, and the host waits only where it reads values. Copies to and from the host go through
pinned memory in parts, two at a time: one is copied by the processor while the other is on its way.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

from porism.backends.backend_table import Backend
from porism.backends.kernel_function import KernelFunction
from porism.base.target import Target
from porism.engine.cuda import cuda_driver
from porism.engine.cuda.cuda_code import PtxCompiler, cuda_backend, nvidia_ptx, nvidia_target
from porism.engine.cuda.cuda_driver import LOST_CONTEXT, OUT_OF_MEMORY, CudaError, Driver
from porism.engine.cuda.cuda_launches import CudaLaunches
from porism.engine.device.device import Device, DeviceArray, DeviceError, Launches
from porism.engine.run.argument_block import ArgumentLayout
from porism.engine.run.buffer_storage import Storage
from porism.ir.facts.semantics import Array
from porism.schedule.schedule import Schedule

PART: Final = 4 << 20
"""Bytes of a part of a copy by way of pinned memory, chosen by hand."""

SMALL: Final = 1 << 16
"""Bytes up to which a copy goes directly, chosen by hand: the driver stages it itself."""

MOST_LAUNCHES: Final = 32
"""Programs that are remembered until the GPU is waited for, to name them if one faults."""

_CUDA: Final = 2
"""The type kDLCUDA of DLPack."""


def open_device(name: str, number: int) -> CudaDevice:
    """Return a GPU by its number; an error says why it cannot be used."""
    driver = cuda_driver.driver()
    count = int(driver.call("cuDeviceGetCount"))
    if number >= count:
        known = ", ".join(f"'cuda:{k}'" if k else "'cuda'" for k in range(count))
        raise DeviceError(
            f"there is no device {name!r}",
            why=f"the driver has {count} GPUs: {known}" if count else cuda_driver.why_none(),
            fix="use one of porism.devices()",
        )
    return CudaDevice(name, number, driver)


class CudaDevice(Device):
    """One GPU."""

    alignment = 16

    def __init__(
        self,
        name: str,
        number: int,
        driver: Driver,
        *,
        target: Target | None = None,
        compile_ptx: PtxCompiler | None = None,
    ) -> None:
        super().__init__(name)
        self.dlpack = (_CUDA, number)
        self.driver = driver
        self.handle = driver.call("cuDeviceGet", number)
        self.context = driver.call("cuDevicePrimaryCtxRetain", self.handle)
        self.is_lost = False
        """Whether a kernel has faulted in a way after which the driver refuses everything."""
        self._launched: deque[CudaLaunches] = deque(maxlen=MOST_LAUNCHES)
        self._staging: list[tuple[int, Any]] = []
        self._copying = threading.RLock()
        self._target = target
        self._compile_ptx = compile_ptx
        self._backend: Backend | None = None
        self.enter()
        streams = driver.bindings.CUstream_flags
        self.stream = self.call("cuStreamCreate", int(streams.CU_STREAM_NON_BLOCKING))
        self._pool = self.call("cuDeviceGetDefaultMemPool", self.handle)
        threshold = driver.bindings.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        everything = driver.bindings.cuuint64_t(2**64 - 1)
        self.call("cuMemPoolSetAttribute", self._pool, threshold, everything)

    def enter(self) -> None:
        """Make the context of this device that of the calling thread."""
        if self.driver.is_inherited:
            cuda_driver.refuse_inherited()
        if self.is_lost:
            raise DeviceError(
                f"the device {self.name!r} cannot be used any more in this process",
                why="a kernel has faulted, and the driver refuses everything after that",
                fix="start the program anew",
            )
        self.driver.call("cuCtxSetCurrent", self.context)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the driver; a fault of a kernel names what was running."""
        try:
            return self.driver.call(name, *arguments)
        except CudaError as error:
            if error.code in LOST_CONTEXT:
                self.is_lost = True
                raise self._fault(error) from None
            raise

    def note_launch(self, launches: CudaLaunches) -> None:
        """Remember what runs until the GPU is waited for."""
        self._launched.append(launches)

    def _fault(self, error: CudaError) -> DeviceError:
        """Return the error for a kernel that has faulted."""
        names = list(dict.fromkeys(name for one in self._launched for name in one.names))
        what = f"a kernel has faulted on {self.name!r}"
        if len(names) == 1:
            what = f"the kernel {names[0]} has faulted on {self.name!r}"
        return DeviceError(
            what,
            where=self._launched[-1].where if self._launched else None,
            why=f"{error.what}: {error.why}; launched since the last wait: {', '.join(names)}",
            fix="this is a fault of Porism: with PORISM_DEBUG=1 every kernel is waited for, "
            "and the one that faults is named; please report it",
        )

    # -- memory ------------------------------------------------------------------------------------

    def take(self, nbytes: int) -> int:
        self.enter()
        for attempt in range(2):
            try:
                return int(self.call("cuMemAllocAsync", nbytes, self.stream))
            except CudaError as error:
                if error.code != OUT_OF_MEMORY:
                    raise
            if not attempt:  # what the pool keeps may be in pieces
                self.synchronize()
                self.call("cuMemPoolTrimTo", self._pool, 0)
        raise MemoryError

    def free(self, address: int, nbytes: int) -> None:
        if not self.is_lost and not sys.is_finalizing():
            self.enter()
            self.call("cuMemFreeAsync", self.driver.bindings.CUdeviceptr(address), self.stream)

    def write(self, address: int, array: Array) -> None:
        self.enter()
        if array.nbytes <= SMALL:  # the driver has read the array when this returns
            self.call("cuMemcpyHtoDAsync", address, array.ctypes.data, array.nbytes, self.stream)
            return
        with self._copying:
            for (pinned, event), begin, size in self._parts(array.nbytes):
                self.call("cuEventSynchronize", event)
                ctypes.memmove(pinned, array.ctypes.data + begin, size)
                self.call("cuMemcpyHtoDAsync", address + begin, pinned, size, self.stream)
                self.call("cuEventRecord", event, self.stream)

    def read(self, address: int, array: Array) -> None:
        self.enter()
        target = array.ctypes.data
        if array.nbytes <= SMALL:
            self.call("cuMemcpyDtoHAsync", target, address, array.nbytes, self.stream)
            self.synchronize()
            return
        arriving: deque[tuple[int, Any, int, int]] = deque()
        with self._copying:
            for (pinned, event), begin, size in self._parts(array.nbytes):
                if len(arriving) == 2:
                    self._receive(target, *arriving.popleft())
                self.call("cuEventSynchronize", event)  # a copy to the GPU may still read it
                self.call("cuMemcpyDtoHAsync", pinned, address + begin, size, self.stream)
                self.call("cuEventRecord", event, self.stream)
                arriving.append((pinned, event, begin, size))
            while arriving:
                self._receive(target, *arriving.popleft())
        self._launched.clear()

    def _receive(self, target: int, pinned: int, event: Any, begin: int, size: int) -> None:
        """Wait for a part of a copy, and copy it to where it belongs."""
        self.call("cuEventSynchronize", event)
        ctypes.memmove(target + begin, pinned, size)

    def _parts(self, nbytes: int) -> Iterator[tuple[tuple[int, Any], int, int]]:
        """Yield pinned memory by turns, and the begin and the size of each part of a copy."""
        if not self._staging:
            self._staging = [
                (int(self.call("cuMemHostAlloc", PART, 0)), self.call("cuEventCreate", 0))
                for _ in range(2)
            ]
        for number, begin in enumerate(range(0, nbytes, PART)):
            yield self._staging[number % 2], begin, min(PART, nbytes - begin)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.enter()
        self.call("cuMemcpyDtoDAsync", target, source, nbytes, self.stream)

    def copy_from(self, other: Device, source: DeviceArray) -> Storage:
        if not isinstance(other, CudaDevice):
            return super().copy_from(other, source)
        storage = self.allocate(source.size, source.dtype)
        other.synchronize()  # the two streams know nothing of each other
        self.enter()
        self.call(
            "cuMemcpyPeerAsync", storage[1], self.context, source.address, other.context,
            source.nbytes, self.stream,
        )  # fmt: skip
        self.synchronize()
        return storage

    # -- programs ----------------------------------------------------------------------------------

    def backend(self) -> Backend:
        if self._backend is None:
            processors = self.driver.attribute("MULTIPROCESSOR_COUNT", self.handle)
            target = self._target or nvidia_target(self._capability(), processors)
            compile_ptx = self._compile_ptx or nvidia_ptx()
            backend = cuda_backend(self.driver, target, self.enter, compile_ptx)
            self._backend = backend
        return self._backend

    def _capability(self) -> tuple[int, int]:
        """Return the compute capability, such as (9, 0)."""
        parts = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR")
        major, minor = (self.driver.attribute(part, self.handle) for part in parts)
        return major, minor

    def build(
        self, schedule: Schedule, layout: ArgumentLayout, functions: Sequence[KernelFunction]
    ) -> Launches:
        return CudaLaunches(self, schedule, layout, functions)

    def synchronize(self) -> None:
        self.enter()
        self.call("cuStreamSynchronize", self.stream)
        self._launched.clear()

    @property
    def stream_number(self) -> int:
        return int(self.stream)

    def wait_for(self, stream: Any) -> None:
        """Let what is asked for from now on wait for what is on a stream of another library."""
        self._let_wait(self.stream, stream)

    def let_wait(self, stream: Any) -> None:
        """Let a stream of another library wait for everything that was asked for so far."""
        self._let_wait(stream, self.stream)

    def _let_wait(self, later: Any, earlier: Any) -> None:
        self.enter()
        event = self.call("cuEventCreate", 0)
        self.call("cuEventRecord", event, earlier)
        self.call("cuStreamWaitEvent", later, event, 0)

    def time(self, launches: Launches, number: int) -> float:
        self.enter()
        begin, end = (self.call("cuEventCreate", 0) for _ in range(2))
        assert isinstance(launches, CudaLaunches)
        self.call("cuEventRecord", begin, self.stream)
        launches.launch(number)
        self.call("cuEventRecord", end, self.stream)
        self.call("cuEventSynchronize", end)
        return 1e-3 * float(self.call("cuEventElapsedTime", begin, end))

    def describe(self) -> dict[str, Any]:
        self.enter()
        name = self.driver.call("cuDeviceGetName", 128, self.handle).split(b"\0")[0].decode()
        free, total = self.driver.call("cuMemGetInfo")
        return {
            "name": name,
            "compute capability": ".".join(map(str, self._capability())),
            "multiprocessors": self.driver.attribute("MULTIPROCESSOR_COUNT", self.handle),
            "memory": f"{total / 2**30:.1f} GB, {free / 2**30:.1f} GB free",
            "driver": f"CUDA {cuda_driver.version_text(self.driver)}",
        }
