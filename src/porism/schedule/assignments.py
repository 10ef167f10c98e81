"""Assignments: values that are written over memory which already holds something.

An ASSIGN is computed like any other value, into memory of its own, since what it overwrites may
still be read. A last kernel copies it to its target, when all that read the old contents are done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.facts.node_shape import flat, shape
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.text.expression import show
from porism.schedule.kernel_split import pointer
from porism.schedule.rangeify.movement_indices import ZERO, Element, is_size_one, moved


def targets(sink: UOp) -> Iterator[tuple[int, UOp]]:
    """For each root that is an ASSIGN its place among the roots, and the ASSIGN."""
    for place, root in enumerate(sink.src):
        if root.op is ops.ASSIGN:
            yield place, root


def base(assign: UOp) -> UOp:
    """The PARAM or BUFFER that is written to."""
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
    """The kernel that copies a value (parameter 1) to its target (parameter 0)."""
    dims = shape(assign)
    ranges = [ZERO if is_size_one(d) else UOp.range(d, k) for k, d in enumerate(dims)]
    element = Element(tuple(ranges))
    node = assign.src[0]
    memory = base(assign)
    while node is not memory:
        element = moved(node, element).element
        node = node.src[0]
    place = pointer(memory, 0).index(flat(element.at, shape(memory)), dtype=memory.dtype)
    source = pointer(assign, 1).index(flat(ranges, dims), dtype=assign.dtype)
    store = place.store(source)
    loops = [r for r in ranges if r.op is ops.RANGE]
    return ops.SINK(store.end(*loops) if loops else store)


def check(assigns: Sequence[UOp]) -> None:
    """Refuse to write one memory twice in one computation: which comes last would not be clear."""
    seen: dict[UOp, UOp] = {}
    for assign in assigns:
        memory = base(assign)
        if memory in seen:
            raise PorismError(
                f"{show(memory)} is assigned to twice in one computation",
                where=show(assign, limit=200),
                why="the two have no order",
                fix="compute one after the other, or assign their combination",
            )
        seen[memory] = assign
