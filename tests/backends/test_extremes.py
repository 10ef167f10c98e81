"""Maxima and minima: NaN comes through from everywhere, and the sign of a zero is not looked at."""

from __future__ import annotations

import numpy as np
import pytest

import porism
from porism import Tensor


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("length", [1, 7, 16, 100, 1000])
@pytest.mark.parametrize("place", [0, 3, -1])
def test_nan_anywhere_in_a_row(name: str, length: int, place: int) -> None:
    x = np.random.default_rng(length).standard_normal((5, length)).astype(np.float32)
    x[2, min(place, length - 1)] = np.nan
    x[4] = np.nan
    actual = np.asarray(getattr(porism, name)(porism.asarray(x), axis=-1))
    np.testing.assert_array_equal(actual, getattr(x, name)(axis=-1))
    actual = np.asarray(getattr(porism, name)(porism.asarray(x.T.copy()), axis=0))
    np.testing.assert_array_equal(actual, getattr(x, name)(axis=-1))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_nan_on_either_side(name: str) -> None:
    values = np.array([np.nan, -np.inf, -1, -0.0, 0.0, 2, np.inf], np.float32)
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    actual = np.asarray(getattr(porism, name)(porism.asarray(a), porism.asarray(b)))
    np.testing.assert_array_equal(actual, getattr(np, name)(a, b))


def test_what_is_said_to_llvm() -> None:
    """To look at the signs of zeros takes twice as many instructions."""
    x: Tensor = porism.asarray(np.ones((64, 64), np.float32))
    (kernel,) = porism.kernels(x.max(axis=-1))
    text = kernel.source("llvm")
    calls = [row.split(" = ")[1] for row in text.splitlines() if "call" in row and "maximum" in row]
    assert calls
    assert all(call.startswith("call nsz ") for call in calls)
