"""Agreement: all iterations at once or in steps, threads in any order, graphs or lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from porism.base.dtypes import i32
from porism.evaluate import run_arrays, run_kernel, run_list
from porism.evaluate.threads.tracked_memory import lane_of
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from tests.evaluate.programs import Array, at, group, num, pointer, sink
from tests.graphs import (
    examples,
    kernels,
    lanes_graphs,
    linear_kernels,
    parameters,
    target_kernels,
)


def buffers_for(root: UOp, seed: int) -> list[Array]:
    """Return random contents for every PARAM of a kernel."""
    rng = np.random.default_rng(seed)
    actual: dict[int, Array] = {}
    for node in parameters(root):
        lane, size = lane_of(node.dtype), node.dtype.size
        if lane.is_float:
            actual[node.arg] = rng.normal(size=size).astype(lane.numpy)
        else:
            low, high = (0, 2) if lane.bits == 1 else (max(int(lane.min), -9), 9)
            actual[node.arg] = rng.integers(low, high, size).astype(lane.numpy)
    return [actual.get(k, np.zeros(1, np.float32)) for k in range(max(actual, default=-1) + 1)]


def copies(buffers: list[Array]) -> list[Array]:
    return [b.copy() for b in buffers]


def assert_same(ours: list[Array], theirs: list[Array]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


@examples(80)
@given(st.one_of(kernels(), lanes_graphs()), st.integers(0, 99))
def test_evaluation_at_once_and_in_steps_agree(kernel: UOp, seed: int) -> None:
    start = buffers_for(kernel, seed)
    at_once, in_order, backwards = copies(start), copies(start), copies(start)
    run_arrays(kernel, at_once)
    run_kernel(kernel, in_order)
    run_kernel(kernel, backwards, reverse=True)
    assert_same(at_once, in_order)
    assert_same(in_order, backwards)


@examples(60)
@given(target_kernels(), st.integers(0, 99))
def test_threads_may_run_in_any_order(kernel: UOp, seed: int) -> None:
    start = buffers_for(kernel, seed)
    in_order, backwards = copies(start), copies(start)
    run_kernel(kernel, in_order)
    run_kernel(kernel, backwards, reverse=True)
    assert_same(in_order, backwards)


@examples(60)
@given(linear_kernels(), st.integers(0, 99))
def test_lists_and_graphs_agree(nodes: list[UOp], seed: int) -> None:
    start = buffers_for(nodes[-1], seed)
    listed, ordered = copies(start), copies(start)
    run_list(nodes, listed)
    run_kernel(nodes[-1], ordered)
    assert_same(listed, ordered)


@st.composite
def nests(draw: st.DrawFn) -> UOp:
    """Draw nests of loops whose extents depend on outer loops, with reductions and stores."""
    kinds = st.sampled_from((Axis.LOOP, Axis.LOOP, Axis.GLOBAL, Axis.LOCAL, Axis.UPCAST))
    ranges: list[UOp] = []

    def loop(kind: Axis) -> UOp:
        end: UOp = num(draw(st.integers(0, 3)))
        if draw(st.booleans()) and ranges:
            end = draw(st.sampled_from(ranges)) + draw(st.integers(-1, 2))
        axis = draw(st.integers(0, 9)) * 10 + len(ranges)  # numbers do not follow the nesting
        return UOp.range(end, axis, kind)

    for _ in range(draw(st.integers(1, 3))):
        ranges.append(loop(draw(kinds)))
    place, size = num(0), 1
    for r in ranges:
        place, size = place * 8 + r, size * 8
    inner = [loop(Axis.REDUCE) for _ in range(draw(st.integers(1, 2)))]
    value = place
    for n, r in enumerate(inner):
        value = value * 3 + r + n
    total = value.cast(i32).reduce(draw(st.sampled_from((ops.ADD, ops.MAX))), *inner)
    if draw(st.booleans()):  # needs the first reduction, over one of its ranges
        r = inner[0]
        total = (total + r.cast(i32)).reduce(ops.ADD, r) + total
    store = at(pointer(0, size, i32), place).store(total)
    other = at(pointer(1, 1, i32), 0).store(num(7, i32))
    if all(r.arg[1] is Axis.LOOP for r in ranges) and draw(st.booleans()):
        store = group(store, other)  # happens as often, but is the same each time
    ended: UOp = store
    if draw(st.booleans()):
        return sink(ended.end(*ranges))
    for each in reversed(ranges):
        ended = ended.end(each)
    return sink(ended)


@examples(120)
@given(nests())
def test_nests_of_loops_agree(kernel: UOp) -> None:
    at_once = [np.zeros(512, np.int32), np.zeros(1, np.int32)]
    in_order = copies(at_once)
    run_arrays(kernel, at_once)
    run_kernel(kernel, in_order)
    assert_same(at_once, in_order)
