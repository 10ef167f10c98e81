"""Constant slots: literals and slice offsets of a graph that can become arguments.

    x * 2.5               x * p1                     2.5 is read from memory
    x[3:7]                x[o : o + 4], 0 <= o <= n - 4      3 is the value of a variable

A literal becomes a PARAM of shape (), the offset of a SHRINK becomes a VARIABLE with bounds; so one
kernel serves all values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import boolean, index
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp, construct
from porism.ir.traversal import toposort

VALUE_INDEPENDENT: Final = frozenset(
    (
        *(ops.ADD, ops.SUB, ops.MUL, ops.FDIV, ops.MULACC, ops.MAX, ops.MIN, ops.WHERE),
        *(ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE),
    )
)
"""Ops that are computed alike whether an operand is a literal or not; x**2 is not: it is x*x."""

Slot = tuple[UOp, int]
"""A CONST and -1; or a SHRINK and the axis whose offset can become an argument."""


@dataclass(frozen=True, slots=True)
class Parametrized:
    """A graph with arguments in the place of constants, and the values of these arguments."""

    graph: UOp
    values: tuple[UOp, ...]
    """A CONST for each of the added PARAMs, in their order."""
    offsets: dict[str, int]
    """The values of the added VARIABLEs, by name."""


def constant_slots(graph: UOp) -> list[Slot]:
    """Return the constants of a graph that can become arguments, in topological order."""
    order = toposort(graph)
    literal: set[UOp] = set()
    """Nodes that are used by an op that needs a literal."""
    bounded: set[UOp] = set()
    """Nodes that an index depends on, whose bounds may be needed."""
    for node in reversed(order):
        if node in bounded or node.dtype is index:
            bounded.update(node.src)
        elif node.op in (ops.RESHAPE, ops.EXPAND):
            literal.update(node.src if node in literal else node.src[1:])
        elif node.op not in VALUE_INDEPENDENT:
            literal.update(node.src)
    fixed = literal | bounded
    return [slot for node in order for slot in _slots_of(node, fixed)]


def slot_value(slot: Slot) -> UOp:
    """Return the CONST in a slot: the literal itself, or the offset of the SHRINK."""
    node, axis = slot
    return node if axis < 0 else _bounds(node, axis)[0]


def parametrize(graph: UOp, slots: Sequence[Slot], parameters: int) -> Parametrized:
    """Replace the constants in some slots by arguments; a graph has so many PARAMs already."""
    return Parametrized(
        _with_arguments(graph, slots, parameters),
        tuple(node for node, axis in slots if axis < 0),
        {_offset_name(k): int(slot_value(s).arg) for k, s in enumerate(slots) if s[1] >= 0},
    )


def _slots_of(node: UOp, fixed: set[UOp]) -> list[Slot]:
    if node.op is ops.CONST:
        return [] if node in fixed or node.dtype in (boolean, index) else [(node, -1)]
    if node.op is not ops.SHRINK or not _is_view_of_input(node.src[0]):
        return []
    return [
        (node, axis) for axis, size in enumerate(shape(node.src[0])) if _is_sliced(node, axis, size)
    ]


def _is_view_of_input(node: UOp) -> bool:
    while node.op in (ops.RESHAPE, ops.PERMUTE, ops.SHRINK):
        node = node.src[0]
    return node.op is ops.PARAM


def _is_sliced(node: UOp, axis: int, size: UOp) -> bool:
    """Return whether a SHRINK keeps a known, proper and non-empty part of an axis."""
    begin, end = _bounds(node, axis)
    if not begin.op is end.op is size.op is ops.CONST:
        return False
    return bool(0 < end.arg - begin.arg < size.arg)


def _bounds(node: UOp, axis: int) -> tuple[UOp, UOp]:
    """Return where a SHRINK begins and ends along an axis."""
    return node.src[1 + 2 * axis], node.src[2 + 2 * axis]


def _offset_name(k: int) -> str:
    """Return the name of an added variable, which no user can give."""
    return f".place{k}"


def _with_arguments(graph: UOp, slots: Sequence[Slot], parameter: int) -> UOp:
    """Return the graph with an argument for each slot; the first PARAM has this number."""
    new: dict[UOp, UOp] = {}
    offsets: dict[UOp, list[tuple[int, UOp]]] = {}
    for k, (node, axis) in enumerate(slots):
        if axis < 0:
            new[node] = ops.PARAM(dtype=node.dtype, arg=parameter)
            parameter += 1
        else:
            begin, end = _bounds(node, axis)
            largest = int(shape(node.src[0])[axis].arg) - int(end.arg - begin.arg)
            offsets.setdefault(node, []).append((axis, UOp.variable(_offset_name(k), 0, largest)))
    for node in toposort(graph):
        if node in new:
            continue
        src = [new.get(s, s) for s in node.src]
        for axis, offset in offsets.get(node, ()):
            begin, end = _bounds(node, axis)
            src[1 + 2 * axis : 3 + 2 * axis] = offset, offset + int(end.arg - begin.arg)
        if tuple(src) != node.src:
            new[node] = construct(node.op, node.dtype_given, tuple(src), node.arg)
    return new.get(graph, graph)
