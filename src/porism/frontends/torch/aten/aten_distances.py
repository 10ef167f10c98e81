"""Distances, order and segments of ATen: operators over pairs of elements, and over groups."""

from __future__ import annotations

import math
from typing import Any

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten.aten_reductions import median_dim, sort, vector_norm
from porism.frontends.torch.aten.aten_table import UncoveredFormError, aten
from porism.tensor.tensor import Tensor

# -- distances -------------------------------------------------------------------------------------


@aten("dist.default", promoting=True)
def dist(x: Any, y: Any, p: Any = 2) -> Any:
    """Return the norm of a difference."""
    return vector_norm(x - y, p)


@aten("_cdist_forward.default")
def cdist(x: Any, y: Any, p: float, compute_mode: int | None = None) -> Any:
    """Return the distance of each row of x from each row of y."""
    return _norm_of_rows(x[..., :, None, :] - y[..., None, :, :], p)


def _norm_of_rows(off: Any, p: float) -> Any:
    """Return the norm of differences along the last axis; for p = 0 how many are not 0, or NaN."""
    if not off.shape[-1]:
        return xp.zeros(off.shape[:-1], dtype=off.dtype)
    if p == 0:
        return xp.sum(xp.minimum(xp.ceil(xp.abs(off)), 1), axis=-1)
    return vector_norm(off, p, [-1])


@aten("_cdist_backward.default")
def cdist_backward(grad: Any, x: Any, y: Any, p: float, distance: Any) -> Any:
    """Return the gradient of distances by x; where a distance is 0, so is its gradient."""
    off = x[..., :, None, :] - y[..., None, :, :]
    far, distance = grad[..., None], distance[..., None]
    if p == 0:
        return xp.zeros_like(x)
    if p == 1:
        terms = far * xp.sign(off)
    elif p == math.inf:
        terms = xp.where(xp.abs(off) == distance, far * xp.sign(off), 0)
    else:
        ratio = off if p == 2 else xp.sign(off) * xp.pow(xp.abs(off), p - 1)
        scale = distance if p == 2 else xp.pow(distance, p - 1)
        zero = (distance == 0) if p >= 1 else (off == 0)
        terms = xp.where(zero, 0, far * ratio / xp.where(zero, 1, scale))
    return xp.sum(terms, axis=-2)


@aten("_pdist_forward.default")
def pdist(x: Any, p: float = 2) -> Any:
    """Return the distances of each row from those that follow it."""
    count = x.shape[0]
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    if not pairs:
        return xp.zeros(0, dtype=x.dtype)
    first, second = (xp.asarray([pair[k] for pair in pairs], dtype="int64") for k in (0, 1))
    return _norm_of_rows(xp.take(x, first, axis=0) - xp.take(x, second, axis=0), p)


# -- order -----------------------------------------------------------------------------------------

MOST_ELEMENTS = 4096
"""The longest sorted row whose elements are all compared with each value; chosen by hand."""


@aten("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    sorted_sequence: Any,
    x: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Return where values belong in sorted sequences, one for each row of values."""
    right = right or side == "right"
    if not isinstance(x, Tensor):
        x = xp.asarray(x, dtype=sorted_sequence.dtype)
    if sorter is not None:
        sorted_sequence = xp.take_along_axis(sorted_sequence, sorter, axis=-1)
    if sorted_sequence.ndim == 1:
        return xp.searchsorted(sorted_sequence, x, side="right" if right else "left")
    if sorted_sequence.shape[-1] > MOST_ELEMENTS:
        raise UncoveredFormError("searchsorted of long rows")
    rows, values = sorted_sequence[..., None, :], x[..., :, None]
    behind = (rows > values) if right else (rows >= values)
    return xp.sum(xp.logical_not(behind).astype("int64"), axis=-1)


def _sorted_floats(x: Any, dim: int) -> tuple[Any, Any]:
    """Return floats sorted along an axis, and their indices; other types are left to torch."""
    if x.dtype.kind != "f":
        raise UncoveredFormError("which of several equal elements torch names is its own choice")
    return sort(x, dim)


@aten("kthvalue.default")
def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """Return the k-th smallest element along an axis, and its index."""
    values, order = _sorted_floats(x, dim)
    if not x.ndim:
        return values, order
    axis = dim % x.ndim
    here = (slice(None),) * axis + (slice(k - 1, k) if keepdim else k - 1,)
    return values[here], order[here]


@aten("nanmedian.dim")
def nanmedian_dim(x: Any, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """Return the lower median of the numbers along an axis, and its index."""
    values, order = _sorted_floats(x, dim)
    if not x.ndim:
        return values, order
    axis = dim % x.ndim
    count = xp.sum(xp.logical_not(xp.isnan(x)).astype("int64"), axis=axis, keepdims=True)
    middle = xp.maximum(count - 1, 0) // 2
    value = xp.take_along_axis(values, middle, axis=axis)
    index = xp.take_along_axis(order, middle, axis=axis)
    return (value, index) if keepdim else (xp.squeeze(value, axis), xp.squeeze(index, axis))


@aten("nanmedian.default")
def nanmedian(x: Any) -> Any:
    """Return the lower median of all numbers; its index among equal ones does not matter."""
    if not x.size:
        raise UncoveredFormError("the median of nothing")
    flat = xp.reshape(x, (-1,))
    return nanmedian_dim(flat, 0)[0] if x.dtype.kind == "f" else median_dim(flat, 0)[0]


# -- segments and bags -----------------------------------------------------------------------------


def _bags(offsets: Any, count: int) -> Any:
    """Return in which segment each of `count` elements is, from where the segments begin."""
    return xp.searchsorted(offsets.astype("int64"), xp.arange(count), side="right") - 1


@aten("segment_reduce.default")
def segment_reduce(
    data: Any,
    reduce: str,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    """Return reductions of consecutive segments along an axis."""
    known = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}
    limits = lengths if offsets is None else offsets
    if indices is not None or limits is None or reduce not in known or data.dtype.kind != "f":
        raise UncoveredFormError(f"segment_reduce by {reduce} in this form")
    begins = xp.cumsum(lengths, axis=-1) - lengths if offsets is None else offsets[..., :-1]
    ends = xp.cumsum(lengths, axis=-1) if offsets is None else offsets[..., 1:]
    if data.shape[axis] * begins.shape[-1] > MOST_ELEMENTS:
        raise UncoveredFormError("segment_reduce of many elements")
    position = xp.arange(data.shape[axis])
    inside = (position >= begins[..., None]) & (position < ends[..., None])
    shape = (*inside.shape, *[1] * (data.ndim - axis - 1))
    start = known[reduce] if initial is None else initial
    masked = xp.where(xp.reshape(inside, shape), xp.expand_dims(data, axis=axis), known[reduce])
    at = axis + 1
    if reduce in ("sum", "mean"):
        result = xp.sum(masked, axis=at) + start
    elif reduce == "prod":
        result = xp.prod(masked, axis=at) * start
    elif reduce == "max":
        result = xp.maximum(xp.max(masked, axis=at), start)
    else:
        result = xp.minimum(xp.min(masked, axis=at), start)
    if reduce != "mean":
        return result
    count = xp.reshape(ends - begins, (*begins.shape, *[1] * (data.ndim - axis - 1)))
    empty = math.nan if initial is None else start
    return xp.where(count == 0, empty, result / xp.maximum(count, 1).astype(data.dtype))


@aten("_embedding_bag_forward_only.default", "_embedding_bag.default")
def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Any, Any, Any, Any]:
    """Return reductions of rows of a table for bags of indices; other results are left out.

    The modes are sum, mean and maximum (0, 1, 2); an empty bag has zeros.
    """
    count = indices.shape[0]
    bags = offsets.shape[0] - int(include_last_offset)
    if not count or not bags:
        raise UncoveredFormError("no bags, or no indices")
    bag = _bags(offsets[:bags], count)
    rows = xp.take(weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    kept = indices != padding_idx
    if mode == 2:
        return _largest_of_bags(rows, bag, kept, bags), None, None, None
    if padding_idx >= 0:
        rows = xp.where(kept[:, None], rows, 0)  # not a product: a row may have infinities
    result = xp.index_add(xp.zeros(bags, weight.shape[1], dtype=weight.dtype), 0, bag, rows)
    if mode == 1:
        sizes = xp.scatter_add(
            xp.zeros(bags, dtype=weight.dtype), 0, bag, kept.astype(weight.dtype)
        )
        result = result / xp.maximum(sizes, 1)[:, None]
    return result, None, None, None


def _largest_of_bags(rows: Any, bag: Any, kept: Any, bags: int) -> Any:
    """Return the largest of the rows in each bag that are kept, and zeros for those without.

    As torch compares them, a NaN is the largest if it comes first in its bag, and else does not
    count.
    """
    count = rows.shape[0]
    position = xp.where(kept, xp.arange(count), count)
    first = xp.scatter_min(xp.full((bags,), count, dtype="int64"), 0, bag, position)
    begins = xp.take(rows, xp.minimum(first, count - 1), axis=0)
    compared = kept[:, None] & xp.logical_not(xp.isnan(rows))
    lowest = xp.full((bags, rows.shape[1]), -math.inf, dtype=rows.dtype)
    at = xp.broadcast_to(bag[:, None], rows.shape)
    largest = xp.scatter_max(lowest, 0, at, xp.where(compared, rows, -math.inf))
    largest = xp.where(xp.isnan(begins), begins, largest)
    return xp.where((first < count)[:, None], largest, 0)
