"""Evaluation: the entry points, and the choice between all iterations at once and steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from porism.base.dtypes import Kind
from porism.evaluate.evaluator import Session
from porism.evaluate.graph_evaluator import GraphEvaluator
from porism.evaluate.inputs import Given, Inputs
from porism.evaluate.threads.kernel_steps import graph_steps, list_steps
from porism.evaluate.threads.thread_blocks import launch
from porism.evaluate.threads.tracked_memory import Memory
from porism.evaluate.varying_value import Value
from porism.ir import ops
from porism.ir.facts.effect_scopes import base_of, own_nodes, scopes, written_buffers
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp

Buffers = Sequence[Array | Memory]
Variables = Mapping[str, int]
Pinned = Mapping[UOp, int]
"""The number of the one iteration that is run, for some ranges."""

NOTHING: Final[Mapping[Any, Any]] = {}

STEP_OPS: Final = frozenset({ops.DEFINE_LOCAL, ops.DEFINE_REG, ops.IF, ops.ENDIF})
"""Ops that only the step-by-step evaluator has."""


def evaluate(root: UOp, inputs: Given = NOTHING, variables: Variables = NOTHING) -> list[Array]:
    """Return the arrays that a graph computes; the package docstring lists them."""
    order = own_nodes(root)
    written = written_buffers(order)
    outputs = [n for n in written if n.op in (ops.PARAM, ops.BUFFER)]
    session = Session(Inputs(inputs, outputs, copy=True), variables, _call)
    roots = [
        node
        for node in (root.src if root.op is ops.SINK else (root,))
        if node.dtype.kind is not Kind.VOID and (node.op is not ops.ASSIGN or node is root)
    ]
    if needs_steps(order):
        values = _run_steps(session, root, order, roots)
    else:
        evaluator = GraphEvaluator(session, root)
        evaluator.run()
        values = [evaluator.result(node) for node in roots]
    results = [_data(node, value) for node, value in zip(roots, values, strict=True)]
    if root.dtype.kind is Kind.VOID:
        outputs.sort(
            key=lambda n: (n.op is ops.BUFFER, str(n.arg) if n.op is ops.BUFFER else n.arg)
        )
        results += [session.inputs.contents(node) for node in outputs]
    return results


def inspect(root: UOp, inputs: Given = NOTHING, variables: Variables = NOTHING) -> Value:
    """Return the value of an expression with the state of each element, without raising faults."""
    session = Session(Inputs(inputs, copy=True), variables, _call)
    evaluator = GraphEvaluator(session, root)
    evaluator.run()
    return evaluator.value(root)


def run_kernel(
    sink: UOp,
    buffers: Buffers,
    variables: Variables = NOTHING,
    *,
    reverse: bool = False,
    pinned: Pinned = NOTHING,
    garbage: bool = False,
) -> None:
    """Run a kernel step by step on buffers, which it modifies: PARAM `n` is `buffers[n]`.

    With `reverse`, blocks and threads run in the opposite order. Of ranges that are `pinned` only
    one iteration is run. With `garbage`, local memory and registers have arbitrary contents before
    they are written, as on a machine: reading them is no fault, but shows in the result.
    """
    session = _session(buffers, variables, garbage=garbage)
    _run_steps(session, sink, own_nodes(sink), reverse=reverse, pinned=pinned)


def run_arrays(sink: UOp, buffers: Buffers, variables: Variables = NOTHING) -> None:
    """Run a kernel on buffers for all iterations at once; not one that `needs_steps`."""
    GraphEvaluator(_session(buffers, variables), sink).run()


def run_list(
    nodes: Sequence[UOp],
    buffers: Buffers,
    variables: Variables = NOTHING,
    *,
    reverse: bool = False,
    pinned: Pinned = NOTHING,
    garbage: bool = False,
) -> None:
    """Run a list of instructions, as `run_kernel` does; RANGE … END and IF … ENDIF are nested."""
    everything = list(nodes)
    launch(
        _session(buffers, variables, garbage=garbage),
        everything,
        lambda launched: list_steps(everything, launched),
        reverse=reverse,
        pinned=pinned,
    )


def needs_steps(order: Iterable[UOp]) -> bool:
    """Return whether a graph must be evaluated step by step.

    That is so with registers, local memory or IFs, with stores of several threads, with kernels
    called in a loop, or if memory is read before all of its stores are done.
    """
    order = list(order)
    present = {n.op for n in order}
    if present & STEP_OPS or {ops.SPECIAL, ops.STORE} <= present:
        return True
    if not present & {ops.CALL, ops.STORE}:
        return False
    scope = scopes(order)
    return any(n.op is ops.CALL and scope[n] for n in order) or _reads_open_memory(order, scope)


def _reads_open_memory(order: Sequence[UOp], scope: Mapping[UOp, frozenset[UOp]]) -> bool:
    """Return whether memory is read before all of its stores are done."""
    stores_to: dict[UOp, set[UOp]] = {}
    for node in order:
        if node.op is ops.STORE:
            stores_to.setdefault(base_of(node.src[0]), set()).add(node)
    used = {s for n in order for s in (n.src[1:] if n.op is ops.STORE else n.src)}
    accesses = [n for n in order if n.op in (ops.INDEX, ops.LOAD) and n in used]
    reads = [(n, stores_to[base]) for n in accesses if (base := base_of(n.src[0])) in stores_to]
    return any(not stores <= _closed_stores(read, scope) for read, stores in reads)


def _closed_stores(node: UOp, scope: Mapping[UOp, frozenset[UOp]]) -> set[UOp]:
    """Return the stores below a node that are complete when it runs: no loop is around both."""
    return {
        n
        for n in own_nodes(node)
        if n.op is ops.STORE and not scope[n] & scope.get(node, frozenset())
    }


def _run_steps(
    session: Session,
    root: UOp,
    order: Sequence[UOp],
    roots: Sequence[UOp] = (),
    *,
    reverse: bool = False,
    pinned: Pinned = NOTHING,
) -> list[Value]:
    return launch(
        session,
        order,
        lambda launched: graph_steps(root, order, launched),
        roots=roots,
        reverse=reverse,
        pinned=pinned,
    )


def _session(buffers: Buffers, variables: Variables, *, garbage: bool = False) -> Session:
    return Session(Inputs(dict(enumerate(buffers))), variables, _call, garbage=garbage)


def _call(sink: UOp, buffers: list[Memory], variables: Variables) -> None:
    """Run the kernel of a CALL in a session of its own."""
    if needs_steps(own_nodes(sink)):
        run_kernel(sink, buffers, variables)
    else:
        run_arrays(sink, buffers, variables)


def _data(node: UOp, value: Value) -> Array:
    """Return the data of a value, without the axis of the lanes if there is one lane."""
    return value.data[..., 0] if node.dtype.count == 1 else value.data
