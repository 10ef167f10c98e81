"""Quotients: lemmas about floor(form / d), tried in the order of `LEMMAS`.

| lemma      | statement                                                                        |
|------------|----------------------------------------------------------------------------------|
| multiples  | floor((d·A + R)/d) = A + floor(R/d)                                              |
| common     | floor((g·X + k)/(g·m)) = floor((X + floor(k/g))/m)                               |
| remainder  | k·g <= Y < (k+1)·g  implies  floor((g·X + Y)/(g·m)) = floor((X + k)/m)           |
| known      | k·d <= F - d·q < (k+1)·d  implies  floor(F/d) = q + k                            |
| flatten    | floor((floor(M/e) + F)/d) = floor((M + e·F)/(e·d))                               |

Each reduces the divisor, the number of terms or the nesting, so they terminate. Results are cached
by form and divisor. Each is stated as an equation in `index_lemmas.py`, and proved there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import compress, product
from math import gcd, inf

from porism.ir.facts.intervals import Bound
from porism.rules.index.form_arena import Arena
from porism.rules.index.lemma_steps import Quotient, bind
from porism.rules.index.linear_form import Atom, Form, Interval, Monomial
from porism.rules.index.scoped_facts import merge

MOST_KNOWN = 32  # latest quotients by the same divisor that a new one is compared with; by hand
MOST_TIES = 3  # remainders of half the divisor that are rounded both ways; chosen by hand
_divisors: dict[int, list[int]] = {}

_Split = tuple[dict[Monomial, int], dict[Monomial, int]]
"""The multiples of g in a sum, and what is left of it."""


def floor_divide(arena: Arena, a: Form, d: int) -> Form:
    """Return floor(a / d) for d > 0."""
    if d == 1:
        return a
    if not a.terms:
        return arena.constant(a.constant // d)
    key = (a, d)
    quotients = arena.here.quotients
    quotient = quotients.get(key)
    if quotient is None:
        quotient = quotients[key] = _floor_divide(arena, a, d)
    return quotient


def _floor_divide(arena: Arena, a: Form, d: int) -> Form:
    """Return floor(a / d): multiples of d come out, and the rest is divided by itself."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    common = d
    quotient, constant = divmod(a.constant, d)
    low: Bound = constant
    high: Bound = constant
    for m, k in a.terms.items():
        multiple, remainder = divmod(k, d)
        if multiple:
            whole[m] = multiple
        if remainder:
            rest[m] = remainder
            common = gcd(common, remainder)
            low += remainder * m.low
            high += remainder * m.high
    outside = arena.form(quotient, dict(whole)) if arena.budget.steps is not None else None
    if low != -inf and high != inf and low // d == high // d:  # the rest never reaches a multiple
        result = arena.form(quotient + int(low // d), whole)
        if outside is not None:
            remaining = arena.form(constant, rest)
            bindings = bind(x=remaining, c0=d)
            lemma = "quotient-one-bucket"
            bucket = arena.constant(int(low // d))
            arena.here.note(lemma, Quotient(remaining, d), bucket, bindings, x=(low, high))
    else:
        inside = _divide_proper(arena, constant, rest, common, d)
        if not whole and not quotient:
            return inside
        merge(whole, inside.terms, 1)
        result = arena.form(quotient + inside.constant, whole)
    if outside is not None:
        terms = bind(x=outside, y=d, z=arena.form(constant, rest))
        arena.here.note("quotient-multiples", Quotient(a, d), result, terms)
    return result


def _divide_proper(
    arena: Arena, constant: int, rest: dict[Monomial, int], common: int, d: int
) -> Form:
    """Return floor((constant + rest) / d) for coefficients between 0 and d."""
    if common > 1:
        reduced = arena.form(constant // common, {m: k // common for m, k in rest.items()})
        result = floor_divide(arena, reduced, d // common)
        if arena.budget.steps is not None:
            parts = arena.form(0, {m: k // common for m, k in rest.items()})
            before = Quotient(arena.form(constant, rest), d)
            terms = bind(x=parts, c0=common, c1=constant, c2=d)
            arena.here.note("quotient-common", before, result, terms)
        return result
    for lemma in LEMMAS:
        quotient = lemma(arena, constant, rest, d)
        if quotient is not None:
            return quotient
    return arena.of(arena.floor(arena.form(constant, rest), d))


def _note_bucket(
    arena: Arena, whole: Quotient, result: Form, x: Form, y: Form, k: int, g: int
) -> None:
    """Record that floor((g·x + y)/d) was simplified by k·g <= y < (k+1)·g."""
    assert isinstance(whole.divisor, int)
    terms = bind(x=x, c0=g, y=y, c1=whole.divisor)
    arena.here.note("quotient-remainder", whole, result, terms, y=(k * g, k * g + g - 1))


# -- lemmas on constant + rest, with coefficients between 0 and d that have no common divisor ------


def _remainder(arena: Arena, constant: int, rest: dict[Monomial, int], d: int) -> Form | None:
    """Drop a part of the numerator that never reaches the next multiple of a divisor of d.

    Each coefficient is split into a multiple of g and what is nearest to zero, which makes the part
    to be dropped as small as it can be.
    """
    here = arena.here
    plain = here.is_plain(rest)
    for g in _candidates(d, max(rest.values()), plain):
        above: dict[Monomial, int] = {}
        below: dict[Monomial, int] = {}
        ties: list[Monomial] = []
        width: Bound = 0
        for m, k in rest.items():
            quotient, remainder = divmod(k, g)
            if 2 * remainder > g:
                quotient += 1
                remainder -= g
            elif 2 * remainder == g and len(ties) < MOST_TIES:
                ties.append(m)
            if quotient:
                above[m] = quotient
            if remainder:
                below[m] = remainder
                if plain:
                    width += abs(remainder) * (m.high - m.low)
                    if width >= g:
                        break
        if width >= g or (g != d and not above):
            continue
        splits = [(above, below), *_flipped(above, below, ties, g)] if ties else [(above, below)]
        result = _drop_lower_part(arena, constant, rest, d, g, splits)
        if result is not None:
            return result
    return None


def _drop_lower_part(
    arena: Arena, constant: int, rest: dict[Monomial, int], d: int, g: int, splits: list[_Split]
) -> Form | None:
    """Return the quotient by the first split whose lower part stays between two multiples of g."""
    for upper, lower in splits:
        multiple = arena.here.bucket(constant, lower, g)
        if multiple is not None:
            result = floor_divide(arena, arena.form(multiple, upper), d // g)
            if arena.budget.steps is not None:
                x, y = arena.form(0, upper), arena.form(constant, lower)
                whole = Quotient(arena.form(constant, rest), d)
                _note_bucket(arena, whole, result, x, y, multiple, g)
            return result
    return None


def _candidates(d: int, largest: int, plain: bool) -> list[int]:
    """Return the divisors of d of which the largest coefficient has a multiple, largest first.

    d itself is among them unless no coefficient changes by it: interval arithmetic has shown that
    the sum then reaches the next multiple.
    """
    all_divisors = divisors(d)
    candidates = all_divisors[: bisect_left(all_divisors, 2 * largest)]
    if len(candidates) < len(all_divisors) and (not plain or 2 * largest >= d):
        candidates.append(d)
    candidates.reverse()
    return candidates


def _flipped(
    above: dict[Monomial, int], below: dict[Monomial, int], ties: list[Monomial], g: int
) -> Iterator[_Split]:
    """Yield the splits with a remainder of -g/2 instead of g/2 at some of the ties."""
    for flips in product((False, True), repeat=len(ties)):
        if any(flips):
            upper, lower = dict(above), dict(below)
            for m in compress(ties, flips):
                merge(upper, {m: 1}, 1)
                lower[m] -= g
            yield upper, lower


def _known(arena: Arena, constant: int, rest: dict[Monomial, int], d: int) -> Form | None:
    """Express the quotient by an earlier quotient q by d, if k·d <= numerator - d·q < (k+1)·d."""
    support = 0
    for m in rest:
        support |= m.support
    for q in arena.by_divisor.get(d, [])[-MOST_KNOWN:]:
        if q.support & support:
            difference = dict(rest)
            merge(difference, {q: 1}, -d)
            k = arena.here.bucket(constant, difference, d)
            if k is not None:
                result = arena.form(k, {q: 1})
                if arena.budget.steps is not None:
                    whole = Quotient(arena.form(constant, rest), d)
                    y = arena.form(constant, difference)
                    _note_bucket(arena, whole, result, arena.of(q), y, k, d)
                return result
    return None


def _flatten(arena: Arena, constant: int, rest: dict[Monomial, int], d: int) -> Form | None:
    """Merge a floor inside of a floor into one."""
    inner = [m for m, k in rest.items() if k == 1 and m.divisor]
    if not inner:
        return None
    m = inner[0] if len(inner) == 1 else min(inner, key=lambda m: m.rank)
    e = m.divisor
    assert m.numerator is not None
    terms = {n: k * e for n, k in rest.items() if n is not m}
    merge(terms, m.numerator.terms, 1)
    numerator = arena.form(constant * e + m.numerator.constant, terms)
    result = floor_divide(arena, numerator, e * d)
    if arena.budget.steps is not None:
        others = arena.form(constant, {n: k for n, k in rest.items() if n is not m})
        bindings = bind(x=m.numerator, c0=e, y=others, c1=d)
        before = Quotient(arena.form(constant, rest), d)
        arena.here.note("quotient-flatten", before, result, bindings)
    return result


LEMMAS = (_remainder, _known, _flatten)


def divisors(d: int) -> list[int]:
    """Return the divisors of d except 1, smallest first; for a huge d only d itself."""
    result = _divisors.get(d)
    if result is None:
        small = [i for i in range(1, int(d**0.5) + 1) if d % i == 0] if d < 1 << 40 else [1]
        result = sorted({*small, *(d // i for i in small)} - {1})
        if len(_divisors) > 10_000:
            _divisors.clear()
        _divisors[d] = result
    return result


# -- division by a form ----------------------------------------------------------------------------


def divide_by_form(arena: Arena, a: Form, divisor: Form) -> Form:
    """Return floor(a / divisor) for a divisor that may not be a constant.

    Multiples of the divisor come out, and common factors cancel. The quotient of the rest is a
    constant if that follows from the bounds of both, or if the rest is proved to lie between two
    adjacent multiples.
    """
    if divisor.is_constant and divisor.constant:
        if divisor.constant > 0:
            return floor_divide(arena, a, divisor.constant)
        opposite = arena.scale(a, -1)
        result = floor_divide(arena, opposite, -divisor.constant)
        if arena.budget.steps is not None:
            terms = bind(x=opposite, y=-divisor.constant, z=-1)
            arena.here.note("quotient-common-form", Quotient(a, divisor), result, terms)
        return result
    outside, rest = _multiples_of(arena, a, divisor)
    if not rest.terms and not rest.constant:
        _note_multiples(arena, Quotient(a, divisor), outside, outside, rest)
        return outside
    here = arena.here
    constant = _constant_quotient(here.interval(rest), here.interval(divisor))
    if constant is not None:
        if arena.budget.steps is not None:
            here.note("quotient-one-bucket-form", Quotient(rest, divisor), constant, {})
        result = arena.add(outside, arena.constant(constant))
        _note_multiples(arena, Quotient(a, divisor), result, outside, rest)
        return result
    positive = here.at_least(divisor, 1)
    proper = _proper_rest(arena, rest, divisor) if positive else None
    if proper is not None:
        k, moved = proper
        outside = arena.add(outside, arena.constant(k))
        _note_multiples(arena, Quotient(a, divisor), outside, outside, moved)
        return outside
    smaller = _without_common(arena, rest, divisor, positive)
    if smaller is None:
        inner = arena.of(arena.ratio(rest, divisor))
    else:
        inner = divide_by_form(arena, *smaller)
        if arena.budget.steps is not None:
            here.note("quotient-common-form", Quotient(rest, divisor), inner, {})
    result = arena.add(outside, inner)
    _note_multiples(arena, Quotient(a, divisor), result, outside, rest)
    return result


def _proper_rest(arena: Arena, rest: Form, divisor: Form) -> tuple[int, Form] | None:
    """Return a small k with 0 <= rest - k·divisor < divisor, and that difference; or None."""
    here = arena.here
    for k in (0, -1, 1):
        moved = arena.add(rest, divisor, -k)
        left = arena.add(moved, divisor, -1)
        if here.at_least(moved, 0) and here.at_most(left, -1):
            if arena.budget.steps is not None:
                bindings = bind(x=moved, y=arena.scale(left, -1))
                before = Quotient(moved, divisor)
                here.note("quotient-proper", before, 0, bindings, x=(0, inf), y=(1, inf))
            return k, moved
    return None


def _note_multiples(arena: Arena, before: Quotient, result: Form, x: Form, z: Form) -> None:
    """Record that floor((x·y + z)/y) was simplified, where the divisor y is a form."""
    if arena.budget.steps is not None:
        terms = bind(x=x, y=before.divisor, z=z)
        arena.here.note("quotient-multiples", before, result, terms)


def _constant_quotient(a: Interval, divisor: Interval) -> int | None:
    """Return the floor quotient of any numbers of two intervals; None if there are several.

    It is monotone in numerator and divisor where the divisor does not change its sign, so that the
    quotients at the corners bound all others.
    """
    if -inf in (a[0], divisor[0]) or inf in (a[1], divisor[1]) or divisor[0] <= 0 <= divisor[1]:
        return None
    quotients = {int(x) // int(y) for x in a for y in divisor}
    return quotients.pop() if len(quotients) == 1 else None


def _without_common(
    arena: Arena, a: Form, divisor: Form, positive: bool
) -> tuple[Form, Form] | None:
    """Return numerator and divisor without common factors; None if they have none.

    Factors are a constant, and atoms of every monomial. Where the divisor is positive, the constant
    of the numerator need not be divisible.
    """
    common = gcd(divisor.constant, *divisor.terms.values(), *a.terms.values())
    constant = a.constant
    if not positive:
        common = gcd(common, constant)
    shared: list[Atom] = []
    if not constant and not divisor.constant:
        monomials = [*a.terms, *divisor.terms]
        for atom in monomials[0].atoms:
            if all(m.atoms.count(atom) > shared.count(atom) for m in monomials):
                shared.append(atom)
    if common == 1 and not shared:
        return None
    return (
        _divide_exactly(
            arena, arena.form(constant // common * common, dict(a.terms)), common, shared
        ),
        _divide_exactly(arena, divisor, common, shared),
    )


def _divide_exactly(arena: Arena, a: Form, common_factor: int, atoms: list[Atom]) -> Form:
    """Return a form divided by a number and some atoms, which divide every term."""
    constant = a.constant // common_factor
    terms: dict[Monomial, int] = {}
    for m, k in a.terms.items():
        remaining = without_atoms(m.atoms, tuple(atoms))
        assert remaining is not None
        if remaining:
            terms[arena.monomial(*remaining)] = k // common_factor
        else:
            constant += k // common_factor
    return arena.form(constant, terms)


def _multiples_of(arena: Arena, a: Form, divisor: Form) -> tuple[Form, Form]:
    """Return A and R with a = divisor·A + R; A is 0 unless the divisor is one monomial."""
    if len(divisor.terms) != 1 or divisor.constant:
        return arena.constant(0), a
    ((monomial, factor),) = divisor.terms.items()
    constant = 0
    multiples: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for m, k in a.terms.items():
        left = without_atoms(m.atoms, monomial.atoms) if k % factor == 0 else None
        if left is None:
            rest[m] = k
        elif left:
            merge(multiples, {arena.monomial(*left): k // factor}, 1)
        else:
            constant += k // factor
    return arena.form(constant, multiples), arena.form(a.constant, rest)


def without_atoms(atoms: tuple[Atom, ...], part: tuple[Atom, ...]) -> list[Atom] | None:
    """Return the factors of a product without some of them; None if one of these is missing."""
    left = list(atoms)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return left
