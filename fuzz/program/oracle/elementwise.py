"""Functions that make arrays, and those of each element."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from fuzz.program.oracle.arrays import (
    FLOAT,
    floats,
    is_float,
    numpy_type,
    shape_of,
)
from porism.ir.facts.semantics import Array

# -- creation --------------------------------------------------------------------------------------


def asarray(obj: Any, *, dtype: Any = None, copy: bool | None = None) -> Array:
    return np.array(obj) if dtype is None else astype(np.array(obj), dtype)


def tensor(data: Any, dtype: Any = None) -> Array:
    return asarray(data, dtype=dtype)


def full(shape: Any, fill_value: Any, *, dtype: Any = None) -> Array:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    filled = np.asarray(np.full(sizes, fill_value))
    return filled if dtype is None else astype(filled, dtype)


def zeros(*shape: Any, dtype: Any = "float32") -> Array:
    return full(shape_of(shape), 0, dtype=dtype)


def ones(*shape: Any, dtype: Any = "float32") -> Array:
    return full(shape_of(shape), 1, dtype=dtype)


def full_like(x: Array, fill_value: Any, *, dtype: Any = None) -> Array:
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype)


def zeros_like(x: Array, *, dtype: Any = None) -> Array:
    return full_like(x, 0, dtype=dtype)


def ones_like(x: Array, *, dtype: Any = None) -> Array:
    return full_like(x, 1, dtype=dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, *, dtype: Any = None) -> Array:
    found = np.arange(start) if stop is None else np.arange(start, stop, step)
    return found if dtype is None else astype(found, dtype)


def linspace(
    start: Any, stop: Any, num: int = 50, *, dtype: Any = None, endpoint: bool = True
) -> Array:
    return np.linspace(start, stop, num, endpoint=endpoint)


def eye(n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: Any = "float32") -> Array:
    return np.eye(n_rows, n_cols, k, numpy_type(dtype))


def one_hot(x: Array, num_classes: int, axis: int = -1, dtype: Any = "int64") -> Array:
    found = np.moveaxis(np.asarray(x[..., None] == np.arange(num_classes)), -1, axis)
    return found.astype(numpy_type(dtype))


# -- elementwise -----------------------------------------------------------------------------------


def astype(x: Array, dtype: Any, *, copy: bool = True) -> Array:
    kind = numpy_type(dtype)
    if kind.kind not in "iu" or not is_float(x):
        return x.astype(kind)
    # Towards zero, and saturating; the largest integers are no floats.
    limits = np.iinfo(kind)
    whole = np.trunc(np.nan_to_num(x, nan=0.0, posinf=2.0**70, neginf=-(2.0**70)))
    inside = np.clip(whole, float(limits.min), math.nextafter(float(limits.max) + 1, 0))
    return np.where(whole > limits.max, np.array(limits.max, kind), inside.astype(kind))


def divide(x1: Any, x2: Any) -> Array:
    return np.asarray(np.divide(floats(x1), floats(x2)))


def reciprocal(x: Array) -> Array:
    return np.asarray(1 / floats(x))


def rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(floats(x))


def lerp(x: Array, end: Any, weight: Any) -> Array:
    return np.asarray(x + weight * (end - x))


def bitwise_left_shift(x1: Any, x2: Any) -> Array:
    """0 where the amount is below 0, or the width or more."""
    bits = np.result_type(x1, x2).itemsize * 8
    outside = (np.asarray(x2) < 0) | (np.asarray(x2) >= bits)
    return np.where(outside, np.zeros((), np.result_type(x1, x2)), np.left_shift(x1, x2))


def bitwise_right_shift(x1: Any, x2: Any) -> Array:
    """Only the sign is left where the amount is below 0, or the width or more."""
    kind = np.result_type(x1, x2)
    outside = (np.asarray(x2) < 0) | (np.asarray(x2) >= kind.itemsize * 8)
    signs = np.where(np.asarray(x1) < 0, -1, 0).astype(kind)
    return np.where(outside, signs, np.right_shift(x1, x2))


# -- functions of floats ---------------------------------------------------------------------------


_erf: Final = np.vectorize(math.erf, otypes=[FLOAT])


def erf(x: Array) -> Array:
    return np.asarray(_erf(floats(x)))


def relu(x: Array) -> Array:
    return np.maximum(x, np.zeros((), x.dtype))


def leaky_relu(x: Array, negative_slope: float = 0.01) -> Array:
    values = floats(x)
    return np.where(values > 0, values, negative_slope * values)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-floats(x)))


def silu(x: Array) -> Array:
    return floats(x) * sigmoid(x)


def softplus(x: Array, beta: float = 1.0) -> Array:
    return np.logaddexp(0, beta * floats(x)) / beta


def gelu(x: Array, approximate: str = "none") -> Array:
    values = floats(x)
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (values + 0.044715 * values**3)
        return np.asarray(0.5 * values * (1 + np.tanh(inner)))
    return np.asarray(0.5 * values * (1 + erf(values / math.sqrt(2))))


def floor_divide(x1: Any, x2: Any) -> Array:
    """NumPy's, but for infinities, of which NumPy makes NaN and -1."""
    quotient = np.floor_divide(x1, x2)
    if quotient.dtype.kind != "f":
        return np.asarray(quotient)
    finite = np.isfinite(x1) & np.isfinite(x2)
    return np.asarray(np.where(finite, quotient, np.floor(np.divide(x1, x2))))
