"""Frequencies: those of the elements of a transform, and shifts that put zero in the middle."""

from __future__ import annotations

from typing import Any

import numpy as np

from porism.tensor.api.creation import asarray
from porism.tensor.movement.joining import roll
from porism.tensor.promotion import DEFAULT_FLOAT, as_dtype, type_error
from porism.tensor.shapes import as_int, normalize_axes, shape_error
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor


def _frequencies(values: Any, n: Any, d: float, dtype: Any, device: Any, what: str) -> Tensor:
    """Return whole numbers over n · d, in a float type."""
    wanted = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    if not wanted.is_float:
        raise type_error(f"{what} of {dtype}", "frequencies are floats", "pass a float type")
    return asarray((values / (n * d)).astype(wanted.numpy), device=device)


def _count(n: Any, what: str) -> int:
    """Return a number of elements, at least one."""
    count = as_int(n, f"n of {what}")
    if count < 1:
        raise shape_error(
            f"{what} of {count} elements", "a transform has at least one", "give 1 or more"
        )
    return count


def fftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequency of each element of `fft`, in cycles per unit, for a sample spacing d.

    >>> porism.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    count = _count(n, "fftfreq")
    values = np.arange(count, dtype=np.float64)
    values[(count + 1) // 2 :] -= count
    return _frequencies(values, count, d, dtype, device, "fftfreq")


def rfftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequency of each element of `rfft`, in cycles per unit, for a sample spacing d.

    >>> porism.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    count = _count(n, "rfftfreq")
    values = np.arange(count // 2 + 1, dtype=np.float64)
    return _frequencies(values, count, d, dtype, device, "rfftfreq")


def fftshift(x: Any, /, axes: Any = None) -> Tensor:
    """Return x rotated along axes (all by default) so that the frequency 0 is in the middle.

    >>> porism.fft.fftshift([0, 1, 2, -2, -1]).tolist()
    [-2, -1, 0, 1, 2]
    """
    return _shifted(x, axes, 1)


def ifftshift(x: Any, /, axes: Any = None) -> Tensor:
    """Return the inverse of `fftshift`.

    >>> porism.fft.ifftshift([-2, -1, 0, 1, 2]).tolist()
    [0, 1, 2, -2, -1]
    """
    return _shifted(x, axes, -1)


def _shifted(x: Any, axes: Any, sign: int) -> Tensor:
    """Return x rotated by half of its size along axes."""
    tensor = asarray(x, copy=True)
    along = normalize_axes(axes, tensor.ndim)
    sizes = [static_size(tensor.shape[axis], "fftshift") for axis in along]
    if not along:
        return tensor
    return roll(tensor, tuple(sign * (size // 2) for size in sizes), tuple(along))
