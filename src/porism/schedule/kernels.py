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

from porism.base.dtypes import Space
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.shape import flat, shape
from porism.ir.walk import toposort
from porism.schedule.cost import count


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
    for axis, old in enumerate([*loops, *(n for n in order if _is_inner(n, loops))]):
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
            new[old] = old if src == old.src else old.replace(src)
    ranges = [new.get(r, r) for r in node.src[1:]]
    place = values[node].index(flat(ranges, shape(node)), dtype=node.dtype)
    store = place.store(new.get(node.src[0], node.src[0]))
    kernel = ops.SINK(store.end(*(new[r] for r in loops)) if loops else store)
    return Call(kernel, tuple(values), why)


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


def _is_inner(node: UOp, loops: Sequence[UOp]) -> bool:
    return node.op is ops.RANGE and node not in loops


def pointer(buffer: UOp, number: int) -> UOp:
    """A buffer as a parameter of a kernel."""
    dims = shape(buffer)
    size = count(dims) if all(d.vmin == d.vmax for d in dims) else -1
    return UOp(ops.PARAM, buffer.dtype.pointer(Space.GLOBAL, size), (), number)
