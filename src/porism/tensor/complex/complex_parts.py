"""Complex parts: `conj`, `real`, `imag` and `angle`, which real tensors have too."""

from __future__ import annotations

import math
from typing import Any

from porism.tensor.api.arithmetic import astype
from porism.tensor.api.comparison import where
from porism.tensor.api.creation import zeros_like
from porism.tensor.api.operands import float_node
from porism.tensor.complex.complex_dispatch import accepts_complex
from porism.tensor.conversion import as_tensor
from porism.tensor.elementwise.real_functions import rad2deg
from porism.tensor.tensor import Tensor, method


@method
def conj(x: Any) -> Tensor:
    """Return the complex conjugate; a tensor that is not complex unchanged.

    >>> porism.conj([1 + 2j, 3.0]).tolist()
    [(1-2j), (3-0j)]
    """
    return Tensor(as_tensor(x).node)


@accepts_complex
def real(x: Any) -> Tensor:
    """Return the real part of each number, as floats; `x.real` is the same.

    >>> porism.real([1 + 2j, 3.0]).tolist()
    [1.0, 3.0]
    """
    return Tensor(as_tensor(x).node)


@accepts_complex
def imag(x: Any) -> Tensor:
    """Return the imaginary part of each number, as floats; `x.imag` is the same.

    >>> porism.imag([1 + 2j, 3.0]).tolist()
    [2.0, 0.0]
    """
    return zeros_like(Tensor(as_tensor(x).node))


@method
def angle(x: Any, deg: bool = False) -> Tensor:
    """Return the angle of each number in the complex plane, in radians from -pi to pi.

    With `deg` it is in degrees.

    >>> porism.angle([1j, -1.0]).tolist()
    [1.570796..., 3.141592...]
    """
    node = float_node(x)
    floats = Tensor(node)
    known = Tensor((node < 0).where(node.lift(math.pi), node.lift(0.0)))
    found = astype(where(floats != floats, floats, known), node.dtype)
    return rad2deg(found) if deg else found
