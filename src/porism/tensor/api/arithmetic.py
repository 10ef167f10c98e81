"""Arithmetic: sums, products, quotients, powers and rounding, element by element.

All functions broadcast their operands and promote them to a common type. Integers wrap on overflow;
NaN operands give NaN.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from porism.base.dtypes import Kind
from porism.gradient.stated_pullbacks import stated
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.tensor import primitive
from porism.tensor.api.operands import USE_ASTYPE, float_node, float_pair, operand, operand_pair
from porism.tensor.conversion import as_tensor, promote_operands, weak_or_tensor
from porism.tensor.float_formulas import (
    BITS_OF,
    in_f32,
    is_finite,
    is_infinite,
    magnitude,
    select,
    sign_bits,
    sign_mask,
    with_sign,
)
from porism.tensor.promotion import (
    FLOATS,
    NUMBERS,
    as_dtype,
    float_type,
    require_dtype,
    result_type,
)
from porism.tensor.shapes import as_int
from porism.tensor.standard.devices import on_device
from porism.tensor.tensor import Tensor, method, operator


@method
def astype(x: Any, dtype: Any, *, copy: bool = True, device: Any = None) -> Tensor:
    """Return the values converted to another type.

    Floats become integers by truncation and saturate at the limits of the type; NaN becomes 0.
    `copy` is accepted for the Array API; a tensor is immutable, so it changes nothing.

    >>> porism.astype([1.9, -1.9, 300.0], "int8").tolist()
    [1, -1, 127]
    """
    return on_device(Tensor(primitive.cast(as_tensor(x).node, as_dtype(dtype))), device)


# -- arithmetic ------------------------------------------------------------------------------------


@operator("add", reflected=True)
@method
def add(x1: Any, x2: Any) -> Tensor:
    """Return x1 + x2 (the operator `+`).

    >>> porism.add([1, 2], 10).tolist()
    [11, 12]
    """
    return Tensor(ops.ADD(*operand_pair(x1, x2, NUMBERS, "add")))


@operator("sub", reflected=True)
@method
def subtract(x1: Any, x2: Any) -> Tensor:
    """Return x1 - x2 (the operator `-`).

    >>> porism.subtract([1, 2], 10).tolist()
    [-9, -8]
    """
    return Tensor(ops.SUB(*operand_pair(x1, x2, NUMBERS, "subtract")))


@operator("mul", reflected=True)
@method
def multiply(x1: Any, x2: Any) -> Tensor:
    """Return x1 * x2 (the operator `*`); of two bools, their logical and.

    >>> porism.multiply([1, 2], 10).tolist()
    [10, 20]
    """
    a, b = promote_operands(x1, x2)
    return Tensor((ops.AND if a.dtype.kind is Kind.BOOL else ops.MUL)(a, b))


@operator("truediv", reflected=True)
@method
def divide(x1: Any, x2: Any) -> Tensor:
    """Return x1 / x2 (the operator `/`) in floats, also of two integers.

    >>> porism.divide([1, 3], 2).tolist()
    [0.5, 1.5]
    """
    return Tensor(ops.FDIV(*float_pair(x1, x2)))


@operator("floordiv", reflected=True)
@method
def floor_divide(x1: Any, x2: Any) -> Tensor:
    """Return the quotient rounded towards minus infinity (the operator `//`).

    Integer division by 0 gives 0. With infinite floats the result is that of the Array API, and
    not NumPy's: the quotient, which is infinite or a zero.

    >>> porism.floor_divide([7, -7], 2).tolist()
    [3, -4]
    """
    a, b = operand_pair(x1, x2, NUMBERS, "floor_divide")
    return Tensor(in_f32(_floor_quotient, a, b) if a.dtype.is_float else ops.IDIV(a, b))


def _floor_quotient(a: UOp, b: UOp) -> UOp:
    """Return floor(a / b) of floats, corrected where the division rounded up to an integer."""
    ratio = a / b
    floored = ops.FLOOR(ratio)
    # The division may have rounded up to an integer; then the quotient is too large by one.
    remainder = ops.MULACC(-floored, b, a)
    too_much = remainder.ne(0.0) & ((remainder < 0.0) ^ (b < 0.0)) & floored.eq(ratio)
    # Over an infinity the quotient is 0, whose sign is kept, though the product above is NaN.
    return (too_much & is_finite(floored) & is_finite(b)).where(floored - 1.0, floored)


@operator("mod", reflected=True)
@method
def remainder(x1: Any, x2: Any) -> Tensor:
    """Return x1 - floor(x1 / x2) * x2 (the operator `%`), which has the sign of x2.

    The remainder of an integer division by 0 is 0. Of floats the result is exact while the quotient
    has at most twice as many bits as the significand; beyond, it is 0, or NaN if the quotient
    overflows.

    >>> porism.remainder([7, -7], 3).tolist()
    [1, 2]
    """
    a, b = operand_pair(x1, x2, NUMBERS, "remainder")
    return Tensor(in_f32(_float_remainder, a, b) if a.dtype.is_float else ops.MOD(a, b))


def truncated_remainder(a: UOp, b: UOp) -> UOp:
    """Return a remainder of floats below |b|, of either sign, by two truncated divisions."""
    rest = a
    for _ in range(2):  # the second step removes what the rounded first quotient left
        rest = ops.MULACC(-ops.TRUNC(rest / b), b, rest)
    rest = (magnitude(rest) > magnitude(b)).where(rest.lift(0.0), rest)
    return is_infinite(b).where(is_infinite(a).where(a.lift(np.nan), a), rest)


def _float_remainder(a: UOp, b: UOp) -> UOp:
    """Return the floored remainder of floats, which has the sign of b."""
    rest = truncated_remainder(a, b)
    other_sign = rest.ne(0.0) & ((rest < 0.0) ^ (b < 0.0))
    adjusted = other_sign.where(rest + b, rest)
    return stated("remainder", adjusted.eq(0.0).where(with_sign(adjusted, b), adjusted), a, b)


@operator("divmod")
@method
def divmod(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """Return the quotient rounded down and the remainder: `x1 // x2` and `x1 % x2`.

    >>> [part.tolist() for part in porism.divmod([7, -7], 3)]
    [[2, -3], [1, 2]]
    """
    return floor_divide(x1, x2), remainder(x1, x2)


def _power_by_products(x: UOp, exponent: float) -> UOp | None:
    """Return x**exponent by one or two multiplications or a division; None if that is inexact."""
    if exponent == 2:
        return x * x
    if not x.dtype.is_float:
        return None
    if exponent == 3:
        return in_f32(lambda x: x * x * x, x)
    return x.lift(1.0) / x if exponent == -1 else None


@operator("pow", reflected=True)
@method
def pow(x1: Any, x2: Any) -> Tensor:
    """Return x1 to the power x2 (the operator `**`).

    Integer powers are exact and wrap; a negative integer exponent truncates towards zero.

    >>> porism.pow([1, 2, 3], 2).tolist()
    [1, 4, 9]
    """
    base, exponent = operand_pair(x1, x2, NUMBERS, "pow")
    if isinstance(x2, (int, float)) and (product := _power_by_products(base, x2)) is not None:
        return Tensor(product)
    return Tensor(ops.POW(base, exponent))


@operator("neg")
@method
def negative(x: Any) -> Tensor:
    """Return -x (the unary operator `-`); integers wrap.

    >>> porism.negative([1, -2]).tolist()
    [-1, 2]
    """
    return Tensor(ops.NEG(operand(x, NUMBERS, "negative")))


@operator("pos")
@method
def positive(x: Any) -> Tensor:
    """Return x unchanged (the unary operator `+`).

    >>> porism.positive([1, -2]).tolist()
    [1, -2]
    """
    return Tensor(operand(x, NUMBERS, "positive"))


@operator("abs")
@method
def abs(x: Any) -> Tensor:
    """Return the absolute value of x.

    >>> porism.abs([1, -2]).tolist()
    [1, 2]
    """
    return Tensor(magnitude(operand(x, NUMBERS, "abs")))


@method
def maximum(x1: Any, x2: Any) -> Tensor:
    """Return the larger of x1 and x2; NaN if either is NaN.

    >>> porism.maximum([1, 5], 3).tolist()
    [3, 5]
    """
    return Tensor(ops.MAX(*promote_operands(x1, x2)))


@method
def minimum(x1: Any, x2: Any) -> Tensor:
    """Return the smaller of x1 and x2; NaN if either is NaN.

    >>> porism.minimum([1, 5], 3).tolist()
    [1, 3]
    """
    return Tensor(ops.MIN(*promote_operands(x1, x2)))


@method
def square(x: Any) -> Tensor:
    """Return x * x.

    >>> porism.square([2, -3]).tolist()
    [4, 9]
    """
    return multiply(x, x)


@method
def reciprocal(x: Any) -> Tensor:
    """Return 1 / x, in floats.

    >>> porism.reciprocal([2.0, -4.0]).tolist()
    [0.5, -0.25]
    """
    return Tensor(ops.RECIPROCAL(float_node(x)))


@method
def sign(x: Any) -> Tensor:
    """Return -1, 0 or 1 by the sign of x; NaN of NaN.

    >>> porism.sign([-7, 0, 3]).tolist()
    [-1, 0, 1]
    """
    node = operand(x, NUMBERS, "sign")
    rest = node.ne(node).where(node, node.lift(0)) if node.dtype.is_float else node.lift(0)
    if node.dtype.kind is not Kind.UNSIGNED:
        rest = (node < 0).where(node.lift(-1), rest)
    return Tensor((node > 0).where(node.lift(1), rest))


@method
def sqrt(x: Any) -> Tensor:
    """Return the square root of x; NaN where x is negative.

    >>> porism.sqrt([4.0, 9.0]).tolist()
    [2.0, 3.0]
    """
    return Tensor(ops.SQRT(float_node(x)))


@method
def rsqrt(x: Any) -> Tensor:
    """Return 1 / sqrt(x).

    >>> porism.rsqrt([4.0, 16.0]).tolist()
    [0.5, 0.25]
    """
    return Tensor(in_f32(lambda node: ops.RECIPROCAL(ops.SQRT(node)), float_node(x)))


@method
def lerp(x: Any, end: Any, weight: Any) -> Tensor:
    """Return the linear interpolation x + weight * (end - x); exactly `end` where the weight is 1.

    >>> porism.lerp([0.0, 10.0], [4.0, 20.0], 0.5).tolist()
    [2.0, 15.0]
    """
    common = float_type(result_type(*map(weak_or_tensor, (x, end, weight))))
    start, stop, fraction = promote_operands(x, end, weight, dtype=common)
    near = ops.MULACC(fraction, stop - start, start)
    far = stop - (fraction.lift(1.0) - fraction) * (stop - start)
    return Tensor((fraction < 0.5).where(near, far))


# -- rounding --------------------------------------------------------------------------------------


def _apply_rounding(op: Op, x: Any) -> Tensor:
    """Return x rounded by an op to integral values; integers are returned unchanged."""
    node = operand(x, NUMBERS, op.name.lower())
    return Tensor(op(node) if node.dtype.is_float else node)


@method
def floor(x: Any) -> Tensor:
    """Return the largest integral value that is not above x, in the type of x.

    >>> porism.floor([1.5, -1.5]).tolist()
    [1.0, -2.0]
    """
    return _apply_rounding(ops.FLOOR, x)


@method
def ceil(x: Any) -> Tensor:
    """Return the smallest integral value that is not below x, in the type of x.

    >>> porism.ceil([1.5, -1.5]).tolist()
    [2.0, -1.0]
    """
    return _apply_rounding(ops.CEIL, x)


@method
def trunc(x: Any) -> Tensor:
    """Return x rounded towards zero to an integral value, in the type of x.

    >>> porism.trunc([1.5, -1.5]).tolist()
    [1.0, -1.0]
    """
    return _apply_rounding(ops.TRUNC, x)


@operator("round")
@method
def round(x: Any, decimals: int = 0) -> Tensor:
    """Return x rounded to the nearest integral value, ties to even, in the type of x.

    With `decimals` it is rounded to that many decimal places, as in NumPy: multiplied by a power of
    ten, rounded and divided.

    >>> porism.round([0.5, 1.5, 2.6]).tolist(), porism.round([0.126, 12.5], 2).tolist()
    ([0.0, 2.0, 3.0], [0.12999..., 12.5])
    """
    places = as_int(decimals, "decimals")
    if places == 0:
        return _apply_rounding(ops.ROUND, x)
    node = operand(x, NUMBERS, "round")
    if not node.dtype.is_float and places > 0:
        return Tensor(node)
    require_dtype(node.dtype, FLOATS, "round to tens", USE_ASTYPE)
    return Tensor(in_f32(lambda x: _round_decimals(x, places), node))


def _round_decimals(x: UOp, places: int) -> UOp:
    """Return x rounded to decimal places; a negative number rounds to tens, hundreds, …"""
    scale = 10.0 ** builtins.abs(places)
    if places < 0:
        return ops.ROUND(x / x.lift(scale)) * x.lift(scale)
    return ops.ROUND(x * x.lift(scale)) / x.lift(scale)


# -- signs and adjacent floats ---------------------------------------------------------------------


@method
def copysign(x1: Any, x2: Any) -> Tensor:
    """Return the magnitude of x1 with the sign of x2; signs of zeros and NaNs count.

    >>> porism.copysign([1.0, -2.0], [-0.0, 3.0]).tolist()
    [-1.0, 2.0]
    """
    a, b = float_pair(x1, x2)
    return Tensor(stated("copysign", with_sign(a, b), a, b))


@method
def signbit(x: Any) -> Tensor:
    """Return whether the sign bit of x is set, also of zeros and NaNs.

    >>> porism.signbit([1.0, -2.0, -0.0]).tolist()
    [False, True, True]
    """
    return Tensor(sign_bits(float_node(x)).ne(0))


@method
def nextafter(x1: Any, x2: Any) -> Tensor:
    """Return the next representable number from x1 towards x2.

    >>> porism.nextafter(1.0, 2.0).item() - 1 == porism.finfo("float32").eps
    True
    """
    a, b = float_pair(x1, x2)
    return Tensor(_next_float(a, b))


def _next_float(a: UOp, b: UOp) -> UOp:
    """Return the float adjacent to a in the direction of b."""
    kind = BITS_OF[a.dtype]
    bits = a.bitcast(kind)
    one = UOp.const(kind, 1)
    # The bits of a float order its magnitude: away from zero is + 1, whatever the sign.
    away = (a < b) ^ (a < 0.0)
    moved = away.where(bits + one, bits - one)
    smallest = ops.OR((b < 0.0).where(UOp.const(kind, sign_mask(a.dtype)), one * 0), one)
    stepped = a.eq(0.0).where(smallest, moved).bitcast(a.dtype)
    return select(a.ne(a) | b.ne(b), a + b, a.eq(b), b, stepped)
