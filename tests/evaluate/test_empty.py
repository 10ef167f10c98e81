"""Empty loops: ranges of no iterations, and of one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.base import dtypes
from porism.base.dtypes import DType, Space
from porism.base.errors import EvaluationError
from porism.evaluate import evaluate, run_arrays, run_kernel, run_list
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from tests.evaluate.programs import accumulated, at, num, pointer, sink, tensor, unwrapped
from tests.evaluate.test_graph_evaluator import contents, interpret
from tests.graphs import examples, tensor_graphs

IDENTITIES: list[tuple[Op, DType, Any]] = [
    (ops.ADD, dtypes.f32, 0.0),
    (ops.ADD, dtypes.index, 0),
    (ops.MUL, dtypes.i8, 1),
    (ops.MAX, dtypes.f32, -math.inf),
    (ops.MAX, dtypes.i16, -(1 << 15)),
    (ops.MAX, dtypes.boolean, False),
    (ops.MAX, dtypes.fp8e4m3, -448.0),
    (ops.MIN, dtypes.f64, math.inf),
    (ops.MIN, dtypes.u8, 255),
    (ops.AND, dtypes.u32, (1 << 32) - 1),
    (ops.AND, dtypes.i64, -1),
    (ops.AND, dtypes.boolean, True),
    (ops.OR, dtypes.i32, 0),
    (ops.OR, dtypes.boolean, False),
]


def in_register(op: Op, value: UOp, loop: UOp) -> UOp:
    """Return a reduction in a register, which only the step-by-step evaluator has."""
    place = UOp(ops.DEFINE_REG, value.dtype.pointer(Space.REGISTER, 1), (), 0)
    return at(place.after(at(place, 0).store(value.reduce(op, loop))), 0).load()


@pytest.mark.parametrize(("op", "dtype", "expected"), IDENTITIES)
@pytest.mark.parametrize("wrap", [lambda op, x, r: x.reduce(op, r), in_register])
def test_an_empty_reduction_is_its_identity(op: Op, dtype: DType, expected: Any, wrap: Any) -> None:
    value = num(1, dtype)
    empty, one = UOp.range(0, 0), UOp.range(1, 0)
    actual = unwrapped(evaluate(wrap(op, value, empty)))
    assert actual.dtype == dtype.numpy
    assert float(actual) == expected
    assert unwrapped(evaluate(wrap(op, value, one))) == np.ones((), dtype.numpy)


@pytest.mark.parametrize("wrap", [lambda op, x, r: x.reduce(op, r), in_register])
def test_a_max_of_no_index_is_undefined(wrap: Any) -> None:
    n = UOp.variable("n", 0, 3)
    k = UOp.range(n, 0)
    graph = wrap(ops.MAX, k, k)
    assert unwrapped(evaluate(graph, {}, {"n": 3})) == 2
    with pytest.raises(EvaluationError, match="a MAX of no elements"):
        evaluate(graph, {}, {"n": 0})


def test_an_empty_axis_is_reduced_to_the_identity() -> None:
    x = tensor(0, 0, 3)
    total = UOp(ops.REDUCE_AXIS, None, (x,), (ops.ADD, (0,)))
    largest = UOp(ops.REDUCE_AXIS, None, (x,), (ops.MAX, (0, 1)))
    data = {0: np.zeros((0, 3), np.float32)}
    np.testing.assert_array_equal(unwrapped(evaluate(total, data)), np.zeros((1, 3)))
    np.testing.assert_array_equal(unwrapped(evaluate(largest, data)), [[-np.inf]])


@pytest.mark.parametrize("kind", [Axis.LOOP, Axis.GLOBAL, Axis.LOCAL])
def test_an_empty_range_suppresses_a_store(kind: Axis) -> None:
    """Also if the store does not depend on the range."""
    n = UOp.variable("n", 0, 3)
    i, j = UOp.range(2, 0), UOp.range(n, 1, kind)
    kernel = sink(at(pointer(0, 2), i).store(num(5.0, dtypes.f32)).end(i, j))
    for run in (run_arrays, run_kernel):
        for size, expected in ((0, [0, 0]), (1, [5, 5])):
            data = np.zeros(2, np.float32)
            run(kernel, [data], {"n": size})
            np.testing.assert_array_equal(data, expected)


def test_an_empty_loop_in_a_list() -> None:
    i = UOp.range(0, 0)
    store = at(pointer(0, 1), i).store(num(5.0, dtypes.f32))
    order = [n for n in toposort(store) if n.op is not ops.RANGE and i not in n.ranges]
    inside = [n for n in toposort(store) if n is not i and i in n.ranges]
    end = store.end(i)
    data = np.zeros(1, np.float32)
    run_list([*order, i, *inside, end, sink(end)], [data])
    assert data[0] == 0


def test_nothing_can_fail_in_an_empty_loop() -> None:
    i = UOp.range(0, 0)
    wild = at(pointer(1, 1), i + 99).load() + ops.IDIV(i, i).cast(dtypes.f32)
    kernel = sink(at(pointer(0, 1), i + 7).store(wild).end(i))
    for run in (run_arrays, run_kernel):
        run(kernel, [np.zeros(1, np.float32), np.zeros(1, np.float32)])


def test_a_range_of_one_is_zero() -> None:
    i = UOp.range(1, 0)
    assert unwrapped(evaluate(i + 7)).tolist() == [7]
    kernel = sink(at(pointer(0, 3), i + 2).store(num(5.0, dtypes.f32)).end(i))
    for run in (run_arrays, run_kernel):
        data = np.zeros(3, np.float32)
        run(kernel, [data])
        np.testing.assert_array_equal(data, [0, 0, 5])


def test_a_negative_size_is_no_iteration() -> None:
    n = UOp.variable("n", -5, 3)
    k = UOp.range(n, 0)
    for value in (-5, 0):
        assert unwrapped(evaluate(num(1).reduce(ops.ADD, k), {}, {"n": value})) == 0
        out = np.ones(1, np.float32)
        total = accumulated(num(1.0, dtypes.f32), k)
        run_kernel(sink(at(pointer(0, 1), 0).store(total)), [out], {"n": value})
        assert out[0] == 0


def test_a_sum_starts_from_zero() -> None:
    """So a sum of negative zeros is 0.0, as in NumPy and as in an accumulator."""
    k = UOp.range(2, 0)
    minus = num(-0.0, dtypes.f32)
    assert math.copysign(1, float(unwrapped(evaluate(minus.reduce(ops.ADD, k))))) == 1
    assert math.copysign(1, float(np.sum(np.full(2, -0.0, np.float32)))) == 1
    out = np.ones(1, np.float32)
    run_kernel(sink(at(pointer(0, 1), 0).store(accumulated(minus, k))), [out])
    assert math.copysign(1, float(out[0])) == 1


def test_threads_of_an_empty_launch_do_nothing() -> None:
    block = UOp(ops.SPECIAL, None, (UOp.variable("n", 0, 3),), "block0")
    kernel = sink(at(pointer(0, 3), block).store(num(5.0, dtypes.f32)))
    for size, expected in ((0, [0, 0, 0]), (2, [5, 5, 0])):
        data = np.zeros(3, np.float32)
        run_kernel(kernel, [data], {"n": size})
        np.testing.assert_array_equal(data, expected)


@examples(60)
@given(tensor_graphs(empty=True), st.integers(0, 9))
def test_random_tensors_without_elements(graph: UOp, seed: int) -> None:
    data = contents(graph, seed)
    actual = unwrapped(evaluate(graph, data))
    empty = any(
        n.op is ops.REDUCE_AXIS and 0 in unwrapped(evaluate(n.src[0], data)).shape
        for n in toposort(graph)
    )
    if not empty:  # the plain interpreter has no identities
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(actual, interpret(graph, data))
