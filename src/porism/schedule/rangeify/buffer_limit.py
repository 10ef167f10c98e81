"""Buffer limit: values to store so that no kernel reads more buffers than it may."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from porism.ir import ops
from porism.ir.node import UOp
from porism.schedule.rangeify.placement_cost import IN_MEMORY


def nodes_over_buffer_limit(order: Sequence[UOp], limit: int, stored: Collection[UOp]) -> list[UOp]:
    """Return nodes to store, so that no value is computed from `limit` buffers or more.

    `order` has sources before users; `stored` are the nodes that are probably stored anyway. Of a
    node that would read too many buffers, the sources that read the most are stored first.
    """
    to_store: list[UOp] = []
    buffers: dict[UOp, frozenset[UOp]] = {}
    for node in order:
        sources = [s for s in dict.fromkeys(node.src) if s in buffers]
        all_buffers = _union(buffers, sources)
        if len(all_buffers) >= limit:
            for source in sorted(sources, key=lambda s: len(buffers[s]), reverse=True):
                if len(buffers[source]) > 1 and source.op is not ops.CONST:
                    to_store.append(source)
                    buffers[source] = frozenset((source,))
                    all_buffers = _union(buffers, sources)
                    if len(all_buffers) < limit:
                        break
        is_stored = node.op in IN_MEMORY or node in stored
        buffers[node] = frozenset((node,)) if is_stored else all_buffers
    return to_store


def _union(buffers: dict[UOp, frozenset[UOp]], sources: Sequence[UOp]) -> frozenset[UOp]:
    """Return the buffers that are read for any of the sources."""
    if len(sources) == 1:
        return buffers[sources[0]]
    nothing: frozenset[UOp] = frozenset()
    return nothing.union(*(buffers[s] for s in sources))
