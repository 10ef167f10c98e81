"""Resampling: images and signals in another size: nearest, linear, cubic, or by means."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from porism.ir.facts.semantics import Array
from porism.tensor import primitive, shapes
from porism.tensor.api.creation import asarray
from porism.tensor.api.operands import float_node
from porism.tensor.api.reductions import accumulation_dtype
from porism.tensor.conversion import as_operand
from porism.tensor.movement.indexing import take
from porism.tensor.movement.repetition import repeat
from porism.tensor.network.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method

SPATIAL_AXES: Final = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
"""Modes that weigh neighbours, and the number of spatial axes of each."""

NEAREST: Final = ("nearest", "nearest-exact")

MEANS: Final = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}
"""The function that computes 'area', by the number of spatial axes."""

CUBIC: Final = -0.75
"""The parameter of the cubic convolution, as in other libraries: the slope at distance 1."""


@method
def interpolate(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
) -> Tensor:
    """Return x of shape (batch, channels, …) with other spatial sizes: `size`, or scaled.

    `mode` is 'nearest' (the element at or before a position), 'nearest-exact' (the one whose center
    is nearest), 'linear', 'bilinear', 'trilinear' for one, two and three spatial axes, 'bicubic'
    for two, or 'area', the mean of the elements that a new one covers. With `align_corners` the
    first and last elements keep their positions.

    >>> porism.interpolate([[[1.0, 3.0]]], size=4, mode="linear").tolist()
    [[[1.0, 1.5, 2.5, 3.0]]]
    """
    tensor = asarray(x, copy=True)
    spatial = tensor.ndim - 2
    fits = mode in NEAREST or SPATIAL_AXES.get(mode) == spatial or mode == "area"
    if not (fits and 1 <= spatial <= (3 if mode == "area" else spatial)):
        raise shapes.shape_error(
            f"interpolate of a tensor of shape {shapes.to_text(tensor.shape)} by {mode!r}",
            "axes 0 and 1 are the batch and the channels; the modes are 'nearest', "
            "'nearest-exact', 'area', and 'linear', 'bilinear', 'trilinear' by the number of other "
            "axes, of which 'bicubic' has two",
            "reshape the tensor, or pass another mode",
        )
    old = [static_size(n, "interpolate") for n in tensor.shape[2:]]
    new, ratios = _target_sizes(old, size, scale_factor)
    if mode in NEAREST:
        for k, (n, m, ratio) in enumerate(zip(old, new, ratios, strict=True)):
            if n != m:
                offset = 0.5 if mode == "nearest-exact" else 0.0
                index = np.floor((np.arange(m) + offset) * ratio).astype(np.int64)
                tensor = _taken(tensor, 2 + k, n, np.minimum(index, n - 1))
        return tensor
    if mode == "area":
        return MEANS[spatial](tensor, new)
    node = float_node(tensor)
    wide = Tensor(primitive.cast(node, accumulation_dtype(node.dtype)))
    for k, (n, m, ratio) in enumerate(zip(old, new, ratios, strict=True)):
        positions = _positions(n, m, ratio, align_corners)
        if mode == "bicubic":
            wide = _cubic(wide, 2 + k, n, positions)
        else:
            wide = _linear(wide, 2 + k, n, np.maximum(positions, 0.0))
    return Tensor(primitive.cast(wide.node, node.dtype))


def _taken(x: Tensor, axis: int, n: int, index: Array) -> Tensor:
    """Return the elements of x at indices along an axis of size n.

    Elements that are all repeated alike are so without looking up an index for each.
    """
    times = len(index) // n
    if np.array_equal(index, np.repeat(np.arange(n), times)):
        return repeat(x, times, axis)
    return take(x, as_operand(index), axis)


def _target_sizes(old: list[int], size: Any, scale_factor: Any) -> tuple[list[int], list[float]]:
    """Return the new sizes, and how far apart new elements are in units of the old ones."""
    if (size is None) == (scale_factor is None):
        raise shapes.shape_error(
            "interpolate with size and scale_factor" if size else "interpolate to no size",
            "one of them determines the result",
            "pass size or scale_factor",
        )
    given = scale_factor if size is None else size
    numbers = list(given) if isinstance(given, (tuple, list)) else [given] * len(old)
    if len(numbers) != len(old):
        raise shapes.shape_error(
            f"interpolate to {len(numbers)} sizes",
            f"there are {len(old)} spatial axes",
            "pass one number for each, or one for all",
        )
    if size is None:
        factors = [shapes.as_number(s, "scale_factor") for s in numbers]
        new = [int(n * factor) for n, factor in zip(old, factors, strict=True)]
        ratios = [1 / factor for factor in factors if factor]
    else:
        new = [shapes.as_int(n, "size") for n in numbers]
        ratios = [n / m for n, m in zip(old, new, strict=True) if m]
    if min(new) < 1 or min(old) < 1:
        raise shapes.shape_error(
            f"interpolate of sizes {shapes.to_text(old)} to {shapes.to_text(new)}",
            "there is an element to take, and one to make",
            "pass larger sizes",
        )
    return new, ratios


def _positions(n: int, m: int, ratio: float, align_corners: bool) -> Array:
    """Return where the new elements are among the old ones, along an axis."""
    if align_corners:
        return np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 0.0)
    return np.asarray((np.arange(m) + 0.5) * ratio - 0.5)


def _linear(x: Tensor, axis: int, n: int, positions: Array) -> Tensor:
    """Return x at positions along an axis, interpolated between two elements."""
    lower = np.minimum(np.floor(positions).astype(np.int64), n - 1)
    upper = np.minimum(lower + 1, n - 1)
    fraction = positions - lower
    if not fraction.any() and np.array_equal(lower, np.arange(n)):
        return x
    sizes = [len(positions) if k == axis else 1 for k in range(x.ndim)]
    low, high = (take(x, as_operand(index), axis) for index in (lower, upper))
    weight = as_operand(fraction.reshape(sizes).astype(x.node.dtype.numpy)).node
    wide = primitive.expand(weight, low.shape)
    return Tensor(low.node * (wide.lift(1.0) - wide) + high.node * wide)


def _cubic(x: Tensor, axis: int, n: int, positions: Array) -> Tensor:
    """Return x at positions along an axis, by cubic convolution of four elements."""
    before = np.floor(positions).astype(np.int64)
    sizes = [len(positions) if k == axis else 1 for k in range(x.ndim)]
    total = None
    for offset in (-1, 0, 1, 2):
        weights = _cubic_weights(np.abs(positions - before - offset))
        elements = take(x, as_operand(np.clip(before + offset, 0, n - 1)), axis)
        factor = as_operand(weights.reshape(sizes).astype(x.node.dtype.numpy)).node
        term = elements.node * primitive.expand(factor, elements.shape)
        total = term if total is None else total + term
    assert total is not None
    return Tensor(total)


def _cubic_weights(distance: Array) -> Array:
    """Return the weights of elements at distances from 0 to 2."""
    near = ((CUBIC + 2) * distance - (CUBIC + 3)) * distance * distance + 1
    far = CUBIC * (((distance - 5) * distance + 8) * distance - 4)
    return np.asarray(np.where(distance <= 1, near, far))
