"""Arena: where the forms of one expression live, with all that is remembered of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, inf

from porism.ir import ops
from porism.ir.bounds import Bound, floor_quotient
from porism.ir.node import UOp
from porism.ir.walk import toposort
from porism.rules.index.form import Atom, Form, Interval, Monomial, Terms

DEEPEST = 2
"""How many quotients may be eliminated, one after the other, to bound a form."""

MOST_ELIMINATIONS = 20_000
"""How often a quotient or a fact may be used for one expression; then plain intervals must do."""

FACTS_AT_ONCE = 1
"""How many facts may be combined to bound a form."""

Step = tuple[str, Form, int, Form]
"""A theorem's name, the numerator and divisor it was applied to, and the result."""


class Arena:
    """Makes forms; knows the facts that hold, and the intervals they imply."""

    def __init__(self, names: Sequence[UOp] = ()) -> None:
        self._forms: dict[tuple[int, frozenset[tuple[Monomial, int]]], Form] = {}
        self._monomials: dict[tuple[Atom, ...], Monomial] = {}
        self._leaves: dict[UOp, Atom] = {}
        self._floors: dict[tuple[Form, int], Atom] = {}
        self._ratios: dict[tuple[Form, Form], Atom] = {}
        self._bits: dict[UOp, int] = {}
        self._supports: dict[UOp, int] = {}
        self.quotients: dict[tuple[Form, int], Form] = {}  # of this epoch
        self.by_divisor: dict[int, list[Atom]] = {}  # floors met, by their divisor
        self.always: tuple[Form, ...] = ()  # forms that are at most 0 everywhere
        self.facts: tuple[Form, ...] = ()  # those, and what holds here
        self.narrowed: dict[Monomial, Interval] = {}  # by facts about one monomial
        self._intervals: dict[frozenset[tuple[Monomial, int]], tuple[int, Interval]] = {}
        self.epoch = 0
        self.steps: list[Step] | None = None
        self.eliminations = MOST_ELIMINATIONS

    # -- making forms ------------------------------------------------------------------------------

    def form(self, constant: int, terms: dict[Monomial, int]) -> Form:
        key = (constant, frozenset(terms.items()))
        found = self._forms.get(key)
        if found is None:
            found = self._forms[key] = Form(constant, terms, len(self._forms))
        return found

    def constant(self, value: int) -> Form:
        return self.form(value, {})

    def monomial(self, *atoms: Atom) -> Monomial:
        ordered = atoms if len(atoms) == 1 else tuple(sorted(atoms, key=lambda a: a.rank))
        found = self._monomials.get(ordered)
        if found is None:
            found = self._monomials[ordered] = Monomial(ordered)
        return found

    def of(self, atom: Atom) -> Form:
        return self.form(0, {self.monomial(atom): 1})

    def add(self, a: Form, b: Form, times: int = 1) -> Form:
        """a + times·b"""
        if not b.terms and not b.constant:
            return a
        terms = dict(a.terms)
        merge(terms, b.terms, times)
        return self.form(a.constant + times * b.constant, terms)

    def scale(self, a: Form, factor: int) -> Form:
        if factor == 1:
            return a
        if factor == 0:
            return self.constant(0)
        return self.form(a.constant * factor, {m: k * factor for m, k in a.terms.items()})

    def multiply(self, a: Form, b: Form) -> Form:
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
        """A node that arithmetic does not look into."""
        atom = self._leaves.get(node)
        if atom is None:
            atom = Atom((0, node.order), self._support_of(node), node.vmin, node.vmax)
            atom.node = node
            self._leaves[node] = atom
        return self.of(atom)

    def _support_of(self, root: UOp) -> int:
        """A bit for each leaf below a node."""
        known = self._supports
        for node in toposort(root, within=lambda n: n not in known):
            support = 0
            if node.op is ops.RANGE or (not node.src and node.op is not ops.CONST):
                support = self._bits.setdefault(node, 1 << len(self._bits))
            for s in node.src:
                support |= known[s]
            known[node] = support
        return known[root]

    def floor(self, numerator: Form, divisor: int) -> Atom:
        """The atom floor(numerator / divisor), which no theorem simplifies."""
        key = (numerator, divisor)
        atom = self._floors.get(key)
        if atom is None:
            low, high = self.interval_everywhere(numerator)
            rank = (1, divisor, *self._rank(numerator))
            support = _support(numerator)
            atom = Atom(rank, support, floor_quotient(low, divisor), floor_quotient(high, divisor))
            atom.numerator, atom.divisor = numerator, divisor
            self._floors[key] = atom
            self.by_divisor.setdefault(divisor, []).append(atom)
        return atom

    def ratio(self, numerator: Form, over: Form) -> Atom:
        """The atom floor(numerator / over) for a divisor that is not a constant."""
        key = (numerator, over)
        atom = self._ratios.get(key)
        if atom is None:
            low, high = self.interval_everywhere(numerator)
            least, most = self.interval_everywhere(over)
            ends: list[Bound] = [-inf, inf]
            if least >= 1:
                ends = [floor_quotient(a, b) for a in (low, high) for b in (least, most)]
            rank = (2, *self._rank(numerator), *self._rank(over))
            support = _support(numerator) | _support(over)
            atom = Atom(rank, support, min(ends), max(ends))
            atom.numerator, atom.over = numerator, over
            self._ratios[key] = atom
        return atom

    def _rank(self, a: Form) -> tuple[int, ...]:
        ranks = [hash((m.rank, a.terms[m])) for m in a.terms]
        return (len(ranks), a.constant, *sorted(ranks))

    # -- what is known -----------------------------------------------------------------------------

    def assume_everywhere(self, facts: Sequence[Form]) -> None:
        """These forms are at most 0, wherever the expression is looked at."""
        self.always = tuple(facts)
        self.assume(())

    def assume(self, facts: Sequence[Form]) -> None:
        """Until the next call these forms are at most 0, too."""
        self.facts = tuple(dict.fromkeys((*self.always, *facts)))
        self.epoch += 1
        self.quotients = {}
        self._intervals = {}
        self.narrowed = {}
        for fact in self.facts:
            if len(fact.terms) == 1:
                ((m, k),) = fact.terms.items()
                low, high = self.narrowed.get(m, (m.low, m.high))
                if k > 0:
                    high = min(high, -fact.constant // k)
                else:
                    low = max(low, -(fact.constant // k))
                if low <= high:
                    self.narrowed[m] = (low, high)

    def interval(self, a: Form) -> Interval:
        """An interval that contains the form's value wherever the facts hold."""
        if a.epoch != self.epoch:
            low, high = self._interval(a.terms, DEEPEST)
            a.cached = (low + a.constant, high + a.constant)
            a.epoch = self.epoch
        return a.cached

    def interval_everywhere(self, a: Form) -> Interval:
        """The same without what holds only here: what an atom may be given for good."""
        if self.facts == self.always:
            return self.interval(a)
        here = self.facts, self.narrowed, self._intervals
        self.facts, self.narrowed, self._intervals = self.always, {}, {}
        low, high = self._interval(a.terms, DEEPEST)
        self.facts, self.narrowed, self._intervals = here
        return low + a.constant, high + a.constant

    def bucket(self, constant: int, terms: Terms, size: int) -> int | None:
        """The k with k·size <= form < (k+1)·size, if there is one; looks no deeper than needed."""
        low, high = self._plain(terms)
        for depth in range(1, DEEPEST + 2):
            if low != -inf and high != inf:
                k = int(low + constant) // size
                if int(high + constant) // size == k:
                    return k
            if depth > DEEPEST or not (self.facts or any(m.floor for m in terms)):
                return None
            low, high = self._interval(terms, depth)
        return None

    def _interval(self, terms: Terms, depth: int) -> Interval:
        """The interval of a form without its constant, looked for to some depth and remembered."""
        key = frozenset(terms.items())
        found = self._intervals.get(key)
        if found is None:
            found = (0, self._plain(terms))
        done, known = found
        if done < depth:
            known = self._improved(terms, known, depth, FACTS_AT_ONCE)
            self._intervals[key] = (depth, known)
        return known

    def _plain(self, terms: Terms) -> Interval:
        """The interval of monomials that are independent of each other."""
        low: Bound = 0
        high: Bound = 0
        narrowed = self.narrowed
        for m, k in terms.items():
            least, most = m.low, m.high
            if narrowed and m in narrowed:
                least, most = narrowed[m]
            if k > 0:
                low += k * least
                high += k * most
            else:
                low += k * most
                high += k * least
        return low, high

    def _improved(self, terms: Terms, known: Interval, depth: int, facts: int) -> Interval:
        """A better interval, by eliminating quotients and using facts.

        A quotient q = floor(M/e) satisfies e·q = M - r with 0 <= r < e. Putting (M - r)/e in its
        place makes what M has in common with the rest of the form cancel.
        """
        low, high = known
        if low >= high or self.eliminations <= 0:
            return known
        if len(terms) > 1:
            for monomial, k in terms.items():
                q = monomial.floor
                if q is None or not _shares(terms, monomial):
                    continue
                self.eliminations -= 1
                numerator, e = q.numerator, q.divisor
                assert numerator is not None
                common = gcd(e, k)
                scale, times = e // common, k // common
                rest = {m: c * scale for m, c in terms.items()} if scale > 1 else dict(terms)
                del rest[monomial]
                merge(rest, numerator.terms, times)
                least, most = self._plain(rest)
                if depth > 1:
                    least, most = self._improved(rest, (least, most), depth - 1, facts)
                shift = times * numerator.constant
                slack = times * (e - 1)
                if slack > 0:
                    least -= slack
                else:
                    most -= slack
                low = max(low, _up(least + shift, scale))
                high = min(high, floor_quotient(most + shift, scale))
        if facts:
            for fact in self.facts:
                low, high = self._by_fact(terms, (low, high), fact, depth, facts)
        return (low, high) if low <= high else known

    def _by_fact(
        self, terms: Terms, known: Interval, fact: Form, depth: int, facts: int
    ) -> Interval:
        """F <= F - t·G for t >= 0 and G <= 0; t is chosen so that a monomial cancels."""
        low, high = known
        for monomial, g in fact.terms.items():
            k = terms.get(monomial)
            if k is None:
                continue
            self.eliminations -= 1
            common = gcd(g, k)
            scale, times = abs(g) // common, abs(k) // common
            upper = (k > 0) == (g > 0)
            if upper:
                times = -times
            rest = {m: c * scale for m, c in terms.items()} if scale > 1 else dict(terms)
            merge(rest, fact.terms, times)
            found = self._plain(rest)
            if depth > 1 or facts > 1:
                found = self._improved(rest, found, max(depth - 1, 1), facts - 1)
            shift = times * fact.constant
            if upper:
                high = min(high, floor_quotient(found[1] + shift, scale))
            else:
                low = max(low, _up(found[0] + shift, scale))
        return low, high


def merge(terms: dict[Monomial, int], more: Terms, factor: int) -> None:
    """Add `factor` times more terms in place."""
    for m, k in more.items():
        total = terms.get(m, 0) + factor * k
        if total:
            terms[m] = total
        else:
            terms.pop(m, None)


def _support(a: Form) -> int:
    support = 0
    for m in a.terms:
        support |= m.support
    return support


def _shares(terms: Terms, monomial: Monomial) -> bool:
    """Whether another monomial depends on a leaf of this one."""
    mine = monomial.support
    return any(m is not monomial and m.support & mine for m in terms)


def _up(bound: Bound, divisor: int) -> Bound:
    return bound if isinstance(bound, float) else -(-bound // divisor)
