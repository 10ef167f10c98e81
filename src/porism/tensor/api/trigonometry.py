"""Trigonometry: sine, cosine, tangent and their inverses; all angles are in radians.

They are built on the op SIN; the inverse functions are polynomials. Errors are stated in units in
the last place (ulp), as in `porism.tensor.api.exponentials`.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from porism.gradient.stated_pullbacks import pullback, stated
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor.api.exponentials import odd_function
from porism.tensor.api.operands import float_node, float_pair
from porism.tensor.float_formulas import (
    in_f32,
    is_infinite,
    magnitude,
    polynomial,
    select,
    with_sign,
)
from porism.tensor.tensor import Tensor, method

_PI: Final = {
    32: (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15),
    64: (math.pi, 1.2246467991473532e-16, -2.9947698097183397e-33),
}
"""Pi as a sum of three floats of the given width, for Cody-Waite range reduction."""

_REDUCIBLE: Final = {32: 2.0**15, 64: 2.0**30}
"""Largest |x| for which subtracting a multiple of pi is exact enough."""

# atan x = x + x³·P(x²) up to tan(pi/8); coefficients from interpolation at Chebyshev nodes.
_ATAN: Final = {
    32: (
        -0.06451927870512009,
        0.10743731260299683,
        -0.14263956248760223,
        0.19999539852142334,
        -0.3333333134651184,
    ),
    64: (
        -0.013928307301862246,
        0.030647031816547966,
        -0.0410498768293085,
        0.0471954728965486,
        -0.052580677874063037,
        0.058819281741798256,
        -0.06666642230235341,
        0.07692306745435773,
        -0.09090909067248906,
        0.1111111111075707,
        -0.14285714285711498,
        0.1999999999999999,
        -0.3333333333333333,
    ),
}


# -- formulas on nodes -----------------------------------------------------------------------------


def sin_node(x: UOp) -> UOp:
    """Return the sine."""
    return stated("sin", ops.SIN(x), x)


@pullback("sin", "g · cos(x)")
def _pull_sin(g: UOp, y: UOp, inputs: tuple[UOp]) -> list[UOp]:
    return [g * cos_node(inputs[0])]


@pullback("cos", "-g · sin(x)")
def _pull_cos(g: UOp, y: UOp, inputs: tuple[UOp]) -> list[UOp]:
    return [-g * sin_node(inputs[0])]


def cos_node(x: UOp) -> UOp:
    """Return the cosine, within 2 ulp where |x| is at most 2^15 (2^30 in f64).

    It is ±sin(x - (n + 1/2)·pi) with the n that makes the angle small. Beyond that limit the
    reduced angle would be inexact, and the result is 1 - 2·sin²(x/2), whose absolute error is a few
    ulp of 1.
    """
    steps = ops.FLOOR(x * (1 / math.pi)) + 0.5
    angle = x
    for part in _PI[x.dtype.bits]:
        angle = ops.MULACC(steps, x.lift(-part), angle)
    large = magnitude(x) > _REDUCIBLE[x.dtype.bits]
    sine = ops.SIN(large.where(x * 0.5, angle))
    half = steps * 0.5  # n/2 + 1/4: its fractional part is below 1/2 if n is even
    even = (half - ops.FLOOR(half)) < 0.5
    far = x.lift(1.0) - sine * sine * 2.0
    return stated("cos", large.where(far, even.where(-sine, sine)), x)


def atan_node(x: UOp) -> UOp:
    """Return the angle whose tangent is x, within 3 ulp."""
    absolute = magnitude(x)
    inverse = absolute > 1.0
    part = inverse.where(ops.RECIPROCAL(absolute), absolute)
    steep = part > math.tan(math.pi / 8)
    small = steep.where((part - 1.0) / (part + 1.0), part)
    squared = small * small
    angle = ops.MULACC(small * squared, polynomial(squared, _ATAN[x.dtype.bits]), small)
    angle = steep.where(angle + math.pi / 4, angle)
    angle = inverse.where(x.lift(math.pi / 2) - angle, angle)
    return stated("atan", odd_function(x, angle), x)


def _asin(x: UOp) -> UOp:
    """Return the angle whose sine is x, within 6 ulp; NaN beyond ±1."""
    cosine = ops.SQRT((x.lift(1.0) - x) * (x + 1.0))
    return stated("asin", atan_node(x / (cosine + 1.0)) * 2.0, x)


def _acos(x: UOp) -> UOp:
    """Return the angle whose cosine is x, within 6 ulp; NaN beyond ±1."""
    return stated("acos", atan_node(ops.SQRT((x.lift(1.0) - x) / (x + 1.0))) * 2.0, x)


def _atan2(y: UOp, x: UOp) -> UOp:
    """Return the angle of the point (x, y) in all four quadrants, within 5 ulp."""
    a, b = magnitude(y), magnitude(x)
    both_infinite = is_infinite(a) & is_infinite(b)
    ratio = select(both_infinite, a.lift(1.0), a.eq(0.0), a, a / b)
    angle = atan_node(ratio)
    negative_x = with_sign(x.lift(1.0), x) < 0.0
    angle = negative_x.where(x.lift(math.pi) - angle, angle)
    is_nan = y.ne(y) | x.ne(x)
    return stated("atan2", is_nan.where(x + y, with_sign(angle, y)), y, x)


def _hypot(a: UOp, b: UOp) -> UOp:
    """Return sqrt(a² + b²), within 3 ulp and without overflow; infinite if a or b is."""
    first, second = magnitude(a), magnitude(b)
    longer, shorter = first.maximum(second), first.minimum(second)
    ratio = shorter / longer
    length = longer * ops.SQRT(ops.MULACC(ratio, ratio, ratio.lift(1.0)))
    infinite = first.eq(np.inf) | second.eq(np.inf)
    value = select(infinite, a.lift(np.inf), longer.eq(0.0), longer, length)
    return stated("hypot", value, a, b)


# -- functions -------------------------------------------------------------------------------------


@method
def sin(x: Any) -> Tensor:
    """Return the sine of an angle in radians.

    >>> porism.sin([0.0, porism.pi / 2]).tolist()
    [0.0, 1.0]
    """
    return Tensor(in_f32(sin_node, float_node(x)))


@method
def cos(x: Any) -> Tensor:
    """Return the cosine of an angle in radians.

    >>> porism.cos([0.0, porism.pi]).tolist()
    [1.0, -1.0]
    """
    return Tensor(in_f32(cos_node, float_node(x)))


@method
def tan(x: Any) -> Tensor:
    """Return the tangent of an angle in radians.

    >>> porism.tan([0.0, 1.0]).tolist()
    [0.0, 1.557407...]
    """
    return Tensor(
        in_f32(lambda node: stated("tan", ops.SIN(node) / cos_node(node), node), float_node(x))
    )


@method
def asin(x: Any) -> Tensor:
    """Return the angle in radians, from -pi/2 to pi/2, whose sine is x; NaN beyond ±1.

    >>> porism.asin([0.0, 0.5]).tolist()
    [0.0, 0.523598...]
    """
    return Tensor(in_f32(_asin, float_node(x)))


@method
def acos(x: Any) -> Tensor:
    """Return the angle in radians, from 0 to pi, whose cosine is x; NaN beyond ±1.

    >>> porism.acos([1.0, 0.5]).tolist()
    [0.0, 1.047197...]
    """
    return Tensor(in_f32(_acos, float_node(x)))


@method
def atan(x: Any) -> Tensor:
    """Return the angle in radians, from -pi/2 to pi/2, whose tangent is x.

    >>> porism.atan([0.0, 1.0]).tolist()
    [0.0, 0.785398...]
    """
    return Tensor(in_f32(atan_node, float_node(x)))


@method
def atan2(x1: Any, x2: Any) -> Tensor:
    """Return the angle in radians, from -pi to pi, of the point with ordinate x1 and abscissa x2.

    >>> porism.atan2([1.0, 1.0], [1.0, -1.0]).tolist()
    [0.785398..., 2.356194...]
    """
    return Tensor(in_f32(_atan2, *float_pair(x1, x2)))


@method
def hypot(x1: Any, x2: Any) -> Tensor:
    """Return sqrt(x1² + x2²), without overflow.

    >>> porism.hypot([3.0, 6.0], [4.0, 8.0]).tolist()
    [5.0, 10.0]
    """
    return Tensor(in_f32(_hypot, *float_pair(x1, x2)))
