"""Whole numbers: values that are integers in disguise, as integers on `index`.

A float that was cast from an integer, or that selects among multiples of a power of two, is a
whole number of units. Sums of such floats are exact in every order as long as all of them are
represented: they are computed on `index`, and cast back.
"""

from __future__ import annotations

import math
from typing import Final

from porism.base.dtypes import DType, boolean, index
from porism.ir import ops
from porism.ir.node import UOp
from porism.rules.addresses.validity import may_be_invalid

EXACT_OPS: Final = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.MAX, ops.MIN})


def whole_number(node: UOp, r: UOp, unit: float = 1.0) -> UOp | None:
    """Return a number as a multiple of `unit`, on `index`; None if it may be none or may wrap.

    The sign of a zero is lost, which no sum depends on.
    """
    dtype, op, src = node.dtype, node.op, node.src
    if dtype is index:
        return None if may_be_invalid(node) else node
    if dtype is boolean:
        return node.where(UOp.const(index, 1), 0)
    if op is ops.CONST:
        return _in_units(node.arg, unit)
    if dtype.is_integer and r not in node.ranges:
        return None if may_be_invalid(node) else node.cast(index)
    if op is ops.CAST:
        if unit != 1 or src[0].dtype.is_float:
            return None
        whole = whole_number(src[0], r)
    elif op is ops.WHERE:
        yes = whole_number(src[1], r, unit)
        no = None if yes is None else whole_number(src[2], r, unit)
        whole = None if yes is None or no is None else src[0].where(yes, no)
    elif op in EXACT_OPS and (unit == 1 or op is not ops.MUL):
        first = whole_number(src[0], r, unit)
        second = None if first is None else whole_number(src[-1], r, unit)
        if first is None or second is None:
            return None
        whole = -first if op is ops.NEG else op(first, second)
    else:
        return None
    return whole if whole is not None and holds_sum(dtype, whole, 1) else None


def _in_units(value: float, unit: float) -> UOp | None:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    quotient = value * int(1 / unit) if isinstance(value, int) else value / unit  # both are exact
    return UOp.const(index, int(quotient)) if quotient == int(quotient) else None


def holds_sum(dtype: DType, whole: UOp, count: int) -> bool:
    """Whether a type represents every sum of up to `count` such integers exactly."""
    if not dtype.is_float:
        return bool(dtype.min <= whole.vmin and whole.vmax <= dtype.max)
    return bool(count * max(abs(whole.vmin), abs(whole.vmax)) <= 1 << dtype.precision)


def common_unit(value: UOp) -> float | None:
    """Return a power of two that divides all constants among which a value selects."""
    unit, stack = 1.0, [value]
    while stack:
        node = stack.pop()
        if node.op is ops.WHERE:
            stack += node.src[1:]
        elif node.op is ops.CONST and node.arg and math.isfinite(node.arg):
            fraction, exponent = math.frexp(node.arg)
            while fraction != int(fraction):
                fraction, exponent = fraction * 2, exponent - 1
            unit = min(unit, 2.0**exponent) if exponent > -120 else math.nan
    return unit if unit > 2.0**-100 else None
