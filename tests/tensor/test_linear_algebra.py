"""Products of vectors and matrices against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError, TypeMismatch
from porism.base.target import GENERIC_CPU
from porism.ir import ops
from porism.ir.traversal import toposort
from porism.schedule.algorithms import symmetric_product
from tests.tensor.oracle import FLOATS, INTEGERS, agree, draw, refuses, to_double

SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((1, 1), (1, 1)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
    ((0, 2, 3), (3, 1)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_matmul_shapes(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = draw("float64", left), draw("float64", right, seed=1)
    agree(porism.matmul(a, b), np.matmul(a, b))


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
def test_matmul_types(name: str) -> None:
    a, b = draw(name, (3, 5)), draw(name, (5, 4), seed=1)
    agree(porism.asarray(a) @ porism.asarray(b), to_double(a) @ to_double(b), name)


def test_half_precision_is_accumulated_in_single() -> None:
    ones = np.ones((1, 4096), "float16")
    agree(porism.matmul(ones, ones.T), np.full((1, 1), 4096, "float16"))
    # Products that f16 does not hold cancel.
    a = np.array([[300, 300]], "float16")
    agree(porism.matmul(a, np.array([[300], [-300]], "float16")), np.zeros((1, 1), "float16"))


def test_integers_wrap_in_their_own_type() -> None:
    a = np.full((1, 4), 100, "int8")
    agree(porism.matmul(a, a.T), a @ a.T)


def test_types_are_promoted() -> None:
    a, b = draw("float32", (2, 3)), draw("float64", (3, 2))
    agree(porism.matmul(a, b), a @ b)


def test_views() -> None:
    a = draw("float32", (4, 3))
    x = porism.asarray(a)
    agree(x.matrix_transpose() @ x, a.T @ a)
    agree(x.flip(axis=0)[::2] @ x[:3], a[::-1][::2] @ a[:3])


def test_vecdot() -> None:
    a, b = draw("float64", (2, 3, 4)), draw("float64", (3, 4), seed=1)
    agree(porism.vecdot(a, b), (a * b).sum(-1))
    agree(porism.vecdot(a, b, axis=-2), (a * b).sum(-2))


@pytest.mark.parametrize(
    ("left", "right"), [((2, 3), (5, 3, 4)), ((3,), (3,)), ((), (2,)), ((2, 3), (3,)), ((), ())]
)
def test_dot(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = draw("float64", left), draw("float64", right, seed=1)
    agree(porism.dot(a, b), np.dot(a, b))


def test_outer() -> None:
    a, b = draw("int32", (3,)), draw("int32", (2, 2))
    agree(porism.outer(a, b), np.outer(a, b))


@pytest.mark.parametrize(
    "axes", [0, 1, 2, ([1, 2], [0, 1]), ([2], [1]), ([-1, 0], [1, 2])], ids=str
)
def test_tensordot(axes: Any) -> None:
    a, b = draw("float64", (4, 3, 4)), draw("float64", (3, 4, 4), seed=1)
    if axes == 1:
        b = draw("float64", (4, 3), seed=1)
    elif axes == ([2], [1]):
        b = draw("float64", (2, 4), seed=1)
    agree(porism.tensordot(a, b, axes=axes), np.tensordot(a, b, axes))


def test_linear() -> None:
    x, weight, bias = draw("float32", (2, 5, 3)), draw("float32", (4, 3)), draw("float32", (4,))
    agree(porism.linear(x, weight, bias), x @ weight.T + bias)
    agree(porism.linear(x, weight[0]), x @ weight[0])


def test_trace() -> None:
    x = draw("int64", (2, 3, 4))
    agree(porism.trace(x), np.trace(x, axis1=-2, axis2=-1))
    agree(porism.trace(x, offset=1), np.trace(x, 1, axis1=-2, axis2=-1))


ERRORS: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda a, b: a @ b, "matmul of tensors of shapes (2, 3) and (4, 5)"),
    (lambda a, b: a @ b[0, 0], "matmul of a tensor of shape ()"),
    (lambda a, b: porism.vecdot(a, a, axis=0), "along axis 0"),
    (lambda a, b: porism.vecdot(a, b), "vecdot of tensors of shapes (2, 3) and (4, 5)"),
    (lambda a, b: porism.tensordot(a, b, axes=1), "tensordot of tensors of shapes"),
    (lambda a, b: porism.tensordot(a, b, axes=3), "tensordot over 3 axes"),
    (lambda a, b: porism.tensordot(a, b, axes=([0, 1], [0])), "tensordot with axes"),
    (lambda a, b: porism.linear(a, porism.zeros((2, 3, 4))), "linear with a weight of shape"),
    (lambda a, b: porism.zeros((2, 1, 3)) @ porism.zeros((3, 3, 1)), "do not go together"),
]


@pytest.mark.parametrize(("call", "what"), ERRORS, ids=[what for _, what in ERRORS])
def test_errors(call: Callable[[Any, Any], Any], what: str) -> None:
    a, b = porism.zeros((2, 3)), porism.zeros((4, 5))
    with refuses(ShapeError, what):
        call(a, b)


def test_bools_have_no_sum_of_products() -> None:
    with refuses(TypeMismatch, "matmul of a tensor of bool"):
        porism.matmul(np.ones((2, 2), bool), np.ones((2, 2), bool))


def is_halved(product: porism.Tensor) -> bool:
    """Whether the stage on symmetric products changes the graph: it gathers blocks."""
    graph = symmetric_product.halve_symmetric_products(product.node, GENERIC_CPU)
    return any(node.op is ops.GATHER for node in toposort(graph))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [6, 8, 11, 12, 13, 30, 33])
@pytest.mark.parametrize("dtype", ["float32", "int16", "float16"])
def test_half_of_a_symmetric_product(
    rows: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, value in (
        ("MIN_MULTIPLIES", 1),
        ("MIN_K", 1),
        ("MIN_BLOCK_ROWS", 2),
        ("BLOCK_MULTIPLE", 2),
    ):
        monkeypatch.setattr(symmetric_product, limit, value)
    grid = symmetric_product.choose_block_grid(rows, 5)
    assert grid is not None
    assert grid.computed_elements < rows * rows, "the test is about nothing"
    x = np.random.default_rng(rows).integers(-9, 9, (rows, 5)).astype(dtype)
    t = porism.asarray(x)
    assert is_halved(t @ t.T)
    np.testing.assert_array_equal((t @ t.T).numpy(), x @ x.T)
    np.testing.assert_array_equal((t.T.T @ t.T + 1).numpy(), x @ x.T + 1)
    other = porism.asarray(np.ascontiguousarray(x.T))
    np.testing.assert_array_equal((other.T @ other).numpy(), x @ x.T)


def test_other_products_are_not_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    x = porism.asarray(np.ones((64, 8)))
    assert symmetric_product.choose_block_grid(64, 8) is None
    for limit, value in (
        ("MIN_MULTIPLIES", 1),
        ("MIN_K", 1),
        ("MIN_BLOCK_ROWS", 8),
        ("BLOCK_MULTIPLE", 8),
    ):
        monkeypatch.setattr(symmetric_product, limit, value)
    others = (x @ (x + 1).T, x @ porism.ones(8, 64), x[None] @ x.T, x.T @ porism.flip(x, axis=0))
    for product in others:
        assert not is_halved(product)
    for product in (x @ x.T, porism.linear(x, x), porism.einsum("ij,kj->ik", x, x)):
        assert is_halved(product)
        np.testing.assert_array_equal(product.numpy(), np.full((64, 64), 8.0))
    twice = (x @ x.T) @ (x @ x.T).T
    np.testing.assert_array_equal(twice.numpy(), np.full((64, 64), 64 * 64.0))
