"""Reductions against NumPy: types, axes, empty tensors, NaN."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError, TypeMismatch
from tests.tensor.oracle import (
    EIGHT_BITS,
    FLOATS,
    INTEGERS,
    SHAPES,
    TYPES,
    agree,
    draw,
    refuses,
    to_double,
)


def axes_of(shape: tuple[int, ...]) -> list[Any]:
    """Return None, every axis counted from both ends, and pairs of axes."""
    rank = len(shape)
    return [None, *range(-rank, rank), *itertools.combinations(range(rank), 2)]


def sum_type(name: str) -> str:
    """Return the type of a sum of values of a type."""
    if name.startswith(("float", "bfloat")):
        return name
    return "uint64" if name.startswith("uint") else "int64"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("function", ["sum", "prod", "any", "all", "count_nonzero"])
def test_axes(function: str, shape: tuple[int, ...]) -> None:
    x = draw("int64", shape)
    for axis, keepdims in itertools.product(axes_of(shape), (False, True)):
        expected = getattr(np, function)(x, axis=axis, keepdims=keepdims)
        agree(getattr(porism, function)(x, axis=axis, keepdims=keepdims), expected)


@pytest.mark.parametrize("name", [*TYPES, *EIGHT_BITS])
@pytest.mark.parametrize("function", ["sum", "prod"])
def test_types_of_sums(function: str, name: str) -> None:
    x = draw(name, (3, 4), scale=0.7)
    expected = getattr(np, function)(to_double(x), axis=1)
    agree(getattr(porism, function)(x, axis=1), expected, sum_type(name))


@pytest.mark.parametrize("name", [*TYPES, *EIGHT_BITS])
@pytest.mark.parametrize("function", ["max", "min"])
def test_types_of_extremes(function: str, name: str) -> None:
    x = draw(name, (3, 4))
    agree(getattr(porism, function)(x, axis=0), getattr(np, function)(x, axis=0), name)


@pytest.mark.parametrize("function", ["max", "min", "argmax", "argmin"])
def test_axes_of_extremes(function: str) -> None:
    x = draw("float32", (2, 3, 4))
    for axis in (None, 0, -1):
        expected = getattr(np, function)(x, axis=axis, keepdims=True)
        agree(getattr(porism, function)(x, axis=axis, keepdims=True), expected)
        agree(getattr(porism, function)(x, axis=axis), getattr(np, function)(x, axis=axis))


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("function", ["argmax", "argmin"])
def test_argmax_returns_the_first_extreme(function: str, name: str) -> None:
    x = draw(name, (4, 9), scale=1.0)
    x[:, 5:] = x[:, :4]
    agree(getattr(porism, function)(x, axis=1), getattr(np, function)(x, axis=1))


@pytest.mark.parametrize(
    "function", ["sum", "prod", "max", "min", "argmax", "argmin", "mean", "var"]
)
def test_nan_propagates(function: str) -> None:
    x = draw("float64", (3, 4))
    x[1, 2] = np.nan
    x[2, 1] = x[2, 3] = np.nan
    agree(getattr(porism, function)(x, axis=1), getattr(np, function)(x, axis=1))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("function", ["mean", "var", "std"])
def test_statistics(function: str, name: str) -> None:
    x = draw(name, (3, 8))
    for axis in (None, 0, (0, 1)):
        agree(
            getattr(porism, function)(x, axis=axis),
            getattr(np, function)(to_double(x), axis=axis),
            name,
        )


@pytest.mark.parametrize("correction", [0, 1, 0.5])
def test_correction(correction: float) -> None:
    x = draw("float32", (3, 5))
    agree(porism.var(x, axis=1, correction=correction), np.var(x, axis=1, ddof=correction))
    agree(
        porism.std(x, correction=correction, keepdims=True),
        np.std(x, ddof=correction, keepdims=True),
    )


def test_variance_without_degrees_of_freedom() -> None:
    agree(porism.var(np.ones((2, 1), "float32"), axis=1, correction=1), np.full(2, np.nan, "f4"))


def test_half_precision_is_accumulated_in_single() -> None:
    # In f16, 2048 + 1 is 2048 again, and squares above 256 are infinite.
    agree(porism.sum(np.ones(5000, "float16")), np.float16(5000))
    agree(porism.mean(np.full(300, 300, "float16")), np.float16(300))
    agree(porism.var(np.array([-300, 300], "float16")), np.float16(np.inf))
    agree(porism.std(np.array([-300, 300], "float16")), np.float16(300))


@pytest.mark.parametrize("name", INTEGERS)
def test_mean_of_integers_is_a_float(name: str) -> None:
    x = draw(name, (7,))
    agree(porism.mean(x), np.float32(np.mean(x)))


def test_small_integers_do_not_wrap() -> None:
    agree(porism.sum(np.full(300, 100, "int8")), np.int64(30000))
    agree(porism.sum(np.full(300, 200, "uint8"), dtype="uint8"), np.uint8(60000 % 256))


def test_dtype_converts_the_elements() -> None:
    agree(porism.sum(np.array([1, 2, 3], "int32"), dtype=porism.float32), np.float32(6))
    agree(porism.prod(np.array([True, True]), dtype="int8"), np.int8(1))


def test_empty_tensors() -> None:
    empty = np.zeros((0, 3), "float32")
    agree(porism.sum(empty, axis=0), np.zeros(3, "float32"))
    agree(porism.prod(empty, axis=0), np.ones(3, "float32"))
    agree(porism.all(empty, axis=0), np.ones(3, bool))
    agree(porism.mean(empty, axis=0), np.full(3, np.nan, "float32"))
    agree(porism.max(empty, axis=1), np.zeros(0, "float32"))
    agree(porism.norm(empty, np.inf, axis=0), np.zeros(3, "float32"))


ORDERS: list[float] = [1, 2, 3, 0, 0.5, np.inf, -np.inf]


@pytest.mark.parametrize("order", ORDERS)
def test_norm(order: float) -> None:
    x = draw("float64", (3, 4))
    agree(porism.norm(x, order, axis=1), np.linalg.norm(x, order, axis=1))
    agree(porism.vector_norm(x, ord=order), np.linalg.norm(x.reshape(-1), order))


@pytest.mark.parametrize("name", FLOATS)
def test_logsumexp(name: str) -> None:
    x = draw(name, (3, 4))
    agree(porism.logsumexp(x, axis=1), np.log(np.exp(to_double(x)).sum(1)), name)


def test_logsumexp_neither_overflows_nor_makes_nan() -> None:
    x = np.array([[1000.0, 1000.0], [-np.inf, -np.inf], [np.inf, 0.0], [-1e30, -1e30]], "float32")
    agree(porism.logsumexp(x, axis=1), np.array([1000.6931, -np.inf, np.inf, -1e30], "float32"))


def test_views_of_arrays_and_of_tensors() -> None:
    x = draw("float32", (4, 6))
    agree(porism.sum(x[::-1, ::2].T, axis=0), x[::-1, ::2].T.sum(0))
    lazy = porism.asarray(x)
    agree(lazy.permute_dims((1, 0)).flip(axis=0).sum(axis=0), x.T[::-1].sum(0))
    agree(lazy.max(axis=1).sum(), x.max(1).sum())


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda x: x.sum(axis=2), "there is no axis 2 in a tensor of 2 axes"),
        (lambda x: x.sum(axis=(0, -2)), "axis 0 is named twice"),
        (lambda x: x.max(axis=1), "max over axis 1 of a tensor of shape (2, 0)"),
        (lambda x: x.argmin(), "argmin over axis 0 of a tensor of shape (0,)"),
        (lambda x: x.logsumexp(axis=1), "logsumexp over axis 1 of a tensor of shape (2, 0)"),
    ],
)
def test_errors(call: Callable[[porism.Tensor], Any], what: str) -> None:
    x = porism.zeros((2, 0))
    with refuses(ShapeError, what):
        call(x)


def test_a_norm_of_no_order() -> None:
    with refuses(TypeMismatch, "a norm of order 'fro'"):
        porism.norm(porism.zeros(3), "fro")


def test_sums_of_integers_that_no_float_holds() -> None:
    """Constants above 2**53 are not rounded on the way to the closed form of a sum."""
    x, large = porism.arange(40, dtype="int64"), 2**53
    for first, second, limits in ((large + 1, large, (3, 3)), (large + 3, large + 1, (3, 2))):
        ours = porism.where(x < limits[0], first, 0) - porism.where(x < limits[1], second, 0)
        k = np.arange(40)
        theirs = np.where(k < limits[0], first, 0) - np.where(k < limits[1], second, 0)
        assert ours.astype("float64").sum().item() == float(theirs.astype(np.float64).sum())
        assert ours.sum().item() == int(theirs.sum())
