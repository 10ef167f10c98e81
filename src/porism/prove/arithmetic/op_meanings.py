"""Op meanings: the interface of an arithmetic, which gives ops their meaning on one type.

A rule is interpreted once (`porism.prove.rule_terms`), with an arithmetic for each of its types. A
solver arithmetic builds formulas over unknowns; that of arrays computes many cases at once, with
the meanings in `porism.ir.facts.semantics`. Conditions are combined with `&`, `|` and `~` in both.

When a rule fires, Python computes with its constants: exactly, whatever their type. Each arithmetic
therefore has `numbers`, the arithmetic of those computations, and conversions to and from it.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.ops import Op

Value = Any
"""A z3 expression or a NumPy array."""

Truth = Any
"""A z3 formula or a NumPy array of booleans."""

DIVISIONS = frozenset({ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD})
SHIFTS = frozenset({ops.SHL, ops.SHR})

RING: Final[Mapping[Op, Callable[..., Value]]] = {
    ops.ADD: operator.add,
    ops.SUB: operator.sub,
    ops.MUL: operator.mul,
}
"""Ops that are Python's operators, on z3 expressions other than floats too."""

COMPARISONS: Final[Mapping[Op, Callable[..., Truth]]] = {
    ops.EQ: operator.eq,
    ops.NE: operator.ne,
    ops.LT: operator.lt,
    ops.LE: operator.le,
    ops.GT: operator.gt,
    ops.GE: operator.ge,
}
"""Comparisons as Python's operators; on z3 bit-vectors these are signed."""

LARGEST_SHIFT = 4096
"""Constants are not shifted by this many bits or more; chosen by hand."""

LARGEST_EXPONENT = 8
"""Powers with a larger constant exponent are uninterpreted functions; chosen by hand."""


class Unsupported(Exception):  # noqa: N818 - not an error: the question is answered another way
    """An op or fact that an arithmetic has no meaning for."""


class Arithmetic(ABC):
    """The meaning of ops on values of one type."""

    dtype: DType | None = None
    """The type; None for the numbers of Python."""

    constraints: Sequence[Truth] = ()
    """Constraints on the auxiliary unknowns of formulas, such as those of quotients."""

    choices: Sequence[Truth] = ()
    """Unknowns that select one of several right results of an op."""

    faithful = True
    """Whether formulas are exact; if not, a model of the solver may be no counterexample."""

    @property
    def numbers(self) -> Arithmetic:
        """The arithmetic by which Python computes with constants of this type."""
        return self

    def to_number(self, value: Value) -> Value:
        """Return a value of the type as a number."""
        return value

    def from_number(self, number: Value) -> Value:
        """Return a number as a value of the type, wrapped or rounded."""
        return number

    exact_on_numbers: frozenset[Op] = frozenset()
    """Ops that give the same on numbers, converted to the type, as on its values."""

    @abstractmethod
    def truth(self, value: bool) -> Truth:
        """Return a constant condition."""

    @abstractmethod
    def hole(self, name: str) -> Value:
        """Return the unknown value of a hole."""

    @abstractmethod
    def literal(self, value: bool | int | float) -> Value:
        """Return a constant of a rule."""

    @abstractmethod
    def apply(self, op: Op, *operands: Value) -> Value:
        """Return the result of an op; a condition for a comparison."""

    def defined(self, op: Op, *operands: Value) -> Truth:
        """Return the condition that the op has a value for these operands."""
        return self.truth(True)

    @abstractmethod
    def same(self, a: Value, b: Value) -> Truth:
        """Return the condition that two results have the same bits; all NaNs count as the same."""

    def bound(self, name: str, value: Value, known: Truth, *, lower: bool) -> Value:
        """Return a number that bounds a value from one side, where the condition `known` holds."""
        raise Unsupported(f"bounds, in {name}")

    def residue(self, name: str, value: Value, known: Truth) -> tuple[Value, Value]:
        """Return m >= 0 and r with value = r if m is 0, else value ≡ r modulo m, 0 <= r < m."""
        raise Unsupported(f"residues, in {name}")

    def limit(self, value: Value, *, lower: bool) -> Value:
        """Return the least or the largest value of the type, as a number."""
        raise Unsupported("the limits of a type")

    def cast(self, value: Value, source: Arithmetic) -> Value:
        """Return a value of another type, converted to this one."""
        raise Unsupported("this cast")


def product(factors: Sequence[Value], one: Value) -> Value:
    """Return the product of some values."""
    result = one
    for factor in factors:
        result = result * factor
    return result


def no_meaning(op: Op, where: str) -> Unsupported:
    """Return the exception for an op that an arithmetic does not have."""
    return Unsupported(f"{op.name} has no meaning on {where} here")
