"""Wrapping integers: fixed-width integers as unbounded ones within the limits of their type.

With bit-vectors the solver decides few queries about products and divisions of wide types. Here a
value is an integer between the limits of its type, and an unknown multiple of 2**bits is subtracted
from a result that may exceed them. That describes the type exactly, so a proof is valid for it.
Bitwise ops are left to `porism.prove.arithmetic.bit_vectors`.
"""

from __future__ import annotations

from typing import Any, Final

import z3

from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.ops import Op
from porism.prove.arithmetic.op_meanings import DIVISIONS, Arithmetic, Value, no_meaning
from porism.prove.arithmetic.solver_booleans import Booleans, Symbolic
from porism.prove.arithmetic.unbounded_integers import Integers

_WRAPS: Final = frozenset({ops.NEG, ops.NOT, ops.ADD, ops.SUB, ops.MUL, ops.MULACC})
_NEVER_WRAPS: Final = frozenset(
    {ops.MAX, ops.MIN, ops.WHERE, ops.TRUNC, ops.FLOOR, ops.CEIL, ops.ROUND}
)


class WrappingIntegers(Symbolic):
    """A fixed-width integer type."""

    exact_on_numbers = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.NOT})

    def __init__(self, dtype: DType) -> None:
        super().__init__(dtype)
        self._numbers = Integers(dtype.name)
        # one list, so that the constraints of divisions are known wherever their results are used
        self.constraints = self._numbers.constraints
        self._holes: dict[str, Value] = {}
        self._multiples = 0

    @property
    def sort(self) -> Any:
        return z3.IntSort()

    @property
    def faithful(self) -> bool:  # type: ignore[override]
        return self._numbers.faithful

    @property
    def numbers(self) -> Arithmetic:
        return self._numbers

    def hole(self, name: str) -> Value:
        unknown = self._holes.get(name)
        if unknown is None:
            unknown = self._holes[name] = self._inside(z3.Int(name))
        return unknown

    def _inside(self, value: Value) -> Value:
        """Return a value after stating that it lies within the limits of the type."""
        self.constraints += [value >= int(self.dtype.min), value <= int(self.dtype.max)]
        return value

    def literal(self, value: bool | int | float) -> Value:
        return z3.IntVal(int(self.dtype.canonical(int(value))))

    def from_number(self, number: Value) -> Value:
        known = z3.simplify(number)
        if z3.is_int_value(known):
            return self.literal(known.as_long())
        multiple = z3.Int(f"multiple {self._multiples} of {self.dtype}")
        self._multiples += 1
        return self._inside(number - multiple * (1 << self.dtype.bits))

    def apply(self, op: Op, *operands: Value) -> Value:
        if op in DIVISIONS:
            return self._divided(op, *operands)
        if op in _NEVER_WRAPS or op.group is ops.COMPARISON:
            return self._numbers.apply(op, *operands)
        if op in _WRAPS:
            return self.from_number(self._numbers.apply(op, *operands))
        raise no_meaning(op, "wrapped integers")

    def _divided(self, op: Op, a: Value, b: Value) -> Value:
        """Return a quotient or remainder: 0 for divisor 0; only least // -1 wraps."""
        result = self._numbers.apply(op, a, b)
        if op in (ops.IDIV, ops.CDIV) and self.dtype.kind is Kind.SIGNED:
            least = int(self.dtype.min)
            result = z3.If(z3.And(a == least, b == -1), least, result)
        return z3.If(b == 0, 0, result)

    def limit(self, value: Value, *, lower: bool) -> Value:
        return z3.IntVal(int(self.dtype.min if lower else self.dtype.max))

    def cast(self, value: Value, source: Arithmetic) -> Value:
        if isinstance(source, Booleans):
            return z3.If(value, 1, 0)
        if isinstance(source, WrappingIntegers | Integers):
            return self.from_number(value)
        return super().cast(value, source)
