"""Sine: sin(x) as branch-free nodes, for every finite x.

    sin(x) = ±sin(r) or ±cos(r),  where r = x - n*pi/2 is between -pi/4 and pi/4, and n decides

For small x, n*pi/2 is subtracted in parts whose products with n are exact (Cody and Waite). A large
x is an integer times a power of two, and only the fraction of its product with 1/(2 pi) matters: it
is computed in integers, from the digits of 1/(2 pi) that the exponent of x selects (Payne and
Hanek). Both reductions are computed, and one is selected.
"""

from __future__ import annotations

from collections.abc import Sequence

from porism.base.dtypes import i64, u32, u64
from porism.ir.node import UOp
from porism.lower.decompose import coefficients
from porism.lower.decompose.float_arithmetic import INFINITY, NAN, UNSIGNED, Floats, Pair

Reduced = tuple[UOp, UOp, UOp]
"""r = x - n*pi/2 in two parts, and an integer whose lowest bits are those of n."""

LARGE = {"f32": 2.0**13, "f64": 2.0**20}
"""Magnitudes from which on the reduction is that of Payne and Hanek."""

_DIGIT = 32
"""Bits of a digit."""
_SMALLEST_SHIFT = {"f32": 118, "f64": 1043}
"""The exponent (biased) of a number whose product begins with the first digit of the table."""
_DIGITS = {"f32": 3, "f64": 6}
"""How many digits of 1/(2 pi) a product needs."""
_LARGEST_SKIP = {"f32": 4, "f64": 16}
"""A power of two: skipping its multiples below twice of it reaches every digit."""


def sin(a: Floats, x: UOp) -> UOp:
    """Return sin(x); NaN for infinities and NaN."""
    size = a.magnitude(x)
    large = size >= LARGE[a.name]
    reduced = zip(_reduce_large(a, x, size), _reduce_small(a, x), strict=True)
    r, low, n = (large.where(far, near) for far, near in reduced)
    z = r * r
    odd = (n & 1).ne(0)
    # sin(r) = r + r*z*S(z), and cos(r) = 1 + 1*z*C(z); low is multiplied by the derivative
    first = odd.where(a.number(1.0), r)
    slope = odd.where(-r, a.number(1.0))
    pairs = zip(coefficients.COS[a.name], coefficients.SIN[a.name], strict=True)
    chosen = [odd.where(a.number(c), a.number(s)) for c, s in pairs]
    total = chosen[-1]
    for c in reversed(chosen[:-1]):
        total = a.fused_sum(total, z, c)
    p = first + a.fused_sum(first * z, total, low * slope)
    result = a.of_bits(a.bits(p) ^ ((n & 2) << (a.width - 2)))
    finite = (size < INFINITY).where(result, a.number(NAN))
    return x.eq(0.0).where(x, finite)  # -0 is its own sine


def _reduce_small(a: Floats, x: UOp) -> Reduced:
    """Reduce x by Cody and Waite's method; correct below LARGE."""
    n, shifted = a.nearest(x * coefficients.PER_QUARTER_TURN[a.name][0])
    *parts, second, last = (a.number(-c) for c in coefficients.QUARTER_TURN[a.name])
    r = x
    for part in parts:
        r = a.fused_sum(n, part, r)  # exactly
    r, low = a.total(r, n * second)
    r, low = a.total(r, a.fused_sum(n, last, low))
    return r, low, a.bits(shifted)


# -- large numbers ---------------------------------------------------------------------------------


def _reduce_large(a: Floats, x: UOp, size: UOp) -> Reduced:
    """Reduce x by Payne and Hanek's method; correct for finite x from LARGE on."""
    long, wide, short = (t.vec(a.count) for t in (i64, u64, u32))
    word = size.bitcast(UNSIGNED[a.dtype.element].vec(a.count))
    significand = ((word & ((1 << a.fraction) - 1)) | (1 << a.fraction)).cast(wide)
    skipped = (word >> a.fraction).cast(short) - _SMALLEST_SHIFT[a.name]
    digits = [d.cast(wide) for d in _select_digits(skipped, _DIGITS[a.name], _LARGEST_SKIP[a.name])]
    # a fraction of a turn by 2**64, less the nearest number of quarters: at most an eighth
    if a.width == 32:
        turns, rest = _short_product(significand, digits), None
    else:
        turns, rest = _long_product(significand, digits)
    quarters = (turns + (1 << 61)) >> 62
    signed = (turns - (quarters << 62)).bitcast(long)
    # as a sum of two floats: the upper bits, rounded so that nothing cancels, and the rest
    cut = 62 - a.fraction
    whole = (signed + (1 << (cut - 1))) >> cut
    behind = signed - (whole << cut)
    scale = 2.0**-64
    if rest is not None:
        behind = (behind << (63 - cut)) + (rest >> (cut + 1)).bitcast(long)
        scale = 2.0 ** (cut - 127)
    high, back = whole.cast(a.word).cast(a.dtype), behind.cast(a.dtype)
    upper = 2.0 ** (cut - 64)
    turn, turn_low = coefficients.TURN[a.name]
    main, main_low = a.product(high, a.number(turn * upper))
    low = a.fused_sum(high, a.number(turn_low * upper), back * (turn_low * scale))
    low = a.fused_sum(back, a.number(turn * scale), low)
    r, r_low = a.total(main, main_low + low)
    # sin(-x) = -sin(x): the sign of x counts as two quarters
    half = (a.bits(x) >> (a.width - 2)) & 2
    return r, r_low, quarters.cast(UNSIGNED[a.dtype.element].vec(a.count)).bitcast(a.word) + half


def _select_digits(skipped: UOp, count: int, largest: int) -> list[UOp]:
    """Return `count` digits of 1/(2 pi), after `skipped` bits."""
    number = skipped >> 5
    digits = [UOp.const(skipped.dtype, digit) for digit in coefficients.TURN_DIGITS]
    skip = largest
    while skip:
        wanted = count + skip  # this many can still be reached
        chosen = (number & skip).ne(0)
        zero = UOp.const(skipped.dtype, 0)
        padded = [*digits, *[zero] * (wanted + skip)]
        digits = [chosen.where(padded[k + skip], padded[k]) for k in range(wanted)]
        skip //= 2
    shift = skipped & 31
    # a shift by 32 is undefined: it is done in two steps
    return [(digits[k] << shift) | ((digits[k + 1] >> 1) >> (shift ^ 31)) for k in range(count)]


def _short_product(m: UOp, w: Sequence[UOp]) -> UOp:
    """Return the fraction of m * 0.w0w1w2, times 2**64, for m below 2**32."""
    return (m * w[0] << _DIGIT) + m * w[1] + (m * w[2] >> _DIGIT)


def _long_product(m: UOp, w: Sequence[UOp]) -> Pair:
    """Return the fraction of m * 0.w0w1…, times 2**64, and its next 64 bits; m is below 2**64."""
    low, high = _low_digit(m), m >> _DIGIT
    by_low = [low * digit for digit in w]
    by_high = [high * digit for digit in w]
    columns: list[UOp] = []
    carry: UOp | None = None
    for k in reversed(range(len(w) - 1)):
        column = _low_digit(by_low[k]) + (by_low[k + 1] >> _DIGIT) + _low_digit(by_high[k + 1])
        if k + 2 < len(w):
            column = column + (by_high[k + 2] >> _DIGIT)
        if carry is not None:
            column = column + carry
        carry = column >> _DIGIT
        columns.append(_low_digit(column))
    columns.reverse()
    return (columns[0] << _DIGIT) | columns[1], (columns[2] << _DIGIT) | columns[3]


def _low_digit(x: UOp) -> UOp:
    return x & ((1 << _DIGIT) - 1)
