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
from porism.optimize.actions.action import Action
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.actions.memory.software_prefetch import Prefetch
from porism.optimize.strategy import heuristic
from porism.optimize.strategy.prefetch_placement import STREAM_DISTANCE, prefetch_prepacked

SMALL = dataclasses.replace(
    GENERIC_CPU,
    memory=dataclasses.replace(GENERIC_CPU.memory, l2=1 << 16, l3=1 << 18),
    cores=2,
)

WIDE = dataclasses.replace(SMALL, vector_bits=(128, 256, 512))


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
    (action,) = fetched(heuristic.choose_actions(kernel, SMALL))
    assert action.buffer == 1
    arranged = heuristic.schedule_loops(kernel, SMALL)
    (said,) = arranged.arg[1:]
    assert STREAM_DISTANCE // 2 < said[1] * dtype.numpy.itemsize <= STREAM_DISTANCE


def times_a_vector(count: int, length: int) -> UOp:
    """The rows of a matrix times a vector."""
    i, k = UOp.range(count, 0), UOp.range(length, 1, Axis.REDUCE)
    matrix = pointer(1, count * length, dtypes.f32).index(i * length + k)
    total = (matrix * pointer(2, length, dtypes.f32).index(k)).reduce(ops.ADD, k)
    return ops.SINK(pointer(0, count, dtypes.f32).index(i).store(total).end(i))


@pytest.mark.parametrize("count", [256, 300, 1024])
def test_of_several_rows_that_are_added_up(count: int) -> None:
    chosen = heuristic.choose_actions(times_a_vector(count, 4096), WIDE)
    (action,) = fetched(chosen)
    assert action.buffer == 1
    assert not fetched(heuristic.choose_actions(times_a_vector(8, 4096), WIDE))


def test_eight_rows_share_what_they_are_multiplied_with() -> None:
    chosen = heuristic.choose_actions(times_a_vector(1024, 4096), WIDE)
    assert Upcast("r0", 8) in chosen


def test_not_what_a_cache_holds() -> None:
    assert fetched(heuristic.choose_actions(rows(64, 1024), SMALL))
    assert not fetched(heuristic.choose_actions(rows(63, 1024), SMALL))


def test_not_where_much_is_computed() -> None:
    i = UOp.range(1 << 18, 0)
    x = pointer(1, 1 << 18, dtypes.f32).index(i)
    place = pointer(0, 1 << 18, dtypes.f32).index(i)
    slow = place.store(ops.TANH(x) * ops.EXP(-x * x)).end(i)
    assert fetched(heuristic.choose_actions(ops.SINK(place.store(ops.EXP(x)).end(i)), SMALL))
    assert not fetched(heuristic.choose_actions(ops.SINK(slow), SMALL))


def test_not_what_is_far_apart() -> None:
    assert fetched(heuristic.choose_actions(rows(1024, 256), SMALL))
    assert not fetched(heuristic.choose_actions(rows(1024, 256, apart=2048), SMALL))


def test_of_all_buffers_that_are_read_in_order() -> None:
    i = UOp.range(1 << 18, 0)
    value = pointer(1, 1 << 18, dtypes.f32).index(i) + pointer(2, 1 << 18, dtypes.f32).index(i)
    store = pointer(0, 1 << 18, dtypes.f32).index(i).store(value)
    chosen = fetched(heuristic.choose_actions(ops.SINK(store.end(i)), SMALL))
    assert [action.buffer for action in chosen] == [1, 2]


def test_not_what_is_read_from_the_end() -> None:
    i = UOp.range(1 << 18, 0)
    value = pointer(1, 1 << 18, dtypes.f32).index(i * -1 + ((1 << 18) - 1))
    store = pointer(0, 1 << 18, dtypes.f32).index(i).store(value)
    assert not fetched(heuristic.choose_actions(ops.SINK(store.end(i)), SMALL))


def test_the_next_row_where_rows_are_gone_over_twice() -> None:
    i = UOp.range(1024, 0)
    first, second = UOp.range(256, 1, Axis.REDUCE), UOp.range(256, 2, Axis.REDUCE)
    x = pointer(1, 1 << 18, dtypes.f32)
    most = x.index(i * 256 + first).reduce(ops.MAX, first)
    total = (x.index(i * 256 + second) - most).reduce(ops.ADD, second)
    store = pointer(0, 1024, dtypes.f32).index(i).store(total)
    assert fetched(heuristic.choose_actions(ops.SINK(store.end(i)), SMALL)) == [
        Prefetch(1, "r0", 1)
    ]


def test_less_far_ahead_where_rows_are_read_in_turn() -> None:
    x, matrix = (porism.asarray(np.ones(dims, np.float32)) for dims in ((512,), (512, 1024)))
    (kernel,) = porism.kernels(x @ matrix)
    wide = dataclasses.replace(SMALL, vector_bits=(128, 256, 512))
    (said,) = heuristic.schedule_loops(kernel.node, wide).arg[1:]
    assert said[:2] == (2, STREAM_DISTANCE // 2 // 4)


def test_the_last_terms_do_not_matter() -> None:
    chosen = heuristic.choose_actions(times_a_vector(256, 4100), WIDE)
    (action,) = fetched(chosen)
    assert action.within == (action.axis,)


def laid_out(panels: int, passes: int, length: int = 256, lanes: int = 32) -> UOp:
    """Some rows times a matrix that is laid out in panels of its columns."""
    j_0, i = UOp.range(panels, 0), UOp.range(passes, 1)
    k, j_1 = UOp.range(length, 2, Axis.REDUCE), UOp.range(lanes, (0, 1), Axis.UPCAST)
    size = panels * length * lanes
    matrix = pointer(2, size, dtypes.f32).index((j_0 * length + k) * lanes + j_1)
    rows = pointer(1, passes * length, dtypes.f32).index(i * length + k)
    total = (rows * matrix).reduce(ops.ADD, k)
    place = pointer(0, passes * panels * lanes, dtypes.f32).index((i * panels + j_0) * lanes + j_1)
    return ops.SINK(place.store(total).end(j_0, i, j_1))


def test_constants_are_fetched_ahead_of_the_first_of_a_few_passes() -> None:
    kernel = laid_out(64, 4)
    (said,) = prefetch_prepacked(kernel, [2], WIDE).arg[1:]
    assert said == (2, 4096 // 4, ())
    assert prefetch_prepacked(kernel, [1], WIDE) is kernel


@pytest.mark.parametrize(("panels", "passes"), [(64, 1), (64, 9), (1, 4)])
def test_constants_that_are_not_fetched(panels: int, passes: int) -> None:
    """They are read once, which is seen to be in order, or many times; or a cache holds them."""
    kernel = laid_out(panels, passes)
    assert prefetch_prepacked(kernel, [2], WIDE) is kernel
