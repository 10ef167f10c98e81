"""Group reduce: a reduction that threads of a block do together.

Each thread reduces its part, leaves the result in local memory, waits for the others, and puts all
results together; so all threads of the group have the value:

    REDUCE(x, r, g), g a GROUP range
        M[g] = REDUCE(x, r)        for all g
        BARRIER
        REDUCE(M[p], p)            p counts as g does

Each reduction has memory of its own, with a part for each thread outside of the group. Inside of a
loop the threads also wait before they fill it again.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from porism.base.dtypes import Space, index
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.lower.gpu.block_memory import around_again
from porism.rules.addresses.grid_dims import grouped_over, size_of


def group_reduce(kernel: UOp) -> UOp:
    """A kernel in which no reduction closes a GROUP range."""
    order = toposort(kernel)
    used = [n.arg for n in order if n.op is ops.DEFINE_LOCAL and isinstance(n.arg, int)]
    numbers = itertools.count(max(used, default=-1) + 1)
    new: dict[UOp, UOp] = {}
    for node in order:
        src = tuple(new[s] for s in node.src)
        made = node if src == node.src else _remade(node, src)
        if node.op is ops.REDUCE and any(r.arg[1] is Axis.GROUP for r in node.src[1:]):
            made = _together(made, next(numbers))
        new[node] = made
    return new[kernel]


def _remade(node: UOp, src: tuple[UOp, ...]) -> UOp:
    return src[0].after(*src[1:]) if node.op is ops.AFTER else node.replace(src)


def _together(node: UOp, number: int) -> UOp:
    """One reduction over GROUP ranges and maybe others."""
    op, (value, *closed) = node.arg, node.src
    groups = [r for r in closed if r.arg[1] is Axis.GROUP]
    rest = [r for r in closed if r.arg[1] is not Axis.GROUP]
    partial = value.reduce(op, *rest) if rest else value
    kept = grouped_over(node)
    memory = UOp(ops.DEFINE_LOCAL, node.dtype.pointer(Space.LOCAL, size_of(kept)), (), number)
    loops = around_again(node)
    empty = memory.after(ops.BARRIER(*loops)) if loops else memory
    store = empty.index(_place(kept, {}), dtype=node.dtype).store(partial)
    full = memory.after(ops.BARRIER(store.end(*kept)))
    # no other range has an axis that begins as that of a group does: it was not split further
    places = {g: UOp.range(int(g.vmax) + 1, (*g.arg[0], 0), Axis.REDUCE) for g in groups}
    return full.index(_place(kept, places), dtype=node.dtype).reduce(op, *places.values())


def _place(ranges: Sequence[UOp], instead: Mapping[UOp, UOp]) -> UOp:
    number = UOp.const(index, 0)
    for counter in ranges:
        number = number * (int(counter.vmax) + 1) + instead.get(counter, counter)
    return number
