"""Quantized operators: integers with a scale and a zero point, with exact integer sums."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from porism.frontends.onnx import onnx_types
from porism.frontends.onnx.operator_call import Call, Value, held, tensor_dtype
from porism.frontends.onnx.operators.elementwise import to_narrow_float
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.onnx.operators.windowed import convolve
from porism.frontends.onnx.stored_operands import SUMS, stored
from porism.frontends.tensor_functions import xp

_NARROW: Final = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the smallest and the largest integer of a type."""
    if dtype.name in _NARROW:
        return _NARROW[dtype.name]
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _spread(call: Call, parameter: Any, shape: tuple[int, ...], block: int) -> Any:
    """Return a scale or zero point in a shape that is broadcast to the tensor's."""
    if parameter.size == 1 and len(parameter.shape) <= 1:
        return parameter.reshape(())
    axis = call.axis(call.integer("axis", 1), len(shape))
    if len(parameter.shape) == 1:
        return parameter.reshape((*[1] * axis, -1, *[1] * (len(shape) - axis - 1)))
    size = block or -(-shape[axis] // parameter.shape[axis])
    if isinstance(parameter, np.ndarray):
        repeated: Any = np.repeat(parameter, size, axis=axis)
    else:
        repeated = xp.repeat(parameter, size, axis=axis)
    key = (*[slice(None)] * axis, slice(0, shape[axis]))
    return repeated[key]


def _target(call: Call) -> np.dtype[Any]:
    if call.has(2):
        return call.dtype(2)
    number = call.integer("output_dtype")
    return onnx_types.numpy_dtype(number) if number else np.dtype(np.uint8)


def _quantize_linear(call: Call) -> Value:
    target = _target(call)
    if not held(target) or target.name.startswith("float8"):
        return _quantize_on_host(call, target)
    x = call.tensor(0)
    block = call.integer("block_size")
    scale = _spread(call, call.tensor(1), x.shape, block)
    wide = x if x.dtype.base.is_float and x.dtype.base.bits >= 32 else x.astype("float32")
    y = xp.round(wide / scale.astype(wide.dtype))
    if call.has(2):
        y = y + _spread(call, call.tensor(2), x.shape, block).astype(wide.dtype)
    low, high = _limits(target)
    return xp.clip(y, low, high).astype(tensor_dtype(target))


def _quantize_on_host(call: Call, target: np.dtype[Any]) -> Any:
    x = call.host(0)
    block = call.integer("block_size")
    wide = x.astype(np.float32)
    scale = _spread(call, call.host(1).astype(np.float32), x.shape, block)
    with np.errstate(all="ignore"):
        y = wide / scale
        zero = np.zeros((), np.float32)
        if call.has(2):
            zero = _spread(call, call.host(2).astype(np.float32), x.shape, block)
        if target.name.startswith("float"):
            return to_narrow_float(y + zero, target, bool(call.integer("saturate", 1)))
        low, high = _limits(target)
        y = np.clip(np.rint(y) + zero, low, high)
        return y.astype(np.int8 if low < 0 else np.uint8).astype(target)


def _dequantize_linear(call: Call) -> Value:
    shape = call.shape(0)
    block = call.integer("block_size")
    number = call.integer("output_dtype")
    result = call.dtype(1) if not number else onnx_types.numpy_dtype(number)
    if not held(call.dtype(0)) or not held(call.dtype(1)):
        x = call.host(0).astype(np.float32)
        scale = _spread(call, call.host(1).astype(np.float32), shape, block)
        if call.has(2):
            x = x - _spread(call, call.host(2).astype(np.float32), shape, block)
        return (x * scale).astype(result)
    x = call.tensor(0)
    scale = _spread(call, call.tensor(1), shape, block)
    y = x.astype("float32" if x.dtype.base.is_float else "int32")
    if call.has(2):
        zero = call.tensor(2)
        y = y - _spread(call, zero, shape, block).astype(y.dtype)
    return (y.astype("float32") * scale.astype("float32")).astype(tensor_dtype(result))


def dynamic_quantization(x: Value) -> tuple[Value, Value, Value]:
    """Return x in steps from 0 to 255, their size and the zero, from the range of x and 0.

    The steps and the zero are whole floats. The range is stored: one kernel finds both ends, as the
    largest of x and of -x.
    """
    signs = xp.asarray(np.array([[1], [-1]], np.float32)).astype(x.dtype)
    ends = stored(xp.max(x.reshape((1, -1)) * signs, axis=1), SUMS)
    low = xp.minimum(-ends[1], 0)
    high = xp.maximum(ends[0], 0)
    scale = (high - low) / 255
    safe = xp.where(scale == 0, 1, scale)
    zero = xp.clip(xp.round(0 - low / safe), 0, 255)
    return xp.clip(xp.round(x / safe) + zero, 0, 255), scale, zero


def _dynamic_quantize_linear(call: Call) -> tuple[Value, Value, Value]:
    y, scale, zero = dynamic_quantization(call.tensor(0))
    noted = call.builder.with_floats
    return noted(y.astype("uint8"), y), scale, noted(zero.astype("uint8"), zero)


def _requantize(call: Call, y: Value, factor: Value, zero: Value, target: np.dtype[Any]) -> Value:
    """Return exact sums times a factor, rounded to a type with a zero point."""
    scaled = xp.round(y.astype("float32") * factor) + zero.astype("float32")
    low, high = _limits(target)
    return xp.clip(scaled, low, high).astype(tensor_dtype(target))


def _qlinear_matmul(call: Call) -> Value:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (call.tensor(k) for k in range(8))
    a_zero, b_zero = a_zero.astype("int32"), b_zero.astype("int32")
    if a_zero.ndim == 1 and a_zero.shape[0] > 1:
        a_zero, a_scale = a_zero.reshape((-1, 1)), a_scale.reshape((-1, 1))
    product = xp.matmul(a.astype("int32") - a_zero, b.astype("int32") - b_zero).astype("int32")
    factor = a_scale.astype("float32") * b_scale.astype("float32") / y_scale.astype("float32")
    if math.prod(factor.shape) == 1:
        factor, y_zero = factor.reshape(()), y_zero.reshape(())
    return _requantize(call, product, factor, y_zero, call.dtype(7))


def _qlinear_conv(call: Call) -> Value:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (call.tensor(k) for k in range(8))
    w = w.astype("int32")
    w_zero = w_zero.astype("int32")
    channels = w_zero.size > 1
    w = w - (w_zero.reshape((-1, *[1] * (w.ndim - 1))) if channels else w_zero.reshape(()))
    x = x.astype("int32") - x_zero.astype("int32").reshape(())
    y = convolve(call, x, w, call.optional(8)).astype("int32")
    factor = x_scale.reshape(()) * w_scale / y_scale.reshape(())
    if math.prod(factor.shape) > 1:
        factor = factor.reshape((1, -1, *[1] * (y.ndim - 2)))
    else:
        factor = factor.reshape(())
    return _requantize(call, y, factor, y_zero.reshape(()), call.dtype(7))


OPERATORS: Final = (
    Operator("QuantizeLinear", _quantize_linear),
    Operator("DequantizeLinear", _dequantize_linear),
    Operator("DynamicQuantizeLinear", _dynamic_quantize_linear),
    Operator("QLinearMatMul", _qlinear_matmul),
    Operator("QLinearConv", _qlinear_conv),
)
"""The rows of this module."""
