"""Floats: IEEE 754 as formulas. Any NaN is the same as any other; the two zeros are not."""

from __future__ import annotations

from typing import Any, Final

import z3

from porism.base import dtypes
from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.ops import Op
from porism.prove.arithmetic.op_meanings import Arithmetic, Truth, Unsupported, Value
from porism.prove.arithmetic.python_constants import Doubles
from porism.prove.arithmetic.solver_booleans import Booleans, Symbolic

_SORTS: Final = {
    dtypes.f16: z3.Float16,
    dtypes.f32: z3.Float32,
    dtypes.f64: z3.Float64,
    dtypes.bf16: lambda: z3.FPSort(8, 8),
}


class Floats(Symbolic):
    """A float type."""

    def __init__(self, dtype: DType) -> None:
        super().__init__(dtype)
        if dtype not in _SORTS:
            raise Unsupported(f"floats of type {dtype}")
        self._sort = _SORTS[dtype]()
        self._numbers = Doubles()
        self.choices: list[Truth] = []  # which of two zeros a max or min gave

    @property
    def sort(self) -> Any:
        return self._sort

    @property
    def numbers(self) -> Arithmetic:
        return self._numbers

    def exactly(self, value: Value) -> Value:
        return z3.fpToFP(z3.RNE(), value, z3.Float64())

    def rounded(self, number: Value) -> Value:
        return z3.fpToFP(z3.RNE(), number, self._sort)

    def hole(self, name: str) -> Value:
        return z3.FP(name, self._sort)

    def literal(self, value: bool | int | float) -> Value:
        return z3.simplify(self.rounded(z3.FPVal(float(value), z3.Float64())))

    def apply(self, op: Op, *operands: Value) -> Value:
        mode = z3.RNE()
        match op, operands:
            case ops.NEG, (a,):
                return z3.fpNeg(a)
            case ops.SQRT, (a,):
                return z3.fpSqrt(mode, a)
            case ops.RECIPROCAL, (a,):
                return z3.fpDiv(mode, self.literal(1), a)
            case ops.TRUNC, (a,):
                return z3.fpRoundToIntegral(z3.RTZ(), a)
            case ops.FLOOR, (a,):
                return z3.fpRoundToIntegral(z3.RTN(), a)
            case ops.CEIL, (a,):
                return z3.fpRoundToIntegral(z3.RTP(), a)
            case ops.ROUND, (a,):
                return z3.fpRoundToIntegral(z3.RNE(), a)
            case ops.ADD, (a, b):
                return z3.fpAdd(mode, a, b)
            case ops.SUB, (a, b):
                return z3.fpSub(mode, a, b)
            case ops.MUL, (a, b):
                return z3.fpMul(mode, a, b)
            case ops.FDIV, (a, b):
                return z3.fpDiv(mode, a, b)
            case ops.MAX, (a, b):
                return self._extreme(a, b, z3.fpGT(a, b))
            case ops.MIN, (a, b):
                return self._extreme(a, b, z3.fpLT(a, b))
            case ops.WHERE, (condition, a, b):
                return z3.If(condition, a, b)
            case ops.MULACC, (a, b, c):
                return z3.fpFMA(mode, a, b, c)
            case ops.POW, (a, b) if z3.is_true(z3.simplify(z3.fpIsZero(b))):
                return self.literal(1)  # also of NaN: IEEE 754, 9.2.1
            case ops.POW, (a, b) if z3.is_true(z3.simplify(z3.fpEQ(b, self.literal(1)))):
                return a
            case ops.EQ, (a, b):
                return z3.fpEQ(a, b)
            case ops.NE, (a, b):
                return z3.fpNEQ(a, b)
            case ops.LT, (a, b):
                return z3.fpLT(a, b)
            case ops.LE, (a, b):
                return z3.fpLEQ(a, b)
            case ops.GT, (a, b):
                return z3.fpGT(a, b)
            case ops.GE, (a, b):
                return z3.fpGEQ(a, b)
        return self.unknown_function(op, *operands)

    def _extreme(self, a: Value, b: Value, first: Truth) -> Value:
        """Return a max or min: NaN if either operand is; of two zeros either one."""
        choice = z3.Bool(f"choice {len(self.choices)} of {self.dtype}")
        self.choices.append(choice)
        first = z3.If(z3.And(z3.fpIsZero(a), z3.fpIsZero(b)), choice, first)
        no_number = z3.Or(z3.fpIsNaN(a), z3.fpIsNaN(b))
        return z3.If(no_number, z3.fpNaN(self._sort), z3.If(first, a, b))

    def bound(self, name: str, value: Value, known: Truth, *, lower: bool) -> Value:
        """Return a bound of a value, which says nothing of NaN."""
        return super().bound(name, value, z3.And(known, z3.Not(z3.fpIsNaN(value))), lower=lower)

    def limit(self, value: Value, *, lower: bool) -> Value:
        return self._numbers.literal(self.dtype.min if lower else self.dtype.max)

    def cast(self, value: Value, source: Arithmetic) -> Value:
        if isinstance(source, Booleans):
            return z3.If(value, self.literal(1), self.literal(0))
        if isinstance(source, Floats):
            return z3.fpToFP(z3.RNE(), value, self._sort)
        if z3.is_bv(value) and source.dtype is not None:
            signed = source.dtype.kind is Kind.SIGNED
            convert = z3.fpSignedToFP if signed else z3.fpUnsignedToFP
            return convert(z3.RNE(), value, self._sort)
        return super().cast(value, source)
