"""Construction dispatch: the keys by which the rules for a new node are selected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.ops import Op

if TYPE_CHECKING:
    from porism.ir.node import UOp

_STRUCTURE_SLOT: Final = dtypes.void.slot


def rule_slot(op: Op, dtype: DType, src: tuple[UOp, ...]) -> int:
    """Return the slot of a node's rules: that of its dtype, or of the operands of a comparison.

    Rules on values do not apply to tensors with dims: `x - x -> 0` would lose the dims.
    """
    for s in src:
        if s.shaped:
            return _STRUCTURE_SLOT
    return src[0].dtype.slot if op.group is ops.COMPARISON else dtype.slot


def source_signature(op: Op, src: tuple[UOp, ...]) -> Any:
    """Return the ops of the first sources, with True if both of two sources are the same node."""
    if op.arity == 2:
        a, b = src
        return (a.op, b.op) if a is not b else (a.op, a.op, True)
    if op.arity == 3:
        return src[0].op, src[1].op, src[2].op
    return src[0].op if src else None
