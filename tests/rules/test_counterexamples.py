"""Rows of the seeds that are wrong as they are written: each with the case that shows it.

The prover refuses the row; the repaired rule is right in that case.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from porism.base import dtypes
from porism.base.dtypes import f32, i8, i16, i32, i64, index, u8
from porism.base.errors import TypeMismatch
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.prove.procedure_trials import difference
from porism.prove.rule_proof import Status, prove
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import Rule
from porism.rewrite.terms import (
    FALSE,
    TRUE,
    c0,
    c1,
    hi,
    lo,
    maximum,
    minimum,
    p,
    where,
    x,
    y,
    z,
)
from porism.rules.rule_sets import SIMPLE, SYMBOLIC, SYMBOLIC_LATE
from tests.examples.example_graphs import (
    DATA,
    MEMORY,
    NONE,
    A,
    B,
    X,
    Y,
    made,
    masked,
    number,
)
from tests.prove.stated import FIXED_WIDTH, FLOATS, INTEGERS, stated

# -- refused ---------------------------------------------------------------------------------------

REFUSED: dict[str, Rule] = {
    "002.2.1 on floats": stated(FLOATS, x + 0.0, x),
    "002.2.10 on floats": stated(FLOATS, x * 0.0, 0.0),
    "002.3.1 on words": stated(FIXED_WIDTH, x // x, 1),
    "002.5.3": stated(FLOATS, x / x, 1.0),
    "002.5.4": stated(FLOATS, (x * y) / y, x),
    "002.5.5 on words": stated(FIXED_WIDTH, (x * y) // y, x),
    "002.7.2 on floats": stated(FLOATS, x * c0 + x * c1, x * (c0 + c1)),
    "002.8.1 on floats": stated(FLOATS, (x + c0) + c1, x + (c0 + c1)),
    "002.8.2 on floats": stated(FLOATS, (x * c0) * c1, x * (c0 * c1)),
    "002.8.3 on floats": stated(FLOATS, (x - c0) + c1, x + (c1 - c0)),
    "002.8.4 on floats": stated(FLOATS, (x + c0) - c1, x + (c0 - c1)),
    "002.8.5 on floats": stated(FLOATS, (x - c0) - c1, x - (c0 + c1)),
    "002.8.7 on floats": stated(FLOATS, x - (y - z), z + (x - y)),
    "002.9.5 and on words": stated(FIXED_WIDTH, x & 1, x),
    "002.9.5 or on words": stated(FIXED_WIDTH, x | 1, 1),
    "002.10.3 on floats": stated(FLOATS, x < y, TRUE, hi(x) < lo(y)),
    "002.10.4 on words": stated(FIXED_WIDTH, x + c0 < c1, x < c1 - c0),
    "002.10.4 on floats": stated(FLOATS, x + c0 < c1, x < c1 - c0),
    "002.10.5 on words": stated(FIXED_WIDTH, -x < -y, y < x),
    "002.10.6a on words": stated(FIXED_WIDTH, x // c0 < c1, x < c1 * c0, c0 > 0),
    "002.10.6b": stated(INTEGERS, x // c0 < c1, x < c1 * c0 - (c0 - 1), (c0 > 0) & (c1 <= 0)),
    "002.11.2 on floats": stated(FLOATS, maximum(x, y), x, lo(x) >= hi(y)),
    "002.11.4 on words": stated(FIXED_WIDTH, -maximum(-x, -y), minimum(x, y)),
    "002.12.3 on floats": stated(FLOATS, where(x < y, x, z), x, hi(x) < lo(y)),
    "002.10.1 on floats": stated(FLOATS, x.eq(x), TRUE),
    "002.4.3 on floats": stated(FLOATS, x.ne(x), FALSE),
}


@pytest.mark.parametrize("row", REFUSED)
def test_a_row_that_is_wrong_is_refused(row: str) -> None:
    proof = prove(REFUSED[row])
    assert [result.status for result in proof.results] == [Status.REFUTED], proof.explain()


def test_the_lemmas_are_what_is_left() -> None:
    assert prove(stated(INTEGERS, where(~p, x, y), where(p, y, x))).results[0].status.ok


# -- constants -------------------------------------------------------------------------------------


def test_a_zero_in_one_lane_is_not_divided_by() -> None:
    """002.1.2 and 002.1.4: on index there is no result, on words it is 0."""
    two = index.vec(2)
    ones, divisors = (UOp(ops.VCONST, two, (), lanes) for lanes in ((1, 2), (1, 0)))
    assert ops.IDIV(ones, divisors).op is ops.IDIV
    assert ops.IDIV(number(7), number(0)).op is ops.IDIV
    words = [UOp(ops.VCONST, i32.vec(2), (), lanes) for lanes in ((6, 2), (4, 0))]
    assert ops.IDIV(*words).arg == (1, 0)
    assert ops.SHL(number(1, i32), number(32, i32)).arg == 0
    assert ops.IDIV(number(-128, i8), number(-1, i8)).arg == -128


def test_constants_are_computed_in_their_type() -> None:
    """002.1.1 and 002.1.3: the results that the evaluator gives."""
    assert ops.RECIPROCAL(number(0.0, f32)).arg == math.inf
    assert math.isnan(ops.LOG2(number(-1.0, f32)).arg)
    assert math.isnan(ops.FDIV(number(0.0, f32), number(0.0, f32)).arg)
    for op in (ops.SIN, ops.EXP2, ops.SQRT, ops.NEG, ops.TRUNC, ops.LOG2, ops.RECIPROCAL):
        for dtype in (dtypes.f16, f32, dtypes.f64):
            lanes = (0.3, 2.5)
            vector = UOp(ops.VCONST, dtype.vec(2), (), lanes)
            assert op(vector).op is ops.VCONST
            (exact,) = evaluate(made(op, vector))
            assert op(vector).arg == tuple(exact.astype(np.float64))
    nearly = float.fromhex("0x1.000002p0")
    product = ops.MULACC(*[number(nearly, f32)] * 2, number(-nearly * nearly, f32))
    assert product.arg != 0


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (300.0, u8, 255),
        (math.nan, i32, 0),
        (-math.inf, i8, -128),
        (1e300, f32, math.inf),
        (2.0**63, i64, (1 << 63) - 1),
    ],
)
def test_conversions_of_constants_are_defined(
    value: float, dtype: dtypes.DType, expected: float
) -> None:
    """002.6.1: to integers towards zero, to the nearest value there is; NaN becomes 0."""
    assert number(value, dtypes.f64).cast(dtype) is number(expected, dtype)


def test_conversions_of_vectors() -> None:
    lanes = UOp(ops.VCONST, index.vec(3), (), (300, -1, 1 << 70))
    assert lanes.cast(u8.vec(3)).arg == (44, 255, 0)
    assert number(3, index.vec(3)).cast(f32.vec(3)) is number(3.0, f32.vec(3))


# -- conversions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "third", "value"),
    [
        (i8, u8, i16, -128),
        (u8, i8, i16, 128),
        (i32, f32, dtypes.f64, -2147483647),
        (i64, i8, i64, 300),
        (i64, dtypes.f64, i64, (1 << 53) + 1),
        (i8, dtypes.f16, u8, -128),
    ],
)
def test_a_type_in_between_that_loses_something_stays(
    first: dtypes.DType, second: dtypes.DType, third: dtypes.DType, value: int
) -> None:
    """002.6.3 and 002.6.4; the last is not in the list of the seeds: words wrap, floats do not."""
    source = UOp(ops.PARAM, first, (), 0)
    graph = made(ops.CAST, made(ops.CAST, source, dtype=second), dtype=third)
    after = rewrite(graph, SIMPLE)
    assert after.src[0].op is ops.CAST
    assert not difference(graph, after, {0: np.asarray(value).astype(first.numpy)})


def test_a_type_in_between_that_loses_nothing_goes() -> None:
    b = UOp(ops.PARAM, dtypes.boolean, (), 0)
    assert rewrite(b.cast(i32).cast(dtypes.boolean), SIMPLE) is b
    k = UOp(ops.PARAM, i8, (), 0)
    assert rewrite(k.cast(i16).cast(f32), SIMPLE) is k.cast(f32)


# -- choices and validity --------------------------------------------------------------------------


def test_a_false_branch_that_may_be_invalid_is_not_exchanged() -> None:
    """002.12.8"""
    graph = made(ops.WHERE, made(ops.NOT, A), X, NONE)
    assert rewrite(graph, SIMPLE) is masked(~A, X)
    lanes = made(ops.VECTORIZE, masked(B, X), Y)
    kept = made(ops.WHERE, made(ops.NOT, A), made(ops.VECTORIZE, Y, Y), lanes)
    assert rewrite(kept, SIMPLE) is kept


def loaded(at: UOp, a: bool, b: bool) -> float:
    values = {0: np.bool_(a), 1: np.bool_(b), 3: 1, 4: 2, 6: DATA}
    (result,) = evaluate(made(ops.INDEX, MEMORY, at), values)
    return float(result)


def test_padding_of_one_part_does_not_read_the_other() -> None:
    """002.13.2: with a and not b the index is INVALID, and not Y."""
    graph = made(ops.WHERE, A, masked(B, X), Y)
    after = rewrite(graph, SIMPLE)
    assert after.src[2].op is ops.INVALID
    assert loaded(graph, True, False) == loaded(after, True, False) == 0
    assert loaded(after, False, False) == DATA[2]


def test_a_comparison_with_no_element_chooses_nothing() -> None:
    """002.13.6: where the compared index is INVALID, so is the choice."""
    for bound in (5, number(5) + X):
        limit = bound if isinstance(bound, UOp) else number(bound)
        small = made(ops.MOD, X, number(3))
        graph = made(ops.WHERE, made(ops.LT, masked(A, small), limit), X, Y)
        after = rewrite(graph, SIMPLE)
        assert loaded(graph, False, True) == loaded(after, False, True) == 0
        assert loaded(graph, True, True) == loaded(after, True, True) != 0


def test_a_comparison_with_no_element_is_not_decided_by_bounds() -> None:
    small = made(ops.MOD, X, number(3))
    assert rewrite(made(ops.LT, small, number(3)), SIMPLE).arg is True
    assert rewrite(made(ops.LT, masked(A, small), number(3)), SIMPLE).op is ops.LT


def test_a_load_of_nothing_gives_the_alternative() -> None:
    """002.13.9: a maximum is padded with -inf, not with 0."""
    other = number(-math.inf, f32)
    pointer = made(ops.INDEX, MEMORY, NONE, dtype=MEMORY.dtype)
    assert rewrite(made(ops.LOAD, pointer, other), SIMPLE) is other
    assert rewrite(made(ops.LOAD, pointer), SIMPLE) is number(0.0, f32)


# -- loops -----------------------------------------------------------------------------------------


def loop(size: int, axis: int) -> UOp:
    return made(ops.RANGE, number(size), arg=((axis,), Axis.LOOP))


def test_an_empty_loop_stores_nothing() -> None:
    """002.14.3 and 002.14.4"""
    store = made(ops.STORE, made(ops.INDEX, MEMORY, number(0)), number(1, f32))
    assert rewrite(made(ops.END, store, loop(0, 0)), SIMPLE).op is ops.NOOP
    assert rewrite(made(ops.END, store, loop(3, 0), loop(0, 1)), SIMPLE).op is ops.NOOP
    assert rewrite(made(ops.END, store, loop(1, 0)), SIMPLE) is store


def test_one_empty_range_makes_a_sum_empty() -> None:
    """002.14.5: of i < 3 and j < 0 there is no pair."""
    i, j = loop(3, 0), loop(0, 1)
    element = made(ops.INDEX, MEMORY, i)
    total = made(ops.REDUCE, element, i, j, arg=ops.ADD)
    assert rewrite(total, SIMPLE) is number(0.0, f32)
    assert evaluate(total, {6: DATA})[0] == 0


def test_a_sum_of_one_negative_zero_is_zero() -> None:
    """002.14.2: a sum begins with 0, also over one iteration."""
    r = loop(1, 0)
    total = made(ops.REDUCE, made(ops.INDEX, MEMORY, r), r, arg=ops.ADD)
    after = rewrite(total, SIMPLE)
    zeros = {6: np.full(4, -0.0, np.float32)}
    assert not np.signbit(evaluate(total, zeros)[0])
    assert not np.signbit(evaluate(after, zeros)[0])


# -- lanes -----------------------------------------------------------------------------------------


def test_one_lane_taken_often_is_a_vector() -> None:
    """002.16.4"""
    spread = rewrite(made(ops.GEP, X, arg=(0,)), SYMBOLIC)
    assert spread is X
    vector = made(ops.GEP, made(ops.VECTORIZE, X, Y), arg=(0, 0, 0, 0))
    assert rewrite(vector, SYMBOLIC).dtype is index.vec(4)


def test_the_first_lanes_are_not_all() -> None:
    """002.16.6"""
    eight = UOp(ops.PARAM, f32.vec(8), (), 0)
    graph = made(ops.GEP, eight, arg=(0, 1, 2, 3))
    assert rewrite(graph, SYMBOLIC) is graph
    assert rewrite(made(ops.GEP, eight, arg=tuple(range(8))), SYMBOLIC) is eight


def test_wide_pointers_are_not_lanes() -> None:
    """002.16.12"""

    def several(dtype: dtypes.DType) -> list[UOp]:
        return [UOp(ops.PARAM, dtype.pointer(size=4), (), n) for n in range(3)]

    narrow, wide = several(f32), several(f32.vec(4))
    graph = made(ops.GEP, made(ops.PTRCAT, *narrow), arg=(1, 2))
    assert rewrite(graph, SYMBOLIC) is made(ops.PTRCAT, *narrow[1:])
    assert rewrite(made(ops.GEP, made(ops.PTRCAT, *narrow), arg=(1,)), SYMBOLIC) is narrow[1]
    kept = made(ops.GEP, made(ops.PTRCAT, *wide), arg=(1, 2))
    assert rewrite(kept, SYMBOLIC) is kept


def test_lanes_of_other_sizes_are_not_the_same_lanes() -> None:
    """002.16.14: lane 3 of two i64 seen as four i32 is none of theirs; there is no such BITCAST."""
    with pytest.raises(TypeMismatch, match="BITCAST cannot be made"):
        made(ops.BITCAST, UOp(ops.PARAM, i64.vec(2), (), 0), dtype=i32.vec(4))
    words = UOp(ops.PARAM, i32.vec(4), (), 0)
    graph = made(ops.GEP, made(ops.BITCAST, words, dtype=f32.vec(4)), arg=(3,))
    assert rewrite(graph, SYMBOLIC) is made(ops.BITCAST, made(ops.GEP, words, arg=(3,)), dtype=f32)


def test_one_condition_for_all_lanes_is_kept() -> None:
    """002.16.9"""
    vector = made(ops.VECTORIZE, X, Y)
    other = made(ops.VECTORIZE, Y, X)
    graph = made(ops.GEP, made(ops.WHERE, A, vector, other), arg=(1,))
    assert rewrite(graph, SYMBOLIC) is A.where(Y, X)


# -- loads -----------------------------------------------------------------------------------------


def test_only_a_plain_zero_becomes_a_mask() -> None:
    """002.17.1: a load of nothing gives 0, not -0; and a clause that loads stays where it is."""
    r = loop(4, 0)
    element = made(ops.INDEX, MEMORY, r)
    small = made(ops.LT, r, number(2))
    graph = made(ops.WHERE, small, element, number(-0.0, f32))
    assert rewrite(graph, SYMBOLIC_LATE) is graph
    after = rewrite(made(ops.WHERE, small, element, number(0.0, f32)), SYMBOLIC_LATE)
    assert after is MEMORY.index(masked(small, r))


def test_a_clause_about_another_range_stays() -> None:
    """002.17.1 and 002.17.2"""
    r, other = loop(4, 0), loop(3, 1)
    element = made(ops.INDEX, MEMORY, r)
    small, foreign = made(ops.LT, r, number(2)), made(ops.GT, other, number(1))
    both, zero = small & foreign, number(0.0, f32)
    wanted = foreign.where(MEMORY.index(masked(small, r)), zero)
    assert rewrite(made(ops.WHERE, both, element, zero), SYMBOLIC_LATE) is wanted
    kept = made(ops.WHERE, foreign, element, zero)
    assert rewrite(kept, SYMBOLIC_LATE) is kept
    negated = rewrite(made(ops.WHERE, small, zero, element), SYMBOLIC_LATE)
    assert negated is MEMORY.index(masked(~small, r))
