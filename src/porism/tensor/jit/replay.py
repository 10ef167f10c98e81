"""Replay: a traced function as one program, with where its inputs come from and its outputs go."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from porism.backends.backend_table import chosen
from porism.base.dtypes import DType, index
from porism.base.fork_locks import held_while_forking
from porism.engine.run import array_allocator
from porism.engine.run.backend_runners import Runner, prepared
from porism.engine.run.buffer_storage import Held, NoValue, hold, remember
from porism.engine.run.realize import realize
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.facts.node_shape import Shape, shape
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.schedule.schedule import Schedule
from porism.tensor.jit.captured_constants import Lasting, Made, held_of
from porism.tensor.jit.captured_tensors import Place
from porism.tensor.jit.nested_values import Leaf, rebuilt, unbound
from porism.tensor.jit.tracing import no_value
from porism.tensor.promotion import name_of
from porism.tensor.shapes import refuse, to_text
from porism.tensor.tensor import Tensor

if TYPE_CHECKING:
    from porism.engine.tune.background_tuning import Background

_BUFFER: Final = ops.BUFFER

_assigning = held_while_forking(threading.RLock())
"""Held while tensors get their new values, so that a forked child has all of them or none."""


@dataclass(frozen=True, slots=True)
class Value:
    """A result: what the program wrote, or a copy of that or of an input."""

    dtype: DType
    dims: Shape
    symbolic: bool
    output: int | None
    """Which output of the program; None if it is an input, unchanged."""
    input: int = -1
    copied: bool = False
    """Whether it takes memory of its own, since something else has that of the output."""


class Slot:
    """In the structure of the result, the place of a tensor."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Size:
    """In the structure of the result, a symbolic size."""

    __slots__ = ("node",)

    def __init__(self, node: UOp) -> None:
        self.node = node


@dataclass(slots=True, eq=False)
class Replay:
    """A function that was traced."""

    schedule: Schedule | None
    """None if there is nothing to compute."""
    arguments: list[tuple[int, int]]
    """Inputs, and which tensor of the arguments each is."""
    captured: list[tuple[int, Tensor]]
    """Inputs, and the tensor from outside that each is, if it is assigned to or given as it is."""
    lasting: Lasting
    """All other inputs."""
    supplies: list[tuple[int, Callable[[int], Array], int]]
    """Inputs that go on from call to call, and by how much; -1 for what is not an input."""
    variables: dict[str, int]
    """Those that are bound in the function."""
    values: list[Value]
    result: Any
    """The structure of what the function gives, with slots for its tensors."""
    assigned: list[tuple[int | Tensor, int]]
    """Tensors of the arguments or from outside, and the values that they get."""
    outside: list[tuple[Tensor, Leaf]]
    """What the tensors from outside were like."""
    changing: list[tuple[Tensor, Leaf]]
    """Those of them that do not last."""
    named: list[tuple[Place, Tensor]]
    """Tensors from outside in dicts and lists."""
    cells: list[tuple[types.CellType, Tensor]]
    """Tensors from outside in variables of other functions."""
    lock: Any
    """Held while state is read and written, so that no other call comes between."""
    short: Any = None
    """The short way to what it gives, if there is one."""
    ids: frozenset[int] = field(init=False)
    """Of the tensors from outside."""

    def __post_init__(self) -> None:
        self.ids = frozenset(id(tensor) for tensor, _ in self.outside)

    @property
    def run_program(self) -> Runner | None:
        """None if there is nothing to compute."""
        program = self.lasting.program
        return None if program is None else program.run

    def outdated(self, variables: dict[str, int]) -> str | None:
        """Why the trace does not fit any more, or None; notes the values of variables."""
        checked = self.outside
        if checked and self.lasting.is_known():
            checked = self.changing
        return self._other_kind(checked, variables) or self._moved()

    def _other_kind(
        self, checked: Sequence[tuple[Tensor, Leaf]], variables: dict[str, int]
    ) -> str | None:
        """Which of some tensors is of another kind than it was; notes the values of variables."""
        for tensor, (dtype, dims) in checked:
            node = tensor._node
            now = node.src if node.op is _BUFFER else unbound(node, variables)
            if now != dims or node.dtype is not dtype:
                return (
                    f"a tensor that it uses was {name_of(dtype)} {_text(dims)} "
                    f"and is {name_of(node.dtype)} {_text(now)}"
                )
        return None

    def _moved(self) -> str | None:
        """Which tensor is no longer where it was found."""
        try:
            for (container, key), tensor in self.named:
                if container[key] is not tensor:
                    return f"{key!r} is another tensor than before"
            for cell, tensor in self.cells:
                if cell.cell_contents is not tensor:
                    return "a variable is another tensor than before"
        except (LookupError, ValueError):
            return "a place of a tensor that it uses is gone"
        return None

    def at_hand(self) -> tuple[Made, list[UOp]] | None:
        """What `made` gives, if all that it finds outside is as it was; else None."""
        lasting, variables = self.lasting, dict[str, int]()
        made, nodes = lasting.made, [tensor._node for tensor in lasting.tensors]
        if made is None or made.program is not lasting.program:
            return None
        if made.numbers != [node.arg for node in nodes]:
            return None
        if self._other_kind(self.changing, variables) or variables or self._moved():
            return None
        return made, nodes

    def is_plain(self) -> bool:
        """Whether it assigns to nothing, takes from no supply, and has one size for all calls."""
        symbolic = any(value.symbolic for value in self.values)
        return not (self.assigned or self.supplies or self.variables or symbolic)

    def single(self) -> tuple[DType, Shape, int] | None:
        """The type, the dims and which output what it gives is, if that is one computed tensor."""
        if self.result.__class__ is not Slot or len(self.values) != 1:
            return None
        (value,) = self.values
        if value.output is None or value.copied or value.symbolic:
            return None
        return value.dtype, value.dims, value.output

    def run(self, tensors: Sequence[Tensor], variables: Mapping[str, int]) -> Any:
        """Compute the result, and update state."""
        if not self.assigned:
            return self._run(tensors, variables)
        with self.lock:
            if not self.ids.isdisjoint(map(id, tensors)):
                raise both_inside_and_out()
            return self._run(tensors, variables)

    def tune(self, seconds: float) -> Background | None:
        """Have its kernels tuned in the background, and then use what was found."""
        backend, schedule = chosen(), self.schedule
        if schedule is None or backend.objects is None:
            return None
        from porism.engine.tune.background_tuning import Background

        program = self.lasting.program
        constants = frozenset() if program is None else program.constants

        def swap() -> None:
            self.lasting.program = prepared(schedule, constants, anew=True)

        return Background(schedule, constants, backend, seconds, swap)

    def _run(self, tensors: Sequence[Tensor], variables: Mapping[str, int]) -> Any:
        made, buffers = self.made()
        inputs = made.inputs.copy()
        for place, which in self.arguments:
            inputs[place] = held_of(tensors[which])
        for place, tensor in self.captured:
            inputs[place] = held_of(tensor)
        for place, take, amount in self.supplies:
            array = take(amount)
            if place >= 0:
                inputs[place] = (array, array_allocator.address_of(array))
        if self.variables:
            variables = {**self.variables, **variables}
        program = made.program
        outputs = [] if program is None else program.run(inputs, variables, made.packs)
        del buffers  # they were in use until here
        nodes = self.nodes(inputs, outputs, variables)
        if self.assigned:
            with _assigning:
                for target, number in self.assigned:
                    tensor = tensors[target] if isinstance(target, int) else target
                    tensor._node = nodes[number]
        return self.results(nodes, variables)

    def made(self) -> tuple[Made, list[UOp] | None]:
        """What lasts from call to call, and what is to be held while it is used."""
        lasting = self.lasting
        made = lasting.made
        if made is None or lasting.tensors or made.program is not lasting.program:
            return lasting.now()
        return made, None

    def nodes(
        self, inputs: Sequence[Held], outputs: Sequence[Held], variables: Mapping[str, int]
    ) -> list[UOp]:
        """The values as nodes."""
        return [_node(value, inputs, outputs, variables) for value in self.values]

    def results(self, nodes: Sequence[UOp], variables: Mapping[str, int]) -> Any:
        """What the function gives."""
        result = self.result
        if result.__class__ is Slot:
            return _tensor(nodes[result.number])
        return rebuilt(result, lambda leaf: _leaf(leaf, nodes, variables))


def compute(tensors: Sequence[Tensor]) -> None:
    """Compute tensors, all at once."""
    try:
        buffers = realize([tensor._node for tensor in tensors])
    except NoValue:
        raise no_value() from None
    for tensor, buffer in zip(tensors, buffers, strict=True):
        # A size that is symbolic stays so: it is what this tensor has in common with others.
        if all(dim.op is ops.CONST for dim in shape(tensor._node)):
            tensor._node = buffer


def _tensor(node: UOp) -> Tensor:
    found = Tensor.__new__(Tensor)
    found._node = node
    return found


def _leaf(leaf: Any, nodes: Sequence[UOp], variables: Mapping[str, int]) -> Any:
    if leaf.__class__ is Slot:
        return _tensor(nodes[leaf.number])
    return _bound(leaf.node, variables) if leaf.__class__ is Size else leaf


def _node(
    value: Value, inputs: Sequence[Held], outputs: Sequence[Held], variables: Mapping[str, int]
) -> UOp:
    """The BUFFER of a value, or what stands for it where sizes are symbolic."""
    array, address = inputs[value.input] if value.output is None else outputs[value.output]
    if value.copied:
        original = array
        array, address = array_allocator.new_array(array.size, array.dtype)
        np.copyto(array, original)
    if not value.symbolic:
        return hold(value.dtype, value.dims, array, address)
    dims = tuple(_bound(dim, variables) for dim in value.dims)
    sizes = tuple(UOp.const(index, int(evaluate(dim)[0])) for dim in dims)
    buffer = hold(value.dtype, sizes, array, address)
    node = ops.RESHAPE(buffer, *dims)
    remember(node, buffer)
    return node


def _bound(size: UOp, variables: Mapping[str, int]) -> UOp:
    """A symbolic size with the values of this call."""
    binds = [node for node in toposort(size) if node.op is ops.BIND]
    return substitute(
        size,
        {
            node: ops.BIND(node.src[0], UOp.const(index, variables[node.src[0].arg[0]]))
            for node in binds
        },
    )


def _text(dims: Shape) -> str:
    return to_text(int(dim.arg) if dim.op is ops.CONST else dim for dim in dims)


def both_inside_and_out() -> Exception:
    """The error for a tensor that is an argument and closed over, where either is assigned."""
    return refuse(
        "a tensor is an argument of a jitted function that also uses it from outside",
        "the function assigns to tensors, and a trace tells arguments from what is outside",
        "pass the tensor, or use it from outside, but not both",
    )
