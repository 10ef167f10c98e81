"""Activation operators: functions of networks, elementwise or along one axis."""

from __future__ import annotations

import math
from typing import Final

from porism.frontends.onnx.operator_call import Call, Value
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.tensor_functions import xp


def _leaky_relu(call: Call) -> Value:
    x = call.tensor(0)
    return xp.where(x < 0, x * call.number("alpha", 0.01), x)


def _elu(call: Call) -> Value:
    x = call.tensor(0)
    return xp.where(x < 0, xp.expm1(x) * call.number("alpha", 1.0), x)


def _celu(call: Call) -> Value:
    x, alpha = call.tensor(0), call.number("alpha", 1.0)
    return xp.maximum(x, 0) + xp.minimum(xp.expm1(x / alpha) * alpha, 0)


def _selu(call: Call) -> Value:
    x = call.tensor(0)
    alpha, gamma = call.number("alpha", 1.67326319), call.number("gamma", 1.05070102)
    return xp.where(x < 0, xp.expm1(x) * alpha, x) * gamma


def _prelu(call: Call) -> Value:
    x, slope = call.tensor(0), call.tensor(1)
    if call.version < 7 and slope.ndim == 1 and x.ndim > 1:
        slope = slope.reshape((-1, *[1] * (x.ndim - 2)))
    return xp.where(x < 0, x * slope, x)


def _hard_sigmoid(call: Call) -> Value:
    x, alpha, beta = call.tensor(0), call.number("alpha", 0.2), call.number("beta", 0.5)
    return xp.minimum(xp.maximum(x * alpha + beta, 0), 1)


def _hard_swish(call: Call) -> Value:
    x = call.tensor(0)
    return x * xp.minimum(xp.maximum(x * (1 / 6) + 0.5, 0), 1)


def _thresholded_relu(call: Call) -> Value:
    x = call.tensor(0)
    return xp.where(x > call.number("alpha", 1.0), x, 0)


def _shrink(call: Call) -> Value:
    x = call.tensor(0)
    limit, bias = call.number("lambd", 0.5), call.number("bias", 0.0)
    wide = x if x.dtype.base.is_float else x.astype("float32")
    result = xp.where(wide < -limit, wide + bias, xp.where(wide > limit, wide - bias, 0))
    return result.astype(x.dtype)


def _gelu(call: Call) -> Value:
    x = call.tensor(0)
    if call.text("approximate", "none") == "tanh":
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (1 + xp.tanh(inner))
    return x * 0.5 * (1 + xp.erf(x * math.sqrt(0.5)))


def _mish(call: Call) -> Value:
    x = call.tensor(0)
    return x * xp.tanh(xp.softplus(x))


def _softsign(call: Call) -> Value:
    x = call.tensor(0)
    return x / (1 + xp.abs(x))


def _rows(call: Call, x: Value) -> Value:
    """Return the matrix of old versions, which flatten all axes from `axis` on."""
    axis = call.axis(call.integer("axis", 1), x.ndim) if x.ndim else 0
    rows = math.prod(x.shape[:axis])
    return x.reshape((rows, math.prod(x.shape[axis:])))


def _softmax_of_rows(call: Call) -> Value:
    x = call.tensor(0)
    return xp.softmax(_rows(call, x), axis=-1).reshape(x.shape)


def _log_softmax_of_rows(call: Call) -> Value:
    x = call.tensor(0)
    return xp.log_softmax(_rows(call, x), axis=-1).reshape(x.shape)


def _hardmax_of_rows(call: Call) -> Value:
    x = call.tensor(0)
    flat = _rows(call, x)
    return hardmax(flat, 1).reshape(x.shape)


def hardmax(x: Value, axis: int) -> Value:
    """Return 1 at the first largest element along an axis, and 0 elsewhere."""
    best = xp.argmax(x, axis=axis)
    return xp.one_hot(best, x.shape[axis], axis=axis).astype(x.dtype)


def _softmax(call: Call) -> Value:
    return xp.softmax(call.tensor(0), axis=call.integer("axis", -1))


def _log_softmax(call: Call) -> Value:
    return xp.log_softmax(call.tensor(0), axis=call.integer("axis", -1))


def _hardmax(call: Call) -> Value:
    x = call.tensor(0)
    return hardmax(x, call.axis(call.integer("axis", -1), x.ndim))


OPERATORS: Final = (
    Operator("Relu", lambda call: xp.maximum(call.tensor(0), 0)),
    Operator("Sigmoid", lambda call: xp.sigmoid(call.tensor(0))),
    Operator("Softplus", lambda call: xp.softplus(call.tensor(0))),
    Operator("Softsign", _softsign),
    Operator("LeakyRelu", _leaky_relu),
    Operator("Elu", _elu),
    Operator("Celu", _celu),
    Operator("Selu", _selu),
    Operator("PRelu", _prelu),
    Operator("HardSigmoid", _hard_sigmoid),
    Operator("HardSwish", _hard_swish),
    Operator("ThresholdedRelu", _thresholded_relu),
    Operator("Shrink", _shrink),
    Operator("Gelu", _gelu),
    Operator("Mish", _mish),
    Operator("Softmax", _softmax_of_rows),
    Operator("Softmax", _softmax, since=13),
    Operator("LogSoftmax", _log_softmax_of_rows),
    Operator("LogSoftmax", _log_softmax, since=13),
    Operator("Hardmax", _hardmax_of_rows),
    Operator("Hardmax", _hardmax, since=13),
)
"""The rows of this module."""
