"""Scatters: stores at the elements that an index tensor addresses are a reduction over its indices.

    before   for e, f:  p[at(e, f)] = sum of (v(f, j) where c(e, f, j), else 0) for j
    after    for e, f:  p[at(e, f)] = 0
             for j in order, f:  p[there(f, j)] += v(f, j)  where g(f, j)

Which of the loops before are still around the stores (`f`) is found by trying. Then it is checked

- that the first stores are those before, of the initial value;
- that nothing is missing: where c holds, so does g, and the store is at the element of e and f;
- that nothing is added: where g holds, so does c for an iteration e, and the store is at its
  element. That element determines e, so that none has to be searched for;
- that all other reads are those before.

A kernel of another form is compared like the result of any other stage.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import boolean, index
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of, own_nodes, scopes
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import substitute, toposort
from porism.verification.accesses.index_evaluation import Domain, Evaluation, Value
from porism.verification.accesses.iteration_conjectures import (
    Answer,
    Conjecture,
    decide,
    symbols_in,
)
from porism.verification.accesses.kernel_accesses import Access, accesses, invert_linear_index
from porism.verification.accesses.loop_correspondence import LoopMap, loops_in
from porism.verification.accesses.stage_equivalence import Comparison, compare_under
from porism.verification.values.partial_runs import loops_in_address
from porism.verification.verification_report import How

UNDETERMINED: Final = "not compared: the element does not say which iteration stored it"

Meaning = Mapping[UOp, UOp]
"""The loops before, as functions of those after."""


@dataclass(frozen=True, slots=True)
class _Reduction:
    """A store of a reduction of values that a condition selects."""

    address: UOp
    loops: tuple[UOp, ...]
    op: Op
    condition: UOp
    other: UOp
    indices: tuple[UOp, ...]


@dataclass(frozen=True, slots=True)
class _Scatter:
    """Stores of an initial value, then ordered stores that each update an element."""

    first: UOp
    starts: tuple[UOp, ...]
    start: UOp
    address: UOp
    op: Op
    ordered: tuple[UOp, ...]
    free: tuple[UOp, ...]


def compare(before: UOp, after: UOp) -> list[Comparison] | None:
    """Return all accesses, compared; None if the stage made no scatter."""
    new = _match_scatter(after)
    if new is None:
        return None
    before = _with_fresh_loops(before, after)
    old = _match_reduction(before)
    if old is None or not _is_same_reduction(old, new):
        return None
    best: list[Comparison] | None = None
    for free in itertools.combinations(old.loops, len(new.free)):
        if not _same_extents(free, new.free):
            continue
        comparisons = list(_ScatterComparison(before, after, old, new, free).all())
        if all(comparison.answer.holds for comparison in comparisons):
            return comparisons
        best = best or comparisons
    return best


def _with_fresh_loops(before: UOp, after: UOp) -> UOp:
    """Return the kernel with fresh loops, so that none is mistaken for one of the other kernel."""
    loops = loops_in(before)
    beyond = max((r.arg[0][0] for r in (*loops, *loops_in(after))), default=0) + 1
    fresh = {r: UOp.range(r.src[0], beyond + k, r.arg[1]) for k, r in enumerate(loops)}
    return substitute(before, fresh, exactly=True)


def _match_reduction(kernel: UOp) -> _Reduction | None:
    """Return the masked reduction that a kernel stores; None if it has another form."""
    (end, *others) = kernel.src
    if others or end.op is not ops.END or end.src[0].op is not ops.STORE:
        return None
    address, value = end.src[0].src
    if value.op is not ops.REDUCE or value.src[0].op is not ops.WHERE:
        return None
    condition, _, other = value.src[0].src
    return _Reduction(address, end.src[1:], value.arg, condition, other, value.src[1:])


def _match_scatter(kernel: UOp) -> _Scatter | None:
    """Return the ordered updates of a kernel; None if it has another form."""
    (end, *others) = kernel.src
    if others or end.op is not ops.END or end.src[0].op is not ops.STORE:
        return None
    address, value = end.src[0].src
    buffer = address.src[0]
    if buffer.op is not ops.AFTER or buffer.src[0].op is not ops.PARAM or len(buffer.src) != 2:
        return None
    initialization = buffer.src[1]
    if initialization.op is not ops.END or initialization.src[0].op is not ops.STORE:
        return None
    if len(value.src) != 2 or value.src.count(address) != 1:
        return None
    first, start = initialization.src[0].src
    ordered = tuple(r for r in end.src[1:] if r.arg[1] is Axis.ORDERED)
    free = tuple(r for r in end.src[1:] if r not in ordered)
    return _Scatter(first, initialization.src[1:], start, address, value.op, ordered, free)


def _is_same_reduction(old: _Reduction, new: _Scatter) -> bool:
    """Return whether both combine as many values in the same way, from the same initial value."""
    numbers = (old.other, new.start)
    return (
        new.op is old.op
        and all(n.op is ops.CONST for n in numbers)
        and old.other.arg == new.start.arg
        and all(base_of(p) is base_of(old.address) for p in (new.first, new.address))
        and all(r.arg[1] is Axis.LOOP for r in (*new.starts, *new.free))
        and _same_extents(old.loops, new.starts)
        and _same_extents(old.indices, new.ordered)
    )


def _same_extents(old: Sequence[UOp], new: Sequence[UOp]) -> bool:
    sizes = [[r.src[0] for r in loops] for loops in (old, new)]
    return len(old) == len(new) and all(a is b for a, b in zip(*sizes, strict=True))


class _ScatterComparison:
    """A kernel before and after it was scattered, with an assumption which loops are left."""

    def __init__(
        self, before: UOp, after: UOp, old: _Reduction, new: _Scatter, free: Sequence[UOp]
    ) -> None:
        self.before, self.after, self.old, self.new = before, after, old, new
        self.kept: Meaning = {
            **dict(zip(old.indices, new.ordered, strict=True)),
            **dict(zip(free, new.free, strict=True)),
        }
        self.indexed_loops = [r for r in old.loops if r not in free]
        """The loops whose iteration the index tensor determines."""
        was, now = accesses(before), accesses(after)
        (self.stored,) = [a for a in was if a.node is old.address]
        self.selected = dataclasses.replace(
            self.stored, gates=(*self.stored.gates, (old.condition, 0))
        )
        """The store before, in the iterations that contribute to it."""
        (self.first,) = [a for a in now if a.node is new.first]
        (self.update,) = [a for a in now if a.node is new.address]
        self.reads = [a for a in was if not a.store], [a for a in now if not a.store]

    def all(self) -> Iterator[Comparison]:
        """Yield the comparisons of the initial stores, the updates and the reads."""
        starts = LoopMap(dict(zip(self.old.loops, self.new.starts, strict=True)))
        yield from compare_under([self.stored], [self.first], starts, self.before, self.after)
        yield self._check_complete()
        yield self._check_sound()
        yield from compare_under(*self.reads, LoopMap(self.kept), self.before, self.after)

    def _check_complete(self) -> Comparison:
        """Check that every selected value before is added to its element after."""

        def make(domain: Domain) -> Value:
            then, now = Evaluation(domain, self.kept), Evaluation(domain)
            same = _same_address(self.selected, then, self.update, now)
            return _implies(
                now, self.selected.is_executed(then), self.update.is_executed(now), same
            )

        return self._decide(make, self.kept)

    def _check_sound(self) -> Comparison:
        """Check that every value that is added after was selected before."""
        iterations = self._iterations_by_element()
        if iterations is None:
            return Comparison(self.update, self.selected, Answer(How.OPEN, UNDETERMINED))
        substitution = {**self.kept, **iterations}

        def make(domain: Domain) -> Value:
            then, now = Evaluation(domain, substitution), Evaluation(domain)
            inside = [_within(now, iterations[r], r.src[0]) for r in self.indexed_loops]
            same = _same_address(self.selected, then, self.update, now)
            there = self.selected.is_executed(then)
            return _implies(now, self.update.is_executed(now), there, same, *inside)

        return self._decide(make, substitution)

    def _iterations_by_element(self) -> Meaning | None:
        """Return the iterations before that store to the element; None if not determined."""
        address = substitute(self.stored.index, self.kept, exactly=True)
        single = {r: UOp.const(index, 0) for r in self.indexed_loops if r.vmax == 0}
        iterations = invert_linear_index(
            address, [r for r in self.indexed_loops if r not in single], self.update.index
        )
        return None if iterations is None else {**iterations, **single}

    def _decide(self, make: Callable[[Domain], Value], substitution: Meaning) -> Comparison:
        symbols = dict.fromkeys(
            [*symbols_in(self.selected.roots(), substitution), *symbols_in(self.update.roots())]
        )
        answer = decide(Conjecture(make, tuple(symbols), self.stored.size, any_data=True))
        return Comparison(self.update, self.selected, answer, substitution)


def _same_address(a: Access, then: Evaluation, b: Access, now: Evaluation) -> Value:
    return now.domain.apply(ops.EQ, index, a.address(then), b.address(now))


def _within(evaluation: Evaluation, value: UOp, size: UOp) -> Value:
    domain, number = evaluation.domain, evaluation.value(value)
    low = domain.apply(ops.GE, index, number, domain.constant(index, 0))
    return evaluation.conjunction(low, domain.apply(ops.LT, index, number, evaluation.value(size)))


def _implies(evaluation: Evaluation, condition: Value, *parts: Value) -> Value:
    """Return whether all parts hold where a condition does; None is always true."""
    whole = evaluation.conjunction(*parts)
    if condition is None:
        return whole
    return evaluation.disjunction(evaluation.domain.apply(ops.NOT, boolean, condition), whole)


def find_unordered_update(kernel: UOp) -> tuple[UOp, UOp] | None:
    """Return a store that updates elements of a parameter, and an unordered loop around it.

    An index tensor may address an element twice. So loops that do not occur in the address
    themselves must be ORDERED: no action vectorizes or parallelizes these.
    """
    nodes = own_nodes(kernel)
    scope = scopes(nodes)
    for store in (n for n in nodes if n.op is ops.STORE):
        address, value = store.src
        if base_of(address).op is not ops.PARAM or address not in toposort(value):
            continue
        for r in scope[store] - loops_in_address(address):
            if r.op is ops.RANGE and r.arg[1] is Axis.LOOP:
                return store, r
    return None
