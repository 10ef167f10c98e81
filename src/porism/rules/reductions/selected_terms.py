"""Selected terms: terms of a sum that are 0 unless a condition holds, in all ways to write them.

    WHERE(p, x, 0)          x where p
    CAST(p) * x             x where p; of floats only if x is finite, since 0 * inf is NaN
    CAST(WHERE(p, x, 0))    CAST(x) where p
    -WHERE(p, x, 0)         -x where p

The zero may have either sign: adding it to a sum that started with 0 changes nothing.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from porism.base.dtypes import DType, bf16, boolean
from porism.ir import ops
from porism.ir.node import UOp
from porism.rules.addresses.validity import is_masked
from porism.rules.reductions.condition_intervals import negate

DEEPEST: Final = 4
"""Depth of nested casts and products that are searched; chosen by hand."""


class Selection(NamedTuple):
    """A value, and the condition under which a term of a sum is that value and not 0."""

    condition: UOp
    value: UOp


def selection_of(term: UOp, depth: int = DEEPEST) -> Selection | None:
    """Return the condition and value of a term; None if it may be nonzero everywhere."""
    op, src = term.op, term.src
    if op is ops.WHERE:
        condition, yes, no = src
        if is_zero(no):
            return Selection(condition, yes)
        return Selection(negate(condition), no) if is_zero(yes) else None
    if op is ops.INDEX:
        return Selection(src[1].src[0], term) if has_mask(term) else None
    if depth == 0:
        return None
    if op is ops.CAST:
        if src[0].dtype is boolean:
            return Selection(src[0], UOp.const(term.dtype, 1))
        inner = selection_of(src[0], depth - 1)
        return None if inner is None else Selection(inner.condition, inner.value.cast(term.dtype))
    if op is ops.NEG:
        inner = selection_of(src[0], depth - 1)
        return None if inner is None else Selection(inner.condition, -inner.value)
    return _product(term, depth) if op is ops.MUL else None


def _product(term: UOp, depth: int) -> Selection | None:
    for factor, other in (term.src, term.src[::-1]):
        inner = selection_of(factor, depth - 1)
        if inner is not None and (not term.dtype.is_float or is_finite(other)):
            return Selection(inner.condition, inner.value * other)
    return None


def is_zero(node: UOp) -> bool:
    """Whether a node is the constant 0, of either sign."""
    return node.op is ops.CONST and node.arg == 0


def has_mask(element: UOp) -> bool:
    """Whether an INDEX has a mask on its first index."""
    return len(element.src) > 1 and is_masked(element.src[1])


def is_finite(node: UOp, depth: int = DEEPEST) -> bool:
    """Whether a float is neither NaN nor infinite, whatever the inputs are."""
    if node.op is ops.CONST:
        return math.isfinite(node.arg)
    if node.op is ops.CAST and not node.src[0].dtype.is_float:
        low, high = node.src[0].vmin, node.src[0].vmax
        return bool(max(abs(low), abs(high)) <= _largest_finite(node.dtype))
    if depth and node.op in _KEEPS_FINITE:
        return all(is_finite(s, depth - 1) for s in node.src if s.dtype is node.dtype)
    return False


_KEEPS_FINITE: Final = frozenset({ops.NEG, ops.MAX, ops.MIN, ops.WHERE})


def _largest_finite(dtype: DType) -> float:
    """Return a power of two up to which integers cast to this float type are finite."""
    return 2.0**127 if dtype.bits >= 32 or dtype is bf16 else 2.0**dtype.precision
