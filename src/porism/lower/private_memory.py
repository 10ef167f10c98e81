"""Private memory: local memory that is filled in several copies gets a part for each.

What is kept inside a loop is kept once for each of its iterations. If these go side by side (UPCAST
or UNROLL), all of them need their memory at the same time:

    DEFINE_LOCAL[n], filled inside of u < 4      DEFINE_LOCAL[4*n], element e is element u*n + e

If the memory itself is not filled in vectors, the iterations are neighbours: they become lanes.

    element e is element e*4 + u
"""

from __future__ import annotations

from typing import Final

from porism.base.dtypes import Space
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rules.addresses.strides import stride

SPREAD: Final = (Axis.UPCAST, Axis.UNROLL)


def private_memory(kernel: UOp) -> UOp:
    """A kernel in which no two iterations that go side by side share local memory."""
    order = toposort(kernel)
    around = _copied_for(order)
    in_vectors = _filled_in_vectors(order)
    if not any(around.values()):
        return kernel
    new: dict[UOp, UOp] = {}
    for node in order:
        src = tuple(new[s] for s in node.src)
        if around.get(node):
            copies = 1
            for counter in around[node]:
                copies *= int(counter.vmax) + 1
            size = node.dtype.size * copies
            dtype = node.dtype.element.pointer(Space.LOCAL, size)
            new[node] = UOp(ops.DEFINE_LOCAL, dtype, (), node.arg)
        elif node.op is ops.INDEX and around.get(_memory(node)):
            base, at, *gates = src
            part, copies = UOp.const(at.dtype, 0), 1
            for counter in around[_memory(node)]:
                part = part * (int(counter.vmax) + 1) + counter
                copies *= int(counter.vmax) + 1
            if _memory(node) in in_vectors:
                moved = part * _memory(node).dtype.size + at
            else:
                moved = at * copies + part
            new[node] = base.index(moved, *gates, dtype=node.dtype)
        elif node.op is ops.AFTER:
            new[node] = src[0].after(*src[1:])
        else:
            new[node] = node if src == node.src else node.replace(src)
    return new[kernel]


def _filled_in_vectors(order: list[UOp]) -> set[UOp]:
    """Local memory of which neighbours are stored side by side."""
    return {
        _memory(n.src[0])
        for n in order
        if n.op is ops.STORE
        and any(r.arg[1] in SPREAD and stride(n.src[0].src[1], r) for r in n.src[0].src[1].ranges)
    }


def _memory(access: UOp) -> UOp:
    base = access.src[0]
    while base.op is ops.AFTER:
        base = base.src[0]
    return base


def _copied_for(order: list[UOp]) -> dict[UOp, tuple[UOp, ...]]:
    """For each local memory the ranges side by side that it is filled inside of."""
    found: dict[UOp, tuple[UOp, ...]] = {}
    for node in order:
        if node.op is ops.AFTER and node.src[0].op is ops.DEFINE_LOCAL:
            ranges = tuple(r for s in node.src[1:] for r in s.ranges if r.arg[1] in SPREAD)
            found[node.src[0]] = tuple(dict.fromkeys((*found.get(node.src[0], ()), *ranges)))
    return found
