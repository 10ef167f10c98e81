"""Programs whose values are kept locally, repeated or padded before they are reduced.

Each needs loops that actions have padded, vectorized or overlapped, and what is kept in them; NumPy
tells what they compute, in f64 and on small whole numbers, so that most are compared exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.settings import settings
from tests.tiers import quick_if

GENERATOR = np.random.default_rng(12)
BACKENDS = ("llvm", "c")


def whole(*shape: int, dtype: str = "f4") -> Any:
    """Small whole numbers."""
    return GENERATOR.integers(-4, 5, shape).astype(dtype)


def softmax(x: Any, axis: int) -> Any:
    """NumPy's way."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def convolved(x: Any, w: Any, padding: tuple[int, int], stride: tuple[int, int]) -> Any:
    """A convolution of two dimensions."""
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("bchwkl,ockl->bohw", windows[:, :, :: stride[0], :: stride[1]], w)


def transposed_convolution(x: Any, w: Any, stride: int) -> Any:
    """Each element of the input adds a multiple of the weights."""
    (many, _, height, width), (_, out, kh, kw) = x.shape, w.shape
    result = np.zeros((many, out, (height - 1) * stride + kh, (width - 1) * stride + kw))
    for i in range(height):
        for j in range(width):
            rows, columns = slice(i * stride, i * stride + kh), slice(j * stride, j * stride + kw)
            result[:, :, rows, columns] += np.einsum("bc,cokl->bokl", x[:, :, i, j], w)
    return result


def agree(program: Callable[..., Any], expected: Any, *data: Any, rtol: float = 0.0) -> None:
    """A program gives what NumPy does, on every compiled backend."""
    for backend in BACKENDS:
        with settings.override(backend=backend):
            found = program(*[porism.asarray(d) for d in data]).numpy()
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol, err_msg=backend)


LINE, PLANE = whole(8), whole(4, 3)
REPEATED: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "tile": (lambda x: porism.tile(x, (2, 1)).sum(0), LINE, 2 * LINE),
    "broadcast": (lambda x: porism.broadcast_to(x, (2, 2, 8)).sum(0), LINE, [2 * LINE] * 2),
    "zeros": (lambda x: (x + porism.zeros((2, 1))).sum(0), LINE, 2 * LINE),
    "max": (lambda x: porism.tile(x, (4, 1)).max(0), LINE, LINE),
    "argmax": (lambda x: porism.argmax(porism.repeat(x, 2, axis=0), axis=0), PLANE,
               np.argmax(np.repeat(PLANE, 2, 0), 0)),
    "product": (lambda x: porism.ones((3, 8)) @ porism.tile(x, (8, 1)), LINE, [8 * LINE] * 3),
    "pool": (lambda x: porism.avg_pool2d(porism.repeat(porism.repeat(x, 2, axis=2), 2, axis=3), 2),
             PLANE.reshape(1, 1, 4, 3), PLANE.reshape(1, 1, 4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATED)
def test_terms_that_do_not_depend_on_the_reduced_axis(name: str) -> None:
    program, data, expected = REPEATED[name]
    agree(program, expected, data)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [19, 20, 27])
@pytest.mark.parametrize(("columns", "features"), [(3, 16), (6, 17), (28, 16), (30, 33)])
def test_softmax_of_an_outer_product(rows: int, columns: int, features: int) -> None:
    a, c, v = whole(rows, 1), whole(1, columns), whole(columns, features)
    expected = softmax((a * c).astype("f8"), 1) @ v
    agree(lambda a, c, v: porism.softmax(a * c, axis=1) @ v, expected, a, c, v, rtol=1e-5)


@pytest.mark.parametrize(("many", "size"), [(1, 5), (2, 8), (4, 16)])
@pytest.mark.parametrize("stride", quick_if(lambda stride: stride == 2, [1, 2, 3]))
def test_transposed_convolutions(many: int, size: int, stride: int) -> None:
    x, w = whole(many, 4, size, size), whole(4, 3, 3, 3)
    expected = transposed_convolution(x, w, stride)
    agree(lambda x, w: porism.conv_transpose2d(x, w, stride=stride), expected, x, w)


@pytest.mark.parametrize("size", [2, 8])
def test_concatenations_along_three_axes(size: int) -> None:
    def program(x: Any) -> Any:
        y = porism.concat([x] * 3, axis=0)
        y = porism.concat([y] * 3, axis=1)
        return porism.concat([y] * 2, axis=2)

    x = whole(size, 1, 2)
    agree(program, np.tile(x, (3, 3, 2)), x)


@pytest.mark.parametrize("mode", ["wrap", "edge", "symmetric"])
def test_pads_of_an_axis_of_size_one(mode: Any) -> None:
    x, widths = whole(15, 1, 2), ((2, 1), (1, 1), (1, 1))
    agree(lambda x: porism.pad(x, widths, mode=mode), np.pad(x, widths, mode=mode), x)


def test_an_empty_slice_of_an_axis_of_size_one() -> None:
    with settings.override(check=True):
        assert porism.asarray(whole(1, 3))[1:, 1:].numpy().shape == (0, 2)


def test_a_padded_sum_is_multiplied() -> None:
    """What is kept locally is not computed beyond the end of its axis."""
    x = whole(2, 3, 2, dtype="i8")
    widths = ((0, 1), (0, 0))
    expected = np.prod(np.pad((2 * x).sum(1), widths) + 1)
    agree(lambda x: porism.prod(porism.pad(porism.sum(x + x, axis=1), widths) + 1), expected, x)


def test_scans_beside_other_reductions() -> None:
    x, w = whole(2, 2, 7, 5, dtype="f8"), whole(3, 2, 2, 3, dtype="f8")
    expected = np.cumsum(convolved(x, w, (2, 0), (1, 1)), axis=2)
    agree(
        lambda x, w: porism.cumulative_sum(porism.conv2d(x, w, padding=(2, 0)), axis=2),
        expected, x, w,
    )  # fmt: skip
    a, b = whole(2, 2, 4, 3, dtype="i8"), whole(2, 2, 4, 6, dtype="i8")
    scanned = np.concatenate([np.ones((2, 2, 4, 1), int), np.cumprod(a, 3)], 3)
    agree(
        lambda a, b: porism.cumulative_prod(a, axis=3, include_initial=True) @ b, scanned @ b, a, b
    )


def test_a_standard_deviation_of_a_convolution() -> None:
    x, w = whole(2, 2, 7, 5, dtype="f8"), whole(3, 2, 2, 3, dtype="f8")
    expected = np.std(convolved(x, w, (1, 3), (3, 1)), axis=(0, 3))
    agree(
        lambda x, w: porism.std(porism.conv2d(x, w, stride=(3, 1), padding=(1, 3)), axis=(-4, 3)),
        expected, x, w, rtol=1e-12,
    )  # fmt: skip


def test_a_minimum_of_a_product_with_a_padded_matrix() -> None:
    x, v, widths = whole(5, 3), whole(7, 4), ((1, 2), (2, 2))
    expected = (np.pad(x, widths, mode="symmetric") @ v).min(-1)
    agree(lambda x, v: (porism.pad(x, widths, mode="symmetric") @ v).min(-1), expected, x, v)


@pytest.mark.parametrize(("features", "length", "dtype", "rtol"), [
    (1, 19, "f4", 1e-5),
    pytest.param(2, 20, "f4", 1e-5, marks=pytest.mark.slow),
    pytest.param(9, 16, "f2", 5e-3, marks=pytest.mark.slow),
])  # fmt: skip
def test_attention_of_few_features(features: int, length: int, dtype: str, rtol: float) -> None:
    q, k, v = (whole(2, 6, length, features, dtype=dtype) / 4 for _ in range(3))
    scores = q.astype("f8") @ k.astype("f8").swapaxes(-1, -2) / np.sqrt(features)
    expected = softmax(scores, -1) @ v.astype("f8")
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    agree(porism.scaled_dot_product_attention, expected, q, k, v, rtol=rtol)
