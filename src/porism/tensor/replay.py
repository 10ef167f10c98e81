"""Replay: a traced function as one program, with where its inputs come from and its outputs go."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from porism.backends.table import chosen
from porism.base.dtypes import DType, index
from porism.base.forking import held_while_forking
from porism.base.settings import settings
from porism.engine import memory
from porism.engine.folding import bytes_of, constant_parts
from porism.engine.realize import bound, realize, request, schedule_of
from porism.engine.runners import Runner, prepared, runner
from porism.engine.storage import (
    Held,
    NoValue,
    array_of,
    held,
    hold,
    is_placeholder,
    new_placeholder,
    realized,
    remember,
)
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.semantics import Array
from porism.ir.shape import Shape, shape
from porism.ir.walk import substitute, toposort
from porism.schedule.schedule import Schedule
from porism.tensor.holders import Place
from porism.tensor.lasting import Lasting, Once, held_of, is_own
from porism.tensor.promotion import name_of
from porism.tensor.shapes import refuse, to_text
from porism.tensor.structure import Leaf, rebuilt, unbound
from porism.tensor.tensor import Tensor
from porism.tensor.tracing import Outside, Supply, no_value

if TYPE_CHECKING:
    from porism.engine.background import Background

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
        for tensor, (dtype, dims) in checked:
            node = tensor._node
            now = node.src if node.op is _BUFFER else unbound(node, variables)
            if now != dims or node.dtype is not dtype:
                return (
                    f"a tensor that it uses was {name_of(dtype)} {_text(dims)} "
                    f"and is {name_of(node.dtype)} {_text(now)}"
                )
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
        from porism.engine.background import Background

        def swap() -> None:
            program = self.lasting.program
            constants = frozenset() if program is None else program.constants
            self.lasting.program = prepared(schedule, constants, anew=True)

        return Background([step.kernel for step in schedule.steps], backend, seconds, swap)

    def _run(self, tensors: Sequence[Tensor], variables: Mapping[str, int]) -> Any:
        lasting, buffers = self.lasting, None
        made = lasting.made
        if made is None or lasting.tensors or made.program is not lasting.program:
            made, buffers = lasting.now()
        inputs = made.inputs.copy()
        for place, which in self.arguments:
            inputs[place] = held_of(tensors[which])
        for place, tensor in self.captured:
            inputs[place] = held_of(tensor)
        for place, take, amount in self.supplies:
            array = take(amount)
            if place >= 0:
                inputs[place] = (array, memory.address_of(array))
        if self.variables:
            variables = {**self.variables, **variables}
        program = made.program
        outputs = [] if program is None else program.run(inputs, variables, made.packs)
        del buffers  # they were in use until here
        nodes = []
        for value in self.values:
            nodes.append(_node(value, inputs, outputs, variables))
        if self.assigned:
            with _assigning:
                for target, number in self.assigned:
                    tensor = tensors[target] if isinstance(target, int) else target
                    tensor._node = nodes[number]
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
        array, address = memory.new_array(array.size, array.dtype)
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


# -- from a trace ----------------------------------------------------------------------------------


class Outputs:
    """The nodes that a function computes, each wanted once or more."""

    def __init__(self) -> None:
        self._wanted: list[UOp] = []
        self.sizes: list[UOp] = []
        """Symbolic sizes among the results."""

    def add(self, node: UOp) -> int:
        """A value that is wanted; each has its own memory."""
        self._wanted.append(node)
        return len(self._wanted) - 1

    def variables(self) -> dict[str, int]:
        """The variables in the shapes of the results, with their values."""
        found: dict[str, int] = {}
        dims = [dim for node in self._wanted for dim in shape(node)]
        for node in toposort(*dims, *self.sizes):
            if node.op is ops.BIND:
                bound(node, found)
        return found

    def computed(self) -> list[UOp]:
        """The nodes that have to be computed, without doubles."""
        return [n for n in dict.fromkeys(self._wanted) if realized(n) is None]

    def inputs(self) -> list[UOp]:
        """The BUFFERs that are wanted as they are."""
        found = (realized(node) for node in self._wanted)
        return [buffer for buffer in found if buffer is not None]

    def settle(self, inputs: Mapping[UOp, int]) -> list[Value]:
        """Where each value comes from, once the inputs have numbers."""
        places = {node: k for k, node in enumerate(self.computed())}
        given: set[UOp] = set()
        values = []
        for node in self._wanted:
            dims = shape(node)
            symbolic = any(dim.op is not ops.CONST for dim in dims)
            if node in places:
                values.append(Value(node.dtype, dims, symbolic, places[node], copied=node in given))
                given.add(node)
            else:
                buffer = realized(node)
                assert buffer is not None
                place = inputs[buffer]
                values.append(Value(node.dtype, dims, symbolic, None, place, copied=True))
        return values


def replay(
    wrappers: Sequence[Tensor],
    placeholders: Sequence[UOp],
    outside: Sequence[Outside],
    supplies: Sequence[Supply],
    result: Any,
    places: Sequence[tuple[Place, Tensor]],
    lock: Any,
) -> Replay:
    """What a trace has found, as a program.

    `wrappers` are the arguments inside of the function, which began as `placeholders`; equal ones
    stand for one tensor.
    """
    outputs = Outputs()
    structure = rebuilt(result, lambda leaf: _slot(leaf, outputs))
    assigned: list[tuple[int | Tensor, int]] = []
    first = {id(tensor): k for k, tensor in reversed(list(enumerate(wrappers)))}
    for k, (tensor, before) in enumerate(zip(wrappers, placeholders, strict=True)):
        if tensor._node is not before and first[id(tensor)] == k:
            assigned.append((k, outputs.add(tensor._node)))
    for one in outside:
        if one.now is not one.before:
            assigned.append((one.tensor, outputs.add(one.now)))
    constants = _constants(outside, outputs.computed())
    once = {
        node: new_placeholder(node.dtype, shape(node))
        for node in _within_limit(constant_parts(outputs.computed(), constants))
    }
    computed = substitute(ops.SINK(*outputs.computed()), once).src
    wanted = request(computed) if computed else None
    buffers = dict.fromkeys((*(wanted.buffers if wanted else ()), *outputs.inputs()))
    numbers = {buffer: k for k, buffer in enumerate(buffers)}
    own = {placeholder: k for k, placeholder in enumerate(placeholders)}
    theirs = {one.before: one.tensor for one in outside}
    schedule = schedule_of(wanted.graph) if wanted else None
    values = outputs.settle(numbers)
    lasting = {one.before: k for k, one in enumerate(filter(_lasts, outside))}
    given = {value.input for value in values if value.output is None}
    told = [(one.tensor, (one.before.dtype, unbound(one.before, {}))) for one in outside]
    found = Replay(
        schedule=schedule,
        arguments=[(n, own[b]) for b, n in numbers.items() if b in own],
        captured=[
            (n, theirs[b])
            for b, n in numbers.items()
            if b in theirs and (b not in lasting or n in given)
        ],
        lasting=_lasting(list(filter(_lasts, outside)), once, numbers, constants, schedule),
        supplies=[(numbers.get(s.placeholder, -1), s.take, s.amount) for s in supplies],
        variables={**outputs.variables(), **(wanted.variables if wanted else {})},
        values=values,
        result=structure,
        assigned=assigned,
        outside=told,
        changing=[row for row, one in zip(told, outside, strict=True) if not _lasts(one)],
        named=[(place, one) for place, one in places if not isinstance(place[0], types.CellType)],
        cells=[(place[0], one) for place, one in places if isinstance(place[0], types.CellType)],
        lock=lock,
    )
    supplied = {supply.placeholder for supply in supplies}
    known = {*own, *theirs, *supplied, *once.values()}
    if any(is_placeholder(b) and b not in known for b in numbers):
        raise no_value()  # kept from inside of another function
    return found


# -- what lasts from call to call ------------------------------------------------------------------


def _lasts(one: Outside) -> bool:
    """Whether a tensor from outside is not assigned to, and has one size for all calls."""
    return one.now is one.before and all(dim.op is ops.CONST for dim in shape(one.before))


def _constants(outside: Sequence[Outside], roots: Sequence[UOp]) -> set[UOp]:
    """The BUFFERs that only change when somebody assigns to a tensor."""
    theirs = {one.before for one in outside if _lasts(one) and is_own(one.tensor)}
    inside = [n for n in toposort(*roots) if n.op is ops.BUFFER and not is_placeholder(n)]
    return theirs | {buffer for buffer in inside if memory.is_own(array_of(buffer))}


def _within_limit(nodes: Sequence[UOp]) -> list[UOp]:
    """Those that fit into the memory for constants, the smallest first."""
    room = settings.constants_megabytes << 20
    found = []
    for node in sorted(nodes, key=bytes_of):
        room -= bytes_of(node)
        if room >= 0:
            found.append(node)
    return found


def _lasting(
    tensors: Sequence[Outside],
    once: Mapping[UOp, UOp],
    numbers: Mapping[UOp, int],
    constants: set[UOp],
    schedule: Schedule | None,
) -> Lasting:
    which = {one.before: k for k, one in enumerate(tensors)}
    parts = _once(once, numbers, which) if once else None
    fixed = constants | set(once.values())
    room = (settings.constants_megabytes << 20) - sum(parts.sizes if parts else ())
    packable = []
    for buffer in sorted((b for b in numbers if b in fixed), key=bytes_of):
        room -= bytes_of(buffer)
        if room >= 0:
            packable.append(numbers[buffer])
    program = None if schedule is None else prepared(schedule, frozenset(packable))
    packed = frozenset() if program is None else program.packed
    derived = {k for k in (parts.sources if parts else ()) if isinstance(k, int)}
    derived.update(k for b, k in which.items() if numbers.get(b) in packed)
    return Lasting(
        tensors=[one.tensor for one in tensors],
        count=len(numbers),
        places=[(n, which[b]) for b, n in numbers.items() if b in which],
        constants=[(n, held(b)) for b, n in numbers.items() if not is_placeholder(b)],
        once=parts,
        program=program,
        derived=frozenset(derived),
    )


def _once(once: Mapping[UOp, UOp], numbers: Mapping[UOp, int], which: Mapping[UOp, int]) -> Once:
    """What is computed of constants alone, as a program."""
    wanted = request(list(once))
    schedule = schedule_of(wanted.graph)
    return Once(
        schedule,
        runner(schedule),
        [which[b] if b in which else held(b) for b in wanted.buffers],
        [numbers[placeholder] for placeholder in once.values()],
        [bytes_of(node) for node in once],
    )


def _slot(leaf: Any, outputs: Outputs) -> Any:
    if isinstance(leaf, Tensor):
        return Slot(outputs.add(leaf.node))
    if isinstance(leaf, UOp):
        outputs.sizes.append(leaf)
        return Size(leaf)
    if not _is_result(leaf):
        raise refuse(
            f"a jitted function gives a {type(leaf).__name__}",
            "only what is computed with tensors is computed again at the next call",
            "give tensors, numbers and text, in dicts, lists, tuples or dataclasses",
        )
    return leaf


def _is_result(leaf: Any) -> bool:
    """Whether a value can be given again at every call."""
    generators = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
    if isinstance(leaf, (np.ndarray, set, bytearray, *generators)):
        return False
    return getattr(type(leaf), "__hash__", None) is not None
