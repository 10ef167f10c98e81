"""Oracle: NumPy arrays of every type to compute with, and the comparison with what NumPy gives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import numpy as np
import pytest

from porism.base.errors import PorismError
from porism.ir.facts.semantics import Array
from porism.tensor.promotion import NAMES
from porism.tensor.tensor import Tensor

Error = TypeVar("Error", bound=PorismError)

SHAPES: Final = ((), (1,), (0,), (5,), (3, 4), (2, 3, 4), (2, 0, 3), (1, 5, 1))
"""A scalar, sizes 1 and 0, and one to three axes."""

FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
INTEGERS: Final = ("int8", "uint8", "int32", "int64", "uint64")
EIGHT_BITS: Final = ("float8_e4m3fn", "float8_e5m2")
TYPES: Final = ("bool", *INTEGERS, *FLOATS)

TOLERANCE: Final = {
    "float8_e5m2": 0.13,
    "float8_e4m3fn": 0.07,
    "float16": 2e-3,
    "bfloat16": 2e-2,
    "float32": 4e-6,
    "float64": 1e-12,
}


def numpy_type(name: str) -> np.dtype[Any]:
    """Return the NumPy (or ml_dtypes) type of a public name."""
    return NAMES[name].numpy


def draw(name: str, shape: tuple[int, ...], seed: int = 0, scale: float = 3.0) -> Array:
    """Return the same numbers every time: small, and of both signs for signed types."""
    random = np.random.default_rng([seed, *shape])
    kind = numpy_type(name)
    if name == "bool":
        return random.random(shape) < 0.5
    if name.startswith("uint"):
        return random.integers(0, 7, shape).astype(kind)
    if name.startswith("int"):
        return random.integers(-4, 5, shape).astype(kind)
    return np.asarray(random.normal(size=shape) * scale).astype(kind)


def to_double(array: Array) -> Array:
    """Return floats in double precision, in which expected values are computed."""
    return array if array.dtype.kind in "biu" else array.astype(np.float64)


def agree(
    actual: Tensor, expected: Any, dtype: str | None = None, tolerance: float | None = None
) -> None:
    """Fail unless shape, type and values are those expected; the type is NumPy's if none is given.

    Floats may differ by the tolerance, in proportion to the largest value; NaNs are equal.
    """
    wanted = np.asarray(expected)
    kind = wanted.dtype if dtype is None else numpy_type(dtype)
    name = next(name for name, t in NAMES.items() if t.numpy == kind)
    got = actual.numpy()
    assert got.shape == wanted.shape == tuple(actual.shape)
    assert got.dtype == kind == actual.dtype.numpy
    if name not in TOLERANCE:
        np.testing.assert_array_equal(got, wanted.astype(kind))
        return
    allowed = TOLERANCE[name] if tolerance is None else tolerance
    exact = wanted.astype(np.float64)
    finite = np.abs(exact[np.isfinite(exact)])
    size = max(1.0, float(finite.max())) if finite.size else 1.0
    np.testing.assert_allclose(got.astype(np.float64), exact, rtol=allowed, atol=allowed * size)


@contextmanager
def refuses(error: type[Error], what: str) -> Iterator[pytest.ExceptionInfo[Error]]:
    """Fail unless the error is raised, with every part of it, at a line of a test."""
    with pytest.raises(error, match=re.escape(what)) as caught:
        yield caught
    error_raised = caught.value
    assert error_raised.where is not None
    assert re.search(r"test_\w+\.py, line \d+", error_raised.where), error_raised.where
    assert error_raised.why
    assert error_raised.fix
