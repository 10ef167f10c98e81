"""Real functions: remainders, roots, angles and products of several operands, for each element."""

from __future__ import annotations

import math
from typing import Any

from porism.base.dtypes import Kind
from porism.gradient.stated_pullbacks import stated
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor.api.arithmetic import truncated_remainder
from porism.tensor.api.exponentials import log_node
from porism.tensor.api.operands import float_node, float_pair, operand, operand_pair
from porism.tensor.conversion import promote_operands, weak_or_tensor
from porism.tensor.float_formulas import in_f32, is_finite, magnitude, select, with_sign
from porism.tensor.promotion import NUMBERS, float_type, result_type
from porism.tensor.tensor import Tensor, method

# -- quotients -------------------------------------------------------------------------------------


@method
def fmod(x1: Any, x2: Any) -> Tensor:
    """Return x1 - trunc(x1 / x2) * x2, which has the sign of x1.

    The remainder of an integer division by 0 is 0. Of floats it is as exact as `remainder`.

    >>> porism.fmod([7, -7], 3).tolist()
    [1, -1]
    """
    a, b = operand_pair(x1, x2, NUMBERS, "fmod")
    if a.dtype.is_float:
        return Tensor(in_f32(_float_fmod, a, b))
    rest = ops.MOD(a, b)
    if a.dtype.kind is Kind.UNSIGNED:
        return Tensor(rest)
    return Tensor((rest.ne(0) & ((a < 0) ^ (rest < 0))).where(rest - b, rest))


def _float_fmod(a: UOp, b: UOp) -> UOp:
    """Return the truncated remainder of floats: the sign of a zero is that of a."""
    rest = truncated_remainder(a, b)
    other_sign = rest.ne(0.0) & ((rest < 0.0) ^ (a < 0.0))  # the quotient was rounded up
    rest = other_sign.where(rest + with_sign(b, a), rest)
    return rest.eq(0.0).where(with_sign(rest, a), rest)


@method
def frac(x: Any) -> Tensor:
    """Return the part of x behind the point: x - trunc(x).

    >>> porism.frac([1.5, -1.25]).tolist()
    [0.5, -0.25]
    """
    node = operand(x, NUMBERS, "frac")
    return Tensor(node - ops.TRUNC(node) if node.dtype.is_float else node - node)


# -- extremes and steps ----------------------------------------------------------------------------


@method
def fmax(x1: Any, x2: Any) -> Tensor:
    """Return the larger of x1 and x2; the other one where one is NaN.

    >>> porism.fmax([1.0, float("nan")], 3.0).tolist()
    [3.0, 3.0]
    """
    a, b = promote_operands(x1, x2)
    return Tensor(select(a.ne(a), b, b.ne(b), a, ops.MAX(a, b)))


@method
def fmin(x1: Any, x2: Any) -> Tensor:
    """Return the smaller of x1 and x2; the other one where one is NaN.

    >>> porism.fmin([1.0, float("nan")], 3.0).tolist()
    [1.0, 3.0]
    """
    a, b = promote_operands(x1, x2)
    return Tensor(select(a.ne(a), b, b.ne(b), a, ops.MIN(a, b)))


@method
def heaviside(x1: Any, x2: Any) -> Tensor:
    """Return 0 where x1 is negative, x2 where it is 0, and 1 where it is positive.

    >>> porism.heaviside([-1.5, 0.0, 2.0], 0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    a, b = float_pair(x1, x2)
    return Tensor(select(a.ne(a), a, a < 0.0, a.lift(0.0), a.eq(0.0), b, a.lift(1.0)))


# -- roots, angles, logarithms ---------------------------------------------------------------------


def _cbrt(x: UOp) -> UOp:
    """Return the cube root: a power of |x|, and a step of Newton's method."""
    absolute = magnitude(x)
    # Subnormal numbers are scaled by 2^63, whose cube root is 2^21.
    small = absolute < 1e-30
    scaled = small.where(absolute * 2.0**63, absolute)
    guess = ops.EXP2(ops.LOG2(scaled) * (1 / 3))
    better = guess - (guess - scaled / (guess * guess)) * (1 / 3)
    root = small.where(better * 2.0**-21, better)
    usual = is_finite(x) & x.ne(0.0)
    return stated("cbrt", usual.where(with_sign(root, x), x), x)


@method
def cbrt(x: Any) -> Tensor:
    """Return the cube root of x, also of negative numbers.

    >>> porism.cbrt([8.0, -27.0]).tolist()
    [2.0, -3.0]
    """
    return Tensor(in_f32(_cbrt, float_node(x)))


@method
def deg2rad(x: Any) -> Tensor:
    """Return angles in degrees as radians: x · π/180.

    >>> porism.deg2rad([180.0]).tolist()
    [3.141592...]
    """
    return Tensor(in_f32(lambda node: node * (math.pi / 180), float_node(x)))


@method
def rad2deg(x: Any) -> Tensor:
    """Return angles in radians as degrees: x · 180/π.

    >>> porism.rad2deg([0.0, porism.pi]).tolist()
    [0.0, 180.0]
    """
    return Tensor(in_f32(lambda node: node * (180 / math.pi), float_node(x)))


def _sinc(x: UOp) -> UOp:
    """Return sin(πx)/(πx), with the whole part of x taken off exactly first."""
    whole = ops.ROUND(x)
    odd = (whole - ops.FLOOR(whole * 0.5) * 2.0).ne(0.0)
    sine = ops.SIN((x - whole) * math.pi)
    signed = odd.where(-sine, sine)
    return x.eq(0.0).where(x.lift(1.0), signed / (x * math.pi))


@method
def sinc(x: Any) -> Tensor:
    """Return sin(πx)/(πx), and 1 at 0.

    >>> porism.sinc([0.0, 0.5, 2.0]).tolist()
    [1.0, 0.636619..., 0.0]
    """
    return Tensor(in_f32(_sinc, float_node(x)))


@method
def xlogy(x1: Any, x2: Any) -> Tensor:
    """Return x1 · log(x2), and 0 where x1 is 0 and x2 is no NaN.

    >>> porism.xlogy([0.0, 2.0], [0.0, 1.0]).tolist()
    [0.0, 0.0]
    """
    a, b = float_pair(x1, x2)

    def formula(a: UOp, b: UOp) -> UOp:
        value = (a.eq(0.0) & b.eq(b)).where(a.lift(0.0), a * log_node(b))
        return stated("xlogy", value, a, b)

    return Tensor(in_f32(formula, a, b))


@method
def logit(x: Any, eps: float | None = None) -> Tensor:
    """Return log(x / (1 - x)), the inverse of `sigmoid`; x is limited to eps … 1 - eps before.

    >>> porism.logit([0.5, 1.0]).tolist()
    [0.0, inf]
    """

    def formula(node: UOp) -> UOp:
        if eps is not None:
            node = node.maximum(eps).minimum(1 - eps)
        return log_node(node / (node.lift(1.0) - node))

    return Tensor(in_f32(formula, float_node(x)))


# -- three operands --------------------------------------------------------------------------------


@method
def addcmul(x: Any, tensor1: Any, tensor2: Any, value: float = 1) -> Tensor:
    """Return x + value · tensor1 · tensor2.

    >>> porism.addcmul([1.0, 2.0], [3.0, 4.0], 2.0, value=0.5).tolist()
    [4.0, 6.0]
    """
    return _combine(lambda a, b, c: a + b * c * value, x, tensor1, tensor2)


@method
def addcdiv(x: Any, tensor1: Any, tensor2: Any, value: float = 1) -> Tensor:
    """Return x + value · tensor1 / tensor2.

    >>> porism.addcdiv([1.0, 2.0], [3.0, 4.0], 2.0, value=2.0).tolist()
    [4.0, 6.0]
    """
    return _combine(lambda a, b, c: a + b / c * value, x, tensor1, tensor2)


def _combine(formula: Any, *operands: Any) -> Tensor:
    """Return a formula of operands, in their common float type."""
    common = float_type(result_type(*map(weak_or_tensor, operands)))
    return Tensor(in_f32(formula, *promote_operands(*operands, dtype=common)))
