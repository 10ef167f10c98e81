"""Elementwise: arithmetic, comparisons, logic and choice, element by element with broadcasting."""

from __future__ import annotations

import builtins
from typing import Any, Final

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.tensor import primitive
from porism.tensor.conversion import as_tensor, is_operand, node_of, together, weak_or_tensor
from porism.tensor.conversion import broadcast as broadcast_nodes
from porism.tensor.float_formulas import is_finite, is_infinite, magnitude, widely, with_sign
from porism.tensor.promotion import (
    INTEGERS,
    NUMBERS,
    as_dtype,
    float_type,
    need,
    result_type,
)
from porism.tensor.tensor import Tensor, method, operator

_LOGICAL: Final = (dtypes.boolean, *INTEGERS)
_USE_ASTYPE: Final = "convert it first, with astype"


def _pair(x1: Any, x2: Any, accepted: tuple[DType, ...], what: str) -> tuple[UOp, UOp]:
    a, b = together(x1, x2)
    need(a.dtype, accepted, what, _USE_ASTYPE)
    return a, b


def _one(x: Any, accepted: tuple[DType, ...], what: str) -> UOp:
    node = as_tensor(x).node
    need(node.dtype, accepted, what, _USE_ASTYPE)
    return node


def float_node(x: Any) -> UOp:
    """An operand of a function of floats; integers and bools are converted."""
    node = as_tensor(x).node
    return primitive.cast(node, float_type(node.dtype))


def float_pair(x1: Any, x2: Any) -> tuple[UOp, ...]:
    """Two operands of a function of floats."""
    common = float_type(result_type(weak_or_tensor(x1), weak_or_tensor(x2)))
    return together(x1, x2, dtype=common)


@method
def astype(x: Any, dtype: Any, *, copy: bool = True) -> Tensor:
    """The values in another type. Floats go to integers towards zero and saturate; NaN gives 0."""
    return Tensor(primitive.cast(as_tensor(x).node, as_dtype(dtype)))


# -- arithmetic ------------------------------------------------------------------------------------


@operator("add", reflected=True)
@method
def add(x1: Any, x2: Any) -> Tensor:
    """x1 + x2."""
    return Tensor(ops.ADD(*_pair(x1, x2, NUMBERS, "add")))


@operator("sub", reflected=True)
@method
def subtract(x1: Any, x2: Any) -> Tensor:
    """x1 - x2."""
    return Tensor(ops.SUB(*_pair(x1, x2, NUMBERS, "subtract")))


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
    a, b = _pair(x1, x2, NUMBERS, "floor_divide")
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
    a, b = _pair(x1, x2, NUMBERS, "remainder")
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


def _product(x: UOp, exponent: float) -> UOp | None:
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
    base, exponent = _pair(x1, x2, NUMBERS, "pow")
    if isinstance(x2, (int, float)) and (product := _product(base, x2)) is not None:
        return Tensor(product)
    return Tensor(ops.POW(base, exponent))


@operator("neg")
@method
def negative(x: Any) -> Tensor:
    """-x; integers wrap."""
    return Tensor(ops.NEG(_one(x, NUMBERS, "negative")))


@operator("pos")
@method
def positive(x: Any) -> Tensor:
    """x."""
    return Tensor(_one(x, NUMBERS, "positive"))


@operator("abs")
@method
def abs(x: Any) -> Tensor:
    """The value without its sign."""
    return Tensor(magnitude(_one(x, NUMBERS, "abs")))


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
    node = _one(x, NUMBERS, "sign")
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


def _rounded(op: Op, x: Any) -> Tensor:
    node = _one(x, NUMBERS, op.name.lower())
    return Tensor(op(node) if node.dtype.is_float else node)


@method
def floor(x: Any) -> Tensor:
    """To the next whole number below."""
    return _rounded(ops.FLOOR, x)


@method
def ceil(x: Any) -> Tensor:
    """To the next whole number above."""
    return _rounded(ops.CEIL, x)


@method
def trunc(x: Any) -> Tensor:
    """To the next whole number towards zero."""
    return _rounded(ops.TRUNC, x)


@method
def round(x: Any) -> Tensor:
    """To the nearest whole number, ties to even."""
    return _rounded(ops.ROUND, x)


# -- comparisons -----------------------------------------------------------------------------------


@operator("lt")
@method
def less(x1: Any, x2: Any) -> Tensor:
    """x1 < x2."""
    return Tensor(ops.LT(*together(x1, x2)))


@operator("le")
@method
def less_equal(x1: Any, x2: Any) -> Tensor:
    """x1 <= x2."""
    return Tensor(ops.LE(*together(x1, x2)))


@operator("gt")
@method
def greater(x1: Any, x2: Any) -> Tensor:
    """x1 > x2."""
    return Tensor(ops.GT(*together(x1, x2)))


@operator("ge")
@method
def greater_equal(x1: Any, x2: Any) -> Tensor:
    """x1 >= x2."""
    return Tensor(ops.GE(*together(x1, x2)))


@method
def equal(x1: Any, x2: Any) -> Tensor:
    """x1 == x2; NaN equals nothing."""
    return Tensor(ops.EQ(*together(x1, x2)))


@method
def not_equal(x1: Any, x2: Any) -> Tensor:
    """x1 != x2."""
    return Tensor(ops.NE(*together(x1, x2)))


@operator("eq")
def _equal_or_other(x1: Any, x2: Any) -> Any:
    """What is no tensor at all, like None, is not equal: Python says so."""
    return equal(x1, x2) if is_operand(x2) else NotImplemented


@operator("ne")
def _not_equal_or_other(x1: Any, x2: Any) -> Any:
    return not_equal(x1, x2) if is_operand(x2) else NotImplemented


@method
def isnan(x: Any) -> Tensor:
    """Whether a value is NaN."""
    node = as_tensor(x).node
    return Tensor(node.ne(node))


@method
def isinf(x: Any) -> Tensor:
    """Whether a value is an infinity."""
    node = as_tensor(x).node
    return Tensor(is_infinite(node) if node.dtype.is_float else node.ne(node))


@method
def isfinite(x: Any) -> Tensor:
    """Whether a value is neither NaN nor an infinity."""
    node = as_tensor(x).node
    return Tensor(is_finite(node) if node.dtype.is_float else node.eq(node))


# -- bits and logic --------------------------------------------------------------------------------


@operator("and", reflected=True)
@method
def bitwise_and(x1: Any, x2: Any) -> Tensor:
    """x1 & x2."""
    return Tensor(ops.AND(*_pair(x1, x2, _LOGICAL, "bitwise_and")))


@operator("or", reflected=True)
@method
def bitwise_or(x1: Any, x2: Any) -> Tensor:
    """x1 | x2."""
    return Tensor(ops.OR(*_pair(x1, x2, _LOGICAL, "bitwise_or")))


@operator("xor", reflected=True)
@method
def bitwise_xor(x1: Any, x2: Any) -> Tensor:
    """x1 ^ x2."""
    return Tensor(ops.XOR(*_pair(x1, x2, _LOGICAL, "bitwise_xor")))


@operator("lshift", reflected=True)
@method
def bitwise_left_shift(x1: Any, x2: Any) -> Tensor:
    """x1 << x2; 0 where x2 is below 0, or the width or more."""
    return Tensor(ops.SHL(*_pair(x1, x2, INTEGERS, "bitwise_left_shift")))


@operator("rshift", reflected=True)
@method
def bitwise_right_shift(x1: Any, x2: Any) -> Tensor:
    """x1 >> x2, with the sign; where x2 is below 0, or the width or more, only the sign is left."""
    return Tensor(ops.SHR(*_pair(x1, x2, INTEGERS, "bitwise_right_shift")))


@operator("invert")
@method
def bitwise_invert(x: Any) -> Tensor:
    """All bits of an integer turned, or a bool."""
    return Tensor(ops.NOT(_one(x, _LOGICAL, "bitwise_invert")))


def _truths(*values: Any) -> tuple[UOp, ...]:
    return broadcast_nodes(*(primitive.cast(node_of(v), dtypes.boolean) for v in values))


@method
def logical_and(x1: Any, x2: Any) -> Tensor:
    """Whether both are true; a number is, if it is not 0."""
    return Tensor(ops.AND(*_truths(x1, x2)))


@method
def logical_or(x1: Any, x2: Any) -> Tensor:
    """Whether one of the two is true."""
    return Tensor(ops.OR(*_truths(x1, x2)))


@method
def logical_xor(x1: Any, x2: Any) -> Tensor:
    """Whether exactly one of the two is true."""
    return Tensor(ops.XOR(*_truths(x1, x2)))


@method
def logical_not(x: Any) -> Tensor:
    """Whether it is false."""
    return Tensor(ops.NOT(*_truths(x)))


# -- choice ----------------------------------------------------------------------------------------


def where(condition: Any, x1: Any, x2: Any) -> Tensor:
    """x1 where the condition holds, else x2."""
    yes, no = together(x1, x2)
    return Tensor(ops.WHERE(*broadcast_nodes(*_truths(condition), yes, no)))


@method
def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """Not below `min`, not above `max`; NaN stays. The type of x is kept."""
    node = _one(x, NUMBERS, "clip")
    for bound, op in ((min, ops.MAX), (max, ops.MIN)):
        if bound is not None:
            node = op(*broadcast_nodes(node, _bound(node.dtype, bound)))
    return Tensor(node)


def _bound(dtype: DType, bound: Any) -> UOp:
    """A bound in the type of what it bounds; integers have their limits as infinities."""
    number = isinstance(bound, (bool, int, float))
    if number and dtype.is_integer:
        lowest, highest = int(dtype.min), int(dtype.max)
        if not isinstance(bound, float) or bound.is_integer() or np.isinf(bound):
            bound = builtins.min(builtins.max(bound, lowest), highest)
    return node_of(bound, dtype)
