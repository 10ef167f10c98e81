"""Scatter: values stored, added or combined at the positions that a tensor of indices gives.

Along the axis each element of the result is a reduction over the indices that refer to it. Where
the axis is short or the indices are few, that is computed as it stands: every element is compared
with every index, vectorized. Otherwise the compiler inverts it to a loop over the indices with
stores at the elements they refer to (`porism.schedule.loops.scatter_stores`). Both give the same
result bit for bit, on any number of threads.

Negative indices count from the end; those out of range are ignored.
"""

from __future__ import annotations

from typing import Any, Final

from porism.base import dtypes
from porism.ir import ops
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api.reductions import accumulation_dtype, drop_axes, sum_dtype
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.indexing import wrap_negative
from porism.tensor.movement.pad import pad_with_value
from porism.tensor.primitive import Dim
from porism.tensor.tensor import Tensor, method

REDUCTIONS: Final[dict[str, Op]] = {
    "add": ops.ADD,
    "multiply": ops.MUL,
    "min": ops.MIN,
    "max": ops.MAX,
}


def _require_integers(index: Tensor, what: str) -> None:
    """Refuse indices that are not integers."""
    promotion.require_dtype(
        index.node.dtype, promotion.INTEGERS, what, "convert the indices, with astype"
    )


def _index_hits(index: UOp, axis: int, size: Dim, from_end: bool = True) -> UOp:
    """Return whether each index (along axis + 1) refers to each element (along axis)."""
    wrapped = wrap_negative(index, size) if from_end else primitive.cast(index, dtypes.i64)
    repeated = _repeat_per_element(wrapped, axis, size)
    element = primitive.iota(shapes.sizes_of(repeated), axis)
    return repeated.eq(primitive.cast(element, repeated.dtype))


def _repeat_per_element(x: UOp, axis: int, size: Dim) -> UOp:
    """Return a tensor of the indices' shape, repeated for every element of the result."""
    before, after = shapes.sizes_of(x)[:axis], shapes.sizes_of(x)[axis:]
    return primitive.expand(primitive.reshape(x, [*before, 1, *after]), [*before, size, *after])


def _reduce_hits(hits: UOp, source: UOp, axis: int, size: Dim, op: Op) -> UOp:
    """Return the reduction of the values of each element's indices; the identity of none."""
    start = identity(op, source.dtype)
    assert start is not None
    chosen = hits.where(_repeat_per_element(source, axis, size), source.lift(start))
    return drop_axes(primitive.reduce(chosen, op, [axis + 1]), [axis + 1])


def _last_hit(index: UOp, axis: int, size: Dim) -> UOp:
    """Return the last index that refers to each element, counted from 1; 0 where none does."""
    hits = _index_hits(index, axis, size)
    table = shapes.sizes_of(hits)
    number = primitive.cast(primitive.iota(table, axis + 1) + 1, dtypes.i64)
    last = primitive.reduce(hits.where(number, number.lift(0)), ops.MAX, [axis + 1])
    return drop_axes(last, [axis + 1])


def _operands(
    name: str, x: Any, axis: int, index: Any, src: Any
) -> tuple[Tensor, int, Tensor, UOp]:
    """Return the target, the axis, the indices, and the source in the shape of the indices."""
    target, indices = as_tensor(x), as_tensor(index)
    target_axis = shapes.normalize_axis(axis, target.ndim)
    _require_integers(indices, name)
    source = as_tensor(src, None if isinstance(src, Tensor) else target.node.dtype)
    if source.dtype is not target.dtype:
        raise promotion.type_error(
            f"{name} of {promotion.name_of(source.node.dtype)} into a tensor of "
            f"{promotion.name_of(target.node.dtype)}",
            "the result has the type of the tensor, and nothing is converted implicitly",
            "convert one of them, with astype",
        )
    if not source.ndim:
        source = Tensor(primitive.broadcast(source.node, indices.shape))
    same_rank = target.ndim == indices.ndim == source.ndim
    fits = same_rank and all(
        _fits(n, s) and (k == target_axis or _fits(n, t))
        for k, (n, s, t) in enumerate(zip(indices.shape, source.shape, target.shape, strict=True))
    )
    if not fits:
        shown = [shapes.to_text(t.shape) for t in (target, indices, source)]
        raise shapes.shape_error(
            f"{name} into shape {shown[0]} with indices of shape {shown[1]} and values of shape "
            f"{shown[2]}",
            f"all have the same number of axes; the indices are not longer than the values, nor, "
            f"besides axis {target_axis}, than the tensor",
            "reshape, broadcast or slice the indices and the values",
        )
    part = primitive.shrink(source.node, [(0, n) for n in indices.shape])
    return target, target_axis, indices, part


def _fits(a: Dim, b: Dim) -> bool:
    """Return whether one size is known to be at most another."""
    return a <= b if isinstance(a, int) and isinstance(b, int) else shapes.sizes_equal(a, b)


def _pad_to_target(part: UOp, target: Tensor, value: Any) -> UOp:
    """Return a node padded with `value` to the shape of the target."""
    sizes = shapes.sizes_of(part)
    pairs: list[tuple[Dim, Dim]] = [(0, t - n) for n, t in zip(sizes, target.shape, strict=True)]
    return pad_with_value(part, pairs, value)


@method
def scatter(x: Any, axis: int, index: Any, src: Any, *, reduce: str | None = None) -> Tensor:
    """Return x with the values of src at the indices along an axis.

    Element src[i, j] goes to x[index[i, j], j] for axis 0, as in PyTorch. Of equal indices the last
    one wins; with `reduce` ('add', 'multiply', 'min' or 'max') their values are combined with each
    other and with x. Indices out of range are ignored.

    >>> porism.scatter([1, 2, 3], 0, [2, 0], [30, 10]).tolist()
    [10, 2, 30]
    """
    if reduce is not None and reduce not in REDUCTIONS:
        raise shapes.shape_error(
            f"scatter with reduce={reduce!r}",
            "the ways to merge are " + ", ".join(REDUCTIONS),
            "pass one of them, or None for the last value to win",
        )
    target, target_axis, indices, source = _operands("scatter", x, axis, index, src)
    if reduce is not None:
        return _scatter_reduce(target, target_axis, indices, source, REDUCTIONS[reduce])
    size = target.shape[target_axis]
    last = _last_hit(indices.node, target_axis, size)
    number = primitive.cast(last - 1, dtypes.index)
    sizes = shapes.sizes_of(last)
    gather_indices = [
        number if k == target_axis else primitive.iota(sizes, k) for k in range(len(sizes))
    ]
    values = primitive.gather(source, gather_indices)
    is_hit = _pad_to_target(last, target, 0) > 0
    return Tensor(is_hit.where(_pad_to_target(values, target, 0), target.node))


def _scatter_reduce(target: Tensor, axis: int, indices: Tensor, source: UOp, op: Op) -> Tensor:
    """Return the target combined with the source values by a reduction."""
    if target.node.dtype is dtypes.boolean:
        promotion.require_dtype(
            target.node.dtype, promotion.NUMBERS, "scatter", "convert it, with astype"
        )
    accumulator = accumulation_dtype(target.node.dtype)
    size = target.shape[axis]
    hits = _index_hits(indices.node, axis, size)
    contribution = _reduce_hits(hits, primitive.cast(source, accumulator), axis, size, op)
    contribution = _pad_to_target(contribution, target, identity(op, accumulator))
    return Tensor(
        primitive.cast(
            op(primitive.cast(target.node, accumulator), contribution), target.node.dtype
        )
    )


@method
def scatter_add(x: Any, axis: int, index: Any, src: Any) -> Tensor:
    """Return x plus the values of src at the indices along an axis.

    >>> porism.scatter_add([1, 2, 3], 0, [2, 2], [10, 10]).tolist()
    [1, 2, 23]
    """
    return scatter(x, axis, index, src, reduce="add")


@method
def scatter_min(x: Any, axis: int, index: Any, src: Any) -> Tensor:
    """Return the minimum of x and the values of src at the indices along an axis.

    >>> porism.scatter_min([1, 2, 3], 0, [2, 2], [0, 10]).tolist()
    [1, 2, 0]
    """
    return scatter(x, axis, index, src, reduce="min")


@method
def scatter_max(x: Any, axis: int, index: Any, src: Any) -> Tensor:
    """Return the maximum of x and the values of src at the indices along an axis.

    >>> porism.scatter_max([1, 2, 3], 0, [2, 2], [0, 10]).tolist()
    [1, 2, 10]
    """
    return scatter(x, axis, index, src, reduce="max")


@method
def index_add(x: Any, axis: int, index: Any, source: Any, *, alpha: float = 1) -> Tensor:
    """Return x plus slices of source: slice i along the axis, times alpha, is added at index[i].

    >>> porism.index_add([1, 2, 3], 0, [0, 0], [10, 20]).tolist()
    [31, 2, 3]
    """
    target, indices, values = as_tensor(x), as_tensor(index), as_tensor(source)
    target_axis = shapes.normalize_axis(axis, target.ndim)
    _require_integers(indices, "index_add")
    wanted = list(target.shape)
    if indices.ndim == 1:
        wanted[target_axis] = indices.shape[0]
    if indices.ndim != 1 or not shapes.shapes_equal(values.shape, wanted):
        raise shapes.shape_error(
            f"index_add into shape {shapes.to_text(target.shape)} with indices of shape "
            f"{shapes.to_text(indices.shape)} and values of shape {shapes.to_text(values.shape)}",
            f"there is one index for each slice along axis {target_axis}, and the other sizes are "
            "those of the tensor",
            f"use indices of one axis, and values of shape {shapes.to_text(wanted)}",
        )
    broadcast_sizes: list[Dim] = [1] * target.ndim
    broadcast_sizes[target_axis] = indices.shape[0]
    expanded = primitive.expand(primitive.reshape(indices.node, broadcast_sizes), values.shape)
    scaled = values.node if alpha == 1 else values.node * alpha
    return scatter(target, target_axis, Tensor(expanded), Tensor(scaled), reduce="add")


def _count_length(x: Tensor, least: int) -> int:
    """Return one more than the largest integer of x, and at least a number."""
    values = x.numpy()
    if values.size and values.min() < 0:
        raise shapes.shape_error(
            f"bincount of integers of which the smallest is {values.min()}",
            "the integers are the indices of their counts, and without a length none is left out",
            "pass length=, with which integers out of range are not counted",
        )
    return max(int(values.max()) + 1 if values.size else 0, least)


@method
def bincount(
    x: Any, weights: Any = None, *, length: int | None = None, minlength: int = 0
) -> Tensor:
    """Return how often each integer from 0 to length - 1 occurs in x, or the sum of its weights.

    Integers out of range are not counted. Without a length it is one more than the largest integer,
    and at least `minlength`: the integers are computed at once, since the shape depends on them.

    >>> porism.bincount([0, 2, 2, 9], length=4).tolist(), porism.bincount([0, 2, 2]).tolist()
    ([1, 0, 2, 0], [1, 0, 2])
    """
    tensor = as_tensor(x)
    _require_integers(tensor, "bincount")
    if length is None:
        length = _count_length(tensor, shapes.as_int(minlength, "minlength"))
    size = shapes.as_int(length, "length")
    if tensor.ndim != 1 or size < 0:
        raise shapes.shape_error(
            f"bincount of a tensor of shape {shapes.to_text(tensor.shape)} with length {size}",
            "it counts the numbers of one axis, and the length is not negative",
            "reshape the tensor to one axis, or pass another length",
        )
    if weights is None:
        values = primitive.full(promotion.DEFAULT_INT, 1, tensor.shape)
    else:
        weight_tensor = as_tensor(weights)
        if not shapes.shapes_equal(weight_tensor.shape, tensor.shape):
            raise shapes.shape_error(
                f"bincount of a tensor of shape {shapes.to_text(tensor.shape)} with weights of "
                f"shape {shapes.to_text(weight_tensor.shape)}",
                "there is one weight for each number",
                "use weights of the same shape",
            )
        values = primitive.cast(weight_tensor.node, sum_dtype(weight_tensor.node.dtype))
    hits = _index_hits(tensor.node, 0, size, from_end=False)
    total = _reduce_hits(
        hits, primitive.cast(values, accumulation_dtype(values.dtype)), 0, size, ops.ADD
    )
    return Tensor(primitive.cast(total, values.dtype))
