"""Losses: how far predictions are from targets.

`reduction` is 'mean', 'sum' or 'none'. Classes are along axis 1, or axis 0 where there is no batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api.exponentials import exp_node, log1p_node, log_node
from porism.tensor.api.operands import float_node, float_pair
from porism.tensor.api.reductions import (
    accumulation_dtype,
    divide_by_count,
    drop_axes,
    expand_like,
    mean_node,
)
from porism.tensor.conversion import as_tensor
from porism.tensor.float_formulas import in_f32, magnitude
from porism.tensor.network.normalization import log_softmax_node
from porism.tensor.primitive import Dim
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method

MIN_LOG: Final = -100.0
"""Lower limit of logarithms in binary cross entropy, as in PyTorch; keeps the loss finite."""


def _check_reduction(reduction: str, what: str) -> None:
    """Refuse a reduction other than 'mean', 'sum' and 'none'."""
    if reduction not in ("mean", "sum", "none"):
        raise shapes.shape_error(
            f"{what} with reduction={reduction!r}",
            "losses are reduced by 'mean' or 'sum', or not at all",
            "pass 'mean', 'sum' or 'none'",
        )


def _reduce_losses(losses: UOp, reduction: str) -> UOp:
    """Return the losses of all elements, reduced to a scalar as asked."""
    axes = range(len(shapes.sizes_of(losses)))
    if reduction == "none":
        return losses
    if reduction == "mean":
        return drop_axes(mean_node(losses, axes), axes)
    return drop_axes(primitive.reduce(losses, ops.ADD, axes), axes)


# -- classes ---------------------------------------------------------------------------------------


def _class_axis(x: Tensor, what: str) -> int:
    """Return the axis of the classes: 1, or 0 of a tensor without a batch."""
    if not x.ndim:
        raise shapes.shape_error(
            f"{what} of a scalar",
            "the input has an axis of classes: (batch, classes, …) or (classes,)",
            "add axes with reshape",
        )
    return 1 if x.ndim > 1 else 0


def _check_target(x: Tensor, target: Tensor, axis: int, what: str) -> None:
    """Refuse labels whose shape is not that of the input without its class axis."""
    wanted = [size for k, size in enumerate(x.shape) if k != axis]
    if not shapes.shapes_equal(target.shape, wanted):
        raise shapes.shape_error(
            f"{what} of shape {shapes.to_text(x.shape)} with labels of shape "
            f"{shapes.to_text(target.shape)}",
            f"the classes are along axis {axis}, so there is a label for each element of shape "
            f"{shapes.to_text(wanted)}",
            "move the classes to that axis, or reshape the labels",
        )


def _class_weights(weight: Any, x: UOp, axis: int, what: str) -> UOp | None:
    """Return one weight for each class, expanded to the shape of x."""
    if weight is None:
        return None
    weights = as_tensor(weight)
    classes = shapes.sizes_of(x)[axis]
    if not shapes.shapes_equal(weights.shape, (classes,)):
        raise shapes.shape_error(
            f"{what} with weights of shape {shapes.to_text(weights.shape)}",
            f"there is one weight for each of the {shapes.size_text(classes)} classes",
            f"use weights of shape ({shapes.size_text(classes)},)",
        )
    sizes = [classes if k == axis else 1 for k in range(len(shapes.sizes_of(x)))]
    return expand_like(primitive.reshape(primitive.cast(weights.node, x.dtype), sizes), x)


def _as_i64(size: Dim) -> UOp:
    """Return a size as an i64 node."""
    return primitive.cast(primitive.as_dim(size), dtypes.i64)


def _label_loss(
    logs: UOp,
    target: Tensor,
    axis: int,
    weights: UOp | None,
    ignore_index: int,
    reduction: str,
    smoothing: float,
) -> UOp:
    """Return the negative log-likelihood of integer labels.

    Each label is compared with all class indices, which fuses with the sum over the classes.
    """
    sizes = list(shapes.sizes_of(logs))
    label_sizes = [1 if k == axis else n for k, n in enumerate(sizes)]
    labels = primitive.reshape(primitive.cast(target.node, dtypes.i64), label_sizes)
    is_counted = labels.ne(ignore_index)
    # Between -1 and the number of classes, so that indices made of labels fit their type.
    bounded = ops.MIN(ops.MAX(labels, labels.lift(-1)), _as_i64(sizes[axis]))
    classes = primitive.cast(primitive.iota(sizes, axis), dtypes.i64)
    is_label = expand_like(bounded, logs).eq(classes)
    zero = logs.lift(0)
    weighted = logs if weights is None else logs * weights
    loss = -primitive.reduce(is_label.where(weighted, zero), ops.ADD, [axis])
    if smoothing:
        uniform = -mean_node(weighted, [axis])
        loss = loss * (1 - smoothing) + uniform * smoothing
    # No error can be raised for a label that is no class, but NaN makes it visible.
    inside = (labels >= 0) & (labels < _as_i64(sizes[axis]))
    loss = is_counted.where(inside.where(loss, logs.lift(math.nan)), zero)
    if reduction != "mean":
        return _reduce_losses(drop_axes(loss, [axis]), reduction)
    if weights is None:
        label_weight = primitive.cast(is_counted, logs.dtype)
    else:
        label_weight = primitive.reduce(is_label.where(weights, zero), ops.ADD, [axis])
        label_weight = is_counted.where(label_weight, zero)
    axes = range(len(sizes))
    total = primitive.reduce(loss, ops.ADD, axes) / primitive.reduce(label_weight, ops.ADD, axes)
    return drop_axes(total, axes)


def _probability_loss(
    logs: UOp, target: Tensor, axis: int, weights: UOp | None, reduction: str, smoothing: float
) -> UOp:
    """Return the cross entropy of log-probabilities with target probabilities."""
    probabilities = primitive.cast(target.node, logs.dtype)
    if smoothing:
        classes = static_size(shapes.sizes_of(logs)[axis], "cross_entropy")
        probabilities = probabilities * (1 - smoothing) + smoothing / classes
    weighted = logs if weights is None else logs * weights
    loss = -primitive.reduce(probabilities * weighted, ops.ADD, [axis])
    return _reduce_losses(drop_axes(loss, [axis]), reduction)


@method
def cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy of logits with integer labels, or with target probabilities.

    The classes are along axis 1 (axis 0 without a batch). `weight` has one factor for each class;
    labels equal to `ignore_index` are left out; `label_smoothing` is the fraction of each label
    that is distributed over all classes; `reduction` is 'mean', 'sum' or 'none'. The loss of a
    label that is no class is NaN, as is the mean of no labels.

    >>> porism.cross_entropy([[0.0, 0.0], [0.0, 0.0]], [1, 0]).item()
    0.693147...
    """
    _check_reduction(reduction, "cross_entropy")
    tensor, expected = as_tensor(x), as_tensor(target)
    if not 0 <= label_smoothing <= 1:
        raise shapes.shape_error(
            f"cross_entropy with label_smoothing={label_smoothing}",
            "it is the share of a label that is given to all classes",
            "pass a number from 0 to 1",
        )
    axis = _class_axis(tensor, "cross_entropy")
    integers = expected.node.dtype.is_integer
    if integers:
        _check_target(tensor, expected, axis, "cross_entropy")
    elif not shapes.shapes_equal(expected.shape, tensor.shape) or not expected.node.dtype.is_float:
        raise shapes.shape_error(
            f"cross_entropy of shape {shapes.to_text(tensor.shape)} with a target of "
            f"{promotion.name_of(expected.node.dtype)} of shape {shapes.to_text(expected.shape)}",
            "a target that is not integer labels has a probability for each class",
            "pass integer labels, or float probabilities of the input's shape",
        )

    def formula(node: UOp) -> UOp:
        logs = log_softmax_node(node, [axis])
        weights = _class_weights(weight, logs, axis, "cross_entropy")
        if integers:
            return _label_loss(
                logs, expected, axis, weights, ignore_index, reduction, label_smoothing
            )
        return _probability_loss(logs, expected, axis, weights, reduction, label_smoothing)

    return Tensor(in_f32(formula, float_node(tensor)))


@method
def nll_loss(
    x: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """Return the negative log-likelihood of integer labels, from log-probabilities.

    The arguments are those of `cross_entropy`, which takes logits instead.

    >>> porism.nll_loss([[-0.5, -1.0], [-2.0, -0.25]], [0, 1]).item()
    0.375
    """
    _check_reduction(reduction, "nll_loss")
    tensor, expected = as_tensor(x), as_tensor(target)
    axis = _class_axis(tensor, "nll_loss")
    promotion.require_dtype(
        expected.node.dtype, promotion.INTEGERS, "nll_loss", "convert the labels, with astype"
    )
    _check_target(tensor, expected, axis, "nll_loss")

    def formula(node: UOp) -> UOp:
        weights = _class_weights(weight, node, axis, "nll_loss")
        return _label_loss(node, expected, axis, weights, ignore_index, reduction, 0.0)

    return Tensor(in_f32(formula, float_node(tensor)))


# -- elementwise losses ----------------------------------------------------------------------------


def _elementwise_loss(
    what: str, x: Any, target: Any, reduction: str, formula: Callable[[UOp, UOp], UOp]
) -> Tensor:
    """Return a loss of pairs of predictions and targets of one shape, reduced as asked."""
    _check_reduction(reduction, what)
    tensor, expected = as_tensor(x), as_tensor(target)
    if not shapes.shapes_equal(tensor.shape, expected.shape):
        raise shapes.shape_error(
            f"{what} of shapes {shapes.to_text(tensor.shape)} and {shapes.to_text(expected.shape)}",
            "each prediction has one target; broadcasting here is nearly always a mistake",
            "reshape one of them, or use broadcast_to",
        )
    pair = float_pair(tensor, expected)
    return Tensor(in_f32(lambda a, b: _reduce_losses(formula(a, b), reduction), *pair))


@method
def mse_loss(x: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Return the squared error (x - target)²; its mean unless `reduction` is 'sum' or 'none'.

    >>> porism.mse_loss([1.0, 2.0], [0.0, 4.0]).item()
    2.5
    """
    return _elementwise_loss("mse_loss", x, target, reduction, lambda a, b: (a - b) * (a - b))


@method
def l1_loss(x: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Return the absolute error |x - target|; its mean unless `reduction` is 'sum' or 'none'.

    >>> porism.l1_loss([1.0, 2.0], [0.0, 4.0]).item()
    1.5
    """
    return _elementwise_loss("l1_loss", x, target, reduction, lambda a, b: magnitude(a - b))


@method
def huber_loss(x: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Return half the squared error where the error is at most `delta`, and a linear loss beyond.

    The linear part is delta·(|x - target| - delta/2), which continues the square smoothly.

    >>> porism.huber_loss([1.0, 2.0], [0.0, 4.0], reduction="none").tolist()
    [0.5, 1.5]
    """

    def formula(a: UOp, b: UOp) -> UOp:
        absolute = magnitude(a - b)
        return (absolute <= delta).where(
            absolute * absolute * 0.5, (absolute - 0.5 * delta) * delta
        )

    return _elementwise_loss("huber_loss", x, target, reduction, formula)


@method
def smooth_l1_loss(x: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Return the squared error over 2·beta where the error is below `beta`, else |error| - beta/2.

    >>> porism.smooth_l1_loss([1.0, 2.0], [0.5, 4.0], reduction="none").tolist()
    [0.125, 1.5]
    """

    def formula(a: UOp, b: UOp) -> UOp:
        absolute = magnitude(a - b)
        if not beta:
            return absolute
        return (absolute < beta).where(absolute * absolute * (0.5 / beta), absolute - 0.5 * beta)

    return _elementwise_loss("smooth_l1_loss", x, target, reduction, formula)


@method
def kl_div(x: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Return target·(log(target) - x), with x the logarithms of predicted probabilities.

    `reduction` is also 'batchmean', the sum over the size of axis 0, which is the divergence of
    distributions. With `log_target` the targets are logarithms too.

    >>> porism.kl_div([[-1.0, -1.0]], [[0.0, 1.0]], reduction="batchmean").item()
    1.0
    """

    def formula(a: UOp, b: UOp) -> UOp:
        if log_target:
            return exp_node(b) * (b - a)
        return b.eq(0.0).where(b.lift(0.0), b * (log_node(b) - a))

    if reduction != "batchmean":
        return _elementwise_loss("kl_div", x, target, reduction, formula)
    total = _elementwise_loss("kl_div", x, target, "sum", formula)
    sizes = as_tensor(x).shape
    if not sizes:
        return total
    return Tensor(divide_by_count(total.node, sizes[0]))


def _apply_weight(loss: UOp, weight: Any) -> UOp:
    """Return losses times a weight that is broadcast to them."""
    if weight is None:
        return loss
    node = primitive.cast(as_tensor(weight).node, accumulation_dtype(loss.dtype))
    return loss * primitive.broadcast(node, shapes.sizes_of(loss))


@method
def binary_cross_entropy(
    x: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """Return the cross entropy of probabilities with targets from 0 to 1.

    Logarithms are limited to -100, so that the loss stays finite. `weight` is broadcast to the
    losses; `reduction` is 'mean', 'sum' or 'none'.

    >>> porism.binary_cross_entropy([0.5, 0.5], [1.0, 0.0]).item()
    0.693147...
    """

    def formula(p: UOp, y: UOp) -> UOp:
        least = p.lift(MIN_LOG)
        yes, no = ops.MAX(log_node(p), least), ops.MAX(log1p_node(-p), least)
        return _apply_weight(-(y * yes + (1.0 - y) * no), weight)

    return _elementwise_loss("binary_cross_entropy", x, target, reduction, formula)


@method
def binary_cross_entropy_with_logits(
    x: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """Return `binary_cross_entropy` of sigmoid(x), without overflow.

    `pos_weight` multiplies the loss of positive targets.

    >>> porism.binary_cross_entropy_with_logits([0.0, 200.0], [1.0, 1.0], reduction="none").tolist()
    [0.693147..., 0.0]
    """

    def formula(x: UOp, y: UOp) -> UOp:
        tail = log1p_node(exp_node(-magnitude(x)))  # log(1 + exp(-|x|))
        no = ops.MAX(x, x.lift(0)) + tail  # -log(1 - sigmoid(x))
        yes = no - x  # -log(sigmoid(x))
        if pos_weight is not None:
            yes = _apply_weight(yes, pos_weight)
        return _apply_weight(y * yes + (1.0 - y) * no, weight)

    return _elementwise_loss("binary_cross_entropy_with_logits", x, target, reduction, formula)
