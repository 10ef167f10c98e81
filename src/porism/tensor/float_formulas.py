"""Float formulas: building blocks for formulas on float nodes.

Formulas are written on nodes with Python's operators. Types narrower than f32 are computed in f32
and rounded once, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from porism.base import dtypes
from porism.base.dtypes import DType, Kind
from porism.gradient.stated_pullbacks import stated
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor.primitive import cast

Formula = Callable[..., UOp]

BITS_OF: Final = {
    **dict.fromkeys((dtypes.fp8e4m3, dtypes.fp8e5m2), dtypes.u8),
    **dict.fromkeys((dtypes.f16, dtypes.bf16), dtypes.u16),
    dtypes.f32: dtypes.u32,
    dtypes.f64: dtypes.u64,
}
"""The unsigned integer type of the width of each float type."""


def in_f32(formula: Formula, *nodes: UOp) -> UOp:
    """Apply a formula to nodes of one float type, in f32 if the type is narrower."""
    own = nodes[0].dtype
    if own.bits >= 32:
        return formula(*nodes)
    return cast(formula(*(cast(node, dtypes.f32) for node in nodes)), own)


def polynomial(x: UOp, coefficients: Sequence[float]) -> UOp:
    """Return a polynomial by Horner's rule; the coefficient of the highest power comes first."""
    total = x.lift(coefficients[0])
    for coefficient in coefficients[1:]:
        total = ops.MULACC(total, x, x.lift(coefficient))
    return total


def magnitude(x: UOp) -> UOp:
    """Return the absolute value; 0 for -0."""
    if x.dtype.kind in (Kind.UNSIGNED, Kind.BOOL):
        return x
    return stated("abs", (x <= 0).where(x.lift(0) - x, x), x)


def sign_bits(x: UOp) -> UOp:
    """Return the bits of a float with all but the sign bit cleared."""
    bits = x.bitcast(BITS_OF[x.dtype])
    return bits & sign_mask(x.dtype)


def sign_mask(dtype: DType) -> int:
    """Return the mask of the sign bit of a float type."""
    return 1 << (dtype.bits - 1)


def with_sign(x: UOp, sign: UOp) -> UOp:
    """Return the magnitude of `x` with the sign of `sign`, also for zeros and NaNs."""
    bits = x.bitcast(BITS_OF[x.dtype]) & (sign_mask(x.dtype) - 1)
    return (bits | sign_bits(sign)).bitcast(x.dtype)


def is_infinite(x: UOp) -> UOp:
    """Return whether a float is an infinity, as a node."""
    return magnitude(x).eq(float("inf"))


def is_finite(x: UOp) -> UOp:
    """Return whether a float is neither NaN nor an infinity, as a node."""
    infinity = x.lift(float("inf"))
    return x.eq(x) if math.isnan(infinity.arg) else magnitude(x) < infinity


def select(*cases: Any) -> UOp:
    """Return the value of the first condition that holds: condition, value, …, default."""
    result = cases[-1]
    for k in range(len(cases) - 3, -1, -2):
        condition, value = cases[k : k + 2]
        result = condition.where(value, result)
    return result  # type: ignore[no-any-return]
