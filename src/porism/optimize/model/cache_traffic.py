"""Cache traffic: the bytes that a scheduled kernel moves into each cache, from its loops alone.

An access goes through memory with a stride along each loop. So it is known which cache lines it
touches in the iterations of some inner loops: its footprint. If all footprints of a loop fit in a
cache together, what the loop reuses is found there. The loops outside of it load everything anew.
Lines whose addresses are a multiple of a cache way apart compete for one cache set, and occupy as
much of the cache as everything between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.base.target import CACHE_LINE, Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.op_signatures import NON_TEMPORAL
from porism.optimize.analysis.loop_strides import extent_of
from porism.rules.addresses.validity import is_masked

SHORT_RUN: Final = 512
"""Bytes of a contiguous run below which the hardware prefetcher starts late; chosen by hand."""

SHORT_RUN_PENALTY: Final = 0.6
"""Additional time of short runs, as a fraction of the time of their bytes; chosen by hand."""

Strides = list[tuple[int, int]]
"""Pairs of a stride in bytes and a trip count. A loop that is divided has two of them."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The cache lines that an access touches."""

    line_bytes: float
    """Bytes of the lines."""
    cache_bytes: float
    """Bytes of a cache that they occupy, with the sets that they compete for."""


@dataclass(slots=True)
class _Access:
    """A load or a store, and the loops around it."""

    nest: tuple[UOp, ...]
    """The loops around it, the outermost first, without those that are unrolled or vectorized."""
    strides: Mapping[UOp, Strides]
    """The strides along each loop."""
    unrolled_strides: Strides
    """The strides along the loops that are unrolled or vectorized."""
    itemsize: int
    """Bytes of an element."""
    buffer_bytes: int
    """Bytes of its buffer."""
    transfers: int
    """How often a line is moved: twice if it is read before it is written."""
    is_local: bool
    run_bytes: float = 0.0
    """Bytes of a contiguous run, in the order of the loops."""
    footprints: dict[tuple[int, int, int], Footprint] = field(default_factory=dict)
    """What `footprint` has computed, by its arguments."""

    def footprint(self, depth: int, way: int, cores: int) -> Footprint:
        """Return the footprint of one core in the loops from some depth of the nest inwards."""
        key = (depth, way, cores)
        known = self.footprints.get(key)
        if known is None:
            strides = list(self.unrolled_strides)
            for r in self.nest[depth:]:
                strides += _strides_of_core(r, self.strides.get(r, []), cores)
            known = footprint(strides, self.itemsize, self.buffer_bytes, way)
            self.footprints[key] = known
        return known

    def measure_run(self, max_streams: int) -> None:
        """Set `run_bytes`: how far the access goes before it jumps out of its streams."""
        run, streams = self.itemsize, 1
        for far, count in sorted(self.unrolled_strides):
            if far <= max(run, CACHE_LINE):
                run += far * (count - 1)
            else:
                streams *= count
        for r in reversed(self.nest):
            for far, count in self.strides.get(r, []):
                if far <= max(run, CACHE_LINE):
                    run += far * (count - 1)
                else:
                    streams *= count
            if streams > max_streams:
                break
        self.run_bytes = max(run, CACHE_LINE)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The bytes that one core moves; those of short contiguous runs count more."""

    l1: float
    """Bytes into its first cache, all alike."""
    l2: float
    """Bytes into its second cache."""
    memory: float
    """Its share of the bytes from memory."""


def core_trip_count(loop: UOp, cores: int) -> int:
    """Return the iterations of a loop that one core runs."""
    extent = extent_of(loop)
    return -(-extent // cores) if loop.arg[1] is Axis.THREAD else extent


def _strides_of_core(loop: UOp, strides: Strides, cores: int) -> Strides:
    """Return the strides of a loop for the iterations that one core runs."""
    if loop.arg[1] is not Axis.THREAD or not strides:
        return strides
    *inner, (far, count) = strides
    return [*inner, (far, -(-count // cores))]


def footprint(strides: Strides, itemsize: int, buffer_bytes: int, way: int) -> Footprint:
    """Return the cache lines that some strides touch in a buffer.

    A way is the size of a cache divided by its associativity, in bytes.
    """
    dims: Strides = [(itemsize, 1)]
    for far, count in sorted(strides):
        for k, (near, extent) in enumerate(dims):
            if far % near == 0 and far // near <= extent:  # it overlaps or continues this dimension
                dims[k] = (near, extent + far // near * (count - 1))
                break
        else:
            dims.append((far, count))
    run, rows, cache_bytes = itemsize, 1, float(itemsize)
    for far, count in dims:
        if far <= max(run, CACHE_LINE) and rows == 1:
            run += far * (count - 1)
            cache_bytes = run + CACHE_LINE / 2
        else:
            rows *= count
            cache_bytes = count * max(cache_bytes, math.gcd(far, way))
    line_bytes = min(rows * max(run + CACHE_LINE / 2, CACHE_LINE), max(buffer_bytes, CACHE_LINE))
    return Footprint(line_bytes, max(cache_bytes, line_bytes))


# -- strides ---------------------------------------------------------------------------------------


def index_strides(index: UOp, known: dict[UOp, dict[UOp, Strides]]) -> dict[UOp, Strides]:
    """Return the strides of an index in elements, about, for each loop that it depends on.

    Clamped indices count as if they were not. A loop that is divided has two strides: that of the
    remainders, and that of the quotients. `known` caches the strides of all nodes below.
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
        elif node.op is ops.INDEX and node.src[1] in known:  # indirect: every access another line
            known[node] = {r: _multiply(own, CACHE_LINE) for r, own in known[node.src[1]].items()}
        elif missing := [s for s in node.src if s not in known]:
            stack += missing
        else:
            known[node] = _combine(node, [known[s] for s in node.src])
    return known[index]


def _combine(node: UOp, parts: Sequence[dict[UOp, Strides]]) -> dict[UOp, Strides]:
    """Return the strides of a node from those of its sources."""
    constant = node.src[-1].arg if node.op in _BY_CONSTANT and node.src[-1].op is ops.CONST else 0
    if node.op in _BY_CONSTANT and constant:
        by = abs(int(constant))
        change = {ops.MUL: _multiply, ops.IDIV: _divide, ops.CDIV: _divide}.get(node.op, _modulo)
        return {r: new for r, strides in parts[0].items() if (new := change(strides, by))}
    combined: dict[UOp, Strides] = {}
    for part in parts[node.op is ops.WHERE :]:
        for r, strides in part.items():
            before = combined.get(r)
            if before is None:
                combined[r] = strides
            elif node.op in (ops.ADD, ops.SUB):  # any other op takes one of its sources
                combined[r] = sorted([*before, *strides])
    return combined


_BY_CONSTANT: Final = (ops.MUL, ops.IDIV, ops.CDIV, ops.MOD, ops.CMOD)


def _multiply(strides: Strides, by: int) -> Strides:
    """Return the strides of a product with a constant."""
    return [(far * by, count) for far, count in strides]


def _divide(strides: Strides, by: int) -> Strides:
    """Return the strides of the quotients by a constant."""
    quotients = [
        (max(far // by, 1), count if far >= by else far * count // by) for far, count in strides
    ]
    return [(far, count) for far, count in quotients if count > 1]


def _modulo(strides: Strides, by: int) -> Strides:
    """Return the strides of the remainders modulo a constant."""
    return [(far, min(count, -(-by // far))) for far, count in strides if far < by]


# -- traffic ---------------------------------------------------------------------------------------


def estimate_traffic(
    order: Sequence[UOp], enclosing: Mapping[UOp, frozenset[UOp]], target: Target
) -> Traffic:
    """Return the traffic of one core for a kernel, given the loops around each loop."""
    memory, machine = target.memory, target.machine
    accesses = _accesses(order, enclosing, 2 * machine.prefetch_streams)
    l1 = _bytes_into(accesses, memory.l1 or 1 << 15, machine.l1_ways, target.cores, 0.0)
    l2 = _bytes_into(
        accesses, memory.l2 or 1 << 18, machine.l2_ways, target.cores, SHORT_RUN_PENALTY
    )
    far = _bytes_into(accesses, memory.last_cache, 0, 1, SHORT_RUN_PENALTY)
    is_parallel = any(n.op is ops.RANGE and n.arg[1] is Axis.THREAD for n in order)
    alone = machine.lone_memory_bandwidth / machine.memory_bandwidth
    share = target.cores if is_parallel else min(alone, target.cores)
    return Traffic(l1, l2, far / share)


def _accesses(
    order: Iterable[UOp], enclosing: Mapping[UOp, frozenset[UOp]], max_streams: int
) -> list[_Access]:
    """Return the loads and stores of a kernel."""
    stores = {n.src[0]: n for n in order if n.op is ops.STORE}
    known: dict[UOp, dict[UOp, Strides]] = {}
    accesses = []
    for node in order:
        if node.op is not ops.INDEX or len(node.src) < 2:
            continue
        base = base_of(node)
        loops = {r for own in node.ranges for r in enclosing.get(own, ())}
        nest = tuple(sorted(loops, key=lambda r: (len(enclosing[r]), r.arg[0])))
        itemsize = int(base.dtype.element.numpy.itemsize)
        index = node.src[1].src[1] if is_masked(node.src[1]) else node.src[1]
        strides = {r: _multiply(own, itemsize) for r, own in index_strides(index, known).items()}
        unrolled = [pair for r, own in strides.items() if r not in loops for pair in own]
        store = stores.get(node)
        transfers = 2 if store is not None and store.arg != NON_TEMPORAL else 1
        buffer_bytes = int(base.dtype.size) * itemsize
        is_local = base.op is not ops.PARAM
        access = _Access(nest, strides, unrolled, itemsize, buffer_bytes, transfers, is_local)
        access.measure_run(max_streams)
        accesses.append(access)
    return accesses


def _bytes_into(
    accesses: Sequence[_Access], size: int, ways: int, cores: int, penalty: float
) -> float:
    """Return the bytes that are moved into a cache of some size; short runs have a penalty.

    0 ways stand for the cache that all cores share: its sets are not what one kernel conflicts in.
    """
    is_shared = not ways
    way = CACHE_LINE if is_shared else size // ways
    occupied: dict[UOp, float] = {}
    for access in accesses:
        for depth, r in enumerate(access.nest):
            cache_bytes = access.footprint(depth, way, cores).cache_bytes
            occupied[r] = occupied.get(r, 0.0) + cache_bytes
    total = 0.0
    for access in accesses:
        nest = access.nest
        depth = len(nest)
        while depth and occupied[nest[depth - 1]] <= size:
            depth -= 1
        if (depth == 0 or access.is_local) and is_shared:
            continue  # it is in the cache from an earlier call
        depth = max(depth - 1, 0)
        repeats = math.prod(core_trip_count(r, cores) for r in nest[:depth])
        moved = repeats * access.footprint(depth, way, cores).line_bytes
        run_factor = 1 + penalty * min(SHORT_RUN / access.run_bytes, 1.0)
        total += access.transfers * moved * run_factor
    return total
