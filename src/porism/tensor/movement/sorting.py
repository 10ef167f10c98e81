"""Sorting: sort, argsort, top-k, binary search and quantiles.

`porism.tensor.movement.sorting_network` has the network, of n·log²(n) comparisons in log²(n)/2
steps, and the keys that put NaN last. An index is part of the same word as a key of up to 32 bits,
and a second word beside a longer one, so sorts with indices are stable.
`porism.tensor.movement.top_k` finds a few values without sorting all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from porism.base import dtypes
from porism.gradient.stated_pullbacks import differentiated_as
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api.arithmetic import add, multiply
from porism.tensor.api.reductions import Axes
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.joining import stack
from porism.tensor.movement.reshape import axis_last, slice_axis
from porism.tensor.movement.sorting_network import (
    argsort_keys,
    merge_zeros,
    padded_keys,
    sort_key,
    sort_last_axis,
    truncate,
    value_of_key,
)
from porism.tensor.movement.top_k import gather_last, is_cheaper_than_sorting, smallest_indices
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method


class TopK(NamedTuple):
    """The largest or smallest values along an axis, and their indices."""

    values: Tensor
    indices: Tensor


def _move_axis_last(x: Tensor, axis: Any, what: str) -> tuple[UOp, list[int]]:
    """Return the node with an axis moved to the end, and the permutation that moves it back."""
    moved = shapes.normalize_axis(axis, x.ndim)
    static_size(x.shape[moved], what)
    order, back = axis_last(moved, x.ndim)
    return primitive.permute(x.node, order), back


def _sort_keys(x: UOp, descending: bool) -> UOp:
    """Return integer keys in the order of the values, or in reverse."""
    keys = sort_key(x)
    return ops.NOT(keys) if descending else keys


def _sorted_indices(x: UOp, descending: bool) -> UOp:
    """Return the indices that sort the last axis, stably."""
    keys = padded_keys(x, lambda blocks: _sort_keys(merge_zeros(blocks), descending))
    return truncate(argsort_keys(keys), static_size(shapes.sizes_of(x)[-1], "argsort"))


@method
def sort(x: Any, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the values in ascending order along an axis; NaN is the largest.

    -0 comes before 0. `stable` is accepted for the Array API: equal values cannot be told apart.

    >>> porism.sort([3, 1, 2]).tolist(), porism.sort([3, 1, 2], descending=True).tolist()
    ([1, 2, 3], [3, 2, 1])
    """
    tensor = as_tensor(x)
    node, back = _move_axis_last(tensor, axis, "sort")
    return Tensor(primitive.permute(_sorted_values(node, descending), back))


def _sorted_values(x: UOp, descending: bool = False) -> UOp:
    """Return the values of the last axis in order; their derivative is that of a permutation."""
    (keys,) = sort_last_axis([padded_keys(x, partial(_sort_keys, descending=descending))])
    values = value_of_key(ops.NOT(keys) if descending else keys, x.dtype)
    values = truncate(values, static_size(shapes.sizes_of(x)[-1], "sort"))
    return differentiated_as(values, lambda: gather_last(x, _sorted_indices(x, descending)))


@method
def argsort(x: Any, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the indices that sort x along an axis, stably; NaN is the largest.

    >>> porism.argsort([3, 1, 2]).tolist()
    [1, 2, 0]
    """
    node, back = _move_axis_last(as_tensor(x), axis, "argsort")
    return Tensor(primitive.permute(_sorted_indices(node, descending), back))


@method
def topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> TopK:
    """Return the k largest (or smallest) values along an axis in order, and their indices.

    NaN is the largest; of equal values the first ones are taken. For a small k, blocks of the axis
    that cannot contain one of them are left out; otherwise the whole axis is sorted.

    >>> values, indices = porism.topk([3, 1, 2], 2)
    >>> values.tolist(), indices.tolist()
    ([3, 2], [0, 2])
    """
    tensor = as_tensor(x)
    node, back = _move_axis_last(tensor, axis, "topk")
    *others, size = shapes.sizes_of(node)
    count = shapes.as_int(k, "k")
    if not 0 <= count <= static_size(size, "topk"):
        raise shapes.shape_error(
            f"topk of {count} values along an axis of {size}",
            "there are not that many" if count > 0 else "a number of values is not negative",
            f"pass a k from 0 to {size}",
        )
    if count and is_cheaper_than_sorting(static_size(size, "topk"), count):
        smallest = smallest_indices(_sort_keys(merge_zeros(node), largest), count)
        indices = primitive.cast(smallest, dtypes.i64)
    else:
        indices = slice_axis(_sorted_indices(node, largest), len(others), 0, count)
        indices = primitive.contiguous(indices, "topk") if count else indices
    values = gather_last(node, indices)
    return TopK(Tensor(primitive.permute(values, back)), Tensor(primitive.permute(indices, back)))


@method
def searchsorted(x1: Any, x2: Any, side: str = "left", sorter: Any = None) -> Tensor:
    """Return the indices at which the values x2 would be inserted into the sorted tensor x1.

    `side` is 'left' for the position before equal elements, or 'right' for the one after; `sorter`
    has the indices that sort x1. It is a binary search: log2(n) loads of x1 for each value.

    >>> porism.searchsorted([10, 20, 30], [20, 25]).tolist()
    [1, 2]
    """
    if side not in ("left", "right"):
        raise shapes.shape_error(
            f"searchsorted with side={side!r}",
            "a value goes to the left or to the right of equal ones",
            "pass 'left' or 'right'",
        )
    table = as_tensor(x1)
    wanted = as_tensor(
        x2, promotion.result_type(table, x2) if isinstance(x2, (int, float)) else None
    )
    if table.ndim != 1:
        raise shapes.shape_error(
            f"searchsorted in a tensor of shape {shapes.to_text(table.shape)}",
            "it searches one sorted axis",
            "pass a tensor of one axis",
        )
    size = static_size(table.shape[0], "searchsorted")
    common = promotion.result_type(table, wanted)
    node = primitive.cast(table.node, common)
    if sorter is not None:
        node = gather_last(node, as_tensor(sorter).node)
    table_keys = sort_key(merge_zeros(node))
    keys = sort_key(merge_zeros(primitive.cast(wanted.node, common)))
    position = primitive.full(dtypes.index, 0, wanted.shape)
    step = 1 << size.bit_length() >> 1
    while step:
        # `position` elements are before the value; are `step` more of them too?
        candidate = position + step
        probe = primitive.gather(table_keys, [candidate - 1])
        before = probe < keys if side == "left" else probe <= keys
        position = (before & (candidate <= size)).where(candidate, position)
        step >>= 1
    return Tensor(primitive.cast(position, promotion.DEFAULT_INT))


# -- order statistics ------------------------------------------------------------------------------


@method
def quantile(x: Any, q: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the value below which the fraction q (0 to 1) of the elements along axes lies.

    It is interpolated linearly between two elements; with axis None, of all elements. NaN if an
    element is NaN. With a list of fractions the results are stacked along a new first axis.

    >>> porism.quantile([1.0, 2.0, 3.0, 4.0], 0.5).item()
    2.5
    """
    tensor = as_tensor(x)
    promotion.require_dtype(
        tensor.node.dtype, promotion.NUMBERS, "quantile", "convert it, with astype"
    )
    q = fractions(q)
    if isinstance(axis, (tuple, list)):
        return over_axes(quantile, tensor, q, axis, keepdims)
    if isinstance(q, list):
        return stack([quantile(tensor, float(part), axis, keepdims=keepdims) for part in q])
    if not isinstance(q, (int, float)) or not 0 <= q <= 1:
        raise shapes.shape_error(
            f"quantile of the fraction {q!r}", "a fraction is a number from 0 to 1", "pass one"
        )
    kept_sizes = [1] * tensor.ndim
    if axis is None:
        tensor = Tensor(primitive.reshape(tensor.node, [shapes.product(tensor.shape)]))
        axis = 0
    floats = Tensor(primitive.cast(tensor.node, promotion.float_type(tensor.node.dtype)))
    node, back = _move_axis_last(floats, axis, "quantile")
    *others, length = shapes.sizes_of(node)
    size = static_size(length, "quantile")
    if not size:
        raise shapes.shape_error(
            f"quantile of a tensor of shape {shapes.to_text(tensor.shape)}",
            "the axis has no elements",
            "check the size first",
        )
    values = _sorted_values(node)
    lower_index = min(int(q * (size - 1)), size - 1)
    upper_index = min(lower_index + 1, size - 1)
    fraction = q * (size - 1) - lower_index
    last = len(others)
    lower, upper, largest = (
        Tensor(slice_axis(values, last, k, k + 1)) for k in (lower_index, upper_index, size - 1)
    )
    interpolated = (
        add(multiply(lower, 1 - fraction), multiply(upper, fraction)) if fraction else lower
    )
    result = largest.node.ne(largest.node).where(largest.node, interpolated.node)
    result = primitive.permute(result, back)
    if keepdims:
        return Tensor(
            result if len(back) == len(kept_sizes) else primitive.reshape(result, kept_sizes)
        )
    reduced_axis = shapes.normalize_axis(axis, floats.ndim)
    sizes = [n for k, n in enumerate(shapes.sizes_of(result)) if k != reduced_axis]
    return Tensor(primitive.reshape(result, sizes))


def fractions(q: Any) -> Any:
    """Return fractions as Python's numbers: one, or a list of those in a list, array or tensor."""
    if isinstance(q, (Tensor, np.ndarray, np.generic)):
        q = q.tolist()
    if not isinstance(q, (list, tuple)):
        return q
    if any(isinstance(part, (list, tuple)) for part in q):
        raise shapes.shape_error(
            "a quantile of several rows of fractions",
            "there is one fraction, or a list of them",
            "pass them in one list, and reshape the result",
        )
    return list(q)


def over_axes(function: Any, x: Tensor, q: Any, axes: Sequence[int], keepdims: bool) -> Tensor:
    """Return a quantile over several axes, which are merged to one."""
    reduced = shapes.normalize_axes(axes, x.ndim)
    kept = [k for k in range(x.ndim) if k not in reduced]
    sizes = [x.shape[k] for k in kept]
    node = primitive.permute(x.node, [*kept, *reduced])
    flat = primitive.reshape(node, [*sizes, shapes.product([x.shape[k] for k in reduced])])
    result = function(Tensor(flat), q, -1).node
    if not keepdims:
        return Tensor(result)
    stacked = shapes.sizes_of(result)[: len(shapes.sizes_of(result)) - len(sizes)]
    ones = [1 if k in reduced else x.shape[k] for k in range(x.ndim)]
    return Tensor(primitive.reshape(result, [*stacked, *ones]))


@method
def percentile(x: Any, q: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the value below which q percent of the elements along an axis lie.

    It is `quantile` of q / 100; with a list of numbers the results are stacked.

    >>> porism.percentile([1.0, 2.0, 3.0, 4.0], [25, 50]).tolist()
    [1.75, 2.5]
    """
    return quantile(x, of_percents(q), axis, keepdims=keepdims)


def of_percents(q: Any) -> Any:
    """Return percents as fractions."""
    given = fractions(q)
    return [part / 100 for part in given] if isinstance(given, list) else given / 100


@method
def median(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the median along an axis, the mean of the middle two elements if their number is even.

    >>> porism.median([1.0, 9.0, 2.0]).item()
    2.0
    """
    return quantile(x, 0.5, axis, keepdims=keepdims)
