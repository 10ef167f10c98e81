"""Bit-vectors: fixed-width integers as solver bit-vectors, which wrap; division by 0 gives 0."""

from __future__ import annotations

import operator
from typing import Any, Final

import z3

from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.ops import Op
from porism.prove.arithmetic.ieee_floats import Floats
from porism.prove.arithmetic.op_meanings import (
    LARGEST_EXPONENT,
    RING,
    Arithmetic,
    Truth,
    Value,
    no_meaning,
    product,
)
from porism.prove.arithmetic.python_constants import WideIntegers, floor_quotient, longer
from porism.prove.arithmetic.solver_booleans import Booleans, Symbolic

_UNINTERPRETED: Final = frozenset({ops.POW, ops.THREEFRY})
_OPERATORS: Final = {
    **RING,
    ops.AND: operator.and_,
    ops.OR: operator.or_,
    ops.XOR: operator.xor,
}
_ROUNDINGS: Final = frozenset({ops.TRUNC, ops.FLOOR, ops.CEIL, ops.ROUND})


class BitVectors(Symbolic):
    """A fixed-width integer type, or with `bits=1` one bit of an unbounded integer."""

    exact_on_numbers = frozenset(
        {ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.AND, ops.OR, ops.XOR, ops.NOT}
    )

    def __init__(self, dtype: DType, bits: int | None = None) -> None:
        super().__init__(dtype)
        self.bits = dtype.bits if bits is None else bits
        self.has_sign = dtype.kind is not Kind.UNSIGNED
        self._numbers = WideIntegers()

    @property
    def sort(self) -> Any:
        return z3.BitVecSort(self.bits)

    @property
    def numbers(self) -> Arithmetic:
        return self._numbers

    def to_number(self, value: Value) -> Value:
        return value if self.has_sign else z3.ZeroExt(1, value)

    def from_number(self, number: Value) -> Value:
        return z3.Extract(self.bits - 1, 0, longer(number, self.bits))

    def hole(self, name: str) -> Value:
        return z3.BitVec(name, self.bits)

    def literal(self, value: bool | int | float) -> Value:
        return z3.BitVecVal(int(value), self.bits)

    def apply(self, op: Op, *operands: Value) -> Value:
        if op in _OPERATORS:
            return _OPERATORS[op](*operands)
        match op, operands:
            case ops.NEG, (a,):
                return -a
            case ops.NOT, (a,):
                return ~a
            case ((ops.IDIV | ops.MOD | ops.CDIV | ops.CMOD), (a, b)):
                return z3.If(b == 0, self.literal(0), self._divided(op, a, b))
            # an amount out of range, taken as an unsigned number, shifts everything out
            case ops.SHL, (a, b):
                return a << b
            case ops.SHR, (a, b):
                return a >> b if self.has_sign else z3.LShR(a, b)
            case ops.MAX, (a, b):
                return z3.If(self._less(a, b), b, a)
            case ops.MIN, (a, b):
                return z3.If(self._less(a, b), a, b)
            case ops.WHERE, (condition, a, b):
                return z3.If(condition, a, b)
            case ops.MULACC, (a, b, c):
                return a * b + c
            case ops.POW, (a, b) if (exponent := _small(b)) is not None:
                return product([a] * exponent, self.literal(1))
        if op in _ROUNDINGS:
            return operands[0]
        if op in _UNINTERPRETED:
            return self.unknown_function(op, *operands)
        return self._compared(op, *operands)

    def _compared(self, op: Op, a: Value, b: Value) -> Truth:
        """Return a comparison, signed or unsigned like the type."""
        match op:
            case ops.EQ:
                return a == b
            case ops.NE:
                return a != b
            case ops.LT:
                return self._less(a, b)
            case ops.GT:
                return self._less(b, a)
            case ops.LE:
                return z3.Not(self._less(b, a))
            case ops.GE:
                return z3.Not(self._less(a, b))
        raise no_meaning(op, "words")

    def _less(self, a: Value, b: Value) -> Truth:
        return a < b if self.has_sign else z3.ULT(a, b)

    def _divided(self, op: Op, a: Value, b: Value) -> Value:
        """Return a quotient or remainder for a divisor that is not 0."""
        if not self.has_sign:
            return z3.UDiv(a, b) if op in (ops.IDIV, ops.CDIV) else z3.URem(a, b)
        match op:
            case ops.IDIV:
                return floor_quotient(a, b)
            case ops.MOD:
                return a % b  # z3's smod: the sign of the divisor
            case ops.CDIV:
                return a / b
        return z3.SRem(a, b)

    def _truncated(self, value: Value, source: Floats) -> Value:
        """Return a float rounded towards zero and saturated; NaN is 0."""
        value, limits = source.to_number(value), (self.dtype.min, int(self.dtype.max) + 1)
        low, end = (source.numbers.literal(n) for n in limits)  # powers of two, which doubles have
        convert = z3.fpToSBV if self.has_sign else z3.fpToUBV
        inside = convert(z3.RTZ(), value, self.sort)
        least, most = (self.literal(int(n)) for n in (self.dtype.min, self.dtype.max))
        known = z3.If(z3.fpLT(value, low), least, z3.If(z3.fpGEQ(value, end), most, inside))
        return z3.If(z3.fpIsNaN(value), self.literal(0), known)

    def limit(self, value: Value, *, lower: bool) -> Value:
        return self._numbers.literal(int(self.dtype.min if lower else self.dtype.max))

    def cast(self, value: Value, source: Arithmetic) -> Value:
        if isinstance(source, Booleans):
            return z3.If(value, self.literal(1), self.literal(0))
        if isinstance(source, BitVectors):
            return self.from_number(source.to_number(value))
        if isinstance(source, Floats):
            return self._truncated(value, source)
        return super().cast(value, source)


def _small(exponent: Value) -> int | None:
    """Return an exponent that is a small constant; None for any other."""
    known = z3.simplify(exponent)
    if not z3.is_bv_value(known) or known.as_long() > LARGEST_EXPONENT:
        return None
    return int(known.as_long())
