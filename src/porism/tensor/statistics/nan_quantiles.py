"""NaN quantiles: order statistics in which elements that are NaN are left out.

A sort puts NaN last, so the elements that count are the first ones of each row; how many there are
says which of them is meant.
"""

from __future__ import annotations

from typing import Any

from porism.base import dtypes
from porism.ir import ops
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api.reductions import Axes, expand_like
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.joining import stack
from porism.tensor.movement.reshape import axis_last
from porism.tensor.movement.sorting import fractions, of_percents, over_axes, sort
from porism.tensor.movement.top_k import gather_last
from porism.tensor.shapes import shape_error
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method


@method
def nanquantile(x: Any, q: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return `quantile` of the elements along an axis that are not NaN; NaN if all are.

    >>> porism.nanquantile([1.0, float("nan"), 3.0], 0.25).item()
    1.5
    """
    tensor = as_tensor(x)
    promotion.require_dtype(
        tensor.node.dtype, promotion.NUMBERS, "nanquantile", "convert it, with astype"
    )
    q = fractions(q)
    if isinstance(axis, (tuple, list)):
        return over_axes(nanquantile, tensor, q, axis, keepdims)
    if isinstance(q, list):
        return stack([nanquantile(tensor, float(part), axis, keepdims=keepdims) for part in q])
    if not isinstance(q, (int, float)) or not 0 <= q <= 1:
        raise shape_error(
            f"nanquantile of the fraction {q!r}", "a fraction is a number from 0 to 1", "pass one"
        )
    rank = tensor.ndim
    if axis is None:
        flat = primitive.reshape(tensor.node, [shapes.product(tensor.shape)])
        found = nanquantile(Tensor(flat), q, 0)
        return Tensor(primitive.reshape(found.node, [1] * rank)) if keepdims else found
    moved = shapes.normalize_axis(axis, rank)
    if static_size(tensor.shape[moved], "nanquantile") == 0:
        raise shape_error(
            f"nanquantile of a tensor of shape {shapes.to_text(tensor.shape)}",
            "the axis has no elements",
            "check the size first",
        )
    order, back = axis_last(moved, rank)
    floats = primitive.cast(tensor.node, promotion.float_type(tensor.node.dtype))
    result = primitive.permute(_of_rows(primitive.permute(floats, order), float(q)), back)
    if keepdims:
        return Tensor(result)
    kept = [n for k, n in enumerate(shapes.sizes_of(result)) if k != moved]
    return Tensor(primitive.reshape(result, kept))


def _of_rows(x: Any, q: float) -> Any:
    """Return the quantile along the last axis, which keeps size 1."""
    last = len(shapes.sizes_of(x)) - 1
    values = sort(Tensor(x)).node
    present = primitive.reduce(primitive.cast(x.eq(x), dtypes.i64), ops.ADD, [last])
    most = primitive.cast(ops.MAX(present - 1, present.lift(0)), dtypes.f64)
    position = most * q
    below = primitive.cast(position, dtypes.i64)
    highest = primitive.cast(most, dtypes.i64)
    above = ops.MIN(below + 1, highest)
    fraction = primitive.cast(position - primitive.cast(below, dtypes.f64), x.dtype)
    lower, upper = (gather_last(values, index) for index in (below, above))
    weight = expand_like(fraction, lower)
    mixed = lower * (weight.lift(1.0) - weight) + upper * weight
    return weight.eq(0.0).where(lower, mixed)


@method
def nanpercentile(x: Any, q: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return `percentile` of the elements along an axis that are not NaN; NaN if all are.

    >>> porism.nanpercentile([1.0, float("nan"), 3.0], 50).item()
    2.0
    """
    return nanquantile(x, of_percents(q), axis, keepdims=keepdims)


@method
def nanmedian(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the median of the elements along an axis that are not NaN; NaN if all are.

    >>> porism.nanmedian([1.0, float("nan"), 3.0, 9.0]).item()
    3.0
    """
    return nanquantile(x, 0.5, axis, keepdims=keepdims)
