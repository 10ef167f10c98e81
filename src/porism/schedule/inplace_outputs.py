"""In-place outputs: kernels whose result may overwrite a buffer that they read.

    y[i, j] = max(s[i, j] + x[i, j], 0)        y may overwrite x, if no later kernel reads x

That is so if an element of the buffer is read only for the element of the result at the same index.
The cache line that is written is then in the cache already, and the working set is smaller.
"""

from __future__ import annotations

from collections.abc import Collection

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort


def overwritable_parameter(kernel: UOp, parameters: Collection[int]) -> int | None:
    """Return the first of some parameters that the result may overwrite; None if there is none."""
    order = toposort(kernel)
    stores = [node for node in order if node.op is ops.STORE]
    if len(stores) != 1 or stores[0].src[0].op is not ops.INDEX:
        return None
    result, *indices = stores[0].src[0].src
    candidates = {
        n for n in order if n.op is ops.PARAM and n.arg in parameters and _same_type(n, result)
    }
    for node in order:
        if candidates and not candidates.isdisjoint(node.src):
            same_index = node.op is ops.INDEX and node.src[1:] == tuple(indices)
            candidates -= set(node.src[1:] if same_index else node.src)
    return min((int(n.arg) for n in candidates), default=None)


def _same_type(buffer: UOp, result: UOp) -> bool:
    """Return whether another buffer has elements of the same type as the result."""
    return result.op is ops.PARAM and buffer.dtype is result.dtype and buffer is not result


def overwrites_safely(kernel: UOp, result: int, parameter: int) -> bool:
    """Return whether an elementwise kernel may store a result in the memory of a parameter.

    It reads the parameter only at the stored index, and stores a value that depends on what it has
    read there: so no order of its operations stores before it reads.
    """
    order = toposort(kernel)
    if any(n.op in (ops.REDUCE, ops.BUFFERIZE, ops.AFTER) for n in order):
        return False
    stores = [n for n in order if n.op is ops.STORE and _is_at(n.src[0], result)]
    reads = [n for n in order if _is_at(n, parameter)]
    if len(stores) != 1 or len(reads) != 1:
        return False
    address, value = stores[0].src
    if reads[0].src[1:] != address.src[1:] or reads[0].src[0].dtype is not address.src[0].dtype:
        return False
    return reads[0] in toposort(value)


def _is_at(node: UOp, parameter: int) -> bool:
    """Return whether a node is an access to a parameter."""
    return node.op is ops.INDEX and node.src[0].op is ops.PARAM and node.src[0].arg == parameter
