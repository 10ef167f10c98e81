"""Missing ops: replacements of ops that a machine lacks, as proved rules.

A rule applies only where its op is missing, so its result may be larger than the node it replaces:
the order of `porism.rewrite.termination` does not apply. Rounding and conversions depend on the
type, and are procedures.
"""

from __future__ import annotations

import math

from porism.base.dtypes import DType, Theory, f32, f64
from porism.ir import ops
from porism.ir.node import UOp
from porism.lower.decompose.decomposition_options import Machine
from porism.lower.decompose.float_arithmetic import Floats
from porism.rewrite.rule import RuleSet, procedure, rule
from porism.rewrite.terms import TRUE, literal, p, q, where, x, y, z

ONCE = "rounded once instead of twice: the last bits differ"
NUMBERS = (Theory.FIXED_WIDTH, Theory.FLOATS)

MISSING = RuleSet(
    "missing",
    grows=True,
    theory=NUMBERS,
    rules=(
        rule("gt-as-lt", x > y, y < x),
        rule("ge-as-le", x >= y, y <= x),
        rule("le-as-lt-or-eq", x <= y, (x < y) | x.eq(y)),
        rule("ne-as-not-eq", x.ne(y), ~x.eq(y)),
        rule("sub-as-add", x - y, x + (-y)),
    ),
)

MISSING_WORDS = RuleSet(
    "missing-words",
    grows=True,
    theory=Theory.FIXED_WIDTH,
    rules=(
        rule("word-max-as-choice", ops.MAX(x, y), where(x > y, x, y)),
        rule("word-min-as-choice", ops.MIN(x, y), where(x < y, x, y)),
        rule("word-mulacc-as-sum", ops.MULACC(x, y, z), x * y + z),
        rule("word-neg-as-sub", -x, literal(0) - x),
        rule("word-not-as-xor", ~x, x ^ literal(-1)),
        rule("word-trunc", ops.TRUNC(x), x),
        rule("word-floor", ops.FLOOR(x), x),
        rule("word-ceil", ops.CEIL(x), x),
        rule("word-round", ops.ROUND(x), x),
    ),
)

MISSING_FLOATS = RuleSet(
    "missing-floats",
    grows=True,
    theory=Theory.FLOATS,
    rules=(
        # the inner WHERE alone is the max instruction of most machines: the second operand if NaN
        rule("float-max-as-choice", ops.MAX(x, y), where(x.ne(x), x, where(x > y, x, y))),
        rule("float-min-as-choice", ops.MIN(x, y), where(x.ne(x), x, where(x < y, x, y))),
        rule("float-neg-as-sub", -x, literal(-0.0) - x),
        rule("reciprocal-as-quotient", ops.RECIPROCAL(x), literal(1.0) / x),
    ),
)

MISSING_TRUTHS = RuleSet(
    "missing-truths",
    grows=True,
    theory=Theory.BOOLEANS,
    rules=(
        rule("bool-not-as-xor", ~p, p ^ TRUE),
        rule("bool-max-as-or", ops.MAX(p, q), p | q),
        rule("bool-min-as-and", ops.MIN(p, q), p & q),
    ),
)

FUSED = RuleSet(
    "fused",
    grows=True,
    theory=Theory.FLOATS,
    rules=(
        rule("fuse-sum", x * y + z, ops.MULACC(x, y, z), fast_math=ONCE),
        rule("fuse-difference", x * y - z, ops.MULACC(x, y, -z), fast_math=ONCE),
        rule("fuse-difference-from", z - x * y, ops.MULACC(-x, y, z), fast_math=ONCE),
    ),
)


# -- rounding --------------------------------------------------------------------------------------


@procedure("round-by-sum", (ops.ROUND, ops.FLOOR, ops.CEIL, ops.TRUNC), with_context=True)
def rounded(node: UOp, machine: Machine) -> UOp | None:
    """Round to whole numbers by adding a number whose last bit is worth 1."""
    x, kind = node.src[0], node.dtype
    if not kind.is_float:
        return None
    if kind.element not in (f32, f64):
        return node.op(x.cast(f32.vec(kind.count))).cast(kind)
    a = Floats(kind, machine.fused)
    size = a.magnitude(x)
    edge = 2.0**a.fraction  # every float of at least this magnitude is an integer
    whole = (size + edge) - edge
    sign = a.bits(x) & (-1 << (a.width - 1))
    one, zero = a.number(1.0), a.number(0.0)
    if node.op is ops.TRUNC:
        whole = whole - (whole > size).where(one, zero)
    elif node.op is not ops.ROUND:
        # away from zero on one side, towards zero on the other
        away = sign.ne(0) if node.op is ops.FLOOR else sign.eq(0)
        up, down = (whole < size).where(one, zero), (whole > size).where(one, zero)
        whole = away.where(whole + up, whole - down)
    small = size < edge  # not NaN
    return small.where(a.of_bits(a.bits(whole) | sign), x)


# -- fused multiply-add --------------------------------------------------------------------------


def odd_sum(a: Floats, x: UOp, y: UOp) -> UOp:
    """Return x + y rounded to odd, so that rounding again to a narrower type is correct."""
    total = x + y
    part = total - x
    error = (x - (total - part)) + (y - part)
    word = a.bits(total)
    lost = ((error > 0.0) | (error < 0.0)) & (word & 1).eq(0)  # NaN where it is infinite
    step = (error > 0.0).eq(total > 0.0).where(a.integer(1), a.integer(-1))
    return a.of_bits(word + lost.where(step, a.integer(0)))


@procedure("mulacc-exactly", (ops.MULACC,), with_context=True)
def mulacc(node: UOp, machine: Machine) -> UOp | None:
    """Compute x*y + z with one rounding: in f64; for f64 in double-double arithmetic."""
    kind = node.dtype
    if not kind.is_float:
        return None
    if kind.element is f64:
        return _double_double_mulacc(Floats(kind, False), *node.src)
    return wide_mulacc(node)


def wide_mulacc(node: UOp) -> UOp:
    """Return x*y + z of floats up to f32: the product is exact in f64, the sum rounded to odd."""
    kind = node.dtype
    wide = f64.vec(kind.count)
    x, y, z = (s.cast(wide) for s in node.src)
    return odd_sum(Floats(wide, False), x * y, z).cast(kind)


def _double_double_mulacc(a: Floats, x: UOp, y: UOp, z: UOp) -> UOp:
    """Return x*y + z of f64, correctly rounded unless an intermediate overflows or is subnormal."""
    high, low = a.product(x, y)
    upper, rest = _exact_sum(high, z)
    lower, lower_rest = _exact_sum(low, rest)
    whole, whole_rest = _exact_sum(upper, lower)
    result = whole + odd_sum(a, whole_rest, lower_rest)
    size = a.magnitude(result)
    ordinary = (size > 0.0) & (size < math.inf)  # otherwise that is the sign of zero, or NaN
    return ordinary.where(result, high + z)


def _exact_sum(x: UOp, y: UOp) -> tuple[UOp, UOp]:
    """Return x + y as a float and its rounding error (Knuth's two-sum)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


# -- conversions -----------------------------------------------------------------------------------


@procedure("cast-inside", (ops.CAST,), with_context=True)
def cast_inside(node: UOp, machine: Machine) -> UOp | None:
    """Saturate a cast of floats to integers; NaN becomes 0."""
    x, kind = node.src[0], node.dtype
    if machine.saturating_casts or not x.dtype.is_float or not kind.is_integer:
        return None
    if x.dtype.element not in (f32, f64):  # which need not have the limits
        return x.cast(f32.vec(kind.count)).cast(kind)
    if x.op is ops.WHERE and x is _inside_only(x.src[1], kind):
        return None
    low, end = _limits(x, kind)
    converted = _inside_only(x, kind).cast(kind)
    least, most = UOp.const(kind, kind.min), UOp.const(kind, kind.max)
    outside = (x < low).where(least, converted)  # NaN has become 0
    return (x >= end).where(most, outside)


def _limits(x: UOp, kind: DType) -> tuple[UOp, UOp]:
    """Return the limits of a range, exclusive at the end: powers of two, so exact as floats."""
    return x.lift(float(kind.min)), x.lift(float(int(kind.max) + 1))


def _inside_only(x: UOp, kind: DType) -> UOp:
    """Return x where it is in the range of an integer type, else 0."""
    low, end = _limits(x, kind)
    return ((x >= low) & (x < end)).where(x, x.lift(0.0))


@procedure("quotient-by-power", (ops.FDIV,))
def quotient_by_power(node: UOp) -> UOp | None:
    """Divide a float by a power of two with a product, which is exact."""
    if node.src[1].op is not ops.CONST:
        return None
    divisor = float(node.src[1].arg)
    fraction, exponent = math.frexp(divisor)  # of a zero, an infinity or NaN: the number, and 0
    lane = node.dtype.element
    largest = 126 if lane is f32 else 1022 if lane is f64 else 0
    if abs(fraction) != 0.5 or abs(exponent - 1) > largest:
        return None
    return node.src[0] * (1.0 / divisor)


ROUNDING = RuleSet("rounding", theory=Theory.FLOATS, rules=(rounded, mulacc, quotient_by_power))
SATURATION = RuleSet("saturation", theory=Theory.STRUCTURE, rules=(cast_inside,))
