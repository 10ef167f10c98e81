"""Operands: the arguments of a function, converted to nodes or tensors of one accepted type."""

from __future__ import annotations

from typing import Any, Final

from porism.base.dtypes import DType
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.conversion import as_tensor, together, weak_or_tensor
from porism.tensor.promotion import NUMBERS, float_type, need, result_type
from porism.tensor.tensor import Tensor

USE_ASTYPE: Final = "convert it first, with astype"
"""How to fix an operand of a type that a function does not accept."""


def operand_pair(x1: Any, x2: Any, accepted: tuple[DType, ...], what: str) -> tuple[UOp, UOp]:
    a, b = together(x1, x2)
    need(a.dtype, accepted, what, USE_ASTYPE)
    return a, b


def operand(x: Any, accepted: tuple[DType, ...], what: str) -> UOp:
    node = as_tensor(x).node
    need(node.dtype, accepted, what, USE_ASTYPE)
    return node


def float_node(x: Any) -> UOp:
    """An operand of a function of floats; integers and bools are converted."""
    node = as_tensor(x).node
    return primitive.cast(node, float_type(node.dtype))


def float_pair(x1: Any, x2: Any) -> tuple[UOp, ...]:
    """Two operands of a function of floats."""
    common = float_type(result_type(weak_or_tensor(x1), weak_or_tensor(x2)))
    return together(x1, x2, dtype=common)


def promoted_operands(what: str, *values: Any) -> tuple[Tensor, ...]:
    """Tensors of one type, which has a product and a sum."""
    tensors = [as_tensor(value) for value in values]
    common = result_type(*tensors)
    need(common, NUMBERS, what, "convert them first, with astype")
    return tuple(Tensor(primitive.cast(x.node, common)) for x in tensors)
