"""Replay: a traced function as one program, the sources of its inputs and uses of its outputs."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from porism.backends.backend_table import selected_backend
from porism.base import device_use
from porism.base.device_use import HOST
from porism.base.dtypes import DType, index
from porism.base.fork_locks import held_while_forking
from porism.base.interrupts import deferred_interrupts
from porism.engine.run import array_allocator
from porism.engine.run.backend_runners import Runner, prepare
from porism.engine.run.bound_sizes import evaluate_size
from porism.engine.run.buffer_storage import (
    NoValue,
    Storage,
    buffer_for_array,
    device_name_of,
    duplicate,
    is_unshared,
    record_realized,
    storage_on,
)
from porism.engine.run.realize import realize
from porism.ir import ops
from porism.ir.facts.node_shape import Shape, shape
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.schedule.schedule import Schedule
from porism.tensor.autodiff.leaf_state import Leaf
from porism.tensor.jit import replay_devices
from porism.tensor.jit.captured_constants import CallConstants, CapturedConstants, storage_of
from porism.tensor.jit.captured_tensors import Location
from porism.tensor.jit.nested_values import TensorType, contents, map_leaves, unbound_shape
from porism.tensor.jit.tracing import no_value
from porism.tensor.promotion import name_of
from porism.tensor.shapes import shape_error, to_text
from porism.tensor.tensor import Tensor, is_replaceable

if TYPE_CHECKING:
    from porism.engine.tune.background_tuning import BackgroundTuning

_BUFFER: Final = ops.BUFFER

ValueCheck = Callable[[Sequence[UOp], Mapping[UOp, UOp], Sequence[Storage]], None]
"""Takes what was computed, the BUFFER of each placeholder in it, and the outputs."""

_assigning = held_while_forking(threading.RLock())
"""Held while tensors are assigned, so that a forked child sees all assignments or none.

But a child that is forked while another thread overwrites state sees some of the new values.
"""


@dataclass(frozen=True, slots=True)
class Value:
    """A result of a call: an output of the program, or a copy of an output or of an input."""

    dtype: DType
    dims: Shape
    symbolic: bool
    output: int | None
    """The output of the program; None if the result is an unchanged input."""
    input: int = -1
    copied: bool = False
    """Whether it is copied to memory of its own, since another result has that memory."""


ComputedOutput = tuple[DType, Shape, int]
"""The type and the shape of a result, and the output of the program that it is."""

value_checks: list[ValueCheck] = []
"""What is called after each call of a jitted function; empty unless values are checked."""


class TensorSlot:
    """Stands for a tensor in the nested result."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class SizeSlot:
    """Stands for a symbolic size in the nested result."""

    __slots__ = ("node",)

    def __init__(self, node: UOp) -> None:
        self.node = node


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """What a function computes, kept where values are checked."""

    roots: Sequence[UOp]
    arguments: Sequence[UOp]
    """The placeholders of its arguments."""
    captured: Sequence[tuple[UOp, Tensor]]
    """The placeholders of captured tensors."""
    streams: Sequence[tuple[UOp, int]]
    """The placeholders of values that are new in each call, and their inputs."""

    def given(self, tensors: Sequence[Tensor], inputs: Sequence[Storage]) -> dict[UOp, UOp]:
        """Return the BUFFER of each placeholder in a call."""
        found = {p: t._node for p, t in zip(self.arguments, tensors, strict=True)}
        found.update({p: t._node for p, t in self.captured})
        for placeholder, number in self.streams:
            if number >= 0:
                array, address = inputs[number]
                dims = shape(placeholder)
                found[placeholder] = buffer_for_array(
                    placeholder.dtype, dims, array, address, device_name_of(inputs[number])
                )
        return found


@dataclass(frozen=True, slots=True, eq=False)
class AssignedGradient:
    """A gradient that the function writes."""

    target: int | Tensor
    """The tensor, or the number of an argument."""
    number: int | None
    """The result that is its new gradient; None if it has none then."""
    added: bool
    """Whether the result is added to a gradient from before the call."""


@dataclass(slots=True, eq=False)
class Replay:
    """One trace of a function, compiled to a program."""

    schedule: Schedule | None
    """The kernels; None if there is nothing to compute."""
    arguments: list[tuple[int, int]]
    """Inputs of the program, and which tensor of the arguments each is."""
    captured: list[tuple[int, Tensor]]
    """Inputs of the program, and the captured tensor of each, if it is assigned or returned."""
    constants: CapturedConstants
    """All other inputs."""
    streams: list[tuple[int, Callable[[int], Array], int]]
    """Inputs with new values in each call, what returns them, and the amount; -1 for no input."""
    variables: dict[str, int]
    """The symbolic sizes that are bound inside the function, with their values."""
    values: list[Value]
    result: Any
    """The nested result of the function, with slots for its tensors."""
    assignments: list[tuple[int | Tensor, int]]
    """Arguments (by number) and captured tensors, and the values that they are assigned."""
    gradients: list[AssignedGradient]
    """The gradients that it writes."""
    leaves: list[tuple[Tensor, Leaf | None]]
    """The captured tensors, and whether gradients were taken with respect to them."""
    read_gradients: list[tuple[Tensor, Tensor | None]]
    """The captured tensors whose gradient was used, and what it was."""
    captured_types: list[tuple[Tensor, TensorType]]
    """The captured tensors, and their types and shapes when they were traced."""
    mutable_types: list[tuple[Tensor, TensorType]]
    """Those of them that are not constants."""
    locations: list[tuple[Location, Any]]
    """The containers that hold captured tensors."""
    cells: list[tuple[types.CellType, Tensor]]
    """The closure cells that hold captured tensors."""
    lock: Any
    """Held while state is read and written, so that no other call interferes."""
    traced: Traced | None = None
    """What it computes, if values are checked."""
    fast_path: Any = None
    """The fast path to this trace, if there is one."""
    devices: list[tuple[Tensor, str | None]] = field(default_factory=list)
    """The captured tensors, and the devices that they were on when they were traced."""
    captured_ids: frozenset[int] = field(init=False)
    """The ids of the captured tensors."""
    captured_of: dict[int, Tensor] = field(init=False)
    """The captured tensor of each input that is one, and is assigned or returned."""

    def __post_init__(self) -> None:
        self.captured_ids = frozenset(id(tensor) for tensor, _ in self.captured_types)
        self.captured_of = dict(self.captured)

    @property
    def run_program(self) -> Runner | None:
        """What runs the program; None if there is nothing to compute."""
        program = self.constants.program
        return None if program is None else program.run

    def why_outdated(self, variables: dict[str, int]) -> str | None:
        """Return why the trace no longer applies, or None; note the values of symbolic sizes."""
        checked = self.captured_types
        if checked and self.constants.is_current():
            checked = self.mutable_types
        changed = self._changed_type(checked, variables) or self._moved_tensor()
        return changed or self._changed_device() or self._changed_gradient()

    @property
    def device(self) -> str:
        """The device of the results that the program computes."""
        return self.constants.device or HOST

    def _changed_device(self) -> str | None:
        """Return which captured tensor is on another device than when it was traced."""
        if not device_use.others_are_used:
            return None
        return replay_devices.changed_device(self.devices, self.constants.device)

    def _changed_gradient(self) -> str | None:
        """Return which captured tensor has another gradient than when it was traced."""
        for tensor, leaf in self.leaves:
            if tensor._leaf is not leaf:
                return "requires_grad of a tensor that it uses has changed"
        for tensor, gradient in self.read_gradients:
            leaf = tensor._leaf
            if leaf is not None and leaf.grad is not gradient:
                return "a tensor that it uses has another gradient, or one where it had none"
        return None

    def _changed_type(
        self, checked: Sequence[tuple[Tensor, TensorType]], variables: dict[str, int]
    ) -> str | None:
        """Return which captured tensor has another type or shape; note values of symbolic sizes."""
        for tensor, (dtype, dims) in checked:
            node = tensor._node
            now = node.src if node.op is _BUFFER else unbound_shape(node, variables)
            if now != dims or node.dtype is not dtype:
                return (
                    f"a tensor that it uses was {name_of(dtype)} {_text(dims)} "
                    f"and is {name_of(node.dtype)} {_text(now)}"
                )
        return None

    def _moved_tensor(self) -> str | None:
        """Return which captured tensor is no longer in its location."""
        try:
            for (container, key), tensor in self.locations:
                if container[key] is not tensor:
                    return f"{key!r} is another tensor than before"
            for cell, tensor in self.cells:
                if cell.cell_contents is not tensor:
                    return "a variable is another tensor than before"
        except (LookupError, ValueError):
            return "a container of a tensor that it uses is gone"
        return None

    def unchanged_constants(self) -> tuple[CallConstants, list[UOp]] | None:
        """Return what `call_constants` does if no captured tensor has changed, else None."""
        constants, variables = self.constants, dict[str, int]()
        latest, nodes = constants.latest, [tensor._node for tensor in constants.tensors]
        if latest is None or latest.program is not constants.program:
            return None
        if latest.buffer_numbers != [node.arg for node in nodes]:
            return None
        if self._changed_type(self.mutable_types, variables) or variables or self._moved_tensor():
            return None
        if self._changed_device():
            return None
        return latest, nodes

    def is_stateless(self) -> bool:
        """Whether the function assigns nothing, has no value streams and no symbolic sizes."""
        symbolic = any(value.symbolic for value in self.values)
        state = self.assignments or self.gradients or self.streams or self.variables
        return not (state or symbolic or self.traced)

    def single_output(self) -> ComputedOutput | None:
        """Return what the result is if it is one computed tensor, else None."""
        if self.result.__class__ is not TensorSlot or len(self.values) != 1:
            return None
        return self._computed(self.result)

    def complex_output(self) -> tuple[type, ComputedOutput, ComputedOutput] | None:
        """Return the class and the parts of the result if it is one complex tensor, else None."""
        result = self.result
        if not isinstance(result, Tensor) or len(self.values) != 2:
            return None
        real, imag = (self._computed(slot) for _, slot in contents(result) or ())
        return None if real is None or imag is None else (type(result), real, imag)

    def _computed(self, slot: TensorSlot) -> ComputedOutput | None:
        """Return what a result is if the program computes it into memory of its own, else None."""
        value = self.values[slot.number]
        if value.output is None or value.copied or value.symbolic:
            return None
        return value.dtype, value.dims, value.output

    def run(self, tensors: Sequence[Tensor], variables: Mapping[str, int]) -> Any:
        """Compute the result of a call, and assign state."""
        if not (self.assignments or self.gradients):
            return self._run(tensors, variables)
        with self.lock:
            if not self.captured_ids.isdisjoint(map(id, tensors)):
                raise captured_argument_error()
            return self._run(tensors, variables)

    def tune(self, seconds: float) -> BackgroundTuning | None:
        """Tune the kernels in the background for some seconds, then swap in the tuned program."""
        backend, schedule = selected_backend(), self.schedule
        if schedule is None or backend.objects is None or self.constants.device != HOST:
            return None
        from porism.engine.tune.background_tuning import BackgroundTuning

        program = self.constants.program
        constants = frozenset() if program is None else program.constants

        def swap() -> None:
            self.constants.program = prepare(schedule, constants, recompile=True)

        return BackgroundTuning(schedule, constants, backend, seconds, swap)

    def _run(self, tensors: Sequence[Tensor], variables: Mapping[str, int]) -> Any:
        """Gather the inputs, run the program, assign state, and return the result."""
        overwritten = self._overwritten()
        if not overwritten:
            return self._run_on(tensors, variables, ())
        with deferred_interrupts():  # what is overwritten is assigned as well, and all else
            return self._run_on(tensors, variables, overwritten)

    def _overwritten(self) -> list[int]:
        """Return the outputs that are written over the captured tensors that they are assigned to.

        So it is where nothing else refers to the values of such a tensor.
        """
        program = self.constants.program
        if program is None or not program.in_place or self.traced is not None:
            return []
        found = []
        for output, number in program.in_place.items():
            node = self.captured_of[number]._node
            if is_unshared(node):
                found.append(output)
        return found

    def _run_on(
        self,
        tensors: Sequence[Tensor],
        variables: Mapping[str, int],
        overwritten: Collection[int],
    ) -> Any:
        """Run as `_run` does, with some outputs in the memory of the tensors that they replace."""
        constants, buffers = self.call_constants()
        inputs = constants.inputs.copy()
        for number, which in self.arguments:
            inputs[number] = storage_of(tensors[which])
        for number, tensor in self.captured:
            inputs[number] = storage_of(tensor)
        for number, take, amount in self.streams:
            array = take(amount)
            if number >= 0:
                inputs[number] = (array, array_allocator.address_of(array))
        device = self.constants.device
        if device_use.others_are_used and device is not None:
            replay_devices.check_arguments([tensors[k] for _, k in self.arguments], device)
            inputs = [storage_on(storage, device) for storage in inputs]
        if self.variables:
            variables = {**self.variables, **variables}
        program = constants.program
        outputs: list[Storage] = []
        if program is not None:
            outputs = program.run(inputs, variables, constants.fixed, overwritten)
        del buffers  # kept alive until here
        if self.traced is not None:
            for check in value_checks:
                check(self.traced.roots, self.traced.given(tensors, inputs), outputs)
        nodes = self.nodes(inputs, outputs, variables)
        if self.assignments or self.gradients:
            with _assigning, nullcontext() if overwritten else deferred_interrupts():
                for target, number in self.assignments:
                    tensor = tensors[target] if isinstance(target, int) else target
                    tensor._node = nodes[number]
                for gradient in self.gradients:
                    target = gradient.target
                    tensor = tensors[target] if isinstance(target, int) else target
                    _assign_gradient(tensor, gradient, nodes)
        return self.results(nodes, variables)

    def call_constants(self) -> tuple[CallConstants, list[UOp] | None]:
        """Return what a call needs besides its arguments, and BUFFERs to be kept alive in it."""
        constants = self.constants
        latest = constants.latest
        if latest is None or constants.tensors or latest.program is not constants.program:
            return constants.current()
        return latest, None

    def nodes(
        self, inputs: Sequence[Storage], outputs: Sequence[Storage], variables: Mapping[str, int]
    ) -> list[UOp]:
        """Return the node of each result."""
        return [_node(value, inputs, outputs, variables) for value in self.values]

    def results(self, nodes: Sequence[UOp], variables: Mapping[str, int]) -> Any:
        """Return the nested result of the function, with tensors on the given nodes."""
        result = self.result
        if result.__class__ is TensorSlot:
            return _tensor(nodes[result.number])
        return map_leaves(result, lambda leaf: _leaf(leaf, nodes, variables))


def _assign_gradient(tensor: Tensor, gradient: AssignedGradient, nodes: Sequence[UOp]) -> None:
    """Give a tensor the gradient that a call computed."""
    leaf = tensor._leaf
    if leaf is None:
        return
    if gradient.number is None:
        leaf.grad = None
    elif gradient.added and leaf.grad is not None:
        leaf.grad._node = leaf.grad._node + nodes[gradient.number]
    else:
        leaf.grad = _tensor(nodes[gradient.number])


def realize_tensors(tensors: Sequence[Tensor]) -> None:
    """Compute tensors in one program, and let them hold the values."""
    try:
        buffers = realize([tensor._node for tensor in tensors])
    except NoValue:
        raise no_value() from None
    for tensor, buffer in zip(tensors, buffers, strict=True):
        if is_replaceable(tensor._node):
            tensor._node = buffer


def _tensor(node: UOp) -> Tensor:
    """Return a tensor on a node, outside of any trace."""
    tensor = Tensor.__new__(Tensor)
    tensor._leaf = None
    tensor._node = node
    return tensor


def _leaf(leaf: Any, nodes: Sequence[UOp], variables: Mapping[str, int]) -> Any:
    """Return what a leaf of the nested result stands for."""
    if leaf.__class__ is TensorSlot:
        return _tensor(nodes[leaf.number])
    return _bound(leaf.node, variables) if leaf.__class__ is SizeSlot else leaf


def _node(
    value: Value,
    inputs: Sequence[Storage],
    outputs: Sequence[Storage],
    variables: Mapping[str, int],
) -> UOp:
    """Return the BUFFER of a result, reshaped where sizes are symbolic."""
    array, address = inputs[value.input] if value.output is None else outputs[value.output]
    if value.copied:
        array, address = duplicate((array, address))
    device = device_name_of((array, address))
    if not value.symbolic:
        return buffer_for_array(value.dtype, value.dims, array, address, device)
    dims = tuple(_bound(dim, variables) for dim in value.dims)
    sizes = tuple(UOp.const(index, evaluate_size(dim, {})) for dim in dims)
    buffer = buffer_for_array(value.dtype, sizes, array, address, device)
    node = ops.RESHAPE(buffer, *dims)
    record_realized(node, buffer)
    return node


def _bound(size: UOp, variables: Mapping[str, int]) -> UOp:
    """Return a symbolic size with the values of this call."""
    binds = [node for node in toposort(size) if node.op is ops.BIND]
    return substitute(
        size,
        {
            node: ops.BIND(node.src[0], UOp.const(index, variables[node.src[0].arg[0]]))
            for node in binds
        },
    )


def _text(dims: Shape) -> str:
    """Return a shape as text."""
    return to_text(int(dim.arg) if dim.op is ops.CONST else dim for dim in dims)


def captured_argument_error() -> Exception:
    """Return the error for a tensor that is an argument and captured, where one is assigned."""
    return shape_error(
        "a tensor is an argument of a jitted function that also captures it",
        "the function assigns to tensors, and a trace tells arguments from captured tensors",
        "pass the tensor, or capture it, but not both",
    )
