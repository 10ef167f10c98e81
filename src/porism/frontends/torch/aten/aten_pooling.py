"""Pooling operators of ATen: means and maxima of windows, and their derivatives.

Derivatives of operators that Porism has itself are those that Porism takes (`porism.vjp`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten.aten_table import UncoveredFormError, aten


def fill(numbers: Sequence[int], count: int) -> tuple[int, ...]:
    """Return a number for each axis, where one may stand for all."""
    return tuple(numbers) if len(numbers) == count else (numbers[0],) * count


def _batched(x: Any, spatial: int) -> tuple[Any, bool]:
    """Return x with a batch, and whether it had one."""
    batched = x.ndim == spatial + 2
    return (x if batched else xp.expand_dims(x, axis=0)), batched


def _avg_pool(spatial: int) -> Any:
    """Return the operator avg_pool1d, 2d or 3d."""

    def avg_pool(
        x: Any,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        """Return means of windows."""
        kernel = fill(kernel_size, spatial)
        steps = fill(stride, spatial) if stride else kernel
        pads = fill([padding] if isinstance(padding, int) else padding, spatial)
        x, batched = _batched(x, spatial)
        function = getattr(xp, f"avg_pool{spatial}d")
        if divisor_override is None:
            result = function(x, kernel, steps, pads, ceil_mode, count_include_pad)
        else:
            factor = math.prod(kernel) / divisor_override
            if ceil_mode:
                x, pads = _filled_up(x, kernel, steps, pads), (0,) * spatial
            result = function(x, kernel, steps, pads, False, True) * factor
        return result if batched else result[0]

    return avg_pool


def _filled_up(x: Any, kernel: Sequence[int], steps: Sequence[int], pads: Sequence[int]) -> Any:
    """Return x with zeros around it, so that windows which begin inside of it are whole."""
    pairs = [(0, 0)] * (x.ndim - len(kernel))
    sizes = x.shape[-len(kernel) :]
    for size, taps, step, pad in zip(sizes, kernel, steps, pads, strict=True):
        count = math.ceil((size + 2 * pad - taps) / step) + 1
        if (count - 1) * step >= size + pad:
            count -= 1
        pairs.append((pad, max((count - 1) * step + taps - size - pad, 0)))
    return xp.pad(x, pairs, mode="constant", value=0)


avg_pools = {spatial: _avg_pool(spatial) for spatial in (1, 2, 3)}
for _spatial, _pool in avg_pools.items():
    aten(f"avg_pool{_spatial}d.default")(_pool)


@aten("avg_pool2d_backward.default")
def avg_pool2d_backward(grad: Any, x: Any, *options: Any) -> Any:
    """Return the gradient of avg_pool2d."""
    return xp.vjp(lambda v: avg_pools[2](v, *options), x)[1](grad)[0]


@aten("avg_pool3d_backward.default")
def avg_pool3d_backward(grad: Any, x: Any, *options: Any) -> Any:
    """Return the gradient of avg_pool3d."""
    return xp.vjp(lambda v: avg_pools[3](v, *options), x)[1](grad)[0]


@aten("_adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(x: Any, output_size: Sequence[int]) -> Any:
    """Return means of a given number of windows."""
    x, batched = _batched(x, 2)
    result = xp.adaptive_avg_pool2d(x, tuple(output_size))
    return result if batched else result[0]


@aten("_adaptive_avg_pool3d.default")
def adaptive_avg_pool3d(x: Any, output_size: Sequence[int]) -> Any:
    """Return means of a given number of windows."""
    x, batched = _batched(x, 3)
    result = xp.adaptive_avg_pool3d(x, tuple(output_size))
    return result if batched else result[0]


@aten("_adaptive_avg_pool2d_backward.default")
def adaptive_avg_pool2d_backward(grad: Any, x: Any) -> Any:
    """Return the gradient of adaptive_avg_pool2d."""
    sizes = grad.shape[-2:]
    return xp.vjp(lambda v: adaptive_avg_pool2d(v, sizes), x)[1](grad)[0]


# -- maxima ----------------------------------------------------------------------------------------


def _lowest(dtype: Any) -> Any:
    """Return the smallest value of a type."""
    return -math.inf if dtype.kind == "f" else int(xp.iinfo(dtype).min)


def _window_positions(
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    counts: Sequence[int],
) -> list[Any]:
    """Return, for each spatial axis, the position of each tap: (windows, taps)."""
    return [
        xp.arange(counts[k])[:, None] * stride[k]
        - padding[k]
        + xp.arange(kernel[k])[None, :] * dilation[k]
        for k in range(len(kernel))
    ]


def _first_maxima(x: Any, positions: Sequence[Any]) -> tuple[Any, Any]:
    """Return maxima of windows and where they are in the plane; NaN is largest, equal ones first.

    `positions` has, for each spatial axis, the position of each tap: (windows, taps). Those outside
    of the axis do not count.
    """
    spatial = len(positions)
    sizes = x.shape[-spatial:]
    counts = tuple(p.shape[0] for p in positions)
    flat = xp.reshape(x, (*x.shape[:-spatial], math.prod(sizes)))
    shape = (*x.shape[:-spatial], *counts)
    best = xp.full(shape, _lowest(x.dtype), dtype=x.dtype)
    where = xp.full(shape, 0, dtype="int64")
    for taps in reversed(list(itertools.product(*(range(p.shape[1]) for p in positions)))):
        inside: Any = None
        at: Any = 0
        for axis, (tap, size) in enumerate(zip(taps, sizes, strict=True)):
            outline = tuple(-1 if k == axis else 1 for k in range(spatial))
            position = xp.reshape(positions[axis][:, tap], outline)
            within = (position >= 0) & (position < size)
            inside = within if inside is None else inside & within
            at = at * size + position
        at = xp.where(inside, at, 0)
        value = xp.reshape(xp.take(flat, xp.reshape(at, (-1,)), axis=-1), shape)
        better = value >= best
        if x.dtype.kind == "f":
            better = better | xp.isnan(value)
        better = better & inside
        best = xp.where(better, value, best)
        where = xp.where(better, at, where)
    return best, where


def _max_pool(spatial: int) -> Any:
    """Return the operator max_pool2d_with_indices or that of three axes."""

    def max_pool(
        x: Any,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> tuple[Any, Any]:
        """Return maxima of windows, and where they are in the plane; of equal ones the first."""
        kernel = fill(kernel_size, spatial)
        steps = fill(stride, spatial) if stride else kernel
        pads = fill([padding] if isinstance(padding, int) else padding, spatial)
        gaps = fill([dilation] if isinstance(dilation, int) else dilation, spatial)
        x, batched = _batched(x, spatial)
        function = getattr(xp, f"max_pool{spatial}d")
        values = function(x, kernel, steps, pads, gaps, ceil_mode)
        counts = values.shape[-spatial:]
        where = _first_maxima(x, _window_positions(kernel, steps, pads, gaps, counts))[1]
        return (values, where) if batched else (values[0], where[0])

    return max_pool


def _adaptive_max_pool(spatial: int) -> Any:
    """Return the operator adaptive_max_pool2d or 3d."""

    def adaptive_max_pool(x: Any, output_size: Sequence[int]) -> tuple[Any, Any]:
        """Return maxima of a given number of windows, and where they are in the plane."""
        sizes = x.shape[-spatial:]
        if 0 in output_size:
            raise UncoveredFormError("no windows")
        positions = [
            _adaptive_positions(size, count) for size, count in zip(sizes, output_size, strict=True)
        ]
        return _first_maxima(x, positions)

    return adaptive_max_pool


def _adaptive_positions(size: int, count: int) -> Any:
    """Return the positions of windows that divide an axis; -1 where a window is shorter."""
    starts = [k * size // count for k in range(count)]
    ends = [-(-(k + 1) * size // count) for k in range(count)]
    taps = max(end - start for start, end in zip(starts, ends, strict=True))
    rows = [
        [start + tap if start + tap < end else -1 for tap in range(taps)]
        for start, end in zip(starts, ends, strict=True)
    ]
    return xp.asarray(rows, dtype="int64")


def _max_pool_backward(spatial: int) -> Any:
    """Return the operator of the gradient of maxima of windows."""

    def max_pool_backward(grad: Any, x: Any, *options: Any) -> Any:
        """Return the gradient of maxima of windows: each goes to where its maximum is."""
        indices = options[-1]
        planes = math.prod(x.shape[:-spatial])
        flat = xp.zeros(planes, math.prod(x.shape[-spatial:]), dtype=grad.dtype)
        index = xp.reshape(indices, (planes, -1))
        added = xp.scatter_add(flat, 1, index, xp.reshape(grad, (planes, -1)))
        return xp.reshape(added, x.shape)

    return max_pool_backward


for _spatial in (2, 3):
    aten(f"max_pool{_spatial}d_with_indices.default")(_max_pool(_spatial))
    aten(f"adaptive_max_pool{_spatial}d.default")(_adaptive_max_pool(_spatial))
    aten(
        f"max_pool{_spatial}d_with_indices_backward.default",
        f"adaptive_max_pool{_spatial}d_backward.default",
    )(_max_pool_backward(_spatial))
