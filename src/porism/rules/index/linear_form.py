"""Linear forms: index expressions as a constant plus multiples of monomials.

    (r0*8 + r1)//4 + r1%4   is   r1 + floor((r0*8 + r1)/4) - 4*floor(r1/4)

A monomial is a product of atoms. An atom is a leaf (a variable, a range, any node that is opaque to
arithmetic), the floor of a form over a positive constant, or the floor of a form over a form.
`x % d` is not an atom but `x - d*floor(x/d)`, so that the digits of a number cancel by addition.

Forms, monomials and atoms are made by an `Arena` and are one object each there: equality is `is`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from porism.ir.facts.intervals import Bound, times
from porism.ir.node import UOp
from porism.rules.index import trial_points

if TYPE_CHECKING:
    from porism.rules.index.form_arena import Arena

Interval = tuple[Bound, Bound]
"""The least and the largest value; either may be infinite."""


Rank = tuple[tuple[int, ...], ...]
"""Orders monomials by their structure: a key of integers for each atom."""


class Monomial:
    """An atom or a product of atoms, with the interval of its value."""

    __slots__ = ("divisor", "high", "low", "numerator", "rank", "support", "values")

    def __init__(
        self, rank: Rank, support: int, low: Bound, high: Bound, values: trial_points.Values
    ) -> None:
        self.rank = rank
        self.support = support  # a bit for each leaf that the value depends on
        self.low = low
        self.high = high
        self.values = values  # at trial points
        self.numerator: Form | None = None  # of an atom that is a floor
        self.divisor = 0  # a positive constant; 0 if the monomial is no such floor

    @property
    def atoms(self) -> tuple[Atom, ...]:
        raise NotImplementedError


class Atom(Monomial):
    """A factor: a leaf, or the floor of `numerator` by `divisor` or by `divisor_form`."""

    __slots__ = ("divisor_form", "node")

    def __init__(
        self,
        rank: tuple[int, ...],
        support: int,
        low: Bound,
        high: Bound,
        values: trial_points.Values,
    ) -> None:
        super().__init__((rank,), support, low, high, values)
        self.node: UOp | None = None  # of a leaf
        self.divisor_form: Form | None = None  # of a floor whose divisor is not a constant

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return (self,)


class Product(Monomial):
    """A product of atoms, in the order of their ranks."""

    __slots__ = ("_atoms",)

    def __init__(self, atoms: tuple[Atom, ...]) -> None:
        first, *others = atoms
        rank, support, low, high = first.rank, first.support, first.low, first.high
        for atom in others:
            ends = [times(a, b) for a in (low, high) for b in (atom.low, atom.high)]
            low, high = min(ends), max(ends)
            support |= atom.support
            rank += atom.rank
        super().__init__(rank, support, low, high, trial_points.of_product(atoms))
        self._atoms = atoms

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return self._atoms


Terms = Mapping[Monomial, int]


class Form:
    """constant + Σ coefficient · monomial; no coefficient is zero."""

    __slots__ = ("_values", "constant", "terms")

    def __init__(self, constant: int, terms: dict[Monomial, int]) -> None:
        self.constant = constant
        self.terms = terms
        self._values: list[int] | None = None

    @property
    def values(self) -> list[int]:
        """The values at the trial points."""
        if self._values is None:
            self._values = trial_points.of_sum(self.constant, self.terms)
        return self._values

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def monomials(self) -> list[Monomial]:
        """Return the monomials in an order that depends on their structure alone."""
        return sorted(self.terms, key=_rank) if len(self.terms) > 1 else list(self.terms)


Relation = Literal["<=", "==", "!="]


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition: the form compared with 0."""

    relation: Relation
    form: Form

    def negated(self, arena: Arena) -> Clause:
        """Return the negation of the condition."""
        if self.relation == "<=":  # 1 <= form
            return Clause("<=", arena.add(arena.constant(1), self.form, -1))
        return Clause("!=" if self.relation == "==" else "==", self.form)


def _rank(m: Monomial) -> Rank:
    return m.rank
