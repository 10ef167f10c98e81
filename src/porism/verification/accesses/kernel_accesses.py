"""Accesses: where a kernel reads and writes, lane by lane, and under which conditions.

An access happens where its index is valid and its gate is open. What it read matters only where a
choice takes it: that is its *need*. A mask may move between the two, so both together are what a
stage must keep: `WHERE(c, x[i], 0)` and `x[WHERE(c, i, INVALID)]` read the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import Kind, index
from porism.ir import ops
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import substitute, toposort
from porism.rules.addresses.strides import stride
from porism.verification.accesses.index_evaluation import SYMBOLS, Buffer, Reading, Value, buffer_of

MOST_NEEDS: Final = 6
"""Ways of being needed that are told apart; a value that is needed in more is always needed."""

Need = frozenset[tuple[UOp, bool]]
"""Conditions, each with whether it holds or not, under which a value is needed."""

Needs = frozenset[Need]
"""Several of them, any of which will do."""

ALWAYS: Final[Needs] = frozenset({frozenset()})


@dataclass(frozen=True, slots=True)
class Access:
    """One lane of an INDEX."""

    node: UOp
    buffer: Buffer
    size: int
    """The elements of the buffer, at most."""
    at: UOp
    lane: int
    """Of the index; 0 if all lanes share one."""
    beyond: int
    """How far behind the index the element of this lane is."""
    gates: tuple[tuple[UOp, int], ...]
    store: bool
    needs: Needs = ALWAYS
    copied: Copied | None = None
    """For what is read from local memory: how it got there."""

    @property
    def text(self) -> str:
        name, number = self.buffer
        shown = f"p{number}" if name == ops.PARAM.name else f"local{number[0]}"
        conditions = [show(gate, limit=120) for gate, _ in self.gates]
        where = f" if {' & '.join(conditions)}" if conditions else ""
        lane = self.lane or self.beyond
        by = f" through {self.copied.read.text}" if self.copied else ""
        return f"{shown}[{show(self.at, limit=200)}{where}]{f' in lane {lane}' * bool(lane)}{by}"

    @property
    def number(self) -> tuple[UOp, int]:
        """Which lane of which access it is."""
        return self.node, self.lane + self.beyond

    def ranges(self) -> set[UOp]:
        """The ranges that its place depends on."""
        if self.copied is not None:
            own = {r for root in [self.at, *(g for g, _ in self.gates)] for r in root.ranges}
            return (own - self.copied.meaning.keys()) | self.copied.read.ranges()
        return {r for root in [self.at, *(g for g, _ in self.gates)] for r in root.ranges}

    def roots(self) -> list[UOp]:
        """What it is computed from; of a copy, all but the loops that made it."""
        needed = [condition for need in self.needs for condition, _ in need]
        own = [self.at, *(gate for gate, _ in self.gates)]
        if self.copied is not None:
            loops = self.copied.meaning.keys()
            leaves = [n for n in toposort(*own, self.copied.into) if n.op in SYMBOLS]
            return [*(n for n in leaves if n not in loops), *self.copied.read.roots(), *needed]
        return [*own, *needed]

    def address(self, reading: Reading) -> Value:
        here = reading if self.copied is None else self.copied.inside(reading)
        return here.plus(here.value(self.at, self.lane), self.beyond)

    def happens(self, reading: Reading) -> Value:
        """Whether memory is touched; None for always."""
        here = reading if self.copied is None else self.copied.inside(reading)
        gates = [here.value(gate, lane) for gate, lane in self.gates]
        own = here.all(here.valid(self.at, self.lane), *gates)
        return own if self.copied is None else reading.all(own, self.copied.happens(reading))

    def matters(self, reading: Reading) -> Value:
        """Whether what is read or written there has an effect; None for always."""
        if self.needs == ALWAYS:
            return self.happens(reading)
        ways = []
        for need in self.needs:
            parts = [
                reading.value(c)
                if holds
                else reading.world.apply(ops.NOT, c.dtype, reading.value(c))
                for c, holds in sorted(need, key=lambda part: part[0].key)
            ]
            ways.append(reading.all(*parts))
        return reading.all(self.happens(reading), reading.any(*ways))


@dataclass(frozen=True)
class Copied:
    """A copy into local memory, and an access that reads it.

    The loops that make the copy are said by the place that is read: that they lead to this place,
    and not to another, is a part of whether the access happens.
    """

    read: Access
    into: UOp
    """The index at which the copy is stored."""
    meaning: Mapping[UOp, UOp]
    """The loops of the copy, by the index that is read."""

    def __hash__(self) -> int:
        return hash((self.read, self.into))

    def inside(self, reading: Reading) -> Reading:
        """The iteration that made the copy."""
        return reading.under(self.meaning)

    def happens(self, reading: Reading) -> Value:
        here, world = self.inside(reading), reading.world
        place = world.apply(ops.EQ, index, here.value(self.into), self.read.address(reading))
        return reading.all(here.valid(self.into), place, self.read.happens(reading))


def accesses(kernel: UOp, *, needs: bool = False) -> list[Access]:
    """The accesses to memory with an address, in the order of the graph."""
    order = toposort(kernel)
    places = {n.src[0] for n in order if n.op is ops.STORE}
    needed = _needs(order) if needs else {}
    found = []
    for node in order:
        if node.op is not ops.INDEX or node.src[0].op is ops.INDEX or len(node.src) < 2:
            continue
        buffer = buffer_of(node)
        if buffer is not None and _one_index(node):
            found += _lanes(node, buffer, node in places, needed.get(node, ALWAYS))
    return [*found, *_copies(found, order)] if needs else found


def _one_index(node: UOp) -> bool:
    return len([s for s in node.src[1:] if s.dtype.element.kind is not Kind.BOOL]) == 1


def _lanes(node: UOp, buffer: Buffer, store: bool, needs: Needs) -> list[Access]:
    at, *gates = node.src[1:]
    count = _count(node)
    size = base_of(node).dtype.size
    return [
        Access(
            node, buffer, size, at,
            lane if at.dtype.count > 1 else 0,
            lane if at.dtype.count == 1 else 0,
            tuple((gate, lane if gate.dtype.count > 1 else 0) for gate in gates),
            store, ALWAYS if store else needs,
        )
        for lane in range(count)
    ]  # fmt: skip


# -- copies ----------------------------------------------------------------------------------------


def _copies(found: Sequence[Access], order: Sequence[UOp]) -> Iterator[Access]:
    """What is read through local memory that was filled from a buffer by one store."""
    stores: dict[UOp, list[UOp]] = {}
    for node in order:
        if node.op is ops.STORE:
            stores.setdefault(base_of(node.src[0]), []).append(node)
    for read in found:
        filled = stores.get(base_of(read.node), [])
        if read.store or read.buffer[0] != ops.DEFINE_LOCAL.name or len(filled) != 1:
            continue
        place, value = filled[0].src
        element, gates = value, []
        if value.op is ops.WHERE and value.src[2].op is ops.CONST:
            element, gates = value.src[1], [value.src[0]]
        plain = element.op is ops.INDEX and element.dtype.kind is not Kind.POINTER
        if not plain or base_of(element).op is not ops.PARAM or len(place.src) != 2:
            continue
        around = set(read.node.src[0].ranges)
        loops = [r for r in toposort(place.src[1], element) if r.op is ops.RANGE]
        loops = [r for r in loops if r not in around]
        meaning = taken_apart(place.src[1], loops, read.at)
        buffer = buffer_of(element)
        if meaning is None or buffer is None or not _one_index(element):
            continue
        if not _each_elsewhere(place.src[1], loops):
            continue
        copied = Copied(read, place.src[1], meaning)
        at, *own = element.src[1:]
        yield Access(
            element, buffer, base_of(element).dtype.size, at, 0, 0,
            tuple((gate, 0) for gate in (*own, *gates)), False, read.needs, copied,
        )  # fmt: skip


def _each_elsewhere(total: UOp, loops: Sequence[UOp]) -> bool:
    """Whether no iteration overwrites what another has written; masks are taken to see to it."""
    if total.op is ops.WHERE and total.src[2].op is ops.INVALID:
        return True
    reach = 0
    for step, last in sorted((stride(total, r) or 0, int(r.vmax)) for r in loops):
        if last and step <= reach:
            return False
        reach += step * last
    return True


def taken_apart(total: UOp, loops: Sequence[UOp], at: UOp) -> dict[UOp, UOp] | None:
    """The values of loops for which an index is `at`, if it counts them like digits."""
    if at.op is ops.WHERE and at.src[2].op is ops.INVALID:
        at = at.src[1]
    if total.op is ops.WHERE and total.src[2].op is ops.INVALID:
        total = total.src[1]
    steps = {r: stride(total, r) for r in loops}
    rest = substitute(total, {r: UOp.const(r.dtype, 0) for r in loops}, exactly=True)
    number = UOp(ops.SUB, None, (at, rest))
    found: dict[UOp, UOp] = {}
    if any(not isinstance(step, int) or step < 1 for step in steps.values()):
        return None
    for r, step in sorted(steps.items(), key=lambda row: -(row[1] or 0)):
        size = UOp.const(index, int(step or 0))
        found[r] = UOp(ops.IDIV, None, (number, size))
        number = UOp(ops.MOD, None, (number, size))
    return found


# -- lanes -----------------------------------------------------------------------------------------


def idle_lanes(kernel: UOp) -> set[tuple[UOp, int]]:
    """The lanes of wide reads that nobody takes: elements between those that are wanted.

    Every second element comes out of wide loads. What lies between is read, so that it has to be
    inside of its buffer, but it is no access of the program.
    """
    order = toposort(kernel)
    if not any(n.op is ops.GEP and n.src[0].dtype.count > 1 for n in order):
        return set()
    taken: dict[UOp, set[int]] = {}
    for node in reversed(order):
        own = taken.get(node, set())
        before = 0
        for s in node.src:
            count = _count(s)
            lanes: Iterable[int] = range(count)
            if node.op is ops.GEP:
                lanes = [node.arg[k] for k in own]
            elif node.op is ops.CAT:
                lanes = [k - before for k in own if before <= k < before + count]
                before += count
            elif _lane_by_lane(node) and count == _count(node):
                lanes = own
            taken.setdefault(s, set()).update(lanes)
    reads = (n for n in order if n.op is ops.INDEX and _count(n) > 1)
    return {(n, k) for n in reads for k in range(_count(n)) if k not in taken[n]}


def _lane_by_lane(node: UOp) -> bool:
    return node.op.elementwise or node.op in (ops.LOAD, ops.CAST, ops.BITCAST)


def _count(node: UOp) -> int:
    return 1 if node.dtype.kind is Kind.POINTER else node.dtype.count


# -- needs -----------------------------------------------------------------------------------------


def _needs(order: Sequence[UOp]) -> dict[UOp, Needs]:
    """When the value of each node matters."""
    pure = _pure(order)
    found: dict[UOp, Needs] = {}
    for node in reversed(order):
        own = found.get(node, ALWAYS)
        for place, s in enumerate(node.src):
            need = own
            if node.op is ops.WHERE and place and node.src[0] in pure:
                need = _under(own, node.src[0], place == 1)
            elif node.op is ops.STORE:
                need = _written(node, pure) if place else ALWAYS
            elif node.op in (ops.END, ops.SINK, ops.GROUP, ops.AFTER, ops.BARRIER):
                need = own if node.op is ops.AFTER and not place else ALWAYS
            need = _about(need, s)
            found[s] = need if s not in found else _either(found[s], need)
    return found


def _about(needs: Needs, node: UOp) -> Needs:
    """The conditions that are about the iterations of a node itself: it is made once for others."""
    if needs == ALWAYS:
        return needs
    own = set(node.ranges)
    kept = [frozenset(part for part in need if set(part[0].ranges) <= own) for need in needs]
    return ALWAYS if frozenset() in kept else frozenset(kept)


def _pure(order: Sequence[UOp]) -> set[UOp]:
    """Conditions and indices that loops and sizes alone decide."""
    found: set[UOp] = set()
    for node in order:
        leaf = node.op in (ops.RANGE, ops.SPECIAL, ops.VARIABLE, ops.CONST)
        number = node.dtype.is_integer or node.dtype.kind is Kind.BOOL
        if number and (leaf or (node.op.elementwise and all(s in found for s in node.src))):
            found.add(node)
    return found


def _written(store: UOp, pure: set[UOp]) -> Needs:
    """What is written matters where the place is one."""
    need = ALWAYS
    for s in store.src[0].src[1:]:
        if s.dtype.kind is Kind.BOOL and s in pure:
            need = _under(need, s, True)
        elif s.op is ops.WHERE and s.src[2].op is ops.INVALID and s.src[0] in pure:
            need = _under(need, s.src[0], True)
    return need


def _under(needs: Needs, condition: UOp, holds: bool) -> Needs:
    parts = list(_parts(condition, holds))
    return frozenset(need.union(parts) for need in needs)


def _parts(condition: UOp, holds: bool) -> Iterator[tuple[UOp, bool]]:
    """Conditions that hold together where one does, each about as few loops as can be."""
    if condition.op is (ops.AND if holds else ops.OR):
        for s in condition.src:
            yield from _parts(s, holds)
    else:
        yield condition, holds


def _either(a: Needs, b: Needs) -> Needs:
    both = a | b
    if frozenset() in both or len(both) > MOST_NEEDS:
        return ALWAYS
    return both
