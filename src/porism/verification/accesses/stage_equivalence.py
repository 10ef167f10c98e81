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

from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.verification.accesses.access_conjectures import (
    NOT_EXECUTED,
    LaneInstance,
    effective_address,
    loop_guards_of,
    never_has_effect,
    no_effect_outside,
    same_access,
)
from porism.verification.accesses.element_origins import (
    Element,
    LaneAddresses,
    Origins,
    Read,
    element_sources,
    origins,
)
from porism.verification.accesses.index_evaluation import Buffer, Evaluation, Unknown
from porism.verification.accesses.iteration_conjectures import (
    Answer,
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


def compare(before: UOp, after: UOp, *, with_use_conditions: bool) -> Iterator[Comparison]:
    """Yield every access that is new after a stage, compared with those before it."""
    old, new = (
        accesses(before, with_use_conditions=with_use_conditions),
        accesses(after, with_use_conditions=with_use_conditions),
    )
    new_accesses = _new_accesses(old, new, after)
    fragments = _fragments(after) if not _fragments(before) else set()
    for access in (a for a in new_accesses if a.node in fragments):
        yield Comparison(access, None, Answer(How.OPEN, FRAGMENTS))
    new_accesses = [a for a in new_accesses if a.node not in fragments]
    then, now = origins(before), origins(after)
    if not new_accesses and set(old).issubset(new) and then == now:
        return
    matchings = _matchings(old, new, new_accesses, before, after)
    undetermined = {a.buffer for a in new if a.node in fragments}
    for comparison in _decide_accesses(matchings, new_accesses, new):
        yield comparison
        if comparison.answer.how is How.OPEN:
            undetermined.add(comparison.after.buffer)
    for matching in matchings:
        yield from matching.missing_stores()
        yield from matching.removed_iterations()
        yield from matching.missing_reads(undetermined)
        yield from matching.changed_sources(then, now, undetermined)


def _new_accesses(old: Sequence[Access], new: Sequence[Access], after: UOp) -> list[Access]:
    """Return the accesses that did not exist before, without lanes that nothing uses."""
    known, unused = set(old), unused_lanes(after)
    return [a for a in new if a not in known and a.number not in unused]


def _decide_accesses(
    matchings: Sequence[_Matching], new_accesses: Sequence[Access], new: Sequence[Access]
) -> Iterator[Comparison]:
    """Yield new accesses, each decided in the matching of its loops.

    New memory has no accesses before; the copies that fill it are compared where it is read.
    """
    copied = {a.node for a in new if a.local_copy is not None}
    for number, access in enumerate(new_accesses):
        own = next((m for m in matchings if not m.foreign & access.ranges()), matchings[0])
        comparison = own.decide_access(*own.pairs[number])
        detail = comparison.answer.detail
        if detail != NEW_MEMORY and (detail != OWN_LOOPS or access.node not in copied):
            yield comparison


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
    for loop_maps in itertools.chain(
        ([loop_map] for loop_map in candidate_loop_maps(before, after)),
        [peeled_loop_maps(before, after)],
    ):
        matchings = [_Matching(old, new, loop_map, before, after) for loop_map in loop_maps]
        for matching in matchings:
            matching.find(new_accesses)
        missed = sum(
            min((matching.missed[k] for matching in matchings), default=True)
            for k in range(len(new_accesses))
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


# -- matching --------------------------------------------------------------------------------------


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
        loops_after = set(loops_in(after))
        removed = [
            r for r in loops_in(before) if r not in loops_after and r not in loop_map.substitution
        ]
        self.lanes = [r for r in removed if r.arg[1] in (Axis.UPCAST, Axis.UNROLL)]
        replacement_nodes = {n for value in loop_map.substitution.values() for n in toposort(value)}
        self.foreign = loops_after - set(loops_in(before)) - replacement_nodes
        """New loops that no loop before maps to, such as those of copies into local memory."""
        self.threads = _thread_indices(after) - _thread_indices(before) - replacement_nodes
        """Block and thread indices that loops have become."""
        self.points = self._probe_points()
        self.now = Evaluation(self.points)
        for node, _ in self.points.symbols:  # evaluates extents, which tell the active points
            self.now.value(node)
        self.nowhere = np.full(self.points.count, NOT_EXECUTED, np.int64).tobytes()
        """The addresses of an access that is executed at no point."""
        self.evaluations: dict[Any, Evaluation] = {}
        self.table: dict[tuple[Any, bool], dict[bytes, list[LaneInstance]]] = {}
        self.copies: dict[Access, list[LaneAddresses]] = {}
        self.pairs: list[tuple[Access, list[LaneInstance]]] = []
        self.missed: list[bool] = []
        """For each new access whether its buffer was accessed before, but no access matches."""

    def _probe_points(self) -> PointDomain:
        """Return the points at which accesses are evaluated: values of all symbols but lanes."""
        loop_map = self.loop_map
        new_roots = [root for a in self.new for root in a.roots()]
        old_roots = [root for a in self.old for root in a.roots()]
        symbols = [
            *symbols_in([*new_roots, *loop_map.inside.values(), *loop_map.first_only.values()]),
            *symbols_in(old_roots, loop_map.substitution),
        ]
        symbols = [s for s in dict.fromkeys(symbols) if s[0] not in set(self.lanes)]
        width = max((a.size for a in self.old), default=0)
        return PointDomain(symbols, max_exhaustive=0, sample=PROBE_POINTS, width=width)

    def find(self, new_accesses: Sequence[Access]) -> None:
        """Match new accesses with old ones."""
        for access in self.old:
            row = self.table.setdefault((access.buffer, access.store), {})
            for copy in self._lane_instances(access):
                addresses = self._addresses(access, copy.substitution(self.loop_map), then=True)
                if addresses is not None:
                    row.setdefault(addresses, []).append(copy)
                    self.copies.setdefault(access, []).append((dict(copy.fixed), addresses))
        for access in new_accesses:
            known = self.table.get((access.buffer, access.store))
            addresses = self._addresses(access, {}, then=False)
            copies = [] if addresses is None or known is None else known.get(addresses, [])
            self.pairs.append((access, copies))
            # New memory has no accesses before, whatever the loop map is.
            self.missed.append(not copies and addresses is not None and known is not None)

    def _lane_instances(self, access: Access) -> Iterator[LaneInstance]:
        own = {r for root in access.roots() for r in root.ranges}
        lanes = [r for r in self.lanes if r in own]
        values = itertools.product(*(range(int(r.vmax) + 1) for r in lanes))
        for chosen in itertools.islice(values, MAX_LANE_INSTANCES):
            yield LaneInstance(access, tuple(zip(lanes, chosen, strict=True)))

    def _addresses(
        self, access: Access, substitution: Mapping[UOp, UOp], *, then: bool
    ) -> bytes | None:
        """Return the addresses of an access at all points that existed before; None if unknown."""
        key = frozenset(substitution.items()) if then else None
        evaluation = self.evaluations.get(key)
        if evaluation is None:
            evaluation = self.evaluations[key] = (
                Evaluation(self.points, substitution) if then else self.now
            )
        try:
            limits = (*self.loop_map.inside.values(), *self.loop_map.first_only.values())
            inside = [self.now.value(c) for c in limits]
            address: Array = np.asarray(effective_address(access, evaluation, inside))
        except Unknown:
            return None
        at_all_points = np.broadcast_to(address, self.points.count).astype(np.int64)
        return np.where(self.points.active, at_all_points, NOT_EXECUTED).tobytes()

    # -- answers -----------------------------------------------------------------------------------

    def decide_access(self, after: Access, copies: Sequence[LaneInstance]) -> Comparison:
        """Decide whether a new access equals one of the old ones that it matches."""
        comparison: Comparison | None = None
        for copy in itertools.chain(copies[:1], self._best_candidates(after, copies)):
            candidate = self._compare_with(after, copy)
            if comparison is None or candidate.answer.holds:
                comparison = candidate
            if comparison.answer.holds:
                break
        if comparison is not None:
            return comparison
        row = self.table.get((after.buffer, after.store))
        addresses = self._addresses(after, {}, then=False)
        if row is None:
            return Comparison(after, None, Answer(How.OPEN, NEW_MEMORY))
        if addresses is None or not row:
            why = "not compared: it depends on floats, or on what a loop computes"
            return Comparison(after, None, Answer(How.OPEN, why))
        if self.foreign & after.ranges():
            return Comparison(after, None, Answer(How.OPEN, OWN_LOOPS))
        if self.threads:
            return Comparison(after, None, Answer(How.OPEN, THREADS))
        never_executed = decide(never_has_effect(after))
        if never_executed.holds:
            return Comparison(after, None, never_executed)
        own_addresses = np.frombuffer(addresses, np.int64)
        nearest = max(
            row, key=lambda other: int((np.frombuffer(other, np.int64) == own_addresses).sum())
        )
        return self._compare_with(after, row[nearest][0])

    def _compare_with(self, after: Access, copy: LaneInstance) -> Comparison:
        inside = [c for part in loop_guards_of(copy.access, self.loop_map) for c in part]
        answer = decide(same_access(copy, after, self.loop_map))
        return Comparison(after, copy.access, answer, copy.substitution(self.loop_map), inside)

    def _best_candidates(
        self, after: Access, copies: Sequence[LaneInstance]
    ) -> Iterator[LaneInstance]:
        """Yield more candidates, first those whose index also agrees where it is not executed."""
        if len(copies) < 2:
            return
        own = self._address(after, self.now)

        def differs(copy: LaneInstance) -> int:
            evaluation = self.evaluations[frozenset(copy.substitution(self.loop_map).items())]
            return int((self._address(copy.access, evaluation) != own).sum())

        yield from sorted(copies, key=differs)[:MAX_CANDIDATES]

    def _address(self, access: Access, evaluation: Evaluation) -> Array:
        return np.broadcast_to(np.asarray(access.address(evaluation)), self.points.count)

    def missing_stores(self) -> Iterator[Comparison]:
        """Yield the stores before the stage that are not executed any more."""
        still = set(self.new)
        if self.threads:
            return
        buffers = {a.buffer for a in self.new}
        written = {self._addresses(a, {}, then=False) for a in self.new if a.store}
        for (buffer, store), row in self.table.items():
            if not store or buffer not in buffers:
                continue
            for addresses, copies in row.items():
                access = copies[0].access
                if addresses not in written and addresses != self.nowhere and access not in still:
                    yield Comparison(access, access, Answer(None, "the store is gone"))

    def removed_iterations(self) -> Iterator[Comparison]:
        """Yield the accesses in iterations that were removed: they must have no effect."""
        for access in self.old if not self.threads else ():
            for shortened in self.loop_map.shortened:
                conjecture = no_effect_outside(access, *shortened)
                if conjecture is not None:
                    yield Comparison(access, access, decide(conjecture))

    def missing_reads(self, undetermined: Collection[Buffer]) -> Iterator[Comparison]:
        """Yield the reads before the stage that had an effect and are not executed any more.

        A read of a wrong element is found by the right one, which is missing.
        """
        if self.threads:
            return
        reads_unknown_memory = self._reads_unknown_memory()
        for (buffer, store), row in self.table.items():
            if store or buffer in undetermined:
                continue
            for access in self._missing_reads_of(buffer, row):
                # A copy may be read through memory of which nothing is known.
                if access.local_copy is None or not reads_unknown_memory:
                    yield Comparison(access, access, Answer(None, "the read is gone"))

    def _missing_reads_of(
        self, buffer: Buffer, row: Mapping[bytes, Sequence[LaneInstance]]
    ) -> list[Access]:
        """Return the reads of a buffer whose elements are not read any more."""
        removed = self._removed_reads(row)
        reads = [a for a in self.new if a.buffer == buffer and not a.store]
        if not removed or (not reads and buffer[0] != ops.PARAM.name):
            return []  # local memory that is not read at all has been replaced by another
        read = {self._addresses(a, {}, then=False) for a in reads}
        if None in read:
            return []
        return [
            access
            for addresses, access in removed
            if addresses not in read and not _is_covered(addresses, read)
        ]

    def _reads_unknown_memory(self) -> bool:
        """Return whether new memory is read of which it is not known what was copied there."""
        copied = {a.local_copy.read.node for a in self.new if a.local_copy is not None}
        known = {a.buffer for a in self.old}
        return any(not a.store and a.buffer not in known and a.node not in copied for a in self.new)

    def _removed_reads(
        self, row: Mapping[bytes, Sequence[LaneInstance]]
    ) -> list[tuple[bytes, Access]]:
        """Return the reads of a buffer that are not among those after, with their addresses."""
        still = set(self.new)
        return [
            (addresses, copies[0].access)
            for addresses, copies in row.items()
            if not any(copy.access in still and not copy.fixed for copy in copies)
        ]

    def changed_sources(
        self, then: Origins, now: Origins, undetermined: set[Buffer]
    ) -> Iterator[Comparison]:
        """Yield stored elements that are computed from other elements than before."""
        if self.threads:
            return
        instances: dict[Access, list[LaneAddresses]] = {}
        for access in self.new:
            addresses = self._addresses(access, {}, then=False)
            if addresses is not None and not self.foreign & access.ranges():
                instances[access] = [({}, addresses)]
        both = {a.buffer for a in self.old} & {a.buffer for a in self.new}
        before = element_sources(self.old, then, self.copies, both)
        after = element_sources(self.new, now, instances, both)
        for element, old_sources in before.items():
            new_sources = after.get(element)
            if old_sources is None or new_sources is None or element[1] == self.nowhere:
                continue
            unmatched = {
                buffer
                for buffer, addresses in new_sources
                if addresses not in self.table.get((buffer, False), ())
            }
            yield from self._changes(old_sources, new_sources, undetermined | unmatched)

    def _changes(
        self, old: Mapping[Element, Read], new: Mapping[Element, Read], ignored: set[Buffer]
    ) -> Iterator[Comparison]:
        """Yield the sources of an element that are missing or added, except in some buffers."""
        for source in [*old, *new]:
            missing = source in old
            if (missing and source in new) or source[0] in ignored or source[1] == self.nowhere:
                continue
            store, access, always = old[source] if missing else new[source]
            if missing and not always:
                continue
            how = "not computed any more" if missing else "computed, and was not,"
            why = f"{store.text} is {how} from {access.text}"
            yield Comparison(store, None, Answer(None, "made of other elements"), why=why)


def _is_covered(addresses: bytes, others: Iterable[bytes | None]) -> bool:
    """Return whether other accesses together read every element that an access read."""
    wanted = np.frombuffer(addresses, np.int64)
    missing = wanted != NOT_EXECUTED
    for other in others:
        assert other is not None
        missing &= np.frombuffer(other, np.int64) != wanted
        if not missing.any():
            return True
    return not missing.any()


def _fragments(kernel: UOp) -> set[UOp]:
    """Return the nodes below the operands of tensor core products."""
    factors = [s for n in toposort(kernel) if n.op is ops.WMMA for s in n.src[:2]]
    return set(toposort(*factors)) if factors else set()


def _thread_indices(kernel: UOp) -> set[UOp]:
    return {n for n in toposort(kernel) if n.op is ops.SPECIAL}
