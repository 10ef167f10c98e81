"""Unbounded integers as solver formulas, with division axiomatized.

For a//b and a%b there is one unknown q, and the remainder is a - b*q, which lies between 0 and b.
z3 sees sums and products only; with its own div and mod it leaves many rules undecided.
"""

from __future__ import annotations

from typing import Any, Final

import z3

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.ops import Op
from porism.prove.arithmetic.op_meanings import (
    COMPARISONS,
    DIVISIONS,
    LARGEST_EXPONENT,
    LARGEST_SHIFT,
    RING,
    SHIFTS,
    Arithmetic,
    Truth,
    Value,
    no_meaning,
    product,
)
from porism.prove.arithmetic.solver_booleans import Booleans, Symbolic

_ROUNDINGS: Final = frozenset({ops.TRUNC, ops.FLOOR, ops.CEIL, ops.ROUND})


class Integers(Symbolic):
    """The arithmetic of `index`, whose integers are unbounded."""

    exact_on_numbers = frozenset(ops.table())

    def __init__(self, name: str = index.name) -> None:
        super().__init__(index)
        self._name = name  # of the type whose unknowns these are
        self._quotients: dict[tuple[bool, Value, Value], Value] = {}
        self._powers: dict[Value, Value] = {}

    @property
    def sort(self) -> Any:
        return z3.IntSort()

    def hole(self, name: str) -> Value:
        return z3.Int(name)

    def literal(self, value: bool | int | float) -> Value:
        return z3.IntVal(int(value))

    def apply(self, op: Op, *operands: Value) -> Value:
        if op in RING:
            return RING[op](*operands)
        match op, operands:
            case ops.NEG, (a,):
                return -a
            case ops.NOT, (a,):
                return -1 - a
            case ((ops.IDIV | ops.CDIV), (a, b)):
                return self._quotient(a, b, truncating=op is ops.CDIV)
            case ((ops.MOD | ops.CMOD), (a, b)):
                return a - b * self._quotient(a, b, truncating=op is ops.CMOD)
            case ops.SHL, (a, b):
                return a * self._power_of_two(b)
            case ops.SHR, (a, b):
                return self._quotient(a, self._power_of_two(b), truncating=False)
            case ops.MAX, (a, b):
                return z3.If(a > b, a, b)
            case ops.MIN, (a, b):
                return z3.If(a < b, a, b)
            case ops.WHERE, (condition, a, b):
                return z3.If(condition, a, b)
            case ops.MULACC, (a, b, c):
                return a * b + c
            case ops.POW, (a, b):
                return self._power(a, b)
        if op in _ROUNDINGS:
            return operands[0]
        if op in COMPARISONS:
            return COMPARISONS[op](*operands)
        raise no_meaning(op, "unbounded integers")

    def _quotient(self, a: Value, b: Value, *, truncating: bool) -> Value:
        """Return the unknown quotient of a division; the same for the same operands."""
        key = (truncating, a, b)
        quotient = self._quotients.get(key)
        if quotient is not None:
            return quotient
        kind = "truncated quotient" if truncating else "quotient"
        q = z3.Int(f"{kind} {len(self._quotients)} of {self._name}")
        self._quotients[key] = q
        r = a - b * q
        if truncating:
            size = z3.If(b > 0, b, -b)
            self.constraints += [
                z3.Implies(z3.And(b != 0, a >= 0), z3.And(r >= 0, r < size)),
                z3.Implies(z3.And(b != 0, a <= 0), z3.And(r <= 0, -r < size)),
            ]
        else:
            self.constraints += [
                z3.Implies(b > 0, z3.And(r >= 0, r < b)),
                z3.Implies(b < 0, z3.And(r <= 0, r > b)),
            ]
        return q

    def _power(self, a: Value, b: Value) -> Value:
        """Return a power: a product for a small constant exponent, else uninterpreted."""
        known = z3.simplify(b)
        if z3.is_int_value(known) and 0 <= known.as_long() <= LARGEST_EXPONENT:
            return product([a] * known.as_long(), self.literal(1))
        return self.unknown_function(ops.POW, a, b)

    def _power_of_two(self, k: Value) -> Value:
        """Return 2^k: a constant if k is one, else an unknown with a few constraints."""
        known = z3.simplify(k)
        if z3.is_int_value(known) and 0 <= known.as_long() < LARGEST_SHIFT:
            return z3.IntVal(1 << known.as_long())
        power = self._powers.get(k)
        if power is None:
            self.faithful = False
            power = self._powers[k] = z3.Int(f"power {len(self._powers)} of {self._name}")
            self.constraints += [
                power >= 1,
                z3.Implies(k == 0, power == 1),
                z3.Implies(k >= 1, power >= k + 1),
            ]
        return power

    def defined(self, op: Op, *operands: Value) -> Truth:
        if op in DIVISIONS:
            return operands[1] != 0
        if op in SHIFTS:
            return operands[1] >= 0
        return self.truth(True)

    def residue(self, name: str, value: Value, known: Truth) -> tuple[Value, Value]:
        m, r, k = z3.Int(f"modulus({name})"), z3.Int(f"remainder({name})"), z3.Int(f"k({name})")
        # where m is 0 the equation says that the value is r
        self.state(known, value == m * k + r)
        self.state(known, z3.And(m >= 0, z3.Implies(m > 0, z3.And(r >= 0, r < m))))
        return m, r

    def limit(self, value: Value, *, lower: bool) -> Value:
        """Return an unknown below or above the value, which stands for infinity."""
        self.faithful = False
        limit = z3.Int(f"{'least' if lower else 'most'}({value})")
        self.constraints.append(limit <= value if lower else limit >= value)
        return limit

    def cast(self, value: Value, source: Arithmetic) -> Value:
        if isinstance(source, Booleans):
            return z3.If(value, 1, 0)
        return value if z3.is_int(value) else super().cast(value, source)
