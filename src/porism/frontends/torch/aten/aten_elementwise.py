"""Elementwise operators of ATen: arithmetic, comparison, functions of each element."""

from __future__ import annotations

import math
from typing import Any

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten.aten_table import aten
from porism.tensor.tensor import Tensor

# -- functions that have the same name and meaning -------------------------------------------------

SAME_UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp exp2 expm1 floor log log10 log1p"
    " log2 reciprocal rsqrt sigmoid sign signbit sin sinh sqrt square tan tanh trunc isnan isinf"
    " isfinite logical_not relu silu positive"
)
for _name in SAME_UNARY.split():
    aten(f"{_name}.default", promoting=True)(getattr(xp, _name))

SAME_BINARY = (
    "maximum minimum atan2 hypot copysign nextafter logical_and logical_or logical_xor logaddexp"
    " gcd lcm"
)
for _name in SAME_BINARY.split():
    aten(f"{_name}.default", promoting=True)(getattr(xp, _name))

for _name, _function in {
    "eq": xp.equal,
    "ne": xp.not_equal,
    "lt": xp.less,
    "le": xp.less_equal,
    "gt": xp.greater,
    "ge": xp.greater_equal,
}.items():
    aten(f"{_name}.Tensor", f"{_name}.Scalar", promoting=True)(_function)

for _name in ("and", "or", "xor"):
    aten(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar", promoting=True)(
        getattr(xp, f"bitwise_{_name}")
    )
aten("bitwise_not.default", promoting=True)(xp.bitwise_invert)
for _name in ("left_shift", "right_shift"):
    aten(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Tensor_Scalar", promoting=True)(
        getattr(xp, f"bitwise_{_name}")
    )
for _scalar in ("xor", "or", "and"):
    aten(f"bitwise_{_scalar}.Scalar_Tensor", promoting=True)(getattr(xp, f"bitwise_{_scalar}"))


# -- arithmetic ------------------------------------------------------------------------------------


def _is_bool(x: Any) -> bool:
    """Whether a tensor is of bools."""
    return isinstance(x, Tensor) and x.dtype == xp.bool


def _scaled(x: Any, alpha: Any) -> Any:
    """Return x times a number; x itself for 1."""
    return x if alpha == 1 else x * alpha


@aten("add.Tensor", "add.Scalar", promoting=True)
def add(x: Any, y: Any, alpha: Any = 1) -> Any:
    """Return x + alpha · y; of bools whether any is true."""
    if _is_bool(x) and (_is_bool(y) or isinstance(y, bool)):
        return xp.logical_or(x, y)
    return xp.add(x, _scaled(y, alpha))


@aten("sub.Tensor", "sub.Scalar", promoting=True)
def sub(x: Any, y: Any, alpha: Any = 1) -> Any:
    """Return x - alpha · y."""
    return xp.subtract(x, _scaled(y, alpha))


@aten("rsub.Tensor", "rsub.Scalar", promoting=True)
def rsub(x: Any, y: Any, alpha: Any = 1) -> Any:
    """Return y - alpha · x."""
    return xp.subtract(y, _scaled(x, alpha))


@aten("mul.Tensor", "mul.Scalar", promoting=True)
def mul(x: Any, y: Any) -> Any:
    """Return x · y; of bools whether both are true."""
    if _is_bool(x) and (_is_bool(y) or isinstance(y, bool)):
        return xp.logical_and(x, y)
    return xp.multiply(x, y)


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor", promoting=True)
def div(x: Any, y: Any) -> Any:
    """Return x / y."""
    return xp.divide(x, y)


@aten("div.Tensor_mode", "div.Scalar_mode", promoting=True)
def div_mode(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    """Return x / y, rounded down or towards zero where asked for."""
    if rounding_mode == "floor":
        return xp.floor_divide(x, y)
    if rounding_mode == "trunc":
        if isinstance(x, Tensor) and x.dtype.kind in "iu":
            quotient = xp.floor_divide(x, y)
            inexact = xp.not_equal(quotient * y, x)
            return xp.where(inexact & (quotient < 0), quotient + 1, quotient)
        return xp.trunc(xp.divide(x, y))
    return xp.divide(x, y)


@aten("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor", promoting=True)
def remainder(x: Any, y: Any) -> Any:
    """Return the remainder with the sign of the divisor."""
    return xp.remainder(x, y)


@aten("fmod.Tensor", "fmod.Scalar", promoting=True)
def fmod(x: Any, y: Any) -> Any:
    """Return the remainder with the sign of the dividend."""
    return xp.fmod(x, y)


@aten("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar", promoting=True)
def power(x: Any, y: Any) -> Any:
    """Return x to the power y."""
    return xp.pow(x, y)


@aten("neg.default", promoting=True)
def neg(x: Any) -> Any:
    """Return -x."""
    return xp.negative(x)


@aten("round.default", promoting=True)
def round_(x: Any) -> Any:
    """Return the nearest integers, of two the even one."""
    return xp.round(x)


@aten("round.decimals", promoting=True)
def round_decimals(x: Any, decimals: int = 0) -> Any:
    """Return x rounded to decimal places, as torch does it."""
    if decimals == 0:
        return xp.round(x)
    scale = 10.0 ** abs(decimals)
    return xp.round(x * scale) / scale if decimals > 0 else xp.round(x / scale) * scale


@aten("sgn.default", promoting=True)
def sgn(x: Any) -> Any:
    """Return the sign of real numbers."""
    return xp.sign(x)


@aten("fmax.default", promoting=True)
def fmax(x: Any, y: Any) -> Any:
    """Return the larger of two numbers, or the one that is a number."""
    return xp.where(xp.isnan(x), y, xp.where(xp.isnan(y), x, xp.maximum(x, y)))


@aten("fmin.default", promoting=True)
def fmin(x: Any, y: Any) -> Any:
    """Return the smaller of two numbers, or the one that is a number."""
    return xp.where(xp.isnan(x), y, xp.where(xp.isnan(y), x, xp.minimum(x, y)))


@aten("clamp.default", "clamp.Tensor", promoting=True)
def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """Return x, at least `min` and at most `max`; of two limits that cross, `max`."""
    if min is not None:
        x = xp.maximum(x, min)
    return x if max is None else xp.minimum(x, max)


@aten("clamp_min.default", "clamp_min.Tensor", promoting=True)
def clamp_min(x: Any, min: Any) -> Any:
    """Return x, at least `min`."""
    return xp.maximum(x, min)


@aten("clamp_max.default", "clamp_max.Tensor", promoting=True)
def clamp_max(x: Any, max: Any) -> Any:
    """Return x, at most `max`."""
    return xp.minimum(x, max)


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(condition: Any, x: Any, y: Any) -> Any:
    """Return x where the condition holds, and y elsewhere."""
    if condition.dtype != xp.bool:
        condition = condition != 0
    if isinstance(x, Tensor) and isinstance(y, Tensor) and x.dtype != y.dtype:
        dtype = xp.result_type(x, y) if x.ndim == y.ndim else (x if x.ndim else y).dtype
        x, y = x.astype(dtype), y.astype(dtype)
    return xp.where(condition, x, y)


@aten("lerp.Scalar", "lerp.Tensor", promoting=True)
def lerp(x: Any, y: Any, weight: Any) -> Any:
    """Return x + weight · (y - x)."""
    return x + (y - x) * weight


@aten("addcmul.default", promoting=True)
def addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    """Return x + value · a · b."""
    return x + _scaled(a * b, value)


@aten("addcdiv.default", promoting=True)
def addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    """Return x + value · a / b."""
    return x + _scaled(a / b, value)


# -- activations and their derivatives -------------------------------------------------------------


@aten("gelu.default")
def gelu(x: Any, approximate: str = "none") -> Any:
    """Return the Gaussian error linear unit."""
    return xp.gelu(x, approximate=approximate)


@aten("leaky_relu.default")
def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    """Return x, times the slope where it is negative."""
    return xp.where(x > 0, x, x * negative_slope)


@aten("elu.default")
def elu(x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    """Return x, and alpha · (exp(x) - 1) where it is negative, scaled."""
    return xp.where(x > 0, x * scale, xp.expm1(x * input_scale) * (alpha * scale))


@aten("hardtanh.default")
def hardtanh(x: Any, min_val: Any = -1, max_val: Any = 1) -> Any:
    """Return x clipped to an interval."""
    return clamp(x, min_val, max_val)


@aten("softplus.default")
def softplus(x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    """Return log(1 + exp(beta · x)) / beta, and x itself above a threshold."""
    return xp.where(x * beta > threshold, x, xp.softplus(x, beta=float(beta)))


@aten("hardswish.default")
def hardswish(x: Any) -> Any:
    """Return x · clip(x + 3, 0, 6) / 6."""
    return x * clamp(x + 3, 0, 6) / 6


@aten("hardsigmoid.default")
def hardsigmoid(x: Any) -> Any:
    """Return clip(x + 3, 0, 6) / 6."""
    return clamp(x + 3, 0, 6) / 6


@aten("threshold_backward.default")
def threshold_backward(grad: Any, x: Any, threshold: Any) -> Any:
    """Return the gradient where x is above a threshold, and 0 elsewhere."""
    return xp.where(x <= threshold, 0, grad)


@aten("tanh_backward.default")
def tanh_backward(grad: Any, output: Any) -> Any:
    """Return grad · (1 - output²)."""
    return grad * (1 - output * output)


@aten("sigmoid_backward.default")
def sigmoid_backward(grad: Any, output: Any) -> Any:
    """Return grad · output · (1 - output)."""
    return grad * output * (1 - output)


@aten("gelu_backward.default")
def gelu_backward(grad: Any, x: Any, approximate: str = "none") -> Any:
    """Return grad times the derivative of `gelu`."""
    return xp.vjp(lambda v: xp.gelu(v, approximate=approximate), x)[1](grad)[0]


@aten("silu_backward.default")
def silu_backward(grad: Any, x: Any) -> Any:
    """Return grad times the derivative of x · sigmoid(x)."""
    s = xp.sigmoid(x)
    return grad * s * (1 + x * (1 - s))


@aten("elu_backward.default")
def elu_backward(
    grad: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Any
) -> Any:
    """Return grad times the derivative of `elu`, from its input or its result."""
    negative = (
        (x + alpha * scale) * input_scale
        if is_result
        else xp.exp(x * input_scale) * (input_scale * alpha * scale)
    )
    return grad * xp.where(x <= 0, negative, scale)


# -- special functions -----------------------------------------------------------------------------


@aten("erfc.default", promoting=True)
def erfc(x: Any) -> Any:
    """Return 1 - erf(x)."""
    return xp.erfc(x)


@aten("erfinv.default", promoting=True)
def erfinv(x: Any) -> Any:
    """Return the inverse of erf."""
    return xp.erfinv(x)


@aten("angle.default", promoting=True)
def angle(x: Any) -> Any:
    """Return the angle of real numbers: 0, or pi where they are negative."""
    return xp.where(xp.isnan(x), x, xp.where(x < 0, math.pi, 0.0))


@aten("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self", promoting=True)
def xlogy(x: Any, y: Any) -> Any:
    """Return x · log(y), and 0 where x is 0 and y a number."""
    logs = xp.multiply(x, xp.log(y))
    return xp.where(xp.isnan(y), y, xp.where(xp.equal(x, 0), 0.0, logs))


@aten("nan_to_num.default")
def nan_to_num(x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    """Return x with NaN and infinities replaced by numbers."""
    if x.dtype.kind != "f":
        return x
    info = xp.finfo(x.dtype)
    x = xp.where(xp.isnan(x), 0.0 if nan is None else nan, x)
    x = xp.where(xp.equal(x, math.inf), info.max if posinf is None else posinf, x)
    return xp.where(xp.equal(x, -math.inf), info.min if neginf is None else neginf, x)


@aten("copysign.Tensor", "copysign.Scalar", promoting=True)
def copysign(x: Any, y: Any) -> Any:
    """Return x with the sign of y."""
    return xp.copysign(x, y)


@aten("ldexp.Tensor", promoting=True)
def ldexp(x: Any, exponent: Any) -> Any:
    """Return x times two to a power."""
    return x * xp.pow(2.0, exponent)


@aten("logit.default", promoting=True)
def logit(x: Any, eps: Any = None) -> Any:
    """Return log(x / (1 - x)), of x clipped where asked for."""
    if eps is not None:
        x = clamp(x, eps, 1 - eps)
    return xp.log(x / (1 - x))


@aten("sinc.default", promoting=True)
def sinc(x: Any) -> Any:
    """Return sin(pi x) / (pi x), and 1 at 0."""
    scaled = x * math.pi
    return xp.where(x == 0, 1.0, xp.sin(scaled) / xp.where(x == 0, 1.0, scaled))


@aten("heaviside.default", promoting=True)
def heaviside(x: Any, values: Any) -> Any:
    """Return 0 below 0, 1 above it, and a given value at it."""
    return xp.where(x == 0, values, (x > 0).astype(x.dtype))
