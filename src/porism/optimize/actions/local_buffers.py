"""Local buffers: what the actions share that materialize values in local memory.

A local buffer of a CPU kernel is on the stack of the thread that runs it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from porism.base.dtypes import DType, Space, index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.loop_substitution import ranges_of

MAX_LOCAL_BYTES: Final = 4 << 20
"""Bytes of all local buffers of a kernel, at most; chosen by hand."""


def local_bytes(kernel: UOp) -> int:
    """Return the bytes of all local buffers of a kernel."""
    buffers = [n.dtype for n in toposort(kernel) if n.op is ops.DEFINE_LOCAL]
    return sum(dtype.size * dtype.element.numpy.itemsize for dtype in buffers)


def local_buffer(dtype: DType, size: int, number: int) -> UOp:
    """Return a local buffer of some elements."""
    return UOp(ops.DEFINE_LOCAL, dtype.pointer(Space.LOCAL, size), (), number)


def next_buffer_number(kernel: UOp) -> int:
    """Return the first number that no local buffer of a kernel has."""
    numbers = [n.arg for n in toposort(kernel) if n.op is ops.DEFINE_LOCAL]
    return max(numbers, default=-1) + 1


def next_axis_number(kernel: UOp) -> int:
    """Return the first number that no loop of a kernel has."""
    return max(int(r.arg[0][0]) for r in ranges_of(kernel)) + 1


def row_major(loops: Sequence[UOp]) -> UOp:
    """Return the offset of the element that belongs to an iteration of some loops, in elements."""
    offset = UOp.const(index, 0)
    for loop in loops:
        offset = offset * (int(loop.vmax) + 1) + loop
    return offset


def group_effects(effects: Sequence[UOp]) -> UOp:
    """Return one node for several stores of one iteration."""
    return effects[0] if len(effects) == 1 else ops.GROUP(*effects)


def is_index_computed_from(kernel: UOp, values: Collection[UOp]) -> bool:
    """Return whether an index depends on some values.

    Such values are not materialized: the bounds of what is loaded from memory are not known.
    """
    reached = set(values)
    for node in toposort(kernel):
        if not reached.isdisjoint(node.src) and (node.op.elementwise or node.op is ops.CAST):
            if node.dtype is index:
                return True
            reached.add(node)
    return False
