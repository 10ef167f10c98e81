"""Promotion: the type of a result, as the Array API defines it.

Types of one kind promote to the smallest type that holds both: `i8` and `u8` to `i16`, `f16` and
`bf16` to `f32`. Beyond the Array API, a bool promotes to every type, and an integer tensor with a
float tensor to the float's type. Python's numbers are weakly typed: they take the tensor's type if
it is of their kind or above, and the default type of their kind otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import DType, Kind
from porism.base.errors import TypeMismatch
from porism.ir.node import UOp
from porism.tensor.complex.complex_dispatch import complex_operand
from porism.tensor.element_types import ElementType, name_of_torch, new_element_type
from porism.tensor.user_line import users_line

DEFAULT_FLOAT: Final = dtypes.f32
DEFAULT_INT: Final = dtypes.i64

FLOATS: Final = (
    dtypes.fp8e4m3,
    dtypes.fp8e5m2,
    dtypes.f16,
    dtypes.bf16,
    dtypes.f32,
    dtypes.f64,
)
UNSIGNED: Final = (dtypes.u8, dtypes.u16, dtypes.u32, dtypes.u64)
SIGNED: Final = (dtypes.i8, dtypes.i16, dtypes.i32, dtypes.i64)
INTEGERS: Final = tuple(pair for both in zip(UNSIGNED, SIGNED, strict=True) for pair in both)
NUMBERS: Final = (*INTEGERS, *FLOATS)
COMPLEX: Final = (dtypes.c64, dtypes.c128)
PART_TYPE: Final = {dtypes.c64: dtypes.f32, dtypes.c128: dtypes.f64}
"""The type of the real and the imaginary part of each complex type."""

NAMES: Final = {
    "bool": dtypes.boolean,
    **{f"int{t.bits}": t for t in SIGNED},
    **{f"uint{t.bits}": t for t in UNSIGNED},
    "float16": dtypes.f16,
    "bfloat16": dtypes.bf16,
    "float32": dtypes.f32,
    "float64": dtypes.f64,
    "float8_e4m3fn": dtypes.fp8e4m3,
    "float8_e5m2": dtypes.fp8e5m2,
    "complex64": dtypes.c64,
    "complex128": dtypes.c128,
}
"""The types of tensors by their public names in `porism`."""

PUBLIC_NAME: Final = {t: name for name, t in NAMES.items()}

ELEMENT_TYPES: Final = {name: new_element_type(name, t) for name, t in NAMES.items()}
"""The types of tensors as users see them, by name."""

ELEMENT_TYPE_OF: Final = {t.base: t for t in ELEMENT_TYPES.values()}
"""The user's type of each type in the graph."""


def type_error(what: str, why: str, fix: str) -> TypeMismatch:
    """Return the error for unsuitable types, at the user's line."""
    return TypeMismatch(what, where=users_line(), why=why, fix=fix)


def name_of(dtype: DType) -> str:
    """Return the public name of a type.

    >>> name_of(dtypes.f32)
    'float32'
    """
    return PUBLIC_NAME.get(dtype, dtype.name)


def as_dtype(given: Any) -> DType:
    """Return the graph's type of one given itself, by name, as NumPy's, or as bool, int or float.

    >>> as_dtype("float32"), as_dtype(np.int8), as_dtype(float)
    (f32, i8, f32)
    """
    if isinstance(given, ElementType):
        return given.base
    if isinstance(given, DType):
        if given in PUBLIC_NAME:
            return given
    elif isinstance(given, str) and given in NAMES:
        return NAMES[given]
    elif isinstance(given, type) and given in _PYTHON:
        return _PYTHON[given]
    elif (name := name_of_torch(given)) is not None:
        if name in NAMES:
            return NAMES[name]
    elif given is not None:  # NumPy takes None for float64
        try:
            return dtypes.from_numpy(given)
        except (TypeError, TypeMismatch):
            pass
    raise type_error(
        f"{given!r} is no type of tensors",
        "tensors have " + ", ".join(NAMES),
        "pass one of them, as porism.float32 or by name",
    )


_PYTHON: Final[dict[type, DType]] = {
    bool: dtypes.boolean,
    int: DEFAULT_INT,
    float: DEFAULT_FLOAT,
    complex: dtypes.c64,
}


# -- types of results ------------------------------------------------------------------------------


def promote(a: DType, b: DType) -> DType:
    """Return the smallest type that two types promote to.

    >>> promote(dtypes.i8, dtypes.u8), promote(dtypes.f16, dtypes.bf16)
    (i16, f32)
    """
    if a is b or b.kind is Kind.BOOL:
        return a
    if a.kind is Kind.BOOL:
        return b
    if Kind.COMPLEX in (a.kind, b.kind):
        return _promote_complex(a, b)
    if a.is_float != b.is_float:
        return a if a.is_float else b
    for candidate in NUMBERS:
        if candidate.is_float == a.is_float and a.fits_in(candidate) and b.fits_in(candidate):
            return candidate
    raise type_error(
        f"{name_of(a)} and {name_of(b)} have no common type",
        "no integer type holds the values of both",
        "convert one of them first, with astype",
    )


def _promote_complex(a: DType, b: DType) -> DType:
    """Return the complex type of two types of which one is complex; integers do not widen it."""
    parts = [PART_TYPE.get(t, t) for t in (a, b) if not t.is_integer]
    return complex_type(parts[0] if len(parts) == 1 else promote(*parts))


def complex_type(dtype: DType) -> DType:
    """Return the complex type whose parts hold a type; the default for types that are no floats.

    >>> complex_type(dtypes.f64), complex_type(dtypes.f16), complex_type(dtypes.i8)
    (c128, c64, c64)
    """
    return dtypes.c128 if dtype in (dtypes.f64, dtypes.c128) else dtypes.c64


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the type that tensors, types and Python numbers promote to together.

    >>> result_type(dtypes.f16, 1.5), result_type(dtypes.i8, 1.5), result_type(2, True)
    (f16, f32, i64)
    """
    strong = [t for value in arrays_and_dtypes if (t := _strong(value)) is not None]
    weak = [value for value in arrays_and_dtypes if _strong(value) is None]
    if not strong and not weak:
        raise type_error(
            "result_type of nothing",
            "there is no type to start from",
            "pass at least one tensor, type or number",
        )
    if not strong:
        return max((_PYTHON[kind_of(value)] for value in weak), key=_category)
    result = strong[0]
    for other in strong[1:]:
        result = promote(result, other)
    for value in weak:
        default = _PYTHON[kind_of(value)]
        if _category(default) > _category(result):
            result = complex_type(result) if default is dtypes.c64 else default
    return result


def _category(dtype: DType) -> int:
    """Return the category of a type: 0 bool, 1 integer, 2 float, 3 complex."""
    if dtype.kind is Kind.COMPLEX:
        return 3
    return 0 if dtype.kind is Kind.BOOL else 2 if dtype.is_float else 1


def _strong(value: Any) -> DType | None:
    """Return the type of a tensor, array or type; None for Python's numbers."""
    if isinstance(value, (DType, ElementType, type)):
        return as_dtype(value)
    if isinstance(value, np.generic):
        return as_dtype(value.dtype)
    if isinstance(value, (bool, int, float, complex, UOp)):
        return None
    dtype = getattr(value, "dtype", None)
    return as_dtype(value if dtype is None else dtype)


def kind_of(value: Any) -> type:
    """Return the class of a Python number; a symbolic size is an int."""
    kinds = (bool, float, complex)
    return next((kind for kind in kinds if isinstance(value, kind)), int)


def can_cast(from_: Any, to: Any) -> bool:
    """Return whether the first type promotes to the second.

    >>> can_cast(dtypes.i8, dtypes.i16), can_cast(dtypes.f32, dtypes.i64)
    (True, False)
    """
    source, target = result_type(from_), as_dtype(to)
    if _category(source) > _category(target):
        return False
    try:
        return promote(source, target) is target
    except TypeMismatch:
        return False


# -- numbers ---------------------------------------------------------------------------------------


def constant(dtype: DType, value: Any) -> UOp:
    """Return a Python number or symbolic size as a node of a type; refuse if it does not fit."""
    if isinstance(value, UOp):
        return value if value.dtype is dtype else value.cast(dtype)
    if dtype.kind is Kind.COMPLEX:
        raise complex_operand()
    if dtype.is_integer and not dtype.min <= value <= dtype.max:
        raise type_error(
            f"{value} does not fit into {name_of(dtype)}",
            f"its values go from {dtype.min} to {dtype.max}",
            "convert the tensor to a wider type first, with astype",
        )
    if dtype.is_integer and isinstance(value, float) and not value.is_integer():
        raise type_error(
            f"{value} cannot be {name_of(dtype)}",
            "it is not a whole number" if math.isfinite(value) else "it is no integer",
            "use a float type",
        )
    if dtype.is_float and isinstance(value, int) and math.isinf(_rounded(dtype, value)):
        raise type_error(
            f"an int of {value.bit_length()} bits does not fit into {name_of(dtype)}",
            "its largest number is smaller, and beyond is only infinity",
            "use a wider type, or float('inf') if that is meant",
        )
    return UOp.const(dtype, value)


def _rounded(dtype: DType, value: int) -> float:
    """Return an int rounded to a float type; an infinity if it is out of range."""
    return float(dtype.canonical(value)) if abs(value) >= _ALWAYS_FITS else float(value)


_ALWAYS_FITS: Final = 256
"""Ints of a smaller magnitude are finite in every float type."""


def float_type(dtype: DType) -> DType:
    """Return the result type of functions of floats: a float type itself, else the default.

    >>> float_type(dtypes.f16), float_type(dtypes.i8)
    (f16, f32)
    """
    return dtype if dtype.is_float else DEFAULT_FLOAT


def require_dtype(dtype: DType, accepted: Sequence[DType], what: str, fix: str) -> None:
    """Refuse a type that a function does not accept."""
    if dtype not in accepted:
        if dtype.kind is Kind.COMPLEX:
            raise complex_operand(f"{what} of a tensor of {name_of(dtype)}")
        kinds = [
            name
            for name, types in (
                ("bool", (dtypes.boolean,)),
                ("integers", INTEGERS),
                ("floats", FLOATS),
                ("complex numbers", COMPLEX),
            )
            if all(t in accepted for t in types)
        ]
        raise type_error(
            f"{what} of a tensor of {name_of(dtype)}",
            f"it takes {' and '.join(kinds)}",
            fix,
        )
