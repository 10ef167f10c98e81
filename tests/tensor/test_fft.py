"""`porism.fft`, compared with NumPy in double precision: lengths, axes, norms, types; jit."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import porism
from porism import fft
from porism.base.errors import ShapeError, TypeMismatch
from porism.ir.facts.semantics import Array
from tests.tensor.oracle import refuses
from tests.tiers import quick_if

ALLOWED: Final = {"float32": 3e-6, "float64": 3e-14, "complex64": 3e-6, "complex128": 3e-14}
"""The error allowed, in proportion to the largest element."""

LENGTHS: Final = (1, 2, 3, 4, 5, 6, 8, 12, 16, 31, 37, 60, 74, 128)
"""Powers, mixed factors, a prime with a stage, and lengths with larger primes."""


def draw(dtype: str, shape: tuple[int, ...]) -> Array:
    random = np.random.default_rng(list(shape))
    parts = random.normal(size=(2, *shape))
    values = parts[0] + 1j * parts[1] if dtype.startswith("complex") else parts[0]
    return np.asarray(values).astype(dtype)


def double(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def close(actual: Any, expected: Array, dtype: str) -> None:
    got = actual.numpy()
    assert got.shape == expected.shape
    assert got.dtype == dtype
    error = np.abs(got - expected).max(initial=0)
    assert error <= ALLOWED[dtype] * max(1.0, float(np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("n", quick_if(lambda n: n in (1, 2, 3, 4, 5, 12, 37), LENGTHS))
def test_lengths(n: int) -> None:
    for kind, real in (("complex64", "float32"), ("complex128", "float64")):
        x = draw(kind, (2, n))
        close(fft.fft(x), np.fft.fft(double(x)), kind)
        close(fft.ifft(x), np.fft.ifft(double(x)), kind)
        y = draw(real, (2, n))
        close(fft.rfft(y), np.fft.rfft(double(y)), kind)
        close(fft.ihfft(y), np.fft.ihfft(double(y)), kind)
        half = draw(kind, (2, n // 2 + 1))
        close(fft.irfft(half, n=n), np.fft.irfft(double(half), n), real)
        close(fft.hfft(half, n=n), np.fft.hfft(double(half), n), real)


@pytest.mark.parametrize(
    "norm", quick_if(lambda norm: norm == "ortho", ["backward", "ortho", "forward"])
)
def test_norms_axes_and_sizes(norm: Any) -> None:
    x, y = draw("complex128", (3, 4, 5)), draw("float64", (3, 4, 5))
    for axis in (0, 1, -1):
        for n in (None, 2, 7):
            for name in ("fft", "ifft"):
                expected = getattr(np.fft, name)(x, n, axis, norm)
                close(getattr(fft, name)(x, n=n, axis=axis, norm=norm), expected, "complex128")
            expected = np.fft.rfft(y, n, axis, norm)
            close(fft.rfft(y, n=n, axis=axis, norm=norm), expected, "complex128")
            expected = np.fft.ihfft(y, n, axis, norm)
            close(fft.ihfft(y, n=n, axis=axis, norm=norm), expected, "complex128")
            for name in ("irfft", "hfft"):
                expected = getattr(np.fft, name)(x, n, axis, norm)
                close(getattr(fft, name)(x, n=n, axis=axis, norm=norm), expected, "float64")


def test_several_axes() -> None:
    x, y = draw("complex128", (3, 4, 6)), draw("float64", (3, 4, 6))
    cases: tuple[dict[str, Any], ...] = (
        {},
        {"axes": (0, 2)},
        {"axes": (-1,)},
        {"s": (5, 4), "axes": (1, 2)},
        {"s": (2, 8, 3), "axes": (2, 0, 1), "norm": "ortho"},
    )
    for options in cases:
        theirs = {"axes": (0, 1, 2), **options}
        for name in ("fftn", "ifftn"):
            expected = getattr(np.fft, name)(x, **theirs)
            close(getattr(fft, name)(x, **options), expected, "complex128")
        close(fft.rfftn(y, **options), np.fft.rfftn(y, **theirs), "complex128")
        close(fft.irfftn(x, **options), np.fft.irfftn(x, **theirs), "float64")


def test_real_operands_and_types() -> None:
    for dtype in ("int64", "bool", "float16", "bfloat16", "float32"):
        x = porism.asarray([1, 0, 1, 1]).astype(dtype)
        close(fft.fft(x), np.fft.fft([1.0, 0, 1, 1]), "complex64")
        close(fft.rfft(x), np.fft.rfft([1.0, 0, 1, 1]), "complex64")
    assert fft.fft(porism.ones(2, dtype="float64")).dtype is porism.complex128
    assert fft.fft(porism.ones(0, 4)).shape == (0, 4)


def test_frequencies_and_shifts() -> None:
    for n in (1, 2, 5, 8):
        close(fft.fftfreq(n, d=0.5), np.fft.fftfreq(n, 0.5), "float32")
        close(fft.rfftfreq(n, d=0.5, dtype="float64"), np.fft.rfftfreq(n, 0.5), "float64")
    x = np.arange(24).reshape(4, 3, 2)
    for axes in (None, 0, (0, 1)):
        shifted = fft.fftshift(x, axes=axes)
        np.testing.assert_array_equal(shifted.numpy(), np.fft.fftshift(x, axes))
        np.testing.assert_array_equal(fft.ifftshift(shifted, axes=axes).numpy(), x)


def test_a_transform_is_jitted_with_what_is_around_it() -> None:
    def smooth(x: Any) -> Any:
        spectrum = fft.rfft(x)
        return fft.irfft(spectrum * (abs(fft.rfftfreq(16)) < 0.2), n=16)

    jitted = porism.jit(smooth)
    for seed in (1, 2, 3):
        x = draw("float32", (seed, 16))
        expected = np.fft.irfft(np.fft.rfft(x) * (np.fft.rfftfreq(16) < 0.2), 16)
        close(jitted(porism.asarray(x)), expected, "float32")


def test_mistakes() -> None:
    with refuses(TypeMismatch, "rfft of a tensor of complex64"):
        fft.rfft([1j])
    with refuses(TypeMismatch, "fft with norm='other'"):
        fft.fft([1.0], norm="other")
    with refuses(ShapeError, "fft of 0 elements"):
        fft.fft([1.0], n=0)
    with refuses(ShapeError, "fftn with 1 sizes for 2 axes"):
        fft.fftn(porism.ones(2, 2), s=(2,), axes=(0, 1))
    with refuses(ShapeError, "fftfreq of 0 elements"):
        fft.fftfreq(0)
    with refuses(TypeMismatch, "rfftfreq of int64"):
        fft.rfftfreq(4, dtype="int64")


def test_the_module_is_clean() -> None:
    assert dir(fft) == sorted(fft.__all__)
