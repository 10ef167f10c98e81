"""Shaped: which nodes are tensors with dims, and not the value of one iteration."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final

from porism.ir import ops
from porism.ir.ops import Op

if TYPE_CHECKING:
    from porism.ir.node import UOp

KEEPS_SHAPE: Final = frozenset(
    op
    for op in ops.table()
    if op.elementwise
    or op.group in (ops.CONVERSION, ops.VECTOR)
    or op in (ops.CONTIGUOUS, ops.COPY, ops.ASSIGN, ops.AFTER)
)

ALWAYS_SHAPED: Final = frozenset(
    {op for op in ops.table() if op.group is ops.MOVEMENT} | {ops.REDUCE_AXIS, ops.GATHER, ops.IOTA}
)


def is_shaped(op: Op, src: tuple[UOp, ...], on_shapes: bool) -> bool:
    """From a leaf with dims up to where ranges take over; `on_shapes` is whether a source is."""
    if op in KEEPS_SHAPE:
        return on_shapes
    if op is ops.PARAM or op is ops.BUFFER:
        return bool(src)
    return op in ALWAYS_SHAPED


_is_on_memory: Final = operator.attrgetter("on_memory")


def is_on_memory(src: tuple[UOp, ...]) -> bool:
    """Whether a node with these sources has a BUFFER below it."""
    return True in map(_is_on_memory, src)
