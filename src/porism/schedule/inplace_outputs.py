"""In place: kernels whose result may take the memory of what it is computed from.

    y[i, j] = max(s[i, j] + x[i, j], 0)        y may be where x was, if nobody reads x later

That is so if an element of a buffer is read for the element of the result at the same place, and
for no other. The line that is written is then in a cache already, and the next kernels find their
memory half as often in the one beyond it.
"""

from __future__ import annotations

from collections.abc import Collection

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort


def replaceable(kernel: UOp, numbers: Collection[int]) -> int | None:
    """The first of some parameters that the result may take the place of."""
    order = toposort(kernel)
    stores = [node for node in order if node.op is ops.STORE]
    if len(stores) != 1 or stores[0].src[0].op is not ops.INDEX:
        return None
    place = stores[0].src[0].src
    left = {n for n in order if n.op is ops.PARAM and n.arg in numbers and _is_like(n, place[0])}
    for node in order:
        if left and not left.isdisjoint(node.src):
            same = node.op is ops.INDEX and node.src[1:] == place[1:]
            left -= set(node.src[1:] if same else node.src)
    return min((int(n.arg) for n in left), default=None)


def _is_like(buffer: UOp, result: UOp) -> bool:
    """Whether an element is at the same place in two buffers."""
    return result.op is ops.PARAM and buffer.dtype is result.dtype and buffer is not result
