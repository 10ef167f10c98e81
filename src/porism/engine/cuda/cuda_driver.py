"""CUDA driver: the calls of NVIDIA's driver that are used, and what goes wrong with them.

The package `cuda-bindings` (extra `porism[cuda]`) has a function for each call of the driver, which
returns a tuple: an error code, then the results. No other part of CUDA is used: no runtime, no
compiler, no toolkit. A `Driver` takes any module with these functions, as tests do.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NoReturn

from porism.engine.device.device import DeviceError

OLDEST: Final = 12000
"""The oldest version of CUDA that a driver must support, as 1000 · major + 10 · minor: PTX 8.0."""

CALLS: Final = (
    "cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString",
    "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute",
    "cuDeviceTotalMem", "cuMemGetInfo",
    "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
    "cuStreamCreate", "cuStreamSynchronize", "cuStreamWaitEvent",
    "cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime",
    "cuDeviceGetDefaultMemPool", "cuMemPoolSetAttribute", "cuMemPoolTrimTo",
    "cuMemAllocAsync", "cuMemFreeAsync", "cuMemHostAlloc",
    "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemcpyPeerAsync",
    "cuLinkCreate", "cuLinkAddData", "cuLinkComplete", "cuLinkDestroy",
    "cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncSetAttribute", "cuLaunchKernel",
    "cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiate",
    "cuGraphExecKernelNodeSetParams", "cuGraphLaunch",
)  # fmt: skip
"""The calls of the driver that are used."""

OUT_OF_MEMORY, NO_DEVICE, OLD_DRIVER = 2, 100, 35

LOST_CONTEXT: Final = frozenset((700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999))
"""Errors of kernels after which the driver refuses all further calls of the process: illegal
addresses and instructions, asserts, time-outs (`CUresult` in cuda.h)."""

_MEANING: Final[Mapping[int, tuple[str, str]]] = {
    NO_DEVICE: (
        "the driver finds no GPU",
        "check `nvidia-smi`, and that the GPU is visible in this container",
    ),
    OLD_DRIVER: ("the driver is older than the package cuda-bindings", "update the driver"),
    34: (
        "what was loaded is a stub of the driver, and no driver",
        "remove the folder of stubs from LD_LIBRARY_PATH",
    ),
    803: (
        "the driver's library and its kernel module have different versions",
        "restart the machine after an update of the driver",
    ),
    804: ("the GPU is not supported by this forward-compatible driver", "update the driver"),
}
"""What the codes of `cuInit` mean, and what helps."""


class CudaError(DeviceError):
    """A call of the driver has failed; `code` is its `CUresult`."""

    code = 0


_drivers: Final[weakref.WeakSet[Driver]] = weakref.WeakSet()


class Driver:
    """The driver, as functions that raise an error instead of returning one.

    >>> class Bindings:
    ...     def cuDriverGetVersion(self): return 0, 12040
    ...     def cuInit(self, flags): return (100,)
    >>> Driver(Bindings()).call("cuDriverGetVersion")
    12040
    """

    def __init__(self, bindings: Any) -> None:
        self.bindings = bindings
        self.is_inherited = False
        """Whether it was started by the parent of this process."""
        self._functions = {n: getattr(bindings, n) for n in CALLS if hasattr(bindings, n)}
        _drivers.add(self)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the driver; return its result, None if it has none."""
        results = self._functions[name](*arguments)
        if results[0]:  # CUDA_SUCCESS is 0
            raise self.error(name, int(results[0]))
        return results[1] if len(results) == 2 else results[1:] or None

    def error(self, name: str, code: int, where: str | None = None) -> CudaError:
        """Return the error for a code that a function of the driver has returned."""
        why, fix = _MEANING.get(code, (self._text(code), None))
        error = CudaError(f"{name} failed with {self._name(code)}", where=where, why=why, fix=fix)
        error.code = code
        return error

    def _name(self, code: int) -> str:
        return self._described("cuGetErrorName", code) or f"the error {code}"

    def _text(self, code: int) -> str:
        return self._described("cuGetErrorString", code) or "the driver does not say why"

    def _described(self, function: str, code: int) -> str:
        describe = getattr(self.bindings, function, None)
        kind = getattr(self.bindings, "CUresult", int)
        if describe is None:
            return ""
        try:
            failed, text = describe(kind(code))
        except (ValueError, TypeError):  # a code that the package does not know
            return ""
        return "" if int(failed) or text is None else text.decode()

    def attribute(self, name: str, device: Any) -> int:
        """Return an attribute of a device, by its name after CU_DEVICE_ATTRIBUTE."""
        kind = self.bindings.CUdevice_attribute
        code = getattr(kind, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", code, device))


def _after_fork() -> None:
    """Mark all drivers as those of the parent, which do not work here."""
    for one in list(_drivers):
        one.is_inherited = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def load_bindings() -> Any:
    """Return the module of the package cuda-bindings."""
    try:
        return import_module("cuda.bindings.driver")
    except ImportError as error:
        raise DeviceError(
            "the device 'cuda' needs the package cuda-bindings",
            why=str(error),
            fix="pip install 'porism[cuda]'",
        ) from None


def start_driver(bindings: Any) -> Driver:
    """Return the driver, ready for use; an error says why it is not."""
    missing = [name for name in CALLS if not hasattr(bindings, name)]
    if missing:
        raise DeviceError(
            "the package cuda-bindings is too old",
            why=f"it lacks {', '.join(missing[:3])}",
            fix="pip install --upgrade 'porism[cuda]'",
        )
    driver = Driver(bindings)
    try:
        driver.call("cuInit", 0)
        version = int(driver.call("cuDriverGetVersion"))
    except CudaError as error:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        if error.code == NO_DEVICE and hidden is not None:
            error.why = f"CUDA_VISIBLE_DEVICES is {hidden!r}, which hides the GPUs"
            error.fix = "unset CUDA_VISIBLE_DEVICES before the program starts"
        raise
    except Exception as error:  # the package raises an error of its own without a driver
        raise DeviceError(
            "there is no NVIDIA driver on this machine",
            why=str(error),
            fix="install the driver; in a container, start it with access to the GPU",
        ) from None
    if version < OLDEST:
        raise DeviceError(
            f"the NVIDIA driver is too old: it supports CUDA {_version(version)}",
            why=f"kernels are made for CUDA {_version(OLDEST)} and newer",
            fix="update the driver",
        )
    return driver


def _version(number: int) -> str:
    """Return a version as text.

    >>> _version(12040)
    '12.4'
    """
    return f"{number // 1000}.{number % 1000 // 10}"


def version_text(used: Driver) -> str:
    """Return the version of CUDA that a driver supports, as text."""
    return _version(int(used.call("cuDriverGetVersion")))


@functools.cache
def driver() -> Driver:
    """Return the driver of this process."""
    return start_driver(load_bindings())


def device_count() -> int:
    """Return the number of GPUs that can be used; 0 if there is no driver, or no package."""
    try:
        return int(driver().call("cuDeviceGetCount"))
    except DeviceError:
        return 0


def why_none() -> str:
    """Return why there is no GPU that can be used, in a line; empty if there is one."""
    try:
        count = int(driver().call("cuDeviceGetCount"))
    except DeviceError as error:
        return f"{error.what}: {error.why}" if error.why else error.what
    return "" if count else "the driver has no device"


def refuse_inherited() -> NoReturn:
    """Refuse a driver that was started by the parent of this process."""
    raise DeviceError(
        "the device 'cuda' is used in a forked process",
        why="the driver was started by the parent, and does not work in its children",
        fix='start processes with multiprocessing.get_context("spawn")',
    )
