"""Group reduce: a reduction over the threads of a block goes through shared memory.

Each thread reduces its iterations, stores the partial result in shared memory, waits at a barrier,
and reduces all partial results; so every thread of the group has the value.

    before                               after
    REDUCE(x, r, g), g a GROUP range     M[g] = REDUCE(x, r) for all g; BARRIER; REDUCE(M[p], p)

The loop p has the extent of g. Of many partial results the first threads reduce parts, and after
another barrier every thread reduces those. Each reduction has a buffer of its own, with a part for
each thread outside of the group. Inside of a loop there is also a barrier before the stores.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from porism.base.dtypes import Space, index
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.lower.gpu.block_memory import sequential_loops
from porism.rules.addresses.grid_dims import partial_result_ranges, trip_count
from porism.rules.addresses.validity import masked

MIN_STEPS: Final = 32
"""Partial results from which on they are reduced in two steps; chosen by hand."""


def group_reduce(kernel: UOp) -> UOp:
    """Return the kernel with every reduction over GROUP ranges done through shared memory."""
    order = toposort(kernel)
    used = [n.arg for n in order if n.op is ops.DEFINE_LOCAL and isinstance(n.arg, int)]
    numbers = itertools.count(max(used, default=-1) + 1)
    new: dict[UOp, UOp] = {}
    for node in order:
        src = tuple(new[s] for s in node.src)
        rebuilt = node if src == node.src else _rebuild(node, src)
        if node.op is ops.REDUCE and any(r.arg[1] is Axis.GROUP for r in node.src[1:]):
            rebuilt = _shared_reduction(rebuilt, next(numbers))
        new[node] = rebuilt
    return new[kernel]


def _rebuild(node: UOp, src: tuple[UOp, ...]) -> UOp:
    return src[0].after(*src[1:]) if node.op is ops.AFTER else node.replace(src)


def _shared_reduction(node: UOp, number: int) -> UOp:
    """Return one reduction over GROUP ranges, and maybe others, through shared memory."""
    op, (value, *closed) = node.arg, node.src
    groups = [r for r in closed if r.arg[1] is Axis.GROUP]
    rest = [r for r in closed if r.arg[1] is not Axis.GROUP]
    partial = value.reduce(op, *rest) if rest else value
    threads = partial_result_ranges(node)
    memory = UOp(ops.DEFINE_LOCAL, node.dtype.pointer(Space.LOCAL, trip_count(threads)), (), number)
    loops = sequential_loops(node)
    empty = memory.after(ops.BARRIER(*loops)) if loops else memory
    store = empty.index(_offset(threads, {}), dtype=node.dtype).store(partial)
    full = memory.after(ops.BARRIER(store.end(*threads)))
    parts = step_parts(node)
    if parts > 1:
        return _reduce_in_steps(node, full, threads, groups[0], parts)
    # no other range has an axis with this prefix: a GROUP range is not split further
    partials = {g: UOp.range(int(g.vmax) + 1, (*g.arg[0], 0), Axis.REDUCE) for g in groups}
    return full.index(_offset(threads, partials), dtype=node.dtype).reduce(op, *partials.values())


def _reduce_in_steps(node: UOp, full: UOp, threads: Sequence[UOp], group: UOp, parts: int) -> UOp:
    """Return the reduction of many partial results: of every `parts`-th first, then of those sums.

    The first `parts` threads of the group reduce the elements of their number modulo `parts`, and
    put the results in the place of what they alone have read.
    """
    op, count = node.arg, int(group.vmax) + 1
    step = UOp.range(count // parts, (*group.arg[0], 0), Axis.UNROLL)
    own = group % parts
    first = group < parts
    place = masked(first, _offset(threads, {group: step * parts + own}))
    read = full.index(place, dtype=node.dtype)
    offset = masked(first, _offset(threads, {group: own}))
    total = read.reduce(op, step)
    again = full.index(offset, dtype=node.dtype).store(total)
    last = UOp.range(parts, (*group.arg[0], 1), Axis.UNROLL)
    whole = full.after(ops.BARRIER(again.end(*threads)))
    return whole.index(_offset(threads, {group: last}), dtype=node.dtype).reduce(op, last)


def step_parts(node: UOp) -> int:
    """Return how many parts the partial results of a reduction are reduced in first; 1: at once."""
    groups = [r for r in node.src[1:] if r.arg[1] is Axis.GROUP]
    count = trip_count(groups)
    if len(groups) != 1 or count < MIN_STEPS or count & (count - 1):
        return 1
    return 1 << count.bit_length() // 2


def _offset(ranges: Sequence[UOp], replaced: Mapping[UOp, UOp]) -> UOp:
    """Return the row-major offset of an iteration, with some ranges replaced."""
    offset = UOp.const(index, 0)
    for loop in ranges:
        offset = offset * (int(loop.vmax) + 1) + replaced.get(loop, loop)
    return offset
