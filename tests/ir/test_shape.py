"""Shapes of tensor graphs: sizes that are known, sizes that are symbolic, and those that misfit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from porism.base.dtypes import Space, f32, index
from porism.base.errors import ShapeError
from porism.ir import ops
from porism.ir.facts.node_shape import shape, to_text
from porism.ir.node import UOp
from tests.graphs import examples, tensor_graphs

N = UOp.variable("n", 1, 8)


def num(value: int) -> UOp:
    return UOp.const(index, value)


def tensor(*dims: int | UOp, number: int = 0) -> UOp:
    sizes = tuple(num(d) if isinstance(d, int) else d for d in dims)
    return UOp(ops.PARAM, f32, sizes, number)


def move(op: Any, x: UOp, *sizes: int | UOp, arg: Any = None) -> UOp:
    return UOp(op, None, (x, *(num(s) if isinstance(s, int) else s for s in sizes)), arg)


X = tensor(2, N)
I = UOp.range(3, 0)  # noqa: E741 - a loop

FITTING = [
    (X, "(2, n)"),
    (tensor(), "()"),
    (num(3), "()"),
    (N + 1, "()"),
    (I * 2, "()"),
    (X + UOp.const(f32, 1), "(2, n)"),
    (X + X, "(2, n)"),
    (X.cast(index), "(2, n)"),
    ((X < X).where(X, X), "(2, n)"),
    (move(ops.RESHAPE, X, N, 2), "(n, 2)"),
    (move(ops.RESHAPE, X, N * 2), "(n * 2,)"),
    (move(ops.RESHAPE, tensor(), 1, 1), "(1, 1)"),
    (move(ops.PERMUTE, X, arg=(1, 0)), "(n, 2)"),
    (move(ops.EXPAND, tensor(1, 3), N, 3), "(n, 3)"),
    (move(ops.EXPAND, X, 2, N), "(2, n)"),
    (move(ops.PAD, X, 1, 2, 0, 0), "(5, n)"),
    (move(ops.PAD, X, 0, 0, 0, 3), "(2, n + 3)"),
    (move(ops.SHRINK, X, 0, 1, 0, N), "(1, n)"),
    (move(ops.SHRINK, tensor(9), 2, 6), "(4,)"),
    (move(ops.FLIP, X, arg=(0,)), "(2, n)"),
    (UOp(ops.REDUCE_AXIS, None, (X,), (ops.ADD, (0, 1))), "(1, 1)"),
    (UOp(ops.CONTIGUOUS, None, (X,)), "(2, n)"),
    (UOp(ops.COPY, None, (X,), "gpu"), "(2, n)"),
    (UOp(ops.ASSIGN, None, (X, X)), "(2, n)"),
    (X.index(I, I), "()"),
    (X.index(I, I).reduce(ops.ADD, I), "()"),
    (UOp(ops.BUFFERIZE, None, (X.index(I, num(0)), I, num(0)), Space.GLOBAL), "(3, 1)"),
]


@pytest.mark.parametrize(("node", "expected"), FITTING, ids=[n.op.name for n, _ in FITTING])
def test_shapes(node: UOp, expected: str) -> None:
    assert to_text(shape(node)) == expected
    assert shape(node) is shape(node)


MISFITTING = [
    (X + tensor(2, 3), "ADD of tensors of shapes (2, n) and (2, 3)"),
    (X + tensor(2), "ADD of tensors of shapes (2, n) and (2,)"),
    (UOp(ops.ASSIGN, None, (X, tensor(1, N))), "ASSIGN of tensors of shapes"),
    (move(ops.RESHAPE, tensor(2, 3), 4), "cannot reshape (2, 3) to (4,)"),
    (move(ops.RESHAPE, X, 17), "cannot reshape (2, n) to (17,)"),
    (move(ops.EXPAND, X, 4, N), "cannot expand (2, n) to (4, n)"),
    (move(ops.EXPAND, tensor(1), -1), "EXPAND with the size -1"),
    (move(ops.EXPAND, tensor(), 3), "cannot expand () to (3,)"),
    (move(ops.PERMUTE, X, arg=(0, 1, 2)), "PERMUTE by (0, 1, 2) of a tensor of shape (2, n)"),
    (move(ops.FLIP, X, arg=(2,)), "FLIP of axis 2"),
    (UOp(ops.REDUCE_AXIS, None, (X,), (ops.ADD, (5,))), "REDUCE_AXIS of axis 5"),
    (move(ops.PAD, X, 1, 1), "PAD of a tensor of shape (2, n) with 2 numbers"),
    (move(ops.PAD, tensor(2), -1, 0), "PAD with the size -1"),
    (move(ops.SHRINK, tensor(2), 0, 3), "cannot take 0 … 3 of an axis of size 2"),
    (move(ops.SHRINK, tensor(2), 2, 1), "cannot take 2 … 1"),
    (move(ops.SHRINK, tensor(2), -1, 1), "cannot take -1 … 1"),
]


@pytest.mark.parametrize(("node", "words"), MISFITTING, ids=[words for _, words in MISFITTING])
def test_shapes_that_do_not_fit(node: UOp, words: str) -> None:
    for _ in range(2):  # nothing wrong is remembered
        with pytest.raises(ShapeError) as error:
            shape(node)
        assert words in error.value.what
        assert error.value.where is not None
        assert error.value.why is not None
        assert error.value.fix is not None


def test_a_pointer_has_no_shape() -> None:
    pointer = UOp(ops.PARAM, f32.pointer(), (), 0)
    with pytest.raises(ShapeError, match="PARAM has no shape"):
        shape(pointer)
    with pytest.raises(ShapeError, match="SINK has no shape"):
        shape(UOp(ops.SINK, None, (X,)))


def test_a_deep_graph() -> None:
    node = X
    for _ in range(30_000):
        node = UOp(ops.NEG, None, (node,))
    assert shape(node) is shape(X)


@examples(60)
@given(tensor_graphs(empty=True))
def test_random_graphs_have_constant_shapes(graph: UOp) -> None:
    assert all(dim.op is ops.CONST for dim in shape(graph))
