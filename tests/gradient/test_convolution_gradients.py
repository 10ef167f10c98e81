"""Gradients of convolutions and pooling: strided, grouped, dilated, depthwise, of odd sizes.

A convolution is linear in its input and in its kernel, so its derivative along a direction is the
convolution of that direction: no finite differences are needed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import porism
from porism.base.target import GENERIC_CPU
from porism.optimize.analysis.contraction_accesses import match_contraction
from porism.pipeline import unscheduled_kernel

CASES: Final[dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]]] = {
    "plain": ((2, 3, 5, 7), (4, 3, 3, 2), {}),
    "same": ((1, 2, 6), (2, 2, 4), {"padding": "same"}),
    "strided": ((2, 3, 9, 8), (4, 3, 3, 2), {"stride": (2, 3), "padding": 1}),
    "stride above the kernel": ((1, 2, 11), (3, 2, 2), {"stride": 4}),
    "strided without rest": ((1, 1, 8), (1, 1, 2), {"stride": 2}),
    "dilated": ((2, 2, 9, 9), (3, 2, 2, 3), {"dilation": (3, 2), "padding": 2}),
    "strided and dilated": ((2, 2, 11), (3, 2, 3), {"stride": 2, "dilation": 2, "padding": 1}),
    "grouped": ((2, 4, 6), (6, 2, 3), {"groups": 2, "stride": 2}),
    "depthwise": ((2, 4, 6, 5), (8, 1, 3, 3), {"groups": 4, "padding": 1, "stride": 2}),
    "three axes": ((1, 2, 4, 5, 3), (2, 2, 2, 2, 2), {"padding": 1, "stride": (1, 2, 1)}),
    "without a batch": ((3, 6), (2, 3, 2), {}),
    "one window": ((1, 2, 3), (2, 2, 3), {}),
    "many positions": ((4, 3, 8, 9), (5, 3, 3, 2), {"padding": 1}),
    "many strided positions": ((4, 3, 17, 15), (2, 3, 3, 3), {"stride": 2, "dilation": (1, 2)}),
}

TRANSPOSED: Final[dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]]] = {
    "plain": ((2, 3, 5), (3, 2, 3), {}),
    "strided": ((2, 4, 4, 3), (4, 2, 3, 2), {"stride": 2, "padding": 1, "output_padding": 1}),
    "grouped": ((1, 4, 5), (4, 3, 2), {"groups": 2, "stride": 3}),
    "as many taps in each phase": ((2, 3, 5, 4), (3, 2, 4, 2), {"stride": 2, "padding": 1}),
    "phases without taps": ((1, 2, 4, 3), (2, 3, 1, 3), {"stride": 2, "output_padding": 1}),
    "many phases": ((1, 2, 3, 3), (2, 1, 5, 4), {"stride": 3, "padding": (2, 0)}),
    "strided along one of two axes": ((1, 2, 4, 5), (2, 2, 3, 3), {"stride": (1, 2)}),
    "dilated": ((1, 2, 5), (2, 2, 3), {"dilation": 2, "padding": 1}),
}


def check_linear(function: Any, x_shape: tuple[int, ...], w_shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, along_x = (porism.asarray(rng.standard_normal(x_shape)) for _ in range(2))
    w, along_w = (porism.asarray(rng.standard_normal(w_shape)) for _ in range(2))
    value, pull = porism.vjp(function, x, w)
    g = porism.asarray(rng.standard_normal(value.numpy().shape))
    by_x, by_w = pull(g)
    assert by_x.shape == x.shape
    assert by_w.shape == w.shape
    for found, expected in (
        ((by_x * along_x).sum(), (g * function(along_x, w)).sum()),
        ((by_w * along_w).sum(), (g * function(x, along_w)).sum()),
    ):
        assert found.item() == pytest.approx(expected.item(), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str) -> None:
    x_shape, w_shape, options = CASES[name]
    conv = getattr(porism, f"conv{len(w_shape) - 2}d")
    check_linear(lambda x, w: conv(x, w, **options), x_shape, w_shape)


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(name: str) -> None:
    x_shape, w_shape, options = TRANSPOSED[name]
    conv = getattr(porism, f"conv_transpose{len(w_shape) - 2}d")
    check_linear(lambda x, w: conv(x, w, **options), x_shape, w_shape)


def multiply_adds(tensor: Any) -> int:
    kernels = [unscheduled_kernel(k.node, GENERIC_CPU) for k in porism.kernels(tensor)]
    return sum(nest.work for nest in map(match_contraction, kernels) if nest is not None)


def test_strided_derivatives_multiply_no_zeros() -> None:
    """Catches zeros that fill up the taps of phases, and positions that are cut off afterwards."""
    x, w = porism.ones(2, 8, 8, 8).realize(), porism.ones(4, 8, 3, 3).realize()
    g = porism.ones(2, 4, 4, 4).realize()
    forward = porism.conv2d(x, w, stride=2, padding=1)
    by_input = porism.grad(lambda x: (porism.conv2d(x, w, stride=2, padding=1) * g).sum())(x)
    assert multiply_adds(by_input) == multiply_adds(forward) == 2 * 4 * 16 * 8 * 9


def test_an_empty_batch() -> None:
    w = porism.ones(2, 3, 2)
    by_x, by_w = porism.grad(lambda x, w: porism.conv1d(x, w).sum(), (0, 1))(
        porism.zeros(0, 3, 5), w
    )
    assert by_x.shape == (0, 3, 5)
    assert not by_w.numpy().any()


def test_second_derivatives_of_a_convolution() -> None:
    rng = np.random.default_rng(1)
    x, w = porism.asarray(rng.standard_normal((1, 1, 5))), porism.asarray(np.ones((1, 1, 2)))

    def energy(x: Any) -> Any:
        return (porism.conv1d(x, w, stride=2) ** 2).sum()

    # the Hessian of |Ax|² is 2·AᵀA
    matrix = porism.jacobian(lambda x: porism.conv1d(x, w, stride=2))(x).numpy().reshape(2, 5)
    found = porism.hessian(energy)(x).numpy().reshape(5, 5)
    np.testing.assert_allclose(found, 2 * matrix.T @ matrix, atol=1e-12)


@pytest.mark.parametrize(
    ("window", "stride", "padding"), [(2, 2, 0), (3, 1, 1), (3, 2, 1), (2, 3, 0)]
)
def test_max_pool_passes_gradients_to_the_maxima(window: int, stride: int, padding: int) -> None:
    rng = np.random.default_rng(2)
    data = rng.standard_normal((2, 3, 7, 6))
    x = porism.asarray(data)
    value, pull = porism.vjp(lambda x: porism.max_pool2d(x, window, stride, padding), x)
    g = rng.standard_normal(value.numpy().shape)
    (found,) = pull(porism.asarray(g))
    expected = np.zeros_like(data)
    for index in np.ndindex(*g.shape):
        n, c, i, j = index
        top, left = i * stride - padding, j * stride - padding
        rows = range(max(top, 0), min(top + window, data.shape[2]))
        columns = range(max(left, 0), min(left + window, data.shape[3]))
        best = max((data[n, c, r, k], r, k) for r in rows for k in columns)
        expected[n, c, best[1], best[2]] += g[index]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-14)
