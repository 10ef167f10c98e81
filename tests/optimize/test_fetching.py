"""What the heuristic fetches of large buffers before it is read."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import porism
from porism.base import dtypes
from porism.base.dtypes import DType
from porism.base.target import GENERIC_CPU
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.optimize import heuristic
from porism.optimize.actions import Action
from porism.optimize.fetching import AHEAD
from porism.optimize.stream_actions import Prefetch

SMALL = dataclasses.replace(
    GENERIC_CPU,
    memory=dataclasses.replace(GENERIC_CPU.memory, l2=1 << 16, l3=1 << 18),
    cores=2,
)


def pointer(number: int, size: int, dtype: DType) -> UOp:
    return UOp(ops.PARAM, dtype.pointer(size=size), (), number)


def rows(count: int, length: int, dtype: DType = dtypes.f32, apart: int = 0) -> UOp:
    """The sums of rows, each so many elements after the one before."""
    i, k = UOp.range(count, 0), UOp.range(length, 1, Axis.REDUCE)
    apart = apart or length
    x = pointer(1, count * apart, dtype)
    total = x.index(i * apart + k).reduce(ops.ADD, k)
    return ops.SINK(pointer(0, count, dtype).index(i).store(total).end(i))


def fetched(actions: tuple[Action, ...]) -> list[Prefetch]:
    return [action for action in actions if isinstance(action, Prefetch)]


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64, dtypes.i32])
@pytest.mark.parametrize("length", [64, 100, 1000, 4096])
def test_what_is_read_in_order_is_fetched_some_lines_ahead(dtype: DType, length: int) -> None:
    kernel = rows((1 << 18) // length, length, dtype)
    (action,) = fetched(heuristic.chosen(kernel, SMALL))
    assert action.buffer == 1
    arranged = heuristic.arranged(kernel, SMALL)
    (said,) = arranged.arg[1:]
    assert AHEAD // 2 < said[1] * dtype.numpy.itemsize <= AHEAD


def test_not_what_a_cache_holds() -> None:
    assert fetched(heuristic.chosen(rows(64, 1024), SMALL))
    assert not fetched(heuristic.chosen(rows(63, 1024), SMALL))


def test_not_where_much_is_computed() -> None:
    i = UOp.range(1 << 18, 0)
    x = pointer(1, 1 << 18, dtypes.f32).index(i)
    place = pointer(0, 1 << 18, dtypes.f32).index(i)
    slow = place.store(ops.TANH(x) * ops.EXP(-x * x)).end(i)
    assert fetched(heuristic.chosen(ops.SINK(place.store(ops.EXP(x)).end(i)), SMALL))
    assert not fetched(heuristic.chosen(ops.SINK(slow), SMALL))


def test_not_what_is_far_apart() -> None:
    assert fetched(heuristic.chosen(rows(1024, 256), SMALL))
    assert not fetched(heuristic.chosen(rows(1024, 256, apart=2048), SMALL))


def test_of_all_buffers_that_are_read_in_order() -> None:
    i = UOp.range(1 << 18, 0)
    value = pointer(1, 1 << 18, dtypes.f32).index(i) + pointer(2, 1 << 18, dtypes.f32).index(i)
    store = pointer(0, 1 << 18, dtypes.f32).index(i).store(value)
    chosen = fetched(heuristic.chosen(ops.SINK(store.end(i)), SMALL))
    assert [action.buffer for action in chosen] == [1, 2]


def test_not_what_is_read_from_the_end() -> None:
    i = UOp.range(1 << 18, 0)
    value = pointer(1, 1 << 18, dtypes.f32).index(i * -1 + ((1 << 18) - 1))
    store = pointer(0, 1 << 18, dtypes.f32).index(i).store(value)
    assert not fetched(heuristic.chosen(ops.SINK(store.end(i)), SMALL))


def test_the_next_row_where_rows_are_gone_over_twice() -> None:
    i = UOp.range(1024, 0)
    first, second = UOp.range(256, 1, Axis.REDUCE), UOp.range(256, 2, Axis.REDUCE)
    x = pointer(1, 1 << 18, dtypes.f32)
    most = x.index(i * 256 + first).reduce(ops.MAX, first)
    total = (x.index(i * 256 + second) - most).reduce(ops.ADD, second)
    store = pointer(0, 1024, dtypes.f32).index(i).store(total)
    assert fetched(heuristic.chosen(ops.SINK(store.end(i)), SMALL)) == [Prefetch(1, "r0", 1)]


def test_less_far_ahead_where_rows_are_read_in_turn() -> None:
    x, matrix = (porism.asarray(np.ones(dims, np.float32)) for dims in ((512,), (512, 1024)))
    (kernel,) = porism.kernels(x @ matrix)
    wide = dataclasses.replace(SMALL, vector_bits=(128, 256, 512))
    (said,) = heuristic.arranged(kernel.node, wide).arg[1:]
    assert said[:2] == (2, AHEAD // 2 // 4)
