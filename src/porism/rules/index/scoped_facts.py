"""Scoped facts: the facts that hold in one part of an expression, and the intervals they imply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, inf

from porism.ir.facts.intervals import Bound, floor_quotient
from porism.ir.node import UOp
from porism.rules.index import trial_points
from porism.rules.index.lemma_steps import Bindings, Step, Term, Within, bind
from porism.rules.index.linear_form import Form, Interval, Monomial, Terms

DEEPEST = 2
"""How many quotients may be eliminated, one after the other, to bound a form; chosen by hand."""

MOST_ELIMINATIONS = 20_000
"""How often a quotient or a fact may be used for one expression; then plain intervals must do."""

FACTS_AT_ONCE = 1
"""How many facts may be combined to bound a form; chosen by hand."""


@dataclass(slots=True)
class Budget:
    """The eliminations that are left for one expression, and the steps that were recorded."""

    eliminations: int = MOST_ELIMINATIONS
    steps: list[Step] | None = None
    """The steps that were taken; None unless they are recorded."""


class Scope:
    """Facts (forms that are <= 0), with caches of what they imply."""

    def __init__(self, facts: tuple[Form, ...], budget: Budget) -> None:
        self.facts = facts
        self.budget = budget
        self.forms: dict[UOp, Form] = {}  # of nodes, under these facts
        self.quotients: dict[tuple[Form, int], Form] = {}
        self._narrowed = _narrowed(facts)
        self._touched = 0  # a bit for each leaf that occurs in a fact
        for fact in facts:
            for m in fact.terms:
                self._touched |= m.support
        self._intervals: dict[frozenset[tuple[Monomial, int]], tuple[int, Interval]] = {}
        self._points: list[int] | None = None  # trial points at which the facts hold, on demand

    def note(
        self,
        lemma: str,
        before: Term,
        after: Term,
        terms: Bindings,
        **bounds: Interval,
    ) -> None:
        """Append a step under these facts; only called where steps are recorded."""
        assert self.budget.steps is not None
        self.budget.steps.append(Step(lemma, before, after, terms, bounds, self.facts))

    # -- queries -----------------------------------------------------------------------------------

    def interval(self, a: Form) -> Interval:
        """Return an interval that contains the form's value wherever the facts hold."""
        terms = a.terms
        low, high = self._plain(terms) if self.is_plain(terms) else self._interval(terms, DEEPEST)
        return low + a.constant, high + a.constant

    def at_most(self, a: Form, limit: int) -> bool:
        """Return whether the form is provably at most `limit`."""
        return all(v <= limit for v in self._values(a)) and self.interval(a)[1] <= limit

    def at_least(self, a: Form, limit: int) -> bool:
        """Return whether the form is provably at least `limit`."""
        return all(v >= limit for v in self._values(a)) and self.interval(a)[0] >= limit

    def is_at_most_zero(self, a: Form) -> bool | None:
        """Return whether the form is <= 0, if that is provably true or false; else None."""
        values = self._values(a)
        if values and min(values) <= 0 < max(values):
            return None
        low, high = self.interval(a)
        return True if high <= 0 else False if low > 0 else None

    def bucket(self, constant: int, terms: Terms, size: int) -> int | None:
        """Return the k with k*size <= form < (k+1)*size; None if there is no provable one."""
        low, high = self._plain(terms)
        for depth in range(1, DEEPEST + 2):
            if low != -inf and high != inf:
                k = int(low + constant) // size
                if int(high + constant) // size == k:
                    return k
            if depth == 1 and (self.is_plain(terms) or self._straddles(constant, terms, size)):
                return None
            if depth <= DEEPEST:
                low, high = self._interval(terms, depth)
        return None

    # -- points ------------------------------------------------------------------------------------

    def _live(self) -> Sequence[int]:
        """Return the trial points at which the facts hold."""
        if not self.facts:
            return trial_points.ALL
        if self._points is None:
            values = [fact.values for fact in self.facts]
            self._points = [i for i in range(trial_points.COUNT) if all(v[i] <= 0 for v in values)]
        return self._points

    def _values(self, a: Form) -> list[int]:
        values = a.values
        return [values[i] for i in self._live()] if self.facts else values

    def _straddles(self, constant: int, terms: Terms, size: int) -> bool:
        """Return whether floor(form / size) differs between two trial points."""
        parts = [(m.values, k) for m, k in terms.items()]
        first: int | None = None
        for i in self._live():
            total = constant
            for values, k in parts:
                total += k * values[i]
            if first is None:
                first = total // size
            elif total // size != first:
                return True
        return False

    # -- intervals ---------------------------------------------------------------------------------

    def is_plain(self, terms: Terms) -> bool:
        """Return whether interval arithmetic is exact: no facts, and no shared leaves in floors."""
        if self.facts:
            return False
        shared = _shared(terms) if len(terms) > 1 else 0
        return not shared or not any(m.divisor and m.support & shared for m in terms)

    def _interval(self, terms: Terms, depth: int) -> Interval:
        """Return the interval of a form without its constant, searched to a depth and cached."""
        key = frozenset(terms.items())
        cached = self._intervals.get(key)
        if cached is None:
            cached = (0, self._plain(terms))
        searched_depth, known = cached
        if searched_depth < depth:
            known = self._improved(terms, known, depth, FACTS_AT_ONCE)
            self._intervals[key] = (depth, known)
        return known

    def _plain(self, terms: Terms) -> Interval:
        """Return the interval of a sum by interval arithmetic on its monomials."""
        low: Bound = 0
        high: Bound = 0
        narrowed = self._narrowed
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
        """Return a better interval, by eliminating quotients and using facts.

        A quotient q = floor(M/e) satisfies e·q = M - r with 0 <= r < e. Substituting
        (M - r)/e for q cancels the terms that M has in common with the rest of the form.
        """
        low, high = known
        if low >= high or self.budget.eliminations <= 0:
            return known
        shared = _shared(terms) | self._touched
        for monomial in terms if shared else ():
            if not monomial.divisor or not monomial.support & shared:
                continue
            numerator = monomial.numerator
            assert numerator is not None
            if depth == 1 and not self._narrowed and terms.keys().isdisjoint(numerator.terms):
                continue  # nothing cancels
            least, most = self._eliminate(terms, monomial, numerator, depth, facts)
            low = max(low, least)
            high = min(high, most)
            if self.budget.steps is not None:
                bindings = bind(x=numerator, c0=monomial.divisor)
                interval = Within(Form(0, dict(terms)), low, high)
                self.note("quotient-below", True, interval, bindings)
                self.note("quotient-above", True, interval, bindings)
        if facts and self.facts:
            low, high = self._by_facts(terms, (low, high), depth, facts)
        return (low, high) if low <= high else known

    def _eliminate(
        self, terms: Terms, quotient: Monomial, numerator: Form, depth: int, facts: int
    ) -> Interval:
        """Return the interval of a sum after a quotient in it is replaced by (M - r)/e."""
        self.budget.eliminations -= 1
        e, k = quotient.divisor, terms[quotient]
        common = gcd(e, k)
        scale, times = e // common, k // common
        rest = {m: c * scale for m, c in terms.items()} if scale > 1 else dict(terms)
        del rest[quotient]
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
        return _up(least + shift, scale), floor_quotient(most + shift, scale)

    def _by_facts(self, terms: Terms, known: Interval, depth: int, facts: int) -> Interval:
        """Improve an interval by each fact that has a monomial in common with the sum."""
        for fact in self.facts:
            if not terms.keys().isdisjoint(fact.terms):
                known = self._by_fact(terms, known, fact, depth, facts)
        return known

    def _by_fact(
        self, terms: Terms, known: Interval, fact: Form, depth: int, facts: int
    ) -> Interval:
        """Improve an interval by F <= F - t·G for a fact G <= 0, where t cancels a monomial."""
        low, high = known
        for monomial, g in fact.terms.items():
            k = terms.get(monomial)
            if k is None:
                continue
            self.budget.eliminations -= 1
            common = gcd(g, k)
            scale, times = abs(g) // common, abs(k) // common
            upper = (k > 0) == (g > 0)
            if upper:
                times = -times
            rest = {m: c * scale for m, c in terms.items()} if scale > 1 else dict(terms)
            merge(rest, fact.terms, times)
            interval = self._plain(rest)
            if depth > 1 or facts > 1:
                interval = self._improved(rest, interval, max(depth - 1, 1), facts - 1)
            shift = times * fact.constant
            if upper:
                high = min(high, floor_quotient(interval[1] + shift, scale))
            else:
                low = max(low, _up(interval[0] + shift, scale))
            if self.budget.steps is not None:
                whole = Form(0, dict(terms))
                bindings = bind(x=whole, y=fact, c0=scale, c1=abs(times))
                lemma = "bound-above-by-fact" if upper else "bound-below-by-fact"
                self.note(lemma, True, Within(whole, low, high), bindings, y=(-inf, 0))
        return low, high


def merge(terms: dict[Monomial, int], more: Terms, factor: int) -> None:
    """Add `factor` times more terms in place."""
    for m, k in more.items():
        total = terms.get(m, 0) + factor * k
        if total:
            terms[m] = total
        else:
            terms.pop(m, None)


def _narrowed(facts: tuple[Form, ...]) -> dict[Monomial, Interval]:
    """Return the intervals of monomials that facts about a single monomial imply."""
    narrowed: dict[Monomial, Interval] = {}
    for fact in facts:
        if len(fact.terms) == 1:
            ((m, k),) = fact.terms.items()
            low, high = narrowed.get(m, (m.low, m.high))
            if k > 0:
                high = min(high, -fact.constant // k)
            else:
                low = max(low, -(fact.constant // k))
            if low <= high:
                narrowed[m] = (low, high)
    return narrowed


def _shared(terms: Terms) -> int:
    """Return a bit mask of the leaves that more than one monomial depends on."""
    once = shared = 0
    for m in terms:
        shared |= once & m.support
        once |= m.support
    return shared


def _up(bound: Bound, divisor: int) -> Bound:
    return bound if isinstance(bound, float) else -(-bound // divisor)
