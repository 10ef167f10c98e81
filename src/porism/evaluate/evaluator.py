"""Evaluator: what the vectorised and the sequential evaluator have in common.

Both keep, for every node they have met, an *entry*: a value, a memory, a place in one, or nothing
for an effect. They differ in what a loop is: an axis of every array, or something to go around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np

from porism.base.dtypes import Kind
from porism.evaluate import op_evaluation
from porism.evaluate.array_access import element_of, read, write
from porism.evaluate.faults import Fault, Faults, describe, failure
from porism.evaluate.inputs import Inputs, checked_variable, variable_value
from porism.evaluate.pointers import Place, joined, place_of, start_of
from porism.evaluate.threads.tracked_memory import Memory
from porism.evaluate.varying_value import Axes, AxisName, Value, narrowed
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.ops import Op

Entry = Value | Memory | Place | None
Handler = Callable[[Any, UOp], Entry]
Call = Callable[[UOp, list[Memory], Mapping[str, int]], None]
"""Runs a kernel: its SINK, the buffers by number, the variables."""


@dataclass
class Session:
    """What stays the same during one evaluation."""

    inputs: Inputs
    variables: Mapping[str, int]
    call: Call
    faults: Faults = field(default_factory=Faults)
    constants: dict[UOp, Value] = field(default_factory=dict)
    garbage: bool = False
    """Whether memory of a kernel holds something before it is written."""


class Evaluator:
    """Entries by node, and the ops that mean the same in both ways of evaluating."""

    handlers: ClassVar[dict[Op, Handler]] = {}

    def __init__(self, session: Session, wanted: set[UOp]) -> None:
        self.session = session
        self.faults = session.faults
        self.wanted = wanted  # the INDEX nodes whose element is used
        self.env: dict[UOp, Entry] = {}
        self.sizes: dict[AxisName, int] = {}

    def execute(self, node: UOp) -> Entry:
        """The entry of a node whose sources have theirs."""
        handler = self.handlers.get(node.op)
        if handler is None:
            raise failure(
                Fault(
                    node,
                    f"{node.op.name} cannot be evaluated here",
                    f"{type(self).__name__.lower()}: {self.refusal}",
                    "evaluate the graph before the stage that made it, or lower it further",
                )
            )
        return handler(self, node)

    refusal = "it has no meaning for this evaluator"

    snapshots = True

    # -- entries -----------------------------------------------------------------------------------

    def entry(self, node: UOp) -> Entry:
        return self.env[node]

    def value(self, node: UOp) -> Value:
        """The entry of a node as a value; a tensor in memory is read as a whole."""
        found = self.entry(node)
        if isinstance(found, Value):
            return found
        if isinstance(found, Place) and found.value is not None:
            return found.value
        if isinstance(found, Memory) and found.dims is not None:
            return self.whole(node, found)
        raise failure(
            Fault(
                node,
                f"{describe(node)} is used as a value",
                "it is an effect or a pointer",
                "LOAD what the pointer points to, or use INDEX",
            )
        )

    def values(self, node: UOp) -> list[Value]:
        return [self.value(s) for s in node.src]

    def whole(self, node: UOp, memory: Memory) -> Value:
        """All elements of a tensor in memory."""
        assert memory.dims is not None
        shape = (*memory.dims, node.dtype.count)
        state: Array | None = None
        if memory.written is not None:
            state = self.faults.mark(
                None,
                ~memory.written.reshape(shape),
                node,
                f"{describe(node)} is read before it was written",
                "memory has no value until something is stored there",
                "store first, and read through AFTER(buffer, store)",
            )
        data = memory.data.reshape(shape)
        if node.dtype.element.kind is Kind.INDEX:
            data = narrowed(data)
        return Value(data.copy() if self.snapshots else data, (), len(memory.dims), state)

    def place(self, node: UOp) -> Place:
        found = self.entry(node)
        if isinstance(found, (Memory, Place)):
            return start_of(found)
        raise failure(
            Fault(
                node,
                f"{describe(node)} is used as a place in memory",
                "it is a value",
                "store to an INDEX of a buffer, or to a pointer",
            )
        )

    def active(self, axes: Axes) -> Array | None:
        """Which iterations along these axes happen; None if all do."""
        return None

    def thread(self) -> str:
        """Where we are, for error messages."""
        return ""

    def scalar(self, node: UOp, user: UOp) -> int:
        """The one number that a node has here: a size or a bound."""
        value = self.value(node)
        self.faults.demand_valid(value, user, f"{describe(node)} is used as a size", None)
        if value.data.size == 0 or (value.data != value.data.reshape(-1)[0]).any():
            raise failure(
                Fault(
                    user,
                    f"the size {describe(node)} is not one number",
                    "a size is the same in every iteration",
                    "let it depend on variables only",
                )
            )
        return int(value.data.reshape(-1)[0])

    # -- handlers ----------------------------------------------------------------------------------

    def constant(self, node: UOp) -> Value:
        found = self.session.constants.get(node)
        if found is None:
            found = self.session.constants[node] = op_evaluation.constant(node)
        return found

    def no_element(self, node: UOp) -> Value:
        return op_evaluation.no_element(node)

    def variable(self, node: UOp) -> Value:
        value = self.session.inputs.pinned(node)
        if value is None:
            value = variable_value(node, self.session.variables)
        if value is not None:
            return op_evaluation.number(node.dtype, value)
        zero = op_evaluation.number(node.dtype, 0)
        name = node.arg[0]
        state = self.faults.mark(
            None,
            np.ones(zero.data.shape, np.bool_),
            node,
            f"the variable {name} has no value",
            "a variable is given at run time",
            f"pass variables={{{name!r}: value}}, or BIND it in the graph",
        )
        return Value(zero.data, state=state)

    def bind(self, node: UOp) -> Value:
        variable, value = node.src
        bound = checked_variable(variable, self.scalar(value, node), node)
        given = variable_value(variable, self.session.variables)
        if given is not None and given != bound:
            raise failure(
                Fault(
                    node,
                    f"{variable.arg[0]} is bound to {bound} and given as {given}",
                    "a variable has one value in a run",
                    "give the value in one of the two ways",
                )
            )
        return self.value(value)

    def buffer(self, node: UOp) -> Memory:
        dims = tuple(self.scalar(s, node) for s in node.src)
        return self.session.inputs.memory(node, dims)

    def elementwise(self, node: UOp) -> Value:
        return op_evaluation.elementwise(node, self.values(node), self.faults)

    def conversion(self, node: UOp) -> Entry:
        if node.dtype.kind is Kind.POINTER:
            return self.place(node.src[0])
        return op_evaluation.converted(node, self.value(node.src[0]))

    def concatenation(self, node: UOp) -> Value:
        return op_evaluation.concatenated(node, self.values(node))

    def picking(self, node: UOp) -> Entry:
        if node.dtype.kind is Kind.POINTER:
            place = self.place(node.src[0])
            gate = None if place.gate is None else _lanes(place.gate, node.arg)
            return Place(place.memory, _lanes(place.address, node.arg), gate)
        if node.dtype.kind is Kind.VOID:
            return None
        return op_evaluation.picked(node, self.value(node.src[0]))

    def pointers(self, node: UOp) -> Place:
        return joined(node, [self.place(s) for s in node.src])

    def unroll(self, node: UOp) -> Entry:
        if node.dtype.kind is Kind.VOID:
            return None
        return op_evaluation.unrolled(node, self.value(node.src[0]), self.sizes)

    def contract(self, node: UOp) -> Entry:
        if node.dtype.kind is Kind.VOID:
            return None
        return op_evaluation.contracted(node, self.value(node.src[0]), self.sizes)

    def wmma(self, node: UOp) -> Value:
        a, b, c = self.values(node)
        return op_evaluation.matrix_product(node, a, b, c)

    def access(self, node: UOp) -> Entry:
        """INDEX: an element of a value, or a place in memory and perhaps the element there."""
        base = self.entry(node.src[0])
        gated = len(node.src) > 1 and node.src[-1].dtype.kind is Kind.BOOL
        gate = self.value(node.src[-1]) if gated else None
        indices = [self.value(s) for s in (node.src[1:-1] if gated else node.src[1:])]
        if isinstance(base, Value):
            return element_of(node, base, indices, gate, self.faults)
        assert base is not None
        place = place_of(node, base, indices, gate)
        if node in self.wanted:
            place = Place(place.memory, place.address, place.gate, self.read(node, place))
        return place

    def scalar_value(self, node: UOp) -> Value:
        """The value of what is kept for each iteration by itself."""
        value = self.value(node.src[0])
        if value.rank:
            raise failure(
                Fault(
                    node,
                    f"{node.op.name} of a tensor with dims {value.dims}",
                    "it takes one element for each iteration of its ranges",
                    "INDEX the tensor first",
                )
            )
        return value

    def read(self, node: UOp, place: Place, alternative: Value | None = None) -> Value:
        return read(node, place, node.dtype, alternative, self.faults)

    def load(self, node: UOp) -> Value:
        """A load is executed: what it may not touch is an error, whoever uses the value."""
        place = self.place(node.src[0])
        alternative = self.value(node.src[1]) if len(node.src) > 1 else None
        value = self.read(node, place, alternative)
        self.faults.demand(value, node, self.active(value.axes), self.thread)
        return value

    def store(self, node: UOp) -> None:
        place, value = self.place(node.src[0]), self.value(node.src[1])
        write(node, place, value, self.faults)

    def after(self, node: UOp) -> Entry:
        return self.entry(node.src[0])

    def nothing(self, node: UOp) -> None:
        return None

    def kernel(self, node: UOp) -> None:
        """CALL: the kernel's PARAMs are the buffers in order; a BIND gives a variable."""
        buffers: list[Memory] = []
        variables = dict(self.session.variables)
        for source in node.src[1:]:
            if source.op is ops.BIND:
                variables[source.src[0].arg[0]] = self.scalar(source, node)
                continue
            found = self.entry(source)
            if not isinstance(found, Memory):
                raise failure(
                    Fault(
                        node,
                        f"a kernel is called on {describe(source)}",
                        "kernels work on buffers",
                        "pass a BUFFER or PARAM, or a bound variable",
                    )
                )
            buffers.append(found)
        self.session.call(node.src[0], buffers, variables)


def _lanes(value: Value, lanes: tuple[int, ...]) -> Value:
    chosen = list(lanes) if value.lanes > 1 else [0] * len(lanes)
    state = None if value.state is None else value.states[..., chosen]
    return Value(value.data[..., chosen], value.axes, value.rank, state)


SHARED: Final[dict[Op, Handler]] = {
    ops.CONST: Evaluator.constant,
    ops.VCONST: Evaluator.constant,
    ops.VARIABLE: Evaluator.variable,
    ops.BIND: Evaluator.bind,
    ops.PARAM: Evaluator.buffer,
    ops.BUFFER: Evaluator.buffer,
    ops.INVALID: Evaluator.no_element,
    ops.CAST: Evaluator.conversion,
    ops.BITCAST: Evaluator.conversion,
    ops.VECTORIZE: Evaluator.concatenation,
    ops.CAT: Evaluator.concatenation,
    ops.GEP: Evaluator.picking,
    ops.PTRCAT: Evaluator.pointers,
    ops.UNROLL: Evaluator.unroll,
    ops.CONTRACT: Evaluator.contract,
    ops.WMMA: Evaluator.wmma,
    ops.INDEX: Evaluator.access,
    ops.LOAD: Evaluator.load,
    ops.STORE: Evaluator.store,
    ops.AFTER: Evaluator.after,
    ops.END: Evaluator.nothing,
    ops.GROUP: Evaluator.nothing,
    ops.SINK: Evaluator.nothing,
    ops.NOOP: Evaluator.nothing,
    ops.CALL: Evaluator.kernel,
    **{op: Evaluator.elementwise for op in ops.table() if op.elementwise},
}
"""The ops with one meaning."""
