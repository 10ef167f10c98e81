"""Evaluator: the common base of the vectorised and the sequential evaluator.

Both keep an *entry* for every evaluated node: a value, a memory, a pointer, or None for an effect.
They differ in what a loop is: an axis of every array, or a loop that is run.
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
from porism.evaluate.pointers import Pointer, as_pointer, concatenate_pointers, pointer_of
from porism.evaluate.threads.tracked_memory import Memory
from porism.evaluate.varying_value import Axes, AxisName, Value, narrow_integers
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.ops import Op

Entry = Value | Memory | Pointer | None
Handler = Callable[[Any, UOp], Entry]
Call = Callable[[UOp, list[Memory], Mapping[str, int]], None]
"""Runs a kernel: its SINK, the buffers by number, the variables."""


@dataclass
class Session:
    """The inputs and settings of one evaluation, and the faults that were met."""

    inputs: Inputs
    variables: Mapping[str, int]
    call: Call
    faults: Faults = field(default_factory=Faults)
    constants: dict[UOp, Value] = field(default_factory=dict)
    garbage: bool = False
    """Whether registers and local memory have arbitrary contents before they are written."""


class Evaluator:
    """Entries by node, and the handlers of ops that both evaluators share."""

    handlers: ClassVar[dict[Op, Handler]] = {}

    def __init__(self, session: Session, wanted: set[UOp]) -> None:
        self.session = session
        self.faults = session.faults
        self.wanted = wanted  # the INDEX nodes whose element is used
        self.env: dict[UOp, Entry] = {}
        self.sizes: dict[AxisName, int] = {}

    def execute(self, node: UOp) -> Entry:
        """Return the entry of a node whose sources have been evaluated."""
        handler = self.handlers.get(node.op)
        if handler is None:
            raise failure(
                Fault(
                    node,
                    f"{node.op.name} cannot be evaluated here",
                    self.refusal,
                    "evaluate the graph before the stage that made it, or lower it further",
                )
            )
        return handler(self, node)

    refusal = "it has no meaning for this evaluator"
    """Why an op without a handler is refused."""

    snapshots = True
    """Whether a tensor in memory is copied when it is read as a whole."""

    # -- entries -----------------------------------------------------------------------------------

    def entry(self, node: UOp) -> Entry:
        """Return the entry of an evaluated node."""
        return self.env[node]

    def value(self, node: UOp) -> Value:
        """Return the entry of a node as a value; a tensor in memory is read as a whole."""
        entry = self.entry(node)
        if isinstance(entry, Value):
            return entry
        if isinstance(entry, Pointer) and entry.value is not None:
            return entry.value
        if isinstance(entry, Memory) and entry.dims is not None:
            return self.whole(node, entry)
        raise failure(
            Fault(
                node,
                f"{describe(node)} is used as a value",
                "it is an effect or a pointer",
                "LOAD what the pointer points to, or use INDEX",
            )
        )

    def values(self, node: UOp) -> list[Value]:
        """Return the values of all sources of a node."""
        return [self.value(s) for s in node.src]

    def whole(self, node: UOp, memory: Memory) -> Value:
        """Return all elements of a tensor in memory."""
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
            data = narrow_integers(data)
        return Value(data.copy() if self.snapshots else data, (), len(memory.dims), state)

    def pointer(self, node: UOp) -> Pointer:
        """Return the entry of a node as a pointer."""
        entry = self.entry(node)
        if isinstance(entry, (Memory, Pointer)):
            return as_pointer(entry)
        raise failure(
            Fault(
                node,
                f"{describe(node)} is used as a pointer",
                "it is a value",
                "store to an INDEX of a buffer, or to a pointer",
            )
        )

    def active(self, axes: Axes) -> Array | None:
        """Return which iterations along these axes run; None if all do."""
        return None

    def thread(self) -> str:
        """Return the running thread and its iteration as text, for error messages."""
        return ""

    def scalar(self, node: UOp, user: UOp) -> int:
        """Return the value of a size or a bound, which is the same in all iterations."""
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
        """Evaluate a CONST or VCONST."""
        value = self.session.constants.get(node)
        if value is None:
            value = self.session.constants[node] = op_evaluation.constant(node)
        return value

    def no_element(self, node: UOp) -> Value:
        """Evaluate INVALID."""
        return op_evaluation.no_element(node)

    def variable(self, node: UOp) -> Value:
        """Evaluate a VARIABLE; one without a value is a fault where it is used."""
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
        """Evaluate a BIND: the value that it gives its variable."""
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
        """Evaluate a PARAM or BUFFER: its memory."""
        dims = tuple(self.scalar(s, node) for s in node.src)
        return self.session.inputs.memory(node, dims)

    def elementwise(self, node: UOp) -> Value:
        """Evaluate an elementwise op."""
        return op_evaluation.elementwise(node, self.values(node), self.faults)

    def conversion(self, node: UOp) -> Entry:
        """Evaluate a CAST or BITCAST; that of a pointer is the pointer."""
        if node.dtype.kind is Kind.POINTER:
            return self.pointer(node.src[0])
        return op_evaluation.convert(node, self.value(node.src[0]))

    def concatenation(self, node: UOp) -> Value:
        """Evaluate a VECTORIZE or CAT."""
        return op_evaluation.concatenate(node, self.values(node))

    def lane_selection(self, node: UOp) -> Entry:
        """Evaluate a GEP of a value or a pointer."""
        if node.dtype.kind is Kind.POINTER:
            pointer = self.pointer(node.src[0])
            gate = None if pointer.gate is None else _lanes(pointer.gate, node.arg)
            return Pointer(pointer.memory, _lanes(pointer.address, node.arg), gate)
        if node.dtype.kind is Kind.VOID:
            return None
        return op_evaluation.select_lanes(node, self.value(node.src[0]))

    def pointer_concatenation(self, node: UOp) -> Pointer:
        """Evaluate a PTRCAT."""
        return concatenate_pointers(node, [self.pointer(s) for s in node.src])

    def unroll(self, node: UOp) -> Entry:
        """Evaluate an UNROLL."""
        if node.dtype.kind is Kind.VOID:
            return None
        return op_evaluation.unroll_lanes(node, self.value(node.src[0]), self.sizes)

    def contract(self, node: UOp) -> Entry:
        """Evaluate a CONTRACT."""
        if node.dtype.kind is Kind.VOID:
            return None
        return op_evaluation.contract_axes(node, self.value(node.src[0]), self.sizes)

    def wmma(self, node: UOp) -> Value:
        """Evaluate a WMMA whose sources are whole matrices."""
        a, b, c = self.values(node)
        return op_evaluation.matrix_product(node, a, b, c)

    def access(self, node: UOp) -> Entry:
        """Evaluate an INDEX: an element of a value, or a pointer and, if used, its element."""
        base = self.entry(node.src[0])
        gated = len(node.src) > 1 and node.src[-1].dtype.kind is Kind.BOOL
        gate = self.value(node.src[-1]) if gated else None
        indices = [self.value(s) for s in (node.src[1:-1] if gated else node.src[1:])]
        if isinstance(base, Value):
            return element_of(node, base, indices, gate, self.faults)
        assert base is not None
        pointer = pointer_of(node, base, indices, gate)
        if node in self.wanted:
            pointer = Pointer(
                pointer.memory, pointer.address, pointer.gate, self.read(node, pointer)
            )
        return pointer

    def scalar_value(self, node: UOp) -> Value:
        """Return the source of a node that takes one element per iteration; raise for a tensor."""
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

    def read(self, node: UOp, pointer: Pointer, alternative: Value | None = None) -> Value:
        """Return the elements at a pointer."""
        return read(node, pointer, node.dtype, alternative, self.faults)

    def load(self, node: UOp) -> Value:
        """Evaluate a LOAD, which is executed: a bad access is an error even if unused."""
        pointer = self.pointer(node.src[0])
        alternative = self.value(node.src[1]) if len(node.src) > 1 else None
        value = self.read(node, pointer, alternative)
        self.faults.demand(value, node, self.active(value.axes), self.thread)
        return value

    def store(self, node: UOp) -> None:
        """Evaluate a STORE."""
        pointer, value = self.pointer(node.src[0]), self.value(node.src[1])
        write(node, pointer, value, self.faults)

    def after(self, node: UOp) -> Entry:
        """Evaluate an AFTER: the entry of its first source."""
        return self.entry(node.src[0])

    def nothing(self, node: UOp) -> None:
        """Evaluate an op that only orders effects."""
        return None

    def kernel(self, node: UOp) -> None:
        """Evaluate a CALL: PARAM n of the kernel is the n-th buffer; a BIND gives a variable."""
        buffers: list[Memory] = []
        variables = dict(self.session.variables)
        for source in node.src[1:]:
            if source.op is ops.BIND:
                variables[source.src[0].arg[0]] = self.scalar(source, node)
                continue
            memory = self.entry(source)
            if not isinstance(memory, Memory):
                raise failure(
                    Fault(
                        node,
                        f"a kernel is called on {describe(source)}",
                        "kernels work on buffers",
                        "pass a BUFFER or PARAM, or a bound variable",
                    )
                )
            buffers.append(memory)
        self.session.call(node.src[0], buffers, variables)


def _lanes(value: Value, lanes: tuple[int, ...]) -> Value:
    """Return some lanes of an address or a gate, whose one lane may stand for all."""
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
    ops.GEP: Evaluator.lane_selection,
    ops.PTRCAT: Evaluator.pointer_concatenation,
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
"""The handlers of ops that both evaluators share."""
