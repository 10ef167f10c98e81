"""Strided views: the elements of an array in its own memory, as movement ops on that memory.

    array[::-2, 1:5].T      flip, permute and slices of a flat buffer, which begins at the element
                            with the lowest address and ends at the one with the highest

An array is a view of slices if its axes are nested: a step along an axis passes over all elements
of the axes with smaller strides. Axes of stride 0 are broadcast. Windows that overlap, and axes
that are interleaved in another way, have no such view.
"""

from __future__ import annotations

from numpy.lib.stride_tricks import as_strided

from porism.base.dtypes import from_numpy
from porism.engine.run.buffer_storage import new_buffer
from porism.ir.facts.node_shape import shape
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.tensor import primitive


def view_of_array(array: Array) -> UOp | None:
    """Return a node on the memory of an aligned array; None if its layout is no view of slices.

    >>> import numpy as np
    >>> rows = np.arange(12).reshape(3, 4)
    >>> view_of_array(rows[::-1, ::2].T).op, view_of_array(as_strided(rows, (3, 3), (8, 8)))
    (FLIP, None)
    """
    dtype = from_numpy(array.dtype)
    if array.flags.c_contiguous or not array.size:
        return new_buffer(dtype, array.shape, array)
    item, axes = array.itemsize, range(array.ndim)
    if any(array.strides[k] % item for k in axes if array.shape[k] > 1):
        return None
    reversed_axes = [k for k in axes if array.shape[k] > 1 and array.strides[k] < 0]
    forward: Array = array[tuple(slice(None, None, -1 if k in reversed_axes else 1) for k in axes)]
    strides = [stride // item for stride in forward.strides]
    nested = [k for k in axes if forward.shape[k] > 1 and strides[k]]
    nested.sort(key=lambda k: -strides[k])
    extents = _extents([(forward.shape[k], strides[k]) for k in nested])
    if extents is None:
        return None
    flat = as_strided(forward, (extents[0],), (item,), writeable=False)
    node = new_buffer(dtype, flat.shape, flat)
    for k in nested:
        node = _split_last(node, forward.shape[k], strides[k])
    sizes = [forward.shape[k] for k in nested]
    node = primitive.reshape(primitive.shrink(node, [(0, n) for n in (*sizes, 1)]), sizes)
    node = primitive.permute(node, [nested.index(k) for k in axes if k in nested])
    single = [forward.shape[k] if k in nested else 1 for k in axes]
    node = primitive.expand(primitive.reshape(node, single), forward.shape)
    return primitive.flip(node, reversed_axes)


def _extents(axes: list[tuple[int, int]]) -> list[int] | None:
    """Return the elements that the axes from each on extend over, the largest stride first.

    None unless each stride passes over the axes after it.
    """
    extents = [1]
    for size, stride in reversed(axes):
        if stride < extents[0]:
            return None
        extents.insert(0, (size - 1) * stride + extents[0])
    return extents


def _split_last(node: UOp, size: int, stride: int) -> UOp:
    """Split the last axis into `size` parts of `stride` elements; the last part may be padded."""
    *others, last = (int(n.vmin) for n in shape(node))
    whole = [(0, n) for n in others]
    if last > size * stride:
        node = primitive.shrink(node, [*whole, (0, size * stride)])
    elif last < size * stride:
        node = primitive.pad(node, [(0, 0)] * len(others) + [(0, size * stride - last)])
    return primitive.reshape(node, [*others, size, stride])
