"""Scans: running sums, products and extremes along an axis; `scan` says what they cost."""

from __future__ import annotations

from typing import Any

from porism.ir import ops
from porism.ir.ops import Op
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api.prefix_scan import scan_last
from porism.tensor.api.reductions import summed_type, wide
from porism.tensor.conversion import as_tensor
from porism.tensor.known_sizes import known
from porism.tensor.tensor import Tensor, method


def _scanned(x: Tensor, op: Op, axis: int | None, what: str) -> Tensor:
    """The scan in x's type; axis None is possible if there is one axis, as in the Array API."""
    if axis is None and x.ndim != 1:
        raise shapes.refuse(
            f"{what} of a tensor of shape {shapes.to_text(x.shape)} without an axis",
            f"the tensor has {x.ndim} axes, and the elements are taken in order along one",
            "pass axis=, or reshape the tensor to one axis",
        )
    place = shapes.normal_axis(-1 if axis is None else axis, x.ndim)
    known(x.shape[place], what)
    order = [*(k for k in range(x.ndim) if k != place), place]
    back = [order.index(k) for k in range(x.ndim)]
    node = primitive.permute(primitive.cast(x.node, wide(x.dtype)), order)
    result = primitive.permute(scan_last(node, op, place), back)
    return Tensor(primitive.cast(result, x.dtype))


def _total_type(x: Any, dtype: Any) -> Tensor:
    """As in `sum`: integers are added in 64 bits."""
    tensor = as_tensor(x)
    wanted = summed_type(tensor.dtype) if dtype is None else promotion.as_dtype(dtype)
    return Tensor(primitive.cast(tensor.node, wanted))


def _with_start(x: Tensor, value: int, axis: int | None) -> Tensor:
    """The scan with the value of no elements in front."""
    place = shapes.normal_axis(-1 if axis is None else axis, x.ndim)
    node = primitive.pad(x.node, [(int(k == place), 0) for k in range(x.ndim)])
    if value:
        first = primitive.iota(shapes.sizes_of(node), place).eq(0)
        node = first.where(node.lift(value), node)
    return Tensor(node)


@method
def cumulative_sum(
    x: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The sums of the first 1, 2, … n elements along an axis; from 0 elements on if asked for."""
    result = _scanned(_total_type(x, dtype), ops.ADD, axis, "cumulative_sum")
    return _with_start(result, 0, axis) if include_initial else result


@method
def cumulative_prod(
    x: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The products of the first 1, 2, … n elements along an axis; from 0 elements on if asked."""
    result = _scanned(_total_type(x, dtype), ops.MUL, axis, "cumulative_prod")
    return _with_start(result, 1, axis) if include_initial else result


@method
def cumsum(x: Any, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """The sums of the first 1, 2, … n elements along an axis."""
    return _scanned(_total_type(x, dtype), ops.ADD, axis, "cumsum")


@method
def cumprod(x: Any, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """The products of the first 1, 2, … n elements along an axis."""
    return _scanned(_total_type(x, dtype), ops.MUL, axis, "cumprod")


@method
def cummax(x: Any, axis: int | None = None) -> Tensor:
    """The largest of the first 1, 2, … n elements along an axis; NaN from the first NaN on."""
    return _scanned(as_tensor(x), ops.MAX, axis, "cummax")


@method
def cummin(x: Any, axis: int | None = None) -> Tensor:
    """The smallest of the first 1, 2, … n elements along an axis; NaN from the first NaN on."""
    return _scanned(as_tensor(x), ops.MIN, axis, "cummin")
