"""Prefetch placement: which loads of large buffers the heuristic prefetches."""

from __future__ import annotations

import dataclasses

import pytest

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
    """Return a kernel that sums rows, each `apart` elements after the one before."""
    i, k = UOp.range(count, 0), UOp.range(length, 1, Axis.REDUCE)
    apart = apart or length
    x = pointer(1, count * apart, dtype)
    total = x.index(i * apart + k).reduce(ops.ADD, k)
    return ops.SINK(pointer(0, count, dtype).index(i).store(total).end(i))


def prefetches(actions: tuple[Action, ...]) -> list[Prefetch]:
    return [action for action in actions if isinstance(action, Prefetch)]


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64, dtypes.i32])
@pytest.mark.parametrize("length", [64, 100, 1000, 4096])
def test_streams_are_prefetched_some_lines_ahead(dtype: DType, length: int) -> None:
    kernel = rows((1 << 18) // length, length, dtype)
    (action,) = prefetches(heuristic.choose_actions(kernel, SMALL))
    assert action.buffer == 1
    scheduled = heuristic.schedule_loops(kernel, SMALL)
    (annotation,) = scheduled.arg[1:]
    assert STREAM_DISTANCE // 2 < annotation[1] * dtype.numpy.itemsize <= STREAM_DISTANCE


def times_a_vector(count: int, length: int) -> UOp:
    """Return a kernel that multiplies a matrix with a vector."""
    i, k = UOp.range(count, 0), UOp.range(length, 1, Axis.REDUCE)
    matrix = pointer(1, count * length, dtypes.f32).index(i * length + k)
    total = (matrix * pointer(2, length, dtypes.f32).index(k)).reduce(ops.ADD, k)
    return ops.SINK(pointer(0, count, dtypes.f32).index(i).store(total).end(i))


def test_rows_that_are_read_in_turn_are_not_prefetched() -> None:
    """The hardware prefetcher keeps up with several streams; prefetches take longer."""
    assert not prefetches(heuristic.choose_actions(times_a_vector(1024, 4096), WIDE))
    assert prefetches(heuristic.choose_actions(rows(1024, 4096), WIDE))


def test_eight_rows_share_loads_of_the_vector() -> None:
    chosen = heuristic.choose_actions(times_a_vector(1024, 4096), WIDE)
    assert Upcast("r0", 8) in chosen


def test_cached_buffers_are_not_prefetched() -> None:
    assert prefetches(heuristic.choose_actions(rows(64, 1024), SMALL))
    assert not prefetches(heuristic.choose_actions(rows(63, 1024), SMALL))


def test_compute_bound_kernels_are_not_prefetched() -> None:
    i = UOp.range(1 << 18, 0)
    x = pointer(1, 1 << 18, dtypes.f32).index(i)
    place = pointer(0, 1 << 18, dtypes.f32).index(i)
    slow = place.store(ops.TANH(x) * ops.EXP(-x * x)).end(i)
    assert prefetches(heuristic.choose_actions(ops.SINK(place.store(ops.EXP(x)).end(i)), SMALL))
    assert not prefetches(heuristic.choose_actions(ops.SINK(slow), SMALL))


def test_strided_rows_are_not_prefetched() -> None:
    assert prefetches(heuristic.choose_actions(rows(1024, 256), SMALL))
    assert not prefetches(heuristic.choose_actions(rows(1024, 256, apart=2048), SMALL))


def test_all_streams_of_a_kernel_are_prefetched() -> None:
    i = UOp.range(1 << 18, 0)
    value = pointer(1, 1 << 18, dtypes.f32).index(i) + pointer(2, 1 << 18, dtypes.f32).index(i)
    store = pointer(0, 1 << 18, dtypes.f32).index(i).store(value)
    chosen = prefetches(heuristic.choose_actions(ops.SINK(store.end(i)), SMALL))
    assert [action.buffer for action in chosen] == [1, 2]


def test_reversed_streams_are_not_prefetched() -> None:
    i = UOp.range(1 << 18, 0)
    value = pointer(1, 1 << 18, dtypes.f32).index(i * -1 + ((1 << 18) - 1))
    store = pointer(0, 1 << 18, dtypes.f32).index(i).store(value)
    assert not prefetches(heuristic.choose_actions(ops.SINK(store.end(i)), SMALL))


def test_the_next_row_is_prefetched_where_two_passes_read_it() -> None:
    i = UOp.range(1024, 0)
    first, second = UOp.range(256, 1, Axis.REDUCE), UOp.range(256, 2, Axis.REDUCE)
    x = pointer(1, 1 << 18, dtypes.f32)
    most = x.index(i * 256 + first).reduce(ops.MAX, first)
    total = (x.index(i * 256 + second) - most).reduce(ops.ADD, second)
    store = pointer(0, 1024, dtypes.f32).index(i).store(total)
    assert prefetches(heuristic.choose_actions(ops.SINK(store.end(i)), SMALL)) == [
        Prefetch(1, "r0", 1)
    ]


def test_a_peeled_tail_is_ignored() -> None:
    chosen = heuristic.choose_actions(rows(256, 4100), WIDE)
    (action,) = prefetches(chosen)
    assert action.within == (action.axis,)


def prepacked(panels: int, passes: int, length: int = 256, lanes: int = 32) -> UOp:
    """Return a kernel that multiplies some rows with a matrix packed in panels of columns."""
    j_0, i = UOp.range(panels, 0), UOp.range(passes, 1)
    k, j_1 = UOp.range(length, 2, Axis.REDUCE), UOp.range(lanes, (0, 1), Axis.UPCAST)
    size = panels * length * lanes
    matrix = pointer(2, size, dtypes.f32).index((j_0 * length + k) * lanes + j_1)
    rows = pointer(1, passes * length, dtypes.f32).index(i * length + k)
    total = (rows * matrix).reduce(ops.ADD, k)
    place = pointer(0, passes * panels * lanes, dtypes.f32).index((i * panels + j_0) * lanes + j_1)
    return ops.SINK(place.store(total).end(j_0, i, j_1))


def test_prepacked_panels_of_a_few_passes_are_prefetched() -> None:
    kernel = prepacked(64, 4)
    (annotation,) = prefetch_prepacked(kernel, [2], WIDE).arg[1:]
    assert annotation == (2, 4096 // 4, ())
    assert prefetch_prepacked(kernel, [1], WIDE) is kernel


@pytest.mark.parametrize(("panels", "passes"), [(64, 1), (64, 9), (1, 4)])
def test_prepacked_panels_that_are_not_prefetched(panels: int, passes: int) -> None:
    """One pass, which hardware prefetches; many passes; or a panel that a cache holds."""
    kernel = prepacked(panels, passes)
    assert prefetch_prepacked(kernel, [2], WIDE) is kernel
