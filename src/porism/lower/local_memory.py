"""Local memory: values that are materialized inside loops become local buffers.

    before                        after
    BUFFERIZE(value, r, …)        DEFINE_LOCAL, and a STORE of value in a loop over r, …
    INDEX(BUFFERIZE(…), i, …)     INDEX(local buffer AFTER that loop, flat index)

A local buffer has one index in row-major order, as global buffers have.
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
    """Return the kernel with every BUFFERIZE replaced by a local buffer."""
    order = toposort(kernel)
    if not any(n.op is ops.BUFFERIZE for n in order):
        return kernel
    numbers = itertools.count()
    new: dict[UOp, UOp] = {}
    for node in order:
        if node.op is ops.BUFFERIZE:
            new[node] = _filled_buffer(node, new, next(numbers))
        elif node.op is ops.INDEX and node.src[0].op is ops.BUFFERIZE:
            indices = [new[s] for s in node.src[1:]]
            gates = [indices.pop()] if indices and indices[-1].dtype.kind is Kind.BOOL else []
            flat = _flat_index(indices, shape(node.src[0]))
            new[node] = new[node.src[0]].index(flat, *gates, dtype=node.dtype)
        else:
            src = tuple(new[s] for s in node.src)
            new[node] = node if src == node.src else node.replace(src)
    return new[kernel]


def _filled_buffer(node: UOp, new: dict[UOp, UOp], number: int) -> UOp:
    """Return the local buffer of a BUFFERIZE, AFTER the loop that fills the buffer."""
    dims = shape(node)
    size = 1
    for dim in dims:
        size *= int(dim.vmax)
    buffer = UOp(ops.DEFINE_LOCAL, node.dtype.pointer(Space.LOCAL, size), (), number)
    value, *ranges = (new[s] for s in node.src)
    store = buffer.index(_flat_index(ranges, dims), dtype=node.dtype).store(value)
    loops = [r for r in ranges if r.op is ops.RANGE]
    return buffer.after(store.end(*loops) if loops else store)


def _flat_index(indices: Sequence[UOp], dims: Sequence[UOp]) -> UOp:
    """Return the row-major index of an element; the size of a dim is its upper bound."""
    flat, stride = UOp.const(index, 0), 1
    for at, dim in zip(reversed(indices), reversed(dims), strict=True):
        flat = at * stride + flat
        stride *= int(dim.vmax)
    return flat
