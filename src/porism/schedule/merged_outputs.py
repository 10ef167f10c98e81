"""Merged outputs: elementwise kernels over the same loops become one kernel with several stores.

    m'[i] = a·m[i] + b·g[i]
    v'[i] = c·v[i] + d·g[i]²          one loop: g is read once, and m', v' are not read again
    p'[i] = p[i] - m'[i] / √v'[i]

As in the step of an optimizer. Only outputs that no other kernel reads are merged: such kernels
have no successors, so that no order of kernels becomes impossible, and outputs have memory of their
own, so that none is needed for longer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.base.settings import settings
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.schedule.kernel_split import is_stored, pointer
from porism.schedule.rangeify.placement_cost import element_count
from porism.schedule.rangeify.store_reason import joined_reasons
from porism.schedule.schedule import Call

MAX_NODES: Final = 2000
"""Nodes of a merged kernel, chosen by hand: more than registers hold gain nothing."""


@dataclass(slots=True, eq=False)
class _Map:
    """An elementwise kernel: one store at each iteration of its loops."""

    call: Call
    position: int
    store: UOp
    loops: tuple[UOp, ...]
    nodes: int
    reads: frozenset[UOp] = field(init=False)
    """What it reads at least one element of for each that it stores."""
    computed: frozenset[UOp] = field(init=False)
    """Those of them that other kernels compute."""

    def __post_init__(self) -> None:
        size = element_count(shape(self.call.values[0]))
        large = (v for v in self.call.values[1:] if element_count(shape(v)) >= size)
        self.reads = frozenset(large)
        self.computed = frozenset(filter(is_stored, self.reads))


def merge_outputs(calls: Sequence[Call], outputs: Iterable[UOp]) -> list[Call]:
    """Return kernels, those that are merged in the place of the last of them."""
    candidates = _unread_maps(calls, frozenset(outputs))
    by_loops: dict[tuple[object, ...], list[_Map]] = {}
    for candidate in candidates:
        at = candidate.store.src[0].src[1]
        by_loops.setdefault((candidate.loops, at), []).append(candidate)
    readers = _readers(calls)
    merged: dict[int, Call | None] = {}
    for alike in by_loops.values():
        for group in _groups(alike):
            written = {member.call.values[0] for member in group}
            inside = {member.position for member in group}
            if len(group) > 1 and all(readers.get(v, inside) <= inside for v in written):
                merged.update(dict.fromkeys(inside))
                merged[max(inside)] = _merge(group)
    results = (merged.get(k, call) for k, call in enumerate(calls))
    return [call for call in results if call is not None]


def _readers(calls: Sequence[Call]) -> dict[UOp, set[int]]:
    """Return the positions of the kernels that read each value."""
    readers: dict[UOp, set[int]] = {}
    for k, call in enumerate(calls):
        for value in call.values[1:]:
            readers.setdefault(value, set()).add(k)
    return readers


def _unread_maps(calls: Sequence[Call], outputs: Collection[UOp]) -> list[_Map]:
    """Return the elementwise kernels of outputs, of which only such kernels read the results."""
    readers = _readers(calls)
    maps: dict[int, _Map] = {}
    for k in reversed(range(len(calls))):  # readers come after what they read
        value = calls[k].values[0]
        if value in outputs and all(reader in maps for reader in readers.get(value, ())):
            found = _as_map(calls[k], k)
            if found is not None:
                maps[k] = found
    return [maps[k] for k in sorted(maps)]


def _as_map(call: Call, position: int) -> _Map | None:
    """Return a kernel as a map; None if it reduces, or has no loops."""
    end = call.kernel.src[0]
    if end.op is not ops.END or end.src[0].op is not ops.STORE:
        return None
    order = toposort(call.kernel)
    if any(n.op in (ops.REDUCE, ops.BUFFERIZE, ops.AFTER) for n in order):
        return None
    return _Map(call, position, end.src[0], end.src[1:], len(order))


def _groups(alike: Sequence[_Map]) -> list[list[_Map]]:
    """Return maps over the same loops in groups that read the same memory."""
    groups: list[list[_Map]] = []
    for member in alike:
        for group in groups:
            if _belongs(member, group):
                group.append(member)
                break
        else:
            groups.append([member])
    return groups


def _belongs(member: _Map, group: Sequence[_Map]) -> bool:
    """Return whether a map reads what a group reads or writes, and can be one kernel with it."""
    written = {other.call.values[0] for other in group}
    reads = frozenset[UOp]().union(*(other.reads for other in group))
    computed = frozenset[UOp]().union(*(other.computed for other in group))
    if member.reads.isdisjoint(reads | written):
        return False
    own = member.computed - written
    if not (own <= computed or computed <= own):  # one of them would wait for the other
        return False
    values = written.union(reads, member.call.values, *(other.call.values for other in group))
    if len(values) > settings.kernel_buffers:
        return False
    if member.nodes + sum(other.nodes for other in group) > MAX_NODES:
        return False
    return _reads_stored_element(member, written)


def _reads_stored_element(member: _Map, written: Collection[UOp]) -> bool:
    """Return whether a map reads results of others only at the index that it stores at."""
    numbers = {k for k, value in enumerate(member.call.values) if value in written}
    at = member.store.src[0].src[1:]
    return all(
        node.src[1:] == at
        for node in toposort(member.store)
        if node.op is ops.INDEX and node.src[0].op is ops.PARAM and node.src[0].arg in numbers
    )


def _merge(group: Sequence[_Map]) -> Call:
    """Return one kernel that does what a group of maps does, sources before their readers."""
    written = [member.call.values[0] for member in group]
    reads = dict.fromkeys(v for member in group for v in member.call.values if v not in written)
    parameters = {v: pointer(v, k) for k, v in enumerate((*written, *reads))}
    results: dict[UOp, UOp] = {}
    stores = []
    for member in group:
        value = _rebuilt(member, parameters, results)
        address = member.store.src[0]
        results[member.call.values[0]] = value
        target = parameters[member.call.values[0]]
        stores.append(target.index(*address.src[1:], dtype=address.dtype).store(value))
    kernel = ops.SINK(ops.GROUP(*stores).end(*group[0].loops))
    reasons = dict.fromkeys(member.call.reason for member in group)
    parts = tuple(member.call for member in group)
    return Call(kernel, tuple(parameters), joined_reasons(reasons), parts)


def _rebuilt(member: _Map, parameters: Mapping[UOp, UOp], results: Mapping[UOp, UOp]) -> UOp:
    """Return the value that a map stores, with the parameters of the merged kernel."""
    new: dict[UOp, UOp] = {}
    for node in toposort(member.store):
        if node.op is ops.INDEX and node.src[0].op is ops.PARAM:
            value = member.call.values[int(node.src[0].arg)]
            if value in results:
                new[node] = results[value]
        elif node.op is ops.PARAM:
            new[node] = parameters[member.call.values[int(node.arg)]]
    return substitute(member.store.src[1], new)
