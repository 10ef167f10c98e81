"""What each op computes, against Python's integers, exact fractions and tables of all values."""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, wrap
from porism.base.errors import EvaluationError
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.ops import Op

INTEGERS: Final = [t for t in dtypes.scalars() if t.is_integer and t.bits]
FLOATS: Final = [t for t in dtypes.scalars() if t.is_float]
NARROW: Final = [t for t in FLOATS if t.bits < 32]


def apply(op: Op, dtype: DType, *operands: Any) -> Any:
    assert op.meaning is not None
    return op.meaning(dtype, *[np.asarray(x) for x in operands])


def ints(dtype: DType, *values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=object if dtype.kind is Kind.INDEX else dtype.numpy)


def floats(dtype: DType, *values: float) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        return np.array(values).astype(dtype.numpy)


# -- integers --------------------------------------------------------------------------------------


def truncated(a: int, b: int) -> int:
    return -(-a // b) if (a < 0) != (b < 0) else a // b


def power(a: int, b: int) -> int:
    if b >= 0:
        return int(a**b)
    return a if a in (0, 1) or (a == -1 and b % 2) else int(a == -1)


def binary_oracles(bits: int) -> dict[Op, Callable[[int, int], int]]:
    """Python's meaning of the ops on ints, before wrapping."""

    def left(a: int, k: int) -> int:
        return a << k if 0 <= k < bits else 0

    def right(a: int, k: int) -> int:
        return a >> (k if 0 <= k < bits else bits)

    return {
        ops.ADD: lambda a, b: a + b,
        ops.SUB: lambda a, b: a - b,
        ops.MUL: lambda a, b: a * b,
        ops.IDIV: lambda a, b: a // b if b else 0,
        ops.MOD: lambda a, b: a % b if b else 0,
        ops.CDIV: lambda a, b: truncated(a, b) if b else 0,
        ops.CMOD: lambda a, b: a - b * truncated(a, b) if b else 0,
        ops.MAX: max,
        ops.MIN: min,
        ops.AND: lambda a, b: a & b,
        ops.OR: lambda a, b: a | b,
        ops.XOR: lambda a, b: a ^ b,
        ops.SHL: left,
        ops.SHR: right,
        ops.POW: power,
        ops.LT: lambda a, b: a < b,
        ops.LE: lambda a, b: a <= b,
        ops.GT: lambda a, b: a > b,
        ops.GE: lambda a, b: a >= b,
        ops.EQ: lambda a, b: a == b,
        ops.NE: lambda a, b: a != b,
    }


BINARY: Final = tuple(binary_oracles(8))
FUNCTIONS: Final[dict[Op, Callable[[float], float]]] = {
    ops.EXP: math.exp,
    ops.EXP2: lambda v: 2.0**v,
    ops.EXPM1: math.expm1,
    ops.TANH: math.tanh,
    ops.LOG2: math.log2,
    ops.SIN: math.sin,
    ops.SQRT: math.sqrt,
    ops.RECIPROCAL: lambda v: 1 / v,
}


def test_every_meaning_has_an_oracle() -> None:
    roundings = {ops.TRUNC, ops.FLOOR, ops.CEIL, ops.ROUND}
    others = {ops.NEG, ops.NOT, ops.FDIV, ops.LDEXP, ops.WHERE, ops.MULACC, ops.THREEFRY}
    tested = {*BINARY, *FUNCTIONS, *roundings, *others}
    assert tested == {op for op in ops.table() if op.meaning is not None}
    assert tested == {op for op in ops.table() if op.elementwise}


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.u8], ids=str)
def test_all_pairs_of_8_bit_integers(op: Op, dtype: DType) -> None:
    every = range(int(dtype.min), int(dtype.max) + 1)
    a, b = np.meshgrid(np.array(every, dtype.numpy), np.array(every, dtype.numpy), indexing="ij")
    actual = apply(op, dtype, a, b)
    oracle = binary_oracles(8)[op]
    if op.group is ops.COMPARISON:
        assert actual.dtype == np.bool_
        expected = [[oracle(x, y) for y in every] for x in every]
    else:
        assert actual.dtype == dtype.numpy
        expected = [[wrap(dtype, oracle(x, y)) for y in every] for x in every]
    np.testing.assert_array_equal(actual.astype(np.int64), np.array(expected, np.int64))


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_edges_of_integers(op: Op, dtype: DType) -> None:
    low, high = int(dtype.min), int(dtype.max)
    edges = {low, low + 1, -1, 0, 1, 2, 7, 63, 64, high // 2, high - 1, high}
    values = sorted(v for v in edges if low <= v <= high)
    oracle = binary_oracles(dtype.bits)[op]
    for x in values:
        for y in values:
            if op is ops.POW and y > 64:
                expected = wrap(dtype, pow(x, y, 1 << dtype.bits))
            else:
                expected = wrap(dtype, oracle(x, y))
            actual = apply(op, dtype, ints(dtype, x), ints(dtype, y))
            assert int(actual[0]) == expected, (x, y)


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
def test_index_is_exact(op: Op) -> None:
    values = [0, 1, -1, 3, -7, 10**30, -(10**30), 1 << 64, 100]
    oracle = binary_oracles(0)[op]
    if op is ops.SHL or op is ops.SHR:
        oracle = (lambda a, k: a << k) if op is ops.SHL else (lambda a, k: a >> k)
    for x in values:
        for y in values:
            if op in (ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD) and y == 0:
                continue
            if op in (ops.SHL, ops.SHR, ops.POW) and not 0 <= y <= 100:
                continue
            actual = apply(op, dtypes.index, ints(dtypes.index, x), ints(dtypes.index, y))
            assert actual[0] == oracle(x, y), (x, y)


@pytest.mark.parametrize("op", [ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD], ids=lambda op: op.name)
def test_dividing_an_index_by_zero_is_an_error(op: Op) -> None:
    with pytest.raises(EvaluationError, match="by zero") as caught:
        apply(op, dtypes.index, ints(dtypes.index, 1, 2), ints(dtypes.index, 1, 0))
    assert caught.value.why is not None
    assert "undefined on index" in caught.value.why


@pytest.mark.parametrize("op", [ops.SHL, ops.SHR], ids=lambda op: op.name)
def test_shifting_an_index_by_less_than_nothing_is_an_error(op: Op) -> None:
    with pytest.raises(EvaluationError, match="negative amount"):
        apply(op, dtypes.index, ints(dtypes.index, 1), ints(dtypes.index, -1))


@pytest.mark.parametrize("dtype", [*INTEGERS, dtypes.index], ids=str)
def test_unary_integers(dtype: DType) -> None:
    low = int(dtype.min) if dtype.bits else -(10**30)
    high = int(dtype.max) if dtype.bits else 10**30
    for x in {low, low + 1, 0, 1, 5, high - 1, high}:
        value = ints(dtype, x)
        assert apply(ops.NEG, dtype, value)[0] == wrap(dtype, -x)
        assert apply(ops.NOT, dtype, value)[0] == wrap(dtype, ~x)
        for op in (ops.TRUNC, ops.FLOOR, ops.CEIL, ops.ROUND):
            assert apply(op, dtype, value)[0] == x


def test_booleans() -> None:
    a = np.array([False, False, True, True])
    b = np.array([False, True, False, True])
    t = dtypes.boolean
    assert apply(ops.AND, t, a, b).tolist() == [False, False, False, True]
    assert apply(ops.OR, t, a, b).tolist() == [False, True, True, True]
    assert apply(ops.XOR, t, a, b).tolist() == [False, True, True, False]
    assert apply(ops.NOT, t, a).tolist() == [True, True, False, False]
    assert apply(ops.MAX, t, a, b).tolist() == [False, True, True, True]
    assert apply(ops.MIN, t, a, b).tolist() == [False, False, False, True]
    assert apply(ops.EQ, t, a, b).tolist() == [True, False, False, True]
    assert apply(ops.NE, t, a, b).tolist() == [False, True, True, False]
    assert apply(ops.LT, t, a, b).tolist() == [False, True, False, False]


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.u16, dtypes.index], ids=str)
def test_multiply_and_add_integers(dtype: DType) -> None:
    source = random.Random(1)
    for _ in range(200):
        x, y, z = (source.randrange(0, 128) for _ in range(3))
        actual = apply(ops.MULACC, dtype, ints(dtype, x), ints(dtype, y), ints(dtype, z))
        assert actual[0] == wrap(dtype, x * y + z)


def test_where_chooses() -> None:
    condition = np.array([True, False, True])
    yes, no = np.array([1.0, math.nan, -0.0]), np.array([math.nan, 2.0, 3.0])
    actual = apply(ops.WHERE, dtypes.f64, condition, yes, no)
    assert actual.tolist() == [1.0, 2.0, 0.0]
    assert math.copysign(1, actual[2]) == -1


# -- floats ----------------------------------------------------------------------------------------


def bit_patterns(dtype: DType) -> list[float]:
    """Every finite value of a narrow float type that is not negative, in order."""
    codes = np.arange(1 << (dtype.bits - 1), dtype=f"u{dtype.bits // 8}")
    with np.errstate(invalid="ignore"):  # some of them are signalling NaNs
        values = codes.view(dtype.numpy).astype(np.float64)
    return [float(v) for v in values if math.isfinite(v)]


POSITIVE: Final = {t: bit_patterns(t) for t in NARROW}


def nearest(dtype: DType, exact: Fraction) -> float:
    """The value of a narrow type nearest to an exact one, ties to the even bit pattern."""
    values = POSITIVE[dtype]
    size = abs(exact)
    above = bisect.bisect_left(values, size)
    if above == len(values):
        # The next value, were there one, is where rounding up overflows. The codes of fp8e4m3 end
        # in an even one, so that a tie goes down; in the others they end in an odd one.
        beyond = 2 * Fraction(values[-1]) - Fraction(values[-2])
        middle = (beyond + Fraction(values[-1])) / 2
        even = (len(values) - 1) % 2 == 0
        inside = size <= middle if even else size < middle
        overflow = math.nan if dtype is dtypes.fp8e4m3 else math.inf
        result = values[-1] if inside else overflow
    elif above == 0 or values[above] == size:
        result = values[above]
    else:
        low, high = Fraction(values[above - 1]), Fraction(values[above])
        if size - low == high - size:
            result = values[above - 1] if (above - 1) % 2 == 0 else values[above]
        else:
            result = values[above - 1] if size - low < high - size else values[above]
    return -result if exact < 0 else result


def same(actual: Any, expected: float) -> bool:
    """Equal, with NaN equal to itself and the zeros told apart."""
    value = float(actual)
    if math.isnan(expected):
        return math.isnan(value)
    return value == expected and math.copysign(1, value) == math.copysign(1, expected)


EXACT: Final[dict[Op, Callable[[Fraction, Fraction], Fraction]]] = {
    ops.ADD: lambda a, b: a + b,
    ops.SUB: lambda a, b: a - b,
    ops.MUL: lambda a, b: a * b,
    ops.FDIV: lambda a, b: a / b,
}


@pytest.mark.parametrize("op", list(EXACT), ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_narrow_arithmetic_rounds_once(op: Op, dtype: DType) -> None:
    source = random.Random(f"{op}{dtype}")
    values = POSITIVE[dtype]
    for _ in range(400):
        x, y = (source.choice(values) * source.choice((1, -1)) for _ in range(2))
        if op is ops.FDIV and y == 0:
            continue
        exact = EXACT[op](Fraction(x), Fraction(y))
        if exact == 0:
            continue  # the sign of zero is tested by itself
        operands = [floats(dtype, v) for v in (x, y)]
        actual = apply(op, dtype, *operands)
        assert actual.dtype == dtype.numpy
        assert same(actual[0], nearest(dtype, exact)), (x, y)


@pytest.mark.parametrize("op", list(EXACT), ids=lambda op: op.name)
def test_doubles_round_once(op: Op) -> None:
    source = random.Random(str(op))
    for _ in range(300):
        x, y = (source.uniform(-2, 2) * 2.0 ** source.randrange(-40, 40) for _ in range(2))
        exact = EXACT[op](Fraction(x), Fraction(y))
        assert same(apply(op, dtypes.f64, np.array([x]), np.array([y]))[0], float(exact))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_special_values(dtype: DType) -> None:
    def run(op: Op, *values: float) -> Any:
        return apply(op, dtype, *[floats(dtype, v) for v in values])[0]

    assert same(run(ops.ADD, -0.0, 0.0), 0.0)
    assert same(run(ops.ADD, -0.0, -0.0), -0.0)
    assert same(run(ops.SUB, -0.0, 0.0), -0.0)
    assert same(run(ops.MUL, -0.0, 2.0), -0.0)
    assert same(run(ops.NEG, 0.0), -0.0)
    assert same(run(ops.NEG, -2.0), 2.0)
    assert same(run(ops.FDIV, 0.0, 0.0), math.nan)
    assert same(run(ops.SQRT, -0.0), -0.0)
    assert same(run(ops.SQRT, -1.0), math.nan)
    assert same(run(ops.SQRT, 4.0), 2.0)
    assert same(run(ops.EXP, 0.0), 1.0)
    assert same(run(ops.EXP2, 3.0), 8.0)
    assert same(run(ops.LDEXP, 1.5, 2.0), 6.0)
    assert same(run(ops.LDEXP, 8.0, -1.5), 2.0)
    assert same(run(ops.LDEXP, -0.0, 1.0), -0.0)
    assert same(run(ops.LDEXP, 1.0, math.nan), math.nan)
    assert same(run(ops.LDEXP, math.nan, 1.0), math.nan)
    assert same(run(ops.LOG2, 8.0), 3.0)
    assert same(run(ops.LOG2, -1.0), math.nan)
    assert same(run(ops.SIN, 0.0), 0.0)
    assert same(run(ops.SIN, -0.0), -0.0)
    assert same(run(ops.RECIPROCAL, 4.0), 0.25)
    assert same(run(ops.POW, -2.0, 3.0), -8.0)
    assert same(run(ops.POW, 0.0, 0.0), 1.0)
    assert same(run(ops.POW, -2.0, 0.5), math.nan)
    for op in (ops.MAX, ops.MIN):
        assert same(run(op, math.nan, 1.0), math.nan)
        assert same(run(op, 1.0, math.nan), math.nan)
    assert same(run(ops.MAX, -1.0, 2.0), 2.0)
    assert same(run(ops.MIN, -1.0, 2.0), -1.0)
    for op in (ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ):
        assert not run(op, math.nan, math.nan)
    assert run(ops.NE, math.nan, math.nan)
    assert run(ops.EQ, 0.0, -0.0)
    assert run(ops.LE, -1.0, 1.0)
    if dtype is not dtypes.fp8e4m3:  # it has no infinities
        assert same(run(ops.FDIV, 1.0, -0.0), -math.inf)
        assert same(run(ops.LOG2, 0.0), -math.inf)
        assert same(run(ops.RECIPROCAL, -0.0), -math.inf)
        assert same(run(ops.SIN, math.inf), math.nan)
        assert same(run(ops.MUL, math.inf, 0.0), math.nan)
        assert same(run(ops.SUB, math.inf, math.inf), math.nan)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_whole_numbers(dtype: DType) -> None:
    values = [-2.5, -1.5, -0.5, -0.25, -0.0, 0.25, 0.5, 0.75, 1.5, 2.5, 3.5]
    x = floats(dtype, *values)
    oracles: dict[Op, Callable[[float], int]] = {
        ops.TRUNC: math.trunc,
        ops.FLOOR: math.floor,
        ops.CEIL: math.ceil,
        ops.ROUND: round,
    }
    for op, oracle in oracles.items():
        actual = apply(op, dtype, x)
        assert actual.dtype == dtype.numpy
        assert [float(v) for v in actual] == [oracle(v) for v in values], op
    assert math.copysign(1, float(apply(ops.CEIL, dtype, x)[3])) == -1


@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.f32, dtypes.bf16], ids=str)
def test_functions_are_within_half_an_ulp(op: Op, dtype: DType) -> None:
    """A double is exact enough to decide all but a few of these."""
    x = np.linspace(0.01, 10, 500).astype(dtype.numpy)
    actual = apply(op, dtype, x)
    for value, result in zip(x, actual, strict=True):
        assert float(result) == dtypes.round_float(dtype, FUNCTIONS[op](float(value)))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_rounding_to_a_narrow_type(dtype: DType) -> None:
    """Near the middle between two values, where rounding twice would go wrong."""
    source = random.Random(str(dtype))
    values = POSITIVE[dtype]
    for _ in range(1000):
        k = source.randrange(len(values) - 1)
        middle = (values[k] + values[k + 1]) / 2
        for x in (middle, math.nextafter(middle, 0), math.nextafter(middle, math.inf)):
            if x == 0:
                continue
            assert same(dtypes.round_float(dtype, x), nearest(dtype, Fraction(x))), x
            assert same(dtypes.round_float(dtype, -x), nearest(dtype, Fraction(-x))), -x


# -- fused multiply and add ------------------------------------------------------------------------


def fused(dtype: DType, exact: Fraction) -> float:
    if dtype in POSITIVE:
        return nearest(dtype, exact)
    if dtype is dtypes.f64:
        return float(exact)
    # f32: through the integers of its significand
    size = abs(exact)
    exponent = max(math.floor(math.log2(float(size))) - 24, -149)
    for shift in range(exponent, exponent + 3):
        scaled = round(size / Fraction(2) ** shift)  # ties to even
        if scaled <= 1 << 24:
            return float(scaled * Fraction(2) ** shift * (1 if exact > 0 else -1))
    raise AssertionError(exact)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_multiply_and_add_rounds_once(dtype: DType) -> None:
    source = random.Random(str(dtype))

    def draw() -> float:
        value = source.uniform(1, 2) * 2.0 ** source.randrange(-3, 4) * source.choice((1, -1))
        return dtypes.round_float(dtype, value)

    for _ in range(500):
        x, y, z = draw(), draw(), draw()
        if source.random() < 0.5:  # make the sum cancel, so that the product's low bits matter
            z = dtypes.round_float(dtype, -x * y)
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        operands = [floats(dtype, v) for v in (x, y, z)]
        actual = apply(ops.MULACC, dtype, *operands)
        assert actual.dtype == dtype.numpy
        if exact == 0:
            assert float(actual[0]) == 0
        else:
            assert same(actual[0], fused(dtype, exact)), (x, y, z)


def test_multiply_and_add_special_values() -> None:
    def run(*values: float) -> Any:
        return apply(ops.MULACC, dtypes.f64, *[np.array([v]) for v in values])[0]

    assert same(run(math.inf, 0.0, 1.0), math.nan)
    assert same(run(math.inf, 1.0, -math.inf), math.nan)
    assert same(run(math.nan, 1.0, 1.0), math.nan)
    assert same(run(-0.0, 1.0, -0.0), -0.0)
    assert same(run(1e308, 10.0, 0.0), math.inf)
    assert same(run(1e308, 10.0, -1e308), math.inf)
    assert same(run(1e308, 2.0, -1e308), 1e308)


# -- conversions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", INTEGERS, ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_floats_to_integers_saturate(source: DType, target: DType) -> None:
    low, high = int(target.min), int(target.max)
    wanted = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 100.0, -100.0, float(low), float(high), 3e9, -3e9]
    wanted += [2.0**63, -(2.0**63), 2.0**64, 2.0**63 - 1024, 1e300, math.nan, math.inf, -math.inf]
    x = [dtypes.round_float(source, v) for v in wanted]
    actual = semantics.cast(source, target, floats(source, *x))
    assert actual.dtype == target.numpy
    for value, result in zip(x, actual, strict=True):
        if math.isnan(value):
            expected = 0
        elif math.isinf(value):
            expected = high if value > 0 else low
        else:
            expected = max(low, min(high, math.trunc(value)))
        assert int(result) == expected, value


@pytest.mark.parametrize("target", INTEGERS, ids=str)
@pytest.mark.parametrize("source", [*INTEGERS, dtypes.boolean], ids=str)
def test_integers_to_integers_wrap(source: DType, target: DType) -> None:
    low, high = int(source.min), int(source.max)
    values = sorted({low, low // 2, 0, 1, high // 2 + 1, high})
    actual = semantics.cast(source, target, np.array(values, dtype=source.numpy))
    assert actual.dtype == target.numpy
    assert [int(v) for v in actual] == [wrap(target, v) for v in values]


def test_index_to_integers_wraps() -> None:
    for kind in (object, np.int64):
        x = np.array([300, -1, 1 << 40], dtype=kind)
        assert semantics.cast(dtypes.index, dtypes.u8, x).tolist() == [44, 255, 0]
    big = np.array([1 << 70, (1 << 64) + 5], dtype=object)
    assert semantics.cast(dtypes.index, dtypes.u64, big).tolist() == [0, 5]


def test_integers_to_index_are_exact() -> None:
    top = np.array([(1 << 64) - 1], dtype=np.uint64)
    assert semantics.cast(dtypes.u64, dtypes.index, top)[0] == (1 << 64) - 1
    assert semantics.cast(dtypes.i8, dtypes.index, np.array([-3], np.int8))[0] == -3
    assert semantics.cast(dtypes.boolean, dtypes.index, np.array([True]))[0] == 1
    floats = np.array([1e30, -2.5, math.nan])
    assert semantics.cast(dtypes.f64, dtypes.index, floats).tolist() == [int(1e30), -2, 0]


@pytest.mark.parametrize("target", FLOATS, ids=str)
@pytest.mark.parametrize("source", [dtypes.i32, dtypes.i64, dtypes.u64, dtypes.index], ids=str)
def test_integers_to_floats_round_once(source: DType, target: DType) -> None:
    draw = random.Random(f"{source}{target}")
    values = [0, 1, 3, 100, 65519, 65520, (1 << 24) + 1, (1 << 30) + (1 << 22) + 1]
    for _ in range(200):
        value = draw.getrandbits(draw.randrange(1, (source.bits or 200) - 1))
        values += [value, value if source is dtypes.u64 else -value]
    # halfway between two floats, and just beside
    values += [(1 << 26) + (1 << (26 - k)) + 1 for k in range(2, 26)]
    x = ints(source, *values)
    actual = semantics.cast(source, target, x)
    assert actual.dtype == target.numpy
    for value, result in zip(values, actual, strict=True):
        if value == 0:
            assert same(result, 0.0)
        elif target is dtypes.f32 and abs(value) >= 1 << 128:
            assert math.isinf(float(result))
        else:
            assert same(result, fused(target, Fraction(value))), value


def test_an_index_beyond_all_floats_is_infinite() -> None:
    x = ints(dtypes.index, 10**400, -(10**400))
    for target in (dtypes.f64, dtypes.f32, dtypes.f16, dtypes.bf16):
        assert [float(v) for v in semantics.cast(dtypes.index, target, x)] == [math.inf, -math.inf]


@pytest.mark.parametrize("target", NARROW, ids=str)
@pytest.mark.parametrize("source", [dtypes.f64, dtypes.f32, dtypes.f16, dtypes.bf16], ids=str)
def test_floats_to_narrower_floats_round_once(source: DType, target: DType) -> None:
    draw = random.Random(f"{source}{target}")
    values = POSITIVE[target]
    for _ in range(300):
        k = draw.randrange(len(values) - 1)
        middle = (values[k] + values[k + 1]) / 2
        x = dtypes.round_float(source, middle * (1 + draw.choice((0, 2**-40, -(2**-40), 2**-9))))
        if x == 0 or not math.isfinite(x):
            continue
        actual = semantics.cast(source, target, floats(source, x))
        assert same(actual[0], nearest(target, Fraction(x))), x


@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_wider_floats_hold_narrower_ones(source: DType) -> None:
    x = floats(source, 0.0, -0.0, 1.5, math.nan)
    for target in FLOATS:
        actual = semantics.cast(source, target, x)
        assert actual.dtype == target.numpy
        assert same(actual[1], -0.0)
        assert same(actual[2], 1.5)
        assert same(actual[3], math.nan)


def test_to_bool_is_whether_it_is_not_zero() -> None:
    x = np.array([0.0, -0.0, math.nan, 0.5, -1.0])
    assert semantics.cast(dtypes.f64, dtypes.boolean, x).tolist() == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert semantics.cast(dtypes.i8, dtypes.boolean, np.array([0, 2], np.int8)).tolist() == [
        False,
        True,
    ]


def test_bitcast_keeps_the_bits() -> None:
    x = np.array([1.0, -2.0], np.float32)
    actual = semantics.bitcast(dtypes.f32, dtypes.u32, x)
    assert [hex(v) for v in actual] == ["0x3f800000", "0xc0000000"]
    back = semantics.bitcast(dtypes.u32, dtypes.f32, actual)
    assert back.tolist() == [1.0, -2.0]


def test_constants_as_arrays() -> None:
    assert semantics.array_of(dtypes.i8, -5).dtype == np.int8
    assert semantics.array_of(dtypes.u64, (1 << 64) - 1) == (1 << 64) - 1
    assert semantics.array_of(dtypes.index, 10**30).item() == 10**30
    assert semantics.array_of(dtypes.boolean, True).dtype == np.bool_
    assert math.isnan(float(semantics.array_of(dtypes.bf16, math.nan)))


# -- random bits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_known_answers(
    counter: tuple[int, int], key: tuple[int, int], expected: tuple[int, int]
) -> None:
    def packed(words: tuple[int, int]) -> np.ndarray[Any, Any]:
        return np.array([words[0] | words[1] << 32], dtype=np.uint64)

    actual = int(apply(ops.THREEFRY, dtypes.u64, packed(counter), packed(key))[0])
    assert (actual & 0xFFFFFFFF, actual >> 32) == expected
