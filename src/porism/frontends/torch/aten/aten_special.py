"""Special functions of ATen: of gamma, zeta and Bessel, and polynomials.

Those of float32 and narrower types are computed in float64 and rounded once. Rows that have to know
how many terms of a sum there are take values.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten.aten_table import UncoveredFormError, aten
from porism.tensor.tensor import Tensor


def _wide(x: Any) -> Any:
    """Return narrow floats in float64; leave float64 to torch, which has more digits to spare."""
    if x.dtype.itemsize > 4:
        raise UncoveredFormError("special functions of float64")
    return x.astype("float64")


# -- gamma functions -------------------------------------------------------------------------------

STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
"""The series of log-gamma in odd powers of 1/x, after Stirling."""

DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)
"""The series of digamma in even powers of 1/x."""

FAR = 10
"""From here on the series of six terms are exact to 1e-14."""


def _series(coefficients: tuple[float, ...], x: Any) -> Any:
    """Return a polynomial, by Horner's rule."""
    total: Any = 0.0
    for c in reversed(coefficients):
        total = total * x + c
    return total


@aten("lgamma.default", promoting=True)
def lgamma(x: Any) -> Any:
    """Return the logarithm of the absolute value of the gamma function."""
    wide = _wide(x)
    positive = _log_gamma_of_positive(xp.where(wide < 0.5, 1 - wide, wide))
    fraction = wide - xp.round(wide)
    reflected = math.log(math.pi) - xp.log(xp.abs(xp.sin(math.pi * fraction))) - positive
    result = xp.where(wide < 0.5, reflected, positive)
    pole = xp.isinf(wide) | ((wide <= 0) & (fraction == 0))
    return xp.where(pole, math.inf, result)


def _log_gamma_of_positive(x: Any) -> Any:
    """Return log-gamma of numbers from 0.5 on; small ones are moved up by a product of factors."""
    product = xp.ones_like(x)
    for _ in range(FAR):
        near = x < FAR
        product = xp.where(near, product * x, product)
        x = xp.where(near, x + 1, x)
    tail = _series(STIRLING, 1 / (x * x)) / x
    return (x - 0.5) * xp.log(x) - x + 0.5 * math.log(2 * math.pi) + tail - xp.log(product)


@aten("digamma.default", promoting=True)
def digamma(x: Any) -> Any:
    """Return the derivative of log-gamma: infinite at 0, and undefined at integers below."""
    wide = _wide(x)
    positive = _digamma_of_positive(xp.where(wide < 0, 1 - wide, wide))
    fraction = wide - xp.trunc(wide)
    reflected = positive - math.pi / xp.tan(math.pi * fraction)
    result = xp.where(wide < 0, xp.where(fraction == 0, math.nan, reflected), positive)
    return xp.where(wide == 0, xp.copysign(xp.full_like(wide, math.inf), -wide), result)


def _digamma_of_positive(x: Any) -> Any:
    """Return digamma of positive numbers: by the sum of some reciprocals where they are small."""
    total = xp.zeros_like(x)
    for _ in range(FAR):
        near = x < FAR
        total = xp.where(near, total - 1 / x, total)
        x = xp.where(near, x + 1, x)
    square = 1 / (x * x)
    return total + xp.log(x) - 0.5 / x - square * _series(DIGAMMA, square)


def _trigamma(x: Any) -> Any:
    """Return the derivative of digamma, in the precision of x and by the formula of torch."""
    low = x < 0.5
    sine = xp.sin(math.pi * x)
    total = xp.where(low, -(math.pi * math.pi) / (sine * sine), 0.0)
    x = xp.where(low, 1 - x, x)
    for _ in range(6):
        total = total + 1 / (x * x)
        x = x + 1
    square = 1 / (x * x)
    tail = 1 / 6 - square * (1 / 30 - square * (1 / 42))
    total = total + (1 + 1 / (2 * x) + square * tail) / x
    return xp.where(low, -total, total)


@aten("polygamma.default", promoting=True, host=True)
def polygamma(n: int, x: Any) -> Any:
    """Return the n-th derivative of digamma."""
    if n == 0:
        return digamma(x)
    if n == 1:
        return _trigamma(x)
    return (-1) ** (n + 1) * math.factorial(n) * zeta(xp.full_like(x, n + 1), x).astype("float64")


# -- the zeta function of Hurwitz ------------------------------------------------------------------

ZETA_TERMS = 12
"""How many terms are added before the series for the rest of the sum begins."""

MOST_ZETA_TERMS = 1024
"""The most terms that are added for the sake of negative arguments; chosen by hand."""

EULER_MACLAURIN = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)
"""Bernoulli numbers over factorials: the corrections of an integral to a sum."""


@aten("special_zeta.default", "special_zeta.other_scalar", promoting=True, host=True)
@aten("special_zeta.self_scalar", promoting=True, host=True)
def zeta(s: Any, q: Any) -> Any:
    """Return the sum of (q + k)⁻ˢ over all k from 0; infinite at poles, undefined for s < 1."""
    like = s if isinstance(s, Tensor) else q
    s, q = (v if isinstance(v, Tensor) else xp.full((), v, dtype=like.dtype) for v in (s, q))
    s, q = xp.broadcast_arrays(_wide(s), _wide(q))
    if not q.size:
        return q
    least = float(xp.min(xp.where(xp.isfinite(q), q, 0.0)))
    terms = ZETA_TERMS if least >= 0 else ZETA_TERMS + math.ceil(-least)
    if terms > MOST_ZETA_TERMS:
        raise UncoveredFormError("the zeta function far below 0")
    terms = 1 << (terms - 1).bit_length()  # few different sizes: each is compiled
    whole = q == xp.floor(q)
    regular = (s > 1) & xp.isfinite(s) & ((q > 0) | (xp.logical_not(whole) & (s == xp.floor(s))))
    base, power = xp.where(regular, q, 1.0), xp.where(regular, s, 2.0)
    shifted = base[..., None] + xp.arange(terms).astype("float64")
    total = xp.sum(_negative_power(shifted, power[..., None]), axis=-1)
    end = base + terms
    rest = _negative_power(end, power)
    total = total + rest * end / (power - 1) + 0.5 * rest
    factor = rest / end * power
    for k, coefficient in enumerate(EULER_MACLAURIN):
        total = total + coefficient * factor
        factor = factor * (power + 2 * k + 1) * (power + 2 * k + 2) / (end * end)
    pole = (s == 1) | (xp.logical_not(s < 1) & (q <= 0) & whole)
    limit = xp.where(q < 1, math.inf, xp.where(q == 1, 1.0, math.nan))  # as torch has it
    last = xp.where(s == math.inf, limit, math.nan)
    return xp.where(regular, total, xp.where(pole, math.inf, last))


def _negative_power(x: Any, s: Any) -> Any:
    """Return x⁻ˢ; of negative numbers, for whole s, with the sign of an odd power."""
    power = xp.pow(xp.abs(x), -s)
    return xp.where((x < 0) & (xp.remainder(s, 2.0) == 1), -power, power)


# -- modified functions of Bessel ------------------------------------------------------------------

LARGE = 30.0
"""From here on the asymptotic series is used; below, 32 points of the integral are enough."""

TERMS = 12
"""How many terms of each series are added: exact to 1e-10 from LARGE on, and below 1."""


def _scaled_bessel(order: int, x: Any) -> Any:
    """Return the modified function of Bessel of order 0 or 1, times exp(-x), for x from 0 on.

    It is the mean of cos(order · t) exp(x (cos t - 1)) over t, periodic, so that evenly spaced
    points give all digits; that of order 1 is a power series near 0, where the terms cancel.
    """
    near = xp.minimum(x, LARGE)
    cosines = [math.cos(math.pi * (k + 0.5) / 32) for k in range(32)]
    points = xp.asarray(cosines, dtype="float64")
    weights = xp.exp(near[..., None] * (points - 1))
    mean = xp.mean(weights * points if order else weights, axis=-1)
    if order:
        square, small = near * near / 4, xp.minimum(near, 1.0)
        factors = [1 / (math.factorial(k) * math.factorial(k + 1)) for k in range(TERMS)]
        series = _series(tuple(factors), xp.minimum(square, 1.0))
        mean = xp.where(near < 1, small / 2 * series * xp.exp(-small), mean)
    far = xp.maximum(x, LARGE)
    total, term = xp.ones_like(far), xp.ones_like(far)
    for k in range(1, TERMS):
        term = term * -(4 * order - (2 * k - 1) ** 2) / (8 * k * far)
        total = total + term
    return xp.where(x < LARGE, mean, xp.where(xp.isnan(x), x, total / xp.sqrt(2 * math.pi * far)))


def _bessel(order: int, scaled: bool, x: Any) -> Any:
    """Return a modified function of Bessel of the first kind; NaN at infinity, as in torch."""
    wide = _wide(x)
    size = xp.abs(wide)
    result = _scaled_bessel(order, size)
    if not scaled:
        result = result * xp.exp(size)
    return xp.where(wide < 0, -result, result) if order else result


for _names, _order, _scaled in (
    (("i0", "special_i0", "special_modified_bessel_i0"), 0, False),
    (("special_i1", "special_modified_bessel_i1"), 1, False),
    (("special_i0e",), 0, True),
    (("special_i1e",), 1, True),
):
    aten(*(f"{name}.default" for name in _names), promoting=True)(
        functools.partial(_bessel, _order, _scaled)
    )


@aten("special_spherical_bessel_j0.default", promoting=True)
def spherical_bessel(x: Any) -> Any:
    """Return sin(x) / x, and 1 at 0."""
    wide = _wide(x)
    quotient = xp.sin(wide) / xp.where(wide == 0, 1.0, wide)
    return xp.where(wide == 0, 1.0, xp.where(xp.isinf(wide), 0.0, quotient))


# -- polynomials -----------------------------------------------------------------------------------

MOST_DEGREES = 64
"""The largest degree of a polynomial that is unrolled; chosen by hand."""


def _polynomials(name: str, first: Callable[[Any], Any], step: Callable[..., Any]) -> None:
    """Register orthogonal polynomials of a tensor, by their recurrence.

    Degrees are one number, or a number for each element.
    """

    def of_degree(x: Any, n: Any) -> Any:
        if isinstance(n, Tensor) or n != int(n) or n > MOST_DEGREES:
            raise UncoveredFormError("polynomials of a degree that is not known")
        if n < 0:
            return xp.zeros_like(x)
        before, now = xp.ones_like(x), first(x)
        if n == 0:
            return before
        for k in range(1, int(n)):
            before, now = now, step(x, k, now, before)
        return now

    def of_degrees(x: Any, n: Any) -> Any:
        x = x if isinstance(x, Tensor) else xp.full((), x, dtype=n.dtype)
        x, n = xp.broadcast_arrays(x, xp.trunc(n))
        if not n.size:
            return x
        lowest, highest = float(xp.min(n)), float(xp.max(n))
        if not (math.isfinite(lowest) and highest <= MOST_DEGREES):
            raise UncoveredFormError("polynomials of high degrees")
        before, now = xp.ones_like(x), first(x)
        result = xp.where(n == 0, before, xp.where(n == 1, now, 0.0))
        for k in range(1, int(highest)):
            before, now = now, step(x, k, now, before)
            result = xp.where(n == k + 1, now, result)
        return result

    aten(f"special_{name}.n_scalar", promoting=True)(of_degree)
    aten(f"special_{name}.default", f"special_{name}.x_scalar", promoting=True, host=True)(
        of_degrees
    )


def _chebyshev(x: Any, k: int, now: Any, before: Any) -> Any:
    """Return the next polynomial of Chebyshev."""
    return 2 * x * now - before


for _kind, _first in {
    "t": lambda x: x,
    "u": lambda x: 2 * x,
    "v": lambda x: 2 * x - 1,
    "w": lambda x: 2 * x + 1,
}.items():
    _polynomials(f"chebyshev_polynomial_{_kind}", _first, _chebyshev)
    _polynomials(
        f"shifted_chebyshev_polynomial_{_kind}",
        lambda x, first=_first: first(2 * x - 1),  # type: ignore[misc]
        lambda x, k, now, before: _chebyshev(2 * x - 1, k, now, before),
    )
_polynomials("hermite_polynomial_h", lambda x: 2 * x, lambda x, k, a, b: 2 * x * a - 2 * k * b)
_polynomials("hermite_polynomial_he", lambda x: x, lambda x, k, a, b: x * a - k * b)
_polynomials(
    "laguerre_polynomial_l",
    lambda x: 1 - x,
    lambda x, k, a, b: ((2 * k + 1 - x) * a - k * b) / (k + 1),
)
_polynomials(
    "legendre_polynomial_p",
    lambda x: x,
    lambda x, k, a, b: ((2 * k + 1) * x * a - k * b) / (k + 1),
)
