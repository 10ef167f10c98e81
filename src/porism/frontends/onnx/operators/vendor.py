"""Vendor operators: those of the domain com.microsoft that real models have."""

from __future__ import annotations

from typing import Final

from porism.frontends.onnx.operator_call import Call, Value
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.onnx.operators.quantized import dynamic_quantization
from porism.frontends.onnx.operators.recurrent import LSTM_ACTIVATIONS, Weights, recur
from porism.frontends.onnx.operators.windowed import convolve
from porism.frontends.tensor_functions import xp


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
)
"""The rows of this module."""
