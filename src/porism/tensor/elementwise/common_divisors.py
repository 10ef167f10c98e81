"""Common divisors: `gcd` and `lcm` of integers, by Euclid's algorithm with a fixed number of steps.

The most steps are those of two successive Fibonacci numbers, the largest of the type.
"""

from __future__ import annotations

from typing import Any

from porism.base.dtypes import DType, Kind
from porism.ir.node import UOp
from porism.tensor import promotion
from porism.tensor.conversion import promote_operands
from porism.tensor.primitive import cast
from porism.tensor.tensor import Tensor, method


def _magnitudes(x1: Any, x2: Any, what: str) -> tuple[DType, UOp, UOp]:
    """Return the type of two operands, and their magnitudes as unsigned integers of its width."""
    a, b = promote_operands(x1, x2)
    own = a.dtype
    promotion.require_dtype(own, promotion.INTEGERS, what, "convert the operands, with astype")
    unsigned = promotion.as_dtype(f"uint{own.bits}")
    sizes = [cast((x < 0).where(-x, x) if own.kind is Kind.SIGNED else x, unsigned) for x in (a, b)]
    return own, sizes[0], sizes[1]


def _steps(bits: int) -> int:
    """Return the most steps of Euclid's algorithm for unsigned integers of some bits.

    >>> _steps(8), _steps(64)
    (13, 93)
    """
    steps, smaller, larger = 1, 1, 1
    while larger < 1 << bits:
        steps, smaller, larger = steps + 1, larger, smaller + larger
    return steps


def _euclid(a: UOp, b: UOp) -> UOp:
    """Return the greatest common divisor of unsigned integers."""
    for _ in range(_steps(a.dtype.bits)):
        done = b.eq(0)
        a, b = done.where(a, b), done.where(b, a % done.where(b.lift(1), b))
    return a


@method
def gcd(x1: Any, x2: Any) -> Tensor:
    """Return the greatest common divisor of integers, which is not negative; of 0 and 0 it is 0.

    >>> porism.gcd([12, -8, 0], [18, 12, 5]).tolist()
    [6, 4, 5]
    """
    own, a, b = _magnitudes(x1, x2, "gcd")
    return Tensor(cast(_euclid(a, b), own))


@method
def lcm(x1: Any, x2: Any) -> Tensor:
    """Return the least common multiple of integers, which is not negative; of 0 it is 0.

    >>> porism.lcm([4, -6, 0], [6, 4, 5]).tolist()
    [12, 12, 0]
    """
    own, a, b = _magnitudes(x1, x2, "lcm")
    divisor = _euclid(a, b)
    zero = divisor.eq(0)
    return Tensor(cast(zero.where(divisor, a // zero.where(divisor.lift(1), divisor) * b), own))
