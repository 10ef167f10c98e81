"""Where values live: which parts of convolutions, products and sums get a kernel of their own."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

import porism
from porism import Tensor

Floats = npt.NDArray[np.float32]


def random(*sizes: int) -> Floats:
    return np.random.default_rng(math.prod(sizes)).normal(size=sizes).astype(np.float32)


def windows(x: Floats, taps: int, stride: int = 1) -> Floats:
    """The windows over the last two axes, which come before the taps."""
    found = np.lib.stride_tricks.sliding_window_view(x, (taps, taps), axis=(-2, -1))
    return found[..., ::stride, ::stride, :, :]


def convolved(x: Floats, weight: Floats, padding: int = 0, stride: int = 1) -> Floats:
    edges = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    slid = windows(np.pad(x, edges), weight.shape[-1], stride)
    found: Floats = np.einsum("ncyxij,ocij->noyx", slid, weight)
    return found


def near(found: Tensor, wanted: Floats) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-4, atol=2e-4 * abs(wanted).max())


def test_a_long_convolution_is_not_kept_inside_another() -> None:
    x, first, second = random(1, 32, 10, 10), random(24, 32, 3, 3), random(40, 24, 1, 1)
    result = porism.conv2d(porism.conv2d(x, first, padding=1), second)
    assert ["local" in kernel.text for kernel in porism.kernels(result)] == [False, False]
    near(result, convolved(convolved(x, first, padding=1), second))


def test_what_is_below_a_border_is_stored_without_it() -> None:
    x, weight = random(1, 3, 22, 22), random(8, 3, 5, 5)
    inner = porism.conv2d(x, weight, padding=2)
    result = porism.max_pool2d(inner, 3, stride=2, padding=1)
    first, _ = porism.kernels(result)
    assert first.bytes_written == 8 * 22 * 22 * 4
    edges = [(0, 0), (0, 0), (1, 1), (1, 1)]
    padded = np.pad(convolved(x, weight, padding=2), edges, constant_values=-np.inf)
    near(result, windows(padded, 3, 2).max((-2, -1)))


def test_two_long_products_have_a_kernel_each() -> None:
    a, b, c, d = random(20, 96), random(96, 30), random(20, 80), random(80, 30)
    result = porism.asarray(a) @ b + porism.asarray(c) @ d
    first, second = porism.kernels(result)
    assert first.why.startswith("its kernel computes another sum of products")
    assert second.after == (first.number,)
    near(result, a @ b + c @ d)


def test_two_short_products_share_one() -> None:
    a, b, c, d = random(20, 8), random(8, 30), random(20, 9), random(9, 30)
    result = porism.asarray(a) @ b + porism.asarray(c) @ d
    assert len(porism.kernels(result)) == 1
    near(result, a @ b + c @ d)


def test_a_product_that_is_reduced_is_stored_first() -> None:
    a, b = random(20, 96), random(96, 30)
    result = (porism.asarray(a) @ b).abs().sum(axis=0)
    first, _ = porism.kernels(result)
    assert first.why.startswith("it is reduced, and a sum of products itself")
    near(result, np.abs(a @ b).sum(axis=0))


def test_the_scores_of_short_heads_stay_inside() -> None:
    q, k, v = (porism.asarray(random(2, 48, 32)) for _ in range(3))
    assert len(porism.kernels(porism.scaled_dot_product_attention(q, k, v))) == 1


def test_equal_convolutions_are_one_kernel() -> None:
    x = porism.asarray(random(1, 16, 9, 9))
    for _ in range(4):
        x = porism.relu(porism.conv2d(x, random(16, 16, 3, 3), padding=1))
    found = porism.kernels(x)
    assert len(found) == 4
    assert len({kernel.node for kernel in found}) == 1
