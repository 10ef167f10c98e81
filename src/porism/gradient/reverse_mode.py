"""Reverse mode: the gradients of a tensor graph, as nodes of the same graph.

    Before   y = f(x) as a graph, and the cotangent g of y
    After    the cotangent of x: nodes on x, on values of the graph of y, and on g

The graph is walked from the outputs to the variables. Each node passes its cotangent on to its
sources by the pullback of its op (`elementwise_derivatives`, `structural_pullbacks`), or by the one
that a PULLBACK node states; cotangents that arrive at one node are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from porism.base.errors import PorismError
from porism.gradient.elementwise_derivatives import FUNCTIONS, OPS
from porism.gradient.stated_pullbacks import (
    CLOSURE,
    EQUAL,
    STATED,
    VARIABLE,
    Closure,
    closure_of,
    differentiable_sources,
)
from porism.gradient.structural_pullbacks import PULLBACKS, fit
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show


def pull_back(
    outputs: Sequence[UOp], cotangents: Sequence[UOp], variables: Sequence[UOp]
) -> list[UOp | None]:
    """Return the cotangent of each variable, from those of the outputs; None where there is none.

    Variables are nodes that `Variable.mark` returned.
    """
    order = _differentiated_nodes(outputs, frozenset(variables))
    collected: dict[UOp, list[UOp]] = {node: [] for node in order}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if output in collected:
            collected[output].append(cotangent)
    wanted = frozenset(variables)
    closures = _last_outputs(order)
    for node in reversed(order):
        if node in wanted:
            continue
        if node in closures:
            closure, its_outputs = closures[node]
            _pull_back_closure(closure, its_outputs, collected)
            continue
        contributions = collected[node]
        if not contributions or (node.op is ops.PULLBACK and node.arg[0] == CLOSURE):
            continue
        cotangent = _total(contributions)
        collected[node] = []
        for source, part in _pull_back_node(node, cotangent, collected):
            collected[source].append(fit(part, source))
    return [_total(collected[v]) if collected.get(v) else None for v in variables]


def _total(contributions: Sequence[UOp]) -> UOp:
    """Return the sum of the cotangents of one node."""
    total = contributions[0]
    for contribution in contributions[1:]:
        total = total + contribution
    return total


def _differentiated_nodes(outputs: Sequence[UOp], variables: frozenset[UOp]) -> list[UOp]:
    """Return the nodes between variables and outputs, sources first."""
    order: list[UOp] = []
    depends: dict[UOp, bool] = {}
    for output in outputs:
        stack = [output]
        while stack:
            node = stack[-1]
            if node in depends:
                stack.pop()
                continue
            if node in variables:
                depends[node] = True
                order.append(node)
                continue
            sources = differentiable_sources(node)
            waiting = [s for s in sources if s not in depends]
            if waiting:
                stack += waiting
                continue
            depends[node] = any(depends[s] for s in sources)
            if depends[node]:
                order.append(node)
            stack.pop()
    return order


def _pull_back_node(
    node: UOp, cotangent: UOp, wanted: Mapping[UOp, object]
) -> list[tuple[UOp, UOp]]:
    """Return the sources of a node that are wanted, each with its cotangent."""
    op = node.op
    if op is ops.PULLBACK:
        return _pull_back_stated(node, cotangent, wanted)
    structural = PULLBACKS.get(op)
    if structural is not None:
        part = structural.pull(cotangent, node)
        return [] if part is None else [(node.src[0], part)]
    row = OPS.get(op)
    if row is None:
        raise PorismError(
            f"{op.name} is differentiated",
            where=show(node, limit=120),
            why=f"it has no derivative: {op.doc}",
            fix="use porism.stop_gradient on its operands, or state one with "
            "porism.custom_gradient",
        )
    parts = row.pull_back(cotangent, node, node.src, [s in wanted for s in node.src])
    return [(s, part) for s, part in zip(node.src, parts, strict=True) if part is not None]


def _pull_back_stated(
    node: UOp, cotangent: UOp, wanted: Mapping[UOp, object]
) -> list[tuple[UOp, UOp]]:
    """Return the inputs of a PULLBACK node that are wanted, each with its cotangent."""
    name, *parameters = node.arg
    if name == VARIABLE:  # of another call: it is what it stands for
        return [(node.src[0], cotangent)]
    inputs = node.src[1:]
    if name == EQUAL:
        return [(inputs[0], cotangent)]
    if name in FUNCTIONS:
        parts = FUNCTIONS[name].pull_back(cotangent, node, inputs, [s in wanted for s in inputs])
    else:
        parts = list(STATED[name].pull(cotangent, node, inputs, *parameters))
    pairs = zip(inputs, parts, strict=True)
    return [(s, part) for s, part in pairs if part is not None and s in wanted]


def _last_outputs(order: Sequence[UOp]) -> dict[UOp, tuple[Closure, list[UOp]]]:
    """Return for the first output in `order` of each closure, the closure and all its outputs.

    Its cotangents are complete when the first is reached on the way back: all inputs come earlier.
    """
    by_closure: dict[Closure, list[UOp]] = {}
    for node in order:
        if node.op is ops.PULLBACK and node.arg[0] == CLOSURE:
            by_closure.setdefault(closure_of(node), []).append(node)
    return {nodes[0]: (closure, nodes) for closure, nodes in by_closure.items()}


def _pull_back_closure(
    closure: Closure, outputs: Sequence[UOp], collected: dict[UOp, list[UOp]]
) -> None:
    """Pass the cotangents of all outputs of a function on to its inputs."""
    cotangents: list[UOp | None] = [None] * closure.outputs
    for output in outputs:
        if collected[output]:
            cotangents[output.arg[2]] = _total(collected[output])
            collected[output] = []
    if all(cotangent is None for cotangent in cotangents):
        return
    inputs = outputs[0].src[1:]
    for source, part in zip(inputs, closure.pull(cotangents), strict=True):
        if part is not None and source in collected:
            collected[source].append(fit(part, source))
