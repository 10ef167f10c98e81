"""Split reductions: a reduction of many elements to few becomes two, the first one parallel.

    Before   sum(x[2^26])
    After    sum(contiguous(sum(x[256, 2^18], axis 1)))

`porism.rules.reductions.reduction_splitting` decides which reductions are split, and how. Each is
split once, even if its first half is still long.
"""

from __future__ import annotations

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import rebuild, toposort
from porism.rules.reductions.reduction_splitting import Varying, split_reduction
from porism.schedule.loops.scatter_stores import is_scatter


def split_reductions(sink: UOp) -> UOp:
    """Return the graph with its long reductions in two steps."""
    known: dict[UOp, Varying] = {}
    halves: dict[UOp, UOp] = {}
    for node in toposort(sink):
        if node.op is ops.REDUCE_AXIS and not is_scatter(node, known):
            both = split_reduction(node, known)
            if both is not None:
                halves[node] = both
    if not halves:
        return sink

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        if node not in halves:
            return node.replace(src)
        return _replace_source(halves[node], node.src[0], src[0])

    return rebuild(sink, change)


def _replace_source(node: UOp, old: UOp, new: UOp) -> UOp:
    """Return a split reduction of another tensor of the same shape."""
    if new is old or node is old:
        return new if node is old else node
    return node.replace(tuple([_replace_source(s, old, new) for s in node.src]))
