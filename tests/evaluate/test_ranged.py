"""Ranged graphs: INDEX, REDUCE, BUFFERIZE, validity and gates, for all iterations at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.base.dtypes import Space, boolean, f32, i32, index
from porism.base.errors import EvaluationError
from porism.evaluate import evaluate, run_arrays
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from tests.evaluate.programs import arange, at, num, pointer, sink, tensor, unwrapped
from tests.evaluate.test_graph_evaluator import contents
from tests.graphs import examples, ranged_graphs

INVALID = UOp(ops.INVALID)


def bufferize(value: UOp, *ranges: UOp, space: Space = Space.GLOBAL) -> UOp:
    return UOp(ops.BUFFERIZE, None, (value, *ranges), space)


def test_matmul() -> None:
    i, j, k = UOp.range(3, 0), UOp.range(5, 1), UOp.range(4, 2, Axis.REDUCE)
    product = tensor(0, 3, 4).index(i, k) * tensor(1, 4, 5).index(k, j)
    graph = bufferize(product.reduce(ops.ADD, k), i, j)
    actual = unwrapped(evaluate(graph, {0: arange(3, 4), 1: arange(4, 5)}))
    np.testing.assert_array_equal(actual, arange(3, 4) @ arange(4, 5))


def test_padding_by_invalid() -> None:
    """PAD as rangeify lowers it: INVALID as the index, WHERE on the value."""
    i = UOp.range(7, 0)
    inside = (i >= 2) & (i < 6)
    element = tensor(0, 4).index(inside.where(i - 2, INVALID))
    actual = unwrapped(evaluate(inside.where(element, num(0.0, f32)), {0: arange(4) + 1}))
    np.testing.assert_array_equal(actual, [0, 0, 1, 2, 3, 4, 0])
    np.testing.assert_array_equal(unwrapped(evaluate(element, {0: arange(4) + 1})), actual)


def test_invalid_goes_through_arithmetic() -> None:
    i = UOp.range(4, 0)
    masked = (i < 2).where(i, INVALID)
    for position in (masked * 2 + 1, (masked + 5) % 3, masked.maximum(7) - 6, masked.cast(i32)):
        element = tensor(0, 4).index(position)
        actual = unwrapped(evaluate(element, {0: arange(4) + 1}))
        assert actual[:2].all()
        assert not actual[2:].any()


def test_invalid_in_one_of_two_dims() -> None:
    i, j = UOp.range(3, 0), UOp.range(3, 1)
    element = tensor(0, 2, 2).index((i < 2).where(i, INVALID), (j < 2).where(j, INVALID))
    actual = unwrapped(evaluate(element, {0: arange(2, 2) + 1}))
    np.testing.assert_array_equal(actual, np.pad(arange(2, 2) + 1, ((0, 1), (0, 1))))


def test_an_undefined_operand_of_a_false_conjunction() -> None:
    """a & b does not depend on b where a is false, so conditions can be joined."""
    i = UOp.range(4, 0)
    some = i.ne(0)
    even = ops.IDIV(num(12), i).eq(6)
    assert unwrapped(evaluate(some & even)).tolist() == [False, False, True, False]
    assert unwrapped(evaluate(even & some)).tolist() == [False, False, True, False]
    assert unwrapped(evaluate(i.eq(0) | even)).tolist() == [True, False, True, False]
    with pytest.raises(EvaluationError, match="IDIV by zero"):
        evaluate(even)


def test_a_buffer_inside_a_loop_has_a_copy_for_each_iteration() -> None:
    i, j, k = UOp.range(3, 0), UOp.range(4, 1), UOp.range(4, 2)
    row = bufferize(tensor(0, 3, 4).index(i, j) * 2.0, j, space=Space.LOCAL)
    total = row.index(3 - k)
    actual = unwrapped(evaluate(total, {0: arange(3, 4)}))
    np.testing.assert_array_equal(actual, arange(3, 4)[:, ::-1] * 2)


def test_bufferize_over_indices_that_are_no_ranges() -> None:
    i = UOp.range(2, 0)
    lane = UOp(ops.UNROLL, None, (UOp(ops.VCONST, index.vec(3), (), (0, 1, 2)),), ((5, 3),))
    value = (i * 3 + lane).cast(f32)
    actual = unwrapped(evaluate(bufferize(value, i, num(0), lane)))
    np.testing.assert_array_equal(actual, arange(2, 1, 3))


def test_a_buffer_over_a_triangle_is_not_written_everywhere() -> None:
    i = UOp.range(3, 0)
    k = UOp.range(i + 1, 1)
    kept = bufferize((i * 3 + k).cast(f32), i, k)
    x, y = UOp.range(3, 2), UOp.range(3, 3)
    lower = (y <= x).where(kept.index(x, y), num(-1.0, f32))
    actual = unwrapped(evaluate(lower))
    np.testing.assert_array_equal(actual, np.where(np.tri(3), arange(3, 3), -1))
    with pytest.raises(EvaluationError, match="never written"):
        evaluate(kept.index(x, y))


def test_reductions_of_every_op() -> None:
    i, k = UOp.range(2, 0), UOp.range(3, 1, Axis.REDUCE)
    numbers = np.array([[6, 3, 5], [-4, 12, 7]], np.int32)
    element = tensor(0, 2, 3, dtype=i32).index(i, k)
    expected = {
        ops.ADD: numbers.sum(1),
        ops.MUL: numbers.prod(1),
        ops.MAX: numbers.max(1),
        ops.MIN: numbers.min(1),
        ops.AND: np.bitwise_and.reduce(numbers, 1),
        ops.OR: np.bitwise_or.reduce(numbers, 1),
    }
    for op, answer in expected.items():
        actual = unwrapped(evaluate(element.reduce(op, k), {0: numbers}))
        np.testing.assert_array_equal(actual, answer)


def test_a_reduction_over_a_range_it_does_not_use() -> None:
    k = UOp.range(5, 0)
    assert unwrapped(evaluate(num(3).reduce(ops.ADD, k))) == 15
    assert unwrapped(evaluate(num(2).reduce(ops.MUL, k))) == 32


def test_a_long_reduction_of_integers() -> None:
    k = UOp.range(1001, 0)
    assert unwrapped(evaluate(k.reduce(ops.ADD, k))) == 500_500
    square = (k * k).cast(i32).reduce(ops.MAX, k)
    assert unwrapped(evaluate(square)) == 1_000_000


def test_ranges_depend_on_variables() -> None:
    n = UOp.variable("n", 0, 5)
    k = UOp.range(n, 0)
    total = k.reduce(ops.ADD, k)
    assert [int(unwrapped(evaluate(total, {}, {"n": v}))) for v in range(5)] == [0, 0, 1, 3, 6]


def test_open_ranges_are_axes_of_the_result() -> None:
    i, j = UOp.range(2, 0), UOp.range(3, 1)
    np.testing.assert_array_equal(unwrapped(evaluate(j * 10 + i)), [[0, 10, 20], [1, 11, 21]])
    actual = unwrapped(evaluate(j * 10 + i, {j: 2}))
    np.testing.assert_array_equal(actual, [20, 21])


def test_vectors() -> None:
    i = UOp.range(2, 0)
    pair = UOp(ops.VECTORIZE, None, (i, i + 5))
    four = UOp(ops.CAT, None, (pair, pair * 2))
    actual = unwrapped(evaluate(four.gep(3, 0)))
    np.testing.assert_array_equal(actual, [[10, 0], [12, 1]])
    chosen = UOp(ops.WHERE, None, (i.eq(0), four, four + 100))  # one condition for all lanes
    np.testing.assert_array_equal(
        unwrapped(evaluate(chosen)), [[0, 5, 0, 10], [101, 106, 102, 112]]
    )


def test_lanes_of_an_access() -> None:
    """An index of four lanes gathers; one index reads consecutive ones; each lane has a gate."""
    base = pointer(0, 8)
    lanes = UOp(ops.VCONST, index.vec(4), (), (7, 0, 3, 9))
    gate = UOp(ops.VCONST, boolean.vec(4), (), (True, True, True, False))
    data = {0: arange(8)}
    gathered = UOp(ops.INDEX, f32.vec(4), (base, lanes, gate))
    assert unwrapped(evaluate(gathered, data)).tolist() == [7, 0, 3, 0]
    neighbours = UOp(ops.INDEX, f32.vec(4), (base, num(2)))
    assert unwrapped(evaluate(neighbours, data)).tolist() == [2, 3, 4, 5]


def test_unroll_and_contract_are_inverse() -> None:
    lanes = UOp(ops.VCONST, index.vec(6), (), tuple(range(6)))
    axes = ((1, 3), (0, 2))
    apart = UOp(ops.UNROLL, None, (lanes,), axes)
    np.testing.assert_array_equal(unwrapped(evaluate(apart)), [[0, 2, 4], [1, 3, 5]])
    assert unwrapped(evaluate(UOp(ops.CONTRACT, None, (apart,), axes))).tolist() == [*range(6)]
    swapped = UOp(ops.CONTRACT, None, (apart,), axes[::-1])
    assert unwrapped(evaluate(swapped)).tolist() == [0, 2, 4, 1, 3, 5]
    partly = UOp(ops.UNROLL, None, (lanes,), ((0, 3),))  # two lanes are left
    np.testing.assert_array_equal(unwrapped(evaluate(partly)), [[0, 1], [2, 3], [4, 5]])
    repeated = UOp(ops.CONTRACT, None, (num(7),), ((0, 2),))
    assert unwrapped(evaluate(repeated)).tolist() == [7, 7]


def test_stores_return_the_memory() -> None:
    i, k = UOp.range(3, 0, Axis.GLOBAL), UOp.range(2, 1, Axis.REDUCE)
    total = at(pointer(1, 6), i * 2 + k).load().reduce(ops.ADD, k)
    kernel = sink(at(pointer(0, 3), i).store(total).end(i))
    np.testing.assert_array_equal(unwrapped(evaluate(kernel, {1: arange(6)})), [1, 5, 9])


def test_a_tensor_is_stored_by_one_index_a_dimension() -> None:
    i, j = UOp.range(2, 0), UOp.range(3, 1)
    place = tensor(0, 3, 2).index(j, i)
    kernel = sink(place.store(tensor(1, 2, 3).index(i, j)).end(i, j))
    actual = unwrapped(evaluate(kernel, {1: arange(2, 3)}))
    np.testing.assert_array_equal(actual, arange(2, 3).T)


def test_a_read_after_the_end_sees_the_store() -> None:
    i, j = UOp.range(3, 0), UOp.range(3, 1)
    middle, out = pointer(1, 3), pointer(0, 3)
    first = at(middle, i).store(i.cast(f32) + 1.0).end(i)
    second = at(out, j).store(at(middle.after(first), 2 - j).load()).end(j)
    out_data, middle_data = np.zeros(3, np.float32), np.zeros(3, np.float32)
    run_arrays(sink(second), [out_data, middle_data])
    np.testing.assert_array_equal(out_data, [3, 2, 1])


@examples(60)
@given(ranged_graphs(), st.integers(0, 99))
def test_iterations_at_once_or_one_by_one_agree(graph: UOp, seed: int) -> None:
    data = contents(graph, seed)
    value, *ranges = graph.src
    together = unwrapped(evaluate(graph, data))
    assert together.shape == tuple(int(r.vmax) + 1 for r in ranges)
    places = list(itertools.product(*(range(int(r.vmax) + 1) for r in ranges)))
    for place in places[:: max(1, len(places) // 5)]:
        pinned = dict(zip(ranges, place, strict=True))
        alone = unwrapped(evaluate(value, {**data, **pinned}))
        np.testing.assert_array_equal(alone, together[place])
