"""Moments: weighted means, ranges, covariances and correlations."""

from __future__ import annotations

from typing import Any

from porism.tensor import primitive, shapes
from porism.tensor.api import reductions
from porism.tensor.api.arithmetic import divide, multiply, sqrt, subtract
from porism.tensor.api.linear_algebra import matmul
from porism.tensor.api.operands import float_node, float_pair
from porism.tensor.api.reductions import Axes, accumulation_dtype
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.reshape import diagonal, reshape
from porism.tensor.movement.stacking import atleast_2d
from porism.tensor.tensor import Tensor, method


@method
def ptp(x: Any, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the largest minus the smallest element along axes.

    >>> porism.ptp([[1, 5], [3, 4]], axis=1).tolist()
    [4, 1]
    """
    tensor = as_tensor(x)
    return subtract(
        reductions.max(tensor, axis, keepdims=keepdims),
        reductions.min(tensor, axis, keepdims=keepdims),
    )


@method
def average(x: Any, axis: Axes = None, weights: Any = None, *, keepdims: bool = False) -> Tensor:
    """Return the mean along axes, weighted by `weights`: of the shape of x, or of the axis.

    >>> porism.average([1.0, 2.0, 6.0], weights=[1, 1, 2]).item()
    3.75
    """
    tensor = as_tensor(x)
    if weights is None:
        return reductions.mean(tensor, axis, keepdims=keepdims)
    values, factors = _with_weights(tensor, axis, as_tensor(weights))
    dtype = values.node.dtype
    wide = accumulation_dtype(dtype)
    values, factors = (Tensor(primitive.cast(t.node, wide)) for t in (values, factors))
    total = reductions.sum(multiply(values, factors), axis, keepdims=keepdims)
    result = divide(total, reductions.sum(factors, axis, keepdims=keepdims))
    return Tensor(primitive.cast(result.node, dtype))


def _with_weights(x: Tensor, axis: Axes, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return values and weights in one float type and one shape."""
    axes = shapes.normalize_axes(axis, x.ndim)
    if not shapes.shapes_equal(weights.shape, x.shape):
        if len(axes) != 1 or not shapes.shapes_equal(weights.shape, (x.shape[axes[0]],)):
            raise shapes.shape_error(
                f"average of shape {shapes.to_text(x.shape)} with weights of shape "
                f"{shapes.to_text(weights.shape)}",
                "there is a weight for each element, or one for each index of the axis",
                "reshape the weights, or name the axis",
            )
        weights = reshape(weights, [-1 if k == axes[0] else 1 for k in range(x.ndim)])
    a, b = float_pair(x, weights)
    return Tensor(a), Tensor(b)


@method
def cov(x: Any, *, rowvar: bool = True, correction: float = 1) -> Tensor:
    """Return the covariances of variables, which are the rows of x, or with rowvar=False columns.

    Products of deviations are summed over the observations, and divided by their number minus
    `correction`.

    >>> porism.cov([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    result, _ = _covariance(x, rowvar, shapes.as_number(correction, "correction of cov"))
    return result


def _covariance(x: Any, rowvar: bool, correction: float) -> tuple[Tensor, Tensor]:
    """Return the covariances in the float type of x, and in the accumulation type."""
    tensor = as_tensor(x)
    if tensor.ndim > 2:
        raise shapes.shape_error(
            f"cov of a tensor of shape {shapes.to_text(tensor.shape)}",
            "it has an axis of variables and one of observations",
            "reshape it to a matrix",
        )
    node = float_node(atleast_2d(tensor))
    wide = Tensor(primitive.cast(node, accumulation_dtype(node.dtype)))
    rows = wide.T if not rowvar and tensor.ndim == 2 else wide
    distance = subtract(rows, reductions.mean(rows, 1, keepdims=True))
    count = rows.shape[1]
    degrees = count - int(correction) if not isinstance(count, int) else max(count - correction, 0)
    product = Tensor(reductions.divide_by_count(matmul(distance, distance.T).node, degrees))
    result = reshape(product, ()) if tensor.ndim < 2 or _is_single(product) else product
    return Tensor(primitive.cast(result.node, node.dtype)), result


def _is_single(x: Tensor) -> bool:
    """Whether there is one variable, whose variance is a scalar."""
    return shapes.is_one(x.shape[0])


@method
def corrcoef(x: Any, *, rowvar: bool = True) -> Tensor:
    """Return the correlations of variables, which are the rows of x, or with rowvar=False columns.

    >>> porism.corrcoef([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    narrow, wide = _covariance(x, rowvar, 1)
    if not wide.ndim:
        result = divide(wide, wide)
    else:
        deviation = sqrt(diagonal(wide))
        result = divide(divide(wide, reshape(deviation, -1, 1)), reshape(deviation, 1, -1))
    limited = result.node.maximum(-1.0).minimum(1.0)
    return Tensor(primitive.cast(limited, narrow.node.dtype))
