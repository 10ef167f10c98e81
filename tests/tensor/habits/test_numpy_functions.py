"""Functions that NumPy has and few programs use: differences, divisors, quantiles without NaN."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError, ShapeError, TypeMismatch
from porism.ir.facts.semantics import Array
from tests.tensor.oracle import refuses
from tests.tiers import quick_if

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def close(actual: Any, expected: Any, *, narrow: bool = True) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for ours, theirs in zip(actual, expected, strict=True):
            close(ours, theirs, narrow=narrow)
        return
    bound = 2e-5 if narrow else 1e-12
    assert actual.shape == np.shape(expected)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=bound, atol=bound)


# -- gradient --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2,), (3,), (7,), (4, 5), (3, 2, 4), (2, 0)])
@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"])
def test_gradient(shape: tuple[int, ...], dtype: str) -> None:
    random = np.random.default_rng(len(shape))
    x: Array = random.normal(size=shape).astype(dtype)
    narrow = dtype == "float32"
    axes = [k for k, n in enumerate(shape) if n > 1]
    positions = [np.cumsum(random.uniform(0.5, 2, shape[k])).astype(dtype) for k in axes]
    given: list[tuple[Any, ...]] = [(), (0.5,), (np.float32(2),), tuple(positions)]
    for spacing in given:
        expected = np.gradient(x, *spacing, axis=tuple(axes))
        expected = expected[0] if len(axes) == 1 and isinstance(expected, tuple) else expected
        close(porism.gradient(x, *spacing, axis=tuple(axes)), expected, narrow=narrow)
        if min((shape[k] for k in axes), default=0) > 2:
            second = np.gradient(x, *spacing, axis=tuple(axes), edge_order=2)
            second = second[0] if len(axes) == 1 and isinstance(second, tuple) else second
            ours = porism.gradient(x, *spacing, axis=tuple(axes), edge_order=2)
            close(ours, second, narrow=narrow)


def test_gradient_of_integers_and_of_a_method() -> None:
    close(porism.gradient([1, 4, 9, 16]), np.gradient([1, 4, 9, 16]))
    close(porism.asarray([1.0, 4.0, 9.0]).gradient(), np.gradient([1.0, 4.0, 9.0]))
    special = np.array([1.0, np.nan, 3.0, np.inf, 5.0])
    with np.errstate(all="ignore"):
        close(porism.gradient(special), np.gradient(special))


def test_gradient_is_jitted() -> None:
    slope = porism.jit(lambda x, t: porism.gradient(x, t))
    x, t = np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0, 3.0])
    close(slope(porism.asarray(x), porism.asarray(t)), np.gradient(x, t))


def test_gradient_is_found_also_when_its_package_is_loaded() -> None:
    import porism.gradient.reverse_mode

    assert porism.gradient([1.0, 2.0, 4.0]).tolist() == [1.0, 1.5, 2.0]


def test_wrong_gradients_say_why() -> None:
    with refuses(TypeMismatch, "write porism.grad(function)(x)"):
        porism.gradient(lambda x: x)
    with refuses(ShapeError, "at least 2 samples"):
        porism.gradient([1.0])
    with refuses(ShapeError, "the order 1 or 2"):
        porism.gradient([1.0, 2.0, 3.0], edge_order=3)
    with refuses(ShapeError, "pass one for each axis"):
        porism.gradient(np.ones((3, 3)), 1.0, 2.0, 3.0)
    with refuses(ShapeError, "a position for each of the 3 samples"):
        porism.gradient([1.0, 2.0, 3.0], [0.0, 1.0])


# -- quantiles without NaN -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"])
@pytest.mark.parametrize("axis", [pytest.param(None, marks=pytest.mark.slow), 0, -1])
def test_quantiles_without_nan(dtype: str, axis: int | None) -> None:
    random = np.random.default_rng(3)
    x: Array = random.normal(size=(4, 5, 6)).astype(dtype)
    x[random.random(x.shape) < 0.4] = np.nan
    x[0, 0] = np.nan  # a row of nothing else
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kept in (False, True):
            ours = porism.nanmedian(x, axis, keepdims=kept)
            assert ours.dtype == dtype
            close(ours, np.nanmedian(x, axis, keepdims=kept))
            for q in (0, 0.1, 1, [0.25, 0.9]):
                ours = porism.nanquantile(x, q, axis, keepdims=kept)
                close(ours, np.nanquantile(x, q, axis, keepdims=kept))
        close(porism.nanpercentile(x, 30, axis), np.nanpercentile(x, 30, axis))


def test_quantiles_of_integers_and_errors() -> None:
    close(porism.nanmedian([1, 2, 3, 9]), 2.5)
    with refuses(ShapeError, "a fraction is a number from 0 to 1"):
        porism.nanquantile([1.0], 2)
    with refuses(ShapeError, "the axis has no elements"):
        porism.nanmedian(porism.zeros(0))


# -- divisors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", quick_if(lambda dtype: dtype in ("int8", "uint32", "int64"), INTEGERS)
)
def test_divisors(dtype: str) -> None:
    """Also of the smallest number, and of those that take Euclid's algorithm the most steps."""
    limits = np.iinfo(dtype)
    random = np.random.default_rng(5)
    a, b = (random.integers(limits.min, limits.max, 60, dtype, endpoint=True) for _ in range(2))
    a[:9], b[:9] = random.integers(0, 5, 9), random.integers(0, 5, 9)
    a[9:12], b[10:13] = limits.min, limits.min
    fibonacci = [1, 1]
    while sum(fibonacci[-2:]) <= limits.max:
        fibonacci.append(sum(fibonacci[-2:]))
    a[13:15], b[13:15] = fibonacci[-2:], fibonacci[:-3:-1]
    with np.errstate(all="ignore"):
        for ours, theirs in ((porism.gcd, np.gcd), (porism.lcm, np.lcm)):
            result = ours(a, porism.asarray(b))
            assert result.dtype == dtype
            np.testing.assert_array_equal(result.numpy(), theirs(a, b))


def test_divisors_broadcast_and_refuse_floats() -> None:
    assert porism.gcd([[4], [6]], 4).tolist() == [[4], [2]]
    assert porism.lcm(porism.zeros((0, 2), dtype="int64"), 3).shape == (0, 2)
    with refuses(TypeMismatch, "convert the operands"):
        porism.gcd([1.5], 2)


# -- choices and indices ---------------------------------------------------------------------------


def test_choose() -> None:
    choices = [np.arange(4), np.arange(4) * 10.0, 5]
    numbers = np.array([[0, 1, 2, 0], [2, 2, 1, 1]])
    close(porism.choose(numbers, choices), np.choose(numbers, choices))
    outside = np.array([0, 5, -3, 1])
    close(porism.choose(outside, choices, "clip"), np.choose(outside, choices, mode="clip"))
    close(porism.choose(outside, choices, "wrap"), np.choose(outside, choices, mode="wrap"))
    close(porism.choose([[0], [0]], [[1, 2]]), np.choose([[0], [0]], [[1, 2]]))
    with refuses(TypeMismatch, "convert the numbers"):
        porism.choose([0.5], [1])
    with refuses(ShapeError, "pass some choices"):
        porism.choose([0], [])


def test_argwhere() -> None:
    for x in (np.eye(3), np.zeros((2, 0)), np.array([0, 1, 1])):
        ours = porism.argwhere(x)
        assert ours.shape == np.argwhere(x).shape
        np.testing.assert_array_equal(ours.numpy(), np.argwhere(x))
    jitted = porism.jit(lambda x: porism.argwhere(x, size=3, fill_value=-1))
    assert jitted(porism.asarray([0, 1, 1])).tolist() == [[1], [2], [-1]]


# -- norms and transforms --------------------------------------------------------------------------


@pytest.mark.parametrize("order", [None, 1, 2, np.inf])
@pytest.mark.parametrize("axis", [None, 1, (0, 2), (2, 0)])
def test_norm(order: Any, axis: Any) -> None:
    x = np.random.default_rng(1).normal(size=(3, 4, 5))
    if order is not None and axis is None:
        with refuses(ShapeError, "name the axes"):
            porism.linalg.norm(x, order)
        x = x[0]
    for kept in (False, True):
        ours = porism.linalg.norm(x, order, axis, kept) if order else None
        expected = np.linalg.norm(x, order, axis, kept)
        close(porism.linalg.norm(x, order, axis, keepdims=kept) if ours is None else ours, expected)


def test_transforms_along_two_axes_and_as_others_call_them() -> None:
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    for name in ("fft2", "ifft2", "rfft2"):
        close(getattr(porism.fft, name)(x), getattr(np.fft, name)(x))
    close(porism.fft.irfft2(x + 1j), np.fft.irfft2(x + 1j))
    close(porism.fft.fft(x, 5, 0), np.fft.fft(x, 5, 0))
    close(porism.fft.fft(x, n=5, dim=1, norm=None), np.fft.fft(x, 5, 1))  # as in PyTorch
    close(porism.fft.fftn(x, (2, 2), axes=(0, 1)), np.fft.fftn(x, (2, 2), axes=(0, 1)))
    with refuses(TypeMismatch, "write porism.fft.fft(x"):
        porism.fft.fft(x, wrong=1)
    with refuses(PorismError, "did you mean fft"):
        porism.fft.fft3(x)


def test_cubic_interpolation_and_means() -> None:
    """PyTorch 2.13's values."""
    x = np.arange(9.0).reshape(1, 1, 3, 3) ** 2
    cubic = porism.interpolate(x, size=(4, 5), mode="bicubic")
    expected = [
        [-0.70065, -0.61009, -0.07666, 1.53677, 2.73933],
        [2.38937, 3.967, 6.96924, 11.05148, 13.74111],
        [18.77542, 22.67779, 29.53955, 37.48131, 42.49568],
        [36.64864, 42.03808, 51.36865, 61.77923, 68.28066],
    ]
    np.testing.assert_allclose(cubic.numpy()[0, 0], expected, atol=1e-5)
    aligned = porism.interpolate(x, size=(3, 5), mode="bicubic", align_corners=True)
    np.testing.assert_allclose(aligned.numpy()[0, 0, :, ::2], x[0, 0])
    area = porism.interpolate(x, size=1, mode="area")
    assert area.item() == pytest.approx(x.mean())
    with refuses(ShapeError, "of which 'bicubic' has two"):
        porism.interpolate(x[0], size=4, mode="bicubic")
