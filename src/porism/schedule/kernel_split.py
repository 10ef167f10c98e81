"""Kernels: the graph in ranges, cut where values are stored in memory.

Each BUFFERIZE in global memory becomes a kernel that writes one buffer:

    SINK(END(STORE(INDEX(p0, flat index), value), ranges…))

In a kernel, buffers are pointers with numbers of its own (0 is what it writes, then what it reads
in the order in which it comes up), with one index each, and ranges are numbered from 0. So equal
kernels are the same node, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import Space
from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.facts.node_shape import flat, shape
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.rules.index.normalize import conjuncts
from porism.schedule.rangeify.placement_cost import count

MOST_BYTES: Final = (1 << 63) - 1
"""Of one buffer."""


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel and the values it works on."""

    kernel: UOp
    """A SINK at the KERNEL level."""
    values: tuple[UOp, ...]
    """What stands behind its parameters: first the BUFFERIZE that it computes, then what it reads,
    each a BUFFERIZE in global memory, a PARAM or a BUFFER."""
    why: str


def kernels(sink: UOp, reasons: Mapping[UOp, str]) -> list[Call]:
    """The kernels of a ranged graph; each comes after those that compute what it reads."""
    found = [n for n in toposort(sink) if is_stored(n)]
    return [_kernel(node, reasons.get(node, "it is stored")) for node in found]


def is_stored(node: UOp) -> bool:
    """Whether a node is a value that is stored in memory."""
    return node.op is ops.BUFFERIZE and node.arg is Space.GLOBAL


def is_memory(node: UOp) -> bool:
    """Whether a node is a buffer for the kernels that read it."""
    return node.op in (ops.PARAM, ops.BUFFER) or is_stored(node)


def _kernel(node: UOp, why: str) -> Call:
    values: dict[UOp, UOp] = {node: pointer(node, 0)}
    order = list(toposort(node, within=lambda n: n is node or not is_memory(n)))
    new: dict[UOp, UOp] = {}
    loops = _outer_first(node, order)
    for axis, old in enumerate([*loops, *_inner(order, loops)]):
        new[old] = ops.RANGE(*old.src, arg=((axis,), old.arg[1]))
    for old in order[:-1]:
        if old.op is ops.RANGE:
            continue
        if old.op is ops.INDEX and is_memory(old.src[0]):
            buffer = old.src[0]
            if buffer not in values:
                values[buffer] = pointer(buffer, len(values))
            dims = tuple(new.get(d, d) for d in shape(buffer))
            at = flat([new.get(s, s) for s in old.src[1:]], dims)
            new[old] = values[buffer].index(at, dtype=buffer.dtype)
        else:
            src = tuple([new.get(s, s) for s in old.src])
            made = old if src == old.src else old.replace(src)
            new[old] = _in_order(made) if old.op is ops.AND else made
    ranges = [new.get(r, r) for r in node.src[1:]]
    place = values[node].index(flat(ranges, shape(node)), dtype=node.dtype)
    store = place.store(new.get(node.src[0], node.src[0]))
    kernel = ops.SINK(store.end(*(new[r] for r in loops)) if loops else store)
    return Call(kernel, tuple(values), why)


def _in_order(condition: UOp) -> UOp:
    """A condition with its clauses in an order of their own, not that in which they came up."""
    first, *others = sorted(conjuncts(condition), key=show)
    for clause in others:
        first = first & clause
    return first


def _outer_first(node: UOp, order: Sequence[UOp]) -> list[UOp]:
    """The loops over an output, those outside that some values are computed in before the rest."""
    loops = [r for r in node.src[1:] if r.op is ops.RANGE]
    all_loops = set(loops)
    depth = dict.fromkeys(loops, 0)
    for inner in order[:-1]:
        if inner.op is ops.REDUCE or inner.op is ops.BUFFERIZE:
            level = all_loops.intersection(inner.ranges)
            if len(level) < len(loops):
                for r in level:
                    depth[r] += 1
    return sorted(loops, key=lambda r: -depth[r])


def _inner(order: Sequence[UOp], loops: Sequence[UOp]) -> list[UOp]:
    """The other loops, in the order in which they are run through."""
    found: dict[UOp, None] = {}
    for node in order[:-1]:
        if node.op is ops.REDUCE or node.op is ops.BUFFERIZE:
            found.update(dict.fromkeys(r for r in node.src[1:] if r.op is ops.RANGE))
    found.update(dict.fromkeys(n for n in order if n.op is ops.RANGE))
    return [r for r in found if r not in loops]


def pointer(buffer: UOp, number: int) -> UOp:
    """A buffer as a parameter of a kernel."""
    dims = shape(buffer)
    size = count(dims) if all(d.vmin == d.vmax for d in dims) else -1
    if size * max(buffer.dtype.bits, 8) // 8 > MOST_BYTES:
        raise PorismError(
            f"a value of {' x '.join(str(d.vmax) for d in dims)} elements of {buffer.dtype.name}",
            where=show(buffer, limit=120),
            why="it has more bytes than a machine can count",
            fix="compute it in parts, or reduce it before it is stored",
        )
    return UOp(ops.PARAM, buffer.dtype.pointer(Space.GLOBAL, size), (), number)
