"""Gradients of every public function, compared with finite differences in float64, and in float32.

The functions are those of the conformance table, each called as there, on numbers at which it has a
derivative: no two are equal, and none is an integer. Results that are no floats have none. A
function whose derivative is 0 is in the table of reasons below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import porism
from porism.tensor import namespace
from porism.tensor.tensor import Tensor
from tests.conformance.table import ROWS, Row
from tests.tiers import quick_every

STEP: Final = 1e-6
DIRECTIONS: Final = 3

Arrays = dict[str, np.ndarray[Any, Any]]

REASONS: Final = {
    "makes constants": (
        "full zeros ones empty full_like zeros_like ones_like empty_like arange linspace eye "
        "geomspace logspace tri"
    ),
    "is constant in steps": "floor ceil trunc round sign floor_divide",
    "is about integers": (
        "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift bitwise_invert"
    ),
    "is about the bits of a float": "nextafter",
    "makes a copy without a history": "tensor",
}
NO_DERIVATIVE: Final = {name: why for why, names in REASONS.items() for name in names.split()}
"""Public functions without a derivative that is not 0, and why."""


def smooth_arrays(rows: int = 3, columns: int = 4) -> Arrays:
    """The arrays of the conformance table, at generic points."""
    rng = np.random.default_rng(7)

    def draw(*shape: int) -> np.ndarray[Any, Any]:
        # a permutation of values that are far apart, so that a small step changes no order
        count = int(np.prod(shape))
        values = (np.arange(count) - count / 2 + 0.3) * (3.0 / max(count, 1)) * 1.618
        return rng.permutation(values).reshape(shape) + rng.uniform(0, 0.01, shape)

    x, y = draw(rows, columns), draw(rows, columns) + 0.05
    return {
        "x": x,
        "y": y,
        "row": draw(columns) * 1.1,
        "image": draw(1, 2, 6, 6),
        "taps": draw(3, 2, 2, 2),
        "places": np.array([1, 0, 2]),
        "order": np.stack([np.random.default_rng(k).permutation(columns) for k in range(rows)]),
        "positive_": np.abs(draw(rows, columns)) + 1,
        "small": np.abs(draw(rows, columns)) % 4,
        "unit": np.tanh(draw(rows, columns) * 0.3),
    }


def evaluate(row: Row, tensors: dict[str, Any]) -> list[Tensor]:
    names = {name: getattr(porism, name) for name in namespace.MODULE_OF}
    found = eval(row.call, {}, {**names, **tensors})
    return [found] if isinstance(found, Tensor) else [t for t in found if isinstance(t, Tensor)]


def used_arrays(row: Row, arrays: Arrays) -> list[str]:
    code = compile(row.call, row.call, "eval")
    names = {*code.co_names, *(n for c in code.co_consts for n in getattr(c, "co_names", ()))}
    return [name for name in arrays if name in names]


def weighted_sum(row: Row, arrays: Arrays, dtype: str) -> tuple[Callable[..., Any], list[Any]]:
    """The sum of random weights times the float results of a row, as a function of its arrays."""
    used = used_arrays(row, arrays)
    floats = [name for name in used if arrays[name].dtype.kind == "f"]
    others = {name: porism.asarray(arrays[name]) for name in used if name not in floats}

    def total(*values: Any) -> Any:
        results = evaluate(row, {**others, **dict(zip(floats, values, strict=True))})
        rng = np.random.default_rng(11)
        sums = []
        for result in results:
            if result.node.dtype.is_float:
                weights = rng.standard_normal(result.numpy().shape)
                # a scalar is float32 unless an array says otherwise
                sums.append((result.astype(dtype) * porism.asarray(weights.astype(dtype))).sum())
        return sum(sums[1:], sums[0])

    return total, [arrays[name].astype(dtype) for name in floats]


def returns_floats(row: Row) -> bool:
    """Whether a result of a row is a tensor of floats: other results have no derivative."""
    arrays = smooth_arrays()
    tensors = {name: porism.asarray(arrays[name]) for name in used_arrays(row, arrays)}
    return any(result.node.dtype.is_float for result in evaluate(row, tensors))


def rows_with_derivative() -> list[Row]:
    return [
        row
        for name, rows in ROWS.items()
        if name not in NO_DERIVATIVE
        for row in rows
        if "f" in row.kinds and returns_floats(row)
    ]


@pytest.mark.parametrize("row", rows_with_derivative(), ids=lambda row: row.call)
def test_gradients_are_finite_differences(row: Row) -> None:
    total, values = weighted_sum(row, smooth_arrays(), "float64")
    assert values, "nothing to differentiate by"
    tensors = [porism.asarray(value) for value in values]
    gradients = porism.grad(total, tuple(range(len(values))))(*tensors)
    porism.realize(gradients)
    rng = np.random.default_rng(13)
    for _ in range(DIRECTIONS):
        directions = [rng.standard_normal(value.shape) for value in values]
        ends = [
            total(*(porism.asarray(v + s * d) for v, d in zip(values, directions, strict=True)))
            for s in (STEP, -STEP)
        ]
        expected = (ends[0].item() - ends[1].item()) / (2 * STEP)
        found = sum((g.numpy() * d).sum() for g, d in zip(gradients, directions, strict=True))
        assert found == pytest.approx(expected, rel=2e-6, abs=2e-6), row.call


@pytest.mark.parametrize("row", quick_every(4, rows_with_derivative()), ids=lambda row: row.call)
def test_gradients_in_float32(row: Row) -> None:
    found = {}
    for dtype in ("float32", "float64"):
        total, values = weighted_sum(row, smooth_arrays(), dtype)
        tensors = [porism.asarray(value) for value in values]
        found[dtype] = porism.grad(total, tuple(range(len(values))))(*tensors)
    for narrow, wide in zip(found["float32"], found["float64"], strict=True):
        assert narrow.dtype == porism.float32
        expected = wide.numpy()
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        np.testing.assert_allclose(narrow.numpy(), expected, rtol=1e-4, atol=2e-5 * scale)


def test_functions_without_a_derivative_are_named() -> None:
    assert not NO_DERIVATIVE.keys() - ROWS.keys()
    arrays = smooth_arrays()
    for name in NO_DERIVATIVE:
        for row in ROWS[name]:
            if "f" not in row.kinds:
                continue
            used = {n: porism.asarray(arrays[n]) for n in used_arrays(row, arrays)}
            if not any(t.node.dtype.is_float for t in evaluate(row, used)) or not used:
                continue
            total, values = weighted_sum(row, arrays, "float64")
            if not values:
                continue
            gradients = porism.grad(total, tuple(range(len(values))))(*map(porism.asarray, values))
            assert all(not g.numpy().any() for g in gradients), row.call
