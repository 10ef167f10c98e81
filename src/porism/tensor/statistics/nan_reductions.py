"""NaN reductions: those in which elements that are NaN are left out."""

from __future__ import annotations

import math
from typing import Any

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.tensor import primitive, shapes
from porism.tensor.api import reductions
from porism.tensor.api.operands import float_node
from porism.tensor.api.reductions import Axes, accumulation_dtype, drop_axes, expand_like
from porism.tensor.conversion import as_tensor
from porism.tensor.tensor import Tensor, method


def _filled(x: Any, value: float) -> Tensor:
    """Return x with a number for NaN."""
    node = as_tensor(x).node
    return Tensor(node.ne(node).where(node.lift(value), node) if node.dtype.is_float else node)


@method
def nansum(x: Any, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return the sum of the elements along axes that are not NaN.

    >>> porism.nansum([1.0, float("nan"), 2.0]).item()
    3.0
    """
    return reductions.sum(_filled(x, 0), axis, dtype=dtype, keepdims=keepdims)


@method
def nanprod(x: Any, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return the product of the elements along axes that are not NaN.

    >>> porism.nanprod([3.0, float("nan"), 2.0]).item()
    6.0
    """
    return reductions.prod(_filled(x, 1), axis, dtype=dtype, keepdims=keepdims)


def _extreme(x: Any, op: Op, axis: Axes, keepdims: bool) -> Tensor:
    """Return the largest (MAX) or smallest (MIN) element that is not NaN; NaN if all are."""
    reduction = reductions.max if op is ops.MAX else reductions.min
    tensor = as_tensor(x)
    if not tensor.node.dtype.is_float:
        return reduction(tensor, axis, keepdims=keepdims)
    node = tensor.node
    filled = _filled(tensor, -math.inf if op is ops.MAX else math.inf)
    found = reduction(filled, axis, keepdims=keepdims).node
    absent = reductions.all(Tensor(node.ne(node)), axis, keepdims=keepdims).node
    return Tensor(absent.where(found.lift(math.nan), found))


@method
def nanmax(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the largest of the elements along axes that are not NaN; NaN if all are.

    >>> porism.nanmax([1.0, float("nan"), 2.0]).item()
    2.0
    """
    return _extreme(x, ops.MAX, axis, keepdims)


@method
def nanmin(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the smallest of the elements along axes that are not NaN; NaN if all are.

    >>> porism.nanmin([1.0, float("nan"), 2.0]).item()
    1.0
    """
    return _extreme(x, ops.MIN, axis, keepdims)


def _count(x: UOp, axes: tuple[int, ...]) -> UOp:
    """Return how many elements along axes are not NaN, as floats; reduced axes keep size 1."""
    present = primitive.cast(x.eq(x), dtypes.i64)
    return primitive.cast(primitive.reduce(present, ops.ADD, axes), x.dtype)


def _without_nan(x: UOp) -> UOp:
    """Return x with 0 for NaN."""
    return x.ne(x).where(x.lift(0.0), x)


def _mean(x: UOp, axes: tuple[int, ...]) -> UOp:
    """Return the mean of the elements along axes that are not NaN; reduced axes keep size 1."""
    return ops.FDIV(primitive.reduce(_without_nan(x), ops.ADD, axes), _count(x, axes))


def _variance(x: UOp, axes: tuple[int, ...], correction: float) -> UOp:
    """Return the variance of the elements along axes that are not NaN; reduced axes keep size 1."""
    distance = _without_nan(x - expand_like(_mean(x, axes), x))
    squares = primitive.reduce(distance * distance, ops.ADD, axes)
    degrees = _count(x, axes) - correction
    return (degrees <= 0.0).where(squares.lift(math.nan), ops.FDIV(squares, degrees))


def _reduced(x: Any, axis: Axes, keepdims: bool, formula: Any) -> Tensor:
    """Return a statistic of floats along axes, computed in the accumulation type."""
    node = float_node(as_tensor(x))
    axes = shapes.normalize_axes(axis, len(shapes.sizes_of(node)))
    result = formula(primitive.cast(node, accumulation_dtype(node.dtype)), axes)
    result = primitive.cast(result, node.dtype)
    return Tensor(result if keepdims else drop_axes(result, axes))


@method
def nanmean(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the mean of the elements along axes that are not NaN; NaN if all are.

    >>> porism.nanmean([1.0, float("nan"), 2.0]).item()
    1.5
    """
    return _reduced(x, axis, keepdims, _mean)


@method
def nanvar(x: Any, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Return the variance of the elements along axes that are not NaN, as `var`.

    >>> porism.nanvar([1.0, float("nan"), 3.0]).item()
    1.0
    """
    ddof = shapes.as_number(correction, "correction of nanvar")
    return _reduced(x, axis, keepdims, lambda node, axes: _variance(node, axes, ddof))


@method
def nanstd(x: Any, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Return the standard deviation of the elements along axes that are not NaN, as `std`.

    >>> porism.nanstd([1.0, float("nan"), 3.0]).item()
    1.0
    """
    ddof = shapes.as_number(correction, "correction of nanstd")
    return _reduced(x, axis, keepdims, lambda node, axes: ops.SQRT(_variance(node, axes, ddof)))
