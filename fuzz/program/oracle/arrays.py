"""Arrays of the oracle: their types, and what is common to several functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from porism.ir.facts.semantics import Array

Axes = int | Sequence[int] | None
Numbers = int | Sequence[int]

FLOAT: Final = np.dtype("float64")


def numpy_type(dtype: Any) -> np.dtype[Any]:
    """The type of the oracle's arrays for a public name of a type; float64 for all floats."""
    if "complex" in str(dtype):
        return np.dtype("complex128")
    return FLOAT if "float" in str(dtype) else np.dtype(dtype)


def is_float(x: Array) -> bool:
    return x.dtype.kind == "f"


def floats(x: Any) -> Array:
    array = np.asarray(x)
    return array if array.dtype.kind == "c" else array.astype(FLOAT)


def axes_of(axis: Axes, rank: int) -> tuple[int, ...]:
    """Axes counted from the front."""
    if axis is None:
        return tuple(range(rank))
    given = (axis,) if isinstance(axis, int) else axis
    return tuple(a % rank for a in given)


def shape_of(sizes: Sequence[Any]) -> tuple[int, ...]:
    """Sizes that are given as one tuple, or one by one."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        return tuple(sizes[0])
    return tuple(sizes)


def several(number: Numbers, count: int) -> tuple[int, ...]:
    return (number,) * count if isinstance(number, int) else tuple(number)


def windows(x: Array, taps: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Array:
    """The windows over the last axes: axes of windows, then axes of what is in one."""
    count = len(taps)
    first = x.ndim - count
    reach = [(k - 1) * d + 1 for k, d in zip(taps, dilation, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(first, x.ndim)))
    outer = [slice(None)] * first + [slice(None, None, s) for s in stride]
    inside = [slice(None, None, d) for d in dilation]
    return seen[(*outer, *inside)]


def placed(weight: Array, axes: Sequence[int], rank: int) -> Array:
    sizes = [1] * rank
    for axis, size in zip(axes, weight.shape, strict=True):
        sizes[axis] = size
    return weight.reshape(sizes)
