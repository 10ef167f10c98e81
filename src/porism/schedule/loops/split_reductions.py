"""Split reductions: a reduction of very many elements to few becomes two, the first in parallel.

    Before   sum(x[2^26])
    After    sum(contiguous(sum(x[256, 2^18], axis 1)))

`porism.rules.reductions.reduction_splitting` says which reductions are split, and how. Each that
was there is split once: what is left of it for the first step may still be long.
"""

from __future__ import annotations

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import rebuild, toposort
from porism.rules.reductions.reduction_splitting import Varying, split_reduction
from porism.schedule.loops.scatter_stores import names_elements


def split_reductions(sink: UOp) -> UOp:
    """The graph with its long reductions in two steps."""
    known: dict[UOp, Varying] = {}
    found: dict[UOp, UOp] = {}
    for node in toposort(sink):
        if node.op is ops.REDUCE_AXIS and not names_elements(node, known):
            parts = split_reduction(node, known)
            if parts is not None:
                found[node] = parts
    if not found:
        return sink

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        if node not in found:
            return node.replace(src)
        return _on(found[node], node.src[0], src[0])

    return rebuild(sink, change)


def _on(parts: UOp, old: UOp, new: UOp) -> UOp:
    """A reduction that was split, of another tensor of the same shape."""
    if new is old or parts is old:
        return new if parts is old else parts
    return parts.replace(tuple([_on(s, old, new) for s in parts.src]))
