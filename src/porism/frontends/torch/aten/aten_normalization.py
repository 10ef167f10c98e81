"""Norms of ATen: layer, group and batch norm, and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten.aten_table import aten


def _with_affine(x: Any, weight: Any, bias: Any, shape: Sequence[int]) -> Any:
    """Return x · weight + bias, where these are given."""
    if weight is not None:
        x = x * xp.reshape(weight, tuple(shape))
    return x if bias is None else x + xp.reshape(bias, tuple(shape))


def in_float32(x: Any) -> Any:
    """Return floats of 16 bits in float32, in which statistics are computed."""
    return x.astype("float32") if x is not None and x.dtype.itemsize < 4 else x


@aten("native_layer_norm.default")
def native_layer_norm(
    x: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    """Return x normalized over its last axes, with the means and inverse deviations."""
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    wide = in_float32(x)
    mean = xp.mean(wide, axis=axes, keepdims=True)
    off = wide - mean
    inverse = xp.rsqrt(xp.mean(off * off, axis=axes, keepdims=True) + eps)
    shape = (*[1] * (x.ndim - len(normalized_shape)), *normalized_shape)
    return _with_affine(off * inverse, in_float32(weight), in_float32(bias), shape), mean, inverse


@aten("native_layer_norm_backward.default")
def native_layer_norm_backward(
    grad: Any,
    x: Any,
    normalized_shape: Sequence[int],
    mean: Any,
    rstd: Any,
    weight: Any,
    bias: Any,
    output_mask: Sequence[bool],
) -> tuple[Any, Any, Any]:
    """Return the gradients of a layer norm that are asked for."""
    count = len(normalized_shape)
    inner = tuple(range(x.ndim - count, x.ndim))
    outer = tuple(range(x.ndim - count))
    grad, normal = in_float32(grad), (in_float32(x) - in_float32(mean)) * in_float32(rstd)
    by_input = by_weight = by_bias = None
    if output_mask[0]:
        scaled = grad if weight is None else grad * in_float32(weight)
        first = xp.mean(scaled, axis=inner, keepdims=True)
        second = xp.mean(scaled * normal, axis=inner, keepdims=True)
        by_input = (scaled - first - normal * second) * in_float32(rstd)
    if output_mask[1] and weight is not None:
        by_weight = xp.sum(grad * normal, axis=outer) if outer else grad * normal
    if output_mask[2] and bias is not None:
        by_bias = xp.sum(grad, axis=outer) if outer else grad
    return by_input, by_weight, by_bias


@aten("native_group_norm.default")
def native_group_norm(
    x: Any, weight: Any, bias: Any, n: int, c: int, hw: int, group: int, eps: float
) -> tuple[Any, Any, Any]:
    """Return x normalized over groups of channels, with the means and inverse deviations."""
    split = xp.reshape(in_float32(x), (n, group, c // group * hw))
    mean = xp.mean(split, axis=2, keepdims=True)
    off = split - mean
    inverse = xp.rsqrt(xp.mean(off * off, axis=2, keepdims=True) + eps)
    normal = xp.reshape(off * inverse, x.shape)
    shape = (1, c, *[1] * (x.ndim - 2))
    result = _with_affine(normal, in_float32(weight), in_float32(bias), shape)
    return result, xp.reshape(mean, (n, group)), xp.reshape(inverse, (n, group))


@aten("native_group_norm_backward.default")
def native_group_norm_backward(
    grad: Any,
    x: Any,
    mean: Any,
    rstd: Any,
    weight: Any,
    n: int,
    c: int,
    hw: int,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Any, Any, Any]:
    """Return the gradients of a group norm that are asked for."""
    split = (n, group, c // group, hw)
    wide_grad = xp.reshape(in_float32(grad), split)
    per_group = (n, group, 1, 1)
    scale = xp.reshape(in_float32(rstd), per_group)
    normal = xp.reshape(in_float32(x), split) - xp.reshape(in_float32(mean), per_group)
    normal = normal * scale
    by_input = by_weight = by_bias = None
    if output_mask[0]:
        scaled = wide_grad
        if weight is not None:
            scaled = scaled * xp.reshape(in_float32(weight), (1, group, c // group, 1))
        first = xp.mean(scaled, axis=(2, 3), keepdims=True)
        second = xp.mean(scaled * normal, axis=(2, 3), keepdims=True)
        by_input = xp.reshape((scaled - first - normal * second) * scale, x.shape)
    if output_mask[1]:
        by_weight = xp.reshape(xp.sum(wide_grad * normal, axis=(0, 3)), (c,))
    if output_mask[2]:
        by_bias = xp.reshape(xp.sum(wide_grad, axis=(0, 3)), (c,))
    return by_input, by_weight, by_bias


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, inverse: Any) -> Any:
    """Return x normalized by given statistics of each channel."""
    shape = (1, x.shape[1], *[1] * (x.ndim - 2))
    normal = (in_float32(x) - xp.reshape(mean, shape)) * xp.reshape(inverse, shape)
    return _with_affine(normal, in_float32(weight), in_float32(bias), shape)


@aten("_native_batch_norm_legit_no_training.default")
def batch_norm_no_training(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: Any, eps: float
) -> tuple[Any, Any, Any]:
    """Return x normalized by running statistics."""
    inverse = xp.rsqrt(in_float32(running_var) + eps)
    nothing = xp.zeros((0,), dtype=running_mean.dtype)
    return _batch_norm(x, weight, bias, in_float32(running_mean), inverse), nothing, nothing


@aten("_native_batch_norm_legit_functional.default")
def batch_norm_functional(
    x: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """Return x normalized, the statistics used, and the running ones afterwards."""
    if not training:
        result, _, _ = batch_norm_no_training(
            x, weight, bias, running_mean, running_var, momentum, eps
        )
        nothing = xp.zeros((0,), dtype=running_mean.dtype)
        return result, nothing, nothing, running_mean, running_var
    result, mean, inverse = batch_norm_no_stats(x, weight, bias, training, momentum, eps)
    axes = tuple(k for k in range(x.ndim) if k != 1)
    count = math.prod(x.shape[k] for k in axes)
    off = in_float32(x) - xp.reshape(mean, (1, -1, *[1] * (x.ndim - 2)))
    variance = xp.sum(off * off, axis=axes) / max(count - 1, 1)
    new_mean = running_mean * (1 - momentum) + mean * momentum
    new_var = running_var * (1 - momentum) + variance * momentum
    return result, mean, inverse, new_mean, new_var


@aten("_batch_norm_with_update_functional.default")
def batch_norm_with_update(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: Any, eps: float
) -> tuple[Any, ...]:
    """Return x normalized by its statistics, these, nothing in reserve, and the running ones."""
    result, mean, inverse, new_mean, new_var = batch_norm_functional(
        x, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return result, mean, inverse, xp.zeros(0, dtype="uint8"), new_mean, new_var


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    x: Any, weight: Any, bias: Any, training: bool, momentum: Any, eps: float
) -> tuple[Any, Any, Any]:
    """Return x normalized by the statistics of the batch, with these."""
    wide = in_float32(x)
    axes = tuple(k for k in range(x.ndim) if k != 1)
    mean = xp.mean(wide, axis=axes)
    off = wide - xp.reshape(mean, (1, -1, *[1] * (x.ndim - 2)))
    inverse = xp.rsqrt(xp.mean(off * off, axis=axes) + eps)
    return _batch_norm(x, weight, bias, mean, inverse), mean, inverse


@aten("native_batch_norm_backward.default")
def native_batch_norm_backward(
    grad: Any,
    x: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_invstd: Any,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Any, Any, Any]:
    """Return the gradients of a batch norm that are asked for."""
    shape = (1, x.shape[1], *[1] * (x.ndim - 2))
    axes = tuple(k for k in range(x.ndim) if k != 1)
    if train:
        mean, inverse = save_mean, save_invstd
    else:
        mean, inverse = running_mean, xp.rsqrt(in_float32(running_var) + eps)
    wide_grad = in_float32(grad)
    inverse = xp.reshape(in_float32(inverse), shape)
    normal = (in_float32(x) - xp.reshape(in_float32(mean), shape)) * inverse
    by_bias = xp.sum(wide_grad, axis=axes)
    by_weight = xp.sum(wide_grad * normal, axis=axes)
    scale = inverse if weight is None else inverse * xp.reshape(in_float32(weight), shape)
    by_input = wide_grad * scale
    if train:
        count = math.prod(x.shape[k] for k in axes)
        first = xp.reshape(by_bias, shape) / count
        second = xp.reshape(by_weight, shape) / count
        by_input = (wide_grad - first - normal * second) * scale
    chosen = [value if mask else None for value, mask in
              zip((by_input, by_weight, by_bias), output_mask, strict=True)]  # fmt: skip
    return chosen[0], chosen[1], chosen[2]
