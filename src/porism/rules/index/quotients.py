"""Quotients: the theorems about floor(form / d), tried in the order of `THEOREMS`.

| theorem    | statement                                                                        |
|------------|----------------------------------------------------------------------------------|
| multiples  | floor((d·A + R)/d) = A + floor(R/d)                                              |
| common     | floor((g·X + k)/(g·m)) = floor((X + floor(k/g))/m)                               |
| remainder  | k·g <= Y < (k+1)·g  implies  floor((g·X + Y)/(g·m)) = floor((X + k)/m)           |
| known      | k·d <= F - d·q < (k+1)·d  implies  floor(F/d) = q + k                            |
| flatten    | floor((floor(M/e) + F)/d) = floor((M + e·F)/(e·d))                               |

Each lowers the divisor, the number of terms or the nesting, so they come to an end without a loop
to a fixed point. Results are remembered by form and divisor. Each is stated as a rule in `laws.py`,
and proved from that.
"""

from __future__ import annotations

from itertools import product
from math import gcd

from porism.rules.index.arena import Arena, merge
from porism.rules.index.form import Atom, Form, Monomial

MOST_KNOWN = 32  # quotients by one divisor that a new one is compared with, the latest ones
MOST_TIES = 3  # residues of half the divisor whose sign is tried both ways
_divisors: dict[int, list[int]] = {}


def floor_divide(arena: Arena, a: Form, d: int) -> Form:
    """floor(a / d) for d > 0."""
    if d == 1:
        return a
    if a.is_constant:
        return arena.constant(a.constant // d)
    key = (a, d)
    found = arena.quotients.get(key)
    if found is None:
        found = arena.quotients[key] = _floor_divide(arena, a, d)
    return found


def modulo(arena: Arena, a: Form, d: int) -> Form:
    """a % d for d > 0."""
    return arena.add(a, floor_divide(arena, a, d), -d)


def _floor_divide(arena: Arena, a: Form, d: int) -> Form:
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    common = d
    for m, k in a.terms.items():
        quotient, remainder = divmod(k, d)
        if quotient:
            whole[m] = quotient
        if remainder:
            rest[m] = remainder
            common = gcd(common, remainder)
    quotient, constant = divmod(a.constant, d)
    outside = arena.form(quotient, whole)
    if not rest:
        return _step(arena, "quotient-multiples", a, d, outside)
    if common > 1:
        reduced = arena.form(constant // common, {m: k // common for m, k in rest.items()})
        inner = floor_divide(arena, reduced, d // common)
        return _step(arena, "quotient-common", a, d, arena.add(outside, inner))
    for law, theorem in THEOREMS:
        inside = theorem(arena, constant, rest, d)
        if inside is not None:
            return _step(arena, law, a, d, arena.add(outside, inside))
    atom = arena.floor(arena.form(constant, rest), d)
    result = arena.add(outside, arena.of(atom))
    return _step(arena, "quotient-multiples", a, d, result) if whole or quotient else result


def _step(arena: Arena, name: str, a: Form, d: int, result: Form) -> Form:
    if arena.steps is not None:
        arena.steps.append((name, a, d, result))
    return result


# -- theorems on constant + rest, with coefficients between 0 and d that have no common divisor ----


def _remainder(arena: Arena, constant: int, rest: dict[Monomial, int], d: int) -> Form | None:
    """Drop a part that never reaches the next multiple of a divisor of d.

    Each coefficient is split into a multiple of g and what is nearest to zero, which makes the part
    to be dropped as small as it can be.
    """
    for g in divisors(d):
        above: dict[Monomial, int] = {}
        below: dict[Monomial, int] = {}
        ties: list[Monomial] = []
        for m, k in rest.items():
            quotient, remainder = divmod(k, g)
            if 2 * remainder > g:
                quotient += 1
                remainder -= g
            elif 2 * remainder == g:
                ties.append(m)
            if quotient:
                above[m] = quotient
            if remainder:
                below[m] = remainder
        if g != d and not above:
            continue
        for flips in product((False, True), repeat=min(len(ties), MOST_TIES)):
            upper, lower = above, below
            if any(flips):
                upper, lower = dict(above), dict(below)
                for m, flip in zip(ties, flips, strict=False):
                    if flip:
                        merge(upper, {m: 1}, 1)
                        lower[m] -= g
            multiple = arena.bucket(constant, lower, g)
            if multiple is not None:
                return floor_divide(arena, arena.form(multiple, upper), d // g)
    return None


def _known(arena: Arena, constant: int, rest: dict[Monomial, int], d: int) -> Form | None:
    """The quotient is one that was met before, written over another numerator."""
    support = 0
    for m in rest:
        support |= m.support
    for q in arena.by_divisor.get(d, [])[-MOST_KNOWN:]:
        if q.support & support:
            difference = dict(rest)
            merge(difference, {arena.monomial(q): 1}, -d)
            k = arena.bucket(constant, difference, d)
            if k is not None:
                return arena.form(k, {arena.monomial(q): 1})
    return None


def _flatten(arena: Arena, constant: int, rest: dict[Monomial, int], d: int) -> Form | None:
    """A floor inside a floor becomes one floor."""
    inner = [m for m, k in rest.items() if k == 1 and m.floor is not None]
    if not inner:
        return None
    m = inner[0] if len(inner) == 1 else min(inner, key=lambda m: m.rank)
    q = m.floor
    assert q is not None
    assert q.numerator is not None
    e = q.divisor
    terms = {n: k * e for n, k in rest.items() if n is not m}
    merge(terms, q.numerator.terms, 1)
    numerator = arena.form(constant * e + q.numerator.constant, terms)
    return floor_divide(arena, numerator, e * d)


# the law that each rests on; a known quotient is a remainder that stays in one bucket
THEOREMS = (
    ("quotient-remainder", _remainder),
    ("quotient-remainder", _known),
    ("quotient-flatten", _flatten),
)


def divisors(d: int) -> list[int]:
    """The divisors of d but 1, largest first; for a huge d only d itself."""
    found = _divisors.get(d)
    if found is None:
        small = [i for i in range(1, int(d**0.5) + 1) if d % i == 0] if d < 1 << 40 else [1]
        found = sorted({*small, *(d // i for i in small)} - {1}, reverse=True)
        if len(_divisors) > 10_000:
            _divisors.clear()
        _divisors[d] = found
    return found


# -- division by a form ----------------------------------------------------------------------------


def divide_by_form(arena: Arena, a: Form, over: Form) -> Form:
    """floor(a / over) for a divisor that is not a constant.

    Multiples of the divisor come out; what is left is a known quotient if it is proved to lie
    between two neighbouring multiples.
    """
    if over.is_constant and over.constant:
        if over.constant > 0:
            return floor_divide(arena, a, over.constant)
        return floor_divide(arena, arena.scale(a, -1), -over.constant)
    outside, rest = _multiples_of(arena, a, over)
    if arena.interval(over)[0] >= 1:
        for k in (0, -1, 1):
            moved = arena.add(rest, over, -k)
            if arena.interval(moved)[0] >= 0 and arena.interval(arena.add(moved, over, -1))[1] < 0:
                return arena.add(outside, arena.constant(k))
    return arena.add(outside, arena.of(arena.ratio(rest, over)))


def _multiples_of(arena: Arena, a: Form, over: Form) -> tuple[Form, Form]:
    """A and R with a = over·A + R, where the divisor is one monomial."""
    if len(over.terms) != 1 or over.constant:
        return arena.constant(0), a
    ((divisor, factor),) = over.terms.items()
    constant = 0
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for m, k in a.terms.items():
        left = _without(m.atoms, divisor.atoms) if k % factor == 0 else None
        if left is None:
            rest[m] = k
        elif left:
            merge(whole, {arena.monomial(*left): k // factor}, 1)
        else:
            constant += k // factor
    return arena.form(constant, whole), arena.form(a.constant, rest)


def _without(atoms: tuple[Atom, ...], part: tuple[Atom, ...]) -> list[Atom] | None:
    left = list(atoms)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return left
