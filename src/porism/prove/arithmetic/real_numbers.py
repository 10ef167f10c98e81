"""Real numbers: floats without rounding, on which rules of fast math are proved.

There is one zero, and no infinity and no NaN. An op that gives one of these on floats, such as a
division by zero, is undefined.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import z3

from porism.ir import ops
from porism.ir.ops import Op
from porism.prove.arithmetic.op_meanings import COMPARISONS, Truth, Unsupported, Value
from porism.prove.arithmetic.solver_booleans import Symbolic


class Reals(Symbolic):
    """Real numbers, in place of a float type."""

    @property
    def sort(self) -> Any:
        return z3.RealSort()

    def hole(self, name: str) -> Value:
        return z3.Real(name)

    def literal(self, value: bool | int | float) -> Value:
        if not math.isfinite(value):
            raise Unsupported(f"{value} among real numbers")
        exact = Fraction(value)
        return z3.Q(exact.numerator, exact.denominator)

    def defined(self, op: Op, *operands: Value) -> Truth:
        match op, operands:
            case ops.FDIV, (_, b):
                return b != 0
            case ops.RECIPROCAL, (a,):
                return a != 0
            case ops.SQRT, (a,):
                return a >= 0
        return self.truth(True)

    def apply(self, op: Op, *operands: Value) -> Value:
        match op, operands:
            case ops.NEG, (a,):
                return -a
            case ops.RECIPROCAL, (a,):
                return 1 / a
            case ops.ADD, (a, b):
                return a + b
            case ops.SUB, (a, b):
                return a - b
            case ops.MUL, (a, b):
                return a * b
            case ops.FDIV, (a, b):
                return a / b
            case ops.MAX, (a, b):
                return z3.If(a > b, a, b)
            case ops.MIN, (a, b):
                return z3.If(a < b, a, b)
            case ops.WHERE, (condition, a, b):
                return z3.If(condition, a, b)
            case ops.MULACC, (a, b, c):
                return a * b + c
        if op in COMPARISONS:
            return COMPARISONS[op](*operands)
        return self.unknown_function(op, *operands)
