"""Comparison and logic: comparisons, bitwise and logical operators, `where` and `clip`.

Operands are broadcast and promoted to a common type; comparisons give bools.
"""

from __future__ import annotations

import builtins
from typing import Any, Final

import ml_dtypes
import numpy as np

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.gradient.stated_pullbacks import stated
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.api.operands import operand, operand_pair
from porism.tensor.complex.complex_dispatch import accepts_complex
from porism.tensor.conversion import as_tensor, is_operand, node_of, promote_operands
from porism.tensor.conversion import broadcast as broadcast_nodes
from porism.tensor.float_formulas import is_finite, is_infinite
from porism.tensor.promotion import INTEGERS, NUMBERS
from porism.tensor.tensor import Tensor, method, operator

_BOOL_OR_INTEGER: Final = (dtypes.boolean, *INTEGERS)


# -- comparisons -----------------------------------------------------------------------------------


@operator("lt")
@method
def less(x1: Any, x2: Any) -> Tensor:
    """Return whether x1 < x2.

    >>> porism.less([1, 2, 3], 2).tolist()
    [True, False, False]
    """
    return Tensor(ops.LT(*promote_operands(x1, x2)))


@operator("le")
@method
def less_equal(x1: Any, x2: Any) -> Tensor:
    """Return whether x1 <= x2.

    >>> porism.less_equal([1, 2, 3], 2).tolist()
    [True, True, False]
    """
    return Tensor(ops.LE(*promote_operands(x1, x2)))


@operator("gt")
@method
def greater(x1: Any, x2: Any) -> Tensor:
    """Return whether x1 > x2.

    >>> porism.greater([1, 2, 3], 2).tolist()
    [False, False, True]
    """
    return Tensor(ops.GT(*promote_operands(x1, x2)))


@operator("ge")
@method
def greater_equal(x1: Any, x2: Any) -> Tensor:
    """Return whether x1 >= x2.

    >>> porism.greater_equal([1, 2, 3], 2).tolist()
    [False, True, True]
    """
    return Tensor(ops.GE(*promote_operands(x1, x2)))


@method
def equal(x1: Any, x2: Any) -> Tensor:
    """Return whether x1 == x2; NaN equals nothing, not even itself.

    >>> porism.equal([1, 2, 3], 2).tolist()
    [False, True, False]
    """
    return Tensor(ops.EQ(*promote_operands(x1, x2)))


@method
def not_equal(x1: Any, x2: Any) -> Tensor:
    """Return whether x1 != x2; NaN differs from everything.

    >>> porism.not_equal([1, 2, 3], 2).tolist()
    [True, False, True]
    """
    return Tensor(ops.NE(*promote_operands(x1, x2)))


@operator("eq")
def _eq_operator(x1: Any, x2: Any) -> Any:
    """Return `equal`, or NotImplemented for objects that are no operands, such as None."""
    return equal(x1, x2) if is_operand(x2) else NotImplemented


@operator("ne")
def _ne_operator(x1: Any, x2: Any) -> Any:
    """Return `not_equal`, or NotImplemented for objects that are no operands, such as None."""
    return not_equal(x1, x2) if is_operand(x2) else NotImplemented


@method
def isnan(x: Any) -> Tensor:
    """Return whether x is NaN.

    >>> porism.isnan([1.0, porism.nan]).tolist()
    [False, True]
    """
    node = as_tensor(x).node
    return Tensor(node.ne(node))


@method
def isinf(x: Any) -> Tensor:
    """Return whether x is positive or negative infinity.

    >>> porism.isinf([1.0, -porism.inf]).tolist()
    [False, True]
    """
    node = as_tensor(x).node
    return Tensor(is_infinite(node) if node.dtype.is_float else node.ne(node))


@method
def isfinite(x: Any) -> Tensor:
    """Return whether x is neither NaN nor infinite.

    >>> porism.isfinite([1.0, porism.nan, porism.inf]).tolist()
    [True, False, False]
    """
    node = as_tensor(x).node
    return Tensor(is_finite(node) if node.dtype.is_float else node.eq(node))


# -- bits and logic --------------------------------------------------------------------------------


@operator("and", reflected=True)
@method
def bitwise_and(x1: Any, x2: Any) -> Tensor:
    """Return x1 & x2 of integers or bools.

    >>> porism.bitwise_and([5, 6], 3).tolist()
    [1, 2]
    """
    return Tensor(ops.AND(*operand_pair(x1, x2, _BOOL_OR_INTEGER, "bitwise_and")))


@operator("or", reflected=True)
@method
def bitwise_or(x1: Any, x2: Any) -> Tensor:
    """Return x1 | x2 of integers or bools.

    >>> porism.bitwise_or([5, 6], 3).tolist()
    [7, 7]
    """
    return Tensor(ops.OR(*operand_pair(x1, x2, _BOOL_OR_INTEGER, "bitwise_or")))


@operator("xor", reflected=True)
@method
def bitwise_xor(x1: Any, x2: Any) -> Tensor:
    """Return x1 ^ x2 of integers or bools.

    >>> porism.bitwise_xor([5, 6], 3).tolist()
    [6, 5]
    """
    return Tensor(ops.XOR(*operand_pair(x1, x2, _BOOL_OR_INTEGER, "bitwise_xor")))


@operator("lshift", reflected=True)
@method
def bitwise_left_shift(x1: Any, x2: Any) -> Tensor:
    """Return x1 << x2; 0 where x2 is negative, or at least the width of the type in bits.

    >>> porism.bitwise_left_shift([1, 3], 2).tolist()
    [4, 12]
    """
    return Tensor(ops.SHL(*operand_pair(x1, x2, INTEGERS, "bitwise_left_shift")))


@operator("rshift", reflected=True)
@method
def bitwise_right_shift(x1: Any, x2: Any) -> Tensor:
    """Return x1 >> x2, an arithmetic shift of signed types.

    Where x2 is negative, or at least the width of the type in bits, the result is 0, or -1 of a
    negative x1.

    >>> porism.bitwise_right_shift([13, -13], 2).tolist()
    [3, -4]
    """
    return Tensor(ops.SHR(*operand_pair(x1, x2, INTEGERS, "bitwise_right_shift")))


@operator("invert")
@method
def bitwise_invert(x: Any) -> Tensor:
    """Return ~x of integers: all bits inverted; of bools, their negation.

    >>> porism.bitwise_invert([0, 5]).tolist()
    [-1, -6]
    """
    return Tensor(ops.NOT(operand(x, _BOOL_OR_INTEGER, "bitwise_invert")))


def _as_bools(*values: Any) -> tuple[UOp, ...]:
    """Return the operands as bool nodes (false where 0), broadcast together."""
    return broadcast_nodes(*(primitive.cast(node_of(v), dtypes.boolean) for v in values))


@method
def logical_and(x1: Any, x2: Any) -> Tensor:
    """Return whether x1 and x2 are both nonzero.

    >>> porism.logical_and([0, 1, 2], [1, 0, 1]).tolist()
    [False, False, True]
    """
    return Tensor(ops.AND(*_as_bools(x1, x2)))


@method
def logical_or(x1: Any, x2: Any) -> Tensor:
    """Return whether at least one of x1 and x2 is nonzero.

    >>> porism.logical_or([0, 1, 0], [1, 0, 0]).tolist()
    [True, True, False]
    """
    return Tensor(ops.OR(*_as_bools(x1, x2)))


@method
def logical_xor(x1: Any, x2: Any) -> Tensor:
    """Return whether exactly one of x1 and x2 is nonzero.

    >>> porism.logical_xor([0, 1, 2], [1, 0, 1]).tolist()
    [True, True, False]
    """
    return Tensor(ops.XOR(*_as_bools(x1, x2)))


@method
def logical_not(x: Any) -> Tensor:
    """Return whether x is zero.

    >>> porism.logical_not([0, 1, 2]).tolist()
    [True, False, False]
    """
    return Tensor(ops.NOT(*_as_bools(x)))


# -- choice ----------------------------------------------------------------------------------------


@accepts_complex
def where(condition: Any, x1: Any, x2: Any) -> Tensor:
    """Return x1 where the condition is nonzero, and x2 elsewhere.

    >>> porism.where([True, False], [1, 2], [10, 20]).tolist()
    [1, 20]
    """
    yes, no = promote_operands(x1, x2)
    return Tensor(ops.WHERE(*broadcast_nodes(*_as_bools(condition), yes, no)))


@method
def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """Return x limited to the interval from `min` to `max`; a bound that is None does not limit.

    NaN stays NaN, and the result has the type of x.

    >>> porism.clip([-5, 1, 9], 0, 3).tolist()
    [0, 1, 3]
    """
    node = clipped = operand(x, NUMBERS, "clip")
    lower = None if min is None else _clip_bound(node.dtype, min)
    upper = None if max is None else _clip_bound(node.dtype, max)
    for bound, op in ((lower, ops.MAX), (upper, ops.MIN)):
        if bound is not None:
            clipped = op(*broadcast_nodes(clipped, bound))
    if not node.dtype.is_float:
        return Tensor(clipped)
    lower = _no_bound(node, -np.inf) if lower is None else lower
    upper = _no_bound(node, np.inf) if upper is None else upper
    return Tensor(stated("clip", clipped, *broadcast_nodes(node, lower, upper)))


def _no_bound(x: UOp, infinity: float) -> UOp:
    """Return an infinity, or the largest number of a type that has none."""
    bound = x.lift(infinity)
    largest = float(ml_dtypes.finfo(x.dtype.numpy).max)  # type: ignore[no-untyped-call]
    return x.lift(np.copysign(largest, infinity)) if np.isnan(bound.arg) else bound


def _clip_bound(dtype: DType, bound: Any) -> UOp:
    """Return a bound in the type of x; infinities become the limits of an integer type."""
    number = isinstance(bound, (bool, int, float))
    if number and dtype.is_integer:
        lowest, highest = int(dtype.min), int(dtype.max)
        if not isinstance(bound, float) or bound.is_integer() or np.isinf(bound):
            bound = builtins.min(builtins.max(bound, lowest), highest)
    return node_of(bound, dtype)
