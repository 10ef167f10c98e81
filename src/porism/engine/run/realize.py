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
from porism.base.settings import settings
from porism.engine.cache.schedule_cache import schedule_for
from porism.engine.run.backend_runners import forget_programs, run
from porism.engine.run.buffer_storage import held, hold, hold_number, realized, remember
from porism.engine.run.compile_verification import report_of
from porism.engine.run.parametrize_constants import generalized
from porism.engine.run.prepacked_constants import forget_packed
from porism.engine.run.program import forget_functions
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.node_collector import forget_unused, forgetting
from porism.ir.traversal import substitute, toposort
from porism.pipeline import forget_kernels
from porism.schedule.schedule import Schedule

MOST_SCHEDULES: Final = 1000
"""Schedules that are kept; the oldest goes first."""

_schedules: dict[tuple[UOp, *tuple[int, ...]], Schedule] = {}


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
    found = {node: buffer for node in nodes if (buffer := _at_hand(node)) is not None}
    missing = [node for node in dict.fromkeys(nodes) if node not in found]
    if missing:
        found.update(zip(missing, _compute(missing), strict=True))
    return [found[node] for node in nodes]


def _at_hand(node: UOp) -> UOp | None:
    """The BUFFER of what needs no kernel: of what is realized, and of a single number."""
    return hold_number(node) if node.op is ops.CONST else realized(node)


def request(nodes: Sequence[UOp]) -> Request:
    """What has to be computed for some nodes, on what is realized already."""
    order = toposort(*nodes, within=lambda node: realized(node) is None)
    sources = dict.fromkeys(s for n in order for s in n.src)
    known = {s: buffer for s in sources if (buffer := realized(s)) is not None}
    buffers = dict.fromkeys(known.values())
    numbers = {buffer: k for k, buffer in enumerate(buffers)}
    variables: dict[str, int] = {}
    sizes = toposort(*(dim for node in known for dim in shape(node)))
    replacements = {n: bound(n, variables) for n in (*order, *sizes) if n.op is ops.BIND}
    for node, buffer in known.items():
        dims = [substitute(dim, replacements) for dim in shape(node)]
        replacements[node] = ops.PARAM(*dims, dtype=buffer.dtype, arg=numbers[buffer])
    graph = substitute(ops.SINK(*nodes), replacements)
    return Request(graph, tuple(buffers), variables)


def schedule_of(graph: UOp) -> Schedule:
    """The schedule of a graph; of one that was seen before under the same settings, the same."""
    key = _key(graph)
    found = _schedules.get(key)
    if found is None:
        found = schedule_for(graph)
        if len(_schedules) >= MOST_SCHEDULES:
            del _schedules[next(iter(_schedules))]
        _schedules[key] = found
    if settings.verify:
        report_of(graph)
    return found


def _forget() -> None:
    """Let go of what is kept in case that it is needed again: the users of something before it."""
    forget_programs()
    forget_unused(_schedules)
    forget_functions()
    forget_packed()
    forget_kernels()


forgetting.append(_forget)


def _key(graph: UOp) -> tuple[UOp, *tuple[int, ...]]:
    return (graph, settings.kernel_nodes, settings.kernel_buffers, settings.kernel_uses,
            settings.buffer_level, settings.buffer_ratio, settings.fast_math)  # fmt: skip


def bound(node: UOp, variables: dict[str, int]) -> UOp:
    """The variable of a BIND, whose value is noted."""
    variable, value = node.src
    name, number = variable.arg[0], int(value.arg)
    if variables.setdefault(name, number) != number:
        raise PorismError(
            f"the variable {name} is bound to {variables[name]} and to {number}",
            why="in one computation a variable has one value",
            fix="compute the two results one after the other, or use two variables",
        )
    return variable


def _compute(missing: Sequence[UOp]) -> list[UOp]:
    wanted = _general(request(missing))
    schedule = schedule_of(wanted.graph)
    inputs = [held(buffer) for buffer in wanted.buffers]
    outputs = run(schedule, inputs, wanted.variables)
    buffers = []
    for node, (array, address) in zip(missing, outputs, strict=True):
        dims = tuple(_settled(dim) for dim in shape(node))
        buffers.append(hold(node.dtype, dims, array, address))
        if not _is_number(node):
            remember(node, buffers[-1], exact=not settings.fast_math)
    return buffers


def _general(wanted: Request) -> Request:
    """A request that was not scheduled before, with arguments for numbers that have changed.

    With fast math all numbers stay: rules ask for them, and x * 0.0 is not computed as x * 2.0 is.
    """
    if settings.fast_math or _key(wanted.graph) in _schedules:
        return wanted
    found = generalized(wanted.graph, len(wanted.buffers))
    if found is None:
        return wanted
    values = [hold_number(value) for value in found.values]
    return Request(found.graph, (*wanted.buffers, *values), {**wanted.variables, **found.offsets})


def _is_number(node: UOp) -> bool:
    """Whether a value is one constant all over.

    That is the same node in every graph, and better there than read from memory.
    """
    while node.op in (ops.RESHAPE, ops.EXPAND):
        node = node.src[0]
    return node.op is ops.CONST


def _settled(dim: UOp) -> UOp:
    """The size of an axis in this run, as a constant."""
    from porism.evaluate import evaluate

    return dim if dim.op is ops.CONST else UOp.const(dim.dtype, int(evaluate(dim)[0]))
