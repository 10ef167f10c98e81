"""Semantics: what each elementwise op computes, on NumPy arrays, per dtype.

A meaning is a function `(dtype, *arrays) -> array`, where `dtype` is the scalar type of the
operands. Integers wrap; `index` is exact (int64 where it fits, Python ints otherwise); floats
narrower than f32 are computed in f32, and transcendental functions in f64, then rounded once.
The evaluator, constant folding and the tests of every backend use these functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, Scalar
from porism.base.errors import EvaluationError

Array = npt.NDArray[Any]
Meaning = Callable[..., Any]


def _rounded(dtype: DType, function: Callable[..., Any], *arrays: Array) -> Array:
    """Compute narrow floats in f32: exact for + - * / sqrt, since f32 has twice the bits."""
    if dtype.bits < 32 and dtype.is_float:
        wide = [np.asarray(a).astype(np.float32) for a in arrays]
        return np.asarray(function(*wide)).astype(dtype.numpy)
    return np.asarray(function(*arrays))


def arithmetic(function: Callable[..., Any]) -> Meaning:
    """Return the meaning of an op that NumPy has, with wrapping integers."""

    def meaning(dtype: DType, *arrays: Array) -> Array:
        with np.errstate(all="ignore"):
            result = _rounded(dtype, function, *arrays)
        return result if result.dtype == arrays[0].dtype else result.astype(arrays[0].dtype)

    return meaning


def transcendental(function: Callable[[Array], Any]) -> Meaning:
    """Return the meaning of a float function that is computed in f64 and rounded once."""

    def meaning(dtype: DType, x: Array) -> Array:
        with np.errstate(all="ignore"):
            wide = np.asarray(function(np.asarray(x).astype(np.float64)))
            return dtypes.round_floats(dtype, wide)

    return meaning


def rounding(function: Callable[[Array], Any]) -> Meaning:
    """Return the meaning of a rounding function: the identity on integers."""

    def meaning(dtype: DType, x: Array) -> Array:
        return _rounded(dtype, function, x) if dtype.is_float else x

    return meaning


def comparison(function: Callable[..., Any]) -> Meaning:
    def meaning(dtype: DType, a: Array, b: Array) -> Array:
        if dtype.is_float and dtype.bits < 32:
            a, b = a.astype(np.float32), b.astype(np.float32)
        return np.asarray(function(a, b)).astype(np.bool_)

    return meaning


add = arithmetic(np.add)
sub = arithmetic(np.subtract)
mul = arithmetic(np.multiply)
fdiv = arithmetic(np.divide)
maximum = arithmetic(np.maximum)
minimum = arithmetic(np.minimum)
bit_and = arithmetic(np.bitwise_and)
bit_or = arithmetic(np.bitwise_or)
bit_xor = arithmetic(np.bitwise_xor)
sqrt = arithmetic(np.sqrt)
reciprocal = arithmetic(lambda x: np.divide(np.ones_like(x), x))
exp = transcendental(np.exp)
exp2 = transcendental(np.exp2)
expm1 = transcendental(np.expm1)
tanh = transcendental(np.tanh)
log2 = transcendental(np.log2)
sin = transcendental(np.sin)
trunc = rounding(np.trunc)
floor = rounding(np.floor)
ceil = rounding(np.ceil)
nearest = rounding(np.rint)
lt, le, gt = comparison(np.less), comparison(np.less_equal), comparison(np.greater)
ge, eq, ne = comparison(np.greater_equal), comparison(np.equal), comparison(np.not_equal)


def neg(dtype: DType, x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.negative(x)).astype(x.dtype)


def bit_not(dtype: DType, x: Array) -> Array:
    if dtype.kind is Kind.BOOL:
        return np.logical_not(x)
    return -1 - x if x.dtype == object else np.invert(x)


def where(dtype: DType, condition: Array, yes: Array, no: Array) -> Array:
    return np.where(condition, yes, no)


# -- integer division, shifts, powers: exact on `index`, total on fixed widths ---------------------


def _elementwise(function: Callable[..., int], *arrays: Array) -> Array:
    """Apply a function of Python ints to arrays of them."""
    out = np.frompyfunc(function, len(arrays), 1)(*[np.asarray(a, dtype=object) for a in arrays])
    return np.asarray(out, dtype=object)


def _no_zero(dtype: DType, b: Array, what: str) -> Array:
    """Return where a divisor is zero; on `index`, where division by zero is undefined, raise."""
    zero = np.asarray(b == 0)
    if dtype.kind is Kind.INDEX and zero.any():
        raise EvaluationError(f"{what} by zero", why="it is undefined on index")
    return zero


def _division(what: str, function: Callable[[int, int], int]) -> Meaning:
    def meaning(dtype: DType, a: Array, b: Array) -> Array:
        zero = _no_zero(dtype, b, what)
        safe = np.where(zero, np.ones_like(b), b)
        exact = _elementwise(function, a, safe)
        return _fixed(dtype, np.where(zero, 0, exact), a.dtype)

    return meaning


def _fixed(dtype: DType, exact: Array, kind: np.dtype[Any]) -> Array:
    """Return Python ints wrapped to a type."""
    if kind.kind == "O":
        return exact
    if dtype.kind is Kind.INDEX:
        return exact.astype(kind)  # an OverflowError here would be an unsound bound
    return _elementwise(lambda value: dtypes.wrap(dtype, int(value)), exact).astype(kind)


def truncated_quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b >= 0) else -quotient


def _floor_division(dtype: DType, a: Array, b: Array) -> Array:
    zero = _no_zero(dtype, b, "division")
    with np.errstate(all="ignore"):
        return np.where(
            zero, np.zeros_like(a), np.floor_divide(a, np.where(zero, 1, b).astype(b.dtype))
        )


def _floor_modulo(dtype: DType, a: Array, b: Array) -> Array:
    zero = _no_zero(dtype, b, "modulo")
    with np.errstate(all="ignore"):
        return np.where(zero, np.zeros_like(a), np.mod(a, np.where(zero, 1, b).astype(b.dtype)))


idiv, mod = _floor_division, _floor_modulo
cdiv = _division("truncating division", truncated_quotient)
cmod = _division("truncating modulo", lambda a, b: a - b * truncated_quotient(a, b))


def _shift(dtype: DType, a: Array, b: Array, function: Callable[[int, int], int]) -> Array:
    if dtype.kind is Kind.INDEX and np.asarray(b < 0).any():
        raise EvaluationError("shift by a negative amount", why="it is undefined on index")
    return _fixed(dtype, _elementwise(function, a, b), a.dtype)


def shl(dtype: DType, a: Array, b: Array) -> Array:
    """Shift left; on a fixed width, by less than 0 or by the width or more gives 0."""
    return _shift(dtype, a, b, lambda x, k: x << k if 0 <= k < (dtype.bits or k + 1) else 0)


def shr(dtype: DType, a: Array, b: Array) -> Array:
    """Shift right; on a fixed width, by an amount out of range leaves only the sign: 0 or -1."""
    return _shift(dtype, a, b, lambda x, k: x >> (k if 0 <= k < (dtype.bits or k + 1) else 4096))


def integer_power(base: int, exponent: int, modulus: int | None = None) -> int:
    """Return base ** exponent; for a negative exponent 1 / base**-exponent towards 0."""
    if exponent >= 0:
        return pow(base, exponent, modulus)
    if abs(base) == 1:
        return base ** (-exponent % 2 + 2) if base == -1 else 1
    return 0


def power(dtype: DType, a: Array, b: Array) -> Array:
    if dtype.is_float:
        with np.errstate(all="ignore"):
            wide = np.power(a.astype(np.float64), b.astype(np.float64))
            return dtypes.round_floats(dtype, np.asarray(wide))
    modulus = 1 << dtype.bits if dtype.bits else None
    return _fixed(dtype, _elementwise(lambda x, n: integer_power(x, n, modulus), a, b), a.dtype)


def mulacc(dtype: DType, a: Array, b: Array, c: Array) -> Array:
    """Return a*b + c, on floats with one rounding."""
    if not dtype.is_float:
        return np.asarray(add(dtype, mul(dtype, a, b), c))
    with np.errstate(all="ignore"):
        if dtype is dtypes.f64:
            exact = np.frompyfunc(_fused, 3, 1)(a, b, c)
            return np.asarray(exact, dtype=object).astype(np.float64)
        product = a.astype(np.float64) * b.astype(np.float64)  # exact: twice 24 bits
        total: Array = _round_to_odd_sum(product, c.astype(np.float64))
        return dtypes.round_floats(dtype, total)


def _round_to_odd_sum(a: Array, b: Array) -> Array:
    """Return a + b in f64 rounded to odd, so that rounding again to a narrower float is correct."""
    total = np.asarray(a + b)
    part = total - a
    error = (a - (total - part)) + (b - part)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + step, bits).view(np.float64)


def _fused(a: float, b: float, c: float) -> float:
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return a * b + c
    from fractions import Fraction  # loaded for constants that are folded exactly

    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return a * b + c  # keeps the sign of zero
    try:
        return float(exact)
    except OverflowError:
        return float(np.copysign(np.inf, 1 if exact > 0 else -1))


def ldexp(dtype: DType, x: Array, n: Array) -> Array:
    """Return x times 2 to the power floor(n), rounded once.

    For an infinite n the power is 0 or infinite, and is the result even where x is NaN.
    """
    with np.errstate(all="ignore"):
        wide, whole = np.asarray(x).astype(np.float64), np.floor(np.asarray(n).astype(np.float64))
        steps = np.clip(np.nan_to_num(whole), -_FAR, _FAR).astype(np.int64)
        power = np.where(whole < 0, 0.0, whole)
        beyond = np.where(np.isnan(wide), power, wide * power)
        scaled = np.where(np.isfinite(whole), np.ldexp(wide, steps), beyond)
        return dtypes.round_floats(dtype, scaled)


_FAR = 5000
"""A power of two beyond all floats."""


# -- conversions -----------------------------------------------------------------------------------


def cast(source: DType, target: DType, x: Array) -> Array:
    """Convert values: integers wrap; floats to integers truncate and saturate, NaN becomes 0."""
    source, target = source.element, target.element
    with np.errstate(all="ignore"):
        if target.kind is Kind.BOOL:
            return np.asarray(x != 0)
        if source.is_float and target.is_integer:
            return _float_to_integer(target, x)
        if target.kind is Kind.INDEX:
            return np.asarray(x) if x.dtype == object else _to_index(x)
        if x.dtype == object and target.is_integer:
            return _fixed(target, x, target.numpy)
        if x.dtype == object:
            return _integer_to_float(x, target)
        if source.is_float and source.bits < 32 and target.is_float:
            return x.astype(np.float32).astype(target.numpy)
        if target.is_float and target.bits < 32 and not source.is_float:
            return _integer_to_float(x, target)
        if target.is_float and source is dtypes.f64:
            return dtypes.round_floats(target, np.asarray(x))
        return x.astype(target.numpy)


def _to_index(x: Array) -> Array:
    return x.astype(object) if x.dtype == np.uint64 else x.astype(np.int64)


def _integer_to_float(x: Array, target: DType) -> Array:
    """Round once: through f64 (exact up to 2^53), and for longer ints to odd first."""
    if x.dtype.itemsize < 8:
        return dtypes.round_floats(target, x.astype(np.float64))
    convert = _nearest_float if target is dtypes.f64 else _odd_float
    wide = [convert(int(v)) for v in x.reshape(-1)]
    return dtypes.round_floats(target, np.array(wide, dtype=np.float64).reshape(x.shape))


def _nearest_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def _odd_float(value: int) -> float:
    """Return an int as a float rounded to odd."""
    excess = max(abs(value).bit_length() - 53, 0)
    kept = abs(value) >> excess
    if abs(value) != kept << excess:
        kept |= 1
    return _nearest_float((kept << excess) * (1 if value >= 0 else -1))


def _float_to_integer(target: DType, x: Array) -> Array:
    whole = np.trunc(np.asarray(x).astype(np.float64))
    if target.kind is Kind.INDEX:
        return _elementwise(lambda v: int(v) if np.isfinite(v) else 0, whole)
    low, high = int(target.min), int(target.max)
    inside = (whole >= low) & (whole <= high) & (whole < float(high) + (high > 2**53))
    safe = np.where(inside, whole, 0)
    result = safe.astype(target.numpy)
    result = np.where(whole < low, np.asarray(low, dtype=target.numpy), result)
    too_large = ~inside & (whole > 0)
    result = np.where(too_large, np.asarray(high, dtype=target.numpy), result)
    return result.astype(target.numpy)


def bitcast(source: DType, target: DType, x: Array) -> Array:
    """Return the same bits in another type; the last axis is the lanes where sizes differ."""
    return np.ascontiguousarray(x.astype(source.numpy)).view(target.numpy)


# -- counter-based random bits ---------------------------------------------------------------------

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(dtype: DType, counter: Array, key: Array) -> Array:
    """Return Threefry-2x32 with 20 rounds; counter and key hold two 32-bit words, low one first."""
    mask = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    x = [counter & mask, counter >> half]
    words = [key & mask, key >> half]
    words.append(words[0] ^ words[1] ^ np.uint64(0x1BD11BDA))
    x = [(x[i] + words[i]) & mask for i in range(2)]
    for round_ in range(5):
        for amount in _ROTATIONS[round_ % 2]:
            x[0] = (x[0] + x[1]) & mask
            rotated = (x[1] << np.uint64(amount)) | (x[1] >> np.uint64(32 - amount))
            x[1] = (rotated & mask) ^ x[0]
        x[0] = (x[0] + words[(round_ + 1) % 3]) & mask
        x[1] = (x[1] + words[(round_ + 2) % 3] + np.uint64(round_ + 1)) & mask
    return x[0] | (x[1] << half)


# -- constants -------------------------------------------------------------------------------------


def array_of(dtype: DType, value: Scalar) -> Array:
    """Return a constant as an array of no dimensions."""
    if dtype.kind is Kind.INDEX:
        fits = -(1 << 62) <= value < 1 << 62
        return np.asarray(value, dtype=np.int64 if fits else object)
    return np.asarray(value, dtype=np.float64 if dtype.is_float else None).astype(dtype.numpy)
