"""Complex exponentials: exp, log, sqrt, and the trigonometric and hyperbolic families.

Special values are those of C's Annex G, which the Array API repeats. Circular functions are
hyperbolic ones rotated by a right angle: sin z = -i sinh iz. Inverse functions are Kahan's formulas
on square roots of 1 ± z, which keep the signs of zeros on branch cuts; far from 0 they are
logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from porism.base import dtypes
from porism.tensor.api.arithmetic import abs, copysign, maximum, minimum, signbit, sqrt
from porism.tensor.api.comparison import isfinite, isinf, isnan, where
from porism.tensor.api.exponentials import asinh, cosh, exp, expm1, log, log1p, sinh
from porism.tensor.api.trigonometry import atan2, cos, hypot, sin, tan
from porism.tensor.complex.complex_arithmetic import pair
from porism.tensor.complex.complex_tensor import ComplexTensor, as_complex, implements
from porism.tensor.tensor import Tensor

Parts = tuple[Tensor, Tensor]


def _parts(x: Any) -> Parts:
    """Return the parts of an operand."""
    z = as_complex(x)
    return z.real_part, z.imag_part


def _is_wide(x: Tensor) -> bool:
    """Whether a part has 64 bits."""
    return x.dtype.base is dtypes.f64


# -- exponentials and logarithms -------------------------------------------------------------------


def _scaled_exp(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return two factors whose product is e^x: neither overflows where a part of e^z does not."""
    shift, limit = (500.0, 700.0) if _is_wide(x) else (44.0, 80.0)
    large = x > limit
    return exp(where(large, x - shift, x)), where(large, math.exp(shift), 1.0).astype(x.dtype)


def exp_complex(z: Any) -> ComplexTensor:
    """Return e^z: e^x (cos y + i sin y)."""
    x, y = _parts(z)
    size, scale = _scaled_exp(x)
    real, imag = size * cos(y) * scale, size * sin(y) * scale
    real_axis = y == 0
    vanishes = (x == -math.inf) & ~isfinite(y)
    endless = (x == math.inf) & ~isfinite(y)
    real = where(real_axis, size * scale, where(vanishes, 0.0, where(endless, math.inf, real)))
    imag = where(real_axis, y, where(vanishes, 0.0, where(endless, math.nan, imag)))
    return pair(real, imag)


@implements("exp")
def _exp(x: Any) -> Tensor:
    return exp_complex(x)


@implements("expm1")
def _expm1(z: Any) -> Tensor:
    """Return e^z - 1, without cancellation near 0."""
    x, y = _parts(z)
    whole = exp_complex(z)
    half = sin(y * 0.5)
    near = expm1(x) * cos(y) - 2.0 * half * half
    real = where(y == 0, expm1(x), where(isfinite(x) & (abs(x) < 1) & isfinite(y), near, 0.0))
    far = (y != 0) & ~(isfinite(x) & (abs(x) < 1) & isfinite(y))
    real = where(far, whole.real_part - 1.0, where((x == 0) & (y == 0), 0.0, real))
    return pair(real, whole.imag_part)


def _log_size(x: Tensor, y: Tensor) -> Tensor:
    """Return log |z|, without overflow, and without cancellation near |z| = 1."""
    large, small = maximum(abs(x), abs(y)), minimum(abs(x), abs(y))
    ratio = where((large == 0) | isinf(large), 0.0, small / large)
    general = log(large) + 0.5 * log1p(ratio * ratio)
    near = 0.5 * log1p((large - 1.0) * (large + 1.0) + small * small)
    result = where((large > 0.5) & (large < 2.0) & (small < 2.0), near, general)
    return where(isinf(x) | isinf(y), math.inf, result)


def log_complex(z: Any) -> ComplexTensor:
    """Return the logarithm of z: log |z| + i arg z."""
    x, y = _parts(z)
    return pair(_log_size(x, y), atan2(y, x))


@implements("log")
def _log(x: Any) -> Tensor:
    return log_complex(x)


@implements("log2")
def _log2(x: Any) -> Tensor:
    return _scaled_log(x, 1 / math.log(2))


@implements("log10")
def _log10(x: Any) -> Tensor:
    return _scaled_log(x, 1 / math.log(10))


def _scaled_log(x: Any, factor: float) -> Tensor:
    """Return the logarithm times a factor, which is applied to both parts."""
    z = log_complex(x)
    return pair(z.real_part * factor, z.imag_part * factor)


@implements("log1p")
def _log1p(z: Any) -> Tensor:
    """Return log(1 + z), without cancellation near 0."""
    x, y = _parts(z)
    near = 0.5 * log1p(x * (x + 2.0) + y * y)
    close = (abs(x) < 0.5) & (abs(y) < 0.5)
    return pair(where(close, near, _log_size(x + 1.0, y)), atan2(y, x + 1.0))


def sqrt_complex(z: Any) -> ComplexTensor:
    """Return the square root of z with a real part that is not negative."""
    x, y = _parts(z)
    huge, tiny = (2.0**1000, 2.0**-1000) if _is_wide(x) else (2.0**120, 2.0**-100)
    most = maximum(abs(x), abs(y))
    factor = where(most > huge, 0.0625, where(most < tiny, 2.0**60, 1.0)).astype(x.dtype)
    back = where(most > huge, 4.0, where(most < tiny, 2.0**-30, 1.0)).astype(x.dtype)
    a, b = x * factor, y * factor
    root = sqrt((abs(a) + hypot(a, b)) * 0.5)
    other = where(root == 0, 0.0, abs(b) / (root * 2.0))
    left = x < 0
    real = where(left, other, root) * back
    imag = copysign(where(left, root, other) * back, y)
    # Infinities: an infinite imaginary part wins, then an infinite real part.
    real = where(x == -math.inf, where(isnan(y), math.nan, 0.0), real)
    real = where(x == math.inf, math.inf, real)
    imag = where(x == -math.inf, copysign(y.full_like(math.inf), y), imag)
    imag = where(x == math.inf, where(isnan(y), math.nan, copysign(y.zeros_like(), y)), imag)
    return pair(where(isinf(y), math.inf, real), where(isinf(y), y, imag))


@implements("sqrt")
def _sqrt(x: Any) -> Tensor:
    return sqrt_complex(x)


# -- hyperbolic and circular functions -------------------------------------------------------------


def _sinh_complex(z: Any) -> ComplexTensor:
    """Return sinh z = sinh x cos y + i cosh x sin y."""
    x, y = _parts(z)
    real, imag = _hyperbolic_products(x, y, sinh, cosh)
    endless = isinf(x) & ~isfinite(y)
    real = where(y == 0, sinh(x), where(x == 0, x, where(endless, x, real)))
    imag = where(y == 0, y, where(endless, math.nan, imag))
    return pair(real, imag)


def _cosh_complex(z: Any) -> ComplexTensor:
    """Return cosh z = cosh x cos y + i sinh x sin y."""
    x, y = _parts(z)
    real, imag = _hyperbolic_products(x, y, cosh, sinh)
    endless = isinf(x) & ~isfinite(y)
    real = where(y == 0, cosh(x), where(endless, math.inf, real))
    zero = copysign(y.zeros_like(), where(signbit(x), -y, y))
    unknown = (x == 0) & ~isfinite(y)
    imag = where((y == 0) | unknown, zero, where(endless, math.nan, imag))
    return pair(real, imag)


def _hyperbolic_products(
    x: Tensor, y: Tensor, first: Callable[..., Any], second: Callable[..., Any]
) -> Parts:
    """Return first(x) cos y and second(x) sin y, scaled where e^x overflows."""
    limit = 700.0 if _is_wide(x) else 80.0
    size, scale = _scaled_exp(abs(x))
    large = abs(x) > limit
    real, imag = first(x) * cos(y), second(x) * sin(y)
    sign = where(x < 0, -1.0, 1.0).astype(x.dtype)
    far_real, far_imag = size * 0.5 * cos(y) * scale, size * 0.5 * sin(y) * scale
    far_real = far_real * sign if first is sinh else far_real
    far_imag = far_imag * sign if second is sinh else far_imag
    return where(large, far_real, real), where(large, far_imag, imag)


def _tanh_complex(z: Any) -> ComplexTensor:
    """Return tanh z by Kahan's formula, and its limit for a large real part."""
    x, y = _parts(z)
    limit = 22.0 if _is_wide(x) else 11.0
    large = abs(x) > limit
    safe = where(large, 0.0, x)
    t, s = tan(y), sinh(safe)
    beta = t * t + 1.0
    denominator = beta * s * s + 1.0
    real = where(isinf(t), 1.0 / s, beta * sqrt(s * s + 1.0) * s / denominator)
    imag = where(isinf(t), 1.0 / t, t / denominator)
    finite_y = where(isfinite(y), y, 1.0)
    faded = 4.0 * sin(finite_y) * cos(finite_y) * exp(-2.0 * abs(x))
    real = where(large, copysign(x.ones_like(), x), real)
    faded = where(isinf(x), copysign(y.zeros_like(), y), faded)
    imag = where(large, faded, imag)
    bad = ~isfinite(y) & isfinite(x)
    real = where(bad & (x != 0), math.nan, where(x == 0, x, where(isnan(x), math.nan, real)))
    imag = where(bad, math.nan, where(y == 0, y, where(isnan(x), math.nan, imag)))
    return pair(real, imag)


def _turned(function: Callable[[Any], ComplexTensor], z: Any) -> ComplexTensor:
    """Return -i f(iz): the circular function of a hyperbolic one, or the inverse of it."""
    x, y = _parts(z)
    result = function(pair(-y, x))
    return pair(result.imag_part, -result.real_part)


@implements("sinh")
def _sinh(x: Any) -> Tensor:
    return _sinh_complex(x)


@implements("cosh")
def _cosh(x: Any) -> Tensor:
    return _cosh_complex(x)


@implements("tanh")
def _tanh(x: Any) -> Tensor:
    return _tanh_complex(x)


@implements("sin")
def _sin(x: Any) -> Tensor:
    return _turned(_sinh_complex, x)


@implements("cos")
def _cos(z: Any) -> Tensor:
    x, y = _parts(z)
    return _cosh_complex(pair(-y, x))


@implements("tan")
def _tan(x: Any) -> Tensor:
    return _turned(_tanh_complex, x)


# -- inverse functions -----------------------------------------------------------------------------


def _roots(x: Tensor, y: Tensor) -> tuple[ComplexTensor, ComplexTensor]:
    """Return the square roots of 1 - z and 1 + z."""
    return sqrt_complex(pair(1.0 - x, -y)), sqrt_complex(pair(1.0 + x, y))


def _is_far(x: Tensor, y: Tensor) -> Tensor:
    """Whether |z| is so large that an inverse function is a logarithm."""
    limit = 2.0**60 if _is_wide(x) else 2.0**26
    return (abs(x) > limit) | (abs(y) > limit)


def _asin_complex(z: Any) -> ComplexTensor:
    """Return the inverse sine."""
    x, y = _parts(z)
    minus, plus = _roots(x, y)
    a, b, c, d = minus.real_part, minus.imag_part, plus.real_part, plus.imag_part
    near_real, near_imag = atan2(x, a * c - b * d), asinh(a * d - b * c)
    far_imag = copysign(_log_size(x, y) + math.log(2), y)
    far = _is_far(x, y)
    real = where(far, atan2(x, abs(y)), near_real)
    imag = where(far, far_imag, near_imag)
    # NaN: a part that is known in the limit stays known.
    real = where((x == 0) & isnan(y), x, where(isnan(x) & isinf(y), math.nan, real))
    imag = where(isinf(y) & isnan(x), y, where(isinf(x) & isnan(y), math.inf, imag))
    return pair(real, imag)


def _acos_complex(z: Any) -> ComplexTensor:
    """Return the inverse cosine."""
    x, y = _parts(z)
    minus, plus = _roots(x, y)
    a, b, c, d = minus.real_part, minus.imag_part, plus.real_part, plus.imag_part
    near_real, near_imag = 2.0 * atan2(a, c), asinh(c * b - d * a)
    far = _is_far(x, y)
    real = where(far, atan2(abs(y), x), near_real)
    imag = where(far, copysign(_log_size(x, y) + math.log(2), -y), near_imag)
    real = where((x == 0) & isnan(y), math.pi / 2, real)
    imag = where(isinf(y) & isnan(x), -y, where(isinf(x) & isnan(y), -math.inf, imag))
    return pair(real, imag)


def _acosh_complex(z: Any) -> ComplexTensor:
    """Return the inverse hyperbolic cosine: ±i acos z, with a real part that is not negative."""
    _, y = _parts(z)
    angle = _acos_complex(z)
    real = abs(angle.imag_part)
    imag = copysign(angle.real_part, y)
    return pair(real, imag)


def _atanh_complex(z: Any) -> ComplexTensor:
    """Return the inverse hyperbolic tangent."""
    x, y = _parts(z)
    size = abs(x)
    one = 1.0 - size
    squared = one * one + y * y
    near = 0.25 * log1p(4.0 * size / squared)
    far_real = where(isinf(x) | isinf(y), 0.0, 1.0 / (x * (1.0 + (y / x) * (y / x))))
    far_real = where(abs(y) > size, x / y / y / (1.0 + (x / y) * (x / y)), far_real)
    far_real = where(isinf(x) | isinf(y), 0.0, far_real)
    far = _is_far(x, y)
    real = copysign(where(far, abs(far_real), near), x)
    imag = 0.5 * atan2(2.0 * y, one * (1.0 + size) - y * y)
    imag = where(far, copysign(y.full_like(math.pi / 2), y), imag)
    real = where(isnan(x) & ~isinf(y), math.nan, where((x == 0) & isnan(y), x, real))
    imag = where(isnan(y), math.nan, imag)
    return pair(real, imag)


@implements("asin")
def _asin(x: Any) -> Tensor:
    return _asin_complex(x)


@implements("acos")
def _acos(x: Any) -> Tensor:
    return _acos_complex(x)


@implements("acosh")
def _acosh(x: Any) -> Tensor:
    return _acosh_complex(x)


@implements("atanh")
def _atanh(x: Any) -> Tensor:
    return _atanh_complex(x)


@implements("asinh")
def _asinh(x: Any) -> Tensor:
    return _turned(_asin_complex, x)


@implements("atan")
def _atan(x: Any) -> Tensor:
    return _turned(_atanh_complex, x)
