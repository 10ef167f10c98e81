"""Array arithmetic: ops on many cases at once, with the meanings that the evaluator uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.facts.semantics import Array
from porism.ir.ops import Op
from porism.prove.arithmetic.op_meanings import (
    DIVISIONS,
    LARGEST_SHIFT,
    SHIFTS,
    Arithmetic,
    Truth,
    Unsupported,
    Value,
    no_meaning,
)

SLACK: Final = "slack of "
"""Prefix of a table entry: the distance of a bound from its value, or the modulus of a residue."""

Table = Mapping[str, Array]
"""The values of holes and facts by name, one element for each case."""


class Arrays(Arithmetic):
    """Arrays of values of a type, one element for each case."""

    def __init__(self, dtype: DType, table: Table, *, huge: bool = False) -> None:
        self.dtype: DType = dtype
        self.table = table
        self.huge = huge  # compute with Python's ints: slow, but of any size
        self._numbers = Numbers(dtype)

    @property
    def numbers(self) -> Arithmetic:
        return self._numbers

    def to_number(self, value: Value) -> Value:
        if self.dtype.is_float:
            return np.asarray(value).astype(np.float64)
        return np.asarray(value).astype(object if self.huge else np.int64)

    def from_number(self, number: Value) -> Value:
        if self.dtype.kind is Kind.INDEX:
            return number
        if self.dtype.kind is Kind.BOOL:
            return np.asarray(number != 0)
        if self.dtype.is_integer:
            low = int(self.dtype.min)
            number = (number - low) % (1 << self.dtype.bits) + low
        with np.errstate(all="ignore"):
            return np.asarray(number).astype(self.dtype.numpy)

    def truth(self, value: bool) -> Truth:
        return np.bool_(value)

    def hole(self, name: str) -> Value:
        return self.table[name]

    def literal(self, value: bool | int | float) -> Value:
        if self.dtype.kind is Kind.INDEX and self.huge:
            return np.asarray(int(value), dtype=object)
        return semantics.array_of(self.dtype, self.dtype.canonical(value))

    def apply(self, op: Op, *operands: Value) -> Value:
        if op.meaning is None:
            raise no_meaning(op, "arrays")
        if self.dtype.kind is Kind.INDEX and op in DIVISIONS | SHIFTS | {ops.POW}:
            a, b = operands
            safe = np.where(self.defined(op, a, b), b, 1).astype(np.asarray(b).dtype)
            if op not in DIVISIONS and np.max(np.abs(safe), initial=0) >= LARGEST_SHIFT:
                raise Unsupported("so large a number")
            operands = (a, safe)
        return op.meaning(self.dtype, *operands)

    def defined(self, op: Op, *operands: Value) -> Truth:
        if self.dtype.kind is Kind.INDEX:
            if op in DIVISIONS:
                return np.asarray(operands[1] != 0, dtype=np.bool_)
            if op in SHIFTS:
                return np.asarray(operands[1] >= 0, dtype=np.bool_)
        return self.truth(True)

    def same(self, a: Value, b: Value) -> Truth:
        if not self.dtype.is_float:
            return np.asarray(a == b, dtype=np.bool_)
        a, b = self.to_number(a), self.to_number(b)
        return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))

    def bound(self, name: str, value: Value, known: Truth, *, lower: bool) -> Value:
        if name in self.table:
            return self.table[name]
        number = self.to_number(value)
        slack = self.table[SLACK + name]
        if self.dtype.is_float:
            far = number - slack if lower else number + slack
            return np.where(np.isnan(number), self.dtype.min if lower else self.dtype.max, far)
        if lower:
            return np.maximum(number - slack, self.dtype.min if self.dtype.bits else number - slack)
        return np.minimum(number + slack, self.dtype.max if self.dtype.bits else number + slack)

    def residue(self, name: str, value: Value, known: Truth) -> tuple[Value, Value]:
        if f"modulus({name})" in self.table:
            return self.table[f"modulus({name})"], self.table[f"remainder({name})"]
        if self.dtype.is_float:
            raise Unsupported(f"residues, in {name}")
        m = self.table[SLACK + f"modulus({name})"]
        number = self.to_number(value)
        return m, np.where(m == 0, number, number % np.where(m == 0, 1, m))

    def limit(self, value: Value, *, lower: bool) -> Value:
        return np.asarray(self.dtype.min if lower else self.dtype.max)

    def cast(self, value: Value, source: Arithmetic) -> Value:
        assert isinstance(source, Arrays)
        return semantics.cast(source.dtype, self.dtype, np.asarray(value))


class Numbers(Arithmetic):
    """Arrays of Python's integers or floats, with which constants are computed."""

    def __init__(self, dtype: DType) -> None:
        self.is_float = dtype.is_float

    def truth(self, value: bool) -> Truth:
        return np.bool_(value)

    def hole(self, name: str) -> Value:
        raise AssertionError("constants have a type of their own")

    def literal(self, value: bool | int | float) -> Value:
        if self.is_float:
            return np.float64(value)
        fits = -(1 << 62) < value < 1 << 62
        return np.asarray(int(value), dtype=np.int64 if fits else object)

    def same(self, a: Value, b: Value) -> Truth:
        return np.asarray(a == b, dtype=np.bool_)

    def apply(self, op: Op, *operands: Value) -> Value:
        if op not in _PLAIN or (self.is_float and op not in _ON_FLOATS):
            raise no_meaning(op, "constants")
        if op in (ops.IDIV, ops.MOD):
            a, b = operands
            operands = (a, np.where(b == 0, 1, b))
        elif op in (ops.SHL, ops.SHR):
            a, b = operands
            operands = (a, np.where((b >= 0) & (b < 60), b, 0))
        with np.errstate(all="ignore"):
            return _PLAIN[op](*operands)


_PLAIN: Final[dict[Op, Any]] = {
    ops.ADD: lambda a, b: a + b,
    ops.SUB: lambda a, b: a - b,
    ops.MUL: lambda a, b: a * b,
    ops.NEG: lambda a: -a,
    ops.IDIV: lambda a, b: a // b,
    ops.MOD: lambda a, b: a % b,
    ops.MAX: lambda a, b: np.where(b > a, b, a),
    ops.MIN: lambda a, b: np.where(b < a, b, a),
    ops.SHL: lambda a, b: a << b,
    ops.SHR: lambda a, b: a >> b,
    ops.AND: lambda a, b: a & b,
    ops.OR: lambda a, b: a | b,
    ops.XOR: lambda a, b: a ^ b,
    ops.NOT: lambda a: -1 - a,
    ops.LT: lambda a, b: np.asarray(a < b, dtype=np.bool_),
    ops.LE: lambda a, b: np.asarray(a <= b, dtype=np.bool_),
    ops.GT: lambda a, b: np.asarray(a > b, dtype=np.bool_),
    ops.GE: lambda a, b: np.asarray(a >= b, dtype=np.bool_),
    ops.EQ: lambda a, b: np.asarray(a == b, dtype=np.bool_),
    ops.NE: lambda a, b: np.asarray(a != b, dtype=np.bool_),
}

_ON_FLOATS: Final = frozenset(_PLAIN) - {
    *(ops.IDIV, ops.MOD, ops.SHL, ops.SHR, ops.AND, ops.OR, ops.XOR, ops.NOT)
}
