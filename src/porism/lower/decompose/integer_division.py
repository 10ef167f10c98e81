"""Integer division: IDIV, MOD, CDIV and CMOD by multiplications and shifts, and without traps.

    x // 2**k       x >> k, for every sign           x % 2**k    x & (2**k - 1)
    x // d          x*m >> s, where x is from 0 to n, and m and s are chosen for d and n
                    ~(~x // d) where x is negative, without a branch
    x // y          CDIV(x, y), less 1 where the remainder has the other sign
    CDIV(x, y)      where y may be 0, or -1 while x is the least: by 1 there, and then corrected

Why x*m >> s is the quotient: with e = m*d - 2**s, x*m/2**s is (x + x*e/2**s)/d, and while x*e is
below 2**s, the sum does not reach the next integer. `multiplier` ensures that for the largest x,
and so for all (Granlund and Montgomery).
"""

from __future__ import annotations

from porism.base.dtypes import DType, Kind, Theory, dtype, u32, u64
from porism.ir import ops
from porism.ir.node import UOp
from porism.lower.decompose.decomposition_options import Machine
from porism.rewrite.rule import RuleSet, procedure


def multiplier(largest: int, divisor: int) -> tuple[int, int]:
    """Return the least m and s such that x // divisor is x*m >> s for x from 0 to largest.

    >>> multiplier(255, 10)
    (205, 11)
    """
    shift = 0
    while True:
        m = -(-(1 << shift) // divisor)
        if largest * (m * divisor - (1 << shift)) < 1 << shift:
            return m, shift
        shift += 1


def _unsigned(kind: DType) -> DType:
    """Return the unsigned type of the same width and lanes."""
    return dtype(f"u{kind.bits}").vec(kind.count)


def _is_word(kind: DType) -> bool:
    """Return whether a type is a fixed-width integer."""
    return kind.kind in (Kind.SIGNED, Kind.UNSIGNED)


# -- quotients of non-negative integers ------------------------------------------------------------


def _upper_half(x: UOp, m: int) -> UOp:
    """Return x*m >> 64 for u64, from products of 32-bit halves."""
    low_mask = 0xFFFFFFFF
    x0, x1 = x & low_mask, x >> 32
    m0, m1 = m & low_mask, m >> 32
    first = x1 * m0 + ((x0 * m0) >> 32)
    second = x0 * m1 + (first & low_mask)
    return x1 * m1 + (first >> 32) + (second >> 32)


def quotient(x: UOp, largest: int, divisor: int, machine: Machine) -> UOp:
    """Return x // divisor, where x is from 0 to largest."""
    kind = x.dtype
    if largest < divisor:
        return UOp.const(kind, 0)
    m, s = multiplier(largest, divisor)
    if largest * m <= kind.max:
        return (x * m) >> s
    own = _unsigned(kind)
    if largest * m <= own.max:
        return ((x.cast(own) * m) >> s).cast(kind)
    if machine.divides_by_constants:
        return ops.CDIV(x, x.lift(divisor))
    for wide in (u32.vec(kind.count), u64.vec(kind.count)):
        if largest * m <= wide.max:
            return ((x.cast(wide) * m) >> s).cast(kind)
    wide = u64.vec(kind.count)
    y = x.cast(wide)
    if kind.bits == 32:  # m has 33 bits
        return ((y + ((y * (m - (1 << 32))) >> 32)) >> (s - 32)).cast(kind)
    if s < 64:
        m, s = m << (64 - s), 64
    if m < 1 << 64:
        return (_upper_half(y, m) >> (s - 64)).cast(kind)
    part = _upper_half(y, m - (1 << 64))  # m has 65 bits; the sum of the two parts may have, too
    return ((((y - part) >> 1) + part) >> (s - 65)).cast(kind)


def floor_quotient(x: UOp, divisor: int, machine: Machine) -> UOp:
    """Return x // divisor for a positive divisor."""
    low, high = int(x.vmin), int(x.vmax)
    if low >= 0:
        return quotient(x, high, divisor, machine)
    below = low // divisor
    largest = high - below * divisor
    # x moved up by a multiple of the divisor fits the type
    if largest * multiplier(largest, divisor)[0] <= x.dtype.max:
        return quotient(x - below * divisor, largest, divisor, machine) + below
    sign = x >> (x.dtype.bits - 1)
    return quotient(x ^ sign, max(high, ~low), divisor, machine) ^ sign


# -- by constants ----------------------------------------------------------------------------------


def _constant_divisor(node: UOp) -> int:
    """Return the divisor if it is a positive constant; else 0."""
    divisor = node.src[1]
    return int(divisor.arg) if divisor.op is ops.CONST and divisor.arg > 0 else 0


@procedure("divide-by-power", (ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD))
def by_power(node: UOp) -> UOp | None:
    """Divide by a power of two with shifts and masks."""
    x, d = node.src[0], _constant_divisor(node)
    if not _is_word(node.dtype) or not d or d & (d - 1):
        return None
    k = d.bit_length() - 1
    if node.op is ops.IDIV or (node.op is ops.CDIV and x.vmin >= 0):
        return x >> k
    if node.op is ops.MOD or x.vmin >= 0:
        return x & (d - 1)
    # towards zero: a negative number is first moved up by d - 1
    moved = x + ((x >> (node.dtype.bits - 1)) & (d - 1))
    return moved >> k if node.op is ops.CDIV else x - (moved & -d)


@procedure("divide-by-constant", (ops.IDIV, ops.MOD), with_context=True)
def by_constant(node: UOp, machine: Machine) -> UOp | None:
    """Divide by a constant with a product and a shift."""
    x, d = node.src[0], _constant_divisor(node)
    if not _is_word(node.dtype) or not d:
        return None
    whole = floor_quotient(x, d, machine)
    return whole if node.op is ops.IDIV else x - whole * d


@procedure("truncate-by-constant", (ops.CDIV, ops.CMOD), with_context=True)
def truncated_by_constant(node: UOp, machine: Machine) -> UOp | None:
    """Divide towards zero by a constant with a product and a shift."""
    x, d = node.src[0], _constant_divisor(node)
    if not _is_word(node.dtype) or not d or machine.divides_by_constants:
        return None
    whole = floor_quotient(x, d, machine)
    if x.vmin < 0:  # the floor of a negative number is one too low, unless it divides
        inexact = (x < 0) & (whole * d).ne(x)
        whole = whole + inexact.where(x.lift(1), x.lift(0))
    return whole if node.op is ops.CDIV else x - whole * d


# -- by a divisor that is not constant -------------------------------------------------------------


def _may_be_zero(y: UOp) -> bool:
    return y.vmin <= 0 <= y.vmax


def _may_overflow(x: UOp, y: UOp) -> bool:
    """Return whether the least integer may be divided by -1."""
    return y.vmin <= -1 <= y.vmax and x.vmin == x.dtype.min


def _trap_condition(x: UOp, y: UOp) -> UOp | None:
    """Return the condition under which a division traps; None if it never does."""
    zero = y.eq(0) if _may_be_zero(y) else None
    if not _may_overflow(x, y):
        return zero
    minus = y.eq(-1)
    return minus if zero is None else zero | minus


def safe_divisor(x: UOp, y: UOp) -> UOp:
    """Return y, replaced by 1 where dividing x by it may trap."""
    traps = _trap_condition(x, y)
    return y if traps is None else traps.where(y.lift(1), y)


def _is_safe(x: UOp, y: UOp) -> bool:
    if _trap_condition(x, y) is None:
        return True
    return y.op is ops.WHERE and y is safe_divisor(x, y.src[2])


@procedure("divide-safely", (ops.CDIV, ops.CMOD), with_context=True)
def safely(node: UOp, machine: Machine) -> UOp | None:
    """Replace divisors that trap, 0 and -1 of the least integer, and correct the result."""
    x, y = node.src
    if machine.total_division or not _is_word(node.dtype) or _is_safe(x, y):
        return None
    whole = node.op(x, safe_divisor(x, y))
    if node.op is ops.CMOD:
        return whole  # CMOD by 1 is 0, as by -1, and by definition by 0
    if _may_overflow(x, y):
        whole = y.eq(-1).where(-x, whole)
    return y.eq(0).where(y.lift(0), whole) if _may_be_zero(y) else whole


@procedure("floor-by-truncation", (ops.IDIV, ops.MOD))
def floored(node: UOp) -> UOp | None:
    """Divide towards zero, and correct the quotient where the remainder has the other sign."""
    x, y = node.src
    if not _is_word(node.dtype):
        return None
    is_quotient = node.op is ops.IDIV
    if x.vmin >= 0 and y.vmin >= 0:
        return ops.CDIV(x, y) if is_quotient else ops.CMOD(x, y)
    rest = ops.CMOD(x, y)
    wrong = rest.ne(0) & ((rest ^ y) < 0)  # by 0 the rest is 0
    if is_quotient:
        return ops.CDIV(x, y) - wrong.where(y.lift(1), y.lift(0))
    return rest + wrong.where(y, y.lift(0))


# -- shifts ----------------------------------------------------------------------------------------


@procedure("shift-inside", (ops.SHL, ops.SHR), with_context=True)
def shift_inside(node: UOp, machine: Machine) -> UOp | None:
    """Shift by less than the width; a larger amount gives 0, or the sign."""
    x, amount = node.src
    bits = node.dtype.bits
    if machine.total_shifts or not _is_word(node.dtype):
        return None
    if amount.vmin >= 0 and amount.vmax < bits:
        return None
    moved = node.op(x, amount & (bits - 1))
    out = x.lift(0)
    if node.op is ops.SHR and x.dtype.kind is Kind.SIGNED:
        out = x >> (bits - 1)
    return (amount.cast(_unsigned(amount.dtype)) < bits).where(moved, out)


@procedure("multiply-by-power", (ops.MUL,), with_context=True)
def product_by_power(node: UOp, machine: Machine) -> UOp | None:
    """Multiply by a power of two with a shift, where the machine asks for it."""
    factor = node.src[1]
    if not machine.shifts_for_products or not _is_word(node.dtype) or factor.op is not ops.CONST:
        return None
    bits = int(factor.arg) & ((1 << node.dtype.bits) - 1)  # the least integer is a power of two
    if bits < 2 or bits & (bits - 1):
        return None
    return node.src[0] << (bits.bit_length() - 1)


# -- powers of integers ----------------------------------------------------------------------------


@procedure("power-of-words", (ops.POW,))
def power(node: UOp) -> UOp | None:
    """Compute an integer power by repeated squaring, for the bits that the exponent can have."""
    base, exponent = node.src
    if not _is_word(node.dtype):
        return None
    one, zero = base.lift(1), base.lift(0)
    result, square = one, base
    last = int(exponent.vmax).bit_length() if exponent.vmax > 0 else 0
    for k in range(last):
        result = ((exponent >> k) & 1).ne(0).where(result * square, result)
        if k + 1 < last:
            square = square * square
    if exponent.vmin >= 0:
        return result
    # 1 / base**n towards zero: only 1 and -1 have one that is not 0
    sign = (exponent & 1).ne(0).where(base, one)
    inverse = base.eq(1).where(one, base.eq(-1).where(sign, zero))
    return (exponent < 0).where(inverse, result)


DIVISION = RuleSet(
    "division",
    theory=Theory.FIXED_WIDTH,
    rules=(by_power, by_constant, truncated_by_constant, floored, safely, power),
)
SHIFTS = RuleSet("shifts", theory=Theory.FIXED_WIDTH, rules=(shift_inside, product_by_power))
