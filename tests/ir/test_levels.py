"""Levels: random graphs are valid where they should be, and each rule of a level has a message."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given

from porism.base import dtypes
from porism.base.dtypes import DType, Space
from porism.base.errors import LevelError
from porism.ir import levels, ops
from porism.ir.axis import Axis
from porism.ir.levels import GRAPH, KERNEL, LANES, LINEAR, RANGED, SCHEDULE, TARGET, Level, check
from porism.ir.node import UOp, raw
from porism.ir.ops import Group, Op
from tests import graphs


def make(op: Op, *src: UOp, dtype: DType | None = None, arg: Any = None) -> UOp:
    return raw(op, dtype, src, arg)


def number(value: int, dtype: DType = dtypes.index) -> UOp:
    return make(ops.CONST, dtype=dtype, arg=value)


# -- random graphs ---------------------------------------------------------------------------------


@given(graphs.tensor_graphs(empty=True))
@graphs.examples(70)
def test_tensor_graphs(root: UOp) -> None:
    check(root, GRAPH)


@given(graphs.ranged_graphs())
@graphs.examples(70)
def test_ranged_graphs(root: UOp) -> None:
    check(root, RANGED)
    assert root.ranges == ()


@given(graphs.kernels())
@graphs.examples(70)
def test_kernels(root: UOp) -> None:
    check(root, KERNEL)
    check(root, LANES)  # where nothing has been unrolled yet


@given(graphs.lanes_graphs())
@graphs.examples(70)
def test_lanes_graphs(root: UOp) -> None:
    check(root, LANES)


@given(graphs.target_kernels())
@graphs.examples(70)
def test_target_kernels(root: UOp) -> None:
    check(root, TARGET)


@given(graphs.linear_kernels())
@graphs.examples(70)
def test_linear_kernels(lines: list[UOp]) -> None:
    levels.check_linear(lines)


@given(graphs.kernels())
@graphs.examples(30)
def test_kernels_are_not_tensor_graphs(root: UOp) -> None:
    with pytest.raises(LevelError):
        check(root, GRAPH)


# -- the table -------------------------------------------------------------------------------------


def test_every_op_has_a_level_but_those_of_patterns() -> None:
    for op in ops.table():
        assert bool(levels.levels_with(op)) == (op.group is not Group.PATTERN), op


def test_what_the_levels_are_about() -> None:
    movement = {op for op in ops.table() if op.group is Group.MOVEMENT}
    assert movement <= GRAPH.ops
    for level in (RANGED, KERNEL, LANES, TARGET, LINEAR):
        assert not movement & level.ops
    assert ops.RANGE not in GRAPH.ops
    assert ops.INDEX not in GRAPH.ops
    assert ops.BUFFER not in KERNEL.ops
    assert not {ops.REDUCE, ops.INVALID, ops.BUFFERIZE, ops.UNROLL, ops.CONTRACT} & TARGET.ops
    for level in (GRAPH, RANGED, KERNEL, SCHEDULE, LANES):
        assert not {ops.CDIV, ops.CMOD} & level.ops
    assert {ops.CDIV, ops.CMOD} <= TARGET.ops
    names = [level.name for level in levels.LEVELS]
    assert len(set(names)) == len(names)


# -- messages --------------------------------------------------------------------------------------


def refused(root: UOp, level: Level, stage: str = "a stage") -> str:
    with pytest.raises(LevelError) as caught:
        check(root, level, stage=stage)
    return str(caught.value)


R, S = UOp.range(8, 0), UOp.range(4, 1, Axis.REDUCE)
POINTER: Final = make(ops.PARAM, dtype=dtypes.f32.pointer(Space.GLOBAL, 8), arg=0)
TENSOR: Final = make(ops.PARAM, number(8), dtype=dtypes.f32, arg=0)
ELEMENT: Final = make(ops.INDEX, POINTER, R)
ZERO: Final = number(0, dtypes.f32)


def kernel(store: UOp, *ranges: UOp) -> UOp:
    return make(ops.SINK, make(ops.END, store, *ranges))


def test_a_whole_message() -> None:
    moved = make(ops.RESHAPE, TENSOR, number(2), number(4))
    assert refused(make(ops.NEG, moved), RANGED, "rangeify") == (
        "stage 'rangeify' left a RESHAPE in the ranged level\n"
        "  where: RESHAPE(p0, 2, 4), used in -RESHAPE(p0, 2, 4)\n"
        "  why: RESHAPE (the same elements with other dims: (x, dim…)) is allowed in the levels "
        "tensor, graph\n"
        "  fix: rewrite it in this stage, or have the stage leave another level"
    )


def test_an_op_of_another_level() -> None:
    shown = refused(make(ops.INDEX, TENSOR, R), GRAPH, "split reductions")
    assert "stage 'split reductions'" in shown
    assert "levels ranged, kernel, schedule, threads, lanes, words, target, linear" in shown
    assert "used in" in shown


def test_patterns_have_no_level() -> None:
    hole = make(ops.HOLE, arg="x")
    assert "belongs to the text of rewrite rules" in refused(hole, GRAPH)
    for level in (RANGED, SCHEDULE):
        assert "HOLE" in refused(make(ops.NEG, hole), level)


def test_the_root_of_a_kernel() -> None:
    shown = refused(make(ops.STORE, ELEMENT, ZERO), KERNEL, "kernels")
    assert shown.startswith("stage 'kernels' left a STORE as the root in the kernel level")
    assert "the root is a SINK" in shown


VECTOR: Final = make(ops.CONST, dtype=dtypes.f32.vec(2), arg=0.0)
NOWHERE: Final = make(ops.INVALID)
SHORT: Final = number(3, dtypes.i32)
RANGE32: Final = make(ops.RANGE, SHORT, arg=((0,), Axis.LOOP))
RANGE33: Final = make(ops.RANGE, SHORT, arg=((1,), Axis.LOOP))
PLACE: Final = make(ops.INDEX, POINTER, RANGE32, dtype=POINTER.dtype)
STORE32: Final = make(ops.STORE, PLACE, ZERO)

BROKEN: Final = [
    (GRAPH, VECTOR, "vectors appear only in the lanes"),
    (GRAPH, POINTER, "pointers appear only in kernels"),
    (GRAPH, make(ops.SINK, make(ops.SINK)), "one of its sources is a SINK"),
    (RANGED, make(ops.INDEX, POINTER, R), "pointers appear only in kernels"),
    (RANGED, make(ops.ADD, R, NOWHERE), "INVALID lives only as an index"),
    (
        RANGED,
        make(ops.INDEX, TENSOR, make(ops.WHERE, make(ops.LT, R, number(3)), NOWHERE, R)),
        "or as the last source of WHERE(valid, index, …)",
    ),
    (
        RANGED,
        make(ops.INDEX, make(ops.PARAM, number(1), dtype=dtypes.f32, arg=0), R),
        "axis 0 has size 1, and its index is r0, not 0",
    ),
    (RANGED, make(ops.REDUCE, TENSOR, number(3), arg=ops.ADD), "it closes ranges, and 3 is none"),
    (
        RANGED,
        make(ops.BUFFERIZE, TENSOR, make(ops.ADD, R, R), arg=Space.GLOBAL),
        "it stores a value for ranges, and r0 + r0 is none",
    ),
    (
        KERNEL,
        kernel(make(ops.STORE, make(ops.INDEX, TENSOR, R), ZERO), R),
        "parameters are pointers",
    ),
    (KERNEL, make(ops.SINK, make(ops.STORE, ELEMENT, ZERO)), "nothing ends r0"),
    (
        KERNEL,
        kernel(make(ops.STORE, make(ops.INDEX, POINTER, R, R), ZERO), R),
        "memory behind a pointer has one index, not 2",
    ),
    (KERNEL, kernel(make(ops.STORE, POINTER, VECTOR)), "vectors appear only in the lanes"),
    (
        LANES,
        kernel(make(ops.STORE, ELEMENT, ZERO), R, UOp.range(4, 2, Axis.UPCAST)),
        "a range of the kind upcast has become lanes",
    ),
    (TARGET, kernel(make(ops.STORE, ELEMENT, ZERO), R), "an index without a width"),
    (
        TARGET,
        kernel(make(ops.STORE, make(ops.INDEX, POINTER, RANGE32), ZERO), RANGE32),
        "here INDEX is the pointer, and LOAD the element",
    ),
    (TARGET, kernel(make(ops.STORE, ZERO, ZERO)), "it stores to f32, which is no pointer"),
    (TARGET, kernel(STORE32, RANGE32, RANGE33), "closes one range, and this one closes 2"),
    (TARGET, kernel(STORE32), "closes one range, and this one closes 0"),
]


def named(level: Level, message: str) -> str:
    return f"{level.name}: {message}"


@pytest.mark.parametrize(
    ("level", "root", "message"), BROKEN, ids=[named(level, text) for level, _, text in BROKEN]
)
def test_broken_invariants(level: Level, root: UOp, message: str) -> None:
    shown = refused(root, level, "some stage")
    assert message in shown
    assert "stage 'some stage'" in shown
    assert "where: " in shown


@pytest.mark.parametrize("extent", [1, 3])
def test_an_access_that_is_never_valid(extent: int) -> None:
    """What a mask that is always false leaves of an index is INVALID."""
    tensor = make(ops.PARAM, number(extent), dtype=dtypes.f32, arg=0)
    check(make(ops.INDEX, tensor, NOWHERE), RANGED)


def test_the_invariant_is_named() -> None:
    shown = refused(make(ops.SINK, make(ops.STORE, ELEMENT, ZERO)), KERNEL)
    assert "breaks the invariant 'ranges are ended' of the kernel level" in shown


def test_a_schedule_runs_kernels() -> None:
    inner = kernel(make(ops.STORE, ELEMENT, ZERO), R)
    buffer = make(ops.BUFFER, number(8), dtype=dtypes.f32, arg=(0, "cpu"))
    call = make(ops.CALL, inner, buffer, arg="zeros")
    check(make(ops.SINK, make(ops.AFTER, buffer, call)), SCHEDULE)
    assert "CALL" in refused(make(ops.SINK, call), KERNEL)


# -- lists -----------------------------------------------------------------------------------------

ENDED: Final = make(ops.END, STORE32, RANGE32)
LINES: Final = [SHORT, RANGE32, POINTER, PLACE, ZERO, STORE32, ENDED]


def refused_list(lines: list[UOp]) -> str:
    with pytest.raises(LevelError) as caught:
        levels.check_linear(lines, stage="linearize")
    return str(caught.value)


def test_lists() -> None:
    levels.check_linear(LINES)
    assert "the same node came before" in refused_list([*LINES, ZERO])
    assert "its source p0[r0] has not come yet" in refused_list(
        [n for n in LINES if n is not PLACE]
    )
    assert "a RANGE that nothing closes" in refused_list(LINES[:-1])
    assert "stage 'linearize'" in refused_list(LINES[:-1])
    assert "RESHAPE" in refused_list([TENSOR.src[0], TENSOR, make(ops.RESHAPE, TENSOR)][1:])


def test_loops_and_conditions_nest() -> None:
    gate = make(ops.LT, RANGE32, SHORT)
    opened = make(ops.IF, gate)
    closed = make(ops.ENDIF, opened)
    start, end = LINES[:5], [STORE32, ENDED]
    levels.check_linear([*start, gate, opened, STORE32, closed, ENDED])
    crossed = [*start, gate, opened, *end, closed]
    assert "it closes r0, but IF(r0 < 3) is what is open" in refused_list(crossed)
    twice = [*LINES, make(ops.END, make(ops.GROUP, ENDED), RANGE32)]
    twice.insert(-1, twice[-1].src[0])
    assert "it closes r0, but nothing is what is open" in refused_list(twice)


@pytest.mark.slow
def test_a_deep_graph_is_checked() -> None:
    x = UOp.variable("x", 0, 9)
    for _ in range(100_000):
        x = make(ops.NEG, x)
    check(x, GRAPH)
    assert "RANGE" in refused(make(ops.ADD, x, R), GRAPH)
