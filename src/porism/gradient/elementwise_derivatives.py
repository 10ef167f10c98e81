"""Elementwise derivatives: the table of the pullbacks of elementwise ops and functions, as terms.

g is the cotangent of the value y, and a, b, c are the operands. Where a function has no derivative,
the row says what its pullback is there: the conventions are those of PyTorch.

`OPS` has the ops of the graph. `FUNCTIONS` has functions that are computed by several ops, such as
polynomials, or whose pullback by the ops would overflow or follow another convention; a PULLBACK
node with that name states it (`porism.gradient.stated_pullbacks`).
"""

from __future__ import annotations

import math
from typing import Final

from porism.gradient.derivative_terms import (
    Derivative,
    a,
    b,
    c,
    condition,
    derivative,
    g,
    number,
    y,
)
from porism.ir import ops
from porism.ir.ops import Op
from porism.rewrite.terms import where

LN_2: Final = math.log(2)
ZERO: Final = number(0.0)
ONE: Final = number(1.0)
SIGMOID: Final = ops.PULLBACK(ops.RECIPROCAL(ops.EXP(-a) + ONE), a, arg=("sigmoid",))
"""The logistic function as a term, with its own stated derivative."""

# fmt: off
OPS: Final[dict[Op, Derivative]] = {
    ops.op(row.name): row
    for row in (
        derivative("NEG", -g),
        derivative("SQRT", g / (y * 2.0), convention="infinite at 0; NaN at 0 where g is 0"),
        derivative("EXP", g * y),
        derivative("EXP2", g * y * LN_2),
        derivative("EXPM1", g * (y + ONE)),
        derivative("TANH", g * (ONE - y * y)),
        derivative("LOG2", g / (a * LN_2)),
        derivative("SIN", g * ops.SIN(a + math.pi / 2)),
        derivative("RECIPROCAL", -g * y * y),
        derivative("TRUNC", None, convention="0, also at integers"),
        derivative("FLOOR", None, convention="0, also at integers"),
        derivative("CEIL", None, convention="0, also at integers"),
        derivative("ROUND", None, convention="0, also at halves"),
        derivative("ADD", g, g),
        derivative("SUB", g, -g),
        derivative("MUL", g * b, g * a),
        derivative("FDIV", g / b, -g * y / b),
        derivative("MAX",
                   where(a.eq(b), g * 0.5, where(a < b, ZERO, g)),
                   where(a.eq(b), g * 0.5, where(a > b, ZERO, g)),
                   convention="half to each operand where they are equal"),
        derivative("MIN",
                   where(a.eq(b), g * 0.5, where(a > b, ZERO, g)),
                   where(a.eq(b), g * 0.5, where(a < b, ZERO, g)),
                   convention="half to each operand where they are equal"),
        derivative("POW",
                   where(b.eq(ZERO), ZERO, g * b * ops.POW(a, b - ONE)),
                   where(a.eq(ZERO) & (b >= ZERO), ZERO, g * y * (ops.LOG2(a) * LN_2)),
                   convention="0 by the base where the exponent is 0; "
                              "0 by the exponent where the base is 0"),
        derivative("LDEXP", ops.LDEXP(g, b), None),
        derivative("WHERE", None, where(condition, g, ZERO), where(condition, ZERO, g),
                   convention="0 for the operand that is not chosen, whatever it is"),
        derivative("MULACC", g * b, g * a, g),
    )
}
"""The pullback of each elementwise op on floats."""

FUNCTIONS: Final[dict[str, Derivative]] = {
    row.name: row
    for row in (
        derivative("abs", where(a > ZERO, g, where(a < ZERO, -g, ZERO)), convention="0 at 0"),
        derivative("relu", where(a <= ZERO, ZERO, g), convention="0 at 0"),
        derivative("leaky_relu", where(a > ZERO, g, g * b), None,
                   convention="the negative slope at 0"),
        derivative("clip",
                   where((a >= b) & (a <= c), g, ZERO),
                   where((a < b) & (b < c), g, ZERO),
                   where((a > c) | (c < b), g, ZERO),
                   convention="1 at the bounds"),
        derivative("log", g / a),
        derivative("log1p", g / (a + ONE)),
        derivative("logaddexp", g * ops.EXP(a - y), g * ops.EXP(b - y)),
        derivative("sigmoid", g * y * (ONE - y)),
        derivative("softplus", g * SIGMOID),
        derivative("erf", g * ops.EXP(-a * a) * (2 / math.sqrt(math.pi))),
        derivative("erfc", -g * ops.EXP(-a * a) * (2 / math.sqrt(math.pi))),
        derivative("erfinv", g * ops.EXP(y * y) * (math.sqrt(math.pi) / 2)),
        derivative("cbrt", g / (y * y * 3.0), convention="infinite at 0"),
        derivative("xlogy",
                   where(a.eq(ZERO) & (b <= ZERO), ZERO, g * (ops.LOG2(b) * LN_2)),
                   g * a / b,
                   convention="0 by the factor where it is 0 and b is not positive"),
        derivative("asinh", g / ops.SQRT(a * a + ONE)),
        derivative("acosh", g / ops.SQRT(a * a - ONE)),
        derivative("atanh", g / (ONE - a * a)),
        derivative("tan", g * (y * y + ONE)),
        derivative("asin", g / ops.SQRT((ONE - a) * (a + ONE))),
        derivative("acos", -g / ops.SQRT((ONE - a) * (a + ONE))),
        derivative("atan", g / (a * a + ONE)),
        derivative("atan2", g * b / (a * a + b * b), -g * a / (a * a + b * b),
                   convention="NaN at the origin"),
        derivative("hypot", g * (a / y), g * (b / y), convention="NaN at the origin"),
        derivative("copysign", where(a.eq(ZERO), ZERO, g * (y / a)), None, convention="0 at 0"),
        derivative("remainder", g, -g * ops.FLOOR(a / b), convention="as if no jump were there"),
    )
}
"""The pullback of functions that are made of several ops, by name."""
# fmt: on
