"""Bounds and races: every access is in bounds, and no two threads write one element."""

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
from porism.verification.accesses.index_evaluation import Buffer, Domain, Evaluation, Value
from porism.verification.accesses.iteration_conjectures import (
    Answer,
    Conjecture,
    decide,
    symbols_in,
)
from porism.verification.accesses.kernel_accesses import Access, accesses
from porism.verification.accesses.linear_constraints import LinearDomain, is_injective
from porism.verification.verification_report import How

LANE_AXES: Final = frozenset({Axis.UPCAST, Axis.UNROLL})
"""Axes of vectorized iterations: two of them must not update one element."""

Sizes = Mapping[int, Sequence[UOp]]
"""The symbolic dims of a kernel's buffers, by the number of the buffer."""


@dataclass(frozen=True, slots=True)
class AccessCheck:
    """One access, and how it was proved, or a counterexample."""

    access: Access
    answer: Answer
    other: Access | None = None


# -- bounds ----------------------------------------------------------------------------------------


def check_bounds(kernel: UOp, sizes: Sizes) -> Iterator[AccessCheck]:
    """Yield every access, and whether it is in bounds; adjacent lanes as one."""
    for access, width in _grouped_lanes(accesses(kernel)):
        answer = decide(in_bounds(access, width, sizes))
        if not answer.holds and answer.data:
            why = "assumed: what the kernel reads as an index is one"
            answer = Answer(How.ASSUMED, why, answer.point, data=True)
        yield AccessCheck(access, answer)


def _grouped_lanes(all_accesses: Sequence[Access]) -> Iterator[tuple[Access, int]]:
    """Yield accesses with their number of lanes; adjacent lanes under one gate are one access."""
    for _, group in itertools.groupby(all_accesses, key=lambda a: a.node):
        lanes = list(group)
        same = all(a.index is lanes[0].index and a.lane == 0 for a in lanes)
        if same and all(lane == 0 for a in lanes for _, lane in a.gates):
            yield lanes[0], len(lanes)
        else:
            yield from ((a, 1) for a in lanes)


def in_bounds(access: Access, width: int, sizes: Sizes) -> Conjecture:
    """Return the conjecture that an access is in bounds, wherever it is executed."""
    name, number = access.buffer
    dims = sizes.get(number, ()) if name == ops.PARAM.name else ()

    def make(domain: Domain) -> Value:
        evaluation = Evaluation(domain)
        address, happens = access.address(evaluation), access.is_executed(evaluation)
        size = domain.constant(index, access.size if not dims else 1)
        for dim in dims:
            size = domain.apply(ops.MUL, index, size, evaluation.value(dim))
        low = domain.apply(ops.GE, index, address, domain.constant(index, 0))
        high = domain.apply(ops.LE, index, evaluation.add_constant(address, width), size)
        inside = evaluation.conjunction(low, high)
        if happens is None:
            return inside
        return evaluation.disjunction(domain.apply(ops.NOT, boolean, happens), inside)

    return Conjecture(make, tuple(symbols_in([*access.roots(), *dims])), access.size)


# -- writes ----------------------------------------------------------------------------------------


def check_races(kernel: UOp) -> Iterator[AccessCheck]:
    """Yield every pair of stores to one buffer, and whether parallel iterations race."""
    order = toposort(kernel)
    specials = [n for n in order if n.op is ops.SPECIAL]
    around = scopes(order)
    ends = enclosing_nests(order)
    store_of = {n.src[0]: n for n in order if n.op is ops.STORE}
    for (kind, _), stores in _stores_by_buffer(kernel).items():
        for a, b in _store_pairs(stores):
            pair = store_of[a.node], store_of[b.node]
            inside = [around[s] | frozenset(ends.get(s, ())) for s in pair]
            loops = [r for r in inside[0] & inside[1] if r.op is ops.RANGE]
            shared = frozenset[UOp]()
            if kind == ops.PARAM.name:
                parallel = _parallel_on_global_memory(loops, specials, pair)
            else:
                parallel = _parallel_on_local_memory(loops, specials)
                sequential = set(loops) - _until_barrier(kernel, pair[0])
                shared = frozenset((sequential | set(specials)) - set(parallel))
            parallel = [p for p in parallel if p.vmax > 0]
            if parallel:
                conjecture = no_race(a, b, parallel, shared)
                yield AccessCheck(a, decide(conjecture), b)


def _stores_by_buffer(kernel: UOp) -> dict[Buffer, list[Access]]:
    """Return the stores to each buffer other than registers."""
    stores: dict[Buffer, list[Access]] = {}
    for access in accesses(kernel):
        if access.store and access.buffer[0] != ops.DEFINE_REG.name:
            stores.setdefault(access.buffer, []).append(access)
    return stores


def _store_pairs(stores: Sequence[Access]) -> Iterator[tuple[Access, Access]]:
    """Yield all pairs of stores; of the lanes of one store, each with itself only."""
    for a, b in itertools.combinations_with_replacement(stores, 2):
        if a is b or a.node is not b.node:
            yield a, b


def _parallel_on_global_memory(
    loops: Sequence[UOp], specials: Sequence[UOp], stores: Sequence[UOp]
) -> list[UOp]:
    """Return the loops and indices whose iterations write a parameter in parallel.

    Vectorized iterations are among them where each store updates what it reads.
    """
    parallel = [r for r in loops if r.arg[1] in BLOCK_AXES | THREAD_AXES]
    parallel += specials
    if all(s.src[0] in toposort(s.src[1]) for s in stores):
        parallel += [r for r in loops if r.arg[1] in LANE_AXES]
    return parallel


def _parallel_on_local_memory(loops: Sequence[UOp], specials: Sequence[UOp]) -> list[UOp]:
    """Return the loops and indices of threads, which share the local memory of a block."""
    threads = [r for r in loops if r.arg[1] in THREAD_AXES]
    return [*threads, *(s for s in specials if s.arg.startswith("thread"))]


def _until_barrier(kernel: UOp, store: UOp) -> set[UOp]:
    """Return the loops around a store that end before the next barrier."""
    users_of = users(kernel)
    ended: set[UOp] = set()
    node = store
    while True:
        enclosing = [n for n in users_of[node] if n.op in (ops.END, ops.GROUP)]
        if not enclosing:
            return ended
        node = enclosing[0]
        ended.update(node.src[1:] if node.op is ops.END else ())


def no_race(a: Access, b: Access, parallel: Sequence[UOp], shared: frozenset[UOp]) -> Conjecture:
    """Return the conjecture that different parallel iterations store to different elements."""

    def make(domain: Domain) -> Value:
        one, two = Evaluation(domain, shared=shared), Evaluation(domain, copy=1, shared=shared)
        same = domain.apply(ops.EQ, index, a.address(one), b.address(two))
        other = [domain.apply(ops.NE, p.dtype, one.value(p), two.value(p)) for p in parallel]
        hit = one.conjunction(same, one.disjunction(*other), a.is_executed(one), b.is_executed(two))
        return domain.apply(ops.NOT, boolean, hit)

    def linear_proof(sums: LinearDomain) -> bool:
        evaluation = Evaluation(sums)
        alone = a.node is b.node and a.lane_offset == b.lane_offset and not shared
        return alone and is_injective(a.address(evaluation), map(evaluation.value, parallel))

    symbols = [
        *symbols_in([*a.roots(), *parallel], shared=shared),
        *symbols_in([*b.roots(), *parallel], copy=1, shared=shared),
    ]
    return Conjecture(make, tuple(dict.fromkeys(symbols)), a.size, linear_proof)
