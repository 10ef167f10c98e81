"""Local memory: values that are kept inside some loops get memory there.

    BUFFERIZE(value, r, …)        DEFINE_LOCAL, and STORE(its element, value) for all r, …
    INDEX(BUFFERIZE(…), i, …)     the element, AFTER that

The memory has one index, counted row by row, as that of buffers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from porism.base.dtypes import Kind, Space, index
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.traversal import toposort


def local_memory(kernel: UOp) -> UOp:
    """A kernel without BUFFERIZE."""
    order = toposort(kernel)
    if not any(n.op is ops.BUFFERIZE for n in order):
        return kernel
    numbers = itertools.count()
    new: dict[UOp, UOp] = {}
    for node in order:
        if node.op is ops.BUFFERIZE:
            new[node] = _filled(node, new, next(numbers))
        elif node.op is ops.INDEX and node.src[0].op is ops.BUFFERIZE:
            at = [new[s] for s in node.src[1:]]
            gates = [at.pop()] if at and at[-1].dtype.kind is Kind.BOOL else []
            number = _flat(at, shape(node.src[0]))
            new[node] = new[node.src[0]].index(number, *gates, dtype=node.dtype)
        else:
            src = tuple(new[s] for s in node.src)
            new[node] = node if src == node.src else node.replace(src)
    return new[kernel]


def _filled(node: UOp, new: dict[UOp, UOp], number: int) -> UOp:
    """The memory of a value, once it is there."""
    dims = shape(node)
    size = 1
    for dim in dims:
        size *= int(dim.vmax)
    memory = UOp(ops.DEFINE_LOCAL, node.dtype.pointer(Space.LOCAL, size), (), number)
    value, *ranges = (new[s] for s in node.src)
    store = memory.index(_flat(ranges, dims), dtype=node.dtype).store(value)
    loops = [r for r in ranges if r.op is ops.RANGE]
    return memory.after(store.end(*loops) if loops else store)


def _flat(indices: Sequence[UOp], dims: Sequence[UOp]) -> UOp:
    number, stride = UOp.const(index, 0), 1
    for at, dim in zip(reversed(indices), reversed(dims), strict=True):
        number = at * stride + number
        stride *= int(dim.vmax)
    return number
