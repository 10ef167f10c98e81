"""Form arena: interns the forms of one expression, and caches facts about them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from porism.ir import ops
from porism.ir.facts.intervals import Bound, floor_quotient
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rules.index import trial_points
from porism.rules.index.linear_form import Atom, Form, Monomial, Product
from porism.rules.index.scoped_facts import Budget, Scope, merge


class Arena:
    """Creates forms; `here` is the current scope, with the facts that hold in it."""

    def __init__(self) -> None:
        self._forms: dict[tuple[int, frozenset[tuple[Monomial, int]]], Form] = {}
        self._products: dict[tuple[Atom, ...], Product] = {}
        self._leaves: dict[UOp, Atom] = {}
        self._floors: dict[tuple[Form, int], Atom] = {}
        self._ratios: dict[tuple[Form, Form], Atom] = {}
        self._bits: dict[UOp, int] = {}
        self._supports: dict[UOp, int] = {}
        self.by_divisor: dict[int, list[Atom]] = {}  # floors met, by their divisor
        self.budget = Budget()
        self._scopes: dict[tuple[Form, ...], Scope] = {}
        self.here = self.everywhere = self._scope(())

    # -- creating forms ----------------------------------------------------------------------------

    def form(self, constant: int, terms: dict[Monomial, int]) -> Form:
        """Return the form of a constant and terms; none of their coefficients is 0."""
        key = (constant, frozenset(terms.items()))
        interned = self._forms.get(key)
        if interned is None:
            interned = self._forms[key] = Form(constant, terms)
        return interned

    def constant(self, value: int) -> Form:
        """Return the form of a constant."""
        return self.form(value, {})

    def monomial(self, *atoms: Atom) -> Monomial:
        """Return the product of atoms."""
        if len(atoms) == 1:
            return atoms[0]
        ordered = tuple(sorted(atoms, key=lambda a: a.rank))
        interned = self._products.get(ordered)
        if interned is None:
            interned = self._products[ordered] = Product(ordered)
        return interned

    def of(self, monomial: Monomial) -> Form:
        """Return the form of a single monomial."""
        return self.form(0, {monomial: 1})

    def add(self, a: Form, b: Form, times: int = 1) -> Form:
        """Return a + times·b."""
        if not b.terms and not b.constant:
            return a
        terms = dict(a.terms)
        merge(terms, b.terms, times)
        return self.form(a.constant + times * b.constant, terms)

    def scale(self, a: Form, factor: int) -> Form:
        """Return a form times an integer."""
        if factor == 1:
            return a
        if factor == 0:
            return self.constant(0)
        return self.form(a.constant * factor, {m: k * factor for m, k in a.terms.items()})

    def multiply(self, a: Form, b: Form) -> Form:
        """Return the product of two forms, multiplied out."""
        if a.is_constant:
            return self.scale(b, a.constant)
        if b.is_constant:
            return self.scale(a, b.constant)
        terms: dict[Monomial, int] = {}
        merge(terms, a.terms, b.constant)
        merge(terms, b.terms, a.constant)
        for m, j in a.terms.items():
            for n, k in b.terms.items():
                merge(terms, {self.monomial(*m.atoms, *n.atoms): j * k}, 1)
        return self.form(a.constant * b.constant, terms)

    # -- atoms -------------------------------------------------------------------------------------

    def leaf(self, node: UOp) -> Form:
        """Return the form of an opaque node."""
        atom = self._leaves.get(node)
        if atom is None:
            low, high = node.vmin, node.vmax
            values = trial_points.of_leaf(len(self._leaves), low, high)
            support = self._support_of(node)
            atom = Atom((0, node.order), support, low, high, values)
            atom.node = node
            self._leaves[node] = atom
        return self.of(atom)

    def leaves(self) -> Sequence[UOp]:
        """Return the opaque nodes."""
        return list(self._leaves)

    def _support_of(self, root: UOp) -> int:
        """Return a bit mask of the leaves below a node."""
        known = self._supports
        if not root.src and root.op is not ops.CONST:
            return self._bits.setdefault(root, 1 << len(self._bits))
        for node in toposort(root, within=lambda n: n not in known):
            support = 0
            if node.op is ops.RANGE or (not node.src and node.op is not ops.CONST):
                support = self._bits.setdefault(node, 1 << len(self._bits))
            for s in node.src:
                support |= known[s]
            known[node] = support
        return known[root]

    def floor(self, numerator: Form, divisor: int) -> Atom:
        """Return the atom floor(numerator / divisor), which no lemma simplifies."""
        key = (numerator, divisor)
        atom = self._floors.get(key)
        if atom is None:
            low, high = self.everywhere.interval(numerator)
            low, high = floor_quotient(low, divisor), floor_quotient(high, divisor)
            rank = (1, divisor, *self._rank(numerator))
            values = trial_points.of_floor(numerator, divisor)
            support = _support(numerator)
            atom = Atom(rank, support, low, high, values)
            atom.numerator, atom.divisor = numerator, divisor
            self._floors[key] = atom
            self.by_divisor.setdefault(divisor, []).append(atom)
        return atom

    def ratio(self, numerator: Form, divisor: Form) -> Atom:
        """Return the atom floor(numerator / divisor) for a divisor that is not a constant."""
        key = (numerator, divisor)
        atom = self._ratios.get(key)
        if atom is None:
            low, high = self.everywhere.interval(numerator)
            least, most = self.everywhere.interval(divisor)
            ends: list[Bound] = [-inf, inf]
            if least >= 1:
                ends = [floor_quotient(a, b) for a in (low, high) for b in (least, most)]
            rank = (2, *self._rank(numerator), *self._rank(divisor))
            support = _support(numerator) | _support(divisor)
            values = trial_points.of_ratio(numerator, divisor)
            atom = Atom(rank, support, min(ends), max(ends), values)
            atom.numerator, atom.divisor_form = numerator, divisor
            self._ratios[key] = atom
        return atom

    def _rank(self, a: Form) -> tuple[int, ...]:
        """Return a key of a form that depends on its structure alone."""
        ranks = [hash((m.rank, a.terms[m])) for m in a.terms]
        return (len(ranks), a.constant, *sorted(ranks))

    # -- facts -------------------------------------------------------------------------------------

    def assume_everywhere(self, facts: Sequence[Form]) -> None:
        """Assume for the whole expression that these forms are <= 0."""
        self.here = self.everywhere = self._scope(facts)

    def assume(self, facts: Sequence[Form]) -> None:
        """Assume in addition that these forms are <= 0, until the next call."""
        self.here = self._scope((*self.everywhere.facts, *facts))

    def _scope(self, facts: Sequence[Form]) -> Scope:
        """Return the scope of these facts; one object for equal facts."""
        key = tuple(dict.fromkeys(facts))
        scope = self._scopes.get(key)
        if scope is None:
            scope = self._scopes[key] = Scope(key, self.budget)
        return scope


def _support(a: Form) -> int:
    support = 0
    for m in a.terms:
        support |= m.support
    return support
