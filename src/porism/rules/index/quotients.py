"""Quotients: lemmas about floor(form / d), tried in the order of `THEOREMS`.

| theorem    | statement                                                                        |
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

MOST_KNOWN = 32  # latest quotients by the same divisor that a new one is compared with
MOST_TIES = 3  # remainders of exactly half the divisor that are rounded both ways
_divisors: dict[int, list[int]] = {}


def floor_divide(arena: Arena, a: Form, d: int) -> Form:
    """floor(a / d) for d > 0."""
    if d == 1:
        return a
    if not a.terms:
        return arena.constant(a.constant // d)
    key = (a, d)
    quotients = arena.here.quotients
    found = quotients.get(key)
    if found is None:
        found = quotients[key] = _floor_divide(arena, a, d)
    return found


def _floor_divide(arena: Arena, a: Form, d: int) -> Form:
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    common = d
    quotient, constant = divmod(a.constant, d)
    low: Bound = constant
    high: Bound = constant
    for m, k in a.terms.items():
        times, remainder = divmod(k, d)
        if times:
            whole[m] = times
        if remainder:
            rest[m] = remainder
            common = gcd(common, remainder)
            low += remainder * m.low
            high += remainder * m.high
    outside = arena.form(quotient, dict(whole)) if arena.budget.steps is not None else None
    if low != -inf and high != inf and low // d == high // d:  # the rest never reaches a multiple
        result = arena.form(quotient + int(low // d), whole)
        if outside is not None:
            left = arena.form(constant, rest)
            bound = bind(x=left, c0=d)
            lemma = "quotient-one-bucket"
            found = arena.constant(int(low // d))
            arena.here.note(lemma, Quotient(left, d), found, bound, x=(low, high))
    else:
        inside = _inside(arena, constant, rest, common, d)
        if not whole and not quotient:
            return inside
        merge(whole, inside.terms, 1)
        result = arena.form(quotient + inside.constant, whole)
    if outside is not None:
        terms = bind(x=outside, y=d, z=arena.form(constant, rest))
        arena.here.note("quotient-multiples", Quotient(a, d), result, terms)
    return result


def _inside(arena: Arena, constant: int, rest: dict[Monomial, int], common: int, d: int) -> Form:
    """floor((constant + rest)/d) for coefficients between 0 and d."""
    if common > 1:
        reduced = arena.form(constant // common, {m: k // common for m, k in rest.items()})
        result = floor_divide(arena, reduced, d // common)
        if arena.budget.steps is not None:
            parts = arena.form(0, {m: k // common for m, k in rest.items()})
            before = Quotient(arena.form(constant, rest), d)
            terms = bind(x=parts, c0=common, c1=constant, c2=d)
            arena.here.note("quotient-common", before, result, terms)
        return result
    for theorem in THEOREMS:
        found = theorem(arena, constant, rest, d)
        if found is not None:
            return found
    return arena.of(arena.floor(arena.form(constant, rest), d))


def _note_bucket(
    arena: Arena, whole: Quotient, result: Form, x: Form, y: Form, k: int, g: int
) -> None:
    """floor((g·x + y)/d) where k·g <= y < (k+1)·g."""
    assert isinstance(whole.divisor, int)
    terms = bind(x=x, c0=g, y=y, c1=whole.divisor)
    arena.here.note("quotient-remainder", whole, result, terms, y=(k * g, k * g + g - 1))


# -- theorems on constant + rest, with coefficients between 0 and d that have no common divisor ----


def _remainder(arena: Arena, constant: int, rest: dict[Monomial, int], d: int) -> Form | None:
    """Drop a part that never reaches the next multiple of a divisor of d.

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
        for upper, lower in splits:
            multiple = here.bucket(constant, lower, g)
            if multiple is not None:
                result = floor_divide(arena, arena.form(multiple, upper), d // g)
                if arena.budget.steps is not None:
                    x, y = arena.form(0, upper), arena.form(constant, lower)
                    whole = Quotient(arena.form(constant, rest), d)
                    _note_bucket(arena, whole, result, x, y, multiple, g)
                return result
    return None


def _candidates(d: int, largest: int, plain: bool) -> list[int]:
    """The divisors of d that are so small that the largest coefficient leaves something above.

    And d itself, unless no coefficient changes: their plain sum is known to be in no one bucket.
    """
    found = divisors(d)
    few = found[: bisect_left(found, 2 * largest)]
    if len(few) < len(found) and (not plain or 2 * largest >= d):
        few.append(d)
    few.reverse()
    return few


def _flipped(
    above: dict[Monomial, int], below: dict[Monomial, int], ties: list[Monomial], g: int
) -> Iterator[tuple[dict[Monomial, int], dict[Monomial, int]]]:
    """The splits with a remainder of -g/2 instead of g/2 at some of the ties."""
    for flips in product((False, True), repeat=len(ties)):
        if any(flips):
            upper, lower = dict(above), dict(below)
            for m in compress(ties, flips):
                merge(upper, {m: 1}, 1)
                lower[m] -= g
            yield upper, lower


def _known(arena: Arena, constant: int, rest: dict[Monomial, int], d: int) -> Form | None:
    """The quotient is one that was met before, written over another numerator."""
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
    """A floor inside a floor becomes one floor."""
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
        bound = bind(x=m.numerator, c0=e, y=others, c1=d)
        before = Quotient(arena.form(constant, rest), d)
        arena.here.note("quotient-flatten", before, result, bound)
    return result


THEOREMS = (_remainder, _known, _flatten)


def divisors(d: int) -> list[int]:
    """The divisors of d but 1, smallest first; for a huge d only d itself."""
    found = _divisors.get(d)
    if found is None:
        small = [i for i in range(1, int(d**0.5) + 1) if d % i == 0] if d < 1 << 40 else [1]
        found = sorted({*small, *(d // i for i in small)} - {1})
        if len(_divisors) > 10_000:
            _divisors.clear()
        _divisors[d] = found
    return found


# -- division by a form ----------------------------------------------------------------------------


def divide_by_form(arena: Arena, a: Form, over: Form) -> Form:
    """floor(a / over) for a divisor that is not a constant.

    Multiples of the divisor come out, and what numerator and divisor have in common. What is left
    is a number if all quotients of its bounds are, or if it is proved to lie between two
    neighbouring multiples.
    """
    if over.is_constant and over.constant:
        if over.constant > 0:
            return floor_divide(arena, a, over.constant)
        opposite = arena.scale(a, -1)
        result = floor_divide(arena, opposite, -over.constant)
        if arena.budget.steps is not None:
            terms = bind(x=opposite, y=-over.constant, z=-1)
            arena.here.note("quotient-common-form", Quotient(a, over), result, terms)
        return result
    outside, rest = _multiples_of(arena, a, over)
    if not rest.terms and not rest.constant:
        _note_multiples(arena, Quotient(a, over), outside, outside, rest)
        return outside
    here = arena.here
    constant = _constant_quotient(here.interval(rest), here.interval(over))
    if constant is not None:
        if arena.budget.steps is not None:
            here.note("quotient-one-bucket-form", Quotient(rest, over), constant, {})
        result = arena.add(outside, arena.constant(constant))
        _note_multiples(arena, Quotient(a, over), result, outside, rest)
        return result
    positive = here.at_least(over, 1)
    if positive:
        for k in (0, -1, 1):
            moved = arena.add(rest, over, -k)
            left = arena.add(moved, over, -1)
            if here.at_least(moved, 0) and here.at_most(left, -1):
                if arena.budget.steps is not None:
                    proper = bind(x=moved, y=arena.scale(left, -1))
                    before = Quotient(moved, over)
                    here.note("quotient-proper", before, 0, proper, x=(0, inf), y=(1, inf))
                outside = arena.add(outside, arena.constant(k))
                _note_multiples(arena, Quotient(a, over), outside, outside, moved)
                return outside
    smaller = _without_common(arena, rest, over, positive)
    if smaller is None:
        inner = arena.of(arena.ratio(rest, over))
    else:
        inner = divide_by_form(arena, *smaller)
        if arena.budget.steps is not None:
            here.note("quotient-common-form", Quotient(rest, over), inner, {})
    result = arena.add(outside, inner)
    _note_multiples(arena, Quotient(a, over), result, outside, rest)
    return result


def _note_multiples(arena: Arena, before: Quotient, result: Form, x: Form, z: Form) -> None:
    """floor((x·y + z)/y), where the divisor y is a form."""
    if arena.budget.steps is not None:
        terms = bind(x=x, y=before.divisor, z=z)
        arena.here.note("quotient-multiples", before, result, terms)


def _constant_quotient(a: Interval, over: Interval) -> int | None:
    """The quotient of all numbers within two intervals, if there is only one.

    It is monotone in each of the two as long as the divisor does not change its sign, so that the
    quotients at the corners bound all others.
    """
    if -inf in (a[0], over[0]) or inf in (a[1], over[1]) or over[0] <= 0 <= over[1]:
        return None
    found = {int(x) // int(y) for x in a for y in over}
    return found.pop() if len(found) == 1 else None


def _without_common(arena: Arena, a: Form, over: Form, positive: bool) -> tuple[Form, Form] | None:
    """Numerator and divisor without what divides both: a number, or atoms of every monomial.

    Where the divisor is positive, a constant of the numerator need not be divisible.
    """
    common = gcd(over.constant, *over.terms.values(), *a.terms.values())
    constant = a.constant
    if not positive:
        common = gcd(common, constant)
    shared: list[Atom] = []
    if not constant and not over.constant:
        monomials = [*a.terms, *over.terms]
        for atom in monomials[0].atoms:
            if all(m.atoms.count(atom) > shared.count(atom) for m in monomials):
                shared.append(atom)
    if common == 1 and not shared:
        return None
    return (
        _divided(arena, arena.form(constant // common * common, dict(a.terms)), common, shared),
        _divided(arena, over, common, shared),
    )


def _divided(arena: Arena, a: Form, number: int, atoms: list[Atom]) -> Form:
    """A form of which every term is divisible by a number and some atoms, without them."""
    constant = a.constant // number
    terms: dict[Monomial, int] = {}
    for m, k in a.terms.items():
        left = without_atoms(m.atoms, tuple(atoms))
        assert left is not None
        if left:
            terms[arena.monomial(*left)] = k // number
        else:
            constant += k // number
    return arena.form(constant, terms)


def _multiples_of(arena: Arena, a: Form, over: Form) -> tuple[Form, Form]:
    """A and R with a = over·A + R, where the divisor is one monomial."""
    if len(over.terms) != 1 or over.constant:
        return arena.constant(0), a
    ((divisor, factor),) = over.terms.items()
    constant = 0
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for m, k in a.terms.items():
        left = without_atoms(m.atoms, divisor.atoms) if k % factor == 0 else None
        if left is None:
            rest[m] = k
        elif left:
            merge(whole, {arena.monomial(*left): k // factor}, 1)
        else:
            constant += k // factor
    return arena.form(constant, whole), arena.form(a.constant, rest)


def without_atoms(atoms: tuple[Atom, ...], part: tuple[Atom, ...]) -> list[Atom] | None:
    """The factors of a product that are left when some are taken away; None if one is missing."""
    left = list(atoms)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return left
