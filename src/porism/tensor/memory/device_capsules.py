"""Device capsules: DLPack for the memory of devices that NumPy does not know.

A capsule that is made here keeps the memory alive until its consumer calls the deleter; one that is
taken is kept until the tensor on its memory is gone. Memory is handed out read-only; a consumer of
DLPack before version 1 cannot be told so, and gets a copy.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import Any, Final

import ml_dtypes
import numpy as np

from porism.engine.device.device import Device, DeviceArray
from porism.engine.run.buffer_storage import Storage
from porism.tensor.memory.dlpack_capsules import (
    LEGACY,
    VERSIONED,
    CapsuleTensor,
    Version,
    VersionedTensor,
    has_name,
    tensor_of,
)

_READ_ONLY: Final = 1
"""The flag DLPACK_FLAG_BITMASK_READ_ONLY."""

_CODES: Final[dict[np.dtype[Any], int]] = {
    np.dtype(ml_dtypes.bfloat16): 4,
    np.dtype(ml_dtypes.float8_e4m3fn): 10,
    np.dtype(ml_dtypes.float8_e5m2): 12,
}
_CODE_OF_KIND: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
"""The type codes of DLPack."""


class _Legacy(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (
        ("tensor", CapsuleTensor),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_Deleter: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_exported: Final[dict[int, Any]] = {}
"""What keeps the memory of exported structures alive, by their addresses."""


def _delete(address: int) -> None:
    _exported.pop(address, None)


def _delete_unused(capsule: int) -> None:
    """End the use of a capsule that nobody has consumed."""
    for name in (VERSIONED, LEGACY):
        if _is_valid(capsule, name):
            _exported.pop(_pointer(capsule, name), None)


_deleter: Final = _Deleter(_delete)
_destructor: Final = _Deleter(_delete_unused)

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi)
)
# While a capsule is destroyed it must not be referred to, so it is an address.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_USED: Final = {VERSIONED: b"used_dltensor_versioned", LEGACY: b"used_dltensor"}


def export(
    storage: Storage, sizes: tuple[int, ...], max_version: Version | None, *, copy: bool
) -> Any:
    """Return a capsule of memory of a device."""
    versioned = max_version is not None and max_version[0] >= 1
    memory: Any = storage[0]
    device: Device = memory.device
    if copy or not versioned:
        storage = device.duplicate(storage)
        memory = storage[0]
    made: Any = VersionedTensor() if versioned else _Legacy()
    shape = (ctypes.c_int64 * max(len(sizes), 1))(*sizes)
    steps = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    strides = (ctypes.c_int64 * max(len(sizes), 1))(*steps)
    tensor = made.tensor
    tensor.data = storage[1]
    tensor.device_type, tensor.device_id = device.dlpack
    tensor.ndim = len(sizes)
    tensor.code = _CODES.get(memory.dtype, _CODE_OF_KIND.get(memory.dtype.kind, 0))
    tensor.bits, tensor.lanes = 8 * memory.dtype.itemsize, 1
    tensor.shape, tensor.strides = ctypes.addressof(shape), ctypes.addressof(strides)
    made.deleter = ctypes.cast(_deleter, ctypes.c_void_p).value
    if versioned:
        made.major, made.minor = 1, 0
        made.flags = 0 if copy else _READ_ONLY
    address = ctypes.addressof(made)
    _exported[address] = made, shape, strides, memory
    destructor = ctypes.cast(_destructor, ctypes.c_void_p)
    return _new(address, VERSIONED if versioned else LEGACY, destructor)


def imported(capsule: Any, device: Device) -> tuple[DeviceArray, tuple[int, ...]] | str:
    """Return the memory of a capsule and its sizes, or why it cannot be shared."""
    name = VERSIONED if has_name(capsule, VERSIONED) else LEGACY
    tensor = tensor_of(capsule)
    if (tensor.device_type, tensor.device_id) != device.dlpack:
        return f"it is not on the device {device.name!r}"
    dtype = _dtype_of(tensor)
    if dtype is None:
        return "its type is none of those that tensors have"
    sizes = tuple((ctypes.c_int64 * tensor.ndim).from_address(tensor.shape)) if tensor.ndim else ()
    if tensor.strides and tensor.ndim:
        strides = tuple((ctypes.c_int64 * tensor.ndim).from_address(tensor.strides))
        dense = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        if any(n > 1 and a != b for n, a, b in zip(sizes, strides, dense, strict=True)):
            return "its elements are not in row-major order"
    address = int(tensor.data or 0) + tensor.byte_offset
    pointer = _pointer(id(capsule), name)
    structure: Any = VersionedTensor if name == VERSIONED else _Legacy
    deleter = structure.from_address(pointer).deleter
    _set_name(capsule, _USED[name])
    owner = _Owner()
    if deleter:
        weakref.finalize(owner, _Deleter(deleter), pointer)
    size = math.prod(sizes)
    return DeviceArray(device, address, size, dtype, is_owned=False, keeps=owner), sizes


class _Owner:
    """Lives as long as the memory of a capsule is used."""

    __slots__ = ("__weakref__",)


def _dtype_of(tensor: CapsuleTensor) -> np.dtype[Any] | None:
    """Return the type of the elements; None if tensors have none such."""
    if tensor.lanes != 1:
        return None
    narrow = {code: dtype for dtype, code in _CODES.items()}
    if tensor.code in narrow:
        return narrow[tensor.code]
    kind = {code: kind for kind, code in _CODE_OF_KIND.items()}.get(tensor.code)
    if kind is None or kind == "c" or tensor.bits not in (8, 16, 32, 64):
        return None
    return np.dtype("?" if kind == "b" else f"{kind}{tensor.bits // 8}")
