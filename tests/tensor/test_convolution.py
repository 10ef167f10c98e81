"""Convolutions against sums over every window, written with loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError
from porism.ir.facts.semantics import Array
from tests.tensor.oracle import agree, draw, refuses, to_double


def reference_conv(
    x: Array,
    weight: Array,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    """Return the sum over taps of the input shifted by the tap, times its weights."""
    x = np.pad(x, [(0, 0), (0, 0), *((n, n) for n in padding)])
    out, inner, *taps = weight.shape
    numbers = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], taps, stride, dilation, strict=True)
    ]
    result = np.zeros((len(x), out, *numbers), x.dtype)
    for tap in itertools.product(*map(range, taps)):
        places = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilation, numbers, stride, strict=True)
        ]
        seen = x[(slice(None), slice(None), *places)]
        spot: Any = (..., *tap)
        weights = weight[spot]
        for k in range(out):
            first = k // (out // groups) * inner
            part = seen[:, first : first + inner]
            result[:, k] += np.einsum("bi...,i->b...", part, weights[k])
    return result


def reference_conv_transpose(
    x: Array,
    weight: Array,
    stride: Sequence[int],
    padding: Sequence[int],
    extra: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> Array:
    """Return the sum over taps of the weights times the input, at the positions of the tap."""
    inner, out, *taps = weight.shape
    spatial = x.shape[2:]
    sizes = [
        (n - 1) * s + d * (k - 1) + 1 + e
        for n, k, s, d, e in zip(spatial, taps, stride, dilation, extra, strict=True)
    ]
    result = np.zeros((len(x), out * groups, *sizes), x.dtype)
    for tap in itertools.product(*map(range, taps)):
        places = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilation, spatial, stride, strict=True)
        )
        spot: Any = (..., *tap)
        for k in range(inner):
            first = k // (inner // groups) * out
            column = weight[spot][k].reshape(1, -1, *[1] * len(spatial))
            target = (slice(None), slice(first, first + out), *places)
            result[target] += column * x[:, k : k + 1]
    inside = [slice(p, n - p) for p, n in zip(padding, sizes, strict=True)]
    return result[(slice(None), slice(None), *inside)]


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_one_axis(stride: int, groups: int) -> None:
    x, weight = draw("float64", (2, 4, 9)), draw("float64", (8, 4 // groups, 3), seed=1)
    for padding, dilation in itertools.product((0, 1, 2), (1, 2)):
        actual = porism.conv1d(x, weight, None, stride, padding, dilation, groups)
        agree(actual, reference_conv(x, weight, [stride], [padding], [dilation], groups))


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_one_axis_transposed(stride: int, groups: int) -> None:
    x, weight = draw("float64", (2, 4, 5)), draw("float64", (4, 3, 3), seed=1)
    for padding, dilation in itertools.product((0, 1, 2, 3), (1, 2)):
        for extra in range(max(stride, dilation)):
            actual = porism.conv_transpose1d(
                x, weight, None, stride, padding, extra, groups, dilation
            )
            expected = reference_conv_transpose(
                x, weight, [stride], [padding], [extra], groups, [dilation]
            )
            agree(actual, expected)


def test_two_axes() -> None:
    x, weight = draw("float32", (2, 3, 6, 7)), draw("float32", (4, 3, 3, 2), seed=1)
    bias = draw("float32", (4,))
    actual = porism.conv2d(x, weight, bias, stride=(2, 1), padding=(1, 0), dilation=(1, 3))
    expected = reference_conv(to_double(x), to_double(weight), (2, 1), (1, 0), (1, 3), 1)
    agree(actual, expected + bias[:, None, None], "float32")
    weight = draw("float32", (3, 2, 3, 2), seed=1)
    actual = porism.conv_transpose2d(x, weight, stride=(2, 3), padding=(1, 0), output_padding=1)
    agree(
        actual,
        reference_conv_transpose(
            to_double(x), to_double(weight), (2, 3), (1, 0), (1, 1), 1, (1, 1)
        ),
        "float32",
    )


def test_three_axes() -> None:
    x, weight = draw("float64", (1, 2, 4, 3, 5)), draw("float64", (2, 1, 2, 3, 2), seed=1)
    actual = porism.conv3d(x, weight, stride=(1, 1, 2), padding=(0, 1, 1), groups=2)
    agree(actual, reference_conv(x, weight, (1, 1, 2), (0, 1, 1), (1, 1, 1), 2))
    actual = porism.conv_transpose3d(x, weight, stride=(2, 1, 1), groups=2)
    agree(
        actual, reference_conv_transpose(x, weight, (2, 1, 1), (0, 0, 0), (0, 0, 0), 2, (1, 1, 1))
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["int8", "int64", "float16", "bfloat16"])
def test_types(name: str) -> None:
    x, weight = draw(name, (1, 2, 6), scale=1), draw(name, (2, 2, 3), seed=1, scale=1)
    expected = reference_conv(to_double(x), to_double(weight), [1], [1], [1], 1)
    agree(porism.conv1d(x, weight, padding=1), expected, name)


@pytest.mark.parametrize("taps", [1, 2, 3, 4])
def test_same_and_valid_padding(taps: int) -> None:
    x, weight = draw("float64", (1, 1, 7)), draw("float64", (1, 1, taps))
    assert porism.conv1d(x, weight, padding="same", dilation=2).shape == (1, 1, 7)
    before = taps - 1
    padded = np.pad(x, [(0, 0), (0, 0), (before, before)])
    agree(
        porism.conv1d(x, weight, padding="same", dilation=2),
        reference_conv(padded, weight, [1], [0], [2], 1),
    )
    agree(porism.conv1d(x, weight, padding="valid"), reference_conv(x, weight, [1], [0], [1], 1))


def test_an_uneven_same_padding_has_more_at_the_end() -> None:
    x = np.array([[[1.0, 2.0, 3.0]]])
    actual = porism.conv1d(x, np.array([[[1.0, 10.0]]]), padding="same")
    agree(actual, np.array([[[21.0, 32.0, 3.0]]]))


def test_without_a_batch() -> None:
    x, weight = draw("float64", (2, 5)), draw("float64", (3, 2, 2))
    agree(porism.conv1d(x, weight), reference_conv(x[None], weight, [1], [0], [1], 1)[0])


def test_an_empty_batch() -> None:
    actual = porism.conv1d(porism.zeros((0, 2, 5)), porism.zeros((3, 2, 2)))
    agree(actual, np.zeros((0, 3, 4), "float32"))


ERRORS: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda x, w: porism.conv2d(x, w), "conv2d of shapes (1, 4, 5) and (2, 4, 3)"),
    (lambda x, w: porism.conv1d(x[:, :3], w), "conv1d of 3 channels with a weight of shape"),
    (lambda x, w: porism.conv1d(x, w, groups=3), "and 3 groups"),
    (lambda x, w: porism.conv1d(x, w, stride=0), "stride is 0"),
    (lambda x, w: porism.conv1d(x, w, stride=(1, 2)), "stride is (1, 2)"),
    (lambda x, w: porism.conv1d(x, w, stride=1.5), "stride is 1.5"),
    (lambda x, w: porism.conv1d(x, w, padding=-1), "padding is -1"),
    (lambda x, w: porism.conv1d(x, w, padding="full"), "padding is 'full'"),
    (lambda x, w: porism.conv1d(x, w, padding="same", stride=2), "padding is 'same' with stride"),
    (lambda x, w: porism.conv1d(x, w, dilation=3), "a window of 7 elements over an axis of 5"),
    (lambda x, w: porism.conv1d(x, w[:, :, :0]), "with a weight of shape (2, 4, 0)"),
    (lambda x, w: porism.conv1d(x, w, porism.zeros(3)), "with a bias of shape (3,)"),
    (lambda x, w: porism.conv_transpose1d(x, w), "conv_transpose1d of 4 channels"),
    (
        lambda x, w: porism.conv_transpose1d(x[:, :2], w, padding=4),
        "conv_transpose1d with 7 elements along an axis and a padding of 4",
    ),
    (
        lambda x, w: porism.conv_transpose1d(x[:, :2], w, output_padding=1),
        "with output_padding (1,)",
    ),
]


@pytest.mark.parametrize(("call", "what"), ERRORS, ids=[what for _, what in ERRORS])
def test_errors(call: Callable[[Any, Any], Any], what: str) -> None:
    x, weight = porism.zeros((1, 4, 5)), porism.zeros((2, 4, 3))
    with refuses(ShapeError, what):
        call(x, weight)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_phases_of_a_transposed_convolution_without_taps(dtype: str) -> None:
    """Their zeros have the type of the sums beside them, which is wider than small floats."""
    x = porism.asarray(np.array([[[3, 4]]], dtype))
    kernel = porism.asarray(np.array([[[-1]]], dtype))
    found = porism.conv_transpose1d(x, kernel, stride=3).numpy()
    assert found.tolist() == [[[-3, 0, 0, -4]]]
    assert found.dtype == np.dtype(dtype)
