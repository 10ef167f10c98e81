"""Indexing: `x[key]` as in NumPy, by movement ops for ints and slices, by GATHER for arrays.

Indices in lists and NumPy arrays are checked. The values of index tensors are unknown when the
graph is built, so an index out of range gives 0. Negative indices count from the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import Kind
from porism.ir.facts.node_shape import shape
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.conversion import as_tensor, host_result, own_array
from porism.tensor.jit.tracing import current
from porism.tensor.movement.index_keys import AxisIndex, check_mask, holds_mask, parse_key
from porism.tensor.movement.reshape import flatten
from porism.tensor.movement.slicing import selected_sizes, slice_axes, slicing_of
from porism.tensor.primitive import Dim
from porism.tensor.promotion import INTEGERS, require_dtype
from porism.tensor.shapes import (
    Sizes,
    as_sizes,
    broadcast_shapes,
    normalize_axis,
    shape_error,
    sizes_of,
    to_text,
)
from porism.tensor.tensor import Tensor, method, operator


@operator("getitem")
def getitem(x: Tensor, key: Any) -> Tensor:
    """Return elements of x by ints, slices, `...`, None, arrays of integers, and masks.

    The shape of x[mask] depends on the values of the mask, so it is computed at once.

    >>> porism.arange(6)[4:0:-2].tolist(), porism.arange(6)[[0, 5]].tolist()
    ([4, 2], [0, 5])
    """
    slicing = slicing_of(key, shape(x.node))
    if slicing is not None:
        return Tensor(slicing.apply(x.node))
    if holds_mask(key) and current.get() is None:
        return _select_by_masks(x, key)
    selection = parse_key(key, x.shape)
    node = slice_axes(x.node, [part for part in selection if not part.new])
    if all(part.index is None for part in selection):
        return Tensor(primitive.reshape(node, selected_sizes(selection, sizes_of(node))))
    return Tensor(gather_by_arrays(node, selection))


def _select_by_masks(x: Tensor, key: Any) -> Tensor:
    """Return x[key] with boolean tensors in the key: their values are computed now."""
    if isinstance(key, Tensor):
        mask = np.asarray(key.numpy())
        check_mask(mask.shape, x.shape[: mask.ndim], 0)
        return host_result(np.asarray(x.numpy()[mask]), x)  # by NumPy: each count would be a kernel
    return getitem(x, tuple(item.numpy() if holds_mask(item) else item for item in key))


# -- arrays ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GatherLayout:
    """The order of the axes of x[key]: outer axes, the common axes of the index arrays, inner axes.

    As in NumPy, the common axes replace the arrays if these are adjacent in the key; otherwise they
    come first. Axes are given by their positions in the key.
    """

    outer: list[int]
    """The axes before the common axes."""
    inner: list[int]
    """The axes after the common axes."""
    common: Sizes
    """The shape to which the arrays are broadcast together."""


def gather_layout(selection: Sequence[AxisIndex]) -> GatherLayout:
    """Return the order of the axes of x[key]; as in NumPy, ints count as index arrays."""
    array_axes = [k for k, part in enumerate(selection) if part.is_array]
    other_axes = [k for k in range(len(selection)) if k not in array_axes]
    adjacent = array_axes == list(range(array_axes[0], array_axes[-1] + 1))
    front = sum(k < array_axes[0] for k in other_axes) if adjacent else 0
    shapes = [as_sizes(part.index.shape) for part in selection if part.index is not None]
    return GatherLayout(other_axes[:front], other_axes[front:], broadcast_shapes(*shapes))


def gather_by_arrays(x: UOp, selection: Sequence[AxisIndex]) -> UOp:
    """Return the elements of x, already sliced, that index arrays select."""
    layout = gather_layout(selection)
    sliced_sizes = iter(sizes_of(x))
    sizes = [1 if part.new else next(sliced_sizes) for part in selection]
    outer, inner = ([sizes[k] for k in group] for group in (layout.outer, layout.inner))
    # GATHER needs at least one axis; a scalar is gathered as one element.
    common = layout.common if outer or inner or layout.common else (1,)
    result_sizes: Sizes = (*outer, *common, *inner)
    source_axes = [*layout.outer, *[None] * len(common), *layout.inner]
    indices: list[UOp] = []
    for k, part in enumerate(selection):
        if part.index is not None:
            index = index_node(part.index, sizes[k])
            index = primitive.reshape(index, (*sizes_of(index), *[1] * len(inner)))
            indices.append(primitive.broadcast(index, result_sizes))
        elif part.dropped:
            indices.append(primitive.full(dtypes.index, 0, result_sizes))
        elif not part.new:
            indices.append(primitive.iota(result_sizes, source_axes.index(k)))
    return primitive.reshape(primitive.gather(x, indices), (*outer, *layout.common, *inner))


def index_node(index: Array | Tensor, size: Dim) -> UOp:
    """Return an index array as a node of type `index`, with negative indices wrapped.

    The indices of a NumPy array are in range and non-negative already (`parse_key`); clamping them
    tells the compiler their bounds. Those of a tensor may be out of range (`wrap_negative`).
    """
    if isinstance(index, Tensor):
        return wrap_negative(index.node, size)
    most = int(index.max(initial=0))
    indices = primitive.cast(own_array(np.ascontiguousarray(index)).node, dtypes.index)
    return indices.maximum(0).minimum(most)


def wrap_negative(index: UOp, size: Dim) -> UOp:
    """Return an index tensor in the type `index`, with negative indices counted from the end.

    Indices out of range become -1 or the size.
    """
    if index.dtype.kind is Kind.UNSIGNED:
        return primitive.clamp_index(index, size)
    signed = primitive.cast(index, dtypes.i64)
    from_end = signed + primitive.cast(primitive.as_dim(size), dtypes.i64)
    return primitive.clamp_index((signed < 0).where(from_end, signed), size)


# -- functions -------------------------------------------------------------------------------------


def _index_tensor(indices: Any, what: str) -> Tensor:
    """Return indices as a tensor, which must be of integers."""
    tensor = as_tensor(indices)
    require_dtype(
        tensor.node.dtype, INTEGERS, f"{what} with indices", "convert them first, with astype"
    )
    return tensor


@method
def take(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """Return the elements of x at indices along an axis.

    In the shape of the result, the shape of `indices` replaces the size of that axis. With axis
    None x is flattened first, as in NumPy. An index out of range gives 0 if its value is only known
    at run time, and an error otherwise.

    >>> porism.take([10, 20, 30], [2, 0]).tolist()
    [30, 10]
    """
    tensor = as_tensor(x)
    if axis is None:
        tensor, axis = flatten(tensor), 0
    taken_axis = normalize_axis(axis, tensor.ndim)
    index = indices if isinstance(indices, (list, tuple, np.ndarray)) else None
    chosen = _index_tensor(indices, "take") if index is None else np.asarray(index)
    return getitem(tensor, (*[slice(None)] * taken_axis, chosen))


@method
def index_select(x: Any, axis: int, index: Any) -> Tensor:
    """Return the slices of x along an axis at a list of indices.

    >>> porism.index_select([[1, 2], [3, 4]], 0, [1, 0]).tolist()
    [[3, 4], [1, 2]]
    """
    chosen = index if isinstance(index, Tensor) else np.asarray(index)
    if chosen.ndim > 1:
        raise shape_error(
            f"index_select with an index of shape {to_text(chosen.shape)}",
            "the index has one axis",
            "use take, which has an index of any shape",
        )
    return take(x, index, axis)


@method
def embedding(x: Any, weight: Any) -> Tensor:
    """Return the rows of a table for a tensor of indices; zeros for an index out of range.

    >>> porism.embedding([2, 0], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).tolist()
    [[5.0, 6.0], [1.0, 2.0]]
    """
    table = as_tensor(weight)
    if table.ndim != 2:
        raise shape_error(
            f"embedding with a table of shape {to_text(table.shape)}",
            "a table is (number of rows, features)",
            "pass the indices first, and then the table",
        )
    return take(table, as_tensor(x), 0)


@method
def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Tensor:
    """Return for each element of `indices` the element of x at that index along an axis.

    `indices` has as many axes as x; the axes other than `axis` are broadcast together.

    >>> porism.take_along_axis([[10, 20], [30, 40]], [[1], [0]], axis=1).tolist()
    [[20], [30]]
    """
    tensor, index = as_tensor(x), _index_tensor(indices, "take_along_axis")
    taken_axis = normalize_axis(axis, tensor.ndim)
    if index.ndim != tensor.ndim:
        raise shape_error(
            f"take_along_axis of {to_text(tensor.shape)} with indices of {to_text(index.shape)}",
            f"they have {tensor.ndim} and {index.ndim} axes",
            "give indices with as many axes as the tensor",
        )
    sizes, index_sizes = list(tensor.shape), list(index.shape)
    common = list(
        broadcast_shapes(_remove_axis(sizes, taken_axis), _remove_axis(index_sizes, taken_axis))
    )
    common.insert(taken_axis, index_sizes[taken_axis])
    source_sizes = list(common)
    source_sizes[taken_axis] = sizes[taken_axis]
    return Tensor(
        gather_along(
            primitive.broadcast(tensor.node, source_sizes),
            primitive.broadcast(index.node, common),
            taken_axis,
        )
    )


def _remove_axis(sizes: Sequence[Dim], axis: int) -> list[Dim]:
    """Return sizes without that of one axis."""
    return [size for k, size in enumerate(sizes) if k != axis]


def gather_along(x: UOp, index: UOp, axis: int) -> UOp:
    """Return elements of x by one index along an axis, at their own position along the others."""
    sizes = sizes_of(index)
    indices = [
        wrap_negative(index, sizes_of(x)[axis]) if k == axis else primitive.iota(sizes, k)
        for k in range(len(sizes))
    ]
    return primitive.gather(x, indices)


@method
def gather(x: Any, axis: int, index: Any) -> Tensor:
    """Return x's elements at `index` along an axis, as PyTorch's gather.

    It is `take_along_axis`, but `index` may be smaller than x along the other axes and is not
    broadcast.

    >>> porism.gather([[10, 20], [30, 40]], 1, [[1], [0]]).tolist()
    [[20], [30]]
    """
    tensor, indices = as_tensor(x), _index_tensor(index, "gather")
    gathered_axis = normalize_axis(axis, tensor.ndim)
    fits = indices.ndim == tensor.ndim and all(
        k == gathered_axis or not isinstance(a, int) or not isinstance(b, int) or a <= b
        for k, (a, b) in enumerate(zip(indices.shape, tensor.shape, strict=False))
    )
    if not fits:
        raise shape_error(
            f"gather of {to_text(tensor.shape)} with an index of {to_text(indices.shape)}",
            f"along all axes but {gathered_axis}, the index is not longer than the tensor",
            "slice the index, or broadcast the tensor first",
        )
    return Tensor(gather_along(tensor.node, indices.node, gathered_axis))


@operator("iter")
def _iter(x: Tensor) -> Iterator[Tensor]:
    """Return an iterator over the slices along the first axis."""
    if not x.ndim:
        raise shape_error("iteration over a scalar", "a scalar has no axes", "use .item()")
    return iter([x[k] for k in range(len(x))])
