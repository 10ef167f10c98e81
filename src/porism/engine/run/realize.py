"""Realize: compute the values of tensor graphs, and keep them in buffers.

    graph  →  request  →  parametrized constants  →  schedule  →  program  →  run

- A computation that ran before on other memory has a *run plan* (`run_plans`), and runs at once.
- A *request* is the graph with its buffers replaced by numbered PARAMs and its bound variables by
  VARIABLEs, so that the same computation on other data is the same graph.
- Constants that vary between requests become arguments (`parametrize_constants`).
- The schedule, an ordered list of kernels, is looked up here, in memory, by graph, backend and
  scheduling settings; then on disk (`cache/schedule_cache`); then it is made
  (`pipeline.schedule_graph`).
- The program, the schedule in machine code, is looked up in memory by schedule, backend and
  constant inputs (`backend_runners`); then on disk (`cache/program_cache`). Or its kernels are
  looked up in memory by kernel and actions (`program`), then on disk (`cache/kernel_cache`); the
  rest are lowered and compiled together.
- A run writes addresses into an argument block and makes one native call (`program`).

All nodes of a request are on one device. Where a program uses others than the processor, values are
moved between devices first, and each device computes its own part (`device/device_segments`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from porism.backends.backend_table import Backend
from porism.base import device_use
from porism.base.device_use import HOST
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.engine.cache.schedule_cache import load_or_schedule
from porism.engine.profile import program_observer
from porism.engine.run.backend_runners import backend_of, forget_programs, run
from porism.engine.run.bound_sizes import evaluate_size
from porism.engine.run.buffer_storage import (
    Storage,
    buffer_for_array,
    buffer_for_constant,
    node_storage,
    note_movable,
    realized_buffer,
    realized_on,
    record_realized,
)
from porism.engine.run.parametrize_constants import parametrize_varying
from porism.engine.run.prepacked_constants import forget_prepacked
from porism.engine.run.program import forget_functions
from porism.engine.run.run_plans import (
    Output,
    RunPlan,
    find_plan,
    forget_plans,
    keep_plan,
    structure_of,
)
from porism.gradient.stated_pullbacks import has_pullbacks, stated_value
from porism.ir import ops
from porism.ir.facts.node_device import device_of
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.node_collector import drop_unreferenced, on_full_collection
from porism.ir.traversal import substitute, toposort
from porism.rules import construction_rules as _rules  # noqa: F401 - applied as nodes are made
from porism.schedule.schedule import Replaced, Schedule

MAX_SCHEDULES: Final = 1000
"""Schedules in memory, chosen by hand; the oldest is evicted first."""

ScheduleKey = tuple[UOp, str, *tuple[Any, ...]]
"""A graph, the name of a backend, the settings that scheduling depends on, and what is replaced."""

_schedules: dict[ScheduleKey, Schedule] = {}

value_checks: list[Callable[[Sequence[UOp], Sequence[UOp]], None]] = []
"""Called with nodes that were computed, and their BUFFERs; empty unless values are checked."""


@dataclass(frozen=True, slots=True)
class Request:
    """A computation separated from its data."""

    graph: UOp
    """A SINK of values on PARAMs and VARIABLEs."""
    buffers: tuple[UOp, ...]
    """The BUFFER behind each PARAM."""
    variables: dict[str, int]
    device: str = HOST
    """The device that computes it."""


def realize(nodes: Sequence[UOp]) -> list[UOp]:
    """Return the BUFFER with the value of each node; values that are not realized are computed."""
    if has_pullbacks():
        nodes = [stated_value(node) for node in nodes]
    buffers = [_existing_buffer(node) for node in nodes]
    missing = list(dict.fromkeys([n for n, b in zip(nodes, buffers, strict=True) if b is None]))
    computed = dict(zip(missing, _compute(missing), strict=True)) if missing else {}
    if missing:
        for check in value_checks:
            check(missing, list(computed.values()))
    return [computed[n] if b is None else b for n, b in zip(nodes, buffers, strict=True)]


def _existing_buffer(node: UOp) -> UOp | None:
    """Return the BUFFER of a node that needs no kernel: a realized value or a scalar constant."""
    if device_use.others_are_used:
        from porism.engine.device.device_segments import existing_buffer

        return existing_buffer(node)
    return buffer_for_constant(node) if node.op is ops.CONST else realized_buffer(node)


def request(nodes: Sequence[UOp], device: str = HOST) -> Request:
    """Return the computation of some nodes on a device, with realized values as its inputs.

    No value in it is moved from another device, unless it was moved already.
    """
    if has_pullbacks():
        from porism.pipeline import ERASE  # loaded where something is differentiated

        nodes = ERASE(nodes, lambda node: realized_on(node, device) is not None)
    if device_use.others_are_used:
        from porism.engine.device.device_segments import without_copies

        nodes = without_copies(nodes, device)
    order = toposort(*nodes, within=lambda node: realized_on(node, device) is None)
    sources = dict.fromkeys(s for n in order for s in n.src)
    known = {s: buffer for s in sources if (buffer := realized_on(s, device)) is not None}
    buffers = dict.fromkeys(known.values())
    numbers = {buffer: k for k, buffer in enumerate(buffers)}
    variables: dict[str, int] = {}
    sizes = toposort(*(dim for node in known for dim in shape(node)))
    replacements = {n: unbind(n, variables) for n in (*order, *sizes) if n.op is ops.BIND}
    for node, buffer in known.items():
        dims = [substitute(dim, replacements) for dim in shape(node)]
        replacements[node] = ops.PARAM(*dims, dtype=buffer.dtype, arg=numbers[buffer])
    graph = substitute(ops.SINK(*nodes), replacements)
    return Request(graph, tuple(buffers), variables, device)


def schedule_of(graph: UOp, replaced: Replaced = (), device: str = HOST) -> Schedule:
    """Return the schedule of a graph for a device; cached by graph, backend and settings.

    Outputs may overwrite the inputs that they have `replaced`.
    """
    backend = backend_of(device)
    key = (*_schedule_key(graph, backend), *replaced)
    schedule = _schedules.get(key)
    if schedule is None:
        schedule = load_or_schedule(graph, backend.target(), replaced)
        if len(_schedules) >= MAX_SCHEDULES:
            del _schedules[next(iter(_schedules))]
        _schedules[key] = schedule
    for observer in program_observer.observers:
        observer(graph, schedule)
    if settings.verify:
        from porism.engine.run.compile_verification import report_of

        report_of(graph)
        if replaced:
            from porism.verification.verify_memory_plan import check_memory_plan

            check_memory_plan(schedule)
    return schedule


def _release_unused() -> None:
    """Release cached entries that nothing uses; each cache before the ones it refers to."""
    forget_plans()
    forget_programs()
    drop_unreferenced(_schedules)
    forget_functions()
    forget_prepacked()


on_full_collection.append(_release_unused)


def _schedule_key(graph: UOp, backend: Backend) -> ScheduleKey:
    return (graph, backend.name, settings.kernel_nodes, settings.kernel_buffers,
            settings.kernel_uses, settings.buffer_level, settings.buffer_ratio,
            settings.fast_math)  # fmt: skip


def unbind(node: UOp, variables: dict[str, int]) -> UOp:
    """Return the variable of a BIND, and record its value in `variables`."""
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
    if device_use.others_are_used:
        from porism.engine.device.device_segments import compute_on_devices

        return compute_on_devices(missing)
    return compute_on(HOST, missing)


def compute_on(device: str, missing: Sequence[UOp]) -> list[UOp]:
    """Return the BUFFERs of nodes that one device computes."""
    found = structure_of(missing, device)
    plan = None if found is None else find_plan(found[0])
    if found is not None and plan is not None:
        return _record(missing, plan.outputs, plan.run(found[1]), device)
    original = request(missing, device)
    computation = _parametrize(original)
    schedule = schedule_of(computation.graph, (), device)
    inputs = [node_storage(buffer) for buffer in computation.buffers]
    results = run(schedule, inputs, computation.variables, device)
    outputs = tuple([_output_of(node) for node in missing])
    backend = backend_of(device)
    if found is not None and backend.load is not None and set(original.buffers) == set(found[1]):
        order = tuple([found[1].index(buffer) for buffer in original.buffers])
        constants = tuple(inputs[len(order) :])
        variables = computation.variables
        plan = RunPlan(schedule, backend, order, constants, variables, outputs, device)
        keep_plan(found[0], plan)
    return _record(missing, outputs, results, device)


def _output_of(node: UOp) -> Output:
    dims = tuple(_concrete_dim(dim) for dim in shape(node))
    return Output(node.dtype, dims, _is_constant(node))


def _record(
    nodes: Sequence[UOp],
    outputs: Sequence[Output],
    results: Sequence[Storage],
    device: str,
) -> list[UOp]:
    """Return a BUFFER for each result, recorded as the value of its node."""
    buffers = []
    for node, output, (array, address) in zip(nodes, outputs, results, strict=True):
        buffer = buffer_for_array(output.dtype, output.dims, array, address, device)
        buffers.append(buffer)
        if not node.uses_buffer and _is_on_no_device(node):
            note_movable(buffer, node)
        if not output.is_constant:
            record_realized(node, buffer, exact=not settings.fast_math)
    return buffers


def _is_on_no_device(node: UOp) -> bool:
    """Return whether a value without a BUFFER below it is on no device, and has a known size."""
    if any(dim.op is not ops.CONST for dim in shape(node)):
        return False  # the node stays that of its tensor, and its BUFFER has to be found
    return not device_use.others_are_used or device_of(node) is None


def _parametrize(computation: Request) -> Request:
    """Return a request with varying constants as arguments; one that has a schedule as it is.

    With fast math all constants stay: rules match them, and x * 0.0 is not computed as x * 2.0 is.
    """
    backend = backend_of(computation.device)
    if settings.fast_math or _schedule_key(computation.graph, backend) in _schedules:
        return computation
    parametrized = parametrize_varying(computation.graph, len(computation.buffers))
    if parametrized is None:
        return computation
    values = [buffer_for_constant(value, computation.device) for value in parametrized.values]
    return Request(
        parametrized.graph,
        (*computation.buffers, *values),
        {**computation.variables, **parametrized.offsets},
        computation.device,
    )


def _is_constant(node: UOp) -> bool:
    """Return whether all elements of a value are one constant.

    Such a value is better inlined as a constant than read from memory.
    """
    while node.op in (ops.RESHAPE, ops.EXPAND):
        node = node.src[0]
    return node.op is ops.CONST


def _concrete_dim(dim: UOp) -> UOp:
    """Return the size of an axis as a CONST, with the values that its variables are bound to."""
    if dim.op is ops.CONST:
        return dim
    return UOp.const(dim.dtype, evaluate_size(dim, {}))
