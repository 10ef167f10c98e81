"""Stage equivalence: the accesses after a stage are those before it.

Which access has become which is not known. So all are evaluated at some points: accesses that agree
there are matched, and then each match is decided. An access after a stage that matches none before
it is a fault of the stage, and so is one before it that matches none after. Nor may an element be
computed from other elements than before, though these are read as well.
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
from porism.verification.accesses.element_origins import Origins, Taken, element_sources, origins
from porism.verification.accesses.index_evaluation import Buffer, Domain, Evaluation, Unknown, Value
from porism.verification.accesses.iteration_conjectures import (
    Answer,
    Conjecture,
    decide,
    symbols_in,
)
from porism.verification.accesses.kernel_accesses import Access, accesses, unused_lanes
from porism.verification.accesses.loop_correspondence import (
    LoopMap,
    candidate_loop_maps,
    loops_in,
    peeled_loop_maps,
)
from porism.verification.accesses.sample_points import PointDomain
from porism.verification.verification_report import How

PROBE_POINTS: Final = 256
"""Points at which accesses are evaluated to match them; chosen by hand."""

MAX_LANE_INSTANCES: Final = 4096
"""Most lane instances of an access, for loops that become lanes; chosen by hand."""

MAX_CANDIDATES: Final = 16
"""Matching old accesses that are tried for a new one; chosen by hand."""

NEW_MEMORY: Final = "not compared: memory that is new here"
OWN_LOOPS: Final = "not compared: it has loops of its own"
THREADS: Final = "not compared: loops have become threads; bounds and writes are checked"

FRAGMENTS: Final = (
    "not compared: threads read it for each other, for a tensor core; bounds are checked"
)

NOT_EXECUTED: Final = -1
"""The address of an access that is not executed."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One access after a stage: how it was proved equal, or a counterexample."""

    after: Access
    before: Access | None
    answer: Answer
    substitution: Mapping[UOp, UOp] = field(default_factory=dict)
    """The loops before the stage, in those after it."""
    inside: Sequence[UOp] = ()
    """The conditions for iterations that existed before."""
    why: str = ""
    """What is wrong, if it is not the address of the access."""


@dataclass(frozen=True, slots=True)
class _LaneInstance:
    """An access before a stage, at some values of the loops that have become lanes."""

    access: Access
    fixed: tuple[tuple[UOp, int], ...] = ()

    def substitution(self, loop_map: LoopMap) -> dict[UOp, UOp]:
        constants = {r: UOp.const(index, value) for r, value in self.fixed}
        return {**loop_map.substitution, **constants}


def effective_address(
    access: Access, evaluation: Evaluation, inside: Sequence[Value] = ()
) -> Value:
    """Return the address of an access where it has an effect, else NOT_EXECUTED."""
    address = access.address(evaluation)
    happens = evaluation.conjunction(access.has_effect(evaluation), *inside)
    if happens is None:
        return address
    nowhere = evaluation.domain.constant(index, NOT_EXECUTED)
    return evaluation.domain.apply(ops.WHERE, index, happens, address, nowhere)


def compare(before: UOp, after: UOp, *, needs: bool) -> Iterator[Comparison]:
    """Yield every access that is new after a stage, compared with those before it."""
    old, new = accesses(before, needs=needs), accesses(after, needs=needs)
    known, still = set(old), set(new)
    idle = unused_lanes(after)
    new_accesses = [a for a in new if a not in known and a.number not in idle]
    spread = _fragments(after) if not _fragments(before) else set()
    for access in (a for a in new_accesses if a.node in spread):
        yield Comparison(access, None, Answer(How.OPEN, FRAGMENTS))
    new_accesses = [a for a in new_accesses if a.node not in spread]
    then, now = origins(before), origins(after)
    if not new_accesses and all(a in still for a in old) and then == now:
        return
    matchings = _matchings(old, new, new_accesses, before, after)
    through = {a.node for a in new if a.local_copy is not None}
    undetermined = {a.buffer for a in new if a.node in spread}
    for number, access in enumerate(new_accesses):
        own = next((p for p in matchings if not p.foreign & access.ranges()), matchings[0])
        found = own.decide_access(*own.pairs[number])
        # New memory has no before. What fills it is compared where it is read.
        if found.answer.detail != NEW_MEMORY and (
            found.answer.detail != OWN_LOOPS or access.node not in through
        ):
            yield found
            if found.answer.how is How.OPEN:
                undetermined.add(access.buffer)
    for matching in matchings:
        yield from matching.missing_stores()
        yield from matching.removed_iterations()
        yield from matching.missing_reads(undetermined)
        yield from matching.changed_sources(then, now, undetermined)


def _matchings(
    old: Sequence[Access],
    new: Sequence[Access],
    new_accesses: Sequence[Access],
    before: UOp,
    after: UOp,
) -> list[_Matching]:
    """Match accesses under the best loop map; under two, if iterations were peeled."""
    best: list[_Matching] = []
    fewest = len(new_accesses) + 1
    for several in itertools.chain(
        ([g] for g in candidate_loop_maps(before, after)), [peeled_loop_maps(before, after)]
    ):
        matchings = [_Matching(old, new, loop_map, before, after) for loop_map in several]
        for matching in matchings:
            matching.find(new_accesses)
        missed = sum(
            min((p.missed[k] for p in matchings), default=True) for k in range(len(new_accesses))
        )
        if matchings and missed < fewest:
            best, fewest = matchings, missed
        if not fewest:
            break
    assert best, "there is at least one loop map"
    return best


def compare_under(
    old: Sequence[Access], new: Sequence[Access], loop_map: LoopMap, before: UOp, after: UOp
) -> Iterator[Comparison]:
    """Yield accesses after a stage, compared with those before it under a loop map."""
    matching = _Matching(old, new, loop_map, before, after)
    matching.find(new)
    for access, copies in matching.pairs:
        yield matching.decide_access(access, copies)


def loop_guards_of(access: Access, loop_map: LoopMap) -> tuple[list[UOp], list[UOp]]:
    """Return the guards of a loop map: on the loops of an access, and on other loops.

    Beyond the end of a loop of its own the access must have no effect; beyond that of another loop
    there is nothing to compare it with, nor is there in local memory, which may be larger now.
    """
    own = access.ranges() if access.buffer[0] != ops.DEFINE_LOCAL.name else set()
    inner = [condition for r, condition in loop_map.inside.items() if r in own]
    outer = [condition for r, condition in loop_map.inside.items() if r not in own]
    for r, condition in loop_map.first_only.items():
        (inner if access.store and r in own else outer).append(condition)
    return inner, outer


def same_access(copy: _LaneInstance, after: Access, loop_map: LoopMap) -> Conjecture:
    """Return the conjecture that an access after a stage equals a lane instance before it."""
    substitution = copy.substitution(loop_map)
    roots, (inner, outer) = copy.access.roots(), loop_guards_of(copy.access, loop_map)

    def make(domain: Domain) -> Value:
        then, now = Evaluation(domain, substitution), Evaluation(domain)
        around = [now.value(condition) for condition in outer]
        inside = [now.value(condition) for condition in inner]
        a = effective_address(copy.access, then, [*inside, *around])
        return domain.apply(ops.EQ, index, a, effective_address(after, now, around))

    symbols = dict.fromkeys(
        [*symbols_in(roots, substitution), *symbols_in([*after.roots(), *inner, *outer])]
    )
    return Conjecture(make, tuple(symbols), max(copy.access.size, after.size))


# -- pairs -----------------------------------------------------------------------------------------


class _Matching:
    """Accesses before and after a stage, matched by their addresses at some points."""

    def __init__(
        self,
        old: Sequence[Access],
        new: Sequence[Access],
        loop_map: LoopMap,
        before: UOp,
        after: UOp,
    ) -> None:
        self.old, self.new, self.loop_map = old, new, loop_map
        left = set(loops_in(after))
        gone = [r for r in loops_in(before) if r not in left and r not in loop_map.substitution]
        self.lanes = [r for r in gone if r.arg[1] in (Axis.UPCAST, Axis.UNROLL)]
        said = {n for value in loop_map.substitution.values() for n in toposort(value)}
        self.foreign = left - set(loops_in(before)) - said
        """New loops that no loop before maps to, such as those of copies into local memory."""
        self.threads = _thread_indices(after) - _thread_indices(before) - said
        """Block and thread indices that loops have become."""
        roots = [root for a in new for root in a.roots()]
        olds = [root for a in old for root in a.roots()]
        symbols = [
            *symbols_in([*roots, *loop_map.inside.values(), *loop_map.first_only.values()]),
            *symbols_in(olds, loop_map.substitution),
        ]
        kept = [s for s in dict.fromkeys(symbols) if s[0] not in set(self.lanes)]
        self.points = PointDomain(
            kept, max_exhaustive=0, sample=PROBE_POINTS, width=max((a.size for a in old), default=0)
        )
        self.now = Evaluation(self.points)
        for node, _ in kept:  # before anything is compared: which points there are
            self.now.value(node)
        self.readings: dict[Any, Evaluation] = {}
        self.table: dict[tuple[Any, bool], dict[bytes, list[_LaneInstance]]] = {}
        self.copies: dict[Access, list[Taken]] = {}
        self.pairs: list[tuple[Access, list[_LaneInstance]]] = []
        self.missed: list[bool] = []
        """For each new access whether its buffer was accessed before, but no access matches."""

    def find(self, new_accesses: Sequence[Access]) -> None:
        """Match new accesses with old ones."""
        for access in self.old:
            row = self.table.setdefault((access.buffer, access.store), {})
            for copy in self._lane_instances(access):
                taken = self._addresses(access, copy.substitution(self.loop_map), then=True)
                if taken is not None:
                    row.setdefault(taken, []).append(copy)
                    self.copies.setdefault(access, []).append((dict(copy.fixed), taken))
        for access in new_accesses:
            known = self.table.get((access.buffer, access.store))
            taken = self._addresses(access, {}, then=False)
            copies = [] if taken is None or known is None else known.get(taken, [])
            self.pairs.append((access, copies))
            # New memory has no accesses before, whatever the loop map is.
            self.missed.append(not copies and taken is not None and known is not None)

    def _lane_instances(self, access: Access) -> Iterator[_LaneInstance]:
        own = {r for root in access.roots() for r in root.ranges}
        lanes = [r for r in self.lanes if r in own]
        values = itertools.product(*(range(int(r.vmax) + 1) for r in lanes))
        for chosen in itertools.islice(values, MAX_LANE_INSTANCES):
            yield _LaneInstance(access, tuple(zip(lanes, chosen, strict=True)))

    def _addresses(
        self, access: Access, substitution: Mapping[UOp, UOp], *, then: bool
    ) -> bytes | None:
        """Return the addresses of an access at all points that existed before; None if unknown."""
        key = frozenset(substitution.items()) if then else None
        evaluation = self.readings.get(key)
        if evaluation is None:
            evaluation = self.readings[key] = (
                Evaluation(self.points, substitution) if then else self.now
            )
        try:
            limits = (*self.loop_map.inside.values(), *self.loop_map.first_only.values())
            inside = [self.now.value(c) for c in limits]
            found: Array = np.asarray(effective_address(access, evaluation, inside))
        except Unknown:
            return None
        whole = np.broadcast_to(found, self.points.count).astype(np.int64)
        return np.where(self.points.active, whole, NOT_EXECUTED).tobytes()

    # -- answers -----------------------------------------------------------------------------------

    def decide_access(self, after: Access, copies: Sequence[_LaneInstance]) -> Comparison:
        """Decide whether a new access equals one of the old ones that it matches."""
        found: Comparison | None = None
        for copy in itertools.chain(copies[:1], self._best_candidates(after, copies)):
            answer = self._compare_with(after, copy)
            if found is None or answer.answer.holds:
                found = answer
            if found.answer.holds:
                break
        if found is not None:
            return found
        row = self.table.get((after.buffer, after.store))
        taken = self._addresses(after, {}, then=False)
        if row is None:
            return Comparison(after, None, Answer(How.OPEN, NEW_MEMORY))
        if taken is None or not row:
            why = "not compared: it depends on floats, or on what a loop computes"
            return Comparison(after, None, Answer(How.OPEN, why))
        if self.foreign & after.ranges():
            return Comparison(after, None, Answer(How.OPEN, OWN_LOOPS))
        if self.threads:
            return Comparison(after, None, Answer(How.OPEN, THREADS))
        idle = decide(_never_has_effect(after))
        if idle.holds:
            return Comparison(after, None, idle)
        own = np.frombuffer(taken, np.int64)
        nearest = max(row, key=lambda other: int((np.frombuffer(other, np.int64) == own).sum()))
        return self._compare_with(after, row[nearest][0])

    def _compare_with(self, after: Access, copy: _LaneInstance) -> Comparison:
        inside = [c for part in loop_guards_of(copy.access, self.loop_map) for c in part]
        answer = decide(same_access(copy, after, self.loop_map))
        return Comparison(after, copy.access, answer, copy.substitution(self.loop_map), inside)

    def _best_candidates(
        self, after: Access, copies: Sequence[_LaneInstance]
    ) -> Iterator[_LaneInstance]:
        """Yield more candidates, first those whose index also agrees where it is not executed."""
        if len(copies) < 2:
            return
        own = self._address(after, self.now)

        def differs(copy: _LaneInstance) -> int:
            evaluation = self.readings[frozenset(copy.substitution(self.loop_map).items())]
            return int((self._address(copy.access, evaluation) != own).sum())

        yield from sorted(copies, key=differs)[:MAX_CANDIDATES]

    def _address(self, access: Access, evaluation: Evaluation) -> Array:
        return np.broadcast_to(np.asarray(access.address(evaluation)), self.points.count)

    def missing_stores(self) -> Iterator[Comparison]:
        """Yield the stores before the stage that are not executed any more."""
        still = set(self.new)
        if self.threads:
            return
        nowhere = np.full(self.points.count, NOT_EXECUTED, np.int64).tobytes()
        buffers = {a.buffer for a in self.new}
        written = {self._addresses(a, {}, then=False) for a in self.new if a.store}
        for (buffer, store), row in self.table.items():
            if not store or buffer not in buffers:
                continue
            for taken, copies in row.items():
                access = copies[0].access
                if taken not in written and taken != nowhere and access not in still:
                    yield Comparison(access, access, Answer(None, "the store is gone"))

    def removed_iterations(self) -> Iterator[Comparison]:
        """Yield the accesses in iterations that were removed: they must have no effect."""
        for access in self.old if not self.threads else ():
            for cut in self.loop_map.shortened:
                conjecture = _no_effect_outside(access, *cut)
                if conjecture is not None:
                    yield Comparison(access, access, decide(conjecture))

    def missing_reads(self, undetermined: Collection[Buffer]) -> Iterator[Comparison]:
        """Yield the reads before the stage that had an effect and are not executed any more.

        A read of a wrong element is found by the right one, which is missing.
        """
        if self.threads:
            return
        still = set(self.new)
        seen = {a.local_copy.read.node for a in self.new if a.local_copy is not None}
        known = {a.buffer for a in self.old}
        obscure = any(not a.store and a.buffer not in known and a.node not in seen for a in still)
        for (buffer, store), row in self.table.items():
            if store or buffer in undetermined:
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
            done = {self._addresses(a, {}, then=False) for a in reads}
            if None in done:
                continue
            for taken, access in gone:
                if access.local_copy is not None and obscure:
                    continue  # it may be read there
                if taken not in done and not _is_covered(taken, done):
                    yield Comparison(access, access, Answer(None, "the read is gone"))

    def changed_sources(
        self, then: Origins, now: Origins, undetermined: set[Buffer]
    ) -> Iterator[Comparison]:
        """Yield stored elements that are computed from other elements than before."""
        if self.threads:
            return
        here: dict[Access, list[Taken]] = {}
        for access in self.new:
            taken = self._addresses(access, {}, then=False)
            if taken is not None and not self.foreign & access.ranges():
                here[access] = [({}, taken)]
        both = {a.buffer for a in self.old} & {a.buffer for a in self.new}
        before = element_sources(self.old, then, self.copies, both)
        after = element_sources(self.new, now, here, both)
        nowhere = np.full(self.points.count, NOT_EXECUTED, np.int64).tobytes()
        for place, was in before.items():
            made = after.get(place)
            if was is None or made is None or place[1] == nowhere:
                continue
            other = {
                buffer for buffer, taken in made if taken not in self.table.get((buffer, False), ())
            }
            for read in [*was, *made]:
                gone = read in was
                if (gone and read in made) or read[0] in undetermined | other or read[1] == nowhere:
                    continue
                store, access, always = was[read] if gone else made[read]
                if gone and not always:
                    continue
                how = "not computed any more" if gone else "computed, and was not,"
                why = f"{store.text} is {how} from {access.text}"
                yield Comparison(store, None, Answer(None, "made of other elements"), why=why)


def _is_covered(taken: bytes, done: Iterable[bytes | None]) -> bool:
    """Return whether other accesses together read every element that an access read."""
    left = np.frombuffer(taken, np.int64)
    missing = left != NOT_EXECUTED
    for other in done:
        assert other is not None
        missing &= np.frombuffer(other, np.int64) != left
        if not missing.any():
            return True
    return not missing.any()


def _never_has_effect(access: Access) -> Conjecture:
    """Return the conjecture that an access never has an effect, as an unused lane."""

    def make(domain: Domain) -> Value:
        matters = access.has_effect(Evaluation(domain))
        if matters is None:
            return domain.constant(boolean, False)
        return domain.apply(ops.NOT, boolean, matters)

    return Conjecture(make, tuple(symbols_in(access.roots())), access.size)


def _fragments(kernel: UOp) -> set[UOp]:
    """Return the nodes below the operands of tensor core products."""
    factors = [s for n in toposort(kernel) if n.op is ops.WMMA for s in n.src[:2]]
    return set(toposort(*factors)) if factors else set()


def _thread_indices(kernel: UOp) -> set[UOp]:
    return {n for n in toposort(kernel) if n.op is ops.SPECIAL}


def _no_effect_outside(access: Access, r: UOp, low: int, high: int) -> Conjecture | None:
    """Return the conjecture that an access has no effect in removed iterations."""
    if not any(r in root.ranges for root in access.roots()):
        return None

    def make(domain: Domain) -> Value:
        evaluation = Evaluation(domain)
        matters = access.has_effect(evaluation)
        at = evaluation.value(r)
        first = domain.apply(ops.GE, index, at, domain.constant(index, low))
        last = domain.apply(ops.LT, index, at, domain.constant(index, high))
        within = evaluation.conjunction(first, last)
        if matters is None:
            return within
        return evaluation.disjunction(domain.apply(ops.NOT, boolean, matters), within)

    return Conjecture(make, tuple(symbols_in([*access.roots(), r])), access.size)
