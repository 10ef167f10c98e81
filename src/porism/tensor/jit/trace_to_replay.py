"""From trace to replay: schedule what a traced function computes, and split off its constants."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from porism.base import device_use
from porism.base.device_use import HOST
from porism.base.settings import settings
from porism.engine.run import array_allocator
from porism.engine.run.backend_runners import Prepared, prepare, runner
from porism.engine.run.buffer_storage import (
    is_placeholder,
    node_storage,
    realized_buffer,
)
from porism.engine.run.realize import Request, request, schedule_of, unbind
from porism.gradient.stated_pullbacks import has_pullbacks, stated_value
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.schedule.constants.constant_subgraphs import bytes_of
from porism.schedule.schedule import Replaced, Schedule
from porism.tensor.jit.captured_constants import (
    CapturedConstants,
    ConstantProgram,
    owns_memory,
)
from porism.tensor.jit.captured_tensors import Location
from porism.tensor.jit.nested_values import TensorType, map_leaves, unbound_shape
from porism.tensor.jit.replay import (
    AssignedGradient,
    Replay,
    SizeSlot,
    TensorSlot,
    Traced,
    Value,
    value_checks,
)
from porism.tensor.jit.tracing import (
    CapturedTensor,
    TracedGradient,
    ValueStream,
    no_value,
    placeholder_of,
)
from porism.tensor.shapes import shape_error
from porism.tensor.tensor import Tensor

if TYPE_CHECKING:
    from porism.engine.device.device_segments import SegmentedProgram

    Computation = Request | SegmentedProgram


class Outputs:
    """The nodes of a function's results and assignments; a node may occur several times."""

    def __init__(self) -> None:
        self._nodes: list[UOp] = []
        self.sizes: list[UOp] = []
        """The symbolic sizes among the results."""

    def add(self, node: UOp) -> int:
        """Add a node, which gets memory of its own, and return its number."""
        self._nodes.append(stated_value(node))
        return len(self._nodes) - 1

    def variables(self) -> dict[str, int]:
        """Return the symbolic sizes in the shapes of the results, with their values."""
        variables: dict[str, int] = {}
        dims = [dim for node in self._nodes for dim in shape(node)]
        for node in toposort(*dims, *self.sizes):
            if node.op is ops.BIND:
                unbind(node, variables)
        return variables

    def computed(self) -> list[UOp]:
        """Return the nodes that have to be computed, each once."""
        return [n for n in dict.fromkeys(self._nodes) if realized_buffer(n) is None]

    def inputs(self) -> list[UOp]:
        """Return the BUFFERs that are results without computation."""
        buffers = (realized_buffer(node) for node in self._nodes)
        return [buffer for buffer in buffers if buffer is not None]

    def values(self, inputs: Mapping[UOp, int]) -> list[Value]:
        """Return where each result comes from; `inputs` are the numbers of the inputs."""
        output_of = {node: k for k, node in enumerate(self.computed())}
        used: set[UOp] = set()
        values = []
        for node in self._nodes:
            dims = shape(node)
            symbolic = any(dim.op is not ops.CONST for dim in dims)
            if node in output_of:
                output = output_of[node]
                values.append(Value(node.dtype, dims, symbolic, output, copied=node in used))
                used.add(node)
            else:
                buffer = realized_buffer(node)
                assert buffer is not None
                number = inputs[buffer]
                values.append(Value(node.dtype, dims, symbolic, None, number, copied=True))
        return values


def make_replay(
    arguments: Sequence[Tensor],
    placeholders: Sequence[UOp],
    captured: Sequence[CapturedTensor],
    streams: Sequence[ValueStream],
    gradients: Sequence[TracedGradient],
    result: Any,
    locations: Sequence[tuple[Location, Any]],
    lock: Any,
) -> Replay:
    """Return the replay of a trace.

    `arguments` are the tensors inside the function, which began as `placeholders`; equal ones stand
    for one tensor of the caller.
    """
    outputs = Outputs()
    structure = map_leaves(result, lambda leaf: _slot(leaf, outputs))
    assignments = _assignments(arguments, placeholders, captured, outputs)
    assigned_gradients = _assigned_gradients(gradients, arguments, outputs)
    roots = outputs.computed()
    from porism.pipeline import ERASE, PRECOMPUTE

    if has_pullbacks():
        roots = ERASE(roots, lambda node: realized_buffer(node) is not None)
    constants = _constant_buffers(captured, roots)
    computed, once = PRECOMPUTE(
        roots,
        constants,
        settings.constants_megabytes << 20,
        placeholder_of,
    )
    wanted = _request(computed)
    own_placeholders = {
        *placeholders,
        *(c.placeholder for c in captured),
        *(s.placeholder for s in streams),
        *once.values(),
    }
    numbers = _number_inputs(wanted, outputs, own_placeholders)
    argument_of = {placeholder: k for k, placeholder in enumerate(placeholders)}
    values = outputs.values(numbers)
    replaced = _replaced_inputs(assignments, captured, numbers, values)
    schedule = None
    if isinstance(wanted, Request):
        schedule = schedule_of(wanted.graph, replaced, wanted.device)
    fixed = [c for c in captured if _is_constant(c)]
    captured_types = [(c.tensor, _type(c.placeholder)) for c in captured]
    containers, cells = _containers_and_cells(locations)
    return Replay(
        schedule=schedule,
        arguments=[(n, argument_of[b]) for b, n in numbers.items() if b in argument_of],
        captured=_captured_inputs(captured, numbers, values),
        constants=_captured_constants(fixed, once, numbers, constants, schedule, wanted),
        streams=[(numbers.get(s.placeholder, -1), s.take, s.amount) for s in streams],
        variables={**outputs.variables(), **(wanted.variables if wanted else {})},
        values=values,
        result=structure,
        assignments=assignments,
        gradients=assigned_gradients,
        leaves=[(c.tensor, c.tensor._leaf) for c in captured],
        read_gradients=[
            (g.tensor, g.initial) for g in gradients if g.is_read and not _is_among(g, arguments)
        ],
        captured_types=captured_types,
        mutable_types=[
            row for c, row in zip(captured, captured_types, strict=True) if not _is_constant(c)
        ],
        locations=containers,
        cells=cells,
        devices=[(c.tensor, c.placeholder.arg[1] or None) for c in captured],
        lock=lock,
        traced=_traced(roots, placeholders, captured, streams, numbers) if value_checks else None,
    )


def _request(nodes: Sequence[UOp]) -> Computation | None:
    """Return the computation of some nodes by one device or several; None if there are none."""
    if not nodes:
        return None
    if not device_use.others_are_used:
        return request(nodes)
    from porism.engine.device.device_segments import device_for, needs_segments, segmented_program

    return (
        segmented_program(nodes) if needs_segments(nodes) else request(nodes, device_for(nodes[0]))
    )


def _traced(
    roots: Sequence[UOp],
    placeholders: Sequence[UOp],
    captured: Sequence[CapturedTensor],
    streams: Sequence[ValueStream],
    numbers: Mapping[UOp, int],
) -> Traced:
    """Return what a function computes, so that its values can be checked."""
    return Traced(
        roots,
        placeholders,
        [(c.placeholder, c.tensor) for c in captured],
        [(s.placeholder, numbers.get(s.placeholder, -1)) for s in streams],
    )


def _number_inputs(
    wanted: Computation | None, outputs: Outputs, placeholders: set[UOp]
) -> dict[UOp, int]:
    """Return the BUFFERs that a program reads or returns unchanged, with their numbers.

    Raise if one of them is a placeholder of another trace.
    """
    buffers = dict.fromkeys((*(wanted.buffers if wanted else ()), *outputs.inputs()))
    if any(is_placeholder(b) and b not in placeholders for b in buffers):
        raise no_value()  # it was kept from the trace of another function
    return {buffer: k for k, buffer in enumerate(buffers)}


def _replaced_inputs(
    assignments: Sequence[tuple[int | Tensor, int]],
    captured: Sequence[CapturedTensor],
    numbers: Mapping[UOp, int],
    values: Sequence[Value],
) -> Replaced:
    """Return the outputs that are new values of captured tensors, with their inputs.

    A value that is also returned, or assigned to two tensors, is copied from the output, and has
    memory of its own there.
    """
    placeholder_of = {id(c.tensor): c.placeholder for c in captured}
    shared = {value.output for value in values if value.copied}
    returned = {value.input for value in values if value.output is None}
    replaced = []
    for target, number in assignments:
        value = values[number]
        source = None if isinstance(target, int) else numbers.get(placeholder_of[id(target)])
        if source is None or value.output is None or value.symbolic:
            continue
        if value.output not in shared and source not in returned:
            replaced.append((value.output, source))
    return tuple(replaced)


def _captured_inputs(
    captured: Sequence[CapturedTensor], numbers: Mapping[UOp, int], values: Sequence[Value]
) -> list[tuple[int, Tensor]]:
    """Return the inputs that are captured tensors, except constants that are not returned."""
    returned = {value.input for value in values if value.output is None}
    captured_of = {c.placeholder: c for c in captured}
    inputs = [(n, captured_of[b]) for b, n in numbers.items() if b in captured_of]
    return [(n, c.tensor) for n, c in inputs if n in returned or not _is_constant(c)]


def _containers_and_cells(
    locations: Sequence[tuple[Location, Any]],
) -> tuple[list[tuple[Location, Any]], list[tuple[types.CellType, Tensor]]]:
    """Return the locations that are containers, and those that are closure cells."""
    containers, cells = [], []
    for location, tensor in locations:
        if isinstance(location[0], types.CellType):
            cells.append((location[0], tensor))
        else:
            containers.append((location, tensor))
    return containers, cells


def _type(placeholder: UOp) -> TensorType:
    """Return the type and the shape of a captured tensor, without values of symbolic sizes."""
    return placeholder.dtype, unbound_shape(placeholder, {})


def _assignments(
    arguments: Sequence[Tensor],
    placeholders: Sequence[UOp],
    captured: Sequence[CapturedTensor],
    outputs: Outputs,
) -> list[tuple[int | Tensor, int]]:
    """Return the assigned arguments (by number) and captured tensors, with their outputs."""
    assignments: list[tuple[int | Tensor, int]] = []
    first = {id(tensor): k for k, tensor in reversed(list(enumerate(arguments)))}
    for k, (tensor, placeholder) in enumerate(zip(arguments, placeholders, strict=True)):
        if tensor._node is not placeholder and first[id(tensor)] == k:
            assignments.append((k, outputs.add(tensor._node)))
    for c in captured:
        if c.node is not c.placeholder:
            assignments.append((c.tensor, outputs.add(c.node)))
    return assignments


def _assigned_gradients(
    gradients: Sequence[TracedGradient], arguments: Sequence[Tensor], outputs: Outputs
) -> list[AssignedGradient]:
    """Return the gradients that the function writes, of arguments (by number) and of others."""
    first = {id(tensor): k for k, tensor in reversed(list(enumerate(arguments)))}
    assigned = []
    for gradient in gradients:
        value = gradient.value
        if not gradient.is_written or (value is not None and value is gradient.initial):
            continue
        number = first.get(id(gradient.tensor))
        assigned.append(
            AssignedGradient(
                gradient.tensor if number is None else number,
                None if value is None else outputs.add(value.value_node),
                added=number is not None and not gradient.is_cleared,
            )
        )
    return assigned


def _is_among(gradient: TracedGradient, tensors: Sequence[Tensor]) -> bool:
    return any(gradient.tensor is tensor for tensor in tensors)


# -- constants -------------------------------------------------------------------------------------


def _is_constant(captured: CapturedTensor) -> bool:
    """Whether a captured tensor is not assigned to, and has a static shape."""
    if captured.node is not captured.placeholder:
        return False
    return all(dim.op is ops.CONST for dim in shape(captured.placeholder))


def _constant_buffers(captured: Sequence[CapturedTensor], roots: Sequence[UOp]) -> set[UOp]:
    """Return the BUFFERs that change only when a tensor is assigned to."""
    theirs = {c.placeholder for c in captured if _is_constant(c) and owns_memory(c.tensor)}
    inside = [n for n in toposort(*roots) if n.op is ops.BUFFER and not is_placeholder(n)]
    owned = {b for b in inside if array_allocator.is_pool_array(node_storage(b)[0])}
    return theirs | owned


def _captured_constants(
    tensors: Sequence[CapturedTensor],
    once: Mapping[UOp, UOp],
    numbers: Mapping[UOp, int],
    constants: set[UOp],
    schedule: Schedule | None,
    wanted: Computation | None,
) -> CapturedConstants:
    """Prepare the program with its constants; `once` maps nodes computed once to placeholders."""
    which = {c.placeholder: k for k, c in enumerate(tensors)}
    constant_program = _constant_program(once, numbers, which) if once else None
    fixed = constants | set(once.values())
    free = settings.constants_megabytes << 20
    free -= sum(constant_program.sizes if constant_program else ())
    packable = []
    for buffer in sorted((b for b in numbers if b in fixed), key=bytes_of):
        free -= bytes_of(buffer)
        if free >= 0:
            packable.append(numbers[buffer])
    program: Prepared | None = None
    device: str | None = HOST
    if isinstance(wanted, Request):
        if schedule is not None:
            device = wanted.device
            program = prepare(schedule, frozenset(packable), device=wanted.device)
    elif wanted is not None:
        device, program = None, wanted.prepared(frozenset(packable))
    packed = frozenset() if program is None else program.packed
    sources = constant_program.sources if constant_program else ()
    precomputed = {k for k in sources if isinstance(k, int)}
    precomputed.update(k for b, k in which.items() if numbers.get(b) in packed)
    return CapturedConstants(
        tensors=[c.tensor for c in tensors],
        input_count=len(numbers),
        inputs=[(n, which[b]) for b, n in numbers.items() if b in which],
        literals=[(n, node_storage(b)) for b, n in numbers.items() if not is_placeholder(b)],
        constant_program=constant_program,
        program=program,
        precomputed=frozenset(precomputed),
        device=device,
    )


def _constant_program(
    once: Mapping[UOp, UOp], numbers: Mapping[UOp, int], which: Mapping[UOp, int]
) -> ConstantProgram:
    """Return the program that computes the nodes that depend on constants alone."""
    wanted = _request(list(once))
    assert wanted is not None
    schedule = device = None
    if isinstance(wanted, Request):
        schedule, device = schedule_of(wanted.graph, (), wanted.device), wanted.device
        with settings.override(beam=0):  # a program that runs once is not worth a search
            run = runner(schedule, device)
    else:
        run = wanted.call
    return ConstantProgram(
        schedule,
        run,
        [which[b] if b in which else node_storage(b) for b in wanted.buffers],
        [numbers[placeholder] for placeholder in once.values()],
        [bytes_of(node) for node in once],
        device,
    )


def _slot(leaf: Any, outputs: Outputs) -> Any:
    """Return what stands for a leaf in the nested result; tensors become outputs."""
    if isinstance(leaf, Tensor):
        return TensorSlot(outputs.add(leaf.node))
    if isinstance(leaf, UOp):
        outputs.sizes.append(leaf)
        return SizeSlot(leaf)
    if not _is_result(leaf):
        raise shape_error(
            f"a jitted function returns a {type(leaf).__name__}",
            "only what is computed with tensors is computed again in the next call",
            "return tensors, numbers and text, in dicts, lists, tuples or dataclasses",
        )
    return leaf


def _is_result(leaf: Any) -> bool:
    """Whether a value can be returned again by every call."""
    generators = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
    if isinstance(leaf, (np.ndarray, set, bytearray, *generators)):
        return False
    return getattr(type(leaf), "__hash__", None) is not None
