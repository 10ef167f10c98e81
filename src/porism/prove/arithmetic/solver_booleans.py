"""Booleans as solver formulas, and the base class of all solver arithmetics."""

from __future__ import annotations

from typing import Any

import z3

from porism.base.dtypes import DType, boolean
from porism.ir import ops
from porism.ir.ops import Op
from porism.prove.arithmetic.op_meanings import Arithmetic, Truth, Value, no_meaning
from porism.prove.arithmetic.python_constants import WideIntegers


class Symbolic(Arithmetic):
    """An arithmetic whose values are solver formulas."""

    def __init__(self, dtype: DType) -> None:
        self.dtype: DType = dtype
        self.constraints: list[Truth] = []

    @property
    def sort(self) -> Any:
        """z3's sort of the values."""
        raise NotImplementedError

    def truth(self, value: bool) -> Truth:
        return z3.BoolVal(value)

    def same(self, a: Value, b: Value) -> Truth:
        return a == b

    def unknown_function(self, op: Op, *operands: Value) -> Value:
        """Return the op as an uninterpreted function of its operands."""
        self.faithful = False
        sorts = [operand.sort() for operand in operands]
        return z3.Function(f"{op.name.lower()} of {self.sort}", *sorts, self.sort)(*operands)

    def bound(self, name: str, value: Value, known: Truth, *, lower: bool) -> Value:
        limit = self.hole(name)
        order = ops.LE if lower else ops.GE
        self.state(known, self.apply(order, limit, value))
        return self.to_number(limit)

    def state(self, known: Truth, fact: Truth) -> None:
        """Add a constraint on an unknown, under the condition that a value is defined."""
        self.constraints.append(fact if z3.is_true(known) else z3.Implies(known, fact))


class Booleans(Symbolic):
    """Booleans, with False < True."""

    def __init__(self) -> None:
        super().__init__(boolean)
        self._numbers = WideIntegers()

    @property
    def sort(self) -> Any:
        return z3.BoolSort()

    @property
    def numbers(self) -> Arithmetic:
        return self._numbers

    def to_number(self, value: Value) -> Value:
        return z3.If(value, self._numbers.literal(1), self._numbers.literal(0))

    def from_number(self, number: Value) -> Value:
        return number != 0

    def hole(self, name: str) -> Value:
        return z3.Bool(name)

    def literal(self, value: bool | int | float) -> Value:
        return z3.BoolVal(value != 0)

    def apply(self, op: Op, *operands: Value) -> Value:
        if op is ops.NOT:
            return z3.Not(operands[0])
        if op is ops.WHERE:
            return z3.If(*operands)
        a, b = operands[0], operands[-1]
        match op:
            case ops.AND | ops.MIN:
                return z3.And(a, b)
            case ops.OR | ops.MAX:
                return z3.Or(a, b)
            case ops.XOR | ops.NE:
                return z3.Xor(a, b)
            case ops.EQ:
                return a == b
            case ops.LT:
                return z3.And(z3.Not(a), b)
            case ops.LE:
                return z3.Implies(a, b)
            case ops.GT:
                return z3.And(a, z3.Not(b))
            case ops.GE:
                return z3.Implies(b, a)
        raise no_meaning(op, "booleans")

    def limit(self, value: Value, *, lower: bool) -> Value:
        return self._numbers.literal(0 if lower else 1)

    def cast(self, value: Value, source: Arithmetic) -> Value:
        if isinstance(source, Booleans):
            return value
        if isinstance(source, Symbolic):
            return source.apply(ops.NE, value, source.literal(0))
        return super().cast(value, source)
