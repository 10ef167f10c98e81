"""Reductions of very many elements in two steps."""

from __future__ import annotations

import numpy as np
import pytest

from porism.base.dtypes import DType, f32, i32
from porism.evaluate import evaluate
from porism.ir import levels, ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.rules.reductions.reduction_splitting import MOST_PARTIAL_RESULTS, varying_axes
from porism.schedule.loops.split_reductions import split_reductions
from porism.schedule.rangeify.rangeify import rangeify
from porism.tensor import primitive
from porism.tensor.primitive import Dim
from tests.examples.long_reduction_examples import varying_axis_faults


def param(dtype: DType, *dims: Dim) -> UOp:
    return ops.PARAM(*map(primitive.as_dim, dims), dtype=dtype, arg=0)


def reduced(x: UOp, axes: tuple[int, ...], op: Op = ops.ADD) -> UOp:
    return ops.SINK(primitive.reduce(x, op, axes))


def between(sink: UOp) -> list[list[int]]:
    """The sizes of what is stored between the steps."""
    actual = (n for n in toposort(split_reductions(sink)) if n.op is ops.CONTIGUOUS)
    return [[int(dim.arg) for dim in shape(n)] for n in actual]


@pytest.mark.parametrize(
    ("dims", "axes", "sizes"),
    [
        ((65536,), (0,), [256, 1]),
        ((1 << 26,), (0,), [256, 1]),
        ((32768,), (0,), [256, 1]),
        ((32767,), (0,), None),  # the ratio is too small
        ((3, 40000), (1,), [250, 3, 1]),
        ((40000, 3), (0,), [250, 1, 3]),
        ((7, 100, 1000), (1, 2), [50, 7, 1, 1]),  # enough parts of the outer axis
        ((7, 40, 1000), (1, 2), [40, 7, 1, 1]),
        ((1000, 5, 100), (0, 2), [250, 1, 5, 1]),
        ((65537,), (0,), [256, 1]),  # one is left over
        ((1000003, 3), (0,), [250, 1, 3]),
        ((1009, 1013), (0, 1), [252, 1, 1]),
        ((11, 10007), (0, 1), [145, 1, 1]),  # the outer axis has too few parts
        ((1999, 1001), (0, 1), [222, 1, 1]),  # and not of the inner axis
        ((65536, 1 << 14), (0,), [8, 1, 1 << 14]),
        ((65536, 1 << 15), (0,), None),  # there is enough to be done in parallel
    ],
)
def test_which_are_split(
    dims: tuple[int, ...], axes: tuple[int, ...], sizes: list[int] | None
) -> None:
    sink = reduced(param(f32, *dims), axes)
    assert between(sink) == ([] if sizes is None else [sizes])
    if sizes is None:
        assert split_reductions(sink) is sink
    else:
        assert np.prod(sizes) <= MOST_PARTIAL_RESULTS
    levels.check(split_reductions(sink), levels.GRAPH)
    assert shape(split_reductions(sink).src[0]) == shape(sink.src[0])


@pytest.mark.parametrize("op", [ops.ADD, ops.MUL, ops.MAX, ops.MIN])
@pytest.mark.parametrize(
    ("dims", "axes"),
    [
        ((98304,), (0,)),
        ((3, 128, 256), (1, 2)),
        ((40000, 2), (0,)),
        ((65537,), (0,)),
        ((2, 40009), (1,)),
        ((3, 191, 211), (1, 2)),
    ],
)
def test_the_same_integers(op: Op, dims: tuple[int, ...], axes: tuple[int, ...]) -> None:
    data = {0: np.random.default_rng(0).integers(-99, 99, dims).astype(np.int32)}
    sink = reduced(param(i32, *dims), axes, op)
    after = split_reductions(sink)
    assert after is not sink
    np.testing.assert_array_equal(evaluate(after, data)[0], evaluate(sink, data)[0])


def test_floats_are_added_in_another_order() -> None:
    data = {0: np.random.default_rng(0).standard_normal(65536).astype(np.float32)}
    sink = reduced(param(f32, 65536), (0,))
    before, after = (evaluate(s, data)[0] for s in (sink, split_reductions(sink)))
    exact = data[0].astype(np.float64).sum()
    assert abs(after - exact) <= abs(before - exact) + 1e-3
    biggest = reduced(param(f32, 65536), (0,), ops.MAX)
    assert evaluate(biggest, data)[0] == evaluate(split_reductions(biggest), data)[0]


def test_it_takes_two_kernels() -> None:
    sink = reduced(param(f32, 1 << 26), (0,))
    assert len(rangeify(split_reductions(sink)).reasons) == 2


def test_what_is_left_over_is_read_once_more_by_the_second() -> None:
    sink = reduced(param(f32, 1000003) * 2.0, (0,))
    after = split_reductions(sink)
    parts = [n for n in toposort(after) if n.op is ops.SHRINK]
    assert sorted(int(shape(n)[0].arg) for n in parts) == [3, 1000000]
    assert len(rangeify(after).reasons) == 2


def test_one_with_a_rest_above_another() -> None:
    x = param(f32, 65537)
    mean = primitive.expand(primitive.reduce(x, ops.ADD, (0,)), (65537,))
    after = split_reductions(reduced(x - mean, (0,)))
    assert len([n for n in toposort(after) if n.op is ops.CONTIGUOUS]) == 2
    data = {0: np.ones(65537, np.float32)}
    assert evaluate(after, data)[0] == 65537 - 65537**2


def test_a_repeated_axis_is_not_split() -> None:
    row = primitive.reshape(param(f32, 40000), (1, 40000))
    table = primitive.expand(row, (65536, 40000))
    assert between(reduced(table, (0,))) == []
    assert between(reduced(table, (0, 1))) == [[250, 1, 1]]
    added = table + primitive.expand(row, (65536, 40000))
    assert between(reduced(added, (0,))) == []
    counted = added + primitive.cast(primitive.iota((65536, 40000), 0), f32)
    assert between(reduced(primitive.shrink(counted, ((0, 65536), (0, 7))), (0,))) != []


def test_one_reduction_above_another() -> None:
    """Each is split once."""
    x = param(f32, 40000, 40000)
    rows = primitive.contiguous(
        primitive.reduce(primitive.shrink(x, ((0, 40000), (0, 100))), ops.ADD, (1,))
    )
    whole = ops.SINK(primitive.reduce(rows, ops.ADD, (0,)))
    assert between(whole) == [[40000, 1], [250, 1, 1]]
    both = primitive.expand(primitive.reduce(param(f32, 1, 65536), ops.ADD, (1,)), (65536, 1))
    again = ops.SINK(
        primitive.reduce(both * primitive.iota((65536, 1), 0).cast(f32), ops.ADD, (0,))
    )
    assert sorted(between(again)) == [[256, 1, 1], [256, 1, 1]]


def test_a_reduction_of_none() -> None:
    sink = reduced(param(f32, 0, 5), (0,))
    assert split_reductions(sink) is sink


def test_axes_along_which_nothing_changes() -> None:
    x = primitive.expand(param(f32, 4, 1, 6), (4, 5, 6))
    cases: list[tuple[UOp, set[int]]] = [
        (x, {0, 2}),
        (primitive.permute(x, (1, 2, 0)), {1, 2}),
        (primitive.reshape(x, (4, 5, 2, 3)), {0, 2, 3}),
        (primitive.reshape(x, (20, 6)), {0, 1}),
        (primitive.reshape(primitive.permute(x, (0, 2, 1)), (24, 5)), {0}),
        (primitive.pad(x, ((0, 0), (1, 0), (0, 0))), {0, 1, 2}),
        (primitive.flip(x, (1,)), {0, 2}),
        (primitive.full(f32, 1, (3, 4)), set()),
        (primitive.iota((3, 4), 1), {1}),
        (x + primitive.iota((4, 5, 6), 1).cast(f32), {0, 1, 2}),
    ]
    for node, axes in cases:
        assert varying_axes(node, {}) == axes, node


def test_a_tensor_is_constant_along_axes_that_do_not_vary() -> None:
    assert [fault for fault in varying_axis_faults() if fault] == []
