"""Lemma steps: each rewrite of the normal form as an instance of the lemma that justifies it.

Where `Budget.steps` is a list, each step is appended: its lemma, the bindings of the lemma's holes,
the bounds that it used, the facts in scope, and the terms before and after.
`porism.prove.lemma_instances` checks such an instance against the lemma as it is stated and proved.
Otherwise recording costs one test of an attribute.
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
"""A value or a condition of the normal form."""


Bindings = Mapping[str, Form | int]


def bind(**terms: Form | int) -> Bindings:
    """Return bindings of the holes of a lemma."""
    return terms


class Step(NamedTuple):
    """An instance of a lemma."""

    lemma: str
    before: Term
    after: Term
    terms: Bindings
    """The bindings of the lemma's holes; empty where a sum is read by the ring axioms."""
    bounds: Mapping[str, Interval]
    """The bounds of holes that the guard of the lemma refers to."""
    facts: tuple[Form, ...]
    """The facts in scope, as forms that are <= 0."""
