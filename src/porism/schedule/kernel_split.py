"""Kernel split: the graph in loops, cut into kernels where values are stored in memory.

Each BUFFERIZE in global memory becomes a kernel that writes one buffer:

    SINK(END(STORE(INDEX(p0, flat index), value), ranges…))

In a kernel, buffers are pointers numbered from 0 (0 is what it writes, then what it reads in the
order of the first read), with one index each, and loops are numbered from 0. So equal kernels are
the same node, wherever they occur.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from porism.base.dtypes import Space
from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.facts.node_shape import flat_index, shape
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.rules.index.normalize import conjuncts
from porism.schedule.rangeify.placement_cost import element_count
from porism.schedule.schedule import Call

MAX_BUFFER_BYTES: Final = (1 << 63) - 1
"""The largest buffer: its size in bytes fits a signed 64-bit integer."""


def split_kernels(sink: UOp, reasons: Mapping[UOp, str]) -> list[Call]:
    """Return the kernels of a ranged graph, each after those that compute what it reads."""
    stored = [n for n in toposort(sink) if is_stored(n)]
    return [_kernel(node, reasons.get(node, "it is stored")) for node in stored]


def is_stored(node: UOp) -> bool:
    """Return whether a node is a value that is stored in memory."""
    return node.op is ops.BUFFERIZE and node.arg is Space.GLOBAL


def is_memory(node: UOp) -> bool:
    """Return whether a node is a buffer for the kernels that read it."""
    return node.op in (ops.PARAM, ops.BUFFER) or is_stored(node)


def _kernel(node: UOp, reason: str) -> Call:
    """Return the kernel that computes a BUFFERIZE in global memory."""
    values: dict[UOp, UOp] = {node: pointer(node, 0)}
    order = list(toposort(node, within=lambda n: n is node or not is_memory(n)))
    new: dict[UOp, UOp] = {}
    loops = _output_loops(node, order)
    for axis, old in enumerate([*loops, *_inner_loops(order, loops)]):
        new[old] = ops.RANGE(*old.src, arg=((axis,), old.arg[1]))
    for old in order[:-1]:
        if old.op is ops.RANGE:
            continue
        if old.op is ops.INDEX and is_memory(old.src[0]):
            buffer = old.src[0]
            if buffer not in values:
                values[buffer] = pointer(buffer, len(values))
            dims = tuple(new.get(d, d) for d in shape(buffer))
            at = flat_index([new.get(s, s) for s in old.src[1:]], dims)
            new[old] = values[buffer].index(at, dtype=buffer.dtype)
        else:
            src = tuple([new.get(s, s) for s in old.src])
            rebuilt = old if src == old.src else old.replace(src)
            new[old] = _sort_clauses(rebuilt) if old.op is ops.AND else rebuilt
    indices = [new.get(r, r) for r in node.src[1:]]
    address = values[node].index(flat_index(indices, shape(node)), dtype=node.dtype)
    store = address.store(new.get(node.src[0], node.src[0]))
    kernel = ops.SINK(store.end(*(new[r] for r in loops)) if loops else store)
    return Call(kernel, tuple(values), reason)


def _sort_clauses(condition: UOp) -> UOp:
    """Return a condition with its clauses sorted by text, so that equal kernels are equal."""
    first, *others = sorted(conjuncts(condition), key=show)
    for clause in others:
        first = first & clause
    return first


def _output_loops(node: UOp, order: Sequence[UOp]) -> list[UOp]:
    """Return the loops over an output, first those that hoisted values are computed inside of."""
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


def _inner_loops(order: Sequence[UOp], output_loops: Sequence[UOp]) -> list[UOp]:
    """Return all other loops, in the order in which they are executed."""
    loops: dict[UOp, None] = {}
    for node in order[:-1]:
        if node.op is ops.REDUCE or node.op is ops.BUFFERIZE:
            loops.update(dict.fromkeys(r for r in node.src[1:] if r.op is ops.RANGE))
    loops.update(dict.fromkeys(n for n in order if n.op is ops.RANGE))
    return [r for r in loops if r not in output_loops]


def pointer(buffer: UOp, number: int) -> UOp:
    """Return a buffer as a parameter of a kernel."""
    dims = shape(buffer)
    size = element_count(dims) if all(d.vmin == d.vmax for d in dims) else -1
    if size * max(buffer.dtype.bits, 8) // 8 > MAX_BUFFER_BYTES:
        raise PorismError(
            f"a value of {' x '.join(str(d.vmax) for d in dims)} elements of {buffer.dtype.name}",
            where=show(buffer, limit=120),
            why="it has more bytes than a machine can count",
            fix="compute it in parts, or reduce it before it is stored",
        )
    return UOp(ops.PARAM, buffer.dtype.pointer(Space.GLOBAL, size), (), number)
