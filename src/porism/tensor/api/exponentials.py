"""Exponentials and logarithms: exp, log, their variants, and hyperbolic functions.

They are built on the ops EXP, EXP2, EXPM1, TANH and LOG2. Errors are stated in units in the last
place (ulp) of f32 and f64, assuming correctly rounded ops; narrower types are computed in f32 and
rounded once.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from porism.gradient.stated_pullbacks import pullback, stated
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor.api.operands import float_node, float_pair
from porism.tensor.float_formulas import in_f32, magnitude, polynomial, select
from porism.tensor.tensor import Tensor, method

LOG2_E: Final = math.log2(math.e)
LN_2: Final = math.log(2)
LOG10_2: Final = math.log10(2)


# -- formulas on nodes -----------------------------------------------------------------------------


def exp_node(x: UOp) -> UOp:
    """Return e^x, within 2 ulp."""
    return ops.EXP(x)


def log_node(x: UOp) -> UOp:
    """Return the natural logarithm, within 2 ulp."""
    return stated("log", ops.LOG2(x) * LN_2, x)


# log(1 + x) = s·(2 + s²·P(s²)) for s = x/(2 + x); the coefficients are from
# interpolation at Chebyshev nodes.
_LOG1P: Final = {
    32: (0.23397034406661987, 0.2854830324649811, 0.4000014364719391, 0.6666666865348816),
    64: (
        0.13095489697310986,
        0.10076924942177351,
        0.1179265396550266,
        0.1333234008095405,
        0.15384636625877166,
        0.18181817907870224,
        0.22222222224267724,
        0.2857142857142057,
        0.40000000000000013,
        0.6666666666666666,
    ),
}
_LOG1P_SMALL: Final = (-0.3, 0.42)


def log1p_node(x: UOp) -> UOp:
    """Return log(1 + x), within 4 ulp."""
    low, high = _LOG1P_SMALL
    small = (x > low) & (x < high)
    part = x / (x + 2.0)
    squared = part * part
    near = ops.MULACC(squared, polynomial(squared, _LOG1P[x.dtype.bits]), x.lift(2.0)) * part
    return stated("log1p", small.where(near, log_node(x + 1.0)), x)


def expm1_node(x: UOp) -> UOp:
    """Return e^x - 1, within 3 ulp."""
    return ops.EXPM1(x)


def odd_function(x: UOp, value: UOp) -> UOp:
    """Return the value at x of an odd function with slope 1 at 0, from its value at |x|.

    It is built from selects and not from sign bits, so that it can be differentiated.
    """
    return select(x.eq(0.0), x, x < 0.0, -value, value)


def tanh_node(x: UOp) -> UOp:
    """Return the hyperbolic tangent, within 4 ulp."""
    return ops.TANH(x)


def sigmoid_node(x: UOp) -> UOp:
    """Return 1 / (1 + e^-x), within 4 ulp."""
    return stated("sigmoid", ops.RECIPROCAL(exp_node(-x) + 1.0), x)


def softplus_node(x: UOp) -> UOp:
    """Return log(1 + e^x), without overflow."""
    return stated("softplus", x.maximum(0.0) + log1p_node(exp_node(-magnitude(x))), x)


def _sinh(x: UOp) -> UOp:
    """Return the hyperbolic sine, within 6 ulp; large values by two factors e^(|x|/2)."""
    absolute = magnitude(x)
    below = expm1_node(x)
    near = (below + below / (below + 1.0)) * 0.5
    half = exp_node(absolute * 0.5)
    far = half * 0.5 * half - x.lift(0.5) / half / half
    return stated("sinh", select(absolute < 1.0, near, x < 0.0, -far, far), x)


@pullback("sinh", "g · cosh(x)")
def _pull_sinh(g: UOp, y: UOp, inputs: tuple[UOp]) -> list[UOp]:
    return [g * _cosh(inputs[0])]


@pullback("cosh", "g · sinh(x)")
def _pull_cosh(g: UOp, y: UOp, inputs: tuple[UOp]) -> list[UOp]:
    return [g * _sinh(inputs[0])]


def _cosh(x: UOp) -> UOp:
    """Return the hyperbolic cosine, within 6 ulp."""
    half = exp_node(magnitude(x) * 0.5)
    return stated("cosh", half * 0.5 * half + x.lift(0.5) / half / half, x)


def _asinh(x: UOp) -> UOp:
    """Return the inverse hyperbolic sine, within 6 ulp."""
    absolute = magnitude(x)
    large = absolute > _LARGE[x.dtype.bits]
    safe = large.where(1.0, absolute)
    squared = safe * safe
    near = log1p_node(safe + squared / (ops.SQRT(squared + 1.0) + 1.0))
    return stated("asinh", odd_function(x, large.where(log_node(absolute) + LN_2, near)), x)


_LARGE: Final = {32: 2.0**13, 64: 2.0**28}
"""Above this value of x, x² + 1 rounds to x²."""


def _acosh(x: UOp) -> UOp:
    """Return the inverse hyperbolic cosine, within 6 ulp; NaN below 1."""
    large = x > _LARGE[x.dtype.bits]
    over = large.where(1.0, x - 1.0)
    near = log1p_node(over + ops.SQRT(over * 2.0 + over * over))
    return stated("acosh", select(x < 1.0, x.lift(np.nan), large, log_node(x) + LN_2, near), x)


def _atanh(x: UOp) -> UOp:
    """Return the inverse hyperbolic tangent, within 6 ulp; infinite at ±1 and NaN beyond."""
    absolute = magnitude(x)
    half = log1p_node(absolute * 2.0 / (x.lift(1.0) - absolute)) * 0.5
    return stated("atanh", odd_function(x, half), x)


def _logaddexp(a: UOp, b: UOp) -> UOp:
    """Return log(e^a + e^b), without overflow."""
    tail = log1p_node(exp_node(-magnitude(a - b)))
    return stated("logaddexp", a.eq(b).where(a + LN_2, a.maximum(b) + tail), a, b)


# -- functions -------------------------------------------------------------------------------------


@method
def exp(x: Any) -> Tensor:
    """Return e to the power x.

    >>> porism.exp([0.0, 1.0]).tolist()
    [1.0, 2.718281...]
    """
    return Tensor(in_f32(exp_node, float_node(x)))


@method
def exp2(x: Any) -> Tensor:
    """Return 2 to the power x.

    >>> porism.exp2([0, 3, -1]).tolist()
    [1.0, 8.0, 0.5]
    """
    return Tensor(ops.EXP2(float_node(x)))


@method
def expm1(x: Any) -> Tensor:
    """Return e^x - 1, without loss of precision near 0.

    >>> porism.expm1([0.0, 1.0]).tolist()
    [0.0, 1.718281...]
    """
    return Tensor(in_f32(expm1_node, float_node(x)))


@method
def log(x: Any) -> Tensor:
    """Return the natural logarithm of x; -inf of 0, NaN of negative numbers.

    >>> porism.log([1.0, 0.0]).tolist()
    [0.0, -inf]
    """
    return Tensor(in_f32(log_node, float_node(x)))


@method
def log2(x: Any) -> Tensor:
    """Return the logarithm of x to base 2; -inf of 0, NaN of negative numbers.

    >>> porism.log2([1, 8]).tolist()
    [0.0, 3.0]
    """
    return Tensor(ops.LOG2(float_node(x)))


@method
def log10(x: Any) -> Tensor:
    """Return the logarithm of x to base 10; -inf of 0, NaN of negative numbers.

    >>> porism.log10([1.0, 1000.0]).tolist()
    [0.0, 3.0]
    """
    return Tensor(in_f32(lambda node: ops.LOG2(node) * LOG10_2, float_node(x)))


@method
def log1p(x: Any) -> Tensor:
    """Return log(1 + x), without loss of precision near 0.

    >>> porism.log1p([0.0, 1.0]).tolist()
    [0.0, 0.693147...]
    """
    return Tensor(in_f32(log1p_node, float_node(x)))


@method
def logaddexp(x1: Any, x2: Any) -> Tensor:
    """Return log(e^x1 + e^x2), without overflow.

    >>> porism.logaddexp(1000.0, 1000.0).item()
    1000.693176...
    """
    return Tensor(in_f32(_logaddexp, *float_pair(x1, x2)))


@method
def sinh(x: Any) -> Tensor:
    """Return the hyperbolic sine of x.

    >>> porism.sinh([0.0, 1.0]).tolist()
    [0.0, 1.175201...]
    """
    return Tensor(in_f32(_sinh, float_node(x)))


@method
def cosh(x: Any) -> Tensor:
    """Return the hyperbolic cosine of x.

    >>> porism.cosh([0.0, 1.0]).tolist()
    [1.0, 1.543080...]
    """
    return Tensor(in_f32(_cosh, float_node(x)))


@method
def tanh(x: Any) -> Tensor:
    """Return the hyperbolic tangent of x.

    >>> porism.tanh([0.0, 1.0]).tolist()
    [0.0, 0.761594...]
    """
    return Tensor(in_f32(tanh_node, float_node(x)))


@method
def asinh(x: Any) -> Tensor:
    """Return the inverse hyperbolic sine of x.

    >>> porism.asinh([0.0, 1.0]).tolist()
    [0.0, 0.881373...]
    """
    return Tensor(in_f32(_asinh, float_node(x)))


@method
def acosh(x: Any) -> Tensor:
    """Return the inverse hyperbolic cosine of x; NaN below 1.

    >>> porism.acosh([1.0, 2.0]).tolist()
    [0.0, 1.316957...]
    """
    return Tensor(in_f32(_acosh, float_node(x)))


@method
def atanh(x: Any) -> Tensor:
    """Return the inverse hyperbolic tangent of x; infinite at ±1 and NaN beyond.

    >>> porism.atanh([0.0, 0.5]).tolist()
    [0.0, 0.549306...]
    """
    return Tensor(in_f32(_atanh, float_node(x)))
