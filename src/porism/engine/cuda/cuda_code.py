"""CUDA code: kernels as PTX, assembled by the driver, and loaded.

    linear kernels  →  PTX (backends/nvptx)  →  cubin (the driver's linker)  →  module, functions

A cubin with a table of how its kernels are launched is what the cache on disk keeps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from porism.backends.backend_table import Backend, Instructions, ObjectCode
from porism.base.target import Target
from porism.engine.cuda.cuda_driver import CudaError, Driver
from porism.engine.device.device import DeviceError
from porism.ir.text.serialization import parse, to_text
from porism.rules.addresses.launch_dims import Launch

if TYPE_CHECKING:
    from porism.backends.kernel_function import KernelFunction
    from porism.backends.nvptx.ptx_compiler import PtxModule

STATIC_SHARED: Final = 48 << 10
"""Bytes of shared memory that a kernel has without asking for more."""


PtxCompiler: TypeAlias = "Callable[[Mapping[str, Instructions], Target], PtxModule]"
"""Makes PTX of named kernels that were lowered for a target."""


class CudaModule:
    """A loaded module: its functions by name, and how each is launched."""

    def __init__(self, driver: Driver, image: bytes, launches: Mapping[str, Launch]) -> None:
        self.module = driver.call("cuModuleLoadDataEx", image, 0, None, None)
        self.functions: dict[int, tuple[Any, Launch]] = {}
        """The handle and the launch dimensions of each function, by address."""
        self.addresses: dict[str, int] = {}
        for name, launch in launches.items():
            function = driver.call("cuModuleGetFunction", self.module, name.encode())
            if launch.local > STATIC_SHARED:
                kind = driver.bindings.CUfunction_attribute
                attribute = kind.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                driver.call("cuFuncSetAttribute", function, attribute, launch.local)
            address = int(function)
            self.functions[address] = function, launch
            self.addresses[name] = address


def cuda_backend(
    driver: Driver, target: Target, enter: Callable[[], None], compile_ptx: PtxCompiler
) -> Backend:
    """Return what compiles for a GPU, by a function that makes PTX.

    `enter` makes the context of the device the current one.
    """

    def build(named: Iterable[tuple[str, Instructions]], _count: int) -> bytes:
        enter()
        module = compile_ptx(dict(named), target)
        dims = {name: entry.launch for name, entry in module.entries.items()}
        return _with_table(assemble(driver, module.text), dims)

    def link(code: bytes, names: Sequence[str]) -> tuple[Mapping[str, int], object]:
        enter()
        head, _, image = code.partition(b"\n")
        table = json.loads(head)
        dims = {name: _launch_of(table[name]) for name in names}
        loaded = CudaModule(driver, image, dims)
        return loaded.addresses, loaded

    def load(named: Mapping[str, Instructions]) -> dict[str, KernelFunction]:
        from porism.backends.kernel_function import kernel_function

        addresses, loaded = link(build(named.items(), len(named)), list(named))
        return {n: kernel_function(code, addresses[n], loaded) for n, code in named.items()}

    def version() -> str:
        import llvmlite

        return f"cuda {driver.call('cuDriverGetVersion')}, llvmlite {llvmlite.__version__}"

    return Backend(
        f"cuda_{target.name}",
        "PTX, assembled by the driver",
        lambda: target,
        load,
        lambda instructions, name: compile_ptx({name: instructions}, target).text,
        ObjectCode(version, build, link),
    )


def assemble(driver: Driver, ptx: str) -> bytes:
    """Return PTX as machine code of the current device."""
    state = driver.call("cuLinkCreate", 0, None, None)
    try:
        text = ptx.encode() + b"\0"
        kind = driver.bindings.CUjitInputType.CU_JIT_INPUT_PTX
        arguments = (state, kind, text, len(text), b"porism", 0, None, None)
        try:
            driver.call("cuLinkAddData", *arguments)
            image, size = driver.call("cuLinkComplete", state)
        except CudaError as error:
            raise DeviceError(
                "the driver cannot assemble a kernel",
                why=f"{error.what}: {error.why}",
                fix="update the driver; if it is new, please report this with the output of "
                "PORISM_DEBUG=4",
            ) from None
        return _bytes_at(image, size)
    finally:
        driver.call("cuLinkDestroy", state)


def _bytes_at(image: Any, size: int) -> bytes:
    """Return the memory at an address, which the driver gives as a number or as bytes."""
    if isinstance(image, (bytes, bytearray)):
        return bytes(image[:size])
    import ctypes

    return ctypes.string_at(int(image), size)


def _with_table(image: bytes, dims: Mapping[str, Launch]) -> bytes:
    """Return machine code after a line that says how its kernels are launched."""
    table = {
        name: [[to_text(n) for n in (*launch.grid, *launch.block)], launch.local]
        for name, launch in dims.items()
    }
    return json.dumps(table).encode() + b"\n" + image


def _launch_of(row: Any) -> Launch:
    texts, local = row
    sizes = tuple(parse(text) for text in texts)
    return Launch(sizes[:3], sizes[3:], int(local))


def nvidia_ptx() -> PtxCompiler:
    """Return the function that makes PTX of linear kernels."""
    from porism.backends.nvptx.ptx_compiler import ptx_module

    return ptx_module


def nvidia_target(capability: tuple[int, int], processors: int) -> Target:
    """Return the target of a GPU by its compute capability and its multiprocessors."""
    from porism.base import gpu_targets

    return gpu_targets.nvidia_target(capability, processors)
