"""Python constants: how Python computes with constants of bounded types, as solver formulas.

`WideIntegers` are bit-vectors that are widened whenever a result might not fit, so nothing wraps.
`Doubles` are Python's floats.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import z3

from porism.ir import ops
from porism.ir.ops import Op
from porism.prove.arithmetic.op_meanings import (
    COMPARISONS,
    LARGEST_SHIFT,
    RING,
    Arithmetic,
    Truth,
    Unsupported,
    Value,
    no_meaning,
)

WIDEST = 512
"""Bits of the longest word that the solver is asked about; chosen by hand."""


class WideIntegers(Arithmetic):
    """Integers as signed words that are always long enough."""

    def truth(self, value: bool) -> Truth:
        return z3.BoolVal(value)

    def hole(self, name: str) -> Value:
        raise AssertionError("constants are unknowns of their own type")

    def literal(self, value: bool | int | float) -> Value:
        if int(value) != value:
            raise Unsupported(f"the number {value} among integers")
        return z3.BitVecVal(int(value), int(value).bit_length() + 1)

    def same(self, a: Value, b: Value) -> Truth:
        return self.apply(ops.EQ, a, b)

    def apply(self, op: Op, *operands: Value) -> Value:
        if len(operands) == 1:
            value = longer(operands[0], operands[0].size() + 1)
            if op is ops.NEG:
                return -value
            if op is ops.NOT:
                return ~value
            raise no_meaning(op, "constants")
        a, b = operands
        if op in (ops.SHL, ops.SHR):
            return _shifted(op, a, b)
        bits = a.size() + b.size() if op is ops.MUL else max(a.size(), b.size()) + 1
        a, b = longer(a, bits), longer(b, bits)
        if op in _WORD_OPS:
            return _WORD_OPS[op](a, b)
        raise no_meaning(op, "constants")


def longer(value: Value, bits: int) -> Value:
    """Return a signed word, sign-extended to at least so many bits."""
    if bits > WIDEST:
        raise Unsupported(f"constants of {bits} bits")
    return z3.SignExt(bits - value.size(), value) if bits > value.size() else value


def floor_quotient(a: Value, b: Value) -> Value:
    """Return the quotient of signed words rounded down; z3's own rounds towards zero."""
    uneven = z3.SRem(a, b) != 0
    return z3.If(uneven & ((a < 0) != (b < 0)), a / b - 1, a / b)


_WORD_OPS: Final[Mapping[Op, Callable[..., Value]]] = {
    **RING,
    **COMPARISONS,
    ops.IDIV: floor_quotient,
    ops.MOD: operator.mod,  # z3's smod: the sign of the divisor
    ops.MAX: lambda a, b: z3.If(b > a, b, a),
    ops.MIN: lambda a, b: z3.If(b < a, b, a),
    ops.AND: operator.and_,
    ops.OR: operator.or_,
    ops.XOR: operator.xor,
}
"""Ops on signed words that are long enough for the result."""


def _shifted(op: Op, a: Value, amount: Value) -> Value:
    """Return a word shifted by an amount that a guard keeps in range, without overflow."""
    if op is ops.SHR:
        bits = max(a.size(), amount.size()) + 1
        return longer(a, bits) >> longer(amount, bits)
    most = min(1 << (amount.size() - 1), LARGEST_SHIFT)
    bits = max(a.size() + most, amount.size() + 1)
    return longer(a, bits) << longer(amount, bits)


class Doubles(Arithmetic):
    """Python's floats."""

    def truth(self, value: bool) -> Truth:
        return z3.BoolVal(value)

    def hole(self, name: str) -> Value:
        raise AssertionError("constants are unknowns of their own type")

    def literal(self, value: bool | int | float) -> Value:
        return z3.FPVal(float(value), z3.Float64())

    def same(self, a: Value, b: Value) -> Truth:
        return a == b

    def apply(self, op: Op, *operands: Value) -> Value:
        if op is ops.NEG:
            return z3.fpNeg(operands[0])
        mode = z3.RNE()
        a, b = operands[0], operands[-1]
        functions: dict[Op, Any] = {
            ops.ADD: lambda: z3.fpAdd(mode, a, b),
            ops.SUB: lambda: z3.fpSub(mode, a, b),
            ops.MUL: lambda: z3.fpMul(mode, a, b),
            ops.MAX: lambda: z3.If(z3.fpGT(b, a), b, a),  # Python's max and min, NaN and all
            ops.MIN: lambda: z3.If(z3.fpLT(b, a), b, a),
            ops.EQ: lambda: z3.fpEQ(a, b),
            ops.NE: lambda: z3.fpNEQ(a, b),
            ops.LT: lambda: z3.fpLT(a, b),
            ops.LE: lambda: z3.fpLEQ(a, b),
            ops.GT: lambda: z3.fpGT(a, b),
            ops.GE: lambda: z3.fpGEQ(a, b),
        }
        if op not in functions:
            raise no_meaning(op, "float constants")
        return functions[op]()
