"""Fourier stages: the discrete Fourier transform of parts of shape (rows, n, columns), along n.

A transform of n = r1 · r2 · … elements is a stage for each factor (Stockham's algorithm, which
needs no bit reversal). A stage views each row as (r, m, s), with m the product of the factors after
it, and s of the columns and the factors before, and computes

    y[p, k, q] = exp(-2πi p k / (r m)) · sum over j of exp(-2πi j k / r) · x[j, p, q]

in a kernel for each part, vectorized along q or k. Lengths with a large prime factor are
convolutions with a chirp (Bluestein's algorithm), by transforms of a length with small factors.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from porism.tensor import primitive
from porism.tensor.api.comparison import where
from porism.tensor.conversion import own_array
from porism.tensor.fourier.twiddle_factors import roots, table
from porism.tensor.movement.joining import concat, stack
from porism.tensor.movement.pad import pad
from porism.tensor.shapes import product
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor

Pair = tuple[Tensor, Tensor]

LARGEST_FACTOR: Final = 31
"""The largest prime factor with a stage of its own: r² products for r elements. By hand."""


def factorize(n: int) -> list[int]:
    """Return factors of n in the order of the stages: fours first, then primes.

    >>> factorize(96), factorize(8), factorize(1)
    ([4, 4, 3, 2], [4, 2], [])
    """
    factors: list[int] = []
    while n % 4 == 0:
        factors.append(4)
        n //= 4
    twos = [2] if n % 2 == 0 else []
    n //= len(twos) + 1
    divisor = 3
    odd: list[int] = []
    while n > 1:
        if n % divisor == 0:
            odd.append(divisor)
            n //= divisor
        elif divisor * divisor > n:
            divisor = n
        else:
            divisor += 2
    return [*factors, *odd, *twos]


def stored(x: Tensor) -> Tensor:
    """Return a tensor whose values are materialized."""
    return Tensor(primitive.contiguous(x.node, "fft"))


def transform(real: Tensor, imag: Tensor) -> Pair:
    """Return the transform along the second axis, of known size, of two parts of one shape."""
    rows, n, columns = real.shape
    assert isinstance(n, int)
    assert isinstance(columns, int)
    if n < 2 or product((rows, columns)) == 0:
        return real, imag
    factors = factorize(n)
    if max(factors) > LARGEST_FACTOR:
        return _by_chirps(real, imag)
    before, after = columns, n
    parts = real, imag
    for k, factor in enumerate(factors):
        after //= factor
        real, imag = _stage(*parts, factor, after, before)
        last = k == len(factors) - 1
        parts = (real, imag) if last else (stored(real), stored(imag))
        before *= factor
    return parts[0].reshape(rows, n, columns), parts[1].reshape(rows, n, columns)


def inverse(real: Tensor, imag: Tensor) -> Pair:
    """Return the inverse transform, not divided by n: that with the parts exchanged."""
    swapped = transform(imag, real)
    return swapped[1], swapped[0]


def _stage(real: Tensor, imag: Tensor, r: int, m: int, s: int) -> Pair:
    """Return the result of one stage, as (rows, m, r, s)."""
    dtype = real.node.dtype
    xr, xi = real.reshape(-1, r, m, s), imag.reshape(-1, r, m, s)
    rows = xr.shape[0]
    inner = table(("stage", r), dtype, lambda: _clean(roots(np.outer(range(r), range(r)), r)))
    coefficients = [[part[:, j].reshape(1, 1, r, 1) for part in inner] for j in range(r)]
    total: Pair | None = None
    for j in range(r):
        x, y = xr[:, j].reshape(rows, m, 1, s), xi[:, j].reshape(rows, m, 1, s)
        c, d = coefficients[j]
        term = (x, y) if j == 0 else (c * x - d * y, c * y + d * x)
        total = term if total is None else (total[0] + term[0], total[1] + term[1])
    assert total is not None
    if m > 1:
        outer = table(("twiddle", r, m), dtype, lambda: roots(np.outer(range(m), range(r)), r * m))
        c, d = (part.reshape(1, m, r, 1) for part in outer)
        total = total[0] * c - total[1] * d, total[0] * d + total[1] * c
    return total


def _clean(
    values: np.ndarray[tuple[int, ...], np.dtype[np.complex128]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.complex128]]:
    """Return roots of unity with exact zeros in place of rounding errors."""
    tiny = 1e-15
    real = np.where(np.abs(values.real) < tiny, 0, values.real)
    return real + 1j * np.where(np.abs(values.imag) < tiny, 0, values.imag)


def convolution_length(least: int) -> int:
    """Return the cheapest length of a transform that has at least so many elements.

    A stage of factor r loads and multiplies r elements for each one, and stores it; so the cost is
    estimated as the length times the sum of r + 2.

    >>> convolution_length(20013), convolution_length(16000)
    (20480, 16384)
    """
    lengths = [
        odd << max((least - 1) // odd, 0).bit_length() for odd in (1, 3, 5, 9, 15, 25, 27, 45, 75)
    ]
    return min(lengths, key=lambda n: n * sum(factor + 2 for factor in factorize(n)))


def _by_chirps(real: Tensor, imag: Tensor) -> Pair:
    """Return the transform of any length n by a circular convolution with a chirp."""
    n = static_size(real.shape[1], "fft")
    length = convolution_length(2 * n - 1)
    dtype = real.node.dtype
    c, d = table(("chirp", n), dtype, lambda: _chirp(n)[:, None])
    response = table(("response", n), dtype, lambda: _response(n, length)[:, None])
    parts = real * c - imag * d, real * d + imag * c
    padding = [(0, 0), (0, length - n), (0, 0)]
    xr, xi = transform(*(stored(pad(part, padding)) for part in parts))
    yr, yi = xr * response[0] - xi * response[1], xr * response[1] + xi * response[0]
    zr, zi = (part[:, :n] for part in inverse(stored(yr), stored(yi)))
    return zr * c - zi * d, zr * d + zi * c


def _chirp(n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.complex128]]:
    """Return exp(-πi k² / n) for k = 0 … n - 1."""
    squares = np.array([k * k % (2 * n) for k in range(n)])
    return np.asarray(roots(squares, 2 * n))


def _response(n: int, length: int) -> np.ndarray[tuple[int, ...], np.dtype[np.complex128]]:
    """Return the transform of the conjugate chirp, divided by the length of the convolution."""
    chirp = np.conj(_chirp(n))
    kernel = np.zeros(length, np.complex128)
    kernel[:n] = chirp
    kernel[length - n + 1 :] = chirp[:0:-1]
    return np.asarray(np.fft.fft(kernel) / length)


# -- transforms of real tensors --------------------------------------------------------------------


def transform_real(x: Tensor) -> Pair:
    """Return the first n // 2 + 1 elements of the transform of a real tensor.

    An even n is a complex transform of half the length, whose parts are the elements with even and
    odd indices.
    """
    n = static_size(x.shape[1], "rfft")
    if n % 2:
        real, imag = transform(x, x.zeros_like())
        return real[:, : n // 2 + 1], imag[:, : n // 2 + 1]
    m = n // 2
    pairs = x.reshape(x.shape[0], m, 2, x.shape[2])
    real, imag = transform(pairs[:, :, 0], pairs[:, :, 1])
    zr, zi = (stored(concat([part, part[:, :1]], 1)) for part in (real, imag))
    rr, ri = zr.flip(1), zi.flip(1)
    c, d = table(("real", n), zr.node.dtype, lambda: roots(np.arange(m + 1)[:, None], n))
    even_r, even_i = (zr + rr) * 0.5, (zi - ri) * 0.5
    odd_r, odd_i = (zi + ri) * 0.5, (rr - zr) * 0.5
    return even_r + odd_r * c - odd_i * d, even_i + odd_r * d + odd_i * c


def inverse_real(real: Tensor, imag: Tensor, n: int) -> Tensor:
    """Return the n real elements of which the first n // 2 + 1 of the transform are given, times n.

    The imaginary parts of the first element, and of the last if n is even, are taken for 0.
    """
    position = np.arange(n // 2 + 1)[:, None]
    known = (position > 0) & ((position < n / 2) | (n % 2 == 1))
    imag = where(own_array(known), imag, 0.0)
    if n % 2 or n < 2:
        tail_r, tail_i = (part[:, 1:].flip(1) for part in (real, imag))
        return inverse(concat([real, tail_r], 1), concat([imag, -tail_i], 1))[0]
    m = n // 2
    xr, xi = real[:, :m], imag[:, :m]
    rr, ri = real.flip(1)[:, :m], imag.flip(1)[:, :m]
    c, d = table(("inverse real", n), real.node.dtype, lambda: roots(-np.arange(m)[:, None], n))
    even_r, even_i = xr + rr, xi - ri
    diff_r, diff_i = xr - rr, xi + ri
    odd_r, odd_i = diff_r * c - diff_i * d, diff_r * d + diff_i * c
    zr, zi = inverse(stored(even_r - odd_i), stored(even_i + odd_r))
    return stack([zr, zi], 2).reshape(real.shape[0], n, real.shape[2])


def scale_of(n: int, norm: str, *, forward: bool) -> float:
    """Return the factor by which a transform of n elements is multiplied.

    >>> scale_of(4, "backward", forward=False), scale_of(4, "ortho", forward=True)
    (0.25, 0.5)
    """
    if norm == "ortho":
        return 1 / math.sqrt(n) if n else 1.0
    return 1 / n if n and (norm == "forward") == forward else 1.0
