"""General: one kernel for a computation that is asked for with one number after the other.

The numbers in a graph, and the places where slices begin, are parts of it: with each new one it is
a new graph, to be compiled again. So when a graph comes back with other numbers, those that have
changed become arguments: numbers are read from memory, places are variables with bounds. What has
never changed stays as it is, with all that follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeVar

from porism.ir.node import UOp
from porism.pipeline import PARAMETRIZE
from porism.schedule.constants.constant_slots import (
    Parametrized,
    constant_slots,
    parametrize,
    slot_value,
)

T = TypeVar("T")

MOST_FORMS: Final = 1000
"""Forms, and graphs, that are remembered; the oldest goes first."""


@dataclass(slots=True)
class Form:
    """What graphs that differ in numbers have in common, and what is known of the numbers."""

    first: tuple[UOp, ...]
    """Those of the first graph."""
    changed: set[int] = field(default_factory=set)
    """Which have had other values since."""


_forms: dict[UOp, Form] = {}
"""By the graph in which all numbers are arguments."""
_found: dict[UOp, Parametrized] = {}
"""By the graph with its numbers."""


def generalized(graph: UOp, parameters: int) -> Parametrized | None:
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


def _generalized(graph: UOp, parameters: int) -> Parametrized | None:
    slots = constant_slots(graph)
    if not slots:
        return None
    numbers = tuple([slot_value(slot) for slot in slots])
    key = parametrize(graph, slots, parameters).graph
    form = _forms.get(key)
    if form is None:
        _keep(_forms, key, Form(numbers))
        return None
    pairs = zip(numbers, form.first, strict=True)
    form.changed.update(k for k, (now, first) in enumerate(pairs) if now is not first)
    changed = [slots[k] for k in sorted(form.changed)]
    return PARAMETRIZE(graph, changed, parameters) if changed else None
