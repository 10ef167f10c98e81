"""One suite for all backends and devices: every public function of tensors against NumPy.

The results of all rows of one type are computed together, so that a backend compiles once. With
`TEST_FULL=1` in the environment all types and more shapes are tried; that variable is no setting of
Porism, so it does not have its prefix.
"""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
import pytest

import porism
from fuzz.program import oracle
from porism.backends.backend_table import BACKENDS
from porism.base.settings import settings
from porism.ir.facts.semantics import Array
from porism.tensor import namespace
from porism.tensor.tensor import Tensor
from tests.backends.running import works
from tests.conformance import data
from tests.conformance.table import MODULES_NOT_COMPUTED, NOT_COMPUTED, ROWS, Row
from tests.tensor.oracle import TOLERANCE, to_double

FULL: Final = bool(os.environ.get("TEST_FULL"))
TYPES: Final = {
    "f": ("float32", "float64", "float16", "bfloat16") if FULL else ("float32", "float16"),
    "i": ("int8", "uint8", "int32", "int64", "uint64") if FULL else ("int32",),
    "b": ("bool",),
}


DEVICES: Final = ("fake",)
"""Devices that the suite runs on, by the default backend; a touch of the host ends the process."""


def usable(backend: str) -> bool:
    return backend in DEVICES or works(backend)


def cases() -> list[Any]:
    return [
        pytest.param(backend, name, kind, id=f"{backend}-{name}",
                     marks=pytest.mark.skipif(not usable(backend), reason="no compiler"))
        for backend in (*BACKENDS, *DEVICES)
        for kind, names in TYPES.items()
        for name in names
    ]  # fmt: skip


def called(row: Row, arrays: dict[str, Array]) -> Tensor:
    names = {name: getattr(porism, name) for name in namespace.MODULE_OF}
    tensors = {name: porism.asarray(array) for name, array in arrays.items()}
    found: Tensor = eval(row.call, {}, {**names, **tensors})
    return found


def wanted(row: Row, arrays: dict[str, Array]) -> Array:
    known = {n: getattr(np, n) for n in dir(np) if not n.startswith("_")}
    text = row.expected or row.call
    exact = {name: to_double(array) for name, array in arrays.items()}
    with np.errstate(all="ignore"):
        return np.asarray(eval(text, {}, {**known, **oracle.FUNCTIONS, **exact}))


def compare(row: Row, name: str, got: Array, expected: Array) -> None:
    assert got.shape == expected.shape, row.call
    if got.dtype.kind in "biu" and expected.dtype.kind in "biu":
        np.testing.assert_array_equal(got.astype(expected.dtype), expected, err_msg=row.call)
        return
    with np.errstate(over="ignore", invalid="ignore"):
        ends = expected.astype(got.dtype).astype(np.float64)
    expected = np.where(np.isinf(ends), ends, expected)  # what is too large for the type
    own = TOLERANCE.get(str(got.dtype), TOLERANCE.get(name, 1e-6)) if got.dtype.kind in "fV" else 0
    close = max(own, TOLERANCE.get(name, 0.0)) * row.close
    scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0)))
    np.testing.assert_allclose(
        got.astype(np.float64), expected.astype(np.float64), rtol=close, atol=close * scale,
        err_msg=row.call,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "name", "kind"), cases())
def test_every_function(backend: str, name: str, kind: str) -> None:
    rows = [row for found in ROWS.values() for row in found if kind in row.kinds]
    for sizes in ((3, 4), (3, 20)) if FULL else ((3, 4),):
        arrays = data.arrays(name, *sizes)
        place = {"device": backend} if backend in DEVICES else {"backend": backend}
        with settings.override(**place):
            results = [called(row, arrays) for row in rows]
            porism.realize(*results)
            found = [result.numpy() for result in results]
        for row, got in zip(rows, found, strict=True):
            compare(row, name, got, wanted(row, arrays))


def test_every_public_function_is_in_the_table() -> None:
    """A new function needs a row, or a reason for having none."""
    public = {
        name
        for module, names in namespace.MODULES.items()
        if module not in MODULES_NOT_COMPUTED
        for name in names.split()
    }
    assert not public - ROWS.keys() - NOT_COMPUTED.keys(), "functions without a row"
    assert not (ROWS.keys() | NOT_COMPUTED.keys()) - public, "rows of functions that are not there"
    assert not MODULES_NOT_COMPUTED.keys() - namespace.MODULES.keys()


def test_a_row_calls_its_function() -> None:
    for name, rows in ROWS.items():
        assert rows
        for row in rows:
            assert f"{name}(" in row.call, name
            assert set(row.kinds) <= set("fib")
