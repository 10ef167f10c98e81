"""Conditions: a comparison of integers as `form <= 0`, `form == 0` or `form != 0`, simplified.

| theorem   | statement                                                            |
|-----------|----------------------------------------------------------------------|
| decided   | bounds prove or refute it                                            |
| common    | g·X + k <= 0  iff  X + ceil(k/g) <= 0                                |
| remainder | floor(-Y/g) = c for all Y  implies  (g·X + Y <= 0  iff  X - c <= 0)  |
| together  | E == 0 and F == 0 have no solution if c·E + d·F, without a monomial that both have, |
|           | is a multiple of g plus what is none                                 |
| lift      | floor(M/e) + F <= 0  iff  M + e·F - e + 1 <= 0                       |
|           | F - floor(M/e) <= 0  iff  e·F - M <= 0                               |
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from porism.rules.index.form_arena import Arena
from porism.rules.index.lemma_steps import bind
from porism.rules.index.linear_form import Atom, Clause, Form, Monomial, Relation
from porism.rules.index.scoped_facts import merge


def simplify_everywhere(arena: Arena, clause: Clause) -> Clause:
    """Return a simpler condition that is equal under the facts of the whole expression.

    The condition must be neither true nor false everywhere.
    """
    here, arena.here = arena.here, arena.everywhere
    try:
        simpler = simplify(arena, clause)
    finally:
        arena.here = here
    return clause if isinstance(simpler, bool) else simpler


def simplify(arena: Arena, clause: Clause, equal: Sequence[Form] = ()) -> Clause | bool:
    """Return a simpler condition, or its truth, under the arena's current facts.

    `equal` are forms that are 0 under them.
    """
    if clause.relation == "<=":
        return _simplify_inequality(arena, clause.form)
    if any(_excludes(clause.form, other) for other in equal):
        return clause.relation == "!="
    simpler = _simplify_equation(arena, clause.form)
    if isinstance(simpler, bool):
        return simpler if clause.relation == "==" else not simpler
    return Clause(clause.relation, simpler)


def _excludes(a: Form, b: Form) -> bool:
    """Return whether two forms cannot both be 0, by the gcd of a linear combination."""
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


def _simplify_equation(arena: Arena, a: Form) -> Form | bool:
    """Return a form that is 0 where a given one is, divided by its gcd; or whether it is 0."""
    low, high = arena.here.interval(a)
    if low == high == 0 or low > 0 or high < 0:
        if arena.budget.steps is not None:
            lemma = "eq-always" if low == 0 else "eq-never" if high < 0 else "eq-never-below"
            _note_decided(arena, lemma, "==", a, low == 0)
        return low == 0
    common = 0
    for k in a.terms.values():
        common = gcd(common, k)
    if common <= 1:
        return a
    simpler = {m: k // common for m, k in a.terms.items()}
    reduced = False if a.constant % common else arena.form(a.constant // common, simpler)
    if arena.budget.steps is not None:
        after = Clause("==", reduced) if isinstance(reduced, Form) else False
        lemma = "equal-common" if after else "compare-no-multiple"
        terms = bind(x=arena.form(0, simpler), c0=common, c1=-a.constant)
        arena.here.note(lemma, Clause("==", a), after, terms)
    return reduced


def _note_decided(arena: Arena, lemma: str, relation: Relation, a: Form, truth: bool) -> None:
    """Record that the bounds of a form decide its comparison with 0."""
    interval = arena.here.interval(a)
    terms = bind(x=a, y=0)
    arena.here.note(lemma, Clause(relation, a), truth, terms, x=interval, y=(0, 0))


def _simplify_inequality(arena: Arena, a: Form) -> Clause | bool:
    """Return a simpler clause equal to a <= 0, or its truth."""
    while True:
        decided = arena.here.is_at_most_zero(a)
        if decided is not None:
            if arena.budget.steps is not None:
                _note_decided(arena, "le-always" if decided else "le-never", "<=", a, decided)
            return decided
        simpler = _divide_by_gcd(arena, a) or _drop_remainder(arena, a) or _remove_floor(arena, a)
        if simpler is None:
            return Clause("<=", a)
        a = simpler


def _divide_by_gcd(arena: Arena, a: Form) -> Form | None:
    """Divide an inequality by the gcd of its coefficients; None if that is 1."""
    common = 0
    for k in a.terms.values():
        common = gcd(common, k)
    if common <= 1:
        return None
    simpler = {m: k // common for m, k in a.terms.items()}
    result = arena.form(-(-a.constant // common), simpler)
    if arena.budget.steps is not None:
        terms = bind(x=arena.form(0, simpler), c0=common, c1=-a.constant)
        arena.here.note("compare-common", Clause("<=", a), Clause("<=", result), terms)
    return result


def _drop_remainder(arena: Arena, a: Form) -> Form | None:
    """Drop a part of an inequality that stays between two multiples of a coefficient."""
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
                result = arena.form(-most, above)
                if arena.budget.steps is not None:
                    y = arena.form(-a.constant, below)
                    terms = bind(x=arena.form(0, above), c0=g, y=y)
                    before, after = Clause("<=", a), Clause("<=", result)
                    ends = (most * g, most * g + g - 1)
                    arena.here.note("compare-remainder", before, after, terms, y=ends)
                return result
    return None


def _remove_floor(arena: Arena, a: Form) -> Form | None:
    """Remove the floor of a quotient in an inequality, if that leaves fewer floors."""
    for m in a.monomials():
        e, k = m.divisor, a.terms[m]
        if not e or abs(k) != 1:
            continue
        assert m.numerator is not None
        terms = {n: c * e for n, c in a.terms.items() if n is not m}
        merge(terms, m.numerator.terms, k)
        constant = a.constant * e + k * m.numerator.constant - (e - 1 if k > 0 else 0)
        lifted = arena.form(constant, terms)
        if len(floors_in(lifted)) < len(floors_in(a)):
            if arena.budget.steps is not None:
                others = arena.form(a.constant, {n: c for n, c in a.terms.items() if n is not m})
                y = arena.scale(others, -k)
                lemma = "compare-lift-below" if k > 0 else "compare-lift-above"
                bindings = bind(x=m.numerator, c0=e, y=y)
                arena.here.note(lemma, Clause("<=", a), Clause("<=", lifted), bindings)
            return lifted
    return None


def floors_in(a: Form, floors: set[Atom] | None = None) -> set[Atom]:
    """Return the floors that occur in a form, nested ones too."""
    floors = set() if floors is None else floors
    stack = [a]
    while stack:
        for m in stack.pop().terms:
            for atom in m.atoms:
                if atom.numerator is not None and atom not in floors:
                    floors.add(atom)
                    stack.append(atom.numerator)
                    if atom.divisor_form is not None:
                        stack.append(atom.divisor_form)
    return floors
