"""Comparisons: a condition on integers is `form <= 0`, `form == 0` or `form != 0`.

| theorem   | statement                                                            |
|-----------|----------------------------------------------------------------------|
| decided   | bounds say yes or no                                                 |
| common    | g·X + k <= 0  iff  X + ceil(k/g) <= 0                                |
| remainder | floor(-Y/g) = c for all Y  implies  (g·X + Y <= 0  iff  X - c <= 0)  |
| together  | E == 0 and F == 0 have no solution if c·E + d·F, without a monomial that both have, |
|           | is a multiple of g plus what is none                                 |
| lift      | floor(M/e) + F <= 0  iff  M + e·F - e + 1 <= 0                       |
|           | F - floor(M/e) <= 0  iff  e·F - M <= 0                               |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Literal

from porism.rules.index.arena import Arena
from porism.rules.index.form import Atom, Form, Monomial
from porism.rules.index.scope import merge

Relation = Literal["<=", "==", "!="]


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition: the form compared with 0."""

    relation: Relation
    form: Form

    def negated(self, arena: Arena) -> Clause:
        """The condition that holds where this one does not."""
        if self.relation == "<=":  # 1 <= form
            return Clause("<=", arena.add(arena.constant(1), self.form, -1))
        return Clause("!=" if self.relation == "==" else "==", self.form)


def everywhere(arena: Arena, clause: Clause) -> Clause:
    """The simplest condition that is equal wherever an expression is looked at.

    It is for a condition that is neither true nor false everywhere.
    """
    here, arena.here = arena.here, arena.everywhere
    try:
        found = simplify(arena, clause)
    finally:
        arena.here = here
    return clause if isinstance(found, bool) else found


def simplify(arena: Arena, clause: Clause, equal: Sequence[Form] = ()) -> Clause | bool:
    """The simplest condition that is equal wherever the arena's facts hold.

    `equal` are forms that are 0 there.
    """
    if clause.relation == "<=":
        return _at_most_zero(arena, clause.form)
    if any(_excludes(clause.form, other) for other in equal):
        return clause.relation == "!="
    found = _zero(arena, clause.form)
    if isinstance(found, bool):
        return found if clause.relation == "==" else not found
    return Clause(clause.relation, found)


def _excludes(a: Form, b: Form) -> bool:
    """Whether two forms cannot both be 0, since a combination of them is no multiple of its gcd."""
    for m, k in a.terms.items():
        j = b.terms.get(m)
        if j is None:
            continue
        common = gcd(k, j)
        terms = {n: c * (j // common) for n, c in a.terms.items()}
        merge(terms, b.terms, -(k // common))
        constant = a.constant * (j // common) - b.constant * (k // common)
        left = gcd(*terms.values())
        if constant % left if left else constant:
            return True
    return False


def _zero(arena: Arena, a: Form) -> Form | bool:
    low, high = arena.here.interval(a)
    if low == high == 0:
        return True
    if low > 0 or high < 0:
        return False
    common = 0
    for k in a.terms.values():
        common = gcd(common, k)
    if common > 1:
        if a.constant % common:
            return False
        return arena.form(a.constant // common, {m: k // common for m, k in a.terms.items()})
    return a


def _at_most_zero(arena: Arena, a: Form) -> Clause | bool:
    while True:
        decided = arena.here.is_at_most_zero(a)
        if decided is not None:
            return decided
        simpler = _common(arena, a) or _remainder(arena, a) or _lift(arena, a)
        if simpler is None:
            return Clause("<=", a)
        a = simpler


def _common(arena: Arena, a: Form) -> Form | None:
    common = 0
    for k in a.terms.values():
        common = gcd(common, k)
    if common <= 1:
        return None
    return arena.form(-(-a.constant // common), {m: k // common for m, k in a.terms.items()})


def _remainder(arena: Arena, a: Form) -> Form | None:
    for g in sorted({abs(k) for k in a.terms.values()} - {1}, reverse=True):
        above: dict[Monomial, int] = {}
        below: dict[Monomial, int] = {}
        for m, k in a.terms.items():
            quotient, remainder = divmod(k, g)
            if 2 * remainder > g:
                quotient += 1
                remainder -= g
            if quotient:
                above[m] = quotient
            if remainder:
                below[m] = -remainder
        if above and below:
            most = arena.here.bucket(-a.constant, below, g)
            if most is not None:
                return arena.form(-most, above)
    return None


def _lift(arena: Arena, a: Form) -> Form | None:
    """Free a quotient from its floor, if no more quotients are left then."""
    for m in a.monomials():
        e, k = m.divisor, a.terms[m]
        if not e or abs(k) != 1:
            continue
        assert m.numerator is not None
        terms = {n: c * e for n, c in a.terms.items() if n is not m}
        merge(terms, m.numerator.terms, k)
        constant = a.constant * e + k * m.numerator.constant - (e - 1 if k > 0 else 0)
        lifted = arena.form(constant, terms)
        if len(floors(lifted)) < len(floors(a)):
            return lifted
    return None


def floors(a: Form, found: set[Atom] | None = None) -> set[Atom]:
    """The floors that a form is made of, inner ones too."""
    found = set() if found is None else found
    stack = [a]
    while stack:
        for m in stack.pop().terms:
            for atom in m.atoms:
                if atom.numerator is not None and atom not in found:
                    found.add(atom)
                    stack.append(atom.numerator)
                    if atom.over is not None:
                        stack.append(atom.over)
    return found
