"""Reductions without their loops: random sums, the cases that the seeds get wrong, what must go."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.base.dtypes import DType, boolean, f16, f32, i8, i32, i64, index, u8
from porism.evaluate import Memory, evaluate, run_arrays, run_kernel
from porism.ir import levels, ops
from porism.ir.axis import Axis
from porism.ir.node import UOp, raw
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.prove.procedure_trials import difference
from porism.prove.rule_proof import Status, prove
from porism.prove.structure_rules import same_results
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import RuleSet
from porism.rewrite.terms import T as ANY
from porism.rewrite.terms import cast, literal, p, where, x, y, z
from porism.rules.reductions.reduction_rules import FAST_REDUCTIONS, LIFTING_LEMMAS, REDUCTIONS
from porism.rules.rule_sets import SYMBOLIC
from tests import graphs
from tests.examples.example_graphs import ORDERS, buffer, made, masked, number
from tests.examples.example_graphs import given as scalar
from tests.prove.stated import FIXED_WIDTH, FLOATS, stated

RULES = REDUCTIONS + SYMBOLIC
FAST = REDUCTIONS + FAST_REDUCTIONS + SYMBOLIC


def loop(size: int, place: int = 0, kind: Axis = Axis.REDUCE) -> UOp:
    return made(ops.RANGE, number(size), arg=((place,), kind))


def total(value: UOp, *ranges: UOp, op: Op = ops.ADD) -> UOp:
    return made(ops.REDUCE, value, *ranges, arg=op)


def chosen(condition: UOp, value: UOp, other: float = 0) -> UOp:
    return made(ops.WHERE, condition, value, number(other, value.dtype))


def loops(root: UOp) -> int:
    return sum(node.op is ops.REDUCE for node in toposort(root))


def closed(root: UOp, inputs: dict[Any, Any], rules: RuleSet = RULES) -> UOp:
    """What a graph becomes, which has no loop and the same value."""
    after = rewrite(root, rules)
    assert not loops(after), after
    assert not difference(root, after, inputs)
    return after


def kept(root: UOp, inputs: dict[Any, Any]) -> UOp:
    """What a graph becomes, which still has a loop and the same value."""
    after = rewrite(root, RULES)
    assert loops(after), after
    assert not difference(root, after, inputs)
    return after


# -- random reductions -----------------------------------------------------------------------------

OUTER = loop(5, 9, Axis.LOOP)
SIZE = 6
TABLES = {
    f32: (40, np.asarray([1.5, -0.0, math.inf, math.nan, 1e30, -2.5], np.float32)),
    i32: (41, np.asarray([3, -1, 2**31 - 1, -(2**31), 7, 0], np.int32)),
    i8: (42, np.asarray([3, -1, 127, -128, 5, 0], np.int8)),
    boolean: (43, np.asarray([True, False, True, True, False, False])),
}
INPUTS = dict(TABLES.values())
Draw = Callable[[st.SearchStrategy[Any]], Any]


def element(dtype: DType, at: UOp) -> UOp:
    return made(ops.INDEX, buffer(TABLES[dtype][0], SIZE, dtype), at)


@st.composite
def positions(draw: Draw, ranges: list[UOp], depth: int = 2) -> UOp:
    """Arithmetic on counters, and on what is read where they do not say."""
    kind = draw(st.integers(0, 6)) if depth else draw(st.integers(0, 2))
    if kind == 0:
        return number(draw(st.integers(-4, 9)))
    if kind == 1:
        chosen_range: UOp = draw(st.sampled_from(ranges))
        return chosen_range
    if kind == 2:
        return made(ops.CAST, element(draw(st.sampled_from((i8, i32))), OUTER), dtype=index)
    inner = draw(positions(ranges, depth - 1))
    if kind == 3:
        return made(ops.MUL, inner, number(draw(st.sampled_from((-3, -1, 2, 4)))))
    if kind == 4:
        return made(ops.IDIV, inner, number(draw(st.integers(1, 3))))
    return made((ops.ADD, ops.SUB)[kind - 5], inner, draw(positions(ranges, depth - 1)))


@st.composite
def conditions(draw: Draw, ranges: list[UOp], depth: int = 2) -> UOp:
    kind = draw(st.integers(0, 6)) if depth else draw(st.integers(0, 2))
    op = draw(st.sampled_from(ORDERS))
    if kind == 0:
        at = draw(st.sampled_from([OUTER, *(r for r in ranges if r.vmax < SIZE)]))
        return element(boolean, at)
    if kind in (1, 2, 3):
        return made(op, draw(positions(ranges)), draw(positions(ranges)))
    if kind == 4:
        dtype = draw(st.sampled_from((i8, i32)))
        left = made(ops.CAST, draw(positions(ranges, 1)), dtype=dtype)
        moved = made(draw(st.sampled_from((ops.ADD, ops.SUB))), left, element(dtype, OUTER))
        return made(op, draw(st.sampled_from((left, moved))), element(dtype, OUTER))
    if kind == 5:
        return made(ops.NOT, draw(conditions(ranges, depth - 1)))
    both = draw(conditions(ranges, depth - 1)), draw(conditions(ranges, depth - 1))
    return made(draw(st.sampled_from((ops.AND, ops.OR))), *both)


@st.composite
def values(draw: Draw, dtype: DType, ranges: list[UOp], depth: int = 3) -> UOp:
    if dtype is index:
        leaf, is_leaf = positions(ranges), depth == 0 or draw(st.booleans())
    else:
        leaf, is_leaf = leaves(dtype, ranges), depth == 0 or draw(st.integers(0, 3)) == 0
    if is_leaf:
        actual: UOp = draw(leaf)
        return actual
    kind = draw(st.integers(0, 6))
    inner = draw(values(dtype, ranges, depth - 1))
    if kind in (0, 1):
        return chosen(draw(conditions(ranges)), inner)
    if kind == 2:
        return made(ops.WHERE, draw(conditions(ranges)), number(0, dtype), inner)
    if kind == 3:
        truth = made(ops.CAST, draw(conditions(ranges)), dtype=dtype)
        return made(ops.MUL, truth, inner) if draw(st.booleans()) else truth
    other = draw(values(dtype, ranges, depth - 1))
    if kind == 4:
        return made(ops.WHERE, draw(conditions(ranges)), inner, other)
    return made(draw(st.sampled_from((ops.ADD, ops.SUB, ops.MUL))), inner, other)


@st.composite
def leaves(draw: Draw, dtype: DType, ranges: list[UOp]) -> UOp:
    at = draw(st.sampled_from([OUTER, *ranges]))
    kind = draw(st.integers(0, 3))
    if kind == 0 and dtype in TABLES and at.vmax < SIZE:
        return element(dtype, at)
    if kind == 1 and dtype in TABLES and at.vmax < SIZE:
        return element(dtype, masked(draw(conditions(ranges, 1)), at))
    if kind == 2:
        return made(ops.CAST, draw(positions(ranges, 1)), dtype=dtype)
    special = (0.0, -0.0, math.inf, 0.5, 3.0, -0.75) if dtype.is_float else (-100, -1, 0, 1, 77)
    return number(draw(st.sampled_from(special)), dtype)


@pytest.mark.slow
@graphs.examples(1500)
@given(st.data())
def test_random_sums(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from((index, i8, i32, f32, f32, f16)))
    sizes = data.draw(st.lists(st.integers(1, SIZE), min_size=1, max_size=2))
    ranges = [loop(size, place) for place, size in enumerate(sizes)]
    op = data.draw(st.sampled_from((ops.ADD, ops.ADD, ops.ADD, ops.MAX, ops.MIN, ops.MUL)))
    root = total(data.draw(values(dtype, ranges)), *ranges, op=op)
    for rules in (RULES, REDUCTIONS):
        after = rewrite(root, rules)
        assert not difference(root, after, INPUTS), after
        assert rewrite(after, rules) is after


@pytest.mark.slow
@graphs.examples(600)
@given(st.data())
def test_random_conditions(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, SIZE), min_size=1, max_size=2))
    ranges = [loop(size, place) for place, size in enumerate(sizes)]
    op = data.draw(st.sampled_from((ops.OR, ops.AND, ops.MAX, ops.MIN, ops.ADD, ops.MUL)))
    root = total(data.draw(conditions(ranges)), *ranges, op=op)
    after = rewrite(root, RULES)
    assert not difference(root, after, INPUTS), after


# -- what the seeds get wrong ----------------------------------------------------------------------

CUT, LONG, WORD, FLOAT = scalar(0), scalar(1, i64), scalar(2, i32), scalar(3, f32)


@pytest.mark.parametrize("size", [1, 4, 64])
@pytest.mark.parametrize("cut", [-(1 << 40), -2, -1, 0, 1, 3, 64, 1 << 40])
def test_ends_outside_of_the_loop(size: int, cut: int) -> None:
    """003.rc.lower with cut = -2: the sum has 4 terms, and not 6."""
    r = loop(size)
    for condition in (made(ops.LT, r, CUT), made(ops.GE, r, CUT), made(ops.EQ, r, CUT)):
        closed(total(chosen(condition, number(1)), r), {0: cut})
        closed(total(made(ops.WHERE, condition, number(0), number(3)), r), {0: cut})


def test_a_loop_that_does_not_run() -> None:
    """003.rc.lower with N = 0; 003.unpar.max: a maximum of nothing is the identity."""
    r = loop(0)
    for op in (ops.ADD, ops.MUL, ops.MAX, ops.MIN):
        for value in (WORD, made(ops.CAST, made(ops.GE, r, CUT), dtype=i32)):
            closed(total(value, r, op=op), {0: -1, 2: np.int32(7)})


def test_a_loop_that_may_not_run() -> None:
    r = made(ops.RANGE, UOp.variable("n", 0, 9), arg=((0,), Axis.REDUCE))
    root = total(WORD, r, op=ops.MAX)
    assert rewrite(root, RULES) is root


def test_words_at_their_limits() -> None:
    """003.loadcollapse: 64 - length wraps for the least i32."""
    r = loop(64)
    counted = made(ops.CAST, made(ops.GE, made(ops.CAST, r, dtype=i32), WORD), dtype=i32)
    for word in (i32.min, -1, 0, 63, 64, i32.max):
        after = closed(total(counted, r), {2: np.int32(word)})
        assert evaluate(after, {2: np.int32(word)})[0] == min(max(64 - word, 0), 64)


def test_a_sum_that_may_wrap_is_not_lifted() -> None:
    """003.lift.lt and 003.lift.ge on words; an equation is lifted even so."""
    r = loop(4)
    moved = made(ops.ADD, made(ops.CAST, r, dtype=i32), WORD)
    for word in (i32.max, i32.max - 1, i32.min, 0):
        for op in (ops.LT, ops.GE):
            condition = made(op, moved, number(0, i32))
            kept(total(chosen(condition, number(1)), r), {2: np.int32(word)})
        condition = made(ops.EQ, moved, number(i32.min, i32))
        closed(total(chosen(condition, number(1)), r), {2: np.int32(word)})


@pytest.mark.parametrize("rule", LIFTING_LEMMAS.rules, ids=lambda rule: rule.name)
def test_lifting_is_refused_on_words(rule: Any) -> None:
    on_words = stated(FIXED_WIDTH, rule.before, rule.after)
    assert prove(on_words).results[0].status is Status.REFUTED


def test_what_is_refused_on_floats() -> None:
    """003.mulbool and 003.lift.eq."""
    for before, after in (
        (x * cast(p, ANY), where(p, x, literal(0))),
        ((x + y).eq(z), x.eq(z - y)),
    ):
        assert prove(stated(FLOATS, before, after)).results[0].status is Status.REFUTED


@pytest.mark.parametrize("far", [1 << 32, -1, 4, 3, 0])
def test_an_index_is_compared_before_it_is_narrowed(far: int) -> None:
    """003.rc.ne: 2^32 is not 0, and nothing is read at -1."""
    r = loop(4)
    table = buffer(6)
    condition = made(ops.NE, LONG, made(ops.CAST, r, dtype=i64))
    root = total(made(ops.WHERE, condition, number(0, f32), made(ops.INDEX, table, r)), r)
    data = np.asarray([1.5, -0.0, math.inf, math.nan], np.float32)
    after = closed(root, {1: np.int64(far), 6: data})
    reads = [n for n in toposort(after) if n.op is ops.INDEX]
    assert all(n.src[1].op is ops.WHERE and n.src[1].src[2].op is ops.INVALID for n in reads)


def test_a_sum_of_one_negative_zero_is_positive() -> None:
    """003.rc.ne: 0 + -0.0 is 0.0."""
    r = loop(4)
    root = total(chosen(made(ops.EQ, r, CUT), made(ops.INDEX, buffer(6), r)), r)
    after = closed(root, {0: 2, 6: np.full(4, -0.0, np.float32)})
    assert not np.signbit(evaluate(after, {0: 2, 6: np.full(4, -0.0, np.float32)})[0])


@pytest.mark.parametrize("value", [math.inf, math.nan, 0.1, -0.0])
def test_floats_are_not_counted(value: float) -> None:
    """003.rc.upper, 003.rc.two and 003.unpar.add: 0 * inf is NaN, 0.1 ten times is not 1."""
    r = loop(10)
    inputs = {0: 0, 3: np.float32(value)}
    kept(total(FLOAT, r), inputs)
    kept(total(chosen(made(ops.LT, r, CUT), FLOAT), r), inputs)
    both = made(ops.AND, made(ops.GE, r, CUT), made(ops.LT, r, CUT))
    kept(total(chosen(both, FLOAT), r), inputs)


def test_few_whole_floats_are_counted() -> None:
    """As long as every sum of them is exact: f16 counts to 2048."""
    counted = [loop(2048), loop(2049)]
    closed(total(number(1.0, f16), counted[0]), {})
    kept(total(made(ops.CAST, made(ops.GE, counted[1], CUT), dtype=f16), counted[1]), {0: 0})
    closed(total(chosen(made(ops.GE, counted[0], CUT), number(-0.125, f16)), counted[0]), {0: 9})
    kept(total(chosen(made(ops.GE, counted[0], CUT), number(0.1, f16)), counted[0]), {0: 9})


def test_infinite_tables_times_conditions() -> None:
    """003.mulbool: inf * 0 is NaN, so that only fast math makes a choice of the product."""
    r = loop(4)
    truth = made(ops.CAST, made(ops.EQ, r, CUT), dtype=f32)
    root = total(made(ops.MUL, truth, made(ops.INDEX, buffer(6), r)), r)
    kept(root, {0: 1, 6: np.asarray([math.inf, 1, 2, 3], np.float32)})
    closed(root, {0: 1, 6: np.asarray([5, 1, 2, 3], np.float32)}, FAST)


def test_sums_of_floats_are_not_taken_apart() -> None:
    """003.distr: x = [1e30, -1e30], y = [1, 1]; and 004.4.3."""
    r = loop(2)
    element = made(ops.INDEX, buffer(6, 2), r)
    inputs = {6: np.asarray([1e30, -1e30], np.float32), 3: np.float32(3e38)}
    for root in (total(made(op, element, FLOAT), r) for op in (ops.ADD, ops.MUL)):
        assert rewrite(root, RULES) is rewrite(root, SYMBOLIC)
        kept(root, inputs)


def test_powers_are_exact() -> None:
    """003.unpar.mul: (-2)**3 is -8, and words wrap; floats are multiplied one by one."""
    for size, base in ((3, -2), (20, 7), (31, -3), (300, 11)):
        closed(total(WORD, loop(size), op=ops.MUL), {2: np.int32(base)})
    kept(total(FLOAT, loop(20), op=ops.MUL), {3: np.float32(1.1)})


def test_factors_of_extremes() -> None:
    """004.4.3: the maximum of x * -1 is not the maximum of x, times -1."""
    r = loop(2)
    element = made(ops.INDEX, buffer(6, 2, i8), r)
    data = {6: np.asarray([1, 2], np.int8), 7: np.asarray([1, 2], np.float32)}
    for factor, wrapping in ((-1, False), (0, False), (3, True)):
        value = made(ops.MUL, made(ops.CAST, element, dtype=i32), number(factor, i32))
        for op in (ops.MAX, ops.MIN):
            after = rewrite(total(value, r, op=op), RULES)
            assert not difference(total(value, r, op=op), after, data)
        narrow = total(made(ops.MUL, element, number(factor, i8)), r, op=ops.MAX)
        assert not wrapping or rewrite(narrow, REDUCTIONS) is rewrite(narrow, SYMBOLIC)
    floats = made(ops.MUL, made(ops.INDEX, buffer(7, 2), r), number(0.5, f32))
    assert rewrite(total(floats, r, op=ops.MAX), RULES).op is ops.MUL
    floats = made(ops.MUL, made(ops.INDEX, buffer(7, 2), r), number(-0.5, f32))
    assert rewrite(total(floats, r, op=ops.MAX), RULES).op is ops.REDUCE


# -- what is left alone ----------------------------------------------------------------------------


def test_products_of_elements_stay() -> None:
    r, i, j = loop(8), loop(4, 1, Axis.LOOP), loop(4, 2, Axis.LOOP)
    for dtype in (f32, i32):
        left = raw(ops.INDEX, None, (buffer(6, 32, dtype), i * 8 + r), None)
        right = raw(ops.INDEX, None, (buffer(7, 32, dtype), r * 4 + j), None)
        root = (left * right).reduce(ops.ADD, r)
        assert rewrite(root, REDUCTIONS + FAST_REDUCTIONS) is root


def test_a_size_that_depends_on_the_other_range() -> None:
    r = loop(4)
    s = made(ops.RANGE, made(ops.ADD, r, number(1)), arg=((1,), Axis.REDUCE))
    closed(total(number(1), s, r), {})
    kept(total(total(s, s), r), {})  # a sum of squares is not closed


def test_what_is_below_the_substituted_loop() -> None:
    """A gathered value may be a reduction itself."""
    r, s = loop(4), loop(3, 1)
    row = total(made(ops.INDEX, buffer(6, 12), made(ops.ADD, made(ops.MUL, r, number(3)), s)), s)
    root = total(chosen(made(ops.EQ, r, CUT), row), r)
    for cut in (-1, 0, 3, 4):
        after = rewrite(root, RULES)
        assert loops(after) == 1
        data = np.arange(12, dtype=np.float32)
        assert not difference(root, after, {0: cut, 6: data})


def test_what_becomes_an_element_only_when_it_is_placed() -> None:
    """x + (1 - r) is x at the only iteration, which this loop does not have."""
    r = loop(1)
    moved = made(ops.ADD, WORD, made(ops.CAST, made(ops.SUB, number(1), r), dtype=i32))
    read = made(ops.INDEX, buffer(7, 1, i32), number(0))
    for value in (moved, made(ops.MUL, read, made(ops.CAST, r, dtype=i32))):
        closed(
            total(chosen(made(ops.EQ, r, number(1)), value), r),
            {2: np.int32(5), 7: np.asarray([3], np.int32)},
        )


def test_words_of_every_width_wrap_alike() -> None:
    r = loop(200)
    for dtype in (i8, u8):
        root = total(made(ops.MUL, made(ops.CAST, r, dtype=dtype), number(3, dtype)), r)
        closed(root, {})
        wide = total(made(ops.CAST, made(ops.CAST, r, dtype=u8), dtype=i64), r)
        closed(wide, {})


@pytest.mark.parametrize("size", [1, 5, 9])
def test_a_size_that_is_given_at_run_time(size: int) -> None:
    n = UOp.variable("n", 1, 9)
    r = made(ops.RANGE, n, arg=((0,), Axis.REDUCE))
    below = made(ops.LE, r, CUT)
    for value in (number(1), r, number(7, i8)):
        for cut in (-1, 3, 20):
            closed(total(chosen(below, value), r), {0: cut, n: size})
    closed(total(made(ops.CAST, below, dtype=f16), r), {0: 4, n: size})
    closed(total(WORD, r, op=ops.MAX), {2: np.int32(-5), n: size})


# -- kernels ---------------------------------------------------------------------------------------


def test_a_kernel_that_gathers() -> None:
    """Behind pointers, and step by step: what is outside is not read."""
    i, r = UOp.range(5, 0), UOp.range(7, 1, Axis.REDUCE)
    out, ids, table = (
        UOp(ops.PARAM, dtype.pointer(size=size), (), place)
        for place, (dtype, size) in enumerate(((f32, 5), (i64, 5), (f32, 7)))
    )
    value = ids.index(i).eq(r.cast(i64)).where(table.index(r), 0.0).reduce(ops.ADD, r)
    kernel = ops.SINK(out.index(i).store(value).end(i))
    after = rewrite(kernel, RULES)
    levels.check(after, levels.KERNEL)
    assert loops(kernel) == 1
    assert loops(after) == 0
    numbers = np.asarray([3, -1, 6, 7, 1 << 32], np.int64)
    rows = np.arange(7, dtype=np.float32) + 0.5
    results = []
    for each in (kernel, after):
        buffers: list[Any] = [Memory.empty(f32, 5), numbers, rows]
        run_kernel(each, buffers)
        results.append(buffers[0].data)
    np.testing.assert_array_equal(results[0], [3.5, 0, 6.5, 0, 0])
    np.testing.assert_array_equal(results[1], results[0])


@pytest.mark.slow
@graphs.examples(150)
@given(st.data())
def test_random_kernels(data: st.DataObject) -> None:
    kernel = data.draw(graphs.kernels())
    after = rewrite(kernel, RULES)
    assert rewrite(after, RULES) is after
    buffers = _arrays(kernel, data.draw(st.integers(0, 99)))
    actual = [buffer.copy() for buffer in buffers]
    with np.errstate(all="ignore"):
        run_arrays(kernel, buffers)
        run_arrays(after, actual)
    assert same_results(buffers, actual)


def _arrays(root: UOp, seed: int) -> list[Any]:
    """Some data for every parameter, by number."""
    generator = np.random.default_rng(seed)
    actual: dict[int, Any] = {}
    for node in graphs.parameters(root):
        lane = node.dtype.element
        numbers = generator.integers(0, 2 if lane is boolean else 99, node.dtype.size)
        actual[node.arg] = numbers.astype(lane.numpy)
    return [actual.get(n, np.zeros(1, np.float32)) for n in range(max(actual) + 1)]
