"""One kernel for a computation that is asked for with one number after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import porism
from porism.engine.run import parametrize_constants, realize, run_plans
from porism.ir import ops
from porism.ir.traversal import toposort

X = np.random.default_rng(0).standard_normal((12, 10)).astype(np.float32)


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    """As in a new process, and left as it was."""
    tables: list[dict[Any, Any]] = [
        realize._schedules,
        run_plans._plans,
        parametrize_constants._templates,
        parametrize_constants._parametrized,
    ]
    before = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)


Program = Callable[[Any, Any, float], Any]
"""Of the module to compute with, x, and a number."""

NUMBERS: dict[str, Program] = {
    "a factor": lambda _, x, c: x * c,
    "a step": lambda _, x, c: x - c * (x + x),
    "a quotient": lambda _, x, c: x / c + c / x,
    "both sides": lambda m, x, c: m.where(x > c, x, c),
    "limits": lambda m, x, c: m.clip(x, -c, c),
    "spread": lambda m, x, c: m.full((12, 1), c, dtype=m.float32) + x,
    "inside of a sum": lambda m, x, c: m.sum(m.exp(x * c), axis=1),
    "a whole number": lambda m, x, c: m.astype(m.round(x * 8), m.int32) * int(c) + int(2 * c),
    "a comparison": lambda m, x, c: m.astype(m.round(x * 8), m.int8) == int(c),
    "half": lambda m, x, c: m.astype(x, m.float16) * m.asarray(c, dtype=m.float16),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_become_arguments(name: str) -> None:
    x = porism.asarray(X)
    for c in (1.5, 0.75, 3.0, 1.0, 1.5, 7.25):
        got = NUMBERS[name](porism, x, c).numpy()
        wanted = NUMBERS[name](np, X, c)
        np.testing.assert_allclose(got, wanted, rtol=2e-3 if "half" in name else 2e-5)
    assert len(realize._schedules) == 2, "one for the first number, one for all others"


SLICES: dict[str, Callable[[Any, int], Any]] = {
    "an element": lambda x, k: x[k, 2 * k],
    "a row": lambda x, k: x[k],
    "rows": lambda x, k: x[k : k + 4],
    "a column": lambda x, k: x[:, k],
    "a window": lambda x, k: x[k : k + 3, 5 - k : 9 - k],
    "of a part": lambda x, k: x[2:][k : k + 4, 1:],
    "turned": lambda x, k: x.T[k : k + 2],
    "summed": lambda x, k: x[k : k + 4].sum(axis=0),
    "of several": lambda x, k: x[k : k + 4] @ x[k],
}


@pytest.mark.parametrize("name", SLICES)
def test_places_become_variables(name: str) -> None:
    x = porism.asarray(X)
    for k in (1, 3, 0, 2, 1, 4):
        np.testing.assert_allclose(SLICES[name](x, k).numpy(), SLICES[name](X, k), rtol=1e-4)
    assert len(realize._schedules) == 2


def test_the_rows_of_a_loop() -> None:
    rows = [row.numpy() for row in porism.asarray(X)]
    np.testing.assert_array_equal(rows, X)
    assert len(realize._schedules) == 2


def test_what_does_not_change_stays_a_constant() -> None:
    x = porism.asarray(X)
    for c in (0.3, 0.4, 0.5):
        ((x * c + 0.125) / 3.0).realize()
    _, last = realize._schedules
    assert sum(node.op is ops.PARAM for node in toposort(last[0])) == 2
    for c in (0.3, 0.4, 0.5):
        got = ((x * 0.6 + c) / 3.0).numpy()
        np.testing.assert_allclose(got, (X * np.float32(0.6) + np.float32(c)) / 3, rtol=1e-6)
    assert len(realize._schedules) == 3, "both numbers are arguments from now on"


def test_the_same_bits() -> None:
    x = porism.asarray(X)
    numbers = (0.1, 1 / 3, -0.0, 0.0, 1.0, np.inf, -np.inf, np.nan, 1e-45, 3e38)

    def each(c: float) -> bytes:
        values = (x * c, x + c, porism.maximum(x, c), porism.where(x < c, x, c), x / c)
        return b"".join(value.numpy().tobytes() for value in values)

    generally = [each(c) for c in (0.7, *numbers)][1:]
    for c, bits in zip(numbers, generally, strict=True):
        run_plans.forget_plans()
        for table in (
            realize._schedules,
            parametrize_constants._templates,
            parametrize_constants._parametrized,
        ):
            table.clear()
        assert each(c) == bits, c


CONSTANTS: dict[str, Callable[[Any, Any, int], Any]] = {
    "a power": lambda _, x, k: x**k,
    "an index": lambda m, x, k: m.take(x, m.asarray([0, 1]) + k, axis=0),
    "a scaled index": lambda m, x, k: x[m.astype(m.arange(4) * (0.5 * k), m.int64)],
    "a size": lambda _, x, k: x[:k],
    "a border": lambda m, x, k: m.pad(x, ((k, 0), (0, 0))),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_numbers_that_stay(name: str) -> None:
    x = porism.asarray(X)
    for k in (2, 3, 4):
        got, wanted = CONSTANTS[name](porism, x, k), CONSTANTS[name](np, X, k)
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5)
    assert len(realize._schedules) == 3


def test_beside_variables_of_the_user() -> None:
    x = porism.asarray(X)
    for n, k in ((2, 1), (3, 2), (4, 0), (4, 5)):
        size = porism.Variable("n", 1, 6).bind(n)
        got = (x[:size].sum(axis=0) + x[k]).numpy()
        np.testing.assert_allclose(got, X[:n].sum(axis=0) + X[k], rtol=1e-5, atol=1e-6)
    assert len(realize._schedules) == 2


def test_old_forms_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parametrize_constants, "MAX_ENTRIES", 3)
    x = porism.asarray(X)
    for width in range(1, 9):
        for c in (2.5, 3.5, 4.5):
            np.testing.assert_array_equal((x[:, :width] * c).numpy(), X[:, :width] * np.float32(c))
    assert len(parametrize_constants._templates) == len(parametrize_constants._parametrized) == 3
