"""IEEE floats: IEEE 754 types as solver formulas; all NaNs are the same, the two zeros are not."""

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

_ROUNDED: Final = {
    ops.ADD: z3.fpAdd,
    ops.SUB: z3.fpSub,
    ops.MUL: z3.fpMul,
    ops.FDIV: z3.fpDiv,
    ops.SQRT: z3.fpSqrt,
    ops.MULACC: z3.fpFMA,
}
"""Ops whose exact result is rounded to nearest, ties to even."""

_TO_INTEGER: Final = {ops.TRUNC: z3.RTZ, ops.FLOOR: z3.RTN, ops.CEIL: z3.RTP, ops.ROUND: z3.RNE}
"""Ops that round to an integer, with their rounding modes."""

_COMPARISONS: Final = {
    ops.EQ: z3.fpEQ,
    ops.NE: z3.fpNEQ,
    ops.LT: z3.fpLT,
    ops.LE: z3.fpLEQ,
    ops.GT: z3.fpGT,
    ops.GE: z3.fpGEQ,
}


class Floats(Symbolic):
    """An IEEE 754 float type."""

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

    def to_number(self, value: Value) -> Value:
        return z3.fpToFP(z3.RNE(), value, z3.Float64())

    def from_number(self, number: Value) -> Value:
        return z3.fpToFP(z3.RNE(), number, self._sort)

    def hole(self, name: str) -> Value:
        return z3.FP(name, self._sort)

    def literal(self, value: bool | int | float) -> Value:
        return z3.simplify(self.from_number(z3.FPVal(float(value), z3.Float64())))

    def apply(self, op: Op, *operands: Value) -> Value:
        mode = z3.RNE()
        if op in _ROUNDED:
            return _ROUNDED[op](mode, *operands)
        if op in _TO_INTEGER:
            return z3.fpRoundToIntegral(_TO_INTEGER[op](), *operands)
        if op in _COMPARISONS:
            return _COMPARISONS[op](*operands)
        match op, operands:
            case ops.NEG, (a,):
                return z3.fpNeg(a)
            case ops.RECIPROCAL, (a,):
                return z3.fpDiv(mode, self.literal(1), a)
            case ops.MAX, (a, b):
                return self._extreme(a, b, z3.fpGT(a, b))
            case ops.MIN, (a, b):
                return self._extreme(a, b, z3.fpLT(a, b))
            case ops.WHERE, (condition, a, b):
                return z3.If(condition, a, b)
            case ops.POW, (a, b) if z3.is_true(z3.simplify(z3.fpIsZero(b))):
                return self.literal(1)  # also of NaN: IEEE 754, 9.2.1
            case ops.POW, (a, b) if z3.is_true(z3.simplify(z3.fpEQ(b, self.literal(1)))):
                return a
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
