"""Steps: what the normal form did, each step as an instance of the lemma that it rests on.

Where `Budget.steps` is a list, each step adds itself: which lemma it used, what the holes of the
lemma are bound to, which bounds its premises rest on, which facts hold there, and what was
rewritten into what. `porism.prove.lemma_instances` checks such an instance against the lemma as it
is stated and proved. Otherwise a step costs a look at an attribute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from porism.ir.facts.intervals import Bound
from porism.ir.node import UOp
from porism.rules.index.linear_form import Clause, Form, Interval


class Quotient(NamedTuple):
    """floor(numerator / divisor)"""

    numerator: Form
    divisor: Form | int


class Within(NamedTuple):
    """low <= form <= high"""

    form: Form
    low: Bound
    high: Bound


Term = Form | Quotient | Within | Clause | UOp | int
"""A value, or a condition, as the normal form has it."""


Bindings = Mapping[str, Form | int]


def bind(**terms: Form | int) -> Bindings:
    """What the holes of a lemma are bound to."""
    return terms


class Step(NamedTuple):
    """An instance of a lemma."""

    lemma: str
    before: Term
    after: Term
    terms: Bindings
    """What the holes of the lemma are bound to; empty where a sum is read by all of the ring."""
    bounds: Mapping[str, Interval]
    """The bounds of holes that the guard of the lemma asks for."""
    facts: tuple[Form, ...]
    """The forms that are at most 0 where the step was taken."""
