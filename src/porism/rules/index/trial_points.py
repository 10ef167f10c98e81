"""Trial points: values of the leaves at which forms are evaluated before a proof is attempted.

Most searches for a proof fail, and a failing search is the most expensive kind. A form whose values
at two points lie in different multiples of a divisor cannot lie in one of them everywhere, and a
few additions show that.

Trial points only refute. Where they do not, the proof decides.
"""

from __future__ import annotations

from math import inf, prod
from operator import add
from random import Random
from typing import TYPE_CHECKING, Final

from porism.ir.facts.intervals import Bound

if TYPE_CHECKING:
    from porism.rules.index.linear_form import Atom, Form, Terms

COUNT: Final = 10  # points; chosen by hand
ALL: Final = range(COUNT)
CORNERS: Final = 6  # points with every leaf at one of its bounds; the first two at the same
FAR: Final = 1 << 16  # distance from zero, or from its other bound, of an unbounded leaf
PATTERNS: Final = 64  # leaves beyond this many reuse the pattern of an earlier one

Values = tuple[int, ...]


def _pattern(number: int) -> Values:
    """Return each point's distance from the lower bound, modulo the width; -1 for the upper."""
    random = Random(number)
    corners = [random.choice((0, -1)) for _ in range(CORNERS - 2)]
    return (0, -1, *corners, *(random.getrandbits(64) for _ in range(COUNT - CORNERS)))


_patterns: Final = [_pattern(number) for number in range(PATTERNS)]


def of_leaf(number: int, low: Bound, high: Bound) -> Values:
    """Return values within the bounds of the leaf with this number."""
    if low == -inf:
        low = -FAR if high == inf else high - FAR
    if high == inf:
        high = low + FAR
    least, width = int(low), int(high) - int(low) + 1
    return tuple([least + s % width for s in _patterns[number % PATTERNS]])


def of_product(atoms: tuple[Atom, ...]) -> Values:
    return tuple(map(prod, zip(*(atom.values for atom in atoms), strict=True)))


def of_sum(constant: int, terms: Terms) -> list[int]:
    """Return the values of a form at the trial points."""
    values = [constant] * COUNT
    for m, k in terms.items():
        if k == 1:
            values = list(map(add, values, m.values))
        else:
            values = [value + k * v for value, v in zip(values, m.values, strict=True)]
    return values


def of_floor(numerator: Form, divisor: int) -> Values:
    return tuple([value // divisor for value in numerator.values])


def of_ratio(numerator: Form, divisor: Form) -> Values:
    """Return the values of a quotient; any value will do where the divisor is 0."""
    pairs = zip(numerator.values, divisor.values, strict=True)
    return tuple([a // b if b else 0 for a, b in pairs])
