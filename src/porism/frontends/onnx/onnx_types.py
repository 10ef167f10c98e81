"""Element types: the types of ONNX by number and by name, as types of NumPy.

Tensors have some of them (`HELD_BY_TENSORS`); values of the others (four bits, text, complex
numbers) stay arrays, and nodes on them are computed on the host.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

_TYPES: Final[tuple[tuple[int, str, Any], ...]] = (
    (1, "float32", np.float32),
    (2, "uint8", np.uint8),
    (3, "int8", np.int8),
    (4, "uint16", np.uint16),
    (5, "int16", np.int16),
    (6, "int32", np.int32),
    (7, "int64", np.int64),
    (8, "string", object),
    (9, "bool", np.bool_),
    (10, "float16", np.float16),
    (11, "float64", np.float64),
    (12, "uint32", np.uint32),
    (13, "uint64", np.uint64),
    (14, "complex64", np.complex64),
    (15, "complex128", np.complex128),
    (16, "bfloat16", ml_dtypes.bfloat16),
    (17, "float8_e4m3fn", ml_dtypes.float8_e4m3fn),
    (18, "float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
    (19, "float8_e5m2", ml_dtypes.float8_e5m2),
    (20, "float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
    (21, "uint4", ml_dtypes.uint4),
    (22, "int4", ml_dtypes.int4),
    (23, "float4_e2m1fn", ml_dtypes.float4_e2m1fn),
    (24, "float8_e8m0fnu", ml_dtypes.float8_e8m0fnu),
    (25, "uint2", ml_dtypes.uint2),
    (26, "int2", ml_dtypes.int2),
)

BITS: Final = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
"""The bits of types of which several elements share a byte."""

HELD_BY_TENSORS: Final = frozenset(
    np.dtype(numpy)
    for number, _, numpy in _TYPES
    if number in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16, 17, 19)
)
"""The types that tensors have."""

_NUMPY: Final = {number: np.dtype(numpy) for number, _, numpy in _TYPES}
_NAMES: Final = {number: name for number, name, _ in _TYPES}
_NUMBERS: Final = {np.dtype(numpy): number for number, _, numpy in _TYPES}


def numpy_dtype(number: int) -> np.dtype[Any]:
    """Return NumPy's type of an element type of ONNX; a KeyError if there is none.

    >>> numpy_dtype(1), numpy_dtype(16)
    (dtype('float32'), dtype(bfloat16))
    """
    dtype: np.dtype[Any] = _NUMPY[number]
    return dtype


def number_of(dtype: Any) -> int:
    """Return the number that ONNX has for a type of NumPy.

    >>> number_of(np.float16)
    10
    """
    return _NUMBERS[np.dtype(dtype)]


def name_of(number: int) -> str:
    """Return the name of an element type of ONNX.

    >>> name_of(21), name_of(99)
    ('uint4', 'unknown')
    """
    return _NAMES.get(number, "unknown")


def is_held(dtype: Any) -> bool:
    """Whether tensors have a type.

    >>> is_held(np.float32), is_held(ml_dtypes.int4), is_held(np.complex64), is_held(object)
    (True, False, False, False)
    """
    return np.dtype(dtype) in HELD_BY_TENSORS


def unpack(data: bytes, bits: int, count: int, dtype: np.dtype[Any]) -> Any:
    """Return elements of 2 or 4 bits, the first in the lowest bits of each byte.

    >>> unpack(bytes([0x21, 0xF3]), 4, 3, np.dtype(ml_dtypes.int4)).tolist()
    [1, 2, 3]
    """
    packed = np.frombuffer(data, np.uint8)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    fields = ((packed[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    if np.dtype(dtype) in (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.int2)):
        half = 1 << (bits - 1)
        return ((fields.astype(np.int8) ^ half) - half).astype(dtype)
    if np.dtype(dtype) == np.dtype(ml_dtypes.float4_e2m1fn):
        return fields.astype(np.uint8).view(dtype)
    return fields.astype(dtype)


def stored_values(proto: Any, dtype: np.dtype[Any]) -> Any:
    """Return the elements of a tensor that are stored one by one in fields of the message."""
    number = proto.data_type
    if number == 8:
        return np.array([v.decode("utf-8", "replace") for v in proto.string_data], dtype=object)
    if number in (1, 14):
        flat = np.array(proto.float_data, dtype=np.float32)
        return flat.view(np.complex64) if number == 14 and flat.size % 2 == 0 else flat
    if number in (11, 15):
        flat64 = np.array(proto.double_data, dtype=np.float64)
        return flat64.view(np.complex128) if number == 15 and flat64.size % 2 == 0 else flat64
    if number == 7:
        return np.array(proto.int64_data, dtype=np.int64)
    if number in (12, 13):
        return np.array(proto.uint64_data, dtype=np.uint64).astype(dtype)
    words = np.array(proto.int32_data, dtype=np.int64)
    if number in BITS:
        data = (words & 0xFF).astype(np.uint8).tobytes()
        per_byte = 8 // BITS[number]
        count = 1
        for size in proto.dims:
            count *= size
        return unpack(data, BITS[number], min(count, len(data) * per_byte), dtype)
    if number in (10, 16):
        return (words & 0xFFFF).astype(np.uint16).view(dtype)
    if number in (17, 18, 19, 20, 24):
        return (words & 0xFF).astype(np.uint8).view(dtype)
    return words.astype(dtype)
