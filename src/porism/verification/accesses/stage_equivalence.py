"""Stages: that the accesses after a stage are those before it.

Which access has become which is not known. So all are tried out at some points: what agrees there
is taken for a pair, and then the pair is decided. An access after a stage that agrees with none
before it is a fault of the stage, and so is one before it that agrees with none after. Nor may an
element be computed from others than before, though these are read as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from porism.base.dtypes import boolean, index
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.verification.accesses.element_origins import Origins, Taken, made_of, origins
from porism.verification.accesses.index_evaluation import Buffer, Reading, Unknown, Value, World
from porism.verification.accesses.iteration_conjectures import Answer, Claim, decide, symbols_of
from porism.verification.accesses.kernel_accesses import Access, accesses, idle_lanes
from porism.verification.accesses.loop_correspondence import Guess, guesses, pieces, ranges_in
from porism.verification.accesses.sample_points import Points
from porism.verification.verification_report import How

PROBES: Final = 256
"""Points at which accesses are compared to find the pairs."""

MOST_COPIES: Final = 4096
"""Copies of an access for the values of ranges that become lanes."""

MOST_CANDIDATES: Final = 16
"""Old accesses with the same addresses at all points that are tried for a new one."""

NEW: Final = "not compared: memory that is new here"
OWN: Final = "not compared: it has loops of its own"
THREADS: Final = "not compared: loops have become threads; bounds and writes are checked"

FRAGMENTS: Final = (
    "not compared: threads read it for each other, for a tensor core; bounds are checked"
)

NOWHERE: Final = -1
"""The address of an access that does not happen."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One access after a stage: how it was found equal, or a counterexample."""

    after: Access
    before: Access | None
    answer: Answer
    meaning: Mapping[UOp, UOp] = field(default_factory=dict)
    """What the ranges of before are, in those of after."""
    inside: Sequence[UOp] = ()
    """What holds in the iterations that there were before."""
    why: str = ""
    """What is wrong, if it is not the place of the access."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """An access before a stage, for some values of ranges that have become lanes."""

    access: Access
    fixed: tuple[tuple[UOp, int], ...] = ()

    def meaning(self, guess: Guess) -> dict[UOp, UOp]:
        constants = {r: UOp.const(index, value) for r, value in self.fixed}
        return {**guess.meaning, **constants}


def effective(access: Access, reading: Reading, inside: Sequence[Value] = ()) -> Value:
    """The address where the access matters, else -1."""
    address = access.address(reading)
    happens = reading.all(access.matters(reading), *inside)
    if happens is None:
        return address
    nowhere = reading.world.constant(index, NOWHERE)
    return reading.world.apply(ops.WHERE, index, happens, address, nowhere)


def compared(before: UOp, after: UOp, *, needs: bool) -> Iterator[Compared]:
    """Every access that is new after a stage, compared with those before."""
    old, new = accesses(before, needs=needs), accesses(after, needs=needs)
    known, still = set(old), set(new)
    idle = idle_lanes(after)
    fresh = [a for a in new if a not in known and a.number not in idle]
    spread = _fragments(after) if not _fragments(before) else set()
    for access in (a for a in fresh if a.node in spread):
        yield Compared(access, None, Answer(How.OPEN, FRAGMENTS))
    fresh = [a for a in fresh if a.node not in spread]
    then, now = origins(before), origins(after)
    if not fresh and all(a in still for a in old) and then == now:
        return
    pairings = _pairings(old, new, fresh, before, after)
    through = {a.node for a in new if a.copied is not None}
    unsure = {a.buffer for a in new if a.node in spread}
    for number, access in enumerate(fresh):
        own = next((p for p in pairings if not p.foreign & access.ranges()), pairings[0])
        found = own.decided(*own.pairs[number])
        # New memory has no before. What fills it is compared where it is read.
        if found.answer.detail != NEW and (
            found.answer.detail != OWN or access.node not in through
        ):
            yield found
            if found.answer.how is How.OPEN:
                unsure.add(access.buffer)
    for pairing in pairings:
        yield from pairing.lost_stores()
        yield from pairing.cut_off()
        yield from pairing.lost_reads(unsure)
        yield from pairing.misplaced(then, now, unsure)


def _pairings(
    old: Sequence[Access], new: Sequence[Access], fresh: Sequence[Access], before: UOp, after: UOp
) -> list[_Pairing]:
    """What new accesses may have been, by the best guess; by two, if a range is in two pieces."""
    best: list[_Pairing] = []
    fewest = len(fresh) + 1
    for several in itertools.chain(([g] for g in guesses(before, after)), [pieces(before, after)]):
        pairings = [_Pairing(old, new, guess, before, after) for guess in several]
        for pairing in pairings:
            pairing.find(fresh)
        missed = sum(min((p.missed[k] for p in pairings), default=True) for k in range(len(fresh)))
        if pairings and missed < fewest:
            best, fewest = pairings, missed
        if not fewest:
            break
    assert best, "there is at least one guess"
    return best


def paired(
    old: Sequence[Access], new: Sequence[Access], guess: Guess, before: UOp, after: UOp
) -> Iterator[Compared]:
    """Some accesses of a stage, compared with some of before under one guess."""
    pairing = _Pairing(old, new, guess, before, after)
    pairing.find(new)
    for access, copies in pairing.pairs:
        yield pairing.decided(access, copies)


def limits_of(access: Access, guess: Guess) -> tuple[list[UOp], list[UOp]]:
    """What holds in the iterations that there were before: of the ranges of an access, of others.

    Beyond the end of a range of its own it must not matter; beyond that of another range there is
    nothing to compare it with. Nor is there in local memory, which may have room for more.
    """
    own = access.ranges() if access.buffer[0] != ops.DEFINE_LOCAL.name else set()
    inner = [condition for r, condition in guess.inside.items() if r in own]
    outer = [condition for r, condition in guess.inside.items() if r not in own]
    for r, condition in guess.once.items():
        (inner if access.store and r in own else outer).append(condition)
    return inner, outer


def same(copy: _Copy, after: Access, guess: Guess) -> Claim:
    """That an access is what it was."""
    meaning = copy.meaning(guess)
    roots, (inner, outer) = copy.access.roots(), limits_of(copy.access, guess)

    def make(world: World) -> Value:
        then, now = Reading(world, meaning), Reading(world)
        around = [now.value(condition) for condition in outer]
        inside = [now.value(condition) for condition in inner]
        a = effective(copy.access, then, [*inside, *around])
        return world.apply(ops.EQ, index, a, effective(after, now, around))

    symbols = dict.fromkeys(
        [*symbols_of(roots, meaning), *symbols_of([*after.roots(), *inner, *outer])]
    )
    return Claim(make, tuple(symbols), max(copy.access.size, after.size))


# -- pairs -----------------------------------------------------------------------------------------


class _Pairing:
    """What the accesses before a stage give at some points of the iterations after it."""

    def __init__(
        self, old: Sequence[Access], new: Sequence[Access], guess: Guess, before: UOp, after: UOp
    ) -> None:
        self.old, self.new, self.guess = old, new, guess
        left = set(ranges_in(after))
        gone = [r for r in ranges_in(before) if r not in left and r not in guess.meaning]
        self.lanes = [r for r in gone if r.arg[1] in (Axis.UPCAST, Axis.UNROLL)]
        said = {n for value in guess.meaning.values() for n in toposort(value)}
        self.foreign = left - set(ranges_in(before)) - said
        """Loops that no loop of before has become: of copies into local memory, say."""
        self.threads = _specials(after) - _specials(before) - said
        """Indices of blocks and threads that loops have become."""
        roots = [root for a in new for root in a.roots()]
        olds = [root for a in old for root in a.roots()]
        symbols = [
            *symbols_of([*roots, *guess.inside.values(), *guess.once.values()]),
            *symbols_of(olds, guess.meaning),
        ]
        kept = [s for s in dict.fromkeys(symbols) if s[0] not in set(self.lanes)]
        self.points = Points(
            kept, most=0, sample=PROBES, width=max((a.size for a in old), default=0)
        )
        self.now = Reading(self.points)
        for node, _ in kept:  # before anything is compared: which points there are
            self.now.value(node)
        self.readings: dict[Any, Reading] = {}
        self.table: dict[tuple[Any, bool], dict[bytes, list[_Copy]]] = {}
        self.copies: dict[Access, list[Taken]] = {}
        self.pairs: list[tuple[Access, list[_Copy]]] = []
        self.missed: list[bool] = []
        """Of the new accesses: whether there was something like it, and not it."""

    def find(self, fresh: Sequence[Access]) -> None:
        """Pair new accesses with old ones."""
        for access in self.old:
            row = self.table.setdefault((access.buffer, access.store), {})
            for copy in self._copies(access):
                taken = self._taken(access, copy.meaning(self.guess), then=True)
                if taken is not None:
                    row.setdefault(taken, []).append(copy)
                    self.copies.setdefault(access, []).append((dict(copy.fixed), taken))
        for access in fresh:
            known = self.table.get((access.buffer, access.store))
            taken = self._taken(access, {}, then=False)
            copies = [] if taken is None or known is None else known.get(taken, [])
            self.pairs.append((access, copies))
            # Memory that is new here has no accesses of before, whatever the guess is.
            self.missed.append(not copies and taken is not None and known is not None)

    def _copies(self, access: Access) -> Iterator[_Copy]:
        own = {r for root in access.roots() for r in root.ranges}
        lanes = [r for r in self.lanes if r in own]
        values = itertools.product(*(range(int(r.vmax) + 1) for r in lanes))
        for chosen in itertools.islice(values, MOST_COPIES):
            yield _Copy(access, tuple(zip(lanes, chosen, strict=True)))

    def _taken(self, access: Access, meaning: Mapping[UOp, UOp], *, then: bool) -> bytes | None:
        """The addresses of an access at all points that there were before; None if unknown."""
        key = frozenset(meaning.items()) if then else None
        reading = self.readings.get(key)
        if reading is None:
            reading = self.readings[key] = Reading(self.points, meaning) if then else self.now
        try:
            limits = (*self.guess.inside.values(), *self.guess.once.values())
            inside = [self.now.value(c) for c in limits]
            found: Array = np.asarray(effective(access, reading, inside))
        except Unknown:
            return None
        whole = np.broadcast_to(found, self.points.count).astype(np.int64)
        return np.where(self.points.active, whole, NOWHERE).tobytes()

    # -- answers -----------------------------------------------------------------------------------

    def decided(self, after: Access, copies: Sequence[_Copy]) -> Compared:
        """Whether a new access is one of the old ones that it seems to be."""
        found: Compared | None = None
        for copy in itertools.chain(copies[:1], self._likely(after, copies)):
            answer = self._compared(after, copy)
            if found is None or answer.answer.holds:
                found = answer
            if found.answer.holds:
                break
        if found is not None:
            return found
        row = self.table.get((after.buffer, after.store))
        taken = self._taken(after, {}, then=False)
        if row is None:
            return Compared(after, None, Answer(How.OPEN, NEW))
        if taken is None or not row:
            why = "not compared: it depends on floats, or on what a loop computes"
            return Compared(after, None, Answer(How.OPEN, why))
        if self.foreign & after.ranges():
            return Compared(after, None, Answer(How.OPEN, OWN))
        if self.threads:
            return Compared(after, None, Answer(How.OPEN, THREADS))
        idle = decide(_idle(after))
        if idle.holds:
            return Compared(after, None, idle)
        own = np.frombuffer(taken, np.int64)
        nearest = max(row, key=lambda other: int((np.frombuffer(other, np.int64) == own).sum()))
        return self._compared(after, row[nearest][0])

    def _compared(self, after: Access, copy: _Copy) -> Compared:
        inside = [c for part in limits_of(copy.access, self.guess) for c in part]
        answer = decide(same(copy, after, self.guess))
        return Compared(after, copy.access, answer, copy.meaning(self.guess), inside)

    def _likely(self, after: Access, copies: Sequence[_Copy]) -> Iterator[_Copy]:
        """A few more, those first whose index is the same also where the access does not happen."""
        if len(copies) < 2:
            return
        own = self._address(after, self.now)

        def differs(copy: _Copy) -> int:
            reading = self.readings[frozenset(copy.meaning(self.guess).items())]
            return int((self._address(copy.access, reading) != own).sum())

        yield from sorted(copies, key=differs)[:MOST_CANDIDATES]

    def _address(self, access: Access, reading: Reading) -> Array:
        return np.broadcast_to(np.asarray(access.address(reading)), self.points.count)

    def lost_stores(self) -> Iterator[Compared]:
        """Stores of before that are not done any more, in iterations in which they were."""
        still = set(self.new)
        if self.threads:
            return
        nowhere = np.full(self.points.count, NOWHERE, np.int64).tobytes()
        buffers = {a.buffer for a in self.new}
        written = {self._taken(a, {}, then=False) for a in self.new if a.store}
        for (buffer, store), row in self.table.items():
            if not store or buffer not in buffers:
                continue
            for taken, copies in row.items():
                access = copies[0].access
                if taken not in written and taken != nowhere and access not in still:
                    yield Compared(access, access, Answer(None, "the store is gone"))

    def cut_off(self) -> Iterator[Compared]:
        """Accesses of before in iterations that there are no more: they must not matter."""
        for access in self.old if not self.threads else ():
            for cut in self.guess.cut:
                claim = _only_within(access, *cut)
                if claim is not None:
                    yield Compared(access, access, decide(claim))

    def lost_reads(self, unsure: Collection[Buffer]) -> Iterator[Compared]:
        """Reads of before that are not done any more, in iterations in which they mattered.

        An access that stands where another belongs is found by the other, which is gone.
        """
        if self.threads:
            return
        still = set(self.new)
        seen = {a.copied.read.node for a in self.new if a.copied is not None}
        known = {a.buffer for a in self.old}
        obscure = any(not a.store and a.buffer not in known and a.node not in seen for a in still)
        for (buffer, store), row in self.table.items():
            if store or buffer in unsure:
                continue
            gone = [
                (taken, copies[0].access)
                for taken, copies in row.items()
                if not any(copy.access in still and not copy.fixed for copy in copies)
            ]
            if not gone:
                continue
            reads = [a for a in self.new if a.buffer == buffer and not a.store]
            if not reads and buffer[0] != ops.PARAM.name:
                continue  # memory that is another one now
            done = {self._taken(a, {}, then=False) for a in reads}
            if None in done:
                continue
            for taken, access in gone:
                if access.copied is not None and obscure:
                    continue  # it may be read there
                if taken not in done and not _covered(taken, done):
                    yield Compared(access, access, Answer(None, "the read is gone"))

    def misplaced(self, then: Origins, now: Origins, unsure: set[Buffer]) -> Iterator[Compared]:
        """Stored elements that are made of others than before, where that can be told."""
        if self.threads:
            return
        here: dict[Access, list[Taken]] = {}
        for access in self.new:
            taken = self._taken(access, {}, then=False)
            if taken is not None and not self.foreign & access.ranges():
                here[access] = [({}, taken)]
        both = {a.buffer for a in self.old} & {a.buffer for a in self.new}
        before = made_of(self.old, then, self.copies, both)
        after = made_of(self.new, now, here, both)
        nowhere = np.full(self.points.count, NOWHERE, np.int64).tobytes()
        for place, was in before.items():
            made = after.get(place)
            if was is None or made is None or place[1] == nowhere:
                continue
            other = {
                buffer for buffer, taken in made if taken not in self.table.get((buffer, False), ())
            }
            for read in [*was, *made]:
                gone = read in was
                if (gone and read in made) or read[0] in unsure | other or read[1] == nowhere:
                    continue
                store, access, always = was[read] if gone else made[read]
                if gone and not always:
                    continue
                how = "not computed any more" if gone else "computed, and was not,"
                why = f"{store.text} is {how} from {access.text}"
                yield Compared(store, None, Answer(None, "made of other elements"), why=why)


def _covered(taken: bytes, done: Iterable[bytes | None]) -> bool:
    """Whether all that an access reads is read, here by one access and there by another."""
    left = np.frombuffer(taken, np.int64)
    missing = left != NOWHERE
    for other in done:
        assert other is not None
        missing &= np.frombuffer(other, np.int64) != left
        if not missing.any():
            return True
    return not missing.any()


def _idle(access: Access) -> Claim:
    """That an access never matters: a lane that is left out."""

    def make(world: World) -> Value:
        matters = access.matters(Reading(world))
        if matters is None:
            return world.constant(boolean, False)
        return world.apply(ops.NOT, boolean, matters)

    return Claim(make, tuple(symbols_of(access.roots())), access.size)


def _fragments(kernel: UOp) -> set[UOp]:
    """What goes into matrix products of tensor cores."""
    factors = [s for n in toposort(kernel) if n.op is ops.WMMA for s in n.src[:2]]
    return set(toposort(*factors)) if factors else set()


def _specials(kernel: UOp) -> set[UOp]:
    return {n for n in toposort(kernel) if n.op is ops.SPECIAL}


def _only_within(access: Access, r: UOp, low: int, high: int) -> Claim | None:
    """That an access does not matter in the iterations that were cut off."""
    if not any(r in root.ranges for root in access.roots()):
        return None

    def make(world: World) -> Value:
        reading = Reading(world)
        matters = access.matters(reading)
        at = reading.value(r)
        first = world.apply(ops.GE, index, at, world.constant(index, low))
        last = world.apply(ops.LT, index, at, world.constant(index, high))
        within = reading.all(first, last)
        if matters is None:
            return within
        return reading.any(world.apply(ops.NOT, boolean, matters), within)

    return Claim(make, tuple(symbols_of([*access.roots(), r])), access.size)
