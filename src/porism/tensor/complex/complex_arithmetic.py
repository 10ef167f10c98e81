"""Complex arithmetic: sums, products, quotients, powers, comparisons, and conversions of type.

Results are NumPy's: a real operand is promoted to a complex one with the imaginary part 0 first,
products are computed by the plain formula, and quotients by Smith's method, without overflow of
the squared magnitude.
"""

from __future__ import annotations

import math
from typing import Any

from porism.base.dtypes import Kind
from porism.tensor import namespace, promotion
from porism.tensor.api import arithmetic, comparison, trigonometry
from porism.tensor.api.comparison import logical_and, logical_or, where
from porism.tensor.complex.complex_tensor import (
    ComplexTensor,
    as_complex,
    implements,
    is_complex,
    promoted,
)
from porism.tensor.conversion import as_tensor, broadcast
from porism.tensor.elementwise.real_functions import rad2deg
from porism.tensor.promotion import as_dtype, name_of, type_error
from porism.tensor.standard.devices import on_device
from porism.tensor.tensor import Tensor


def pair(real: Tensor, imag: Tensor) -> ComplexTensor:
    """Return a complex tensor of two parts, broadcast together.

    Its parts are tensors of its own: assigning to it changes no tensor that it was made of.
    """
    if real.shape != imag.shape:
        both = broadcast(real.node, imag.node)
        sizes = [Tensor(node) for node in both]
        if sizes[0].shape != sizes[1].shape:  # a scalar stays a scalar
            like = max(sizes, key=lambda x: x.ndim)
            sizes = [x if x.ndim else x.broadcast_to(like.shape) for x in sizes]
        real, imag = sizes
    return ComplexTensor(Tensor(real.node), Tensor(imag.node))


def parts(x: Any) -> tuple[Tensor, Tensor]:
    """Return the parts of an operand that is converted to a complex tensor."""
    z = as_complex(x)
    return z.real_part, z.imag_part


@implements("astype")
def _astype(x: Any, dtype: Any, *, copy: bool = True, device: Any = None) -> Tensor:
    wanted = as_dtype(dtype)
    if wanted.kind is Kind.COMPLEX:
        z = as_complex(x, wanted)
        return on_device(pair(z.real_part, z.imag_part), device)
    real, imag = parts(x)
    if wanted.kind is Kind.BOOL:
        return on_device(logical_or(real, imag), device)
    raise type_error(
        f"a complex tensor converted to {name_of(wanted)}",
        "its imaginary part would be lost",
        "convert porism.real(x), or porism.abs(x)",
    )


@implements("conj")
def _conj(x: Any) -> Tensor:
    real, imag = parts(x)
    return pair(real, -imag)


@implements("real")
def _real(x: Any) -> Tensor:
    return as_complex(x).real


@implements("imag")
def _imag(x: Any) -> Tensor:
    return as_complex(x).imag


@implements("angle")
def _angle(x: Any, deg: bool = False) -> Tensor:
    real, imag = parts(x)
    found = trigonometry.atan2(imag, real)
    return rad2deg(found) if deg else found


@implements("abs")
def _abs(x: Any) -> Tensor:
    real, imag = parts(x)
    return trigonometry.hypot(real, imag)


# -- arithmetic ------------------------------------------------------------------------------------


@implements("add")
def _add(x1: Any, x2: Any) -> Tensor:
    a, b = promoted(x1, x2)
    return pair(a.real_part + b.real_part, a.imag_part + b.imag_part)


@implements("subtract")
def _subtract(x1: Any, x2: Any) -> Tensor:
    a, b = promoted(x1, x2)
    return pair(a.real_part - b.real_part, a.imag_part - b.imag_part)


@implements("multiply")
def _multiply(x1: Any, x2: Any) -> ComplexTensor:
    x, y = promoted(x1, x2)
    a, b, c, d = x.real_part, x.imag_part, y.real_part, y.imag_part
    return pair(a * c - b * d, a * d + b * c)


@implements("divide")
def _divide(x1: Any, x2: Any) -> ComplexTensor:
    x, y = promoted(x1, x2)
    a, b, c, d = x.real_part, x.imag_part, y.real_part, y.imag_part
    size_c, size_d = arithmetic.abs(c), arithmetic.abs(d)
    wide = size_c >= size_d  # the real part of the divisor is the larger one
    large, small = where(wide, c, d), where(wide, d, c)
    zero = (large == 0) & (small == 0)
    ratio = where(zero, small, small / large)
    scale = where(zero, size_c + size_d, large + small * ratio)
    first, second = where(wide, a, b), where(wide, b, a)
    cross = second - first * ratio
    real = (first + second * ratio) / scale
    return pair(real, where(wide, cross, -cross) / scale)


@implements("negative")
def _negative(x: Any) -> Tensor:
    real, imag = parts(x)
    return pair(-real, -imag)


@implements("positive", "clone", "copy")
def _positive(x: Any) -> Tensor:
    return pair(*parts(x))


@implements("detach", "stop_gradient")
def _stop_gradient(x: Any) -> Tensor:
    stop = namespace.find("stop_gradient")
    return pair(*(stop(part) for part in parts(x)))


@implements("square")
def _square(x: Any) -> Tensor:
    return _multiply(x, x)


@implements("reciprocal")
def _reciprocal(x: Any) -> Tensor:
    return _divide(1, x)


@implements("sign")
def _sign(x: Any) -> Tensor:
    """Return z / |z|, and 0 of 0."""
    real, imag = parts(x)
    size = trigonometry.hypot(real, imag)
    zero = size == 0
    return pair(where(zero, size, real / size), where(zero, size, imag / size))


@implements("pow")
def _pow(x1: Any, x2: Any) -> Tensor:
    """Return powers: by products for a small whole exponent, else by exp(x2 * log(x1))."""
    if isinstance(x2, (int, float)) and x2 == int(x2 if math.isfinite(x2) else 0) and abs(x2) < 100:
        return _whole_power(promoted(x1, x2)[0], int(x2))
    from porism.tensor.complex.complex_exponentials import exp_complex, log_complex

    a, b = promoted(x1, x2)
    general = exp_complex(_multiply(b, log_complex(a)))
    zero_base = (a.real_part == 0) & (a.imag_part == 0)
    zero_exponent = (b.real_part == 0) & (b.imag_part == 0)
    vanishes = (b.real_part > 0) & (b.imag_part == 0)
    at_zero = where(vanishes, 0.0, math.nan)
    real = where(zero_exponent, 1.0, where(zero_base, at_zero, general.real_part))
    imag = where(zero_exponent, 0.0, where(zero_base, at_zero, general.imag_part))
    part = promotion.PART_TYPE[a.dtype.base]
    return pair(arithmetic.astype(real, part), arithmetic.astype(imag, part))


def _whole_power(x: ComplexTensor, exponent: int) -> Tensor:
    """Return a power with a whole exponent, by repeated squaring."""
    if exponent < 0:
        return _reciprocal(_whole_power(x, -exponent))
    result: ComplexTensor | None = None
    factor = x
    while exponent:
        if exponent % 2:
            result = factor if result is None else _multiply(result, factor)
        exponent //= 2
        factor = _multiply(factor, factor) if exponent else factor
    if result is None:
        return pair(x.real_part.ones_like(), x.real_part.zeros_like())
    return result


@implements("round")
def _round(x: Any, decimals: int = 0) -> Tensor:
    real, imag = parts(x)
    return pair(arithmetic.round(real, decimals), arithmetic.round(imag, decimals))


# -- comparison and logic --------------------------------------------------------------------------


@implements("equal")
def _equal(x1: Any, x2: Any) -> Tensor:
    a, b = promoted(x1, x2)
    return (a.real_part == b.real_part) & (a.imag_part == b.imag_part)


@implements("not_equal")
def _not_equal(x1: Any, x2: Any) -> Tensor:
    a, b = promoted(x1, x2)
    return (a.real_part != b.real_part) | (a.imag_part != b.imag_part)


@implements("isnan")
def _isnan(x: Any) -> Tensor:
    real, imag = parts(x)
    return comparison.isnan(real) | comparison.isnan(imag)


@implements("isinf")
def _isinf(x: Any) -> Tensor:
    real, imag = parts(x)
    return comparison.isinf(real) | comparison.isinf(imag)


@implements("isfinite")
def _isfinite(x: Any) -> Tensor:
    real, imag = parts(x)
    return comparison.isfinite(real) & comparison.isfinite(imag)


def nonzero_bools(x: Any) -> Tensor:
    """Return whether each number of an operand, complex or not, is nonzero."""
    if not is_complex(x):
        return as_tensor(x)
    real, imag = parts(x)
    return logical_or(real, imag)


@implements("logical_and")
def _logical_and(x1: Any, x2: Any) -> Tensor:
    return logical_and(nonzero_bools(x1), nonzero_bools(x2))


@implements("logical_or")
def _logical_or(x1: Any, x2: Any) -> Tensor:
    return logical_or(nonzero_bools(x1), nonzero_bools(x2))


@implements("logical_xor")
def _logical_xor(x1: Any, x2: Any) -> Tensor:
    return comparison.logical_xor(nonzero_bools(x1), nonzero_bools(x2))


@implements("logical_not")
def _logical_not(x: Any) -> Tensor:
    return comparison.logical_not(nonzero_bools(x))


@implements("where")
def _where(condition: Any, x1: Any, x2: Any) -> Tensor:
    chosen = nonzero_bools(condition)
    if not is_complex(x1) and not is_complex(x2):
        return where(chosen, x1, x2)
    a, b = promoted(x1, x2)
    return pair(where(chosen, a.real_part, b.real_part), where(chosen, a.imag_part, b.imag_part))
