"""Convolutions and pooling."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fuzz.program.oracle.arrays import (
    Numbers,
    floats,
    several,
    windows,
)
from porism.ir.facts.semantics import Array


def _convolution(spatial: int) -> Callable[..., Array]:
    def conv(
        x: Array,
        weight: Array,
        bias: Array | None = None,
        stride: Numbers = 1,
        padding: Any = 0,
        dilation: Numbers = 1,
        groups: int = 1,
    ) -> Array:
        taps, apart = weight.shape[2:], several(dilation, spatial)
        if x.shape[-spatial - 1] != weight.shape[1] * groups or len(weight) % groups:
            raise ValueError("the weight has other channels")
        if padding == "same":
            total = [(k - 1) * d for k, d in zip(taps, apart, strict=True)]
            around = [(n // 2, n - n // 2) for n in total]
        else:
            around = [(n, n) for n in several(0 if padding == "valid" else padding, spatial)]
        batch = x if x.ndim == spatial + 2 else x[None]
        seen = windows(
            np.pad(batch, [(0, 0), (0, 0), *around]), taps, several(stride, spatial), apart
        )
        letters = "uvw"[:spatial], "xyz"[:spatial]
        parts = seen.reshape(len(batch), groups, -1, *seen.shape[2:])
        weights = weight.reshape(groups, -1, *weight.shape[1:])
        text = f"ngi{letters[0]}{letters[1]},goi{letters[1]}->ngo{letters[0]}"
        found = np.asarray(np.einsum(text, parts, weights))
        found = found.reshape(len(batch), len(weight), *found.shape[3:])
        if bias is not None:
            found = np.asarray(found + bias.reshape(-1, *[1] * spatial))
        return found if x.ndim == spatial + 2 else found[0]

    return conv


def _transposed(spatial: int) -> Callable[..., Array]:
    def conv_transpose(
        x: Array,
        weight: Array,
        bias: Array | None = None,
        stride: Numbers = 1,
        padding: Numbers = 0,
        output_padding: Numbers = 0,
        groups: int = 1,
        dilation: Numbers = 1,
    ) -> Array:
        steps, apart = several(stride, spatial), several(dilation, spatial)
        around, extra = several(padding, spatial), several(output_padding, spatial)
        batch = x if x.ndim == spatial + 2 else x[None]
        inner, out, *taps = weight.shape
        if batch.shape[1] != inner or inner % groups:
            raise ValueError("the weight has other channels")
        sizes = [
            (n - 1) * s + d * (k - 1) + 1 + e
            for n, k, s, d, e in zip(batch.shape[2:], taps, steps, apart, extra, strict=True)
        ]
        kind = np.result_type(x, weight)
        found = np.zeros((len(batch), groups, out, *sizes), kind)
        parts = batch.reshape(len(batch), groups, inner // groups, *batch.shape[2:])
        for tap in itertools.product(*map(range, taps)):
            spot: Any = (..., *tap)
            weights = weight[spot].reshape(groups, inner // groups, out)
            indices = [
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(tap, apart, batch.shape[2:], steps, strict=True)
            ]
            target: Any = (slice(None), slice(None), slice(None), *indices)
            found[target] += np.einsum("ngi...,gio->ngo...", parts, weights)
        found = found.reshape(len(batch), groups * out, *sizes)
        inside = [slice(p, n - p) for p, n in zip(around, sizes, strict=True)]
        found = found[(slice(None), slice(None), *inside)]
        if bias is not None:
            found = np.asarray(found + bias.reshape(-1, *[1] * spatial))
        return found if x.ndim == spatial + 2 else found[0]

    return conv_transpose


def _pooled(
    x: Array,
    spatial: int,
    windows: Sequence[Sequence[tuple[Array, int]]],
    value: Callable[[Array, int], Array],
) -> Array:
    """`value` of the elements in each window, and of the number by which a mean divides."""
    numbers = [len(line) for line in windows]
    outer = x.shape[: x.ndim - spatial]
    found = np.zeros((*outer, *numbers), x.dtype)
    for place in np.ndindex(*numbers):
        part, count = x, 1
        for k, n in enumerate(place):
            inside, size = windows[k][n]
            part = np.take(part, inside, x.ndim - spatial + k)
            count *= size
        spot: Any = (..., *place)
        found[spot] = value(part.reshape(*outer, -1), count)
    return found


def _lines(
    size: int, taps: int, stride: int, padding: int, dilation: int, ceil_mode: bool, include: bool
) -> list[tuple[Array, int]]:
    """For each window along an axis, its elements inside, and how many indices count."""
    rest = size + 2 * padding - dilation * (taps - 1) - 1
    number = (-(-rest // stride) if ceil_mode else rest // stride) + 1
    if ceil_mode and (number - 1) * stride >= size + padding:
        number -= 1
    if number < 1 or 2 * padding > taps:
        raise ValueError("no window fits, or one could lie in the padding alone")
    found = []
    for k in range(number):
        indices = k * stride - padding + np.arange(taps) * dilation
        inside = indices[(indices >= 0) & (indices < size)]
        found.append((inside, int((indices < size + padding).sum()) if include else len(inside)))
    return found


def _max_pool(spatial: int) -> Callable[..., Array]:
    def max_pool(
        x: Array,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Numbers = 0,
        dilation: Numbers = 1,
        ceil_mode: bool = False,
    ) -> Array:
        taps = several(kernel_size, spatial)
        given = (taps if stride is None else stride, padding, dilation)
        steps, around, apart = (several(n, spatial) for n in given)
        lines = [
            _lines(n, taps[k], steps[k], around[k], apart[k], ceil_mode, True)
            for k, n in enumerate(x.shape[-spatial:])
        ]
        return _pooled(x, spatial, lines, lambda part, _: np.max(part, -1))

    return max_pool


def _avg_pool(spatial: int) -> Callable[..., Array]:
    def avg_pool(
        x: Array,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Numbers = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Array:
        taps = several(kernel_size, spatial)
        steps = several(taps if stride is None else stride, spatial)
        around = several(padding, spatial)
        lines = [
            _lines(n, taps[k], steps[k], around[k], 1, ceil_mode, count_include_pad)
            for k, n in enumerate(x.shape[-spatial:])
        ]
        return _pooled(floats(x), spatial, lines, lambda part, n: np.sum(part, -1) / n)

    return avg_pool


def _adaptive(spatial: int, value: Callable[..., Any]) -> Callable[..., Array]:
    def adaptive_pool(x: Array, output_size: Any) -> Array:
        sizes = (output_size,) * spatial if isinstance(output_size, int) else tuple(output_size)
        lines = []
        for n, m in zip(x.shape[-spatial:], sizes, strict=True):
            count = n if m is None else m
            ends = [(k * n // count, -(-(k + 1) * n // count)) for k in range(count)]
            lines.append([(np.arange(a, b), b - a) for a, b in ends])
        return _pooled(x, spatial, lines, lambda part, _: np.asarray(value(part, -1)))

    return adaptive_pool


FUNCTIONS: Final[dict[str, Callable[..., Array]]] = {
    **{f"conv{n}d": _convolution(n) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _transposed(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": _avg_pool(n) for n in (1, 2, 3)},
    **{
        f"adaptive_{how}_pool{n}d": _adaptive(n, function)
        for how, function in (("max", np.max), ("avg", np.mean))
        for n in (1, 2, 3)
    },
}
"""By name."""
