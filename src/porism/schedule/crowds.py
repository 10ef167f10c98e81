"""Crowds: values that would need more buffers at once than a kernel may read."""

from __future__ import annotations

from collections.abc import Sequence

from porism.ir import ops
from porism.ir.node import UOp
from porism.schedule.cost import KEPT


def crowded(order: Sequence[UOp], limit: int) -> list[UOp]:
    """Nodes to be stored, so that no value is computed from more buffers than the limit.

    Where a node has too many, those of its sources that have the most are stored first.
    """
    found: list[UOp] = []
    reads: dict[UOp, frozenset[UOp]] = {}
    nothing: frozenset[UOp] = frozenset()
    for node in order:
        sources = [s for s in dict.fromkeys(node.src) if s in reads]
        if node.op in KEPT:
            reads[node] = frozenset((node,))
            continue
        whole = nothing.union(*(reads[s] for s in sources))
        if len(whole) >= limit:
            for source in sorted(sources, key=lambda s: len(reads[s]), reverse=True):
                if len(reads[source]) > 1 and source.op is not ops.CONST:
                    found.append(source)
                    reads[source] = frozenset((source,))
                    whole = nothing.union(*(reads[s] for s in sources))
                    if len(whole) < limit:
                        break
        reads[node] = reads[sources[0]] if len(sources) == 1 else whole
    return found
