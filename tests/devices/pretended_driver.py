"""Pretended driver: NVIDIA's driver as far as Porism calls it, on the memory of a fake device.

It stands for the module of cuda-bindings. Work is done when it is asked for, in the order of the
one stream; its kernels are machine code for the processor, which `compile_ptx` makes in place of
PTX. Each call is counted, and some can be told to fail.
"""

# ruff: noqa: N802 - the names are those of the driver

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from porism.backends.backend_table import BACKENDS
from porism.backends.kernel_function import KernelFunction
from porism.base.dtypes import index
from porism.base.target import Target
from porism.engine.device.fake_device import FakeDevice
from porism.ir.node import UOp
from porism.rules.addresses.launch_dims import Launch

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
TEXT = {1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 100: "CUDA_ERROR_NO_DEVICE",
        700: "CUDA_ERROR_ILLEGAL_ADDRESS"}  # fmt: skip


@dataclass
class Node:
    """A kernel in a graph, with a copy of its arguments."""

    function: int
    arguments: list[int]


class Bindings:
    """The functions of `cuda.bindings.driver`, each of which returns a code and its results."""

    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="processors",
    )
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    CUjitInputType = SimpleNamespace(CU_JIT_INPUT_PTX=1)
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUmemPool_attribute = SimpleNamespace(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD=4)
    CUresult = staticmethod(int)
    CUdeviceptr = staticmethod(int)
    cuuint64_t = staticmethod(int)
    CUDA_KERNEL_NODE_PARAMS = SimpleNamespace

    def __init__(self, memory_bytes: int = 1 << 26, devices: int = 1, version: int = 13000) -> None:
        self.memory = FakeDevice("pretended", 0, memory_bytes)
        self.devices, self.version = devices, version
        self.calls: Counter[str] = Counter()
        self.failing: dict[str, int] = {}
        """Functions that fail, with the codes they return."""
        self.functions: dict[int, KernelFunction] = {}
        self.named: dict[str, KernelFunction] = {}
        self.pinned: list[Any] = []
        self.sizes: dict[int, int] = {}

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.startswith("cu") or name == "cuuint64_t":
            return found

        def counted(*arguments: Any) -> Any:
            self.calls[name] += 1
            code = self.failing.get(name)
            return found(*arguments) if code is None else (code,)

        return counted

    # -- the processor in place of PTX -------------------------------------------------------------

    def compile_ptx(self, named: Mapping[str, Sequence[UOp]], _target: Target) -> Any:
        """Make functions for the processor of kernels, and a text that names them."""
        load = BACKENDS["llvm"].load
        assert load is not None
        one = UOp.const(index, 1)
        entries = {}
        lines = []
        for name, function in load(dict(named)).items():
            unique = f"{name}_{len(self.named)}"
            self.named[unique] = function
            lines.append(f"{name} {unique}")
            entries[name] = SimpleNamespace(launch=Launch((one,) * 3, (one,) * 3, 0))
        return SimpleNamespace(text="\n".join(lines), entries=entries)

    # -- the driver --------------------------------------------------------------------------------

    def cuInit(self, _flags: int) -> Any:
        return (0,)

    def cuDriverGetVersion(self) -> Any:
        return 0, self.version

    def cuGetErrorName(self, code: int) -> Any:
        return 0, TEXT.get(code, "CUDA_ERROR").encode()

    def cuGetErrorString(self, code: int) -> Any:
        return 0, f"the driver's words for {code}".encode()

    def cuDeviceGetCount(self) -> Any:
        return 0, self.devices

    def cuDeviceGet(self, number: int) -> Any:
        return 0, number

    def cuDeviceGetName(self, _length: int, _device: int) -> Any:
        return 0, b"Pretended GPU\0\0"

    def cuDeviceGetAttribute(self, attribute: str, _device: int) -> Any:
        return 0, {"major": 9, "minor": 0, "processors": 132}[attribute]

    def cuDeviceTotalMem(self, _device: int) -> Any:
        return 0, 1 << 30

    def cuMemGetInfo(self) -> Any:
        return 0, 1 << 29, 1 << 30

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        return 0, ("context", device)

    def cuCtxSetCurrent(self, _context: Any) -> Any:
        return (0,)

    def cuStreamCreate(self, _flags: int) -> Any:
        return 0, 77

    def cuStreamSynchronize(self, _stream: Any) -> Any:
        return (0,)

    def cuStreamWaitEvent(self, _stream: Any, _event: Any, _flags: int) -> Any:
        return (0,)

    def cuEventCreate(self, _flags: int) -> Any:
        return 0, "event"

    def cuEventRecord(self, _event: Any, _stream: Any) -> Any:
        return (0,)

    def cuEventSynchronize(self, _event: Any) -> Any:
        return (0,)

    def cuEventElapsedTime(self, _begin: Any, _end: Any) -> Any:
        return 0, 0.25

    def cuDeviceGetDefaultMemPool(self, _device: int) -> Any:
        return 0, "pool"

    def cuMemPoolSetAttribute(self, _pool: Any, _attribute: Any, _value: int) -> Any:
        return (0,)

    def cuMemPoolTrimTo(self, _pool: Any, _size: int) -> Any:
        return (0,)

    def cuMemAllocAsync(self, size: int, _stream: Any) -> Any:
        try:
            address = self.memory.take(size)
        except MemoryError:
            return (2,)
        self.sizes[address] = size
        return 0, address

    def cuMemFreeAsync(self, address: int, _stream: Any) -> Any:
        self.memory.free(address, self.sizes.pop(address))
        return (0,)

    def cuMemHostAlloc(self, size: int, _flags: int) -> Any:
        self.pinned.append(ctypes.create_string_buffer(size))
        return 0, ctypes.addressof(self.pinned[-1])

    def _move(self, target: int, source: int, size: int) -> Any:
        with self.memory.opened():
            ctypes.memmove(target, source, size)
        return (0,)

    def cuMemcpyHtoDAsync(self, target: int, source: int, size: int, _stream: Any) -> Any:
        return self._move(target, source, size)

    def cuMemcpyDtoHAsync(self, target: int, source: int, size: int, _stream: Any) -> Any:
        return self._move(target, source, size)

    def cuMemcpyDtoDAsync(self, target: int, source: int, size: int, _stream: Any) -> Any:
        return self._move(target, source, size)

    def cuMemcpyPeerAsync(
        self, target: int, _to: Any, source: int, _from: Any, size: int, _stream: Any
    ) -> Any:
        return self._move(target, source, size)

    def cuLinkCreate(self, _count: int, _options: Any, _values: Any) -> Any:
        return 0, []

    def cuLinkAddData(
        self, state: Any, _kind: Any, text: bytes, size: int, _name: bytes, *_options: Any
    ) -> Any:
        assert text[size - 1 : size] == b"\0"
        state.append(text[: size - 1])
        return (0,)

    def cuLinkComplete(self, state: Any) -> Any:
        return 0, state[0], len(state[0])

    def cuLinkDestroy(self, _state: Any) -> Any:
        return (0,)

    def cuModuleLoadDataEx(self, image: bytes, _count: int, _options: Any, _values: Any) -> Any:
        return 0, dict(line.split() for line in image.decode().splitlines())

    def cuModuleGetFunction(self, module: Any, name: bytes) -> Any:
        function = self.named[module[name.decode()]]
        self.functions[function.address] = function
        return 0, function.address

    def cuFuncSetAttribute(self, _function: Any, _attribute: Any, _value: int) -> Any:
        return (0,)

    def _arguments(self, function: int, pointers: int) -> list[int]:
        """Return copies of the arguments, as the driver makes them."""
        known = self.functions[function]
        count = len(known.buffers) + len(known.variables)
        places = (ctypes.c_void_p * count).from_address(pointers)
        return [ctypes.c_int64.from_address(place).value for place in places if place]

    def _run(self, function: int, arguments: Sequence[int]) -> None:
        words = (ctypes.c_int64 * max(len(arguments), 1))(*arguments)
        with self.memory.opened():
            KERNEL(function)(ctypes.addressof(words), 0, self._extent(function, arguments))

    def _extent(self, function: int, arguments: Sequence[int]) -> int:
        """Return the iterations of the parallel loop of a kernel: all are run at once."""
        known = self.functions[function]
        if known.parallel is None:
            return 1
        from porism.engine.run.bound_sizes import evaluate_size

        values = arguments[len(known.buffers) :]
        return evaluate_size(known.parallel, dict(zip(known.variables, values, strict=True)))

    def cuLaunchKernel(self, function: int, *rest: Any) -> Any:
        assert min(rest[:6]) > 0
        self._run(function, self._arguments(function, rest[8]))
        return (0,)

    def cuGraphCreate(self, _flags: int) -> Any:
        return 0, []

    def cuGraphAddKernelNode(self, graph: Any, before: Any, count: int, params: Any) -> Any:
        assert len(before) == count
        assert all(any(other is node for node in graph) for other in before)
        graph.append(Node(params.func, self._arguments(params.func, params.kernelParams)))
        return 0, graph[-1]

    def cuGraphInstantiate(self, graph: Any, _flags: int) -> Any:
        return 0, graph

    def cuGraphExecKernelNodeSetParams(self, graph: Any, node: Node, params: Any) -> Any:
        assert any(node is other for other in graph)
        node.arguments = self._arguments(params.func, params.kernelParams)
        return (0,)

    def cuGraphLaunch(self, graph: Any, _stream: Any) -> Any:
        for node in graph:
            self._run(node.function, node.arguments)
        return (0,)
