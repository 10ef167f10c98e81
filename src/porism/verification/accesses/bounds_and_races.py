"""Places: that every access is inside of its buffer, and no element is written by two at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import boolean, index
from porism.ir import ops
from porism.ir.axis import BLOCK_AXES, THREAD_AXES, Axis
from porism.ir.facts.effect_scopes import enclosing_nests, scopes
from porism.ir.node import UOp
from porism.ir.traversal import toposort, users
from porism.verification.accesses.index_evaluation import Buffer, Reading, Value, World
from porism.verification.accesses.iteration_conjectures import Answer, Claim, decide, symbols_of
from porism.verification.accesses.kernel_accesses import Access, accesses
from porism.verification.accesses.linear_constraints import Sums, counts_apart
from porism.verification.verification_report import How

LANES: Final = frozenset({Axis.UPCAST, Axis.UNROLL})
"""Iterations side by side: one that changes an element must not read it before another has."""

Sizes = Mapping[int, Sequence[UOp]]
"""The dims of a kernel's buffers, by number, where they are not numbers."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One access and how it was found to be right, or a counterexample."""

    access: Access
    answer: Answer
    other: Access | None = None


# -- bounds ----------------------------------------------------------------------------------------


def bounds(kernel: UOp, sizes: Sizes) -> Iterator[Placed]:
    """Every access, and whether it is inside of its buffer; neighbouring lanes at once."""
    for access, width in _wide(accesses(kernel)):
        answer = decide(within(access, width, sizes))
        if not answer.holds and answer.data:
            why = "assumed: what the kernel reads as an index is one"
            answer = Answer(How.ASSUMED, why, answer.point, data=True)
        yield Placed(access, answer)


def _wide(found: Sequence[Access]) -> Iterator[tuple[Access, int]]:
    """Accesses, those of lanes side by side under one gate as one, with how many they are."""
    for _, group in itertools.groupby(found, key=lambda a: a.node):
        lanes = list(group)
        same = all(a.at is lanes[0].at and a.lane == 0 for a in lanes)
        if same and all(lane == 0 for a in lanes for _, lane in a.gates):
            yield lanes[0], len(lanes)
        else:
            yield from ((a, 1) for a in lanes)


def within(access: Access, width: int, sizes: Sizes) -> Claim:
    """That an access is inside, wherever it happens."""
    name, number = access.buffer
    dims = sizes.get(number, ()) if name == ops.PARAM.name else ()

    def make(world: World) -> Value:
        reading = Reading(world)
        address, happens = access.address(reading), access.happens(reading)
        size = world.constant(index, access.size if not dims else 1)
        for dim in dims:
            size = world.apply(ops.MUL, index, size, reading.value(dim))
        low = world.apply(ops.GE, index, address, world.constant(index, 0))
        high = world.apply(ops.LE, index, reading.plus(address, width), size)
        inside = reading.all(low, high)
        if happens is None:
            return inside
        return reading.any(world.apply(ops.NOT, boolean, happens), inside)

    return Claim(make, tuple(symbols_of([*access.roots(), *dims])), access.size)


# -- writes ----------------------------------------------------------------------------------------


def writes(kernel: UOp) -> Iterator[Placed]:
    """Every pair of stores to one buffer, and whether two parallel iterations can collide."""
    order = toposort(kernel)
    specials = [n for n in order if n.op is ops.SPECIAL]
    around = scopes(order)
    ends = enclosing_nests(order)
    stored = {n.src[0]: n for n in order if n.op is ops.STORE}
    by_buffer: dict[Buffer, list[Access]] = {}
    for access in accesses(kernel):
        if access.store and access.buffer[0] != ops.DEFINE_REG.name:
            by_buffer.setdefault(access.buffer, []).append(access)
    for (kind, _), found in by_buffer.items():
        for a, b in itertools.combinations_with_replacement(found, 2):
            if a.node is b.node and a is not b:
                continue  # lanes of one store; the index is compared for all of them
            stores = stored[a.node], stored[b.node]
            inside = [around[s] | frozenset(ends.get(s, ())) for s in stores]
            both = inside[0] & inside[1]
            loops = [r for r in both if r.op is ops.RANGE and r.arg[1] in BLOCK_AXES | THREAD_AXES]
            if kind == ops.PARAM.name:
                parallel, shared = [*loops, *specials], frozenset[UOp]()
                if all(s.src[0] in toposort(s.src[1]) for s in stores):
                    parallel += [r for r in both if r.op is ops.RANGE and r.arg[1] in LANES]
            else:
                parallel = [r for r in loops if r.arg[1] in THREAD_AXES]
                parallel += [s for s in specials if s.arg.startswith("thread")]
                kept = {r for r in both if r.op is ops.RANGE} - _until_barrier(kernel, stores[0])
                shared = frozenset((kept | set(specials)) - set(parallel))
            parallel = [p for p in parallel if p.vmax > 0]
            if parallel:
                claim = apart(a, b, parallel, shared)
                yield Placed(a, decide(claim), b)


def _until_barrier(kernel: UOp, store: UOp) -> set[UOp]:
    """The loops around a store that are over when its threads wait for each other."""
    by = users(kernel)
    found: set[UOp] = set()
    node = store
    while True:
        after = [n for n in by[node] if n.op in (ops.END, ops.GROUP)]
        if not after:
            return found
        node = after[0]
        found.update(node.src[1:] if node.op is ops.END else ())


def apart(a: Access, b: Access, parallel: Sequence[UOp], shared: frozenset[UOp]) -> Claim:
    """That two stores in different parallel iterations write different elements."""

    def make(world: World) -> Value:
        one, two = Reading(world, shared=shared), Reading(world, copy=1, shared=shared)
        same = world.apply(ops.EQ, index, a.address(one), b.address(two))
        other = [world.apply(ops.NE, p.dtype, one.value(p), two.value(p)) for p in parallel]
        hit = one.all(same, one.any(*other), a.happens(one), b.happens(two))
        return world.apply(ops.NOT, boolean, hit)

    def at_sight(sums: Sums) -> bool:
        reading = Reading(sums)
        alone = a.node is b.node and a.beyond == b.beyond and not shared
        return alone and counts_apart(a.address(reading), map(reading.value, parallel))

    symbols = [
        *symbols_of([*a.roots(), *parallel], shared=shared),
        *symbols_of([*b.roots(), *parallel], copy=1, shared=shared),
    ]
    return Claim(make, tuple(dict.fromkeys(symbols)), a.size, at_sight)
