"""Wrapped: fixed-width integers as unbounded ones that stay within the limits of their type.

The solver answers few questions about products and divisions of long words, bit by bit. Here a
word is an integer between the limits of its type, and a result that may leave them has an unknown
multiple of 2**bits taken away. What is stated is all there is to say of a word, so a proof is one
for the width, whatever the width is. Bits are left to `porism.prove.arithmetic.bit_vectors`.
"""

from __future__ import annotations

from typing import Any, Final

import z3

from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.ops import Op
from porism.prove.arithmetic.op_meanings import DIVISIONS, Arithmetic, Value, no_meaning
from porism.prove.arithmetic.solver_booleans import Symbolic, Truths
from porism.prove.arithmetic.unbounded_integers import Integers

_WRAPS: Final = frozenset({ops.NEG, ops.NOT, ops.ADD, ops.SUB, ops.MUL, ops.MULACC})
_STAYS: Final = frozenset({ops.MAX, ops.MIN, ops.WHERE, ops.TRUNC, ops.FLOOR, ops.CEIL, ops.ROUND})


class Wrapped(Symbolic):
    """A fixed-width integer type."""

    keeps = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.NOT})

    def __init__(self, dtype: DType) -> None:
        super().__init__(dtype)
        self._numbers = Integers(dtype.name)
        # one list, so that what divisions state is known wherever their results are
        self.statements = self._numbers.statements
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
        found = self._holes.get(name)
        if found is None:
            found = self._holes[name] = self._inside(z3.Int(name))
        return found

    def _inside(self, value: Value) -> Value:
        """The value, of which is stated that it lies within the limits of the type."""
        self.statements += [value >= int(self.dtype.min), value <= int(self.dtype.max)]
        return value

    def literal(self, value: bool | int | float) -> Value:
        return z3.IntVal(int(self.dtype.canonical(int(value))))

    def rounded(self, number: Value) -> Value:
        known = z3.simplify(number)
        if z3.is_int_value(known):
            return self.literal(known.as_long())
        multiple = z3.Int(f"multiple {self._multiples} of {self.dtype}")
        self._multiples += 1
        return self._inside(number - multiple * (1 << self.dtype.bits))

    def apply(self, op: Op, *operands: Value) -> Value:
        if op in DIVISIONS:
            return self._divided(op, *operands)
        if op in _STAYS or op.group is ops.COMPARISON:
            return self._numbers.apply(op, *operands)
        if op in _WRAPS:
            return self.rounded(self._numbers.apply(op, *operands))
        raise no_meaning(op, "wrapped integers")

    def _divided(self, op: Op, a: Value, b: Value) -> Value:
        """A division: 0 by zero; of all quotients only that of the least value by -1 wraps."""
        result = self._numbers.apply(op, a, b)
        if op in (ops.IDIV, ops.CDIV) and self.dtype.kind is Kind.SIGNED:
            least = int(self.dtype.min)
            result = z3.If(z3.And(a == least, b == -1), least, result)
        return z3.If(b == 0, 0, result)

    def limit(self, value: Value, *, lower: bool) -> Value:
        return z3.IntVal(int(self.dtype.min if lower else self.dtype.max))

    def cast(self, value: Value, source: Arithmetic) -> Value:
        if isinstance(source, Truths):
            return z3.If(value, 1, 0)
        if isinstance(source, Wrapped | Integers):
            return self.rounded(value)
        return super().cast(value, source)
