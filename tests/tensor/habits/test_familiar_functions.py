"""Functions that NumPy and PyTorch have and the Array API has not, at edges and special values."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

import porism
from fuzz.program import oracle
from porism.base.errors import ShapeError
from tests.tensor.oracle import refuses

RANDOM = np.random.default_rng(5)
MATRIX: Any = np.arange(12).reshape(3, 4)
CUBE: Any = np.arange(24).reshape(2, 3, 4)
FLOATS: Any = RANDOM.normal(size=(3, 7))
SPECIAL: Any = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3, -3, 0.5, 100, -100])
PAIRS: Any = np.array(
    list(itertools.product([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2.5], repeat=2))
)


def same(got: Any, expected: Any, close: float = 1e-10) -> None:
    values = np.asarray(got)
    assert values.shape == np.shape(expected)
    np.testing.assert_allclose(
        values.astype(np.float64), np.asarray(expected, np.float64), close, close
    )


@pytest.mark.parametrize(
    "name",
    ["elu", "selu", "celu", "hardtanh", "hardsigmoid", "softshrink", "hardshrink", "tanhshrink"],
)
def test_activations_of_special_values(name: str) -> None:
    with np.errstate(all="ignore"):
        expected = oracle.FUNCTIONS[name](SPECIAL)
    with_limits = np.where(
        np.isposinf(SPECIAL) & (name in ("tanhshrink", "softshrink")), np.inf, expected
    )
    same(getattr(porism, name)(SPECIAL), with_limits)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["fmod", "fmax", "fmin", "heaviside", "isclose"])
def test_pairs_of_special_values(name: str, dtype: str) -> None:
    a, b = PAIRS.T.astype(dtype)
    with np.errstate(all="ignore"):
        same(getattr(porism, name)(a, b), getattr(np, name)(a, b), 1e-6)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_truncated_remainders_of_integers(dtype: str) -> None:
    signs = np.array([-1, 1] if dtype.startswith("int") else [1])
    a = np.multiply.outer(signs, np.arange(20)).reshape(-1, 1).astype(dtype)
    b = np.multiply.outer(signs, np.arange(1, 7)).reshape(-1).astype(dtype)
    same(porism.fmod(a, b), np.fmod(a, b))


@pytest.mark.parametrize("name", ["cbrt", "nan_to_num", "isposinf", "isneginf", "deg2rad", "sinc"])
def test_single_special_values(name: str) -> None:
    with np.errstate(all="ignore"):
        same(getattr(porism, name)(SPECIAL), getattr(np, name)(SPECIAL), 1e-12)


def test_cube_roots_over_the_whole_range() -> None:
    numbers = np.array([5e-324, 1e-310, 1e-300, 1e-30, 1.0, 1e30, 1e308, -27.0])
    same(porism.cbrt(numbers), np.cbrt(numbers), 1e-15)
    narrow = np.array([1e-45, 1e-38, 3e38], np.float32)
    same(porism.cbrt(narrow), np.cbrt(narrow), 2e-7)


def test_the_error_functions() -> None:
    numbers = np.array([-6.0, -1, 0, 1e-9, 0.5, 1, 3, 10, 26, np.inf, -np.inf])
    got = porism.erfc(numbers).numpy()
    expected = np.array([math.erfc(x) for x in numbers])
    np.testing.assert_allclose(got, expected, rtol=1e-15, atol=0)
    back = np.array([-3.0, -0.7, -1e-9, 0, 0.1, 0.9, 2.5])
    np.testing.assert_allclose(
        porism.erfinv(np.array([math.erf(x) for x in back])).numpy(), back, rtol=1e-11
    )
    assert porism.erfinv([1.0, -1.0]).tolist() == [math.inf, -math.inf]
    assert math.isnan(porism.erfinv(1.5).item())


def test_equality_of_whole_tensors() -> None:
    nan = [1.0, math.nan]
    assert porism.array_equal([1, 2], [1.0, 2.0])
    assert not porism.array_equal([1, 2], [[1, 2]])
    assert not porism.array_equal(nan, nan)
    assert porism.array_equal(nan, nan, equal_nan=True)
    assert porism.allclose([1.0], [1.0 + 1e-7])
    assert not porism.allclose([1.0], [1.1])


# -- stacked, split and turned ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vstack", "hstack", "dstack", "column_stack"])
def test_stacks(name: str) -> None:
    for part in (np.arange(3), MATRIX, CUBE):
        same(getattr(porism, name)([part, part + 1]), getattr(np, name)([part, part + 1]))
    same(porism.column_stack([np.arange(3), MATRIX]), np.column_stack([np.arange(3), MATRIX]))
    same(porism.hstack([1, 2]), np.hstack([1, 2]))


@pytest.mark.parametrize("cuts", [1, 2, 5, [1], [1, 2], [2, 1], [5], [-1]])
@pytest.mark.parametrize("axis", [0, 1])
def test_splits(cuts: Any, axis: int) -> None:
    pairs = zip(
        porism.array_split(MATRIX, cuts, axis), np.array_split(MATRIX, cuts, axis), strict=True
    )
    for got, expected in pairs:
        same(got, expected)


def test_uneven_splits_are_refused() -> None:
    with refuses(ShapeError, "use array_split"):
        porism.vsplit(MATRIX, 2)
    with refuses(ShapeError, "split along axis 1"):
        porism.hsplit(porism.asarray(3), 1)
    with refuses(ShapeError, "give a smaller start or length"):
        porism.narrow(MATRIX, 0, 2, 2)


@pytest.mark.parametrize("turns", range(-5, 6))
def test_turns(turns: int) -> None:
    for axes in ((0, 1), (1, 0), (1, 2), (-1, 0)):
        same(porism.rot90(CUBE, turns, axes), np.rot90(CUBE, turns, axes))


# -- statistics ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"]
)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_reductions_without_nan(name: str, axis: Any) -> None:
    values = np.where(RANDOM.random((3, 4, 5)) < 0.4, np.nan, RANDOM.normal(size=(3, 4, 5)))
    values[0, 0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = getattr(np, name)(values, axis=axis, keepdims=True)
    same(getattr(porism, name)(values, axis=axis, keepdims=True), expected)
    same(getattr(porism, name)(MATRIX, axis=0), getattr(np, name)(MATRIX, axis=0), 1e-6)


def test_moments() -> None:
    for rowvar in (True, False):
        same(porism.cov(FLOATS, rowvar=rowvar), np.cov(FLOATS, rowvar=rowvar))
        same(porism.corrcoef(FLOATS, rowvar=rowvar), np.corrcoef(FLOATS, rowvar=rowvar))
    same(porism.cov(FLOATS[0]), np.cov(FLOATS[0]))
    same(porism.corrcoef(FLOATS[0]), 1.0)
    weights = np.arange(1.0, 8)
    same(porism.average(FLOATS, 1, weights), np.average(FLOATS, 1, weights))
    same(
        porism.percentile(FLOATS, [0, 50, 99.5], axis=1),
        np.percentile(FLOATS, [0, 50, 99.5], axis=1),
    )
    same(
        porism.quantile(FLOATS, [0.1, 0.9], keepdims=True),
        np.quantile(FLOATS, [0.1, 0.9], keepdims=True),
    )
    with refuses(ShapeError, "reshape the weights"):
        porism.average(FLOATS, 0, weights)


@pytest.mark.parametrize(
    "options",
    [{}, {"bins": 5}, {"bins": 7, "range": (-1, 2)}, {"bins": [-2, 0, 1, 3]}, {"density": True}],
)
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_histograms(options: Any, dtype: str) -> None:
    values = (np.random.default_rng(3).normal(size=300) * 3).astype(dtype)
    for got, expected in zip(
        porism.histogram(values, **options), np.histogram(values, **options), strict=True
    ):
        same(got, expected, 1e-6)


def test_histograms_at_the_edges() -> None:
    tenths = np.arange(11) / 10
    same(porism.histogram(tenths, 10, (0, 1))[0], np.histogram(tenths, 10, (0, 1))[0])
    for values in (np.zeros(0), np.full(5, 3.0)):
        for got, expected in zip(porism.histogram(values), np.histogram(values), strict=True):
            same(got, expected)
    with refuses(ShapeError, "pass a number of bins"):
        porism.histogram(tenths, "auto")


# -- matrices and sequences ------------------------------------------------------------------------


@pytest.mark.parametrize("k", [-2, 0, 1])
def test_diagonals(k: int) -> None:
    same(porism.diag(np.arange(3), k), np.diag(np.arange(3), k))
    same(porism.diag(MATRIX, k), np.diag(MATRIX, k))
    same(porism.diagflat(MATRIX, k), np.diagflat(MATRIX, k))
    same(porism.tri(3, 4, k), np.tri(3, 4, k))
    same(porism.diag_embed(CUBE, k)[1, 2], np.diag(CUBE[1, 2], k))
    assert porism.diag_embed(CUBE, k, 0, 2).shape == (4 + abs(k), 2, 4 + abs(k), 3)


def test_products() -> None:
    same(porism.kron(MATRIX, CUBE), np.kron(MATRIX, CUBE))
    same(porism.kron(3, MATRIX), np.kron(3, MATRIX))
    same(porism.inner(MATRIX, CUBE), np.inner(MATRIX, CUBE))
    same(porism.cross(MATRIX, MATRIX[:, ::-1], axis=0), np.cross(MATRIX, MATRIX[:, ::-1], axis=0))
    same(porism.vander([2.0, 3.0], N=4, increasing=True), np.vander([2.0, 3.0], 4, increasing=True))
    with refuses(ShapeError, "name the axis of three elements"):
        porism.cross(MATRIX, MATRIX)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions_of_all_lengths(mode: Any) -> None:
    for la, lb in itertools.product((1, 2, 3, 4), (1, 2, 3, 5)):
        a, b = RANDOM.integers(-9, 9, la), RANDOM.integers(-9, 9, lb)
        same(porism.convolve(a, b, mode), np.convolve(a, b, mode))
        same(porism.correlate(a, b, mode), np.correlate(a, b, mode))


def test_integrals_and_interpolation() -> None:
    places = np.arange(3) ** 2
    same(porism.trapezoid(FLOATS, places, axis=0), np.trapezoid(FLOATS, places, axis=0))
    same(porism.trapezoid(FLOATS[:, :1]), np.zeros(3))
    same(porism.polyval([1, 2, 3], FLOATS), np.polyval([1, 2, 3], FLOATS))
    known, values = np.array([-1.0, 0, 0.5, 3]), np.array([1.0, 5, -2, 7])
    asked = np.array([-3.0, -1, -0.5, 0, 0.2, 0.5, 1, 3, 4, np.nan])
    same(porism.interp(asked, known, values), np.interp(asked, known, values))
    same(
        porism.geomspace(-1, -1000, 4, endpoint=False),
        np.geomspace(-1, -1000, 4, endpoint=False),
        1e-6,
    )
    with refuses(ShapeError, "use linspace"):
        porism.geomspace(-1, 1)


# -- networks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
def test_images_in_other_sizes(mode: str) -> None:
    image = RANDOM.normal(size=(1, 2, 4, 5))
    for size in ((1, 1), (2, 7), (4, 5), (9, 3)):
        options = [False, True] if mode == "bilinear" else [False]
        for corners in options:
            got = porism.interpolate(image, size, mode=mode, align_corners=corners)
            same(got, oracle.FUNCTIONS["interpolate"](image, size, None, mode, corners))


def test_wrong_images_are_refused() -> None:
    image = porism.ones(1, 2, 4, 5)
    with refuses(ShapeError, "pass another mode"):
        porism.interpolate(image, 3, mode="linear")
    with refuses(ShapeError, "pass size or scale_factor"):
        porism.interpolate(image)
    with refuses(ShapeError, "pass larger sizes"):
        porism.interpolate(image, 0)
    with refuses(ShapeError, "choose an axis of even size"):
        porism.glu(image, 3)


def test_embeddings_and_masks() -> None:
    table = FLOATS[:, :4]
    same(porism.embedding(MATRIX % 3, table), table[MATRIX % 3])
    same(porism.masked_fill(MATRIX, MATRIX > 3, 0), np.where(MATRIX > 3, 0, MATRIX))
    with refuses(ShapeError, "pass the indices first"):
        porism.embedding(table, [1, 2])
    with refuses(ShapeError, "two lists of the same length"):
        porism.select([MATRIX > 3], [])
