"""Dispatch: by what construction-time rules for a node are looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.ops import Op

if TYPE_CHECKING:
    from porism.ir.node import UOp

_STRUCTURE_SLOT: Final = dtypes.void.slot


def slot_of(op: Op, dtype: DType, src: tuple[UOp, ...]) -> int:
    """Which rules a node is looked up in: by the type of its value, or of what it compares.

    Rules on values do not apply to tensors with dims: `x - x` would lose them.
    """
    for s in src:
        if s.shaped:
            return _STRUCTURE_SLOT
    return src[0].dtype.slot if op.group is ops.COMPARISON else dtype.slot


def signature_of(op: Op, src: tuple[UOp, ...]) -> Any:
    """What rules are looked up by: the ops of the first sources, and if two of two are the same."""
    if op.arity == 2:
        a, b = src
        return (a.op, b.op) if a is not b else (a.op, a.op, True)
    if op.arity == 3:
        return src[0].op, src[1].op, src[2].op
    return src[0].op if src else None
