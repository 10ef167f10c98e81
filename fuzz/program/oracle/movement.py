"""Functions that move, choose, place and join elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fuzz.program.oracle.arrays import (
    Numbers,
    several,
    shape_of,
    windows,
)
from fuzz.program.oracle.reductions import cumulative_sum
from porism.ir.facts.semantics import Array

# -- movement --------------------------------------------------------------------------------------


def reshape(x: Array, *shape: Any, copy: bool | None = None) -> Array:
    return x.reshape(shape_of(shape))


def flatten(x: Array, start_axis: int = 0, end_axis: int = -1) -> Array:
    if not x.ndim:
        return x.reshape(1)
    first, last = start_axis % x.ndim, end_axis % x.ndim
    merged = math.prod(x.shape[first : last + 1])
    return x.reshape(*x.shape[:first], merged, *x.shape[last + 1 :])


def unflatten(x: Array, axis: int, sizes: Any) -> Array:
    place = axis % x.ndim
    return x.reshape(*x.shape[:place], *sizes, *x.shape[place + 1 :])


def permute_dims(x: Array, *axes: Any) -> Array:
    return x.transpose(shape_of(axes))


def transpose(x: Array, *axes: Any) -> Array:
    if len(axes) == 2 and isinstance(axes[0], int):
        return x.swapaxes(*axes)
    return x.transpose(shape_of(axes)) if axes else x.T


def squeeze(x: Array, axis: Any = None) -> Array:
    return np.squeeze(x, tuple(axis) if isinstance(axis, list) else axis)


def expand(x: Array, *sizes: Any) -> Array:
    wanted = shape_of(sizes)
    own = (0,) * (len(wanted) - x.ndim) + x.shape
    return np.broadcast_to(x, [o if w == -1 else w for w, o in zip(wanted, own, strict=True)])


def diagonal(x: Array, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Array:
    return np.diagonal(x, offset, axis1, axis2)


def pixel_shuffle(x: Array, upscale_factor: int) -> Array:
    *batch, channels, rows, columns = x.shape
    r, n = upscale_factor, len(batch)
    parts = x.reshape(*batch, channels // (r * r), r, r, rows, columns)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return parts.transpose(order).reshape(*batch, channels // (r * r), rows * r, columns * r)


def pixel_unshuffle(x: Array, downscale_factor: int) -> Array:
    *batch, channels, rows, columns = x.shape
    r, n = downscale_factor, len(batch)
    parts = x.reshape(*batch, channels, rows // r, r, columns // r, r)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return parts.transpose(order).reshape(*batch, channels * r * r, rows // r, columns // r)


_MODES: Final = {"replicate": "edge", "circular": "wrap"}


def pad(x: Array, pad_width: Any, mode: str = "constant", value: Any = 0) -> Array:
    """`pad_width` is an int or a pair for each axis; negative numbers take elements away."""
    pairs = [(pad_width,) * 2] * x.ndim if isinstance(pad_width, int) else pad_width
    kept = tuple(
        slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, x.shape, strict=True)
    )
    wide = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if not x.ndim:
        return x
    if mode == "constant":
        return np.pad(x[kept], wide, constant_values=value)
    for pair, size in zip(wide, x[kept].shape, strict=True):
        if mode not in ("edge", "replicate") and max(pair) > size - (mode == "reflect"):
            raise ValueError("a border is longer than what it is copied from")
    how: Any = _MODES.get(mode, mode)
    return np.pad(x[kept], wide, mode=how)


def repeat(x: Array, repeats: Any, axis: int | None = None) -> Array:
    return np.repeat(x, repeats, axis)


def unfold(
    x: Array, kernel_size: Numbers, stride: Numbers = 1, padding: Numbers = 0, dilation: Numbers = 1
) -> Array:
    around = several(padding, 2)
    x = np.pad(x, [(0, 0), (0, 0), *((n, n) for n in around)])
    seen = windows(x, several(kernel_size, 2), several(stride, 2), several(dilation, 2))
    n, c, h, w, *taps = seen.shape
    return seen.transpose(0, 1, 4, 5, 2, 3).reshape(n, c * math.prod(taps), h * w)


permute = permute_dims


def unsqueeze(x: Array, axis: Any) -> Array:
    return np.expand_dims(x, axis)


# -- indexing and joining --------------------------------------------------------------------------


def getitem(x: Array, key: Any) -> Array:
    return np.asarray(x[key])


def setitem(x: Array, key: Any, value: Any) -> Array:
    """The array after `x[key] = value`."""
    changed = x.copy()
    changed[key] = value
    return changed


def _inside(index: Array, size: int) -> tuple[Array, Array]:
    """Indices from the front, and which of them name an element; the others are 0."""
    front = np.where(index < 0, index.astype(np.int64) + size, index)
    inside = (front >= 0) & (front < size)
    return np.where(inside, front, 0), inside


def assign(x: Array, value: Any) -> Array:
    """The array after `x.assign(value)`."""
    return np.broadcast_to(np.asarray(value).astype(x.dtype), x.shape)


def take(x: Array, indices: Array, axis: int | None = None) -> Array:
    """An index outside gives 0."""
    if axis is None:
        return take(x.reshape(-1), indices, 0)
    place = axis % x.ndim
    front, inside = _inside(indices, x.shape[place])
    named = inside.reshape(*inside.shape, *[1] * (x.ndim - place - 1))
    return np.where(named, np.take(x, front, place), np.zeros((), x.dtype))


def index_select(x: Array, axis: int, index: Array) -> Array:
    return take(x, index, axis)


def take_along_axis(x: Array, indices: Array, axis: int = -1) -> Array:
    """An index outside gives 0."""
    front, inside = _inside(indices, x.shape[axis])
    return np.where(inside, np.take_along_axis(x, front, axis), np.zeros((), x.dtype))


def gather(x: Array, axis: int, index: Array) -> Array:
    part = tuple(slice(None) if k == axis % x.ndim else slice(n) for k, n in enumerate(index.shape))
    if any(k != axis % x.ndim and n > x.shape[k] for k, n in enumerate(index.shape)):
        raise ValueError("the indices are longer than the tensor")
    return take_along_axis(x[part], index, axis)


def concat(arrays: Sequence[Array], axis: int | None = 0) -> Array:
    return np.concatenate(arrays, axis)


def split(x: Array, split_size_or_sections: Any, axis: int = 0) -> list[Array]:
    if isinstance(split_size_or_sections, int):
        return np.split(
            x, range(split_size_or_sections, x.shape[axis], split_size_or_sections), axis
        )
    *ends, size = itertools.accumulate(split_size_or_sections)
    if size != x.shape[axis]:
        raise ValueError("the parts are not the whole axis")
    return np.split(x, ends, axis)


def chunk(x: Array, chunks: int, axis: int = 0) -> list[Array]:
    return split(x, max(-(-x.shape[axis] // chunks), 1), axis)


def unstack(x: Array, axis: int = 0) -> list[Array]:
    return list(np.moveaxis(x, axis, 0))


# -- scatter ---------------------------------------------------------------------------------------


_MERGE: Final[dict[str, Any]] = {
    "add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum
}  # fmt: skip


def scatter(x: Array, axis: int, index: Array, src: Any, *, reduce: str | None = None) -> Array:
    found, place = x.copy(), axis % x.ndim
    values = np.broadcast_to(src, index.shape) if np.ndim(src) == 0 else src
    front, inside = _inside(index, x.shape[place])
    for spot in np.ndindex(*index.shape):
        if not inside[spot]:
            continue
        at = tuple(int(front[spot]) if k == place else n for k, n in enumerate(spot))
        new = values[spot]
        found[at] = new if reduce is None else _MERGE[reduce](found[at], new)
    return found


def scatter_add(x: Array, axis: int, index: Array, src: Any) -> Array:
    return scatter(x, axis, index, src, reduce="add")


def scatter_min(x: Array, axis: int, index: Array, src: Any) -> Array:
    return scatter(x, axis, index, src, reduce="min")


def scatter_max(x: Array, axis: int, index: Array, src: Any) -> Array:
    return scatter(x, axis, index, src, reduce="max")


def index_add(x: Array, axis: int, index: Array, source: Array, *, alpha: float = 1) -> Array:
    wanted = list(x.shape)
    wanted[axis] = index.size
    if source.shape != tuple(wanted):
        raise ValueError("the values have other sizes")
    found = x.copy()
    front, inside = _inside(index, x.shape[axis])
    values = np.moveaxis(source, axis, 0) * np.asarray(alpha, x.dtype)
    np.add.at(np.moveaxis(found, axis, 0), front[inside], values[inside])
    return found


def bincount(x: Array, weights: Array | None = None, *, length: int) -> Array:
    ones = np.ones(x.shape, np.int64)
    values = ones if weights is None else cumulative_sum(weights[:, None], axis=1)[:, 0]
    found = np.zeros(length, values.dtype)
    inside = (x >= 0) & (x < length)
    np.add.at(found, x[inside].astype(np.int64), values[inside])
    return found
