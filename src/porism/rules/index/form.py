"""Forms: index expressions as a constant plus multiples of monomials.

    (r0*8 + r1)//4 + r1%4   is   r1 + floor((r0*8 + r1)/4) - 4*floor(r1/4)

A monomial is a product of atoms. An atom is a leaf (a variable, a range, any node that is opaque to
arithmetic), the floor of a form over a positive constant, or the floor of a form over a form.
`x % d` is not an atom but `x - d*floor(x/d)`, so that the digits of a number cancel by addition.

Forms, monomials and atoms are made by an `Arena` and are one object each there: equality is `is`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from porism.ir.bounds import Bound, times
from porism.ir.node import UOp

Interval = tuple[Bound, Bound]


class Atom:
    """A factor: a leaf's node, or the floor of `numerator` over `divisor`."""

    __slots__ = ("divisor", "high", "low", "node", "numerator", "over", "rank", "support")

    def __init__(self, rank: tuple[int, ...], support: int, low: Bound, high: Bound) -> None:
        self.rank = rank
        self.support = support  # a bit for each leaf that the value depends on
        self.low = low
        self.high = high
        self.node: UOp | None = None  # a leaf
        self.numerator: Form | None = None  # a floor
        self.divisor: int = 0  # by a constant
        self.over: Form | None = None  # or by a form


class Monomial:
    """A product of atoms, with the interval of its value."""

    __slots__ = ("atoms", "floor", "high", "low", "rank", "support")

    def __init__(self, atoms: tuple[Atom, ...]) -> None:
        self.atoms = atoms
        low, high = atoms[0].low, atoms[0].high
        for atom in atoms[1:]:
            ends = [times(a, b) for a in (low, high) for b in (atom.low, atom.high)]
            low, high = min(ends), max(ends)
        self.low = low
        self.high = high
        self.support = 0
        for atom in atoms:
            self.support |= atom.support
        # set if the monomial is a single floor over a constant
        self.floor = atoms[0] if len(atoms) == 1 and atoms[0].divisor else None
        self.rank = tuple(atom.rank for atom in atoms)


Terms = Mapping[Monomial, int]


class Form:
    """constant + Σ coefficient · monomial; no coefficient is zero."""

    __slots__ = ("cached", "constant", "epoch", "key", "terms")

    def __init__(self, constant: int, terms: dict[Monomial, int], key: int) -> None:
        self.constant = constant
        self.terms = terms
        self.key = key  # the number of the form in its arena
        self.epoch = -1  # under which facts `cached` was computed
        self.cached: Interval = (-inf, inf)

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def monomials(self) -> list[Monomial]:
        """In an order that structure alone decides."""
        return sorted(self.terms, key=lambda m: m.rank)
