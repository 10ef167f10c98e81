"""Casts: conversions that change nothing, and chains of conversions."""

from __future__ import annotations

from typing import Any

from porism.base.dtypes import DType, Kind, Theory
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.rewrite.rule import RuleSet, procedure, rule
from porism.rewrite.terms import T, U, cast, fits, x
from porism.rules.addresses.validity import may_be_invalid

EVERYWHERE = (Theory.INTEGERS, Theory.FIXED_WIDTH, Theory.FLOATS, Theory.BOOLEANS)

_INNER = cast(x, U)

CASTS = RuleSet(
    "casts",
    theory=EVERYWHERE,
    rules=(rule("cast-same", cast(x, T), x, seeds="002.6.2"),),
)


@procedure("cast-cast", (ops.CAST,), seeds="002.6.4", on_sources=True)
def cast_cast(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Drop the inner of two casts, if its type holds every value of the source.

    An integer that does not fit its type wraps; a float that does not fit saturates. So the inner
    cast stays where an integer becomes a float and then a narrower integer.
    """
    inner = src[0]
    if inner.op is not ops.CAST or Kind.POINTER in (dtype.kind, inner.dtype.kind):
        return None
    first = inner.src[0]
    if not first.dtype.fits_in(inner.dtype):
        return None
    through_float = inner.dtype.is_float and not first.dtype.is_float
    if through_float and dtype.is_integer and not first.dtype.fits_in(dtype):
        return None
    return first.cast(dtype)


@procedure("cast-where", (ops.CAST,), seeds="002.6.5", on_sources=True)
def cast_where(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Cast each branch of a WHERE instead of the result, unless one may be INVALID."""
    where = src[0]
    if where.op is not ops.WHERE or may_be_invalid(where):
        return None
    condition, yes, no = where.src
    return ops.WHERE(condition, yes.cast(dtype), no.cast(dtype))


CONVERSIONS = RuleSet(
    "conversions",
    theory=EVERYWHERE,
    rules=(
        # a cast to a type that holds every value, and back
        rule(
            "cast-back",
            cast(_INNER, T),
            x,
            when=fits(x, _INNER),
            seeds="002.6.3",
        ),
        cast_cast,
        cast_where,
    ),
)
