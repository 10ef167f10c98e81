"""In-place update: a part of a tensor overwritten in memory, where that cannot be observed.

This is possible where the values are in memory that Porism allocated and nothing but the tensor
refers to it: no other tensor, no unrealized graph, no NumPy array. Reference counts tell, since
each of these owns a reference to the buffer node or its array. Otherwise `x[...] = value` builds a
graph that computes a new value of x.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import numpy as np

from porism.engine.run import array_allocator
from porism.engine.run.buffer_storage import (
    array_of,
    buffer_for_array,
    find_storage,
    node_storage,
    realized_buffer,
)
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.tensor.jit.tracing import current
from porism.tensor.movement.index_keys import AxisIndex
from porism.tensor.shapes import Sizes, sizes_of
from porism.tensor.tensor import Tensor

_SOLE_REFERENCE: Final = 2
"""The reference count of an object with one owner: the owner's, and that of `getrefcount`."""


def try_overwrite(x: Tensor, selection: Sequence[AxisIndex], result: Sizes, value: UOp) -> bool:
    """Write a value over a part of x if that cannot be observed; return whether it was written.

    The value is broadcast to the sizes `result` of x[key]. `selection` has an element for each axis
    of x, so the part has axes of size 1 where the key has ints, and none where it has None.
    """
    memory = _exclusive_memory(x)
    bounds = [end for part in selection for end in (part.begin, part.end)]
    needed_sizes = (*sizes_of(value), *bounds, *result)
    has_symbolic_size = len(_int_sizes(needed_sizes)) < len(needed_sizes)
    if memory is None or has_symbolic_size:
        return False
    new = _as_array(value).reshape(_int_sizes(sizes_of(value)))
    view = memory.reshape(_int_sizes(x.shape))
    for axis, part in enumerate(selection):
        before = (slice(None),) * axis
        step = -part.step if part.reversed else part.step
        view = view[*before, part.begin : part.end][*before, ::step]
    while new.ndim > len(result):  # surplus leading axes of size 1
        new = new[0]
    broadcast = np.broadcast_to(new, _int_sizes(result)).reshape(view.shape)
    with np.errstate(all="ignore"):  # overflow gives infinity, without a warning
        np.copyto(view, broadcast, casting="unsafe")
    array, address = node_storage(x._node)
    # A new node for the same memory, since nodes stand for values, and this one has changed.
    x._node = buffer_for_array(x._node.dtype, x._node.src, array, address)
    return True


def is_exclusive(x: Tensor) -> bool:
    """Return whether nothing but the tensor refers to its memory."""
    return _exclusive_memory(x) is not None


def _int_sizes(sizes: Sizes) -> list[int]:
    """Return the sizes that are ints, without symbolic ones."""
    return [size for size in sizes if isinstance(size, int)]


def _exclusive_memory(x: Tensor) -> Array | None:
    """Return the memory of a tensor as an array if nothing else refers to it, else None."""
    if current.get() is not None or x._node.op is not ops.BUFFER:
        return None  # a jitted function is being traced, or x is not in memory yet
    if sys.getrefcount(x._node) > _SOLE_REFERENCE or find_storage(x._node) is None:
        return None
    if sys.getrefcount(find_storage(x._node)) > _SOLE_REFERENCE:
        return None  # a thread is reading it
    if sys.getrefcount(array_of(x._node)) > _SOLE_REFERENCE:
        return None
    array = array_of(x._node)
    if not isinstance(array, np.ndarray):
        return None  # it is on another device, where a kernel computes the new value
    return array if array_allocator.is_pool_array(array) else None


def _as_array(value: UOp) -> Array:
    """Return a value as an array, computed if needed; a broadcast constant needs no kernel."""
    source = value
    while source.op in (ops.RESHAPE, ops.EXPAND) and realized_buffer(source) is None:
        source = source.src[0]
    if source.op is ops.CONST:
        return np.broadcast_to(np.asarray(source.arg), _int_sizes(sizes_of(value)))
    return array_of(Tensor(value)._buffer())
