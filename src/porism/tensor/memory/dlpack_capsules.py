"""DLPack capsules: how arrays are handed over between libraries without a copy.

A capsule holds a structure with the address, shape, strides and type of an array, and a function
that ends its use. NumPy makes and reads capsules, and keeps their arrays alive; it does not know
the types of ml_dtypes. An array of these is exported as one of integers, and the type in the
structure is changed; when a capsule is imported, it is the other way round.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import ml_dtypes
import numpy as np

from porism.ir.facts.semantics import Array

CPU: Final = (1, 0)
"""The device kDLCPU of DLPack, and its number."""

HOST_DEVICES: Final = (1, 3, 11, 13)
"""Types of devices whose memory the processor reads: CPU, CUDA host, ROCm host, CUDA managed."""

Version = tuple[int, int]

_UNSIGNED: Final = 1
_NARROW: Final = {
    np.dtype(ml_dtypes.bfloat16): (4, (1, 0)),
    np.dtype(ml_dtypes.float8_e4m3fn): (10, (1, 1)),
    np.dtype(ml_dtypes.float8_e5m2): (12, (1, 1)),
}
"""The type codes of DLPack for types that NumPy does not export, and the version that has them."""

_TYPE_OF_CODE: Final = {code: dtype for dtype, (code, _) in _NARROW.items()}
LEGACY: Final = b"dltensor"
VERSIONED: Final = b"dltensor_versioned"


class CapsuleTensor(ctypes.Structure):
    """DLTensor: an array in memory."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class VersionedTensor(ctypes.Structure):
    """DLManagedTensorVersioned; the structure without a version begins with its tensor."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", CapsuleTensor),
    )


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
has_name = ctypes.pythonapi.PyCapsule_IsValid
has_name.restype, has_name.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


def new_capsule(array: Array, max_version: Version | None, *, copy: bool) -> Any:
    """Return a capsule of an array; the consumer may write to a copy, and to nothing else.

    Without a version that it understands, a consumer cannot be told that an array is read-only, so
    such a capsule has to hold a copy.
    """
    values = array.copy() if copy else array
    narrow = _NARROW.get(array.dtype)
    if narrow is None:
        return values.__dlpack__(max_version=max_version)
    bits = values.view(f"u{array.itemsize}")
    capsule = bits.__dlpack__(max_version=max_version)
    code, version = narrow
    tensor_of(capsule).code = code
    if has_name(capsule, VERSIONED):
        structure = VersionedTensor.from_address(_pointer_of(capsule, VERSIONED))
        structure.minor = max(structure.minor, version[1])
    return capsule


def array_of_capsule(capsule: Any) -> Array:
    """Return the array of a capsule, whose memory the array keeps alive."""
    tensor = tensor_of(capsule)
    narrow = _TYPE_OF_CODE.get(tensor.code) if tensor.lanes == 1 else None
    if narrow is not None:
        tensor.code = _UNSIGNED
    array: Array = np.from_dlpack(_Exporter(capsule))
    return array if narrow is None else array.view(narrow)


def tensor_of(capsule: Any) -> CapsuleTensor:
    """Return the structure in a capsule that has not been consumed."""
    if has_name(capsule, VERSIONED):
        address = _pointer_of(capsule, VERSIONED) + VersionedTensor.tensor.offset
        return CapsuleTensor.from_address(address)
    if has_name(capsule, LEGACY):
        return CapsuleTensor.from_address(_pointer_of(capsule, LEGACY))
    raise BufferError("it is no capsule of DLPack, or was consumed before")


class _Exporter:
    """An object with a capsule, as NumPy takes it."""

    __slots__ = ("capsule",)

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU
