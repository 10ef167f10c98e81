"""Folding gives what Python's integers and IEEE floats give, and leaves alone what is undefined."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from porism.base import dtypes
from porism.base.dtypes import DType, Kind
from porism.base.errors import TypeMismatch
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.prove.procedure_checks import expected
from porism.rewrite.rule import Procedure
from porism.rules.algebra.constant_folding import LARGEST_BITS
from porism.rules.rule_sets import ALGEBRA

INTEGERS = [t for t in dtypes.scalars() if t.is_integer]
FLOATS = [t for t in dtypes.scalars() if t.is_float]
FLOAT_VALUES = (0.0, -0.0, 1.0, -1.5, 0.1, 3.0, math.inf, -math.inf, math.nan, 240.0, 1e-3)


def ldexp(x: float, n: float) -> float:
    if not math.isfinite(n):
        power = 0.0 if n < 0 else n
        return power if math.isnan(x) else x * power
    return float(np.ldexp(x, math.floor(n)))


# On f64 these are exact or rounded once; a second rounding, to a shorter type, does no harm then.
FLOAT_OPS: dict[Op, Callable[..., Any]] = {
    ops.NEG: np.negative, ops.SQRT: np.sqrt, ops.EXP: np.exp, ops.EXP2: np.exp2,
    ops.EXPM1: np.expm1, ops.TANH: np.tanh, ops.LOG2: np.log2, ops.SIN: np.sin,
    ops.RECIPROCAL: np.reciprocal,
    ops.TRUNC: np.trunc, ops.FLOOR: np.floor, ops.CEIL: np.ceil, ops.LDEXP: ldexp,
    ops.ROUND: np.rint, ops.ADD: np.add, ops.SUB: np.subtract, ops.MUL: np.multiply,
    ops.FDIV: np.divide, ops.MAX: np.maximum, ops.MIN: np.minimum, ops.POW: np.power,
}  # fmt: skip
COMPARISONS: dict[Op, Callable[..., Any]] = {
    ops.LT: np.less, ops.LE: np.less_equal, ops.GT: np.greater, ops.GE: np.greater_equal,
    ops.EQ: np.equal, ops.NE: np.not_equal,
}  # fmt: skip
INTEGER_OPS = (
    ops.NEG, ops.NOT, ops.ADD, ops.SUB, ops.MUL, ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD, ops.MAX,
    ops.MIN, ops.AND, ops.OR, ops.XOR, ops.SHL, ops.SHR, *COMPARISONS, ops.MULACC,
)  # fmt: skip


def values(dtype: DType) -> tuple[int, ...]:
    low, high = (-100, 100) if dtype is dtypes.index else (int(dtype.min), int(dtype.max))
    return tuple(sorted({low, low + 1, *(n for n in (-3, -1, 0, 1, 2, 7) if n >= low), high}))


def folded(op: Op, dtype: DType, *numbers: Any) -> Any:
    """What folding makes of an op on constants: a number, or None if it leaves them alone."""
    fold = ALGEBRA["fold"]
    assert isinstance(fold, Procedure)
    result = dtype.mask if op.group is ops.COMPARISON else dtype
    src = tuple(UOp.const(dtype, n) for n in numbers)
    made = fold.function(op, result, src, None)
    assert made is None or made is op(*src)
    return None if made is None else made.arg


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", INTEGER_OPS, ids=str)
def test_integers(dtype: DType, op: Op) -> None:
    for numbers in itertools.product(values(dtype), repeat=op.arity):
        wanted = expected(op, dtype, *numbers)
        actual = folded(op, dtype, *numbers)
        assert actual == wanted, numbers
        assert type(actual) is type(wanted), numbers


def test_booleans() -> None:
    for op in (ops.AND, ops.OR, ops.XOR, ops.MAX, ops.MIN, ops.NOT, *COMPARISONS):
        for truths in itertools.product((False, True), repeat=op.arity):
            wanted = expected(op, dtypes.boolean, *truths)
            assert folded(op, dtypes.boolean, *truths) is bool(wanted)


def same(a: float, b: float) -> bool:
    return repr(float(a)) == repr(float(b))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", FLOAT_OPS, ids=str)
def test_floats(dtype: DType, op: Op) -> None:
    rounded = [dtype.canonical(v) for v in FLOAT_VALUES]
    for numbers in itertools.product(rounded, repeat=op.arity):
        with np.errstate(all="ignore"):
            exact = float(FLOAT_OPS[op](*[np.float64(n) for n in numbers]))
        if op in (ops.MAX, ops.MIN) and numbers[0] == numbers[1] == 0:
            assert folded(op, dtype, *numbers) == 0
        else:
            assert same(folded(op, dtype, *numbers), float(dtype.canonical(exact))), numbers


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_comparisons_of_floats(dtype: DType) -> None:
    rounded = [dtype.canonical(v) for v in FLOAT_VALUES]
    for (op, function), (a, b) in itertools.product(
        COMPARISONS.items(), itertools.product(rounded, repeat=2)
    ):
        assert folded(op, dtype, a, b) is bool(function(a, b))


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.f32, dtypes.f64, dtypes.bf16], ids=str)
def test_multiplying_and_adding_rounds_once(dtype: DType) -> None:
    some = [dtype.canonical(v) for v in (0.1, -1.5, 3.0, 1e-3, 240.0, 1 / 3)]
    for a, b, c in itertools.product(some, repeat=3):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        actual = Fraction(folded(ops.MULACC, dtype, a, b, c))
        step = Fraction(float(np.spacing(np.abs(np.asarray(float(exact)).astype(dtype.numpy)))))
        assert abs(actual - exact) <= abs(step) / 2


def test_choices() -> None:
    yes, no = UOp.const(dtypes.f32, 1.5), UOp.const(dtypes.f32, -0.0)
    for truth, wanted in ((True, yes), (False, no)):
        assert ops.WHERE(UOp.const(dtypes.boolean, truth), yes, no) is wanted


def test_integer_powers_wrap() -> None:
    assert folded(ops.POW, dtypes.index, 3, 40) == 3**40
    assert folded(ops.POW, dtypes.i8, 3, 5) == 3**5 - 256
    assert folded(ops.POW, dtypes.i8, -1, -3) == -1
    assert folded(ops.POW, dtypes.u8, 2, 8) == 0


def test_random_bits() -> None:
    assert folded(ops.THREEFRY, dtypes.u64, 0, 0) is not None
    assert folded(ops.THREEFRY, dtypes.u64, 0, 0) != folded(ops.THREEFRY, dtypes.u64, 1, 0)


def test_every_elementwise_op_is_tried() -> None:
    tried = {*INTEGER_OPS, *FLOAT_OPS, ops.WHERE, ops.THREEFRY}
    assert {op for op in ops.table() if op.elementwise} == tried


# -- vectors ---------------------------------------------------------------------------------------


def vector(dtype: DType, *lanes: Any) -> UOp:
    return ops.VCONST(dtype=dtype.vec(len(lanes)), arg=lanes)


def test_vectors_lane_by_lane() -> None:
    a = vector(dtypes.i8, 1, 2, 100, -128)
    two = UOp.const(dtypes.i8.vec(4), 2)
    assert ops.MUL(a, two).arg == (2, 4, -56, 0)
    assert ops.LT(a, two).arg == (True, False, False, True)
    assert ops.NEG(a).arg == (-1, -2, -100, -128)
    # exactly the operands: no rule puts i8 in order, and both orders fold
    assert ops.SUB(two, a).arg == (1, 0, -98, -126)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_in_lanes_are_those_of_scalars(dtype: DType) -> None:
    numbers = values(dtype)
    vector = UOp(ops.VCONST, dtype.vec(len(numbers)), (), numbers)
    for op in (op for op in INTEGER_OPS if op.arity <= 2 and op not in (ops.SHL, ops.SHR)):
        for other in [n for n in numbers if n > 0] if op.arity == 2 else [None]:
            rest = [] if other is None else [UOp.const(vector.dtype, other)]
            made = op(vector, *rest)
            lanes = made.arg if made.op is ops.VCONST else (made.arg,) * len(numbers)
            given = [] if other is None else [other]
            assert made.op in (ops.CONST, ops.VCONST)
            assert list(lanes) == [folded(op, dtype, n, *given) for n in numbers]


def test_a_vector_of_equal_lanes_is_one_constant() -> None:
    a, b = vector(dtypes.f32, 1.0, 2.0), vector(dtypes.f32, 2.0, 1.0)
    total = ops.ADD(a, b)
    assert total is UOp.const(dtypes.f32.vec(2), 3.0)
    zeros = ops.MUL(vector(dtypes.f32, 0.0, -0.0), UOp.const(dtypes.f32.vec(2), 1.0))
    assert [math.copysign(1, lane) for lane in zeros.arg] == [1.0, -1.0]


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
def test_vectors_of_every_type(dtype: DType) -> None:
    lanes = [(1, 2, 3), (3, 2, 1)]
    a, b = (vector(dtype, *(dtype.canonical(n) for n in each)) for each in lanes)
    for op in (ops.SUB, ops.MUL, ops.MAX, ops.LT):
        each = tuple(folded(op, dtype, x, y) for x, y in zip(a.arg, b.arg, strict=True))
        made = op(a, b)
        assert (made.arg if made.op is ops.VCONST else (made.arg,) * 3) == each


def test_a_scalar_condition_chooses_between_vectors() -> None:
    a, b = vector(dtypes.i32, 1, 2), vector(dtypes.i32, 3, 4)
    assert ops.WHERE(UOp.const(dtypes.boolean, True), a, b) is a
    mask = vector(dtypes.boolean, True, False)
    assert ops.WHERE(mask, a, b).arg == (1, 4)


def test_one_undefined_lane_keeps_a_vector_from_folding() -> None:
    a, zero = vector(dtypes.index, 7, 8), vector(dtypes.index, 2, 0)
    assert ops.IDIV(a, zero).op is ops.IDIV
    assert ops.IDIV(vector(dtypes.i32, 7, 8), vector(dtypes.i32, 2, 0)).arg == (3, 0)


# -- what is not folded ----------------------------------------------------------------------------

UNDEFINED = [(op, 0) for op in (ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD)] + [
    (op, -1) for op in (ops.SHL, ops.SHR)
]


@pytest.mark.parametrize(("op", "second"), UNDEFINED, ids=str)
def test_what_is_undefined_on_index_stays(op: Op, second: int) -> None:
    node = op(UOp.const(dtypes.index, 7), UOp.const(dtypes.index, second))
    assert node.op is op
    assert folded(op, dtypes.i32, 7, second) is not None


@pytest.mark.parametrize("op", [ops.SHL, ops.POW], ids=str)
def test_huge_results_are_not_computed(op: Op) -> None:
    began = time.perf_counter()
    node = op(UOp.const(dtypes.index, 3), UOp.const(dtypes.index, 1 << 40))
    assert node.op is op
    assert time.perf_counter() - began < 1.0
    large = UOp.const(dtypes.index, 1 << (LARGEST_BITS - 1))
    assert ops.MUL(large, large).op is ops.MUL


def test_constants_of_the_wrong_type_are_refused() -> None:
    with pytest.raises(TypeMismatch):
        ops.ADD(UOp.const(dtypes.i8, 1), UOp.const(dtypes.i16, 1))


def test_folding_is_part_of_the_algebra() -> None:
    assert "fold" in [item.name for item in ALGEBRA]
    assert all(t.kind in (Kind.SIGNED, Kind.UNSIGNED, Kind.INDEX) for t in INTEGERS)
