"""What the solver is told of an op is what the evaluator computes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import z3

from porism.base import dtypes
from porism.base.dtypes import DType, Theory
from porism.base.errors import TypeMismatch
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.prove.arithmetic.bit_vectors import BitVectors
from porism.prove.arithmetic.ieee_floats import Floats
from porism.prove.arithmetic.op_meanings import Arithmetic, Unsupported
from porism.prove.arithmetic.solver import Answer, ask, value_in
from porism.prove.arithmetic.solver_booleans import Booleans
from porism.prove.arithmetic.unbounded_integers import Integers
from porism.prove.arithmetic.wrapping_integers import WrappingIntegers

WORDS = [t for t in dtypes.scalars() if t.theory is Theory.FIXED_WIDTH]


def values_of(dtype: DType) -> tuple[int, ...]:
    """Some words of a type: small ones, its limits, and its width."""
    low, high = int(dtype.min), int(dtype.max)
    some = {low, low + 1, -3, -1, 0, 1, 2, 7, 8, dtype.bits, high // 2 + 1, high}
    return tuple(sorted(n for n in some if low <= n <= high))


FLOATS = (0.0, -0.0, 1.0, -1.5, 0.1, 3.0, math.inf, -math.inf, math.nan, 6e-8, 65504.0, 2049.0)
FLOAT_TYPES = (dtypes.f16, dtypes.bf16, dtypes.f32, dtypes.f64)
INDICES = (-7, -2, -1, 0, 1, 2, 3, 12)
ANY_MODEL = ask([], milliseconds=1000)[1]
UNKNOWN = (ops.POW, ops.LDEXP, ops.THREEFRY)
"""Ops that the solver knows nothing of."""


def elementwise(dtype: DType) -> list[Op]:
    """The ops of one or two operands that can stand on values of a type."""
    actual = []
    for op in ops.table():
        if op.elementwise and op.arity < 3:
            try:
                UOp(op, None, (UOp.const(dtype, 1),) * op.arity)
                actual.append(op)
            except TypeMismatch:
                continue
    return actual


def meaning(op: Op, dtype: DType, *values: Any) -> Any:
    assert op.meaning is not None
    return op.meaning(dtype, *[semantics.array_of(dtype, value) for value in values])[()].item()


def told(kind: Arithmetic, op: Op, *values: Any) -> Any:
    """What the solver computes."""
    result = kind.apply(op, *[kind.literal(value) for value in values])
    model = ANY_MODEL
    if kind.constraints:
        answer, model = ask(kind.constraints, milliseconds=5000)
        assert answer is Answer.YES
    if not z3.is_bool(result):
        result = kind.to_number(result)
    return value_in(model, result)


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_words(dtype: DType) -> None:
    tried = set()
    for op in elementwise(dtype):
        for values in itertools.product(values_of(dtype), repeat=op.arity):
            kind = BitVectors(dtype)
            if op not in UNKNOWN:
                wanted = meaning(op, dtype, *values)
                assert told(kind, op, *values) == wanted, (op, values)
                tried.add(op)
    assert len(tried) >= 22


BITS = (ops.AND, ops.OR, ops.XOR, ops.SHL, ops.SHR)


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.u8, dtypes.i64, dtypes.u64], ids=str)
def test_words_as_integers_that_wrap(dtype: DType) -> None:
    tried = set()
    for op in elementwise(dtype):
        for values in itertools.product(values_of(dtype)[::2], repeat=op.arity):
            kind = WrappingIntegers(dtype)
            if op in BITS or op in UNKNOWN:
                with pytest.raises(Unsupported):
                    told(kind, op, *values)
                continue
            assert told(kind, op, *values) == meaning(op, dtype, *values), (op, values)
            tried.add(op)
    assert len(tried) >= 18


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_a_word_that_wraps_is_one_word(dtype: DType) -> None:
    """Its limits are stated, so that no more than one multiple can be taken away."""
    kind = WrappingIntegers(dtype)
    a, b = kind.hole("a"), kind.hole("b")
    total, again = (kind.apply(ops.ADD, a, b) for _ in range(2))
    assert ask([*kind.constraints, total != again], milliseconds=5000)[0] is Answer.NO
    high = int(dtype.max)
    wraps = [a == high, b == 1, total == int(dtype.min)]
    assert ask([*kind.constraints, *wraps], milliseconds=5000)[0] is Answer.YES


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.u16, dtypes.i64, *FLOAT_TYPES], ids=str)
def test_small_powers(dtype: DType) -> None:
    values = FLOATS if dtype.is_float else values_of(dtype)
    kind = Floats(dtype) if dtype.is_float else BitVectors(dtype)
    for base in values:
        for exponent in (0, 1) if dtype.is_float else (0, 1, 2, 3):
            rounded = dtype.canonical(base)
            actual = told(kind, ops.POW, rounded, exponent)
            assert repr(actual) == repr(meaning(ops.POW, dtype, rounded, exponent))


@pytest.mark.parametrize("exponent", [0, 1])
def test_small_powers_of_all_short_floats(exponent: int) -> None:
    """What the solver is told: anything to the power of 0 is 1, to the power of 1 itself."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    actual = semantics.power(dtypes.f16, every, np.full_like(every, exponent))
    wanted = every if exponent else np.ones_like(every)
    assert np.array_equal(actual, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(actual), np.signbit(wanted)) or exponent


def test_unbounded_integers() -> None:
    bits = (ops.AND, ops.OR, ops.XOR)
    for op in elementwise(dtypes.index):
        for values in itertools.product(INDICES, repeat=op.arity):
            kind = Integers()
            if op in bits:
                with pytest.raises(Unsupported):
                    told(kind, op, *values)
                continue
            defined = z3.simplify(kind.defined(op, *[kind.literal(v) for v in values]))
            if z3.is_true(defined) and op not in UNKNOWN:
                assert told(kind, op, *values) == meaning(op, dtypes.index, *values), (op, values)


def test_division_is_undefined_where_the_evaluator_refuses_it() -> None:
    kind = Integers()
    for op in (ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD):
        assert z3.is_false(z3.simplify(kind.defined(op, kind.literal(1), kind.literal(0))))
    for op in (ops.SHL, ops.SHR):
        assert z3.is_false(z3.simplify(kind.defined(op, kind.literal(1), kind.literal(-1))))


def test_booleans() -> None:
    for op in elementwise(dtypes.boolean):
        for values in itertools.product((False, True), repeat=op.arity):
            assert told(Booleans(), op, *values) == meaning(op, dtypes.boolean, *values)


@pytest.mark.parametrize("dtype", FLOAT_TYPES, ids=str)
def test_floats(dtype: DType) -> None:
    known = {*(op for op in ops.table() if op.approximate and op.arity == 1), *UNKNOWN}
    tried = set()
    for op in elementwise(dtype):
        if op in known:
            continue
        tried.add(op)
        for values in itertools.product(FLOATS, repeat=op.arity):
            rounded = [dtype.canonical(value) for value in values]
            actual, wanted = told(Floats(dtype), op, *rounded), meaning(op, dtype, *rounded)
            zeros = op in (ops.MAX, ops.MIN) and rounded[0] == rounded[-1] == 0.0
            if not zeros:  # of two zeros either is right
                assert repr(actual) == repr(wanted), (op, rounded)
    assert len(tried) >= 18


def test_one_rounding() -> None:
    for dtype in (dtypes.f16, dtypes.f32):
        for values in itertools.product((0.1, 3.0, -1.5, 2049.0, math.inf), repeat=3):
            rounded = [dtype.canonical(value) for value in values]
            actual = told(Floats(dtype), ops.MULACC, *rounded)
            assert repr(actual) == repr(meaning(ops.MULACC, dtype, *rounded))


CASTS = [
    (dtypes.i8, dtypes.u8), (dtypes.u8, dtypes.i8), (dtypes.i8, dtypes.i32),
    (dtypes.u8, dtypes.i32), (dtypes.i32, dtypes.i8), (dtypes.i8, dtypes.boolean),
    (dtypes.boolean, dtypes.u8), (dtypes.f32, dtypes.f16), (dtypes.boolean, dtypes.f16),
    (dtypes.boolean, dtypes.index), (dtypes.f16, dtypes.boolean),
    *((word, float_type) for word in WORDS for float_type in FLOAT_TYPES),
    *((float_type, word) for word in WORDS for float_type in FLOAT_TYPES),
]  # fmt: skip


def arithmetic(dtype: DType) -> Arithmetic:
    if dtype is dtypes.index:
        return Integers()
    if dtype is dtypes.boolean:
        return Booleans()
    return Floats(dtype) if dtype.is_float else BitVectors(dtype)


@pytest.mark.parametrize(("source", "target"), CASTS, ids=str)
def test_casts(source: DType, target: DType) -> None:
    values: tuple[Any, ...] = FLOATS if source.is_float else (-129, -1, 0, 1, 127, 200, 70000)
    kind = arithmetic(target)
    for value in {source.canonical(value) for value in values}:
        made = kind.cast(arithmetic(source).literal(value), arithmetic(source))
        actual = value_in(ANY_MODEL, made if z3.is_bool(made) else kind.to_number(made))
        wanted = semantics.cast(source, target, semantics.array_of(source, value))[()].item()
        assert repr(actual) == repr(wanted)


def test_casts_between_worlds_are_left_to_the_evaluator() -> None:
    with pytest.raises(Unsupported):
        BitVectors(dtypes.i8).cast(Integers().literal(1), Integers())
