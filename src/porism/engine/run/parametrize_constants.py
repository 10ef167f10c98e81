"""Parametrized constants: constants that vary between calls become kernel arguments.

    Before    x[3:7] * 0.5      then   x[4:8] * 0.25     two graphs, two compilations
    After     x[v:v+4] * p                               one graph; v a variable, p a PARAM

Constants and the offsets of slices are part of a graph, so a graph with another constant would be
compiled again. The first time, a graph is compiled as it is. When a graph of the same template
comes back, the constants that differ from the first time become arguments: numbers are read from
memory, slice offsets are bounded variables. Constants that never varied stay constants, and are
folded as usual.

Both tables here are in memory only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeVar

from porism.ir.node import UOp
from porism.schedule.constants.constant_slots import (
    Parametrized,
    constant_slots,
    parametrize,
    slot_value,
)

T = TypeVar("T")

MAX_ENTRIES: Final = 1000
"""Entries of each table, chosen by hand; the oldest entry is evicted first."""


@dataclass(slots=True)
class Template:
    """Graphs that differ in constants only: which constants have varied so far."""

    first_values: tuple[UOp, ...]
    """The constants of the first graph, by slot."""
    varying: set[int] = field(default_factory=set)
    """The slots that have had another value since."""


_templates: dict[UOp, Template] = {}
"""Templates by the graph in which every slot is an argument."""
_parametrized: dict[UOp, Parametrized] = {}
"""Parametrized graphs by the graph with its constants."""


def parametrize_varying(graph: UOp, parameters: int) -> Parametrized | None:
    """Return a graph with arguments for the constants that vary; None if none has varied yet.

    New PARAMs are numbered from `parameters` on, the number of PARAMs that the graph has.
    """
    result = _parametrized.get(graph)
    if result is None:
        result = _parametrize(graph, parameters)
        if result is not None:
            _insert(_parametrized, graph, result)
    return result


def _insert(table: dict[UOp, T], key: UOp, value: T) -> None:
    if len(table) >= MAX_ENTRIES:
        del table[next(iter(table))]
    table[key] = value


def _parametrize(graph: UOp, parameters: int) -> Parametrized | None:
    slots = constant_slots(graph)
    if not slots:
        return None
    values = tuple([slot_value(slot) for slot in slots])
    key = parametrize(graph, slots, parameters).graph
    template = _templates.get(key)
    if template is None:
        _insert(_templates, key, Template(values))
        return None
    pairs = zip(values, template.first_values, strict=True)
    template.varying.update(k for k, (value, first) in enumerate(pairs) if value is not first)
    varying = [slots[k] for k in sorted(template.varying)]
    if not varying:
        return None
    from porism.pipeline import PARAMETRIZE  # loaded when a constant first varies

    return PARAMETRIZE(graph, varying, parameters)
