"""Sets and searching: distinct values, nonzero elements, membership and differences."""

from __future__ import annotations

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError, ShapeError
from tests.tensor.oracle import SHAPES, TYPES, agree, draw, refuses
from tests.tiers import quick_if


@pytest.mark.parametrize("name", TYPES)
def test_distinct_values(name: str) -> None:
    for shape in SHAPES:
        x = draw(name, shape).round() if name != "bool" else draw(name, shape)
        x = x.astype(draw(name, shape).dtype)
        tensor = porism.asarray(x)
        with np.errstate(invalid="ignore"):
            values, indices, inverse, counts = np.unique(
                x.astype("float64") if x.dtype.kind == "V" else x,
                return_index=True, return_inverse=True, return_counts=True, equal_nan=False,
            )  # fmt: skip
        found = tensor.unique_all()
        agree(found.values, values.astype(x.dtype))
        agree(found.indices, indices)
        agree(found.inverse_indices, inverse.reshape(shape))
        agree(found.counts, counts)
        agree(porism.unique_values(tensor), values.astype(x.dtype))
        agree(porism.unique_counts(tensor).counts, counts)
        agree(porism.unique_inverse(tensor).inverse_indices, inverse.reshape(shape))


def test_each_nan_is_a_value() -> None:
    assert porism.unique_values([np.nan, 1.0, np.nan]).shape == (3,)
    assert porism.unique_values([1j, 1j, 1]).tolist() == [1j, 1]


@pytest.mark.parametrize("name", quick_if(lambda name: name in ("bool", "int8", "float16"), TYPES))
def test_nonzero(name: str) -> None:
    for shape in SHAPES[1:]:
        x = draw(name, shape)
        x = np.where(draw("bool", shape), x, np.zeros_like(x))
        expected = np.nonzero(x)
        for found, wanted in zip(porism.nonzero(porism.asarray(x)), expected, strict=True):
            agree(found, wanted)
        for size in (0, 1, 3, 30):
            results = porism.jit(lambda x, n=size: porism.nonzero(x, size=n, fill_value=-1))(x)
            for found, wanted in zip(results, expected, strict=True):
                filled = np.full(size, -1)
                filled[: min(size, wanted.size)] = wanted[:size]
                agree(found, filled)


@pytest.mark.parametrize(
    "name",
    quick_if(lambda name: name == "int8",
             ["int8", "uint64", "int64", "float32", "bool", "float16"]),
)  # fmt: skip
def test_membership(name: str) -> None:
    for shape in SHAPES:
        x = draw(name, shape)
        for count in (0, 1, 7, 100):
            table = draw(name, (count,), seed=3)
            for invert in (False, True):
                agree(porism.isin(x, table, invert=invert), np.isin(x, table, invert=invert))


def test_membership_of_nan_and_of_numbers() -> None:
    many = np.random.default_rng(0).normal(size=200).astype("float32")
    many[::7] = np.nan
    agree(porism.isin(many, many[:100]), np.isin(many, many[:100]))
    agree(porism.isin([1.0, 2.0], 2), np.array([False, True]))
    agree(porism.isin(2, [1.0, 2.0]), np.array(True))
    agree(porism.isin([1j, 2], [2, 3j]), np.array([False, True]))


@pytest.mark.parametrize(
    "name",
    quick_if(lambda name: name in ("uint8", "float64"),
             ["bool", "int32", "uint8", "float64", "complex64"]),
)  # fmt: skip
def test_differences(name: str) -> None:
    for shape in SHAPES[1:]:
        x = draw(name, shape) if name != "complex64" else draw("float32", shape) * (1 + 1j)
        for axis in range(-len(shape), len(shape)):
            for n in (0, 1, 2):
                found = porism.diff(porism.asarray(x), axis=axis, n=n).numpy()
                np.testing.assert_allclose(found, np.diff(x, n, axis), rtol=1e-5)
            found = porism.diff(x, axis=axis, prepend=x, append=x).numpy()
            expected = np.diff(x, 1, axis, prepend=x, append=x)
            np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_differences_of_order_0_have_the_ends() -> None:
    """The size is that of the parts together, less n, also for n = 0."""
    assert porism.diff([4.0], n=0, prepend=[1.0], append=[2.0]).tolist() == [1.0, 4.0, 2.0]


def test_sizes_that_depend_on_values_are_refused_in_jit() -> None:
    for name in ("nonzero", "unique_all", "unique_values", "unique_counts", "unique_inverse"):
        with refuses(PorismError, f"{name} inside of a jitted function"):
            porism.jit(getattr(porism, name))(porism.ones(3))
    with refuses(ShapeError, "nonzero of a scalar"):
        porism.nonzero(1)
    with refuses(ShapeError, "diff with n=-1"):
        porism.diff([1, 2], n=-1)
