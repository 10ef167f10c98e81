"""Stored operands: values that are in memory before other nodes read them many times.

A convolution reads each element of its input for many outputs, and a matrix product each row for
many columns. If such an operand is itself a sum, or gathered, it is stored first; so is a sum that
several nodes read, and what windows read of elements that are repeated, as by an upsampling: their
index has divisions, which a window would do for each of its taps. Everything else is left to the
scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from porism.frontends.onnx.imported_graph import Node
from porism.frontends.onnx.operator_call import Value
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.tensor import Tensor

WINDOWS: Final = "windows"
"""Read by sliding windows: stored unless it is a view of what is stored, without divisions."""

SUMS: Final = "sums"
"""Read by several nodes, or by a matrix product: stored if its elements are sums or gathered."""

SHORT_AXIS: Final = 8
"""Axes of fewer elements fill vectors badly; chosen by hand."""

_BY_WINDOWS: Final = frozenset(
    ("Conv", "ConvTranspose", "QLinearConv", "FusedConv", "Resize", "GridSample")
)
_BY_PRODUCTS: Final = (
    frozenset(
        ("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul", "FusedMatMul", "DynamicQuantizeMatMul")
    )
    | frozenset(
        ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM", "DynamicQuantizeLinear", "Einsum", "Gather")
    )
    | frozenset(("LayerNormalization", "InstanceNormalization", "GroupNormalization", "MaxPool"))
)
_ROUNDINGS: Final = frozenset(("QuantizeLinear", "DequantizeLinear", "Cast", "Dropout", "Identity"))
_BY_SHAPE: Final = frozenset(("Shape", "Size", "ConstantOfShape", "EyeLike"))

_STORED: Final = (ops.BUFFER, ops.CONTIGUOUS, ops.PARAM)
_VIEWS: Final = (ops.RESHAPE, ops.PERMUTE, ops.EXPAND, ops.PAD, ops.SHRINK, ops.FLIP)
_SUMS: Final = (ops.REDUCE_AXIS, ops.GATHER)


def read_often(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the names of values that nodes read many times, with how they are read."""
    found: dict[str, str] = {}
    uses: dict[str, int] = {}
    probabilities: set[str] = set()
    for node in nodes:
        if node.op in _BY_SHAPE:
            continue
        if node.op == "Softmax" or (
            node.op in _ROUNDINGS and not probabilities.isdisjoint(node.inputs[:1])
        ):
            probabilities.update(node.outputs)
        for name in node.inputs:
            uses[name] = uses.get(name, 0) + 1
            if node.op in _BY_WINDOWS and name == node.inputs[0]:
                found[name] = WINDOWS
            elif node.op == "MatMul" and uses[name] == 1 and name in probabilities:
                continue
            elif uses[name] > 1 or node.op in _BY_PRODUCTS:
                found.setdefault(name, SUMS)
    return found


def stored(x: Value, how: str = WINDOWS) -> Value:
    """Return a tensor that is computed and stored first, if that is better for those who read."""
    node = x.node
    is_merged = has_divisions = False
    while node.op in _VIEWS:
        is_merged |= node.op is ops.RESHAPE
        has_divisions |= node.op is ops.EXPAND and is_merged
        node = node.src[0]
    if (node.op in _STORED or not node.src) and not (how == WINDOWS and has_divisions):
        return x
    if how == SUMS and not _is_sum(node):
        return x
    return Tensor(primitive.contiguous(x.node, "an operand that is read many times"))


def permuted(x: Value, axes: Sequence[int]) -> Value:
    """Return a tensor with permuted axes; sums are stored before a short axis becomes the last.

    A kernel of sums has its vectors along the last axis, as after a convolution whose channels
    become pixels: a short one leaves most lanes empty, and copying costs less.
    """
    last = axes[-1] if axes else -1
    if last != len(axes) - 1 and 1 < x.shape[last] < SHORT_AXIS:
        x = stored(x, SUMS)
    return x.permute(tuple(axes))


def _is_sum(node: UOp) -> bool:
    """Whether an element of a node takes a reduction or a gather to compute."""
    visited: set[UOp] = set()
    pending = [node]
    while pending:
        node = pending.pop()
        if node in visited or node.op in _STORED:
            continue
        if node.op in _SUMS:
            return True
        visited.add(node)
        pending.extend(node.src)
    return False
