"""Indexing operators of ATen: gathers, scatters, embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten.aten_reductions import vector_norm
from porism.frontends.torch.aten.aten_table import UncoveredFormError, aten
from porism.tensor.tensor import Tensor


def _key(x: Any, indices: Sequence[Any]) -> tuple[Any, ...]:
    """Return the key of x[...] for a list of index tensors, with None for whole axes."""
    for index in indices:
        if index is not None and index.dtype == xp.bool:
            raise UncoveredFormError("an index by a mask")
    return tuple(slice(None) if index is None else index.astype("int64") for index in indices)


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(x: Any, indices: Sequence[Any]) -> Any:
    """Return the elements at index tensors."""
    return x[_key(x, indices)]


@aten("index_put.default", "_unsafe_index_put.default")
def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """Return x with the elements at index tensors replaced, or added to."""
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype == xp.bool:
        mask = indices[0]
        if values.ndim == 0 or values.size == 1:
            shaped = xp.reshape(mask, (*mask.shape, *[1] * (x.ndim - mask.ndim)))
            value = xp.reshape(values, ()).astype(x.dtype)
            return xp.where(shaped, x + value if accumulate else value, x)
    key = _key(x, indices)
    if accumulate:
        flat, positions, added = _flat_updates(x, key, values)
        return xp.reshape(xp.scatter_add(flat, 0, positions, added), x.shape)
    new = x + 0 if x.dtype != xp.bool else x | False
    new[key] = values.astype(x.dtype)
    return new


def _flat_updates(x: Any, key: tuple[Any, ...], values: Any) -> tuple[Any, Any, Any]:
    """Return x flattened, the flat positions that a key selects, and a value for each."""
    positions = xp.reshape(xp.arange(x.size), x.shape)[key]
    added = xp.broadcast_to(values.astype(x.dtype), positions.shape)
    return (
        xp.reshape(x, (-1,)),
        xp.reshape(positions, (-1,)),
        xp.reshape(added, (-1,)),
    )


@aten("index_select.default")
def index_select(x: Any, dim: int, index: Any) -> Any:
    """Return the slices of x along an axis at a list of indices."""
    if not x.ndim:
        return x
    return xp.take(x, xp.reshape(index, (-1,)), axis=dim)


@aten("gather.default")
def gather(x: Any, dim: int, index: Any, sparse_grad: bool = False) -> Any:
    """Return the elements of x at indices along an axis."""
    if isinstance(index.size, int) and not index.size:
        return xp.zeros(index.shape, dtype=x.dtype)
    if not x.ndim or not index.ndim:
        flat = xp.take(xp.reshape(x, (-1,)), xp.reshape(index, (-1,)), axis=0)
        return xp.reshape(flat, index.shape)
    return xp.gather(x, dim, index)


def _scatter(function: Any, x: Any, dim: int, index: Any, src: Any) -> Any:
    """Return a scatter along an axis; scalars are taken as vectors of one element."""
    if not x.ndim:
        src = xp.reshape(src, (-1,)) if isinstance(src, Tensor) else src
        one = function(xp.reshape(x, (1,)), 0, xp.reshape(index, (-1,)), src)
        return xp.reshape(one, ())
    if isinstance(src, Tensor):
        src = src[tuple(slice(0, n) for n in index.shape)].astype(x.dtype)
    return function(x, dim, index, src)


@aten("scatter.src")
def scatter_src(x: Any, dim: int, index: Any, src: Any) -> Any:
    """Return x with elements along an axis replaced at indices."""
    return _scatter(xp.scatter, x, dim, index, src)


@aten("scatter.value")
def scatter_value(x: Any, dim: int, index: Any, value: Any) -> Any:
    """Return x with elements along an axis replaced by a number at indices."""
    return _scatter(xp.scatter, x, dim, index, xp.full(index.shape, value).astype(x.dtype))


@aten("scatter_add.default")
def scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    """Return x with values added along an axis at indices."""
    return _scatter(xp.scatter_add, x, dim, index, src)


@aten("scatter_reduce.two")
def scatter_reduce(
    x: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True
) -> Any:
    """Return x with values reduced into it along an axis at indices."""
    if reduce == "prod":
        return _scatter_product(x, dim, index, src, include_self)
    functions = {
        "sum": (xp.scatter_add, 0),
        "mean": (xp.scatter_add, 0),
        "amax": (xp.scatter_max, -math.inf),
        "amin": (xp.scatter_min, math.inf),
    }
    narrow = x.dtype.kind != "f" and x.dtype.itemsize < 4
    if reduce not in functions or (narrow and reduce == "mean"):
        raise UncoveredFormError(f"scatter_reduce by {reduce}")
    function, neutral = functions[reduce]
    if x.dtype.kind in "iu" and neutral:
        info = xp.iinfo(x.dtype)
        neutral = int(info.min if neutral < 0 else info.max)
    kind = x.dtype if x.dtype.kind == "f" else xp.int64  # a count wraps in a narrow integer type
    ones = xp.ones(index.shape, dtype=kind)
    count = _scatter(xp.scatter_add, xp.zeros(x.shape, dtype=kind), dim, index, ones)
    start = x if include_self else xp.where(count > 0, xp.full_like(x, neutral), x)
    result = _scatter(function, start, dim, index, src)
    if reduce == "mean":
        total = xp.maximum(count + (1 if include_self else 0), 1)
        mean = result / total if x.dtype.kind == "f" else result // total.astype(x.dtype)
        result = xp.where(count > 0, mean, result)
    return result


MOST_PAIRS = 1 << 20
"""The most pairs of an element and an update that are formed for products; chosen by hand."""


def _scatter_product(x: Any, dim: int, index: Any, src: Any, include_self: bool) -> Any:
    """Return x multiplied by values along an axis at indices; each element meets each update."""
    if not x.ndim:
        flat, at, values = (xp.reshape(v, (-1,)) for v in (x, index, src))
        return xp.reshape(_scatter_product(flat, 0, at, values, include_self), ())
    if not index.size:
        return x
    axis = dim % x.ndim
    if index.size * x.shape[axis] > MOST_PAIRS:
        raise UncoveredFormError("products of many updates")
    src = src[tuple(slice(0, n) for n in index.shape)].astype(x.dtype)
    updates, positions = (xp.moveaxis(v, axis, -1)[..., None, :] for v in (src, index))
    hit = positions == xp.arange(x.shape[axis])[:, None]
    factor = xp.moveaxis(xp.prod(xp.where(hit, updates, 1), axis=-1), -1, axis).astype(x.dtype)
    reached = xp.moveaxis(xp.any(hit, axis=-1), -1, axis)
    around = [(0, 0 if k == axis else n - index.shape[k]) for k, n in enumerate(x.shape)]
    factor = xp.pad(factor, around, mode="constant", value=1)
    reached = xp.pad(reached, around, mode="constant", value=False)
    return xp.where(reached, x * factor if include_self else factor, x)


@aten("index_reduce.default")
def index_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True
) -> Any:
    """Return x with slices reduced into it along an axis at indices."""
    if not x.ndim:
        return scatter_reduce(x, 0, index, source, reduce, include_self)
    axis = dim % x.ndim
    outline = tuple(-1 if k == axis else 1 for k in range(x.ndim))
    at = xp.broadcast_to(xp.reshape(index, outline), source.shape)
    return scatter_reduce(x, axis, at, source, reduce, include_self)


@aten("index_add.default")
def index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    """Return x with slices added along an axis at indices."""
    if not x.ndim:
        return x + xp.sum(source * alpha)
    return xp.index_add(x, dim, index, source if alpha == 1 else source * alpha)


@aten("embedding.default")
def embedding(
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Return rows of a table."""
    return xp.take(weight, indices, axis=0)


@aten("embedding_dense_backward.default")
def embedding_dense_backward(
    grad: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    """Return the gradient of a table of rows."""
    if scale_grad_by_freq:
        raise UncoveredFormError("scale_grad_by_freq")
    flat = xp.reshape(indices, (-1,))
    rows = xp.reshape(grad, (flat.shape[0], grad.shape[-1]))
    if padding_idx >= 0:
        rows = xp.where((flat == padding_idx)[:, None], 0, rows)
    table = xp.zeros(num_weights, grad.shape[-1], dtype=grad.dtype)
    return xp.index_add(table, 0, flat, rows)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """Return x with a value where the mask holds."""
    if isinstance(value, Tensor):
        value = value.astype(x.dtype)
    return xp.where(mask, value, x)


@aten("bucketize.Tensor", "bucketize.Scalar")
def bucketize(x: Any, boundaries: Any, out_int32: bool = False, right: bool = False) -> Any:
    """Return the bucket of each value between sorted boundaries."""
    if not isinstance(x, Tensor):
        raise UncoveredFormError("a bucket of a number")
    return xp.searchsorted(boundaries, x, side="right" if right else "left")


@aten("put.default")
def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Return x with elements replaced, or added to, at indices into all of it."""
    flat, at = xp.reshape(x, (-1,)), xp.reshape(index, (-1,))
    at = xp.where(at < 0, at + x.size, at)
    function = xp.scatter_add if accumulate else xp.scatter
    added = function(flat, 0, at, xp.reshape(source, (-1,)).astype(x.dtype))
    return xp.reshape(added, x.shape)


@aten("scatter.reduce")
def scatter_with(x: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    """Return x with values added, or multiplied by them, along an axis at indices."""
    if reduce == "add":
        return _scatter(xp.scatter_add, x, dim, index, src)
    return _scatter_product(x, dim, index, src, include_self=True)


@aten("scatter.value_reduce")
def scatter_value_with(x: Any, dim: int, index: Any, value: Any, reduce: str) -> Any:
    """Return x with a number added, or multiplied by it, along an axis at indices."""
    return scatter_with(x, dim, index, xp.full(index.shape, value).astype(x.dtype), reduce)


@aten("embedding_renorm.default")
def embedding_renorm(weight: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Return a table whose rows at indices have at most a norm."""
    norm = vector_norm(weight, norm_type, [1], True)
    flat = xp.reshape(indices, (-1,))
    ones = xp.ones(flat.shape, dtype="int64")
    hit = xp.scatter_add(xp.zeros(weight.shape[0], dtype="int64"), 0, flat, ones)[:, None] > 0
    scale = max_norm / (norm + 1e-7)  # as in torch
    return xp.where(hit & (norm > max_norm), weight * scale, weight)


@aten("nonzero_static.default")
def nonzero_static(x: Any, size: int, fill_value: int = -1) -> Any:
    """Return the indices of nonzero elements, a row for each, as many as asked for."""
    if not x.ndim or not size or not x.size:
        return xp.full((size, x.ndim), fill_value, dtype="int64")
    return xp.stack(list(xp.nonzero(x, size=size, fill_value=fill_value)), axis=-1)


@aten("masked_scatter.default")
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """Return x with the elements where the mask holds replaced by those of a source, in order."""
    x, mask = xp.broadcast_arrays(x, mask)
    rank = xp.cumsum(xp.reshape(mask, (-1,)).astype("int64"), axis=0) - 1
    flat = xp.reshape(source, (-1,))
    taken = xp.take(flat, xp.minimum(xp.maximum(rank, 0), flat.shape[0] - 1), axis=0)
    return xp.where(mask, xp.reshape(taken, x.shape).astype(x.dtype), x)
