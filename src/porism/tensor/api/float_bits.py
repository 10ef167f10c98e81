"""Bits of floats: signs, and the next number."""

from __future__ import annotations

from typing import Any

from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor.api.elementwise import float_node, float_pair
from porism.tensor.float_formulas import BITS_OF, choose, sign_bits, sign_mask, with_sign
from porism.tensor.tensor import Tensor, method


@method
def copysign(x1: Any, x2: Any) -> Tensor:
    """The magnitude of x1 with the sign of x2, also of zeros and NaNs."""
    a, b = float_pair(x1, x2)
    return Tensor(with_sign(a, b))


@method
def signbit(x: Any) -> Tensor:
    """Whether the sign is minus, also of zeros and NaNs."""
    return Tensor(sign_bits(float_node(x)).ne(0))


@method
def nextafter(x1: Any, x2: Any) -> Tensor:
    """The next number of the type from x1 towards x2."""
    a, b = float_pair(x1, x2)
    return Tensor(_next(a, b))


def _next(a: UOp, b: UOp) -> UOp:
    kind = BITS_OF[a.dtype]
    bits = a.bitcast(kind)
    one = UOp.const(kind, 1)
    # Bits count magnitudes: away from zero is up, whatever the sign.
    away = (a < b) ^ (a < 0.0)
    moved = away.where(bits + one, bits - one)
    smallest = ops.OR((b < 0.0).where(UOp.const(kind, sign_mask(a.dtype)), one * 0), one)
    stepped = a.eq(0.0).where(smallest, moved).bitcast(a.dtype)
    return choose(a.ne(a) | b.ne(b), a + b, a.eq(b), b, stepped)
