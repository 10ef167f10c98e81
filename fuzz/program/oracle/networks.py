"""Normalization, attention and losses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fuzz.program.oracle.arrays import (
    Axes,
    axes_of,
    floats,
    is_float,
    placed,
)
from fuzz.program.oracle.reductions import var
from porism.ir.facts.semantics import Array

# -- normalization and attention -------------------------------------------------------------------


def softmax(x: Array, axis: Axes = -1) -> Array:
    return np.exp(log_softmax(x, axis))


def log_softmax(x: Array, axis: Axes = -1) -> Array:
    values, axes = floats(x), axes_of(axis, x.ndim)
    far = values - np.max(values, axes, keepdims=True, initial=-np.inf)
    return np.asarray(far - np.log(np.sum(np.exp(far), axes, keepdims=True)))


def _standard(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    values = floats(x)
    far = values - np.mean(values, axes, keepdims=True)
    return np.asarray(far / np.sqrt(np.mean(far * far, axes, keepdims=True) + eps))


def _affine(x: Array, weight: Array | None, bias: Array | None, axes: Sequence[int]) -> Array:
    sizes = tuple(x.shape[k] for k in axes)
    if any(part is not None and part.shape != sizes for part in (weight, bias)):
        raise ValueError("the weight or the bias has other sizes than its axes")
    if weight is not None:
        x = x * placed(weight, axes, x.ndim)
    return x if bias is None else x + placed(bias, axes, x.ndim)


def _normal_axes(x: Array, axis: Axes, weight: Array | None) -> tuple[int, ...]:
    if axis is not None:
        return tuple(sorted(axes_of(axis, x.ndim)))
    count = 1 if weight is None else weight.ndim
    if weight is not None and weight.shape != x.shape[x.ndim - count :]:
        raise ValueError("the weight has other sizes than the last axes")
    return tuple(range(x.ndim - count, x.ndim))


def layer_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    *,
    axis: Axes = None,
) -> Array:
    axes = _normal_axes(x, axis, bias if weight is None else weight)
    return _affine(_standard(x, axes, eps), weight, bias, axes)


def rms_norm(
    x: Array, weight: Array | None = None, eps: float = 1e-5, *, axis: Axes = None
) -> Array:
    axes, values = _normal_axes(x, axis, weight), floats(x)
    root = np.sqrt(np.mean(values * values, axes, keepdims=True) + eps)
    return _affine(values / root, weight, None, axes)


def batch_norm(
    x: Array,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    eps: float = 1e-5,
) -> Array:
    if training:
        axes = tuple(k for k in range(x.ndim) if k != 1)
        return _affine(_standard(x, axes, eps), weight, bias, [1])
    assert running_mean is not None
    assert running_var is not None
    if any(old.shape != x.shape[1:2] for old in (running_mean, running_var)):
        raise ValueError("the running statistics are not one for each channel")
    far = floats(x) - placed(running_mean, [1], x.ndim)
    return _affine(far / np.sqrt(placed(running_var, [1], x.ndim) + eps), weight, bias, [1])


def batch_statistics(
    x: Array, running_mean: Array, running_var: Array, momentum: float = 0.1
) -> tuple[Array, Array]:
    if any(old.shape != x.shape[1:2] for old in (running_mean, running_var)):
        raise ValueError("the running statistics are not one for each channel")
    axes = tuple(k for k in range(x.ndim) if k != 1)
    mean, variance = np.mean(floats(x), axes), var(x, axes, correction=1)
    return (
        running_mean * (1 - momentum) + mean * momentum,
        running_var * (1 - momentum) + variance * momentum,
    )


def group_norm(
    x: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    parts = x.reshape(x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:])
    found = _standard(parts, tuple(range(2, parts.ndim)), eps)
    return _affine(found.reshape(x.shape), weight, bias, [1])


def instance_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5
) -> Array:
    return _affine(_standard(x, tuple(range(2, x.ndim)), eps), weight, bias, [1])


def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Array:
    if query.ndim > 2 and key.shape[-3] not in (1, query.shape[-3]):
        times = query.shape[-3] // key.shape[-3]
        key, value = np.repeat(key, times, -3), np.repeat(value, times, -3)
    scores = query @ key.swapaxes(-1, -2)
    scores = scores * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        mask = np.broadcast_to(mask, scores.shape)
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    return np.asarray(softmax(scores) @ value)


# -- losses ----------------------------------------------------------------------------------------


def _reduced(losses: Array, reduction: str) -> Array:
    if reduction == "none":
        return losses
    return np.asarray(np.mean(losses) if reduction == "mean" else np.sum(losses))


def _label_loss(
    logs: Array, target: Array, weight: Array | None, ignore: int, reduction: str, smoothing: float
) -> Array:
    axis = 1 if logs.ndim > 1 else 0
    logs = np.moveaxis(logs, axis, -1)
    if target.shape != logs.shape[:-1]:
        raise ValueError("the target has not one label for each row")
    weights = np.ones(logs.shape[-1]) if weight is None else floats(weight)
    counted = target != ignore
    labels = np.where(counted, target, 0)
    one = np.take_along_axis(logs * weights, labels[..., None], -1)[..., 0]
    even = np.mean(logs * weights, -1)
    loss = np.where(counted, -(one * (1 - smoothing) + even * smoothing), 0.0)
    if reduction != "mean":
        return _reduced(loss, reduction)
    return np.asarray(np.sum(loss) / np.sum(np.where(counted, weights[labels], 0.0)))


def cross_entropy(
    x: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    axis = 1 if x.ndim > 1 else 0
    if weight is not None and weight.shape != (x.shape[axis],):
        raise ValueError("the weights are not one for each class")
    logs = log_softmax(x, axis)
    if not is_float(target):
        return _label_loss(logs, target, weight, ignore_index, reduction, label_smoothing)
    if target.shape != x.shape:
        raise ValueError("the target has no probability for each class")
    shares = target * (1 - label_smoothing) + label_smoothing / x.shape[axis]
    weights = 1.0 if weight is None else placed(weight, [axis], x.ndim)
    return _reduced(-np.sum(shares * logs * weights, axis), reduction)


def nll_loss(
    x: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Array:
    if weight is not None and weight.shape != (x.shape[1 if x.ndim > 1 else 0],):
        raise ValueError("the weights are not one for each class")
    return _label_loss(floats(x), target, weight, ignore_index, reduction, 0.0)


def mse_loss(x: Array, target: Array, reduction: str = "mean") -> Array:
    return _reduced((floats(x) - target) ** 2, reduction)


def l1_loss(x: Array, target: Array, reduction: str = "mean") -> Array:
    return _reduced(np.abs(floats(x) - target), reduction)


def huber_loss(x: Array, target: Array, reduction: str = "mean", delta: float = 1.0) -> Array:
    far = np.abs(floats(x) - target)
    return _reduced(np.where(far <= delta, far * far / 2, delta * (far - delta / 2)), reduction)


def binary_cross_entropy(
    x: Array, target: Array, weight: Array | None = None, reduction: str = "mean"
) -> Array:
    if x.shape != target.shape:
        raise ValueError("the targets have another shape")
    yes, no = np.maximum(np.log(x), -100), np.maximum(np.log1p(-x), -100)
    loss = -(target * yes + (1 - target) * no)
    return _reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(
    x: Array,
    target: Array,
    weight: Array | None = None,
    reduction: str = "mean",
    pos_weight: Array | None = None,
) -> Array:
    no = np.logaddexp(0, x)
    yes = (no - x) * (1.0 if pos_weight is None else pos_weight)
    loss = target * yes + (1 - target) * no
    return _reduced(loss if weight is None else loss * weight, reduction)
