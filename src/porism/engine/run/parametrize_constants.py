"""General: one kernel for a computation that is asked for with one number after the other.

The numbers in a graph, and the places where slices begin, are parts of it: with each new one it is
a new graph, to be compiled again. So when a graph comes back with other numbers, those that have
changed become arguments: numbers are read from memory, places are variables with bounds. What has
never changed stays as it is, with all that follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from porism.base.dtypes import boolean, index
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp, construct
from porism.ir.traversal import toposort

T = TypeVar("T")

MOST_FORMS: Final = 1000
"""Forms, and graphs, that are remembered; the oldest goes first."""

PLAIN: Final = frozenset(
    (
        *(ops.ADD, ops.SUB, ops.MUL, ops.FDIV, ops.MULACC, ops.MAX, ops.MIN, ops.WHERE),
        *(ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE),
    )
)
"""What is computed alike whether a number is known or not. A power is not: x**2 is x*x."""

Slot = tuple[UOp, int]
"""A CONST, with -1; or a SHRINK, with the axis that is cut."""


@dataclass(slots=True)
class Form:
    """What graphs that differ in numbers have in common, and what is known of the numbers."""

    first: tuple[UOp, ...]
    """Those of the first graph."""
    changed: set[int] = field(default_factory=set)
    """Which have had other values since."""


@dataclass(frozen=True, slots=True)
class General:
    """A graph with arguments in the place of numbers, and the numbers."""

    graph: UOp
    values: tuple[UOp, ...]
    """A CONST for each of the last PARAMs."""
    places: dict[str, int]
    """The values of variables."""


_forms: dict[UOp, Form] = {}
"""By the graph in which all numbers are arguments."""
_found: dict[UOp, General] = {}
"""By the graph with its numbers."""


def generalized(graph: UOp, parameters: int) -> General | None:
    """A graph on so many PARAMs with arguments for what changes; nothing if it has no like yet."""
    found = _found.get(graph)
    if found is None:
        found = _generalized(graph, parameters)
        if found is not None:
            _keep(_found, graph, found)
    return found


def _keep(table: dict[UOp, T], key: UOp, value: T) -> None:
    if len(table) >= MOST_FORMS:
        del table[next(iter(table))]
    table[key] = value


def _generalized(graph: UOp, parameters: int) -> General | None:
    slots = _slots(graph)
    if not slots:
        return None
    numbers = tuple([_number(slot) for slot in slots])
    key = _lifted(graph, slots, parameters)
    form = _forms.get(key)
    if form is None:
        _keep(_forms, key, Form(numbers))
        return None
    pairs = zip(numbers, form.first, strict=True)
    form.changed.update(k for k, (now, first) in enumerate(pairs) if now is not first)
    chosen = [slots[k] for k in sorted(form.changed)]
    if not chosen:
        return None
    return General(
        _lifted(graph, chosen, parameters),
        tuple(node for node, axis in chosen if axis < 0),
        {_name(k): int(_number(slot).arg) for k, slot in enumerate(chosen) if slot[1] >= 0},
    )


def _slots(graph: UOp) -> list[Slot]:
    """The numbers that could be arguments, in the order in which they come up."""
    order = toposort(graph)
    known: set[UOp] = set()
    """What is used as no argument can be."""
    bounded: set[UOp] = set()
    """What an index follows from: the bounds of its numbers may be needed."""
    for node in reversed(order):
        if node in bounded or node.dtype is index:
            bounded.update(node.src)
        elif node.op in (ops.RESHAPE, ops.EXPAND):
            known.update(node.src if node in known else node.src[1:])
        elif node.op not in PLAIN:
            known.update(node.src)
    firm = known | bounded
    return [slot for node in order for slot in _slots_of(node, firm)]


def _slots_of(node: UOp, firm: set[UOp]) -> list[Slot]:
    if node.op is ops.CONST:
        return [] if node in firm or node.dtype in (boolean, index) else [(node, -1)]
    if node.op is not ops.SHRINK or not _is_input(node.src[0]):
        return []
    return [
        (node, axis) for axis, size in enumerate(shape(node.src[0])) if _is_cut(node, axis, size)
    ]


def _is_input(node: UOp) -> bool:
    """Whether a value is an input, or a part of one, with its axes in whatever order."""
    while node.op in (ops.RESHAPE, ops.PERMUTE, ops.SHRINK):
        node = node.src[0]
    return node.op is ops.PARAM


def _is_cut(node: UOp, axis: int, size: UOp) -> bool:
    begin, end = _ends(node, axis)
    if not begin.op is end.op is size.op is ops.CONST:
        return False
    return bool(0 < end.arg - begin.arg < size.arg)


def _ends(node: UOp, axis: int) -> tuple[UOp, UOp]:
    """Where a SHRINK begins and ends along an axis."""
    return node.src[1 + 2 * axis], node.src[2 + 2 * axis]


def _number(slot: Slot) -> UOp:
    node, axis = slot
    return node if axis < 0 else _ends(node, axis)[0]


def _name(k: int) -> str:
    """The name of a variable, which is none that a user gives."""
    return f".place{k}"


def _lifted(graph: UOp, slots: Sequence[Slot], parameter: int) -> UOp:
    """The graph with arguments for some numbers; parameters are counted from one on."""
    new: dict[UOp, UOp] = {}
    places: dict[UOp, list[tuple[int, UOp]]] = {}
    for k, (node, axis) in enumerate(slots):
        if axis < 0:
            new[node] = ops.PARAM(dtype=node.dtype, arg=parameter)
            parameter += 1
        else:
            begin, end = _ends(node, axis)
            room = int(shape(node.src[0])[axis].arg) - int(end.arg - begin.arg)
            places.setdefault(node, []).append((axis, UOp.variable(_name(k), 0, room)))
    for node in toposort(graph):
        if node in new:
            continue
        src = [new.get(s, s) for s in node.src]
        for axis, place in places.get(node, ()):
            begin, end = _ends(node, axis)
            src[1 + 2 * axis : 3 + 2 * axis] = place, place + int(end.arg - begin.arg)
        if tuple(src) != node.src:
            new[node] = construct(node.op, node.dtype_given, tuple(src), node.arg)
    return new.get(graph, graph)
