"""Vendor operators: those of the domain com.microsoft that real models have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from porism.frontends.onnx.operator_call import Call, Value, tensor_dtype
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.onnx.operators.quantized import dynamic_quantization
from porism.frontends.onnx.operators.recurrent import LSTM_ACTIVATIONS, Weights, recur
from porism.frontends.onnx.operators.windowed import convolve
from porism.frontends.tensor_functions import xp
from porism.tensor import primitive
from porism.tensor.tensor import Tensor


def _fused_conv(call: Call) -> Value:
    y = convolve(call, call.tensor(0), call.tensor(1), call.optional(2))
    if call.has(3):
        y = y + call.tensor(3)
    name = call.text("activation", "")
    parameters = call.attribute("activation_params") or []
    if name == "Relu":
        return xp.maximum(y, 0)
    if name == "LeakyRelu":
        return xp.where(y < 0, y * parameters[0], y)
    if name == "Clip":
        return xp.clip(y, parameters[0], parameters[1])
    if name == "HardSigmoid":
        return xp.clip(y * parameters[0] + parameters[1], 0, 1)
    if name in ("Sigmoid", "Tanh"):
        return xp.sigmoid(y) if name == "Sigmoid" else xp.tanh(y)
    if name:
        raise call.error(f"FusedConv with the activation {name!r}", "there is no such one")
    return y


def _whole_weight(call: Call, weight: int, zero: int) -> Value:
    """Return a weight (directions, in, gates) of 8 bits as whole floats (directions, gates, in)."""
    w, offset = call.tensor(weight).astype("int32"), call.tensor(zero).astype("int32")
    offset = offset.reshape((*offset.shape, *[1] * (3 - offset.ndim)))
    if call.rank(zero) == 2:
        offset = xp.expand_dims(call.tensor(zero).astype("int32"), 1)
    return (w - offset).astype("float32").permute((0, 2, 1))


def _dynamic_quantize_lstm(call: Call) -> Value:
    w, r = _whole_weight(call, 1, 9), _whole_weight(call, 2, 11)
    scales = tuple(call.tensor(k).reshape((w.shape[0], -1)) for k in (8, 10))
    weights = Weights(w, r, call.optional(3), call.optional(7), (scales[0], scales[1]))
    if call.is_host(11) and not call.host(11).any():
        rows = call.tensor(2).permute((0, 2, 1))
        weights.bytes_of_r = Tensor(primitive.contiguous(rows.node, "the weights of all steps"))
    return recur(call, call.tensor(0), weights, LSTM_ACTIVATIONS)


def _fused_matmul(call: Call) -> Value:
    a, b = call.tensor(0), call.tensor(1)
    a = a.mT if call.integer("transA") else a
    b = b.mT if call.integer("transB") else b
    return xp.matmul(a, b) * call.number("alpha", 1.0)


def _dynamic_quantize_matmul(call: Call) -> Value:
    a, a_scale, a_zero = dynamic_quantization(call.tensor(0))
    b, b_scale = call.tensor(1), call.tensor(2)
    b_zero = call.optional(3)
    b = b.astype("int32") - (0 if b_zero is None else b_zero.astype("int32"))
    product = xp.matmul(a.astype("int32") - a_zero.astype("int32"), b).astype("float32")
    y = product * (a_scale * b_scale)
    return y + call.tensor(4) if call.has(4) else y


def _matmul_integer_to_float(call: Call) -> Value:
    a, b = call.tensor(0).astype("int32"), call.tensor(1).astype("int32")
    if call.has(4):
        a = a - call.tensor(4).astype("int32")
    if call.has(5):
        b = b - call.tensor(5).astype("int32")
    y = xp.matmul(a, b).astype("float32") * (call.tensor(2) * call.tensor(3))
    return y + call.tensor(6) if call.has(6) else y


def _skip_layer_normalization(call: Call) -> Value:
    x = call.tensor(0) + call.tensor(1)
    if call.has(4):
        x = x + call.tensor(4)
    epsilon = call.number("epsilon", 1e-5)
    y = xp.layer_norm(x, call.tensor(2), call.optional(3), eps=epsilon)
    return y, None, None, x


def _bias_gelu(call: Call) -> Value:
    x = call.tensor(0)
    return xp.gelu(x + call.tensor(1) if call.has(1) else x)


def _fast_gelu(call: Call) -> Value:
    x = call.tensor(0)
    return xp.gelu(x + call.tensor(1) if call.has(1) else x, approximate="tanh")


def _quick_gelu(call: Call) -> Value:
    x = call.tensor(0)
    return x * xp.sigmoid(x * call.number("alpha", 1.702))


# -- quantized tensors: computed in floats, and quantized again ------------------------------------


def _dequantized(call: Call, first: int) -> Value:
    """Return the floats of a tensor whose scale and zero point follow it."""
    x = call.tensor(first).astype("int32")
    if call.has(first + 2):
        x = x - call.tensor(first + 2).astype("int32").reshape(())
    return x.astype("float32") * call.tensor(first + 1).reshape(())


def _quantized(call: Call, y: Value, scale: int, dtype: np.dtype[Any]) -> Value:
    """Return floats as integers of a type, with the scale and the zero point of two inputs."""
    steps = xp.round(y / call.tensor(scale).reshape(()))
    if call.has(scale + 1):
        steps = steps + call.tensor(scale + 1).astype("float32").reshape(())
    info = np.iinfo(dtype)
    return xp.clip(steps, int(info.min), int(info.max)).astype(tensor_dtype(dtype))


def _quantized_binary(function: Callable[[Value, Value], Value]) -> Callable[[Call], Value]:
    def run(call: Call) -> Value:
        y = function(_dequantized(call, 0), _dequantized(call, 3))
        return _quantized(call, y, 6, call.dtype(0))

    return run


def _quantized_unary(function: Callable[[Call, Value], Value]) -> Callable[[Call], Value]:
    def run(call: Call) -> Value:
        return _quantized(call, function(call, _dequantized(call, 0)), 3, call.dtype(0))

    return run


def _global_mean(call: Call, x: Value) -> Value:
    first = 1 if call.integer("channels_last") else 2
    last = x.ndim - 1 if call.integer("channels_last") else x.ndim
    return xp.mean(x, axis=tuple(range(first, last)), keepdims=True)


def _quantized_concat(call: Call) -> Value:
    count = (len(call.inputs) - 2) // 3
    parts = [_dequantized(call, 2 + 3 * k) for k in range(count)]
    joined = xp.concat(parts, axis=call.axis(call.integer("axis"), parts[0].ndim))
    return _quantized(call, joined, 0, call.dtype(2))


def _quantized_gemm(call: Call) -> Value:
    a, b = call.tensor(0).astype("int32"), call.tensor(3).astype("int32")
    a = a - call.tensor(2).astype("int32").reshape(()) if call.has(2) else a
    a, b = a.mT if call.integer("transA") else a, b.mT if call.integer("transB") else b
    b = b - call.tensor(5).astype("int32").reshape((1, -1)) if call.has(5) else b
    sums = xp.matmul(a, b)
    sums = sums + call.tensor(6) if call.has(6) else sums
    factor = call.tensor(1).reshape(()) * call.tensor(4).reshape((1, -1))
    y = sums.astype("float32") * (factor * call.number("alpha", 1.0))
    return _quantized(call, y, 7, call.dtype(0)) if call.has(7) else y


_DOMAIN: Final = "com.microsoft"

OPERATORS: Final = (
    Operator("FusedConv", _fused_conv, domain=_DOMAIN),
    Operator("FusedMatMul", _fused_matmul, domain=_DOMAIN),
    Operator("DynamicQuantizeLSTM", _dynamic_quantize_lstm, domain=_DOMAIN),
    Operator("DynamicQuantizeMatMul", _dynamic_quantize_matmul, domain=_DOMAIN),
    Operator("MatMulIntegerToFloat", _matmul_integer_to_float, domain=_DOMAIN),
    Operator("SkipLayerNormalization", _skip_layer_normalization, domain=_DOMAIN),
    Operator("BiasGelu", _bias_gelu, domain=_DOMAIN),
    Operator("Gelu", _bias_gelu, domain=_DOMAIN),
    Operator("FastGelu", _fast_gelu, domain=_DOMAIN),
    Operator("QuickGelu", _quick_gelu, domain=_DOMAIN),
    Operator("QLinearAdd", _quantized_binary(lambda a, b: a + b), domain=_DOMAIN),
    Operator("QLinearMul", _quantized_binary(lambda a, b: a * b), domain=_DOMAIN),
    Operator("QGemm", _quantized_gemm, domain=_DOMAIN),
    Operator("QLinearConcat", _quantized_concat, domain=_DOMAIN),
    Operator("QLinearGlobalAveragePool", _quantized_unary(_global_mean), domain=_DOMAIN),
    Operator("QLinearSigmoid", _quantized_unary(lambda _, x: xp.sigmoid(x)), domain=_DOMAIN),
    Operator(
        "QLinearLeakyRelu",
        _quantized_unary(lambda call, x: xp.where(x < 0, x * call.number("alpha", 0.01), x)),
        domain=_DOMAIN,
    ),
    Operator(
        "QLinearSoftmax",
        _quantized_unary(lambda call, x: xp.softmax(x, axis=call.integer("axis", -1))),
        domain=_DOMAIN,
    ),
)
"""The rows of this module."""
