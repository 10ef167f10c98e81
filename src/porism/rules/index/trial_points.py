"""Points: trial values of the leaves, at which forms are computed before proofs are looked for.

A search for a proof that finds none has looked everywhere, and most searches find none: a part of a
sum that could be dropped can be at few divisors only. A form whose value at two points lies in two
buckets lies in no single one, and that costs a few additions to see.

Points only ever say no. Where they say nothing, the proof decides.
"""

from __future__ import annotations

from math import inf, prod
from operator import add
from random import Random
from typing import TYPE_CHECKING, Final

from porism.ir.facts.intervals import Bound

if TYPE_CHECKING:
    from porism.rules.index.linear_form import Atom, Form, Terms

COUNT: Final = 10
ALL: Final = range(COUNT)
CORNERS: Final = 6  # of them with every leaf at one of its ends; the first two at the same
FAR: Final = 1 << 16  # how far from zero, or from its other end, a leaf without an end is tried
PATTERNS: Final = 64  # leaves beyond this many get values by a pattern that was used before

Values = tuple[int, ...]


def _pattern(number: int) -> Values:
    """How far each point is from the low end, to be taken modulo the width; -1 is the high end."""
    random = Random(number)
    corners = [random.choice((0, -1)) for _ in range(CORNERS - 2)]
    return (0, -1, *corners, *(random.getrandbits(64) for _ in range(COUNT - CORNERS)))


_patterns: Final = [_pattern(number) for number in range(PATTERNS)]


def of_leaf(number: int, low: Bound, high: Bound) -> Values:
    """Values within the bounds of the leaf with this number."""
    if low == -inf:
        low = -FAR if high == inf else high - FAR
    if high == inf:
        high = low + FAR
    least, width = int(low), int(high) - int(low) + 1
    return tuple([least + s % width for s in _patterns[number % PATTERNS]])


def of_product(atoms: tuple[Atom, ...]) -> Values:
    return tuple(map(prod, zip(*(atom.values for atom in atoms), strict=True)))


def of_sum(constant: int, terms: Terms) -> list[int]:
    values = [constant] * COUNT
    for m, k in terms.items():
        if k == 1:
            values = list(map(add, values, m.values))
        else:
            values = [value + k * v for value, v in zip(values, m.values, strict=True)]
    return values


def of_floor(numerator: Form, divisor: int) -> Values:
    return tuple([value // divisor for value in numerator.values])


def of_ratio(numerator: Form, over: Form) -> Values:
    """Where the divisor is zero, any value will do: nothing is claimed of such a point."""
    pairs = zip(numerator.values, over.values, strict=True)
    return tuple([a // b if b else 0 for a, b in pairs])
