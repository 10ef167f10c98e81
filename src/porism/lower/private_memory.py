"""Private memory: a local buffer that is filled in unrolled copies gets a part for each copy.

A value that is materialized inside a loop is overwritten in each iteration. Where the iterations
are vectorized or unrolled (UPCAST, UNROLL), all of them need their elements at the same time:

    before                                after
    DEFINE_LOCAL[n], filled in u < 4      DEFINE_LOCAL[4*n], element e is element u*n + e

If the stores that fill the buffer are not vectorized themselves, the copies of one element are
contiguous, so that they become lanes: element e is element e*4 + u.
"""

from __future__ import annotations

from porism.base.dtypes import Space
from porism.ir import ops
from porism.ir.axis import EXPANDED_AXES
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rules.addresses.strides import stride


def private_memory(kernel: UOp) -> UOp:
    """Return the kernel with separate elements of local buffers for each vectorized iteration."""
    order = toposort(kernel)
    expanded = _expanded_ranges(order)
    vector_filled = _vector_filled_buffers(order)
    if not any(expanded.values()):
        return kernel
    new: dict[UOp, UOp] = {}
    for node in order:
        src = tuple(new[s] for s in node.src)
        if expanded.get(node):
            copies = 1
            for loop in expanded[node]:
                copies *= int(loop.vmax) + 1
            size = node.dtype.size * copies
            dtype = node.dtype.element.pointer(Space.LOCAL, size)
            new[node] = UOp(ops.DEFINE_LOCAL, dtype, (), node.arg)
        elif node.op is ops.INDEX and expanded.get(_buffer(node)):
            base, index, *gates = src
            copy, copies = UOp.const(index.dtype, 0), 1
            for loop in expanded[_buffer(node)]:
                copy = copy * (int(loop.vmax) + 1) + loop
                copies *= int(loop.vmax) + 1
            if _buffer(node) in vector_filled:
                moved = copy * _buffer(node).dtype.size + index
            else:
                moved = index * copies + copy
            new[node] = base.index(moved, *gates, dtype=node.dtype)
        elif node.op is ops.AFTER:
            new[node] = src[0].after(*src[1:])
        else:
            new[node] = node if src == node.src else node.replace(src)
    return new[kernel]


def _vector_filled_buffers(order: list[UOp]) -> set[UOp]:
    """Return the local buffers that vectorized or unrolled stores fill."""
    return {
        _buffer(n.src[0])
        for n in order
        if n.op is ops.STORE
        and any(_moves_along(n.src[0].src[1], r) for r in n.src[0].src[1].ranges)
    }


def _moves_along(index: UOp, loop: UOp) -> bool:
    """Return whether an index differs between the iterations of an UPCAST or UNROLL range."""
    return loop.arg[1] in EXPANDED_AXES and bool(stride(index, loop))


def _buffer(access: UOp) -> UOp:
    base = access.src[0]
    while base.op is ops.AFTER:
        base = base.src[0]
    return base


def _expanded_ranges(order: list[UOp]) -> dict[UOp, tuple[UOp, ...]]:
    """Return for each local buffer the UPCAST and UNROLL ranges around the loop that fills it."""
    expanded: dict[UOp, tuple[UOp, ...]] = {}
    for node in order:
        if node.op is ops.AFTER and node.src[0].op is ops.DEFINE_LOCAL:
            ranges = tuple(r for s in node.src[1:] for r in s.ranges if r.arg[1] in EXPANDED_AXES)
            buffer = node.src[0]
            expanded[buffer] = tuple(dict.fromkeys((*expanded.get(buffer, ()), *ranges)))
    return expanded
