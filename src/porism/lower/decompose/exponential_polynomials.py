"""Exponential polynomials: e**x, tanh(x), 2**x, log2(x) and x**y as branch-free arithmetic.

    EXP(x)      2**n * p(r),  where n is the integer nearest to x/ln 2, and r = x - n*ln 2
    EXPM1(x)    2**n * q(r) + (2**n - 1), where q(r) is e**r - 1
    TANH(x)     (2**n - 1 + t*(2**n + 1)) / (2**n + 1 + t*(2**n - 1)), where x = n*ln(2)/2 + s,
                and t is tanh(s)
    EXP2(x)     2**n * p(f),  where n is the integer nearest to x, and f = x - n
    LOG2(x)     e + log2(m),  where x = m * 2**e, and m is between the root of 1/2 and that of 2
    POW(x, y)   2**(y * log2 |x|) in double-double arithmetic, and the sign

LDEXP, where a machine has it, multiplies by 2**n and rounds subnormal results once. All inputs give
what IEEE 754 and C define, subnormal ones too. Errors in ulps are measured: see docs/accuracy.md.
"""

from __future__ import annotations

import math

from porism.ir import ops
from porism.ir.node import UOp
from porism.lower.decompose import coefficients
from porism.lower.decompose.float_arithmetic import INFINITY, NAN, Floats, Pair

_LEAST_BITS = {"f32": 0x3F320000, "f64": 0x3FE6400000000000}
"""The bits of 89/128, the least significand m that `_split_exponent` returns."""


def exp(a: Floats, x: UOp) -> UOp:
    """Return e**x."""
    if a.scales:
        # outside of these bounds the result is 0 or infinite
        least, most = -(a.bias + a.fraction + 2), a.bias + 2
        near = a.bounded(x, least * math.log(2), most * math.log(2))
        whole = ops.ROUND(near * math.log2(math.e))
        first, second = coefficients.LN_2[a.name]
        rest = ops.MULACC(whole, a.number(-first), near)
        rest = ops.MULACC(whole, a.number(-second), rest)
        return ops.LDEXP(a.polynomial(rest, (1.0, 1.0, *coefficients.EXP[a.name])), whole)
    # 2**(x * log2 e) alone would amplify the rounding error of the product by x; so the result is
    # multiplied by e**r = 1 + r, where r is that error
    scaled = x * math.log2(math.e)
    power = exp2(a, scaled)
    first, second = coefficients.LN_2_FULL[a.name]
    rest = ops.MULACC(scaled, a.number(-first), x)
    rest = ops.MULACC(scaled, a.number(-second), rest)
    # 0 and infinity equal their doubles; there the error is meaningless
    return (power + power).eq(power).where(power, ops.MULACC(power, rest, power))


def expm1(a: Floats, x: UOp) -> UOp:
    """Return e**x - 1 = 2**n * (e**r - 1) + (2**n - 1), which does not cancel near 0."""
    # below, it is -1; above, infinite
    near = a.bounded(x, -(a.fraction + 3) * math.log(2), (a.bias + 1.01) * math.log(2))
    # half of the power is finite where the result is; n is not -0, so that e**-0 - 1 is -0
    if a.scales:
        whole = ops.ROUND(ops.MULACC(near, a.number(math.log2(math.e)), a.number(0.0)))
        half = ops.LDEXP(a.number(0.5), whole)
    else:
        whole, shifted = a.nearest(near * math.log2(math.e))
        half = a.of_bits((a.bits(shifted) << a.fraction) + ((a.bias - 1) << a.fraction))
    first, second = coefficients.LN_2[a.name]
    rest = a.fused_sum(whole, a.number(-first), near)
    rest = a.fused_sum(whole, a.number(-second), rest)
    if a.width == 32:
        above = rest * a.polynomial(rest, (1.0, *coefficients.EXP[a.name]))
    else:  # half an ulp better, for one WHERE more
        above = a.fused_sum(rest * rest, a.polynomial(rest, coefficients.EXP[a.name]), rest)
        above = rest.eq(0.0).where(rest, above)
    part = a.fused_sum(above, half, -(a.number(0.5) - half))
    return part + part


_TANH_END = {32: 10.0, 64: 20.0}
"""Magnitude from which on tanh rounds to 1, by width in bits."""


def tanh(a: Floats, x: UOp) -> UOp:
    """Return tanh(x) by its addition formula; n and 2**n - 1 are formed so that -0 gives -0."""
    end = _TANH_END[a.width]
    near = a.bounded(x, -end, end)
    if a.scales:
        whole = ops.ROUND(ops.MULACC(near, a.number(2 * math.log2(math.e)), a.number(0.0)))
        power = ops.LDEXP(a.number(1.0), whole)
    else:
        whole, shifted = a.nearest(near * (2 * math.log2(math.e)))
        power = a.of_bits((a.bits(shifted) << a.fraction) + (a.bias << a.fraction))
    # n is small where a last bit of s matters, so that one step is enough for f32
    single = a.fused and a.width == 32
    rest = near
    for part in coefficients.LN_2_FULL[a.name][:1] if single else coefficients.LN_2[a.name]:
        rest = a.fused_sum(whole, a.number(-part / 2), rest)
    inside = rest * a.polynomial(rest * rest, (1.0, *coefficients.TANH[a.name]))
    below, above = -(a.number(1.0) - power), power + 1.0
    return a.fused_sum(inside, above, below) / a.fused_sum(inside, below, above)


def exp2(a: Floats, x: UOp, low: UOp | None = None) -> UOp:
    """Return 2**(x + low), where low is small compared with the last bit of x."""
    if a.scales:
        near = a.bounded(x, float(-(a.bias + a.fraction + 2)), float(a.bias + 1))
        whole = ops.ROUND(near)
        f = near - whole
        if low is not None:
            f = f + near.eq(x).where(low, a.number(0.0))
        return ops.LDEXP(_exp2_polynomial(a, f), whole)
    if _is_not_negative(x):
        result = _normal_exp2(a, x, low)
    else:
        # Far below, the result is 0. A subnormal result is computed as a larger number first, so
        # that it is rounded once, by the last product.
        lift = 64.0 if a.width == 32 else 512.0
        least = a.number(float(-(a.bias + a.fraction + 2)))
        below = x < least
        bounded = below.where(least, x)
        small = x < float(-(a.bias - 2))
        near = small.where(bounded + lift, bounded)
        scaled = _normal_exp2(a, near, None if low is None else below.where(a.number(0.0), low))
        result = scaled * small.where(a.number(2.0**-lift), a.number(1.0))
    return (x < float(a.bias + 1)).where(result, x + INFINITY)  # also NaN


def _normal_exp2(a: Floats, x: UOp, low: UOp | None) -> UOp:
    """Return 2**(x + low) where that is a normal number."""
    whole, shifted = a.nearest(x)
    f = x - whole
    if low is not None:
        f = f + low
    p = _exp2_polynomial(a, f)
    # the integer is in the lowest bits of `shifted`, and is added to the exponent
    return a.of_bits(a.bits(p) + (a.bits(shifted) << a.fraction))


def _exp2_polynomial(a: Floats, f: UOp) -> UOp:
    """Return 2**f for f from -1/2 to 1/2."""
    return a.fused_sum(f, a.polynomial(f, coefficients.EXP2[a.name]), a.number(1.0))


def _is_not_negative(x: UOp) -> bool:
    """Return whether x is |y|, perhaps times positive constants; it may be NaN."""
    while x.op is ops.MUL and x.src[1].op is ops.CONST and x.src[1].arg > 0:
        x = x.src[0]
    if x.op is not ops.WHERE or x.src[0].op is not ops.LE:
        return False
    condition, negated, value = x.src
    return (
        negated.op is ops.SUB
        and condition.src[0] is negated.src[1] is value
        and _is_zero(condition.src[1])
        and _is_zero(negated.src[0])
    )


def _is_zero(x: UOp) -> bool:
    return x.op is ops.CONST and bool(x.arg == 0)


def _split_exponent(a: Floats, x: UOp) -> Pair:
    """Return m - 1 and e for a positive, finite x = m * 2**e."""
    lift = a.fraction + 1
    tiny = x < 2.0 ** -(a.bias - 1)
    word = a.bits(tiny.where(x * 2.0**lift, x))
    exponent = (word - _LEAST_BITS[a.name]) >> a.fraction
    m = a.of_bits(word - (exponent << a.fraction))
    offset = tiny.where(a.number(a.magic + lift), a.number(a.magic))
    return m - 1.0, a.above_magic(exponent) - offset


def _log2_of_positive(a: Floats, x: UOp) -> UOp:
    """Return log2 of a positive, finite x."""
    f, e = _split_exponent(a, x)
    if a.width == 32:
        main, rest = _times_log2_e(a, f)
        rest = a.fused_sum(f * f, a.polynomial(f, coefficients.LOG2[a.name]), rest)
    else:
        # ln(1 + f) = f - h + s*(h + R), where h = f**2/2, s = f/(2 + f), and R is small
        s = f / (f + 2.0)
        z = s * s
        h = f * (f * 0.5)
        r = z * a.polynomial(z, coefficients.ARTANH[a.name])
        high, low = a.total(f, -h)
        low = a.fused_sum(s, h + r, low)
        main, rest = _times_log2_e(a, high)
        rest = a.fused_sum(low, a.number(sum(coefficients.LOG2_E[a.name])), rest)
    high, low = a.total(e, main)
    return high + (low + rest)


def _times_log2_e(a: Floats, x: UOp) -> Pair:
    """Return x / ln 2 as a double-double."""
    if a.fused:
        first, second = (c / 2 for c in coefficients.ARTANH_FIRST[a.name])
        high = x * first
        return high, ops.MULACC(x, a.number(second), ops.MULACC(x, a.number(first), -high))
    first, second = coefficients.LOG2_E[a.name]
    x_high, x_low = a.halves(x)
    return x_high * first, x_low * first + x * second


def log2(a: Floats, x: UOp) -> UOp:
    """Return log2(x): -infinity for 0, NaN for negative numbers."""
    positive = (x < INFINITY).where(_log2_of_positive(a, x), x)
    otherwise = x.eq(0.0).where(a.number(-INFINITY), a.number(NAN))
    return (x > 0.0).where(positive, otherwise)


# -- powers ----------------------------------------------------------------------------------------


def _double_double_log2(a: Floats, x: UOp) -> Pair:
    """Return log2 of a positive, finite x in nearly double-double precision."""
    f, e = _split_exponent(a, x)
    # s = f/(2 + f) as a pair
    d = f + 2.0
    d_low = f - (d - 2.0)
    inverse = a.number(1.0) / d
    s = f * inverse
    back, back_low = a.product(s, d)
    s_low = (((f - back) - back_low) - s * d_low) * inverse
    # log2(1 + f) = s*(c1 + z*(c2 + z*tail(z))), where z = s**2; only the tail is a single number
    z, z_low = a.product(s, s)
    z_low = a.fused_sum(s + s, s_low, z_low)
    c2, c2_low = coefficients.ARTANH_SECOND[a.name]
    u, u_low = a.total(a.number(c2), z * a.polynomial(z, coefficients.ARTANH_TAIL[a.name]))
    u_low = u_low + c2_low
    v, v_low = a.product(z, u)
    v_low = a.fused_sum(z, u_low, a.fused_sum(z_low, u, v_low))
    c1, c1_low = coefficients.ARTANH_FIRST[a.name]
    w, w_low = a.total(a.number(c1), v)
    w_low = w_low + (v_low + c1_low)
    t, t_low = a.product(s, w)
    t_low = a.fused_sum(s, w_low, a.fused_sum(s_low, w, t_low))
    high, low = a.total(e, t)
    return a.total(high, low + t_low)


def power(a: Floats, x: UOp, y: UOp) -> UOp:
    """Return x**y, with the special cases of C's pow."""
    base = a.magnitude(x)
    # An exponent of this magnitude gives 0, 1 or infinity, as any larger one does.
    most = a.number(2.0**40 if a.width == 32 else 2.0**70)
    bounded = (y > most).where(most, (y < -most).where(-most, y))
    log, log_low = _double_double_log2(a, base)
    main, rest = a.product(bounded, log)
    rest = a.fused_sum(bounded, log_low, rest)
    result = exp2(a, main, rest)

    extreme = base.eq(0.0).eq(y > 0.0).where(a.number(0.0), a.number(INFINITY))
    result = (base.eq(0.0) | base.eq(INFINITY)).where(extreme, result)
    half = y * 0.5
    whole = ops.TRUNC(y).eq(y)
    odd = whole & ops.TRUNC(half).ne(half)
    sign = a.integer(-1 << (a.width - 1))
    flip = odd.where(a.bits(x) & sign, a.integer(0))
    result = a.of_bits(a.bits(result) ^ flip)
    wrong = (x < 0.0) & (x > -INFINITY) & ~whole
    result = (wrong | x.ne(x) | y.ne(y)).where(a.number(NAN), result)
    return (y.eq(0.0) | x.eq(1.0)).where(a.number(1.0), result)
