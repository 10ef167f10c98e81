"""Elementwise operators: arithmetic, comparisons, logic, bits, elementary functions and casts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np

from porism.frontends.onnx import onnx_types
from porism.frontends.onnx.operator_call import Call, Value, dtype_of, held, tensor_dtype
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.tensor_functions import xp


def unary(name: str, function: str, host: Callable[..., Any] | None = None) -> Operator:
    """Return the row of an operator on one tensor; its result has the type of its input."""

    def build(call: Call) -> Value:
        x = call.tensor(0)
        result: Value = getattr(xp, function)(x)
        return result if result.dtype is x.dtype else result.astype(x.dtype)

    if host is None:
        return Operator(name, build)
    return Operator(name, build, host=lambda call: _quiet(host, call.host(0)))


def binary(name: str, function: str, host: Callable[..., Any], since: int = 7) -> list[Operator]:
    """Return the rows of an operator on two tensors, also with the broadcast of old versions."""

    def build(call: Call) -> Value:
        a, b = call.tensor(0), call.tensor(1)
        return getattr(xp, function)(a, _old_broadcast(call, a, b))

    def on_host(call: Call) -> Value:
        return _quiet(host, call.host(0), call.host(1))

    return [Operator(name, build, host=on_host if since <= 1 else None)] + (
        [Operator(name, build, since=since, host=on_host)] if since > 1 else []
    )


def _quiet(function: Callable[..., Any], *arrays: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(function(*arrays))


def _old_broadcast(call: Call, a: Value, b: Value) -> Value:
    """Return b with the axes that the attribute `axis` of old versions gives it."""
    if call.version >= 7 or "axis" not in call.attributes or b.ndim >= a.ndim:
        return b
    axis = call.axis(call.integer("axis"), a.ndim)
    return b.reshape((*b.shape, *[1] * (a.ndim - axis - b.ndim)))


def variadic(name: str, function: str, host: Callable[..., Any]) -> Operator:
    """Return the row of an operator that combines any number of tensors."""

    def build(call: Call) -> Value:
        return functools.reduce(getattr(xp, function), call.tensors())

    def on_host(call: Call) -> Value:
        arrays = [call.host(k) for k in range(len(call.inputs))]
        return np.asarray(functools.reduce(host, arrays))

    return Operator(name, build, host=on_host)


# -- division --------------------------------------------------------------------------------------


def _divide(call: Call) -> Value:
    a, b = call.tensor(0), call.tensor(1)
    b = _old_broadcast(call, a, b)
    if a.dtype.base.is_float:
        return xp.divide(a, b)
    return truncated_quotient(a, b)


def truncated_quotient(a: Any, b: Any) -> Value:
    """Return the quotient of integers, rounded towards zero."""
    floor = xp.floor_divide(a, b)
    inexact = (floor * b) != a
    return xp.where(inexact & ((a < 0) ^ (b < 0)), floor + 1, floor)


def _divide_host(call: Call) -> Value:
    a, b = call.host(0), call.host(1)
    if a.dtype.kind not in "iu":
        return _quiet(np.divide, a, b)
    if not np.all(b):
        raise call.error("Div of integers by zero", "it has no result")
    quotient = np.floor_divide(np.abs(a), np.abs(b)) * np.sign(a) * np.sign(b)
    return np.asarray(quotient, a.dtype)


def _modulo(call: Call) -> Value:
    a, b = call.tensor(0), call.tensor(1)
    if not call.integer("fmod"):
        return xp.remainder(a, b)
    if a.dtype.base.is_integer:
        return a - truncated_quotient(a, b) * b
    remainder = xp.remainder(xp.abs(a), xp.abs(b))
    return xp.where(xp.isinf(b), a, xp.copysign(remainder, a))


def _modulo_host(call: Call) -> Value:
    function = np.fmod if call.integer("fmod") else np.mod
    return _quiet(function, call.host(0), call.host(1))


def _power(call: Call) -> Value:
    x, y = call.tensor(0), call.tensor(1)
    y = _old_broadcast(call, x, y)
    if call.is_host(1) and call.host(1).size == 1:  # products for small whole exponents
        exponent = call.host(1).reshape(()).item()
        if x.dtype.base.is_float and float(exponent).is_integer() and abs(exponent) <= 8:
            shape = np.broadcast_shapes(call.shape(0), call.shape(1))
            result = xp.pow(x, int(exponent)).astype(x.dtype)
            return result if result.shape == shape else xp.broadcast_to(result, shape)
    if x.dtype.base.is_float:
        return xp.pow(x, y.astype(x.dtype)).astype(x.dtype)
    if y.dtype.base.is_float:
        return xp.pow(x.astype("float64"), y.astype("float64")).astype(x.dtype)
    return xp.pow(x, y).astype(x.dtype)


def _power_host(call: Call) -> Value:
    x = call.host(0)
    return _quiet(np.power, x, call.host(1)).astype(x.dtype)


# -- clip, where and the like ----------------------------------------------------------------------


def _clip(call: Call) -> Value:
    x = call.tensor(0)
    if call.version < 11:
        low, high = call.attribute("min"), call.attribute("max")
        return xp.clip(x, low, high)
    bounds: list[Any] = []
    for k in (1, 2):
        if not call.has(k):
            bounds.append(None)
        elif call.is_host(k) and call.host(k).size == 1:
            number = call.host(k).reshape(()).item()
            bounds.append(None if number in (np.inf, -np.inf) else number)
        else:
            bounds.append(call.tensor(k))
    low, high = bounds
    if low is not None:
        x = xp.maximum(x, low)
    if high is not None:
        x = xp.minimum(x, high)
    return x


def _clip_host(call: Call) -> Value:
    low = call.host(1) if call.has(1) else call.attribute("min")
    high = call.host(2) if call.has(2) else call.attribute("max")
    x = call.host(0)
    x = x if low is None else np.maximum(x, np.asarray(low, x.dtype))
    return np.asarray(x if high is None else np.minimum(x, np.asarray(high, x.dtype)))


def _where_host(call: Call) -> Value:
    return np.where(call.host(0), call.host(1), call.host(2))


def _mean(call: Call) -> Value:
    tensors = call.tensors()
    return functools.reduce(xp.add, tensors) / len(tensors)


def _shift(call: Call) -> Value:
    left = call.text("direction", "LEFT") == "LEFT"
    function = xp.bitwise_left_shift if left else xp.bitwise_right_shift
    return function(call.tensor(0), call.tensor(1))


def _is_infinite(call: Call) -> Value:
    x = call.tensor(0)
    positive, negative = call.integer("detect_positive", 1), call.integer("detect_negative", 1)
    if positive and negative:
        return xp.isinf(x)
    if positive or negative:
        return x == xp.full((), np.inf if positive else -np.inf, dtype=x.dtype)
    return xp.full(x.shape, False)


def _swish(call: Call) -> Value:
    x = call.tensor(0)
    return x * xp.sigmoid(x * call.number("alpha", 1.0))


# -- casts -----------------------------------------------------------------------------------------

_BY_NAME: Final = {name: onnx_types.numpy_dtype(number) for number, name in (
    (number, onnx_types.name_of(number)) for number in range(1, 27)
)}  # fmt: skip


def cast_value(call: Call, value: Value, target: np.dtype[Any]) -> Value:
    """Return a value in another type; on the host if tensors lack one of the types."""
    source = dtype_of(value)
    if not (held(source) and held(target)):
        array = call.builder.as_array(value, call.node)
        return cast_array(array, target, _saturates(call), call.text("round_mode", "up"))
    if isinstance(value, np.ndarray) and value.size <= 64:
        return cast_array(value, target, _saturates(call))
    x = call.builder.as_tensor(value, call.node)
    if target.name.startswith("float8") and not source.name.startswith("float8"):
        return _cast_to_float8(x, target, _saturates(call))
    return x.astype(tensor_dtype(target))


def largest(dtype: np.dtype[Any]) -> float:
    """Return the largest finite number of a narrow type of floats."""
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return float(info.max)


def _saturates(call: Call) -> bool:
    return bool(call.integer("saturate", 1))


def _cast_to_float8(x: Value, target: np.dtype[Any], saturate: bool) -> Value:
    """Return floats of eight bits; finite and infinite values out of range are limited."""
    wide = x if x.dtype.base.is_float else xp.astype(x, "float32")
    most = largest(target)
    dtype = tensor_dtype(target)
    if saturate:
        return xp.clip(wide, -most, most).astype(dtype)
    return wide.astype(dtype)


def cast_array(x: Any, target: np.dtype[Any], saturate: bool = True, rounding: str = "up") -> Any:
    """Return an array in another type, as ONNX defines it."""
    source = x.dtype
    if source == target:
        return x
    with np.errstate(all="ignore"):
        if target.kind == "O":
            return _to_text(x)
        if source.kind in "OUST":
            return _from_text(x, target)
        if target.kind in "iu" and target.itemsize >= 1 and held(target) and source.kind != "b":
            return x.astype(target)
        name = target.name
        if name in ("int4", "uint4", "int2", "uint2"):
            return _to_narrow_integer(x, target)
        if name.startswith(("float8", "float4")):
            return to_narrow_float(x, target, saturate, rounding)
        if name == "bfloat16" and source.kind in "iub":
            return x.astype(np.float32).astype(target)
        if not held(source) and source.kind not in "c":
            return x.astype(np.float32).astype(target)
        return x.astype(target)


def _to_narrow_integer(x: Any, target: np.dtype[Any]) -> Any:
    """Return integers of 2 or 4 bits: the lowest bits of the number, truncated if a float."""
    bits = int(target.name[-1])
    whole = x.astype(np.float32) if not held(x.dtype) else x
    fields = whole.astype(np.int64) & ((1 << bits) - 1)
    if target.name.startswith("int"):
        half = 1 << (bits - 1)
        fields = (fields ^ half) - half
    return fields.astype(np.int8).astype(target)


def to_power_of_two(x: Any, rounding: str, saturate: bool) -> Any:
    """Return floats that are an exponent alone, of 8 bits, rounded up, down or to the nearest."""
    bits = x.astype(np.float32).view(np.uint32)
    exponent = (bits >> 23) & 0xFF
    fraction = bits & 0x7FFFFF
    if rounding == "nearest":
        up = (fraction > 0x400000) | ((fraction == 0x400000) & (exponent > 0))
    else:
        up = (fraction > 0) & (rounding == "up")
    up &= exponent != 0xFF
    if saturate:
        up &= exponent != 0xFE
    return (exponent + up).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)


def to_narrow_float(x: Any, target: np.dtype[Any], saturate: bool, rounding: str = "up") -> Any:
    """Return floats of 8 or 4 bits; out of range the largest if it saturates, else NaN or inf."""
    wide = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    most = largest(target)
    if target.name == "float8_e8m0fnu":
        return to_power_of_two(wide, rounding, saturate)
    if saturate or target.name.startswith("float4"):
        return np.clip(wide, -most, most).astype(target)
    return wide.astype(target)


def _to_text(x: Any) -> Any:
    wide = x if held(x.dtype) and x.dtype.name != "bfloat16" else x.astype(np.float32)
    return np.array([str(v) for v in wide.ravel()], dtype=object).reshape(x.shape)


def _from_text(x: Any, target: np.dtype[Any]) -> Any:
    if target.kind in "iu" and held(target):
        numbers = np.array([int(float(v)) for v in x.ravel()], dtype=np.int64)
    else:
        numbers = np.array([float(v) for v in x.ravel()], dtype=np.float64)
    return cast_array(numbers.reshape(x.shape), target)


def _cast(call: Call) -> Value:
    to = call.attribute("to")
    if isinstance(to, str):  # before version 6
        target = _BY_NAME.get({"FLOAT": "float32", "DOUBLE": "float64"}.get(to, to.lower()))
    else:
        target = _BY_NAME.get(onnx_types.name_of(int(to or 0)))
    if target is None:
        raise call.error(f"Cast to the element type {to}", "there is no such type")
    if target == np.float32 and call.has_floats(0):
        return call.floats(0)
    return cast_value(call, call.value(0), target)


def _cast_like(call: Call) -> Value:
    return cast_value(call, call.value(0), call.dtype(1))


def _bit_cast(call: Call) -> Value:
    target = onnx_types.numpy_dtype(call.integer("to"))
    return call.host(0).view(target)


def _identity(call: Call) -> Value:
    return call.value(0)


OPERATORS: Final = (
    unary("Abs", "abs", np.abs),
    unary("Neg", "negative", np.negative),
    unary("Ceil", "ceil", np.ceil),
    unary("Floor", "floor", np.floor),
    unary("Round", "round", np.rint),
    unary("Sqrt", "sqrt", np.sqrt),
    unary("Sign", "sign", np.sign),
    unary("Exp", "exp", np.exp),
    unary("Log", "log", np.log),
    unary("Sin", "sin", np.sin),
    unary("Cos", "cos", np.cos),
    unary("Tan", "tan"),
    unary("Asin", "asin"),
    unary("Acos", "acos"),
    unary("Atan", "atan"),
    unary("Sinh", "sinh"),
    unary("Cosh", "cosh"),
    unary("Tanh", "tanh"),
    unary("Asinh", "asinh"),
    unary("Acosh", "acosh"),
    unary("Atanh", "atanh"),
    unary("Erf", "erf"),
    unary("Reciprocal", "reciprocal", lambda x: (1 / x).astype(x.dtype)),
    *binary("Add", "add", np.add),
    *binary("Sub", "subtract", np.subtract),
    *binary("Mul", "multiply", np.multiply),
    Operator("Div", _divide),
    Operator("Div", _divide, since=7, host=_divide_host),
    Operator("Mod", _modulo, host=_modulo_host),
    Operator("Pow", _power),
    Operator("Pow", _power, since=7, host=_power_host),
    variadic("Max", "maximum", np.maximum),
    variadic("Min", "minimum", np.minimum),
    variadic("Sum", "add", np.add),
    Operator("Mean", _mean),
    *binary("Equal", "equal", np.equal),
    *binary("Less", "less", np.less),
    *binary("LessOrEqual", "less_equal", np.less_equal, since=1),
    *binary("Greater", "greater", np.greater),
    *binary("GreaterOrEqual", "greater_equal", np.greater_equal, since=1),
    *binary("And", "logical_and", np.logical_and),
    *binary("Or", "logical_or", np.logical_or),
    *binary("Xor", "logical_xor", np.logical_xor),
    Operator("Not", lambda call: xp.logical_not(call.tensor(0)),
             host=lambda call: np.logical_not(call.host(0))),
    *binary("BitwiseAnd", "bitwise_and", np.bitwise_and, since=1),
    *binary("BitwiseOr", "bitwise_or", np.bitwise_or, since=1),
    *binary("BitwiseXor", "bitwise_xor", np.bitwise_xor, since=1),
    unary("BitwiseNot", "bitwise_invert", np.invert),
    Operator("BitShift", _shift),
    Operator("IsNaN", lambda call: xp.isnan(call.tensor(0))),
    Operator("IsInf", _is_infinite),
    Operator("Where", lambda call: xp.where(call.tensor(0), call.tensor(1), call.tensor(2)),
             host=_where_host),
    Operator("Clip", _clip, host=_clip_host),
    Operator("Swish", _swish),
    Operator("Cast", _cast),
    Operator("CastLike", _cast_like),
    Operator("BitCast", _bit_cast),
    Operator("Identity", _identity),
)  # fmt: skip
"""The rows of this module."""
