"""Derivation keys: derivations of the normal form that have the same steps have equal keys.

Forms belong to the simplification of one expression, and are compared by `is` there. Here each gets
a number by its structure, the same one in every simplification.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from porism.rules.index.lemma_steps import Quotient, Step, Within
from porism.rules.index.linear_form import Atom, Clause, Form, Monomial
from porism.rules.index.normalize import Derivation


class Keys:
    """Numbers structures as they are met."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}

    def of(self, done: Derivation) -> Hashable:
        """Return the key of a derivation."""
        return _Derivation(self, done).key

    def number(self, structure: Hashable) -> int:
        """Return the number of a structure: a new one if it was not met before."""
        return self.numbers.setdefault(structure, len(self.numbers))


class _Derivation:
    """The key of one derivation, whose forms and monomials are one object each."""

    def __init__(self, keys: Keys, done: Derivation) -> None:
        self.keys = keys
        self.known: dict[Form | Monomial, int] = {}
        self.key = (done.after, tuple([self.step(step) for step in done.steps]))

    def step(self, step: Step) -> int:
        parts = (
            step.lemma,
            self.term(step.before),
            self.term(step.after),
            tuple([(name, self.term(value)) for name, value in step.terms.items()]),
            tuple(step.bounds.items()),
            tuple([self.form(fact) for fact in step.facts]),
        )
        return self.keys.number(parts)

    def term(self, term: Any) -> Hashable:
        if isinstance(term, Form):
            return "form", self.form(term)
        if isinstance(term, Quotient):
            return "quotient", self.form(term.numerator), self.term(term.divisor)
        if isinstance(term, Within):
            return "within", self.form(term.form), term.low, term.high
        if isinstance(term, Clause):
            return term.relation, self.form(term.form)
        return "itself", term  # a node or a number

    def form(self, a: Form) -> int:
        found = self.known.get(a)
        if found is None:
            terms = frozenset([(self.monomial(m), k) for m, k in a.terms.items()])
            found = self.known[a] = self.keys.number((a.constant, terms))
        return found

    def monomial(self, m: Monomial) -> int:
        found = self.known.get(m)
        if found is None:
            atoms = tuple([self.atom(atom) for atom in m.atoms])
            found = self.known[m] = self.keys.number(("monomial", atoms))
        return found

    def atom(self, atom: Atom) -> Hashable:
        if atom.node is not None:
            return atom.node
        assert atom.numerator is not None
        by = atom.divisor if atom.divisor_form is None else ("form", self.form(atom.divisor_form))
        return "floor", self.form(atom.numerator), by
