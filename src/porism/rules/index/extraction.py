"""Extraction: forms back to nodes, with `//` and `%` where they are cheapest.

Every floor of the result is one division. A floor with two values is a comparison instead. A floor
that occurs once, beside its own numerator, is a modulo: `x - 8*floor(x/8)` is `x % 8`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp, construct
from porism.ir.ops import Op
from porism.rules.index.conditions import simplify_everywhere
from porism.rules.index.form_arena import Arena
from porism.rules.index.lemma_steps import Quotient, bind
from porism.rules.index.linear_form import Atom, Clause, Form, Monomial
from porism.rules.index.quotients import without_atoms
from porism.rules.index.scoped_facts import merge

Make = Callable[[Op, tuple[UOp, ...]], UOp]
"""Builds a node from an op and its sources."""


def construct_node(op: Op, src: tuple[UOp, ...]) -> UOp:
    """Build a node with the rules that apply at construction."""
    return construct(op, None, src)


class Writer:
    """Converts forms of one arena to nodes; `uses` counts the occurrences of each floor."""

    def __init__(
        self, arena: Arena, uses: dict[Monomial, int], make: Make = construct_node
    ) -> None:
        self.arena = arena
        self.uses = uses
        self.make = make
        self.atoms: dict[Monomial, UOp] = {}
        self.moduli: dict[Monomial, UOp] = {}

    def node(self, a: Form) -> UOp:
        """Return the cheapest node with the form's value."""
        parts: list[tuple[UOp, int]] = []
        terms = dict(a.terms)
        constant = a.constant
        ordered = a.monomials()
        for m in ordered:
            if (m in terms and m.numerator is not None) or len(m.atoms) > 1:
                remainder = self._modulo(m, terms) if m.divisor else self._remainder(m, terms)
                if remainder is not None:
                    node, times, shift = remainder
                    parts.append((node, times))
                    constant += shift
        for m in ordered:
            k = terms.get(m)
            if k is None:
                continue
            if constant and self._absorbs_constant(m, k, constant):
                parts.append((self._shifted(m, constant // k), k))
                constant = 0
                continue
            node, shift = self._product(m)
            parts.append((node, k))
            constant += k * shift
        total = self._sum(parts, constant)
        if self.arena.budget.steps is not None:
            self.arena.here.note("form-combine", a, total, {})
        return total

    def _absorbs_constant(self, q: Monomial, k: int, constant: int) -> bool:
        """Return whether a constant joins the one that the numerator of a quotient has."""
        if not q.divisor or constant % k or self.uses.get(q, 0) > 1:
            return False
        assert q.numerator is not None
        return q.numerator.constant != 0 and not _is_two_valued(q)

    def _shifted(self, q: Monomial, k: int) -> UOp:
        """Return the node of floor(M/d) + k, as floor((M + d*k)/d)."""
        assert q.numerator is not None
        moved = self.arena.add(q.numerator, self.arena.constant(k * q.divisor))
        divisor = UOp.const(dtypes.index, q.divisor)
        quotient = self.make(ops.IDIV, (self.node(moved), divisor))
        if self.arena.budget.steps is not None:
            terms = bind(x=k, y=q.divisor, z=q.numerator)
            before = Quotient(moved, q.divisor)
            self.arena.here.note("quotient-multiples", before, self._plus(q, k), terms)
            self.arena.here.note("quotient-multiples", self._plus(q, k), quotient, {})
        return quotient

    def _plus(self, q: Monomial, k: int) -> Form:
        """Return the form q + k."""
        return self.arena.form(k, {q: 1})

    def _modulo(self, q: Monomial, terms: dict[Monomial, int]) -> tuple[UOp, int, int] | None:
        """Subtract `times * (numerator % divisor)` from the terms, if they contain all of it.

        Return the modulo, `times`, and the constant to be added; None if it is not contained.
        """
        assert q.numerator is not None
        times, rest = divmod(-terms[q], q.divisor)
        if rest or self.uses.get(q, 0) > 1 or _is_two_valued(q):
            return None
        if any(terms.get(n) != times * k for n, k in q.numerator.terms.items()):
            return None
        del terms[q]
        merge(terms, q.numerator.terms, -times)
        if q not in self.moduli:
            divisor = UOp.const(dtypes.index, q.divisor)
            self.moduli[q] = self.make(ops.MOD, (self.node(q.numerator), divisor))
            if self.arena.budget.steps is not None:
                expanded = self.arena.add(q.numerator, self.arena.form(0, {q: 1}), -q.divisor)
                bindings = bind(x=q.numerator, c0=q.divisor)
                self.arena.here.note("form-modulo", self.moduli[q], expanded, bindings)
        return self.moduli[q], times, -times * q.numerator.constant

    def _remainder(self, m: Monomial, terms: dict[Monomial, int]) -> tuple[UOp, int, int] | None:
        """Do the same for a divisor that is a form: (A - D*floor(A/D)) * E is A % D * E.

        `m` is one of the products of the quotient, a monomial of the divisor, and a monomial E.
        """
        if m not in terms:
            return None
        arena = self.arena
        for q in m.atoms:
            numerator, divisor = q.numerator, q.divisor_form
            if numerator is None or divisor is None:
                continue
            if self.uses.get(q, 0) > len(divisor.terms) + (divisor.constant != 0):
                continue  # it is needed elsewhere too
            for part in divisor.terms:
                extra = without_atoms(m.atoms, (q, *part.atoms))
                if extra is None:
                    continue
                scale = arena.of(arena.monomial(*extra)) if extra else arena.constant(1)
                product = arena.multiply(arena.multiply(arena.of(q), divisor), scale)
                whole = arena.multiply(numerator, scale)
                times, left = divmod(-terms[m], product.terms[m])
                if (
                    left
                    or not _contains(terms, whole, times)
                    or not _contains(terms, product, -times)
                ):
                    continue
                merge(terms, product.terms, times)
                merge(terms, whole.terms, -times)
                if q not in self.moduli:
                    src = (self.node(numerator), self.node(divisor))
                    self.moduli[q] = self.make(ops.MOD, src)
                node = self.moduli[q]
                for atom in extra:
                    node = self.make(ops.MUL, (node, self._atom(atom)))
                return node, times, -times * whole.constant
        return None

    def _product(self, m: Monomial) -> tuple[UOp, int]:
        """Return a node and a constant whose sum is the value of a monomial."""
        if _is_two_valued(m):
            return self._indicator(m), int(m.low)
        product: UOp | None = None
        for atom in m.atoms:
            node = self._atom(atom)
            product = node if product is None else self.make(ops.MUL, (product, node))
        assert product is not None
        return product, 0

    def _indicator(self, atom: Monomial) -> UOp:
        """Return a two-valued floor minus its least value: 1 where its numerator is large."""
        choice = self.atoms.get(atom)
        if choice is None:
            assert atom.numerator is not None
            start = atom.divisor * int(atom.high)
            reached = self.arena.add(self.arena.constant(start), atom.numerator, -1)
            clause = simplify_everywhere(self.arena, Clause("<=", reached))
            one, zero = UOp.const(dtypes.index, 1), UOp.const(dtypes.index, 0)
            choice = self.make(ops.WHERE, (self.condition(clause), one, zero))
            self.atoms[atom] = choice
            if self.arena.budget.steps is not None:
                top = self.arena.form(int(atom.high), {atom: -1})
                bindings = bind(x=atom.numerator, c0=atom.divisor, y=int(atom.high))
                start_at = Clause("<=", reached)
                self.arena.here.note("compare-lift-above", Clause("<=", top), start_at, bindings)
                above = self.arena.form(-int(atom.low), {atom: 1})
                self.arena.here.note("compare-lift-above", above, choice, {})
        return choice

    def _atom(self, atom: Atom) -> UOp:
        """Return the node of an atom."""
        if atom.node is not None:
            return atom.node
        if _is_two_valued(atom):
            return self._sum([(self._indicator(atom), 1)], int(atom.low))
        quotient = self.atoms.get(atom)
        if quotient is None:
            assert atom.numerator is not None
            divisor = (
                UOp.const(dtypes.index, atom.divisor)
                if atom.divisor_form is None
                else self.node(atom.divisor_form)
            )
            quotient = self.make(ops.IDIV, (self.node(atom.numerator), divisor))
            self.atoms[atom] = quotient
        return quotient

    def condition(self, clause: Clause) -> UOp:
        """Return a clause as a comparison with the positive terms on the left."""
        comparison = self._condition(clause)
        if self.arena.budget.steps is not None:
            self.arena.here.note("compare-moved", clause, comparison, {})
        return comparison

    def _condition(self, clause: Clause) -> UOp:
        """Return the comparison of the two sides of a clause."""
        left, right, constant = self._sides(clause)
        if clause.relation != "<=":
            op = ops.EQ if clause.relation == "==" else ops.NE
            if not left:
                left, right, constant = right, left, -constant
            low, high = (constant, 0) if constant > 0 else (0, -constant)
            return self.make(op, (self._side_node(left, low), self._side_node(right, high)))
        if not left:  # constant <= right
            src = (UOp.const(dtypes.index, constant), self._side_node(right, 0))
            return self.make(ops.LE, src)
        # left + constant <= right  is  left < right - constant + 1
        src = (self._side_node(left, 0), self._side_node(right, 1 - constant))
        return self.make(ops.LT, src)

    def _sides(self, clause: Clause) -> tuple[_Side, _Side, int]:
        """Return the positive terms, the negated negative ones, and the constant of a clause."""
        terms, constant = dict(clause.form.terms), clause.form.constant
        moduli: list[tuple[UOp, int]] = []
        for m in clause.form.monomials():
            modulo = self._modulo(m, terms) if m.divisor and m in terms else None
            if modulo is not None:
                moduli.append(modulo[:2])
                constant += modulo[2]
        left = _Side({m: k for m, k in terms.items() if k > 0}, [p for p in moduli if p[1] > 0])
        right = _Side(
            {m: -k for m, k in terms.items() if k < 0}, [(n, -k) for n, k in moduli if k < 0]
        )
        return left, right, constant

    def _side_node(self, side: _Side, constant: int) -> UOp:
        """Return one side of a comparison, plus a constant."""
        if not side.moduli:
            return self.node(self.arena.form(constant, side.terms))
        rest = [(self.node(self.arena.form(0, side.terms)), 1)] if side.terms else []
        return self._sum([*side.moduli, *rest], constant)

    def _sum(self, parts: list[tuple[UOp, int]], constant: int) -> UOp:
        """Return a sum of multiples; positive ones first, so that it begins without a minus."""
        make = self.make
        total: UOp | None = None
        for node, times in [p for p in parts if p[1] > 0] + [p for p in parts if p[1] < 0]:
            size = times if total is None else abs(times)
            scaled = node if size == 1 else make(ops.MUL, (node, UOp.const(dtypes.index, size)))
            if total is None:
                total = scaled
            else:
                total = make(ops.ADD if times > 0 else ops.SUB, (total, scaled))
        if total is None:
            return UOp.const(dtypes.index, constant)
        if constant:
            op = ops.ADD if constant > 0 else ops.SUB
            total = make(op, (total, UOp.const(dtypes.index, abs(constant))))
        return total


class _Side(NamedTuple):
    """The terms and the modulos on one side of a comparison."""

    terms: dict[Monomial, int]
    moduli: list[tuple[UOp, int]]

    def __bool__(self) -> bool:
        return bool(self.terms or self.moduli)


def _contains(terms: dict[Monomial, int], a: Form, times: int) -> bool:
    """Return whether all terms of a form, `times` over, are among the terms."""
    return all(terms.get(m) == times * k for m, k in a.terms.items())


def _is_two_valued(m: Monomial) -> bool:
    """Return whether a monomial is a floor with two possible values."""
    return bool(m.divisor) and m.high - m.low == 1


def count_uses(roots: list[Form]) -> dict[Monomial, int]:
    """Return how often each floor occurs in these forms and inside of floors, each counted once."""
    uses: dict[Monomial, int] = {}
    seen: set[Form] = set()
    stack = list(roots)
    while stack:
        a = stack.pop()
        if a in seen:
            continue
        seen.add(a)
        for m in a.terms:
            for atom in m.atoms:
                if atom.numerator is not None:
                    uses[atom] = uses.get(atom, 0) + 1
                    stack.append(atom.numerator)
                    if atom.divisor_form is not None:
                        stack.append(atom.divisor_form)
    return uses
