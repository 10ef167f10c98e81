"""Pooling against a loop over all windows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError
from porism.ir.facts.semantics import Array
from tests.tensor.oracle import FLOATS, agree, draw, refuses, to_double


def reference_pool(
    x: Array,
    taps: int,
    stride: int,
    padding: int,
    dilation: int,
    ceil_mode: bool,
    value: Callable[[Array, int], Any],
) -> Array:
    """Return `value` of the elements of each window, and its number of padded elements."""
    size = x.shape[-1]
    rest = size + 2 * padding - dilation * (taps - 1) - 1
    number = (-(-rest // stride) if ceil_mode else rest // stride) + 1
    if ceil_mode and (number - 1) * stride >= size + padding:
        number -= 1
    actual = []
    for k in range(number):
        places = k * stride - padding + np.arange(taps) * dilation
        inside = places[(places >= 0) & (places < size)]
        actual.append(value(x[..., inside], int((places < size + padding).sum())))
    return np.stack(actual, -1)


CASES = [
    case
    for case in itertools.product((5, 6, 8), (2, 3), (1, 2, 3), (0, 1), (False, True))
    if case[1] >= 2 * case[3]
]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "taps", "stride", "padding", "ceil_mode"), CASES)
def test_one_axis(size: int, taps: int, stride: int, padding: int, ceil_mode: bool) -> None:
    x = draw("float64", (2, size))
    for dilation in (1, 2):
        actual = porism.max_pool1d(x, taps, stride, padding, dilation, ceil_mode)
        expected = reference_pool(
            x, taps, stride, padding, dilation, ceil_mode, lambda part, _: part.max(-1)
        )
        agree(actual, expected)
    means: dict[bool, Callable[[Array, int], Any]] = {
        True: lambda part, n: part.sum(-1) / n,
        False: lambda part, n: part.mean(-1),
    }
    for with_padding, mean in means.items():
        actual = porism.avg_pool1d(x, taps, stride, padding, ceil_mode, with_padding)
        agree(actual, reference_pool(x, taps, stride, padding, 1, ceil_mode, mean))


def test_two_and_three_axes() -> None:
    x = draw("float32", (2, 3, 4, 6))
    blocks = x.reshape(2, 3, 2, 2, 2, 3)
    agree(porism.max_pool2d(x, (2, 3)), blocks.max((3, 5)))
    agree(porism.avg_pool2d(x, (2, 3)), to_double(blocks).mean((3, 5)), "float32")
    x = draw("float32", (1, 4, 4, 4))
    blocks = x.reshape(1, 2, 2, 2, 2, 2, 2)
    agree(porism.max_pool3d(x, 2), blocks.max((2, 4, 6)))
    agree(porism.avg_pool3d(x, 2), to_double(blocks).mean((2, 4, 6)), "float32")


@pytest.mark.parametrize("name", ["bool", "int8", "uint8", "float16", "bfloat16"])
def test_padding_never_wins_a_maximum(name: str) -> None:
    x = draw(name, (1, 5))
    if name not in ("bool", "uint8"):
        x = -abs(x) - np.ones((), x.dtype)
    expected = reference_pool(x, 3, 2, 1, 1, False, lambda part, _: part.max(-1))
    agree(porism.max_pool1d(x, 3, 2, 1), expected.astype(x.dtype))


@pytest.mark.parametrize("name", FLOATS)
def test_means_of_narrow_floats(name: str) -> None:
    x = draw(name, (1, 8))
    agree(porism.avg_pool1d(x, 4), to_double(x).reshape(1, 2, 4).mean(-1), name)


def test_nan_propagates() -> None:
    x = np.array([[1.0, np.nan, 2.0, 3.0]])
    agree(porism.max_pool1d(x, 2), np.array([[np.nan, 3.0]]))


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 7])
def test_adaptive(number: int) -> None:
    x = draw("float64", (2, 6))
    bins = [slice(k * 6 // number, -(-(k + 1) * 6 // number)) for k in range(number)]
    agree(porism.adaptive_max_pool1d(x, number), np.stack([x[:, b].max(1) for b in bins], 1))
    agree(porism.adaptive_avg_pool1d(x, number), np.stack([x[:, b].mean(1) for b in bins], 1))


def test_adaptive_in_several_axes() -> None:
    x = draw("float32", (1, 2, 4, 6))
    agree(porism.adaptive_avg_pool2d(x, 1), to_double(x).mean((2, 3), keepdims=True), "float32")
    agree(porism.adaptive_max_pool2d(x, (None, 3)), x.reshape(1, 2, 4, 3, 2).max(-1))
    agree(porism.adaptive_avg_pool3d(x, (1, 4, 6)), to_double(x).mean(1, keepdims=True), "float32")
    agree(porism.adaptive_max_pool3d(x, (1, 1, 6)), x.max((1, 2), keepdims=True))


def test_an_empty_batch() -> None:
    agree(porism.max_pool1d(porism.zeros((0, 1, 4)), 2), np.zeros((0, 1, 2), "float32"))


ERRORS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: porism.max_pool2d(x[0], 2), "max_pool2d of a tensor of shape (2, 4)"),
    (lambda x: porism.max_pool1d(x, 0), "kernel_size is 0"),
    (lambda x: porism.max_pool1d(x, 2, padding=2), "a window of 2 and a padding of 2"),
    (lambda x: porism.avg_pool1d(x, 5), "a window of 5 over an axis of 4"),
    (lambda x: porism.avg_pool1d(x, (2, 2)), "kernel_size is (2, 2)"),
    (lambda x: porism.adaptive_avg_pool1d(x, 0), "output_size is [0]"),
    (lambda x: porism.adaptive_avg_pool2d(x, (1, 1, 1)), "output_size is [1, 1, 1]"),
    (lambda x: porism.adaptive_max_pool1d(x[:, :, :0], 1), "of a tensor of shape (1, 2, 0)"),
]


@pytest.mark.parametrize(("call", "what"), ERRORS, ids=[what for _, what in ERRORS])
def test_errors(call: Callable[[Any], Any], what: str) -> None:
    x = porism.zeros((1, 2, 4))
    with refuses(ShapeError, what):
        call(x)
