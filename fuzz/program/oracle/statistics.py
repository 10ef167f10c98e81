"""Statistics, stacked arrays, matrices and sequences."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from fuzz.program.oracle.arrays import Axes, axes_of, floats, numpy_type
from porism.ir.facts.semantics import Array


def _nan_reduction(name: str) -> Any:
    def reduced(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
        function = getattr(np, name)
        with warnings.catch_warnings():  # of rows that are NaN as a whole
            warnings.simplefilter("ignore")
            return np.asarray(function(x, axis=axes_of(axis, x.ndim), keepdims=keepdims))

    return reduced


NAN_REDUCTIONS = {
    name: _nan_reduction(name)
    for name in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd")
}


def _nan_quantile(name: str) -> Any:
    def found(x: Array, *q: float, axis: int | None = None, keepdims: bool = False) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(getattr(np, name)(floats(x), *q, axis=axis, keepdims=keepdims))

    return found


NAN_QUANTILES = {n: _nan_quantile(n) for n in ("nanquantile", "nanpercentile", "nanmedian")}


def gradient(f: Array, *spacing: Any, axis: int, edge_order: Any = 1) -> Array:
    return np.asarray(np.gradient(floats(f), *spacing, axis=axis, edge_order=edge_order))


def choose(x: Array, choices: Sequence[Any], mode: str = "raise") -> Array:
    count = len(choices)
    numbers = np.clip(x, 0, count - 1) if mode == "clip" else x % count
    whole = np.broadcast_arrays(numbers, *choices)
    kind = np.result_type(*whole[1:]).type
    return np.asarray(np.select([whole[0] == k for k in range(count)], whole[1:], kind(0)))


def ptp(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    axes = axes_of(axis, x.ndim)
    most = np.max(x, axis=axes, keepdims=keepdims)
    return np.asarray(most - np.min(x, axis=axes, keepdims=keepdims))


def average(x: Array, axis: int, weights: Array | None = None, keepdims: bool = False) -> Array:
    factors = np.ones(x.shape[axis]) if weights is None else floats(weights)
    if factors.ndim == 1:
        factors = factors.reshape([-1 if k == axis % x.ndim else 1 for k in range(x.ndim)])
    factors = np.broadcast_to(factors, x.shape)
    total = np.sum(floats(x) * factors, axis, keepdims=keepdims)
    return np.asarray(total / np.sum(factors, axis, keepdims=keepdims))


def cov(x: Array, *, rowvar: bool = True, correction: int = 1) -> Array:
    rows = np.atleast_2d(floats(x))
    rows = rows.T if not rowvar and x.ndim == 2 else rows
    far = rows - np.mean(rows, 1, keepdims=True)
    found = np.asarray(far @ far.T / np.maximum(rows.shape[1] - correction, 0))
    return found.reshape(()) if len(rows) == 1 else found


def corrcoef(x: Array, *, rowvar: bool = True) -> Array:
    found = cov(x, rowvar=rowvar)
    scale = np.sqrt(np.diagonal(found)) if found.ndim else np.sqrt(found)
    return np.asarray(found / scale[:, None] / scale if found.ndim else found / found)


def percentile(x: Array, q: float, axis: int | None = None, *, keepdims: bool = False) -> Array:
    return np.asarray(np.percentile(floats(x), q, axis, keepdims=keepdims))


def digitize(x: Array, bins: Array, right: bool = False) -> Array:
    return np.asarray(np.searchsorted(bins, x, "left" if right else "right"))


def bucketize(x: Array, boundaries: Array, right: bool = False) -> Array:
    return np.asarray(np.searchsorted(boundaries, x, "right" if right else "left"))


def histogram(x: Array, bins: int, range: tuple[float, float]) -> tuple[Array, Array]:
    return np.histogram(x, bins, range)


# -- stacked, split and turned ---------------------------------------------------------------------


def array_split(x: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    return np.array_split(x, indices_or_sections, axis)


def hsplit(x: Array, indices_or_sections: int) -> list[Array]:
    return np.hsplit(x, indices_or_sections)


def vsplit(x: Array, indices_or_sections: int) -> list[Array]:
    return np.split(x, indices_or_sections, 0)


def narrow(x: Array, axis: int, start: int, length: int) -> Array:
    return np.take(x, np.arange(start, start + length), axis)


def rot90(x: Array, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    return np.rot90(x, k, (axes[0], axes[1]))


# -- matrices and sequences ------------------------------------------------------------------------


def logspace(start: float, stop: float, num: int, *, endpoint: bool = True) -> Array:
    return np.logspace(start, stop, num, endpoint)


def geomspace(start: float, stop: float, num: int, *, endpoint: bool = True) -> Array:
    return np.geomspace(start, stop, num, endpoint)


def diag_embed(x: Array, offset: int = 0) -> Array:
    size = x.shape[-1] + abs(offset)
    found = np.zeros((*x.shape[:-1], size, size), x.dtype)
    for k in range(x.shape[-1]):
        found[..., k + max(-offset, 0), k + max(offset, 0)] = x[..., k]
    return found


def tri(n_rows: int, n_cols: int, k: int, *, dtype: Any) -> Array:
    return np.tri(n_rows, n_cols, k, numpy_type(dtype))


def vander(x: Array, n_cols: int, increasing: bool = False) -> Array:
    # in the type of x: np.vander takes uint64 to float64, which has not all of its numbers
    columns = np.repeat(x[:, None], n_cols, axis=1)
    columns[:, :1] = 1
    found = np.multiply.accumulate(columns, axis=1, dtype=x.dtype)
    return found if increasing else found[:, ::-1]


def kron(x1: Array, x2: Array) -> Array:
    return np.asarray(np.kron(x1, x2))


def cross(x1: Array, x2: Array) -> Array:
    return np.asarray(np.cross(x1, x2))


def addmm(x: Array, mat1: Array, mat2: Array, *, beta: int = 1, alpha: int = 1) -> Array:
    return np.asarray(beta * x + alpha * (mat1 @ mat2)).astype(x.dtype)


def convolve(x1: Array, x2: Array, mode: Any = "full") -> Array:
    return np.convolve(x1, x2, mode)


def correlate(x1: Array, x2: Array, mode: Any = "valid") -> Array:
    return np.correlate(x1, x2, mode)


def trapezoid(y: Array, x: Array | None = None, dx: float = 1.0, axis: int = -1) -> Array:
    values = np.moveaxis(floats(y), axis, -1)
    steps = dx if x is None else np.diff(floats(x))
    return np.asarray(np.sum((values[..., 1:] + values[..., :-1]) / 2 * steps, -1))


def polyval(p: Array, x: Array) -> Array:
    found = np.zeros_like(x)
    for coefficient in p:
        found = found * x + coefficient
    return found


def interp(x: Array, xp: Array, fp: Array) -> Array:
    return np.asarray(np.interp(x, xp, fp))
