"""Traffic: the bytes that an arranged kernel moves into each cache, from its loops alone.

An access goes through memory in the steps of its loops. So it is known which lines it touches in
the iterations of some inner loops: its footprint. Loops of which all footprints together fit in a
cache find there what they use again. What is outside of them has to bring it anew, but for what one
iteration shares with the one before. Lines whose addresses are a way of a cache apart share a few
places, and take as much room as all that lies between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.base.target import LINE, Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.op_signatures import STREAM
from porism.optimize.strategy.action_plan import extent_of
from porism.rules.addresses.validity import is_masked

WAYS: Final = 8
"""Lines of a cache in the same place."""

SHORT: Final = 512
"""Bytes one after the other, of which a processor sees too late that they are."""

APART: Final = 0.6
"""How much longer these take, in proportion."""

ALONE: Final = 1.25
"""How many times its part of memory's bytes a core gets that has it for itself."""

STREAMS: Final = 16
"""Rows side by side of which a processor sees by itself what is read next."""

Steps = list[tuple[int, int]]
"""Bytes from one iteration to the next, and how many there are. A loop that was two goes in two."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What an access touches."""

    size: float
    """Bytes of whole lines."""
    room: float
    """Bytes that they take in a cache."""


@dataclass(slots=True)
class _Access:
    """Reading or writing, in its loops."""

    nest: tuple[UOp, ...]
    """The loops around it, the outermost first, but for those that go side by side."""
    steps: Mapping[UOp, Steps]
    beside: Steps
    """The steps of those that go side by side."""
    item: int
    most: int
    """Bytes of its buffer."""
    times: int
    """How often a line is moved: twice if what is there is read and then written."""
    is_local: bool
    run: float = 0.0
    """Bytes that are one after the other, in the order of the loops."""
    known: dict[tuple[int, int, int], Footprint] = field(default_factory=dict)

    def footprint(self, place: int, way: int, cores: int) -> Footprint:
        """Of the loops from one on."""
        key = (place, way, cores)
        found = self.known.get(key)
        if found is None:
            steps = list(self.beside)
            for r in self.nest[place:]:
                steps += _part(r, self.steps.get(r, []), cores)
            found = self.known[key] = footprint(steps, self.item, self.most, way)
        return found

    def find_run(self) -> None:
        """Note how far it goes before it jumps."""
        run, rows = self.item, 1
        for far, count in sorted(self.beside):
            if far <= max(run, LINE):
                run += far * (count - 1)
            else:
                rows *= count
        for r in reversed(self.nest):
            for far, count in self.steps.get(r, []):
                if far <= max(run, LINE):
                    run += far * (count - 1)
                else:
                    rows *= count
            if rows > STREAMS:
                break
        self.run = max(run, LINE)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a core moves."""

    l1: float
    """Bytes into its first cache."""
    l2: float
    """Bytes into its second cache; more, if it is seldom the next that is read."""
    memory: float
    """Bytes from memory, its part of them; more likewise."""


def trips(counter: UOp, cores: int) -> int:
    """The iterations of a loop that one of some cores has."""
    size = extent_of(counter)
    return -(-size // cores) if counter.arg[1] is Axis.THREAD else size


def _part(counter: UOp, steps: Steps, cores: int) -> Steps:
    """The steps of a loop, or of a core's part of it."""
    if counter.arg[1] is not Axis.THREAD or not steps:
        return steps
    *inner, (far, count) = steps
    return [*inner, (far, -(-count // cores))]


def footprint(steps: Steps, item: int, most: int, way: int) -> Footprint:
    """What is touched by steps through a buffer of so many bytes."""
    dims: Steps = [(item, 1)]
    for far, count in sorted(steps):
        for k, (near, there) in enumerate(dims):
            if far % near == 0 and far // near <= there:  # it goes on in what is touched there
                dims[k] = (near, there + far // near * (count - 1))
                break
        else:
            dims.append((far, count))
    run, rows, room = item, 1, float(item)
    for far, count in dims:
        if far <= max(run, LINE) and rows == 1:
            run += far * (count - 1)
            room = run + LINE / 2
        else:
            rows *= count
            room = count * max(room, math.gcd(far, way))
    size = min(rows * max(run + LINE / 2, LINE), max(most, LINE))
    return Footprint(size, max(room, size))


# -- steps -----------------------------------------------------------------------------------------


def steps_of(index: UOp, known: dict[UOp, dict[UOp, Steps]]) -> dict[UOp, Steps]:
    """For each loop that an index depends on its steps, about: what is clamped goes on.

    A loop that is divided goes in two steps: those of the remainders, and those of the quotients.
    """
    stack = [index]
    while stack:
        node = stack[-1]
        if node in known:
            stack.pop()
        elif node.op is ops.RANGE:
            known[node] = {node: [(1, extent_of(node))]}
        elif not node.ranges:
            known[node] = {}
        elif node.op is ops.INDEX and node.src[1] in known:  # data say where: anywhere
            known[node] = {r: _times(own, LINE) for r, own in known[node.src[1]].items()}
        elif missing := [s for s in node.src if s not in known]:
            stack += missing
        else:
            known[node] = _combined(node, [known[s] for s in node.src])
    return known[index]


def _combined(node: UOp, parts: Sequence[dict[UOp, Steps]]) -> dict[UOp, Steps]:
    constant = node.src[-1].arg if node.op in _BY_CONSTANT and node.src[-1].op is ops.CONST else 0
    if node.op in _BY_CONSTANT and constant:
        by = abs(int(constant))
        change = {ops.MUL: _times, ops.IDIV: _divided, ops.CDIV: _divided}.get(node.op, _rest)
        return {r: new for r, steps in parts[0].items() if (new := change(steps, by))}
    found: dict[UOp, Steps] = {}
    for part in parts[node.op is ops.WHERE :]:
        for r, steps in part.items():
            there = found.get(r)
            if there is None:
                found[r] = steps
            elif node.op in (ops.ADD, ops.SUB):  # else it is one or the other
                found[r] = sorted([*there, *steps])
    return found


_BY_CONSTANT: Final = (ops.MUL, ops.IDIV, ops.CDIV, ops.MOD, ops.CMOD)


def _times(steps: Steps, by: int) -> Steps:
    return [(far * by, count) for far, count in steps]


def _divided(steps: Steps, by: int) -> Steps:
    found = [(max(far // by, 1), count if far >= by else far * count // by) for far, count in steps]
    return [(far, count) for far, count in found if count > 1]


def _rest(steps: Steps, by: int) -> Steps:
    return [(far, min(count, -(-by // far))) for far, count in steps if far < by]


# -- traffic ---------------------------------------------------------------------------------------


def traffic(order: Sequence[UOp], around: Mapping[UOp, frozenset[UOp]], target: Target) -> Traffic:
    """What one of the cores moves for a kernel, given the loops around each range."""
    accesses = _accesses(order, around)
    memory = target.memory
    l1 = _moved(accesses, memory.l1 or 1 << 15, target.cores, 0.0)
    l2 = _moved(accesses, memory.l2 or 1 << 18, target.cores, APART)
    far = _moved(accesses, memory.last_cache, 1, APART, is_shared=True)
    is_divided = any(n.op is ops.RANGE and n.arg[1] is Axis.THREAD for n in order)
    return Traffic(l1, l2, far / (target.cores if is_divided else min(ALONE, target.cores)))


def _accesses(order: Iterable[UOp], around: Mapping[UOp, frozenset[UOp]]) -> list[_Access]:
    stores = {n.src[0]: n for n in order if n.op is ops.STORE}
    known: dict[UOp, dict[UOp, Steps]] = {}
    found = []
    for node in order:
        if node.op is not ops.INDEX or len(node.src) < 2:
            continue
        base = base_of(node)
        loops = {r for own in node.ranges for r in around.get(own, ())}
        nest = tuple(sorted(loops, key=lambda r: (len(around[r]), r.arg[0])))
        item = int(base.dtype.element.numpy.itemsize)
        at = node.src[1].src[1] if is_masked(node.src[1]) else node.src[1]
        steps = {r: _times(own, item) for r, own in steps_of(at, known).items()}
        beside = [step for r, own in steps.items() if r not in loops for step in own]
        store = stores.get(node)
        times = 2 if store is not None and store.arg != STREAM else 1
        most = int(base.dtype.size) * item
        is_local = base.op is not ops.PARAM
        access = _Access(nest, steps, beside, item, most, times, is_local)
        access.find_run()
        found.append(access)
    return found


def _moved(
    accesses: Sequence[_Access], size: int, cores: int, apart: float, *, is_shared: bool = False
) -> float:
    """The bytes that are brought into a cache of some size; those of short runs count more."""
    way = LINE if is_shared else size // WAYS
    room: dict[UOp, float] = {}
    for access in accesses:
        for place, r in enumerate(access.nest):
            room[r] = room.get(r, 0.0) + access.footprint(place, way, cores).room
    total = 0.0
    for access in accesses:
        nest = access.nest
        place = len(nest)
        while place and room[nest[place - 1]] <= size:
            place -= 1
        if (place == 0 or access.is_local) and is_shared:
            continue  # it is there from the time before
        place = max(place - 1, 0)
        times = math.prod(trips(r, cores) for r in nest[:place])
        moved = times * access.footprint(place, way, cores).size
        total += access.times * moved * (1 + apart * min(SHORT / access.run, 1.0))
    return total
