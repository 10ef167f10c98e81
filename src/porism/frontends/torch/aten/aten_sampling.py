"""Sampling operators of ATen: images resized, and read at positions between their elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten.aten_table import aten


@aten("upsample_nearest2d.vec")
def upsample_nearest2d_vec(x: Any, output_size: Any, scale_factors: Any) -> Any:
    """Return x resized by the nearest element."""
    sizes = output_size or [int(n * f) for n, f in zip(x.shape[2:], scale_factors, strict=True)]
    scales = scale_factors or (None, None)
    return upsample_nearest2d(x, sizes, *scales)


@aten("upsample_nearest2d.default")
def upsample_nearest2d(
    x: Any, output_size: Sequence[int], scales_h: Any = None, scales_w: Any = None
) -> Any:
    """Return x resized by the nearest element."""
    for axis, size, scale in ((2, output_size[0], scales_h), (3, output_size[1], scales_w)):
        before = x.shape[axis]
        step = 1 / scale if scale else before / size
        index = [min(math.floor(k * step), before - 1) for k in range(size)]
        x = xp.take(x, xp.asarray(index, dtype="int64"), axis=axis)
    return x


# -- samples at positions --------------------------------------------------------------------------

BILINEAR, NEAREST, BICUBIC = range(3)
"""Modes of interpolation, as torch numbers them."""

ZEROS, BORDER, REFLECTION = range(3)
"""What is outside of an image, as torch numbers it."""

Positions = Sequence[Any]
"""A coordinate along each axis of an image."""


def _bounded(position: Any, size: int, spatial: int, padding_mode: int, align: bool) -> Any:
    """Return a position along an axis, moved into the image unless zeros are around it.

    As in torch, NaN is at the first element of an axis if there are two, at the last of three.
    """
    if padding_mode == ZEROS:
        return position if spatial == 2 else xp.where(xp.isfinite(position), position, -2.0)
    if padding_mode == REFLECTION:
        low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
        if not span:
            return xp.zeros_like(position)
        distance = xp.abs(position - low)
        extra = xp.fmod(distance, span)
        even = xp.fmod(xp.floor(distance / span), 2.0) == 0
        position = xp.where(even, extra + low, span - extra + low)
    unknown = 0 if spatial == 2 else size - 1
    return xp.where(xp.isnan(position), unknown, xp.clip(position, 0, size - 1))


def _reader(x: Any, outline: Sequence[int]) -> Callable[[Positions], Any]:
    """Return a function that gives the elements at whole positions, and 0 outside of an image."""
    batch, channels, *sizes = x.shape
    flat = xp.reshape(x, (batch, channels, math.prod(sizes)))

    def read(positions: Positions) -> Any:
        inside: Any = True
        at: Any = 0
        for position, size in zip(positions, sizes, strict=True):
            inside = (position >= 0) & (position < size) & inside
            at = at * size + position
        index = xp.reshape(xp.where(inside, at, 0).astype("int64"), (batch, 1, math.prod(outline)))
        index = xp.broadcast_to(index, (batch, channels, index.shape[-1]))
        taken = xp.reshape(xp.gather(flat, 2, index), (batch, channels, *outline))
        return xp.where(inside[:, None], taken, 0)

    return read


def _sampled(
    x: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """Return x sampled at positions from -1 to 1, whose last coordinate is the first axis of x."""
    sizes = x.shape[2:]
    count = len(sizes)
    positions = [
        (grid[..., count - 1 - k] + 1) / 2 * (size - 1)
        if align_corners
        else ((grid[..., count - 1 - k] + 1) * size - 1) / 2
        for k, size in enumerate(sizes)
    ]
    read = _reader(x, grid.shape[1:-1])
    if interpolation_mode == BICUBIC:
        return _bicubic(read, positions, sizes, padding_mode, align_corners)
    positions = [
        _bounded(p, size, count, padding_mode, align_corners)
        for p, size in zip(positions, sizes, strict=True)
    ]
    if interpolation_mode == NEAREST:
        return read([xp.round(p) for p in positions])
    first = [xp.floor(p) for p in positions]
    beyond = [(p - f)[:, None] for p, f in zip(positions, first, strict=True)]
    total: Any = 0
    for corner in itertools.product((0, 1), repeat=count):
        value = read([f + step for f, step in zip(first, corner, strict=True)])
        for step, weight in zip(corner, beyond, strict=True):
            value = value * (weight if step else 1 - weight)
        total = total + value
    return total


def _cubic_weights(beyond: Any) -> list[Any]:
    """Return the weights of four neighbours for a position beyond the second, with A = -0.75."""
    a = -0.75

    def near(t: Any) -> Any:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    def far(t: Any) -> Any:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    return [far(beyond + 1), near(beyond), near(1 - beyond), far(2 - beyond)]


def _bicubic(
    read: Callable[[Positions], Any],
    positions: Positions,
    sizes: Sequence[int],
    padding_mode: int,
    align_corners: bool,
) -> Any:
    """Return samples by cubic polynomials of neighbours, each of which is moved into the image."""
    first = [xp.floor(p) for p in positions]
    rows, columns = (
        _cubic_weights((p - f)[:, None]) for p, f in zip(positions, first, strict=True)
    )
    total: Any = 0
    for i, j in itertools.product(range(4), repeat=2):
        taps = [
            _bounded(f + step - 1, size, 2, padding_mode, align_corners)
            for f, step, size in zip(first, (i, j), sizes, strict=True)
        ]
        total = total + read(taps) * (rows[i] * columns[j])
    return total


@aten("grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(
    x: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """Return x sampled at positions from -1 to 1."""
    return _sampled(x, grid, interpolation_mode, padding_mode, align_corners)
