"""Scattering: that stores at the elements which indices name are a reduction over these indices.

    before   for e, f:  p[at(e, f)] = sum of (v(f, j) where c(e, f, j), else 0) for j
    after    for e, f:  p[at(e, f)] = 0
             for j in order, f:  p[there(f, j)] += v(f, j)  where g(f, j)

Which of the loops of before are still around the stores (`f`) is found by trying. Then it is asked

- that the first stores are those of before, of what an element is that no index names;
- that nothing is lost: where c holds, so does g, and the store is at the element of e and f;
- that nothing is new: where g holds, so does c for an iteration e, and the store is at its element.
  The element that is stored to says which e that is, so that none has to be looked for;
- that all else that is read is what was read.

What is not of this form is compared like the result of any other stage.
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
from porism.verification.accesses.index_evaluation import Reading, Value, World
from porism.verification.accesses.iteration_conjectures import Answer, Claim, decide, symbols_of
from porism.verification.accesses.kernel_accesses import Access, accesses, taken_apart
from porism.verification.accesses.loop_correspondence import Guess, ranges_in
from porism.verification.accesses.stage_equivalence import Compared, paired
from porism.verification.values.partial_runs import counted
from porism.verification.verification_report import How

UNSURE: Final = "not compared: the element does not say which iteration stored it"

Meaning = Mapping[UOp, UOp]
"""Loops of before, by those of after."""


@dataclass(frozen=True, slots=True)
class _Reduced:
    """A store of a reduction of values that are chosen by a condition."""

    place: UOp
    loops: tuple[UOp, ...]
    op: Op
    condition: UOp
    other: UOp
    indices: tuple[UOp, ...]


@dataclass(frozen=True, slots=True)
class _Scattered:
    """Stores of a number, and then stores that each change an element, in order."""

    first: UOp
    starts: tuple[UOp, ...]
    start: UOp
    place: UOp
    op: Op
    ordered: tuple[UOp, ...]
    free: tuple[UOp, ...]


def compared(before: UOp, after: UOp) -> list[Compared] | None:
    """The accesses of a kernel whose reduction was scattered; None if it was not."""
    new = _scattered(after)
    if new is None:
        return None
    before = _with_other_loops(before, after)
    old = _reduced(before)
    if old is None or not _alike(old, new):
        return None
    best: list[Compared] | None = None
    for free in itertools.combinations(old.loops, len(new.free)):
        if not _same_sizes(free, new.free):
            continue
        found = list(_Comparing(before, after, old, new, free).all())
        if all(each.answer.holds for each in found):
            return found
        best = best or found
    return best


def _with_other_loops(before: UOp, after: UOp) -> UOp:
    """The kernel with loops that the other does not have: equal ones would count as the same."""
    loops = ranges_in(before)
    beyond = max((r.arg[0][0] for r in (*loops, *ranges_in(after))), default=0) + 1
    other = {r: UOp.range(r.src[0], beyond + k, r.arg[1]) for k, r in enumerate(loops)}
    return substitute(before, other, exactly=True)


def _reduced(kernel: UOp) -> _Reduced | None:
    (end, *others) = kernel.src
    if others or end.op is not ops.END or end.src[0].op is not ops.STORE:
        return None
    place, value = end.src[0].src
    if value.op is not ops.REDUCE or value.src[0].op is not ops.WHERE:
        return None
    condition, _, other = value.src[0].src
    return _Reduced(place, end.src[1:], value.arg, condition, other, value.src[1:])


def _scattered(kernel: UOp) -> _Scattered | None:
    (end, *others) = kernel.src
    if others or end.op is not ops.END or end.src[0].op is not ops.STORE:
        return None
    place, value = end.src[0].src
    buffer = place.src[0]
    if buffer.op is not ops.AFTER or buffer.src[0].op is not ops.PARAM or len(buffer.src) != 2:
        return None
    started = buffer.src[1]
    if started.op is not ops.END or started.src[0].op is not ops.STORE:
        return None
    if len(value.src) != 2 or value.src.count(place) != 1:
        return None
    first, start = started.src[0].src
    ordered = tuple(r for r in end.src[1:] if r.arg[1] is Axis.ORDERED)
    free = tuple(r for r in end.src[1:] if r not in ordered)
    return _Scattered(first, started.src[1:], start, place, value.op, ordered, free)


def _alike(old: _Reduced, new: _Scattered) -> bool:
    """Whether values are combined in the same way, in as many steps, from the same start on."""
    numbers = (old.other, new.start)
    return (
        new.op is old.op
        and all(n.op is ops.CONST for n in numbers)
        and old.other.arg == new.start.arg
        and all(base_of(p) is base_of(old.place) for p in (new.first, new.place))
        and all(r.arg[1] is Axis.LOOP for r in (*new.starts, *new.free))
        and _same_sizes(old.loops, new.starts)
        and _same_sizes(old.indices, new.ordered)
    )


def _same_sizes(old: Sequence[UOp], new: Sequence[UOp]) -> bool:
    sizes = [[r.src[0] for r in loops] for loops in (old, new)]
    return len(old) == len(new) and all(a is b for a, b in zip(*sizes, strict=True))


class _Comparing:
    """A kernel before and after it was scattered, with a guess which loops are still there."""

    def __init__(
        self, before: UOp, after: UOp, old: _Reduced, new: _Scattered, free: Sequence[UOp]
    ) -> None:
        self.before, self.after, self.old, self.new = before, after, old, new
        self.kept: Meaning = {
            **dict(zip(old.indices, new.ordered, strict=True)),
            **dict(zip(free, new.free, strict=True)),
        }
        self.named = [r for r in old.loops if r not in free]
        """The loops of which indices name an iteration."""
        was, now = accesses(before), accesses(after)
        (self.stored,) = [a for a in was if a.node is old.place]
        self.chosen = dataclasses.replace(
            self.stored, gates=(*self.stored.gates, (old.condition, 0))
        )
        """The store of before, in the iterations that add something to it."""
        (self.first,) = [a for a in now if a.node is new.first]
        (self.changed,) = [a for a in now if a.node is new.place]
        self.reads = [a for a in was if not a.store], [a for a in now if not a.store]

    def all(self) -> Iterator[Compared]:
        starts = Guess(dict(zip(self.old.loops, self.new.starts, strict=True)))
        yield from paired([self.stored], [self.first], starts, self.before, self.after)
        yield self._nothing_lost()
        yield self._nothing_new()
        yield from paired(*self.reads, Guess(self.kept), self.before, self.after)

    def _nothing_lost(self) -> Compared:
        def make(world: World) -> Value:
            then, now = Reading(world, self.kept), Reading(world)
            same = _same(self.chosen, then, self.changed, now)
            return _implied(now, self.chosen.happens(then), self.changed.happens(now), same)

        return self._decided(make, self.kept)

    def _nothing_new(self) -> Compared:
        said = self._said_by_the_element()
        if said is None:
            return Compared(self.changed, self.chosen, Answer(How.OPEN, UNSURE))
        meaning = {**self.kept, **said}

        def make(world: World) -> Value:
            then, now = Reading(world, meaning), Reading(world)
            inside = [_within(now, said[r], r.src[0]) for r in self.named]
            same = _same(self.chosen, then, self.changed, now)
            there = self.chosen.happens(then)
            return _implied(now, self.changed.happens(now), there, same, *inside)

        return self._decided(make, meaning)

    def _said_by_the_element(self) -> Meaning | None:
        """The iterations of before that the element stored to belongs to."""
        at = substitute(self.stored.at, self.kept, exactly=True)
        single = {r: UOp.const(index, 0) for r in self.named if r.vmax == 0}
        found = taken_apart(at, [r for r in self.named if r not in single], self.changed.at)
        return None if found is None else {**found, **single}

    def _decided(self, make: Callable[[World], Value], meaning: Meaning) -> Compared:
        symbols = dict.fromkeys(
            [*symbols_of(self.chosen.roots(), meaning), *symbols_of(self.changed.roots())]
        )
        answer = decide(Claim(make, tuple(symbols), self.stored.size, any_data=True))
        return Compared(self.changed, self.chosen, answer, meaning)


def _same(a: Access, then: Reading, b: Access, now: Reading) -> Value:
    return now.world.apply(ops.EQ, index, a.address(then), b.address(now))


def _within(reading: Reading, value: UOp, size: UOp) -> Value:
    world, at = reading.world, reading.value(value)
    low = world.apply(ops.GE, index, at, world.constant(index, 0))
    return reading.all(low, world.apply(ops.LT, index, at, reading.value(size)))


def _implied(reading: Reading, condition: Value, *parts: Value) -> Value:
    """That all parts hold where a condition does; None stands for what always holds."""
    whole = reading.all(*parts)
    if condition is None:
        return whole
    return reading.any(reading.world.apply(ops.NOT, boolean, condition), whole)


def unordered(kernel: UOp) -> tuple[UOp, UOp] | None:
    """A store that changes elements of a parameter, and a loop around it that has no order.

    An index that is read may name an element twice. So loops that the address does not count with
    are ORDERED: no action makes lanes or threads of these.
    """
    nodes = own_nodes(kernel)
    scope = scopes(nodes)
    for store in (n for n in nodes if n.op is ops.STORE):
        place, value = store.src
        if base_of(place).op is not ops.PARAM or place not in toposort(value):
            continue
        for r in scope[store] - counted(place):
            if r.op is ops.RANGE and r.arg[1] is Axis.LOOP:
                return store, r
    return None
