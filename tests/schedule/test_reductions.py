"""Tensor programs that only select or count lose their loops, and keep every bit of the result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from porism.base.dtypes import DType, f16, f32, i8, i32, i64, index
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rewrite.graph_rewrite import rewrite
from porism.rules.reductions.reduction_rules import FAST_REDUCTIONS, REDUCTIONS
from porism.rules.rule_sets import SYMBOLIC
from porism.schedule.rangeify.rangeify import rangeify
from porism.tensor import primitive
from porism.tensor.api.cumulative import scan_last
from porism.tensor.primitive import Dim

RULES = REDUCTIONS + SYMBOLIC
FAST = REDUCTIONS + FAST_REDUCTIONS + SYMBOLIC

NUMBERS = np.asarray([3, -1, 6, 0, 7], np.int64)
FAR = np.asarray([1 << 32, -(1 << 63), 2, 5, (1 << 63) - 1], np.int64)
TABLE = np.asarray(
    [[1.5, -0.0, math.inf], [2, math.nan, 3], [4, 5, 6], [-0.0, 0, -1], *[[7, 8, 9]] * 3],
    np.float32,
)


def param(number: int, dtype: DType, *dims: Dim) -> UOp:
    return ops.PARAM(*map(primitive.as_dim, dims), dtype=dtype, arg=number)


def positions(dtype: DType, sizes: tuple[int, ...], axis: int) -> UOp:
    return primitive.cast(primitive.iota(sizes, axis), dtype)


def column(x: UOp, *sizes: int) -> UOp:
    """A vector along the first axis, repeated along others."""
    return primitive.expand(primitive.reshape(x, (sizes[0], *[1] * (len(sizes) - 1))), sizes)


def one_hot(ids: UOp, classes: int) -> UOp:
    sizes = (int(shape(ids)[0].arg), classes)
    return column(ids, *sizes).eq(positions(ids.dtype, sizes, 1))


def in_loops(root: UOp, data: Mapping[int, Any], rules: Any = RULES) -> int:
    """How many loops are left to reduce over; the results are the same, bit by bit."""
    sink = ops.SINK(root)
    looped = rangeify(sink).sink
    after = rewrite(looped, rules)
    expected, actual = evaluate(sink, data)[0], evaluate(after, data)[0]
    assert actual.dtype == expected.dtype
    assert actual.reshape(expected.shape).tobytes() == expected.tobytes()
    return sum(node.op is ops.REDUCE for node in toposort(after))


@pytest.mark.parametrize("dtype", [index, i32, i64, f16, f32])
def test_counting_by_summing_ones_up(dtype: DType) -> None:
    """`arange` as `cumsum` of ones."""
    assert in_loops(scan_last(primitive.full(dtype, 1, (20,)), ops.ADD), {}) == 0


def test_counting_by_windows() -> None:
    """The number of ones in each window of a padded row of ones: by movement alone."""
    size = 9
    ones = primitive.pad(primitive.full(i32, 1, (size,)), ((size - 1, 0),))
    wide = 2 * size - 1
    rows = primitive.expand(primitive.reshape(ones, (1, wide)), (size + 1, wide))
    flat = primitive.reshape(rows, ((size + 1) * wide,))
    shifted = primitive.reshape(primitive.shrink(flat, ((0, size * (wide + 1)),)), (size, wide + 1))
    windows = primitive.shrink(shifted, ((0, size), (0, size)))
    assert in_loops(primitive.reduce(windows, ops.ADD, (1,)), {}) == 0


@pytest.mark.parametrize("numbers", [NUMBERS, FAR])
def test_embedding(numbers: Any) -> None:
    """A row of a table, chosen by a sum over all rows."""
    sizes = (5, 7, 3)
    chosen = column(param(0, i64, 5), *sizes).eq(positions(i64, sizes, 1))
    rows = primitive.broadcast(param(1, f32, 7, 3), sizes)
    picked = ops.WHERE(chosen, rows, UOp.const(f32, 0.0))
    root = primitive.reduce(picked, ops.ADD, (1,))
    assert in_loops(root, {0: numbers, 1: TABLE}) == 0


def test_embedding_as_a_product() -> None:
    """0 * inf is NaN, so that a product with a one-hot matrix is a sum of all rows, by default."""
    sizes = (5, 7, 3)
    chosen = column(param(0, i64, 5), *sizes).eq(positions(i64, sizes, 1))
    rows = primitive.broadcast(param(1, f32, 7, 3), sizes)
    root = primitive.reduce(ops.MUL(primitive.cast(chosen, f32), rows), ops.ADD, (1,))
    assert in_loops(root, {0: NUMBERS, 1: TABLE}) == 1
    finite = np.abs(np.arange(21, dtype=np.float32).reshape(7, 3))
    assert in_loops(root, {0: NUMBERS, 1: finite}, FAST) == 0


@pytest.mark.parametrize("dtype", [i8, i32, i64])
@pytest.mark.parametrize("total", [i32, i64, f32])
def test_integers_are_selected_through_the_cast_of_their_sum(dtype: DType, total: DType) -> None:
    """`sum(x * (i == r))`, which is added up in a wider type than it is multiplied in."""
    sizes = (5, 7, 3)
    chosen = column(param(0, i64, 5), *sizes).eq(positions(i64, sizes, 1))
    rows = primitive.broadcast(param(1, dtype, 7, 3), sizes)
    product = ops.MUL(rows, primitive.cast(chosen, dtype))
    table = np.asarray([*range(-10, 9), 127, -128]).reshape(7, 3).astype(dtype.numpy)
    for ids in (NUMBERS, FAR):
        root = primitive.reduce(primitive.cast(product, total), ops.ADD, (1,))
        assert in_loops(root, {0: ids, 1: table}) == 0


def test_floats_that_cannot_be_infinite_are_selected() -> None:
    """An integer as a float is neither NaN nor infinite, but in f16."""
    sizes = (5, 7, 3)
    chosen = column(param(0, i64, 5), *sizes).eq(positions(i64, sizes, 1))
    words = primitive.broadcast(param(1, i32, 7, 3), sizes)
    table = np.asarray([*range(-10, 10), 1 << 30], np.int32).reshape(7, 3)
    for dtype, loops in ((f32, 0), (f16, 1)):
        product = ops.MUL(primitive.cast(chosen, dtype), primitive.cast(words, dtype))
        root = primitive.reduce(product, ops.ADD, (1,))
        assert in_loops(root, {0: NUMBERS, 1: table}) == loops


@pytest.mark.parametrize("dtype", [i32, f32])
@pytest.mark.parametrize("numbers", [NUMBERS, FAR])
def test_one_hot(dtype: DType, numbers: Any) -> None:
    """How many ones there are in a row, and where."""
    hot = primitive.cast(one_hot(param(0, i64, 5), 7), dtype)
    data = {0: numbers}
    assert in_loops(hot, data) == 0
    assert in_loops(primitive.reduce(hot, ops.ADD, (1,)), data) == 0
    weighted = hot * positions(dtype, (5, 7), 1)
    assert in_loops(primitive.reduce(weighted, ops.ADD, (1,)), data) == 0
    assert in_loops(primitive.reduce(one_hot(param(0, i64, 5), 7), ops.OR, (1,)), data) == 0


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("dtype", [i32, i64, f16, f32])
def test_triangles(dtype: DType, axes: tuple[int, ...]) -> None:
    """How many elements of a triangular mask are set: rows and columns in closed form."""
    sizes = (6, 9)
    for first, second in ((0, 1), (1, 0)):
        mask = primitive.iota(sizes, first) <= primitive.iota(sizes, second)
        assert in_loops(primitive.reduce(primitive.cast(mask, dtype), ops.ADD, axes), {}) <= (
            len(axes) - 1
        )


def test_diagonals() -> None:
    data = {0: np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)}
    x = param(0, f32, 4, 4)
    eye = primitive.iota((4, 4), 0).eq(primitive.iota((4, 4), 1))
    masked = ops.WHERE(eye, x, UOp.const(f32, 0.0))
    assert in_loops(primitive.reduce(masked, ops.ADD, (1,)), data) == 0
    assert in_loops(primitive.reduce(masked, ops.ADD, (0, 1)), data) == 1


def test_counting_lengths() -> None:
    """`sum(k >= length)`: the seed's own example, for lengths as far as they go."""
    sizes = (5, 64)
    for numbers in (NUMBERS, FAR):
        late = positions(i64, sizes, 1) >= column(param(0, i64, 5), *sizes)
        for dtype in (i32, i64, f32):
            root = primitive.reduce(primitive.cast(late, dtype), ops.ADD, (1,))
            assert in_loops(root, {0: numbers}) == 0


def test_a_sum_over_what_was_repeated() -> None:
    """Over a broadcast axis: integers are multiplied, floats are not."""
    for dtype, left in ((i32, 0), (f32, 1)):
        x = primitive.expand(primitive.reshape(param(0, dtype, 6), (6, 1)), (6, 10))
        data = {0: np.asarray([1, 2, 3, 5, 7, 11], dtype.numpy)}
        assert in_loops(primitive.reduce(x, ops.ADD, (1,)), data) == left
        assert in_loops(primitive.reduce(x, ops.MAX, (1,)), data) == 0


def test_products_of_matrices_keep_their_loops() -> None:
    a = primitive.expand(primitive.reshape(param(0, f32, 4, 5), (4, 1, 5)), (4, 3, 5))
    b = primitive.expand(primitive.reshape(param(1, f32, 3, 5), (1, 3, 5)), (4, 3, 5))
    generator = np.random.default_rng(1)
    data = {
        n: generator.standard_normal(s).astype(np.float32) for n, s in ((0, (4, 5)), (1, (3, 5)))
    }
    root = primitive.reduce(a * b, ops.ADD, (2,))
    assert in_loops(root, data) == 1
