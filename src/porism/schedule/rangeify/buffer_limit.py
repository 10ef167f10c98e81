"""Crowds: values that would need more buffers at once than a kernel may read."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from porism.ir import ops
from porism.ir.node import UOp
from porism.schedule.rangeify.placement_cost import KEPT


def crowded(order: Sequence[UOp], limit: int, kept: Collection[UOp]) -> list[UOp]:
    """Nodes to be stored, so that no value is computed from more buffers than the limit.

    `kept` are nodes that will be in memory anyway, as far as is known.
    Where a node has too many, those of its sources that have the most are stored first.
    """
    found: list[UOp] = []
    reads: dict[UOp, frozenset[UOp]] = {}
    for node in order:
        sources = [s for s in dict.fromkeys(node.src) if s in reads]
        whole = _union(reads, sources)
        if len(whole) >= limit:
            for source in sorted(sources, key=lambda s: len(reads[s]), reverse=True):
                if len(reads[source]) > 1 and source.op is not ops.CONST:
                    found.append(source)
                    reads[source] = frozenset((source,))
                    whole = _union(reads, sources)
                    if len(whole) < limit:
                        break
        in_memory = node.op in KEPT or node in kept
        reads[node] = frozenset((node,)) if in_memory else whole
    return found


def _union(reads: dict[UOp, frozenset[UOp]], sources: Sequence[UOp]) -> frozenset[UOp]:
    if len(sources) == 1:
        return reads[sources[0]]
    nothing: frozenset[UOp] = frozenset()
    return nothing.union(*(reads[s] for s in sources))
