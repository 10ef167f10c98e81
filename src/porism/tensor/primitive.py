"""Primitives: the few graph operations that every function on tensors is built from.

They live in `porism.ir.tensor_nodes`, since stages that choose an algorithm build them too.
"""

from __future__ import annotations

from porism.base.dtypes import DType, Kind
from porism.ir import tensor_nodes
from porism.ir.node import UOp
from porism.ir.tensor_nodes import (
    Dim,
    Dims,
    apply,
    as_dim,
    broadcast,
    clamp_index,
    contiguous,
    expand,
    flip,
    full,
    gather,
    iota,
    pad,
    permute,
    reduce,
    reshape,
    shrink,
)
from porism.tensor.complex.complex_dispatch import complex_operand

__all__ = [
    "Dim",
    "Dims",
    "apply",
    "as_dim",
    "broadcast",
    "cast",
    "clamp_index",
    "contiguous",
    "expand",
    "flip",
    "full",
    "gather",
    "iota",
    "pad",
    "permute",
    "reduce",
    "reshape",
    "shrink",
]


def cast(x: UOp, dtype: DType) -> UOp:
    """Return the values converted to another type; of a complex type there are no nodes."""
    if x.dtype is dtype:
        return x
    if dtype.kind is Kind.COMPLEX:
        raise complex_operand()
    return tensor_nodes.cast(x, dtype)
