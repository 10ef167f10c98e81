"""Stored operands: values that are in memory before a contraction reads them many times.

A convolution reads each element of its input for many outputs, and a matrix product each row for
many columns. If such an operand is itself a sum, or costs much to compute, it is stored first.
"""

from __future__ import annotations

from typing import Final

from porism.frontends.onnx.operator_call import Value
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.tensor import Tensor

_STORED: Final = (ops.BUFFER, ops.CONTIGUOUS, ops.PARAM)
_VIEWS: Final = (ops.RESHAPE, ops.PERMUTE, ops.EXPAND, ops.PAD, ops.SHRINK, ops.FLIP)


def stored(x: Value) -> Value:
    """Return a tensor that is computed and stored first, unless it is a view of what is stored."""
    node = x.node
    while node.op in _VIEWS:
        node = node.src[0]
    if node.op in _STORED or not node.src:
        return x
    return Tensor(primitive.contiguous(x.node, "an operand that is read many times"))


def stored_sum(x: Value) -> Value:
    """Return a tensor that is stored first if computing an element of it is a sum by itself."""
    return stored(x) if _has_reduction(x.node) else x


def _has_reduction(node: UOp) -> bool:
    """Whether a reduction is computed for each element of a node."""
    visited: set[UOp] = set()
    pending = [node]
    while pending:
        node = pending.pop()
        if node in visited or node.op in _STORED:
            continue
        if node.op is ops.REDUCE_AXIS:
            return True
        visited.add(node)
        pending.extend(node.src)
    return False
