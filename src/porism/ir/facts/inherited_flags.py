"""Inherited flags: whether a node has dims, and whether it depends on a BUFFER, by its sources."""

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
    """Return whether a node is a tensor with dims, and not the value of one iteration.

    `on_shapes` says whether one of its sources is.
    """
    if op in KEEPS_SHAPE:
        return on_shapes
    if op is ops.PARAM or op is ops.BUFFER:
        return bool(src)
    if op is ops.PULLBACK:
        return src[0].shaped
    return op in ALWAYS_SHAPED


_uses_buffer: Final = operator.attrgetter("uses_buffer")


def has_buffer_source(src: tuple[UOp, ...]) -> bool:
    """Return whether one of these sources is a BUFFER or depends on one."""
    return True in map(_uses_buffer, src)
