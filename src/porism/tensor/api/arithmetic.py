"""Arithmetic: sums, products, quotients, powers and rounding, element by element.

All functions broadcast their operands and promote them to a common type. Integers wrap on
overflow; NaN operands give NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from porism.base.dtypes import Kind
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.tensor import primitive
from porism.tensor.api.operands import float_node, float_pair, operand, operand_pair
from porism.tensor.conversion import as_tensor, together, weak_or_tensor
from porism.tensor.float_formulas import (
    BITS_OF,
    choose,
    is_finite,
    is_infinite,
    magnitude,
    sign_bits,
    sign_mask,
    widely,
    with_sign,
)
from porism.tensor.promotion import NUMBERS, as_dtype, float_type, result_type
from porism.tensor.tensor import Tensor, method, operator


@method
def astype(x: Any, dtype: Any, *, copy: bool = True) -> Tensor:
    """The values in another type. Floats go to integers towards zero and saturate; NaN gives 0."""
    return Tensor(primitive.cast(as_tensor(x).node, as_dtype(dtype)))


# -- arithmetic ------------------------------------------------------------------------------------


@operator("add", reflected=True)
@method
def add(x1: Any, x2: Any) -> Tensor:
    """x1 + x2."""
    return Tensor(ops.ADD(*operand_pair(x1, x2, NUMBERS, "add")))


@operator("sub", reflected=True)
@method
def subtract(x1: Any, x2: Any) -> Tensor:
    """x1 - x2."""
    return Tensor(ops.SUB(*operand_pair(x1, x2, NUMBERS, "subtract")))


@operator("mul", reflected=True)
@method
def multiply(x1: Any, x2: Any) -> Tensor:
    """x1 * x2; of bools, whether both hold."""
    a, b = together(x1, x2)
    return Tensor((ops.AND if a.dtype.kind is Kind.BOOL else ops.MUL)(a, b))


@operator("truediv", reflected=True)
@method
def divide(x1: Any, x2: Any) -> Tensor:
    """x1 / x2, as floats."""
    return Tensor(ops.FDIV(*float_pair(x1, x2)))


@operator("floordiv", reflected=True)
@method
def floor_divide(x1: Any, x2: Any) -> Tensor:
    """The quotient, rounded down. Of integers, 0 where the divisor is 0; NaN of an infinity."""
    a, b = operand_pair(x1, x2, NUMBERS, "floor_divide")
    return Tensor(widely(_floor_quotient, a, b) if a.dtype.is_float else ops.IDIV(a, b))


def _floor_quotient(a: UOp, b: UOp) -> UOp:
    ratio = a / b
    down = ops.FLOOR(ratio)
    # The division may have rounded up to a whole number; then too much was taken.
    left = ops.MULACC(-down, b, a)
    too_much = left.ne(0.0) & ((left < 0.0) ^ (b < 0.0)) & down.eq(ratio)
    # An infinity goes into a finite number 0 times or, if their signs differ, -1 times.
    never = is_infinite(b) & is_finite(a)
    below = a.ne(0.0) & ((a < 0.0) ^ (b < 0.0))
    whole = (too_much & is_finite(down)).where(down - 1.0, down)
    # How often a finite number goes into an infinity is not known.
    whole = (is_infinite(a) & b.ne(0.0)).where(a.lift(np.nan), whole)
    return never.where(below.where(a.lift(-1.0), ratio), whole)


@operator("mod", reflected=True)
@method
def remainder(x1: Any, x2: Any) -> Tensor:
    """What floor division by x2 leaves of x1, with the sign of x2.

    Of integers, 0 where the divisor is 0. Of floats, exact while the quotient has at most twice
    the digits of the type; beyond, 0, and NaN where the quotient overflows.
    """
    a, b = operand_pair(x1, x2, NUMBERS, "remainder")
    return Tensor(widely(_float_remainder, a, b) if a.dtype.is_float else ops.MOD(a, b))


def _float_remainder(a: UOp, b: UOp) -> UOp:
    left = a
    for _ in range(2):  # the second time for what the rounding of the first quotient left
        left = ops.MULACC(-ops.TRUNC(left / b), b, left)
    left = (magnitude(left) > magnitude(b)).where(left.lift(0.0), left)
    left = is_infinite(b).where(is_infinite(a).where(a.lift(np.nan), a), left)
    other_sign = left.ne(0.0) & ((left < 0.0) ^ (b < 0.0))
    turned = other_sign.where(left + b, left)
    return turned.eq(0.0).where(with_sign(turned, b), turned)


def _power_by_products(x: UOp, exponent: float) -> UOp | None:
    """A power that one or two multiplications or a division give as precisely."""
    if exponent == 2:
        return x * x
    if not x.dtype.is_float:
        return None
    if exponent == 3:
        return widely(lambda x: x * x * x, x)
    return x.lift(1.0) / x if exponent == -1 else None


@operator("pow", reflected=True)
@method
def pow(x1: Any, x2: Any) -> Tensor:
    """x1 to the power x2; of integers exact and wrapping, a negative exponent towards zero."""
    base, exponent = operand_pair(x1, x2, NUMBERS, "pow")
    if isinstance(x2, (int, float)) and (product := _power_by_products(base, x2)) is not None:
        return Tensor(product)
    return Tensor(ops.POW(base, exponent))


@operator("neg")
@method
def negative(x: Any) -> Tensor:
    """-x; integers wrap."""
    return Tensor(ops.NEG(operand(x, NUMBERS, "negative")))


@operator("pos")
@method
def positive(x: Any) -> Tensor:
    """x."""
    return Tensor(operand(x, NUMBERS, "positive"))


@operator("abs")
@method
def abs(x: Any) -> Tensor:
    """The value without its sign."""
    return Tensor(magnitude(operand(x, NUMBERS, "abs")))


@method
def maximum(x1: Any, x2: Any) -> Tensor:
    """The larger; NaN if either is."""
    return Tensor(ops.MAX(*together(x1, x2)))


@method
def minimum(x1: Any, x2: Any) -> Tensor:
    """The smaller; NaN if either is."""
    return Tensor(ops.MIN(*together(x1, x2)))


@method
def square(x: Any) -> Tensor:
    """x * x."""
    return multiply(x, x)


@method
def reciprocal(x: Any) -> Tensor:
    """1 / x."""
    return Tensor(ops.RECIPROCAL(float_node(x)))


@method
def sign(x: Any) -> Tensor:
    """-1, 0 or 1; NaN of NaN."""
    node = operand(x, NUMBERS, "sign")
    rest = node.ne(node).where(node, node.lift(0)) if node.dtype.is_float else node.lift(0)
    if node.dtype.kind is not Kind.UNSIGNED:
        rest = (node < 0).where(node.lift(-1), rest)
    return Tensor((node > 0).where(node.lift(1), rest))


@method
def sqrt(x: Any) -> Tensor:
    """The square root; NaN below 0."""
    return Tensor(ops.SQRT(float_node(x)))


@method
def rsqrt(x: Any) -> Tensor:
    """1 / sqrt(x)."""
    return Tensor(widely(lambda node: ops.RECIPROCAL(ops.SQRT(node)), float_node(x)))


@method
def lerp(x: Any, end: Any, weight: Any) -> Tensor:
    """From x to end: x + weight * (end - x), and exactly `end` where the weight is 1."""
    common = float_type(result_type(*map(weak_or_tensor, (x, end, weight))))
    start, stop, share = together(x, end, weight, dtype=common)
    near = ops.MULACC(share, stop - start, start)
    far = stop - (share.lift(1.0) - share) * (stop - start)
    return Tensor((share < 0.5).where(near, far))


# -- rounding --------------------------------------------------------------------------------------


def _apply_rounding(op: Op, x: Any) -> Tensor:
    node = operand(x, NUMBERS, op.name.lower())
    return Tensor(op(node) if node.dtype.is_float else node)


@method
def floor(x: Any) -> Tensor:
    """To the next whole number below."""
    return _apply_rounding(ops.FLOOR, x)


@method
def ceil(x: Any) -> Tensor:
    """To the next whole number above."""
    return _apply_rounding(ops.CEIL, x)


@method
def trunc(x: Any) -> Tensor:
    """To the next whole number towards zero."""
    return _apply_rounding(ops.TRUNC, x)


@method
def round(x: Any) -> Tensor:
    """To the nearest whole number, ties to even."""
    return _apply_rounding(ops.ROUND, x)


# -- signs and adjacent floats ---------------------------------------------------------------------


@method
def copysign(x1: Any, x2: Any) -> Tensor:
    """The magnitude of x1 with the sign of x2, also of zeros and NaNs."""
    a, b = float_pair(x1, x2)
    return Tensor(with_sign(a, b))


@method
def signbit(x: Any) -> Tensor:
    """Whether the sign is minus, also of zeros and NaNs."""
    return Tensor(sign_bits(float_node(x)).ne(0))


@method
def nextafter(x1: Any, x2: Any) -> Tensor:
    """The next number of the type from x1 towards x2."""
    a, b = float_pair(x1, x2)
    return Tensor(_next_float(a, b))


def _next_float(a: UOp, b: UOp) -> UOp:
    kind = BITS_OF[a.dtype]
    bits = a.bitcast(kind)
    one = UOp.const(kind, 1)
    # Bits count magnitudes: away from zero is up, whatever the sign.
    away = (a < b) ^ (a < 0.0)
    moved = away.where(bits + one, bits - one)
    smallest = ops.OR((b < 0.0).where(UOp.const(kind, sign_mask(a.dtype)), one * 0), one)
    stepped = a.eq(0.0).where(smallest, moved).bitcast(a.dtype)
    return choose(a.ne(a) | b.ne(b), a + b, a.eq(b), b, stepped)
