"""Reductions, scans, products of matrices, and what is put in order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fuzz.program.oracle.arrays import (
    Axes,
    axes_of,
    floats,
)
from fuzz.program.oracle.elementwise import astype
from porism.ir.facts.semantics import Array

# -- reductions ------------------------------------------------------------------------------------


def _counted(x: Array, dtype: Any) -> Array:
    """What is added up: integers in 64 bits, unless a type is given."""
    if dtype is not None:
        return astype(x, dtype)
    wide = {"b": "int64", "i": "int64", "u": "uint64", "f": "float64"}
    return x if x.dtype.kind == "c" else x.astype(wide[x.dtype.kind])


def sum(x: Array, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Array:
    values = _counted(x, dtype)
    return np.asarray(np.sum(values, axes_of(axis, x.ndim), values.dtype, keepdims=keepdims))


def prod(x: Array, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Array:
    values = _counted(x, dtype)
    return np.asarray(np.prod(values, axes_of(axis, x.ndim), values.dtype, keepdims=keepdims))


def var(x: Array, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Array:
    axes = axes_of(axis, x.ndim)
    count = math.prod(x.shape[a] for a in axes)
    far = floats(x) - np.mean(floats(x), axes, keepdims=True)
    total = np.sum((far * np.conj(far)).real, axes, keepdims=keepdims)
    return np.asarray(total / np.maximum(count - correction, 0))


def std(x: Array, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Array:
    return np.sqrt(var(x, axis, correction=correction, keepdims=keepdims))


def logsumexp(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    axes, values = axes_of(axis, x.ndim), floats(x)
    most = np.max(values, axes, keepdims=True)
    total = np.log(np.sum(np.exp(values - most), axes, keepdims=keepdims))
    return np.asarray(total + most.reshape(total.shape))


def norm(x: Array, ord: float = 2, axis: Axes = None, *, keepdims: bool = False) -> Array:
    axes, size = axes_of(axis, x.ndim), np.abs(floats(x))
    if math.isinf(ord):
        return np.asarray((np.max if ord > 0 else np.min)(size, axes, keepdims=keepdims))
    if ord == 0:
        return floats(np.sum(size != 0, axes, keepdims=keepdims))
    return np.asarray(np.sum(size**ord, axes, keepdims=keepdims) ** (1 / ord))


def vector_norm(x: Array, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Array:
    return norm(x, ord, axis, keepdims=keepdims)


def count_nonzero(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    return np.asarray(np.sum(x != 0, axes_of(axis, x.ndim), np.int64, keepdims=keepdims))


# -- scans -----------------------------------------------------------------------------------------


def _scanned(x: Array, function: Any, axis: int | None) -> Array:
    flat = x.reshape(-1) if axis is None else x
    return np.asarray(function.accumulate(flat, axis or 0, dtype=x.dtype))


def cumulative_sum(
    x: Array, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    found = _scanned(_counted(x, dtype), np.add, axis)
    return _from(0, found, axis) if include_initial else found


def cumulative_prod(
    x: Array, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    found = _scanned(_counted(x, dtype), np.multiply, axis)
    return _from(1, found, axis) if include_initial else found


def _from(start: int, x: Array, axis: int | None) -> Array:
    place = 0 if axis is None else axis
    first = np.full([1 if k == place % x.ndim else n for k, n in enumerate(x.shape)], start)
    return np.concatenate([first.astype(x.dtype), x], place)


def cumsum(x: Array, axis: int | None = None, *, dtype: Any = None) -> Array:
    return cumulative_sum(x, axis=axis, dtype=dtype)


def cumprod(x: Array, axis: int | None = None, *, dtype: Any = None) -> Array:
    return cumulative_prod(x, axis=axis, dtype=dtype)


def cummax(x: Array, axis: int | None = None) -> Array:
    return _scanned(x, np.maximum, axis)


def cummin(x: Array, axis: int | None = None) -> Array:
    return _scanned(x, np.minimum, axis)


def diff(x: Array, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Array:
    """NumPy's, but that ends are joined for n = 0 too, as the Array API has it."""
    parts = [part for part in (prepend, x, append) if part is not None]
    return np.asarray(np.diff(np.concatenate(parts, axis), n, axis))


def isin(x1: Array, x2: Array, *, invert: bool = False) -> Array:
    return np.isin(x1, x2, invert=invert)


# -- linear algebra --------------------------------------------------------------------------------


def vecdot(x1: Array, x2: Array, *, axis: int = -1) -> Array:
    return sum(np.moveaxis(np.conj(x1) * x2, axis, -1), -1, dtype=np.result_type(x1, x2))


def tensordot(x1: Array, x2: Array, *, axes: Any = 2) -> Array:
    return np.asarray(np.tensordot(x1, x2, axes))


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    return np.asarray(x @ weight.T if bias is None else x @ weight.T + bias)


def trace(x: Array, *, offset: int = 0, dtype: Any = None) -> Array:
    return sum(np.diagonal(x, offset, -2, -1), axis=-1, dtype=dtype)


# -- order -----------------------------------------------------------------------------------------


def sort(x: Array, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Array:
    found = np.sort(x, axis, kind="stable")
    return np.flip(found, axis) if descending else found


def argsort(x: Array, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Array:
    if not descending:
        return np.argsort(x, axis, kind="stable")
    # Equal elements stay in their order: the reverse of a sort of the reverse.
    back = np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    return np.asarray(x.shape[axis] - 1 - back)


def topk(x: Array, k: int, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    indices = np.take(argsort(x, axis, descending=largest), np.arange(k), axis)
    return np.take_along_axis(x, indices, axis), indices


def searchsorted(x1: Array, x2: Array, *, side: Any = "left", sorter: Any = None) -> Array:
    return np.asarray(np.searchsorted(x1, x2, side, sorter))


def quantile(x: Array, q: float, axis: int | None = None, *, keepdims: bool = False) -> Array:
    return np.asarray(np.quantile(floats(x), q, axis, keepdims=keepdims))


def median(x: Array, axis: int | None = None, *, keepdims: bool = False) -> Array:
    return np.asarray(np.median(floats(x), axis, keepdims=keepdims))
