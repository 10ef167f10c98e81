"""Normalization operators: values scaled by their mean and variance over batches or axes."""

from __future__ import annotations

import math
from typing import Any, Final

from porism.frontends.onnx import onnx_types
from porism.frontends.onnx.operator_call import Call, Value, tensor_dtype
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.tensor_functions import xp


def _column(x: Value, rank: int) -> Value:
    """Return one number for each channel, as a tensor that is broadcast along axis 1."""
    return x.reshape((1, -1, *[1] * (rank - 2)))


def _batch_normalization(call: Call) -> Value:
    x, scale, bias, mean, variance = (call.tensor(k) for k in range(5))
    epsilon = call.number("epsilon", 1e-5)
    rank = max(x.ndim, 2)
    if not call.integer("training_mode"):
        factor = scale.astype("float32") / xp.sqrt(variance.astype("float32") + epsilon)
        shift = bias.astype("float32") - mean.astype("float32") * factor
        if x.dtype is xp.float64:
            factor = scale / xp.sqrt(variance + epsilon)
            shift = bias - mean * factor
        return (x * _column(factor, rank) + _column(shift, rank)).astype(x.dtype)
    axes = (0, *range(2, x.ndim))
    own_mean, own_variance = xp.mean(x, axis=axes), xp.var(x, axis=axes)
    factor = scale / xp.sqrt(own_variance + epsilon)
    y = (x - _column(own_mean, rank)) * _column(factor, rank) + _column(bias, rank)
    momentum = call.number("momentum", 0.9)
    running = [
        (old * momentum + new * (1 - momentum)).astype(old.dtype)
        for old, new in ((mean, own_mean), (variance, own_variance))
    ]
    return (y.astype(x.dtype), *running)


def _instance_normalization(call: Call) -> Value:
    x = call.tensor(0)
    return xp.instance_norm(x, call.tensor(1), call.tensor(2), eps=call.number("epsilon", 1e-5))


def _group_normalization(call: Call) -> Value:
    x, scale, bias = call.tensor(0), call.tensor(1), call.tensor(2)
    groups, epsilon = call.integer("num_groups"), call.number("epsilon", 1e-5)
    if scale.shape[0] == x.shape[1]:
        return xp.group_norm(x, groups, scale, bias, eps=epsilon)
    y = xp.group_norm(x, groups, eps=epsilon)  # before version 21: one number for a group
    repeats = x.shape[1] // groups
    scale, bias = xp.repeat(scale, repeats), xp.repeat(bias, repeats)
    return (y * _column(scale, x.ndim) + _column(bias, x.ndim)).astype(x.dtype)


def _stash_type(call: Call) -> Any:
    number = call.integer("stash_type", 1)
    return tensor_dtype(onnx_types.numpy_dtype(number))


def _layer_normalization(call: Call) -> Value:
    x = call.tensor(0)
    axis = call.axis(call.integer("axis", -1), x.ndim)
    axes = tuple(range(axis, x.ndim))
    epsilon = call.number("epsilon", 1e-5)
    wide = x.astype(_stash_type(call)) if x.dtype.base.bits < 32 else x
    if call.output_count == 1 and x.dtype is xp.float32 and len(axes) == 1:
        scale, bias = call.tensor(1), call.optional(2)
        if scale.shape == x.shape[-1:] and (bias is None or bias.shape == scale.shape):
            return xp.layer_norm(x, scale, bias, eps=epsilon)
    mean = xp.mean(wide, axis=axes, keepdims=True)
    centred = wide - mean
    inverse = 1 / xp.sqrt(xp.mean(centred * centred, axis=axes, keepdims=True) + epsilon)
    y = (centred * inverse).astype(x.dtype) * call.tensor(1)
    if call.has(2):
        y = y + call.tensor(2)
    return y, mean, inverse


def _rms_normalization(call: Call) -> Value:
    x = call.tensor(0)
    axis = call.axis(call.integer("axis", -1), x.ndim)
    axes = tuple(range(axis, x.ndim))
    wide = x.astype(_stash_type(call)) if x.dtype.base.bits < 32 else x
    square = xp.mean(wide * wide, axis=axes, keepdims=True)
    y = wide / xp.sqrt(square + call.number("epsilon", 1e-5))
    scale = call.tensor(1)
    return y.astype(x.dtype).astype(scale.dtype) * scale


def _mean_variance_normalization(call: Call) -> Value:
    x = call.tensor(0)
    axes = tuple(call.axis(a, x.ndim) for a in call.ints("axes", [0, 2, 3]))
    mean = xp.mean(x, axis=axes, keepdims=True)
    square = xp.mean(x * x, axis=axes, keepdims=True)
    return (x - mean) / (xp.sqrt(square - mean * mean) + 1e-9)


def _local_response_normalization(call: Call) -> Value:
    x, size = call.tensor(0), call.integer("size")
    alpha, beta = call.number("alpha", 1e-4), call.number("beta", 0.75)
    before, after = (size - 1) // 2, math.ceil((size - 1) / 2)
    pads = [(before, after) if axis == 1 else (0, 0) for axis in range(x.ndim)]
    squares = xp.pad(x * x, pads)
    channels = x.shape[1]
    total: Any = 0
    for k in range(size):
        total = total + squares[:, k : k + channels]
    return x / xp.pow(total * (alpha / size) + call.number("bias", 1.0), beta)


def _dropout(call: Call) -> Value:
    """Return x as it is: a model is run, and not trained."""
    x = call.tensor(0)
    training = call.version >= 12 and call.has(2) and bool(call.scalar(2))
    ratio = float(call.scalar(1, 0.5)) if call.version >= 12 else call.number("ratio", 0.5)
    if training and ratio != 0:
        seeds = "its result is random"
        raise call.error("Dropout in training mode", seeds, "export the model for inference")
    return x, xp.full(x.shape, True)


OPERATORS: Final = (
    Operator("BatchNormalization", _batch_normalization),
    Operator("InstanceNormalization", _instance_normalization),
    Operator("GroupNormalization", _group_normalization),
    Operator("LayerNormalization", _layer_normalization),
    Operator("RMSNormalization", _rms_normalization),
    Operator("MeanVarianceNormalization", _mean_variance_normalization),
    Operator("LRN", _local_response_normalization),
    Operator("Dropout", _dropout),
)
"""The rows of this module."""
