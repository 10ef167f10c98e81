"""Run: evaluate a graph or a kernel in the way that fits what is in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from porism.base.dtypes import Kind
from porism.evaluate.evaluator import Session
from porism.evaluate.graph_evaluator import Arrays
from porism.evaluate.inputs import Given, Inputs
from porism.evaluate.threads.kernel_steps import steps_of_graph, steps_of_list
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
"""Ranges of which one iteration is done, and which."""

NOTHING: Final[Mapping[Any, Any]] = {}

MACHINE_OPS: Final = frozenset({ops.DEFINE_LOCAL, ops.DEFINE_REG, ops.IF, ops.ENDIF})
"""What only a machine that goes step by step has."""


def evaluate(root: UOp, inputs: Given = NOTHING, variables: Variables = NOTHING) -> list[Array]:
    """The arrays that a graph computes; see the package for what they are."""
    order = own_nodes(root)
    written = written_buffers(order)
    outputs = [n for n in written if n.op in (ops.PARAM, ops.BUFFER)]
    session = Session(Inputs(inputs, outputs, copy=True), variables, _call)
    roots = [
        node
        for node in (root.src if root.op is ops.SINK else (root,))
        if node.dtype.kind is not Kind.VOID and (node.op is not ops.ASSIGN or node is root)
    ]
    if in_order(order):
        values = _run_machine(session, root, order, roots)
    else:
        evaluator = Arrays(session, root)
        evaluator.run()
        values = [evaluator.result(node) for node in roots]
    results = [_plain(node, value) for node, value in zip(roots, values, strict=True)]
    if root.dtype.kind is Kind.VOID:
        outputs.sort(
            key=lambda n: (n.op is ops.BUFFER, str(n.arg) if n.op is ops.BUFFER else n.arg)
        )
        results += [session.inputs.contents(node) for node in outputs]
    return results


def inspect(root: UOp, inputs: Given = NOTHING, variables: Variables = NOTHING) -> Value:
    """The value of an expression, with the state of each element; raises no fault of the root."""
    session = Session(Inputs(inputs, copy=True), variables, _call)
    evaluator = Arrays(session, root)
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
    one iteration is done. With `garbage`, local memory and registers hold something before they are
    written, as those of a machine do: reading it is no fault, and using it shows in the result.
    """
    session = _session(buffers, variables, garbage=garbage)
    _run_machine(session, sink, own_nodes(sink), reverse=reverse, pinned=pinned)


def run_arrays(sink: UOp, buffers: Buffers, variables: Variables = NOTHING) -> None:
    """The same for all iterations at once, for kernels that need no order."""
    Arrays(_session(buffers, variables), sink).run()


def run_list(
    nodes: Sequence[UOp],
    buffers: Buffers,
    variables: Variables = NOTHING,
    *,
    reverse: bool = False,
    pinned: Pinned = NOTHING,
    garbage: bool = False,
) -> None:
    """Run a linear list: RANGE … END and IF … ENDIF are brackets, sources come first."""
    everything = list(nodes)
    launch(
        _session(buffers, variables, garbage=garbage),
        everything,
        lambda found: steps_of_list(everything, found),
        reverse=reverse,
        pinned=pinned,
    )


def in_order(order: Iterable[UOp]) -> bool:
    """Whether a graph must be run step by step.

    It must, if it has registers, local memory or IFs, if it stores in several threads or calls
    kernels in a loop, or if memory is written and read and not all of the writing comes first.
    """
    order = list(order)
    if any(node.op in MACHINE_OPS for node in order):
        return True
    if any(n.op is ops.SPECIAL for n in order) and any(n.op is ops.STORE for n in order):
        return True
    scope = scopes(order) if any(n.op in (ops.CALL, ops.STORE) for n in order) else {}
    if any(n.op is ops.CALL and scope[n] for n in order):
        return True
    stores = [n for n in order if n.op is ops.STORE]
    written = {base_of(n.src[0]) for n in stores}
    used = {s for n in order for s in (n.src[1:] if n.op is ops.STORE else n.src)}
    reads = [
        n
        for n in order
        if n.op in (ops.INDEX, ops.LOAD) and n in used and base_of(n.src[0]) in written
    ]
    if not reads:
        return False
    above = {n: _closed_stores(n, scope) for n in reads}
    return any(
        store not in above[read]
        for read in reads
        for store in stores
        if base_of(store.src[0]) is base_of(read.src[0])
    )


def _closed_stores(node: UOp, scope: Mapping[UOp, frozenset[UOp]]) -> set[UOp]:
    """The stores below a node that are over when it is executed: no loop is around both."""
    return {
        n
        for n in own_nodes(node)
        if n.op is ops.STORE and not scope[n] & scope.get(node, frozenset())
    }


def _run_machine(
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
        lambda found: steps_of_graph(root, order, found),
        roots=roots,
        reverse=reverse,
        pinned=pinned,
    )


def _session(buffers: Buffers, variables: Variables, *, garbage: bool = False) -> Session:
    return Session(Inputs(dict(enumerate(buffers))), variables, _call, garbage=garbage)


def _call(sink: UOp, buffers: list[Memory], variables: Variables) -> None:
    """A CALL: the kernel in its own session."""
    if in_order(own_nodes(sink)):
        run_kernel(sink, buffers, variables)
    else:
        run_arrays(sink, buffers, variables)


def _plain(node: UOp, value: Value) -> Array:
    """The data of a value; the axis of the lanes only where there are several."""
    return value.data[..., 0] if node.dtype.count == 1 else value.data
