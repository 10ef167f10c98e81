"""Error functions: the complement of erf, and the inverse of erf."""

from __future__ import annotations

import math
from typing import Any, Final

from porism.gradient.stated_pullbacks import stated
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor.api.exponentials import exp_node, log1p_node
from porism.tensor.api.operands import float_node
from porism.tensor.float_formulas import BITS_OF, in_f32, magnitude, polynomial, select, with_sign
from porism.tensor.network.activations import erf_node
from porism.tensor.tensor import Tensor, method

_ERFC: Final = {
    32: (
        -6.75137733896641e-06,
        2.2577891624552017e-05,
        8.887825679693029e-05,
        -0.00016920326064163454,
        -0.001009694561764489,
        -0.00041086091772635154,
        0.008942033506395134,
        0.039844125596778676,
        0.1034891192634025,
        0.19674265533491886,
        0.2944648172805376,
        0.35800230416939344,
    ),
    64: (
        -2.8159509281076503e-10,
        3.719707966416795e-12,
        2.9626149638389826e-09,
        -1.1971203723870318e-09,
        -1.7222715872994848e-08,
        1.667106728097079e-08,
        7.818223334208088e-08,
        -1.3725325306312533e-07,
        -3.3314597870270045e-07,
        9.226037418424269e-07,
        1.5831303440440469e-06,
        -5.823868584100777e-06,
        -1.0132730174040267e-05,
        3.585392750000691e-05,
        9.225928273365532e-05,
        -0.00018276991508258444,
        -0.0010113540003986608,
        -0.0004041388738382599,
        0.008942411541493538,
        0.03984258709565953,
        0.1034890873001889,
        0.1967427857013695,
        0.2944648177232945,
        0.3580023023627799,
    ),
}
"""Coefficients of erfc(x)·e^(x²)/t in 2t - 1, where t = 3 / (3 + x), for x from 0 on.

From interpolation at Chebyshev nodes in higher precision; their relative error is below 1e-8 for 32
bits, and below 3e-17 for 64.
"""

_LOW_BITS: Final = {32: 12, 64: 27}
"""Bits of the significand that are cleared, so that the square of the rest is exact."""


def _exp_of_minus_square(x: UOp) -> UOp:
    """Return e^(-x²) with the relative error of exp alone: the square is taken in two parts."""
    kind = BITS_OF[x.dtype]
    mask = (1 << x.dtype.bits) - (1 << _LOW_BITS[x.dtype.bits])
    high = (x.bitcast(kind) & mask).bitcast(x.dtype)
    return exp_node(-(high * high)) * exp_node((high - x) * (high + x))


def erfc_node(x: UOp) -> UOp:
    """Return 1 - erf(x), also where erf is near 1."""
    absolute = magnitude(x).minimum(30.0)  # erfc is 0 in every type from there on
    t = x.lift(3.0) / (absolute + 3.0)
    tail = t * polynomial(t * 2.0 - 1.0, _ERFC[x.dtype.bits]) * _exp_of_minus_square(absolute)
    return stated("erfc", select(x.ne(x), x, x < 0.0, x.lift(2.0) - tail, tail), x)


@method
def erfc(x: Any) -> Tensor:
    """Return the complementary error function 1 - erf(x), also where erf is near 1.

    >>> porism.erfc([0.0, 5.0]).tolist()
    [1.0, 1.537459...e-12]
    """
    return Tensor(in_f32(erfc_node, float_node(x)))


def _erfinv(y: UOp) -> UOp:
    """Return the inverse of erf: a rough formula, and steps of Halley's method."""
    absolute = magnitude(y)
    log = log1p_node(-(absolute * absolute))
    # Winitzki's approximation, within 0.2 %.
    a = 0.147
    half = log * 0.5 + 2 / (math.pi * a)
    rough = ops.SQRT((ops.SQRT(half * half - log * (1 / a)) - half).maximum(0.0))
    x = (absolute < 0.01).where(absolute * (math.sqrt(math.pi) / 2), rough)
    complement = y.lift(1.0) - absolute
    for _ in range(2 if y.dtype.bits > 32 else 1):
        near_one = absolute > 0.5
        distance = near_one.where(complement - erfc_node(x), erf_node(x) - absolute)
        step = distance * (math.sqrt(math.pi) / 2) / _exp_of_minus_square(x)
        x = x - step / (x * step + 1.0)
    result = select(absolute.eq(1.0), y.lift(math.inf), absolute > 1.0, y.lift(math.nan), x)
    return stated("erfinv", with_sign(result, y), y)


@method
def erfinv(x: Any) -> Tensor:
    """Return the number whose erf is x; infinite at ±1, and NaN beyond.

    >>> porism.erfinv([0.0, 0.5, 1.0]).tolist()
    [0.0, 0.476936..., inf]
    """
    return Tensor(in_f32(_erfinv, float_node(x)))
