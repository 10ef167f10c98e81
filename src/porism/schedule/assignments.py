"""Assignments: values that overwrite existing buffers.

An ASSIGN is computed like any other value, into a buffer of its own, since what it overwrites may
still be read. A last kernel copies it to its target, after all kernels that read the old contents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.facts.node_shape import flat_index, shape
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.text.expression import show
from porism.schedule.kernel_split import pointer
from porism.schedule.rangeify.movement_indices import ZERO, Element, is_size_one, source_element


def assigned_roots(sink: UOp) -> Iterator[tuple[int, UOp]]:
    """Yield each root that is an ASSIGN, with its position among the roots."""
    for position, root in enumerate(sink.src):
        if root.op is ops.ASSIGN:
            yield position, root


def overwritten_buffer(assign: UOp) -> UOp:
    """Return the PARAM or BUFFER that an ASSIGN writes to."""
    node = assign.src[0]
    while node.op.group is Group.MOVEMENT and node.op not in (ops.PAD, ops.EXPAND):
        node = node.src[0]
    if node.op not in (ops.PARAM, ops.BUFFER):
        raise PorismError(
            f"{show(assign.src[0], limit=120)} is assigned to",
            why="only memory can be overwritten: a buffer, or a part of one",
            fix="assign to the buffer that holds the value",
        )
    return node


def copy_kernel(assign: UOp) -> UOp:
    """Return the kernel that copies a value (parameter 1) to its target (parameter 0)."""
    dims = shape(assign)
    indices = [ZERO if is_size_one(d) else UOp.range(d, k) for k, d in enumerate(dims)]
    element = Element(tuple(indices))
    node = assign.src[0]
    memory = overwritten_buffer(assign)
    while node is not memory:
        element = source_element(node, element).element
        node = node.src[0]
    offset = flat_index(element.indices, shape(memory))
    address = pointer(memory, 0).index(offset, dtype=memory.dtype)
    source = pointer(assign, 1).index(flat_index(indices, dims), dtype=assign.dtype)
    store = address.store(source)
    loops = [i for i in indices if i.op is ops.RANGE]
    return ops.SINK(store.end(*loops) if loops else store)


def check_distinct_targets(assigns: Sequence[UOp]) -> None:
    """Raise a PorismError if two ASSIGNs overwrite one buffer: they would have no order."""
    overwritten: set[UOp] = set()
    for assign in assigns:
        memory = overwritten_buffer(assign)
        if memory in overwritten:
            raise PorismError(
                f"{show(memory)} is assigned to twice in one computation",
                where=show(assign, limit=200),
                why="the two have no order",
                fix="compute one after the other, or assign their combination",
            )
        overwritten.add(memory)
