"""Arithmetic: what ops mean on the values of one type, to a solver or on arrays.

A rule is read once (`porism.prove.rule_terms`), with an arithmetic for each of its types. For the
solver an arithmetic makes formulas over unknowns; on arrays it computes many cases at a time,
with the meanings in `porism.ir.facts.semantics`. Conditions are combined with `&`, `|` and
`~` in both.

When a rule fires, Python computes with its constants: exactly, whatever their type. Each
arithmetic therefore has `numbers`, the arithmetic of those computations, and goes there and back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.ops import Op

Value = Any
"""A z3 expression or a NumPy array."""

Truth = Any
"""The same, of truths."""

DIVISIONS = frozenset({ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD})
SHIFTS = frozenset({ops.SHL, ops.SHR})
LARGEST_SHIFT = 4096
"""Rules do not compute constants by shifts of this many bits or more."""

LARGEST_EXPONENT = 8
"""Powers with a larger exponent are functions of which nothing is known."""


class Unsupported(Exception):  # noqa: N818 - not an error: the question is answered another way
    """An op or fact that an arithmetic has no meaning for."""


class Arithmetic(ABC):
    """Values of one type."""

    dtype: DType | None = None
    """The type; None for numbers, which have none."""

    statements: Sequence[Truth] = ()
    """What is known of unknowns that were made on the way."""

    choices: Sequence[Truth] = ()
    """Unknowns that say which of several right results an op gave."""

    faithful = True
    """Whether what it says of unknowns is all there is to say; if not, a model may be no case."""

    @property
    def numbers(self) -> Arithmetic:
        """How Python computes with constants of this type."""
        return self

    def exactly(self, value: Value) -> Value:
        """A value as a number."""
        return value

    def rounded(self, number: Value) -> Value:
        """The value of a constant that is made of this number."""
        return number

    keeps: frozenset[Op] = frozenset()
    """Ops for which computing on numbers and then rounding gives what the op itself gives."""

    @abstractmethod
    def truth(self, value: bool) -> Truth:
        """True or false."""

    @abstractmethod
    def hole(self, name: str) -> Value:
        """Any value."""

    @abstractmethod
    def literal(self, value: bool | int | float) -> Value:
        """A constant that a rule names."""

    @abstractmethod
    def apply(self, op: Op, *operands: Value) -> Value:
        """What the op computes; a truth for a comparison."""

    def defined(self, op: Op, *operands: Value) -> Truth:
        """Whether the op has a value for these operands."""
        return self.truth(True)

    @abstractmethod
    def same(self, a: Value, b: Value) -> Truth:
        """Whether two results are the same, bit by bit; any NaN is the same as any other."""

    def bound(self, name: str, value: Value, known: Truth, *, lower: bool) -> Value:
        """A number that bounds a value from one side, if the value is `known` to exist."""
        raise Unsupported(f"bounds, in {name}")

    def residue(self, name: str, value: Value, known: Truth) -> tuple[Value, Value]:
        """Numbers m >= 0 and r with value = r if m is 0, else value ≡ r modulo m, 0 <= r < m."""
        raise Unsupported(f"residues, in {name}")

    def limit(self, value: Value, *, lower: bool) -> Value:
        """The least or the largest value of the type, as a number."""
        raise Unsupported("the limits of a type")

    def cast(self, value: Value, source: Arithmetic) -> Value:
        """A value of another type, converted to this one."""
        raise Unsupported("this cast")


def product(factors: Sequence[Value], one: Value) -> Value:
    """The product of some values."""
    result = one
    for factor in factors:
        result = result * factor
    return result


def no_meaning(op: Op, where: str) -> Unsupported:
    return Unsupported(f"{op.name} has no meaning on {where} here")
