"""Comparison and logic: comparisons, bitwise and logical operators, `where` and `clip`."""

from __future__ import annotations

import builtins
from typing import Any, Final

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.api.operands import operand, operand_pair
from porism.tensor.conversion import as_tensor, is_operand, node_of, together
from porism.tensor.conversion import broadcast as broadcast_nodes
from porism.tensor.float_formulas import is_finite, is_infinite
from porism.tensor.promotion import INTEGERS, NUMBERS
from porism.tensor.tensor import Tensor, method, operator

_BOOL_OR_INTEGER: Final = (dtypes.boolean, *INTEGERS)


# -- comparisons -----------------------------------------------------------------------------------


@operator("lt")
@method
def less(x1: Any, x2: Any) -> Tensor:
    """x1 < x2."""
    return Tensor(ops.LT(*together(x1, x2)))


@operator("le")
@method
def less_equal(x1: Any, x2: Any) -> Tensor:
    """x1 <= x2."""
    return Tensor(ops.LE(*together(x1, x2)))


@operator("gt")
@method
def greater(x1: Any, x2: Any) -> Tensor:
    """x1 > x2."""
    return Tensor(ops.GT(*together(x1, x2)))


@operator("ge")
@method
def greater_equal(x1: Any, x2: Any) -> Tensor:
    """x1 >= x2."""
    return Tensor(ops.GE(*together(x1, x2)))


@method
def equal(x1: Any, x2: Any) -> Tensor:
    """x1 == x2; NaN equals nothing."""
    return Tensor(ops.EQ(*together(x1, x2)))


@method
def not_equal(x1: Any, x2: Any) -> Tensor:
    """x1 != x2."""
    return Tensor(ops.NE(*together(x1, x2)))


@operator("eq")
def _eq_operator(x1: Any, x2: Any) -> Any:
    """What is no tensor at all, like None, is not equal: Python says so."""
    return equal(x1, x2) if is_operand(x2) else NotImplemented


@operator("ne")
def _ne_operator(x1: Any, x2: Any) -> Any:
    return not_equal(x1, x2) if is_operand(x2) else NotImplemented


@method
def isnan(x: Any) -> Tensor:
    """Whether a value is NaN."""
    node = as_tensor(x).node
    return Tensor(node.ne(node))


@method
def isinf(x: Any) -> Tensor:
    """Whether a value is an infinity."""
    node = as_tensor(x).node
    return Tensor(is_infinite(node) if node.dtype.is_float else node.ne(node))


@method
def isfinite(x: Any) -> Tensor:
    """Whether a value is neither NaN nor an infinity."""
    node = as_tensor(x).node
    return Tensor(is_finite(node) if node.dtype.is_float else node.eq(node))


# -- bits and logic --------------------------------------------------------------------------------


@operator("and", reflected=True)
@method
def bitwise_and(x1: Any, x2: Any) -> Tensor:
    """x1 & x2."""
    return Tensor(ops.AND(*operand_pair(x1, x2, _BOOL_OR_INTEGER, "bitwise_and")))


@operator("or", reflected=True)
@method
def bitwise_or(x1: Any, x2: Any) -> Tensor:
    """x1 | x2."""
    return Tensor(ops.OR(*operand_pair(x1, x2, _BOOL_OR_INTEGER, "bitwise_or")))


@operator("xor", reflected=True)
@method
def bitwise_xor(x1: Any, x2: Any) -> Tensor:
    """x1 ^ x2."""
    return Tensor(ops.XOR(*operand_pair(x1, x2, _BOOL_OR_INTEGER, "bitwise_xor")))


@operator("lshift", reflected=True)
@method
def bitwise_left_shift(x1: Any, x2: Any) -> Tensor:
    """x1 << x2; 0 where x2 is below 0, or the width or more."""
    return Tensor(ops.SHL(*operand_pair(x1, x2, INTEGERS, "bitwise_left_shift")))


@operator("rshift", reflected=True)
@method
def bitwise_right_shift(x1: Any, x2: Any) -> Tensor:
    """x1 >> x2, with the sign; where x2 is below 0, or the width or more, only the sign is left."""
    return Tensor(ops.SHR(*operand_pair(x1, x2, INTEGERS, "bitwise_right_shift")))


@operator("invert")
@method
def bitwise_invert(x: Any) -> Tensor:
    """All bits of an integer turned, or a bool."""
    return Tensor(ops.NOT(operand(x, _BOOL_OR_INTEGER, "bitwise_invert")))


def _as_bools(*values: Any) -> tuple[UOp, ...]:
    return broadcast_nodes(*(primitive.cast(node_of(v), dtypes.boolean) for v in values))


@method
def logical_and(x1: Any, x2: Any) -> Tensor:
    """Whether both are true; a number is, if it is not 0."""
    return Tensor(ops.AND(*_as_bools(x1, x2)))


@method
def logical_or(x1: Any, x2: Any) -> Tensor:
    """Whether one of the two is true."""
    return Tensor(ops.OR(*_as_bools(x1, x2)))


@method
def logical_xor(x1: Any, x2: Any) -> Tensor:
    """Whether exactly one of the two is true."""
    return Tensor(ops.XOR(*_as_bools(x1, x2)))


@method
def logical_not(x: Any) -> Tensor:
    """Whether it is false."""
    return Tensor(ops.NOT(*_as_bools(x)))


# -- choice ----------------------------------------------------------------------------------------


def where(condition: Any, x1: Any, x2: Any) -> Tensor:
    """x1 where the condition holds, else x2."""
    yes, no = together(x1, x2)
    return Tensor(ops.WHERE(*broadcast_nodes(*_as_bools(condition), yes, no)))


@method
def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """Not below `min`, not above `max`; NaN stays. The type of x is kept."""
    node = operand(x, NUMBERS, "clip")
    for bound, op in ((min, ops.MAX), (max, ops.MIN)):
        if bound is not None:
            node = op(*broadcast_nodes(node, _clip_bound(node.dtype, bound)))
    return Tensor(node)


def _clip_bound(dtype: DType, bound: Any) -> UOp:
    """A bound in the type of what it bounds; integers have their limits as infinities."""
    number = isinstance(bound, (bool, int, float))
    if number and dtype.is_integer:
        lowest, highest = int(dtype.min), int(dtype.max)
        if not isinstance(bound, float) or bound.is_integer() or np.isinf(bound):
            bound = builtins.min(builtins.max(bound, lowest), highest)
    return node_of(bound, dtype)
