"""Prefetch placement: which loads of large buffers get a software prefetch, and how far ahead.

A buffer that exceeds the last cache comes from memory, at a rate that depends on how many cache
lines are in flight. The hardware prefetcher recognises sequential streams, but does not run far
enough ahead of them. So with each vector that is loaded, one prefetch is issued:

- rows that several passes read, as in a softmax: the next row. The first pass would wait for
  memory, and the others leave it idle; a pass that does little gets no prefetches;
- sequential streams: some cache lines further, unless the arithmetic takes longer than memory, or
  several rows are read in turn: the hardware prefetcher keeps up with these;
- rows that are gathered by indices: rows of later iterations;
- pre-packed constants that a few passes read panel by panel: further in the same panel. The first
  pass waits for memory, and is much of the whole.

The distances and thresholds were fitted by hand to timings on an x86-64 machine with AVX-512
(`docs/measurements.md`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

from porism.base.target import CACHE_LINE, Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.memory.software_prefetch import Prefetch, is_indirect
from porism.optimize.analysis.loop_strides import access_stride, extent_of, trip_count
from porism.optimize.model.loop_cost import op_cost
from porism.optimize.strategy.action_plan import Plan

STREAM_DISTANCE: Final = 2048
"""Bytes from a load of a stream to what is prefetched with it."""

GATHER_DISTANCE: Final = 2 * STREAM_DISTANCE
"""Bytes from a gathered row to the one that is prefetched with it; two rows at least."""

PANEL_DISTANCE: Final = 4096
"""Bytes from a load of a pre-packed constant to what is prefetched with it."""

MIN_STREAM: Final = 4 * STREAM_DISTANCE
"""Bytes of a sequential stream, at least."""

RARE: Final = 16
"""A load with so many times fewer iterations than another is ignored, such as a peeled tail."""

CHEAP_PASS: Final = 4
"""A pass over a row is cheap if it has so many times fewer operations than another pass."""

EXPENSIVE_BODY: Final = 20
"""Float operations on an element that take longer than to load and store it."""

MAX_PASSES: Final = 8
"""Passes over a panel, at most: of more of them, the first is a small part."""

UNROLLED: Final = (Axis.UPCAST, Axis.UNROLL)


def insert_prefetches(plan: Plan) -> None:
    """Prefetch rows of buffers over half of the last cache, and streams of those over all of it."""
    if plan.target.block or not plan.target.vector_bits:
        return
    min_bytes = plan.target.memory.last_cache // 2
    order = toposort(plan.kernel)
    for buffer, loads in _loads_of_large_buffers(order, min_bytes).items():
        action = _prefetch_next_row(plan, buffer, loads)
        is_large = _bytes(buffer) >= 2 * min_bytes
        if action is None and is_large and not _is_compute_bound(order, loads[0]):
            action = _prefetch_stream(buffer, loads) or _prefetch_gathered_rows(buffer, loads)
        if action is not None:
            plan.attempt(action)


def _loads_of_large_buffers(order: Sequence[UOp], min_bytes: int) -> dict[UOp, list[UOp]]:
    """Return the loads of each parameter that has no fewer bytes."""
    stored = {n.src[0] for n in order if n.op is ops.STORE}
    loads_of: dict[UOp, list[UOp]] = {}
    for node in order:
        if node.op is ops.INDEX and node not in stored:
            base = base_of(node)
            if base.op is ops.PARAM and _bytes(base) >= min_bytes:
                loads_of.setdefault(base, []).append(node)
    return loads_of


def _bytes(buffer: UOp) -> int:
    return int(buffer.dtype.size) * _item(buffer)


def _item(buffer: UOp) -> int:
    """Return the bytes of an element of a buffer."""
    return int(buffer.dtype.element.numpy.itemsize)


# -- pre-packed constants --------------------------------------------------------------------------


def prefetch_prepacked(kernel: UOp, numbers: Collection[int], target: Target) -> UOp:
    """Return a kernel that prefetches the panels of pre-packed constants, given by number."""
    order = toposort(kernel)
    for node in order:
        if node.op is not ops.INDEX or node.src[0].op is not ops.PARAM:
            continue
        buffer = node.src[0]
        if buffer.arg not in numbers or _bytes(buffer) <= target.memory.l2:
            continue
        stream = _sequential_loop(node, _item(buffer))
        if stream is None or not 1 < _passes(kernel, order, node, stream[0]) <= MAX_PASSES:
            continue
        loop, elements = stream
        distance = max(PANEL_DISTANCE // (elements * _item(buffer)), 1)
        action = Prefetch(buffer.arg, show(loop), distance)
        if action.is_legal(kernel, target):
            kernel = action.apply(kernel, target)
    return kernel


def _passes(kernel: UOp, order: Sequence[UOp], load: UOp, loop: UOp) -> int:
    """Return how often in sequence a reduction reads what a load reads along a loop."""
    reduction = next((n for n in order if n.op is ops.REDUCE and loop in n.src[1:]), None)
    if reduction is None:
        return 1
    loops = [r for r in kernel.src[0].src[1:] if r.arg[1] in (Axis.LOOP, Axis.THREAD)]
    innermost = max((level for level, r in enumerate(loops) if r in load.ranges), default=-1)
    return trip_count(r for r in loops[innermost + 1 :] if r in reduction.ranges)


# -- rows of several passes ------------------------------------------------------------------------


def _prefetch_next_row(plan: Plan, buffer: UOp, loads: Sequence[UOp]) -> Prefetch | None:
    """Return a prefetch of the next row, if several passes read rows that the L2 cache holds."""
    end = plan.kernel.src[0]
    if end.op is not ops.END or end.src[1].arg[1] is not Axis.THREAD:
        return None
    outermost = end.src[1]
    if len({frozenset(n.ranges) for n in loads}) < 2:
        return None
    row = trip_count(r for r in loads[0].ranges if r is not outermost)
    if not CACHE_LINE <= row * _item(buffer) <= plan.target.memory.l2 // 4:
        return None
    if any(access_stride(n.src[1], outermost) != row for n in loads):
        return None
    passes = _expensive_passes(toposort(plan.kernel), loads)
    return Prefetch(buffer.arg, show(outermost), 1, passes)


def _expensive_passes(order: Sequence[UOp], loads: Sequence[UOp]) -> tuple[str, ...]:
    """Return the loops of loads without those of cheap passes; empty if no pass is cheap.

    A cheap pass would issue prefetches faster than memory can serve them, and wait.
    """
    loops = dict.fromkeys(
        next((r for r in n.ranges if r.arg[1] in (Axis.LOOP, Axis.REDUCE)), None) for n in loads
    )
    work = {r: sum(op_cost(n) for n in order if r in n.ranges) for r in loops if r is not None}
    expensive = [r for r, ops_done in work.items() if ops_done * CHEAP_PASS >= max(work.values())]
    return tuple(map(show, expensive)) if len(expensive) < len(work) == len(loops) else ()


# -- streams ---------------------------------------------------------------------------------------


def _is_compute_bound(order: Sequence[UOp], load: UOp) -> bool:
    """Return whether the arithmetic on a loaded element takes longer than loading the next one."""
    loops = set(load.ranges)
    values = (n for n in order if n.dtype.is_float and n.op is not ops.INDEX)
    return sum(op_cost(n) for n in values if loops <= set(n.ranges)) >= EXPENSIVE_BODY


def _prefetch_stream(buffer: UOp, loads: Sequence[UOp]) -> Prefetch | None:
    """Return a prefetch of some lines further, if all loads of a buffer are sequential."""
    item = _item(buffer)
    most = max(trip_count(load.ranges) for load in loads)
    frequent = [load for load in loads if trip_count(load.ranges) * RARE > most]
    streams = {_sequential_loop(load, item) for load in frequent}
    if len(streams) != 1 or (stream := streams.pop()) is None:
        return None
    loop, elements = stream
    within = () if len(frequent) == len(loads) else (show(loop),)
    return Prefetch(buffer.arg, show(loop), max(STREAM_DISTANCE // (elements * item), 1), within)


def _prefetch_gathered_rows(buffer: UOp, loads: Sequence[UOp]) -> Prefetch | None:
    """Return a prefetch of rows of later iterations, if each iteration of a loop loads an index."""
    indices = [n for load in loads for n in toposort(load.src[1]) if n.op is ops.INDEX]
    loops = {r for n in indices for r in n.ranges if r.arg[1] in (Axis.LOOP, Axis.THREAD)}
    if len(loops) != 1 or any(r.arg[1] in UNROLLED for n in indices for r in n.ranges):
        return None
    (loop,) = loops
    if not all(1 in _unrolled_strides(load) and is_indirect(load, loop) for load in loads):
        return None
    inner = [r for r in loads[0].ranges if r is not loop]
    row = trip_count(inner) * _item(buffer)
    distance = max(GATHER_DISTANCE // row, 2)
    return Prefetch(buffer.arg, show(loop), distance) if row >= CACHE_LINE else None


def _unrolled_strides(load: UOp) -> list[int | None]:
    """Return the stride in elements along each vectorized or unrolled loop of a load."""
    return [access_stride(load.src[1], r) for r in load.ranges if r.arg[1] in UNROLLED]


def _sequential_loop(load: UOp, item: int) -> tuple[UOp, int] | None:
    """Return the loop along which a load reads vectors sequentially, and its stride in elements.

    None if it is not sequential, or the stream is short.
    """
    strides = _strides(load)
    if strides is None:
        return None
    loops = [(stride, r) for stride, r in strides if r.arg[1] not in UNROLLED]
    unrolled = [(stride, extent_of(r)) for stride, r in strides if r.arg[1] in UNROLLED]
    if not loops:
        return None
    innermost, loop = loops[0]
    lanes = math.prod(extent for stride, extent in unrolled if stride < innermost)
    rows = math.prod(extent for stride, extent in unrolled if stride >= innermost)
    if lanes != innermost or lanes * item * 2 < CACHE_LINE or rows > 1:
        return None
    length = innermost
    for stride, r in loops:
        if stride * RARE > length * (RARE + 1):  # a peeled tail may be read elsewhere
            break
        length = stride * extent_of(r)
    return (loop, innermost) if length * item >= MIN_STREAM else None


def _strides(load: UOp) -> list[tuple[int, UOp]] | None:
    """Return the loops along which an index grows by a stride in elements, the least one first.

    None if the index decreases along a loop, or has no stride.
    """
    strides: list[tuple[int, UOp]] = []
    for r in load.ranges:
        stride = access_stride(load.src[1], r)
        if stride is None and r.arg[1] is Axis.THREAD:
            continue  # it only says where the stream begins
        if stride is None or stride < 0:
            return None
        if stride:
            strides.append((stride, r))
    return sorted(strides, key=lambda pair: pair[0])
