"""Scatter against loops that write one value after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError, TypeMismatch
from porism.ir.facts.semantics import Array
from tests.tensor.oracle import FLOATS, INTEGERS, agree, draw, refuses

MERGE: dict[str | None, Callable[[Any, Any], Any]] = {
    None: lambda old, new: new,
    "add": np.add,
    "multiply": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def reference_scatter(x: Array, axis: int, index: Array, src: Array, reduce: str | None) -> Array:
    result = x.copy()
    for place in np.ndindex(index.shape):
        target = list(place)
        target[axis] = int(index[place])
        if -x.shape[axis] <= target[axis] < x.shape[axis]:
            spot = tuple(target)
            result[spot] = MERGE[reduce](result[spot], src[place])
    return result


CASES: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = [
    ((5,), 0, (3,)),
    ((5,), 0, (9,)),
    ((3, 4), 0, (5, 4)),
    ((3, 4), 1, (3, 6)),
    ((3, 4), -1, (2, 3)),
    ((2, 3, 4), 1, (1, 5, 2)),
    ((3, 4), 1, (3, 0)),
    ((1,), 0, (4,)),
    ((0, 3), 1, (0, 2)),
]


@pytest.mark.parametrize("reduce", MERGE)
@pytest.mark.parametrize(("shape", "axis", "indices"), CASES, ids=str)
def test_shapes(
    shape: tuple[int, ...], axis: int, indices: tuple[int, ...], reduce: str | None
) -> None:
    x, src = draw("float64", shape), draw("float64", tuple(n + 1 for n in indices), seed=1)
    size = shape[axis]
    # Also from the end, and outside on both sides.
    index = np.random.default_rng(0).integers(-size - 1, size + 1, indices)
    actual = porism.scatter(x, axis, index, src, reduce=reduce)
    agree(actual, reference_scatter(x, axis, index, src, reduce))


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("reduce", [None, "add", "max"])
def test_types(reduce: str | None, name: str) -> None:
    x, src = draw(name, (6,)), draw(name, (4,), seed=1)
    index = np.array([1, 3, 1, 5], "int32")
    agree(
        porism.scatter(x, 0, index, src, reduce=reduce),
        reference_scatter(x, 0, index, src, reduce),
        name,
    )


def test_the_last_value_wins() -> None:
    actual = porism.scatter(porism.zeros(3), 0, [1, 1, 1], porism.asarray([5.0, 7.0, 6.0]))
    agree(actual, np.array([0, 6, 0], "float32"))


def test_a_number_as_the_source() -> None:
    actual = porism.scatter(porism.zeros((2, 3)), 1, [[0, 2], [1, 1]], 1.0, reduce="add")
    agree(actual, np.array([[1, 0, 1], [0, 2, 0]], "float32"))


def test_bools() -> None:
    actual = porism.scatter(np.zeros(4, bool), 0, np.array([2]), np.array([True]))
    agree(actual, np.array([False, False, True, False]))


def test_the_functions_by_reduction() -> None:
    x, src = draw("float32", (4,)), draw("float32", (3,), seed=1)
    index = np.array([0, 2, 0])
    agree(porism.scatter_add(x, 0, index, src), reference_scatter(x, 0, index, src, "add"))
    agree(porism.scatter_min(x, 0, index, src), reference_scatter(x, 0, index, src, "min"))
    agree(porism.scatter_max(x, 0, index, src), reference_scatter(x, 0, index, src, "max"))


def test_infinities_reach_only_their_elements() -> None:
    src = np.array([np.inf, np.nan], "float32")
    actual = porism.scatter_add(porism.zeros(4), 0, np.array([1, 3]), src)
    agree(actual, np.array([0, np.inf, 0, np.nan], "float32"))


def test_half_precision_is_accumulated_in_single() -> None:
    actual = porism.scatter_add(np.zeros(1, "float16"), 0, np.zeros(3000, int), np.ones(3000, "f2"))
    agree(actual, np.array([3000], "float16"))


@pytest.mark.parametrize("axis", [0, 1])
def test_index_add(axis: int) -> None:
    x, index = draw("float64", (4, 5)), np.array([0, 3, 0])
    source = draw("float64", (3, 5) if axis == 0 else (4, 3), seed=1)
    expected = x.copy()
    moved = np.moveaxis(expected, axis, 0)
    np.add.at(moved, index, 2.0 * np.moveaxis(source, axis, 0))
    agree(porism.index_add(x, axis, index, source, alpha=2.0), expected)


def test_bincount() -> None:
    x = np.array([1, 2, 2, 0, 4, 2])
    agree(porism.bincount(x, length=6), np.bincount(x, minlength=6))
    agree(porism.bincount(x, length=3), np.array([1, 1, 3]))
    agree(porism.bincount(np.array([-1, 0]), length=2), np.array([1, 0]))
    agree(porism.bincount(np.zeros(0, "int32"), length=2), np.array([0, 0]))
    weights = draw("float64", (6,))
    agree(porism.bincount(x, weights, length=5), np.bincount(x, weights))


ERRORS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x.scatter(1, [[0]], [[1.0]], reduce="mean"), "scatter with reduce='mean'"),
    (lambda x: x.scatter(2, [[0]], [[1.0]]), "there is no axis 2"),
    (lambda x: x.scatter(1, [0], [1.0]), "scatter into shape (2, 3) with indices of shape (1,)"),
    (lambda x: x.scatter(1, [[0, 1]], [[1.0]]), "with indices of shape (1, 2) and values of shape"),
    (lambda x: x.scatter(1, [[0], [0], [0]], 1.0), "scatter into shape (2, 3)"),
    (lambda x: x.index_add(0, [[0]], x), "index_add into shape (2, 3)"),
    (lambda x: x.index_add(0, [0], x), "index_add into shape (2, 3)"),
    (lambda x: porism.bincount([[1]], length=2), "bincount of a tensor of shape (1, 1)"),
    (lambda x: porism.bincount([1], [1.0, 2.0], length=2), "with weights of shape (2,)"),
]


@pytest.mark.parametrize(("call", "what"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Callable[[Any], Any], what: str) -> None:
    x = porism.zeros((2, 3))
    with refuses(ShapeError, what):
        call(x)


def test_types_that_do_not_fit() -> None:
    x = porism.zeros(3)
    with refuses(TypeMismatch, "scatter of a tensor of float32"):
        x.scatter(0, porism.zeros(1), porism.zeros(1))
    with refuses(TypeMismatch, "scatter of int64 into a tensor of float32"):
        x.scatter(0, [0], porism.asarray([1]))
    with refuses(TypeMismatch, "bincount of a tensor of float32"):
        porism.bincount(x, length=3)
