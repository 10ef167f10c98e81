"""Realize: compute the values of tensor graphs, and keep them in buffers.

Before a graph is scheduled, the buffers in it become numbered parameters and bound variables become
variables, so that the same computation on other data is the same graph: its schedule is found in a
table, without any rewriting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.errors import PorismError
from porism.engine.reference import run
from porism.engine.storage import array_of, new_buffer, realized, remember
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.shape import shape
from porism.ir.walk import substitute, toposort
from porism.pipeline import to_schedule
from porism.schedule.schedule import Schedule

MOST_SCHEDULES: Final = 1000
"""Schedules that are kept; the oldest goes first."""

_schedules: dict[UOp, Schedule] = {}


@dataclass(frozen=True, slots=True)
class Request:
    """A computation apart from its data."""

    graph: UOp
    """A SINK of values on PARAMs and VARIABLEs."""
    buffers: tuple[UOp, ...]
    """The BUFFER behind each PARAM."""
    variables: dict[str, int]


def realize(nodes: Sequence[UOp]) -> list[UOp]:
    """For each node the BUFFER that holds its value; what is not there yet is computed."""
    missing = [node for node in dict.fromkeys(nodes) if realized(node) is None]
    if missing:
        _compute(missing)
    found = [buffer for node in nodes if (buffer := realized(node)) is not None]
    assert len(found) == len(nodes)
    return found


def request(nodes: Sequence[UOp]) -> Request:
    """What has to be computed for some nodes, on what is realized already."""
    order = toposort(*nodes, within=lambda node: realized(node) is None)
    sources = dict.fromkeys(s for n in order for s in n.src)
    known = {s: buffer for s in sources if (buffer := realized(s)) is not None}
    buffers = dict.fromkeys(known.values())
    numbers = {buffer: k for k, buffer in enumerate(buffers)}
    variables: dict[str, int] = {}
    sizes = toposort(*(dim for node in known for dim in shape(node)))
    replacements = {n: _bound(n, variables) for n in (*order, *sizes) if n.op is ops.BIND}
    for node, buffer in known.items():
        dims = [substitute(dim, replacements) for dim in shape(node)]
        replacements[node] = ops.PARAM(*dims, dtype=buffer.dtype, arg=numbers[buffer])
    graph = substitute(ops.SINK(*nodes), replacements)
    return Request(graph, tuple(buffers), variables)


def schedule_of(graph: UOp) -> Schedule:
    """The schedule of a graph; of one that was seen before, the same."""
    found = _schedules.get(graph)
    if found is None:
        found = to_schedule(graph)
        if len(_schedules) >= MOST_SCHEDULES:
            del _schedules[next(iter(_schedules))]
        _schedules[graph] = found
    return found


def _bound(node: UOp, variables: dict[str, int]) -> UOp:
    variable, value = node.src
    name, number = variable.arg[0], int(value.arg)
    if variables.setdefault(name, number) != number:
        raise PorismError(
            f"the variable {name} is bound to {variables[name]} and to {number}",
            why="in one computation a variable has one value",
            fix="compute the two results one after the other, or use two variables",
        )
    return variable


def _compute(missing: Sequence[UOp]) -> None:
    wanted = request(missing)
    schedule = schedule_of(wanted.graph)
    inputs = [array_of(buffer) for buffer in wanted.buffers]
    arrays = run(schedule, inputs, wanted.variables)
    for node, array in zip(missing, arrays, strict=True):
        dims = [_number(dim) for dim in shape(node)]
        remember(node, new_buffer(node.dtype, dims, array))


def _number(dim: UOp) -> int:
    """The size of an axis in this run."""
    from porism.evaluate import evaluate

    return int(dim.arg) if dim.op is ops.CONST else int(evaluate(dim)[0])
