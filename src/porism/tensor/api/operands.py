"""Operands: the arguments of a function, converted to nodes or tensors of one accepted type.

A function that accepts only some types refuses the others here, with the fix `astype`.
"""

from __future__ import annotations

from typing import Any, Final

from porism.base.dtypes import DType
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.conversion import as_tensor, promote_operands, weak_or_tensor
from porism.tensor.promotion import NUMBERS, float_type, require_dtype, result_type
from porism.tensor.tensor import Tensor

USE_ASTYPE: Final = "convert it first, with astype"
"""How to fix an operand of a type that a function does not accept."""


def operand_pair(x1: Any, x2: Any, accepted: tuple[DType, ...], what: str) -> tuple[UOp, UOp]:
    """Return both operands, promoted to a common type, which must be accepted, and broadcast."""
    a, b = promote_operands(x1, x2)
    require_dtype(a.dtype, accepted, what, USE_ASTYPE)
    return a, b


def operand(x: Any, accepted: tuple[DType, ...], what: str) -> UOp:
    """Return the node of an operand, whose type must be accepted."""
    node = as_tensor(x).node
    require_dtype(node.dtype, accepted, what, USE_ASTYPE)
    return node


def float_node(x: Any) -> UOp:
    """Return the node of an operand as floats: integers and bools in the default float type."""
    node = as_tensor(x).node
    return primitive.cast(node, float_type(node.dtype))


def float_pair(x1: Any, x2: Any) -> tuple[UOp, ...]:
    """Return two operands, promoted to a common float type and broadcast."""
    common = float_type(result_type(weak_or_tensor(x1), weak_or_tensor(x2)))
    return promote_operands(x1, x2, dtype=common)


def promoted_operands(what: str, *values: Any) -> tuple[Tensor, ...]:
    """Return the operands as tensors of their common type, which must not be bool."""
    tensors = [as_tensor(value) for value in values]
    common = result_type(*tensors)
    require_dtype(common, NUMBERS, what, "convert them first, with astype")
    return tuple(Tensor(primitive.cast(x.node, common)) for x in tensors)
