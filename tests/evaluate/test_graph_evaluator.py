"""Graph evaluator: tensor graphs, compared with NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.base import dtypes
from porism.base.dtypes import f32, i32, index
from porism.base.errors import EvaluationError, ShapeError
from porism.evaluate import evaluate, inspect
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.facts.semantics import cast
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from tests.evaluate.programs import Array, arange, num, sink, tensor, unwrapped
from tests.graphs import examples, parameters, tensor_graphs


def move(op: Any, x: UOp, *sizes: int | UOp, arg: Any = None) -> UOp:
    numbers = tuple(num(s) if isinstance(s, int) else s for s in sizes)
    return UOp(op, None, (x, *numbers), arg)


X = tensor(0, 2, 3)
DATA = arange(2, 3) + 1

MOVEMENTS: dict[str, tuple[UOp, Any]] = {
    "reshape": (move(ops.RESHAPE, X, 3, 2), DATA.reshape(3, 2)),
    "permute": (move(ops.PERMUTE, X, arg=(1, 0)), DATA.T),
    "expand": (
        move(ops.EXPAND, move(ops.RESHAPE, X, 2, 1, 3), 2, 4, 3),
        np.broadcast_to(DATA[:, None], (2, 4, 3)),
    ),
    "pad": (move(ops.PAD, X, 1, 0, 2, 3), np.pad(DATA, ((1, 0), (2, 3)))),
    "shrink": (move(ops.SHRINK, X, 1, 2, 0, 2), DATA[1:2, 0:2]),
    "flip": (move(ops.FLIP, X, arg=(1,)), DATA[:, ::-1]),
    "contiguous": (UOp(ops.CONTIGUOUS, None, (X,)), DATA),
    "copy": (UOp(ops.COPY, None, (X,), "other"), DATA),
    "sum": (UOp(ops.REDUCE_AXIS, None, (X,), (ops.ADD, (1,))), DATA.sum(1, keepdims=True)),
    "product": (UOp(ops.REDUCE_AXIS, None, (X,), (ops.MUL, (0, 1))), DATA.prod(keepdims=True)),
    "max": (UOp(ops.REDUCE_AXIS, None, (X,), (ops.MAX, (0,))), DATA.max(0, keepdims=True)),
    "min": (UOp(ops.REDUCE_AXIS, None, (X,), (ops.MIN, (0,))), DATA.min(0, keepdims=True)),
    "elementwise": (X * X + X, DATA * DATA + DATA),
    "with a constant": (X * 2.0, DATA * 2),
}


@pytest.mark.parametrize("name", MOVEMENTS)
def test_against_numpy(name: str) -> None:
    graph, expected = MOVEMENTS[name]
    actual = unwrapped(evaluate(graph, {0: DATA}))
    np.testing.assert_array_equal(actual, expected)
    assert actual.dtype == np.float32
    assert [d.arg for d in shape(graph)] == list(np.shape(expected))


def test_softmax() -> None:
    x = tensor(0, 4, 8)

    def rows(op: Any, value: UOp) -> UOp:
        reduced = UOp(ops.REDUCE_AXIS, None, (value,), (op, (1,)))
        return move(ops.EXPAND, reduced, 4, 8)

    powers = ops.EXP2(x - rows(ops.MAX, x))
    data = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    expected = np.exp2(data - data.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    actual = unwrapped(evaluate(powers / rows(ops.ADD, powers), {0: data}))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_matmul_by_movement_ops() -> None:
    a = move(ops.EXPAND, move(ops.RESHAPE, tensor(0, 3, 4), 3, 4, 1), 3, 4, 5)
    b = move(ops.EXPAND, move(ops.RESHAPE, tensor(1, 4, 5), 1, 4, 5), 3, 4, 5)
    product = UOp(ops.REDUCE_AXIS, None, (a * b,), (ops.ADD, (1,)))
    actual = unwrapped(
        evaluate(move(ops.RESHAPE, product, 3, 5), {0: arange(3, 4), 1: arange(4, 5)})
    )
    np.testing.assert_array_equal(actual, arange(3, 4) @ arange(4, 5))


def test_gather_by_index() -> None:
    table, where = tensor(0, 5, 2), tensor(1, 3, dtype=i32)
    i, j = UOp.range(3, 0), UOp.range(2, 1)
    row = where.index(i).cast(index)
    numbers = np.array([4, 0, 4], np.int32)
    actual = unwrapped(evaluate(table.index(row, j), {0: arange(5, 2), 1: numbers}))
    np.testing.assert_array_equal(actual, arange(5, 2)[numbers])


def test_symbolic_dims() -> None:
    n = UOp.variable("n", 1, 8)
    x = tensor(0, n, 2)
    flat = move(ops.RESHAPE, x, n * 2)
    padded = move(ops.PAD, flat, 0, n)
    for rows in (1, 3):
        data = arange(rows, 2)
        actual = unwrapped(evaluate(padded, {0: data}, {"n": rows}))
        np.testing.assert_array_equal(actual, np.pad(data.reshape(-1), (0, rows)))


def test_vectors_as_elements_of_a_tensor() -> None:
    x = tensor(0, 3, dtype=f32.vec(2))
    actual = unwrapped(evaluate(move(ops.FLIP, x + x, arg=(0,)), {0: arange(3, 2)}))
    np.testing.assert_array_equal(actual, arange(3, 2)[::-1] * 2)


def test_assign_overwrites_a_view() -> None:
    x = tensor(0, 4, 3)
    part = move(ops.SHRINK, x, 1, 3, 0, 3)
    assigned = UOp(ops.ASSIGN, None, (part, part + 100.0))
    data = arange(4, 3)
    expected = data.copy()
    expected[1:3] += 100
    np.testing.assert_array_equal(unwrapped(evaluate(assigned, {0: data})), expected[1:3])
    np.testing.assert_array_equal(unwrapped(evaluate(sink(assigned), {0: data})), expected)
    assert data[1, 0] == 3, "what was given is not modified"


def test_several_results() -> None:
    one, two = evaluate(sink(X + X, X * X), {X: DATA})
    np.testing.assert_array_equal(one, DATA + DATA)
    np.testing.assert_array_equal(two, DATA * DATA)


def test_buffers_by_id_and_by_node() -> None:
    held = UOp(ops.BUFFER, f32, (num(2), num(3)), ("weights", "cpu"))
    for key in ("weights", held):
        np.testing.assert_array_equal(unwrapped(evaluate(held * 2.0, {key: DATA})), DATA * 2)


def test_bound_variables() -> None:
    n = UOp.variable("n", 0, 9)
    bound = UOp(ops.BIND, None, (n, num(4)))
    assert unwrapped(evaluate(bound + 1)) == 5
    assert unwrapped(evaluate(n + 1, {n: 3})) == 4


def test_an_index_is_exact_beyond_64_bits() -> None:
    i = UOp.range(3, 0)
    huge = UOp.const(index, 1 << 80)
    actual = unwrapped(evaluate((i + huge) * huge // 3 % 1000))
    assert actual.tolist() == [((k + (1 << 80)) * (1 << 80) // 3) % 1000 for k in range(3)]
    shifted = unwrapped(evaluate(ops.SHL(i + 1, num(70)) >> 68))
    assert shifted.tolist() == [4, 8, 12]
    square = unwrapped(evaluate((i + (1 << 61)) * (i + (1 << 61)) - (1 << 122)))
    assert square.tolist() == [(k + (1 << 61)) ** 2 - (1 << 122) for k in range(3)]


@pytest.mark.slow
def test_a_graph_of_great_depth() -> None:
    x = tensor(0, 2)
    total = x
    for _ in range(100_000):
        total = UOp(ops.ADD, None, (total, x))
    actual = unwrapped(evaluate(total, {0: np.ones(2, np.float32)}))
    np.testing.assert_array_equal(actual, [100_001, 100_001])
    assert shape(total)[0].arg == 2


def test_inspect_shows_what_is_invalid_and_what_is_undefined() -> None:
    i = UOp.range(4, 0)
    value = inspect((i < 3).where(ops.IDIV(num(6), i), UOp(ops.INVALID)))
    assert value.valid[:, 0].tolist() == [True, True, True, False]
    assert value.undefined[:, 0].tolist() == [True, False, False, False]
    assert value.data[1:3, 0].tolist() == [6, 3]


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (lambda: X + tensor(1, 3, 2), "ADD of tensors of shapes"),
        (lambda: move(ops.RESHAPE, X, 4), "cannot reshape (2, 3) to (4,)"),
        (lambda: move(ops.EXPAND, X, 2, 6), "cannot expand (2, 3) to (2, 6)"),
        (lambda: move(ops.PERMUTE, X, arg=(0,)), "PERMUTE with axes (0,)"),
        (lambda: move(ops.FLIP, X, arg=(2,)), "FLIP with axes (2,)"),
        (lambda: move(ops.PAD, X, 1, 1), "PAD of a tensor of 2 axes with 2 numbers"),
        (lambda: move(ops.PAD, X, -1, 0, 0, 0), "cannot pad (2, 3) by (-1, 0, 0, 0)"),
        (lambda: move(ops.SHRINK, X, 0, 3, 0, 3), "cannot take 0 … 3 of an axis of size 2"),
    ],
)
def test_shapes_that_do_not_fit(graph: Any, words: str) -> None:
    with pytest.raises(ShapeError) as error:
        evaluate(graph(), {0: DATA, 1: arange(3, 2)})
    assert words in error.value.what
    assert error.value.where is not None
    assert error.value.fix is not None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "nothing is given for PARAM: p0"),
        ({0: arange(3, 3)}, "an array of shape (3, 3)"),
        ({0: arange(5)}, "a buffer of 5 elements"),
        ({0: DATA.astype(np.float64)}, "an array of float64"),
    ],
)
def test_inputs_that_do_not_fit(given: dict[Any, Any], words: str) -> None:
    with pytest.raises(EvaluationError) as error:
        evaluate(X, given)
    assert words in error.value.what


# -- random graphs against a plain interpreter -----------------------------------------------------


def interpret(root: UOp, data: dict[int, Array]) -> Array:
    """Return the result of a graph, computed by NumPy functions."""
    env: dict[UOp, Array] = {}
    for node in toposort(root):
        src = [env[s] for s in node.src]
        sizes = [int(s) for s in src[1:]] if node.op.group is ops.MOVEMENT else []
        if node.op is ops.CONST:
            env[node] = np.full((), node.arg, node.dtype.numpy)
        elif node.op is ops.PARAM:
            env[node] = data[node.arg]
        elif node.op is ops.RESHAPE:
            env[node] = src[0].reshape(sizes)
        elif node.op is ops.PERMUTE:
            env[node] = np.transpose(src[0], node.arg)
        elif node.op is ops.EXPAND:
            env[node] = np.broadcast_to(src[0], sizes)
        elif node.op is ops.FLIP:
            env[node] = np.flip(src[0], node.arg)
        elif node.op is ops.PAD:
            pairs = list(zip(sizes[::2], sizes[1::2], strict=True))
            env[node] = np.pad(src[0], pairs) if pairs else src[0]
        elif node.op is ops.SHRINK:
            parts = zip(sizes[::2], sizes[1::2], strict=True)
            env[node] = src[0][tuple(slice(a, b) for a, b in parts)]
        elif node.op is ops.REDUCE_AXIS:
            env[node] = fold(node, src[0])
        elif node.op is ops.CONTIGUOUS:
            env[node] = src[0]
        elif node.op is ops.CAST:
            env[node] = cast(node.src[0].dtype, node.dtype, src[0])
        else:
            assert node.op.meaning is not None
            env[node] = np.asarray(node.op.meaning(node.src[-1].dtype, *src))
    return env[root]


def fold(node: UOp, value: Array) -> Array:
    """Return a reduction, one element after the other."""
    op, axes = node.arg
    assert op.meaning is not None
    kept = [a for a in range(value.ndim) if a not in axes]
    rows = value.transpose(*axes, *kept).reshape(-1, *[value.shape[a] for a in kept])
    if not axes:
        return value
    total: Array = rows[0]
    if op is ops.ADD and node.dtype.is_float:
        total = total + node.dtype.numpy.type(0)  # a sum starts from 0.0, not from -0.0
    for row in rows[1:]:
        total = np.asarray(op.meaning(node.dtype, total, row))
    return total.reshape([1 if a in axes else n for a, n in enumerate(value.shape)])


def contents(root: UOp, seed: int) -> dict[int, Array]:
    rng = np.random.default_rng(seed)
    actual: dict[int, Array] = {}
    for node in parameters(root):
        dims = [int(s.arg) for s in node.src]
        if node.dtype.is_float:
            actual[node.arg] = np.asarray(rng.normal(size=dims)).astype(node.dtype.numpy)
        else:
            low, high = 0 if node.dtype.min >= 0 else -9, 2 if node.dtype is dtypes.boolean else 9
            actual[node.arg] = np.asarray(rng.integers(low, high, dims)).astype(node.dtype.numpy)
    return actual


@examples(100)
@given(tensor_graphs(), st.integers(0, 99))
def test_random_graphs_against_numpy(graph: UOp, seed: int) -> None:
    data = contents(graph, seed)
    with np.errstate(all="ignore"):
        expected = interpret(graph, data)
    actual = unwrapped(evaluate(graph, data))
    assert actual.shape == expected.shape == tuple(d.vmin for d in shape(graph))
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
    assert math.prod(actual.shape) == actual.size
