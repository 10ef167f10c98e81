"""Data type information: `finfo`, `iinfo`, `isdtype` and `result_type` of the Array API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes

from porism.base.dtypes import DType, boolean
from porism.tensor import promotion
from porism.tensor.element_types import ElementType
from porism.tensor.promotion import (
    COMPLEX,
    ELEMENT_TYPE_OF,
    FLOATS,
    INTEGERS,
    NUMBERS,
    PART_TYPE,
    SIGNED,
    UNSIGNED,
    as_dtype,
    require_dtype,
    type_error,
)


@dataclass(frozen=True)
class FloatLimits:
    """The limits of a float type; `eps` is the distance from 1 to the next larger number."""

    dtype: ElementType
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float


@dataclass(frozen=True)
class IntegerLimits:
    """The limits of an integer type."""

    dtype: ElementType
    bits: int
    max: int
    min: int


def finfo(type: Any) -> FloatLimits:
    """Return the limits of a float type, or of the type of a tensor: `bits`, `eps`, `max`, `min` …

    Those of a complex type are those of its parts.

    >>> porism.finfo("float16").max
    65504.0
    """
    dtype = promotion.result_type(type)
    dtype = PART_TYPE.get(dtype, dtype)
    require_dtype(dtype, FLOATS, "finfo", "use iinfo for integers")
    info = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    return FloatLimits(
        ELEMENT_TYPE_OF[dtype],
        dtype.bits,
        float(info.eps),
        float(info.max),
        float(info.min),
        float(info.smallest_normal),
    )


def iinfo(type: Any) -> IntegerLimits:
    """Return the limits of an integer type, or of the type of a tensor: `bits`, `max`, `min`.

    >>> porism.iinfo("int8").min
    -128
    """
    dtype = promotion.result_type(type)
    require_dtype(dtype, INTEGERS, "iinfo", "use finfo for floats")
    return IntegerLimits(ELEMENT_TYPE_OF[dtype], dtype.bits, int(dtype.max), int(dtype.min))


_KINDS: Final[dict[str, tuple[DType, ...]]] = {
    "bool": (boolean,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": INTEGERS,
    "real floating": FLOATS,
    "complex floating": COMPLEX,
    "numeric": (*NUMBERS, *COMPLEX),
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Return whether a type is of a kind, is a given type, or matches one of a tuple of these.

    The kinds are 'bool', 'signed integer', 'unsigned integer', 'integral', 'real floating',
    'complex floating' and 'numeric'.

    >>> porism.isdtype("int8", "integral"), porism.isdtype("int8", ("bool", "real floating"))
    (True, False)
    """
    element_type = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(element_type, member) for member in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return element_type in _KINDS[kind]
    if isinstance(kind, str):
        raise type_error(
            f"isdtype with the kind {kind!r}",
            "the kinds are " + ", ".join(_KINDS),
            "pass one of them, or a type",
        )
    return element_type is as_dtype(kind)


def result_type(*arrays_and_dtypes: Any) -> ElementType:
    """Return the type that tensors, types and Python numbers promote to together.

    >>> porism.result_type(porism.float16, 1.5), porism.result_type("int8", 1.5)
    (porism.float16, porism.float32)
    """
    return ELEMENT_TYPE_OF[promotion.result_type(*arrays_and_dtypes)]
