"""Loop invariants: what no iteration of a Loop changes is taken out of its body.

    Loop(…, w, x) body(i, go, w, x):            w' = w
        y = MatMul(x, w); …; out w, x    ->     y = MatMul(x, w)
                                                Loop(…) body(i, go): …

A state that the body passes on as it is is the value around the loop, and a constant of its pieces
if it is one there. Products and elementwise nodes of values around the loop are computed once,
before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Final

from porism.frontends.onnx.imported_graph import Graph, Node, find_last_uses, subgraphs

HOISTED: Final = frozenset(
    ("MatMul", "Gemm", "Conv", "Transpose", "Add", "Sub", "Mul", "Relu", "Sigmoid", "Tanh")
)
"""Operators that are computed before a loop; a wrong shape is the only error that they raise."""


def move_invariants_out(graph: Graph) -> None:
    """Take invariants out of the bodies of all loops in a graph."""
    nodes: list[Node] = []
    for node in graph.nodes:
        body = node.attributes.get("body")
        if node.op != "Loop" or node.domain or not isinstance(body, Graph):
            nodes.append(node)
            continue
        aliases = _drop_unchanged_states(node, body)
        around = {*graph.constants, *graph.inputs}
        around.update(name for other in (*graph.nodes, *nodes) for name in other.outputs)
        nodes += _take_hoisted_nodes(body, around, _constant_names(graph, nodes))
        nodes += [node, *aliases]
    graph.nodes = nodes
    _number(graph)
    for node in graph.nodes:
        for inner in subgraphs(node):
            move_invariants_out(inner)
    find_last_uses(graph)


def _number(graph: Graph) -> None:
    for number, node in enumerate(graph.nodes):
        node.number = number


def _drop_unchanged_states(node: Node, body: Graph) -> list[Node]:
    """Replace the states that a body passes on by the values around it.

    Return nodes for the outputs of the loop that these states were.
    """
    own = set(_own_names(body))
    states = len(body.inputs) - 2
    if states != len(node.inputs) - 2 or len(body.outputs) <= states:
        return []
    outputs = [*node.outputs, *[""] * (states - len(node.outputs))]
    dropped = {}
    for k in range(states):
        inner, outer = body.inputs[2 + k], node.inputs[2 + k]
        if inner == body.outputs[1 + k] and outer and (outer == inner or outer not in own):
            dropped[k] = outer
    if not dropped:
        return []
    renamed = {body.inputs[2 + k]: outer for k, outer in dropped.items()}
    body.inputs = [name for k, name in enumerate(body.inputs) if k - 2 not in dropped]
    body.outputs = [name for k, name in enumerate(body.outputs) if k - 1 not in dropped]
    body.outputs = [renamed.get(name, name) for name in body.outputs]
    _rename(body, renamed)
    node.inputs = tuple(name for k, name in enumerate(node.inputs) if k - 2 not in dropped)
    node.outputs = tuple(name for k, name in enumerate(outputs) if k not in dropped)
    return [
        Node("Identity", "", "", (outer,), (outputs[k],), {}, 0, node.model)
        for k, outer in dropped.items()
        if outputs[k]
    ]


def _own_names(graph: Graph) -> Iterator[str]:
    """Yield the names that a graph or one inside of it defines."""
    yield from (*graph.inputs, *graph.constants)
    for node in graph.nodes:
        yield from node.outputs
        for inner in subgraphs(node):
            yield from _own_names(inner)


def _rename(graph: Graph, names: Mapping[str, str]) -> None:
    """Let the nodes of a graph, and those of the graphs in it, read other names."""
    for node in graph.nodes:
        node.inputs = tuple(names.get(name, name) for name in node.inputs)
        for inner in subgraphs(node):
            own = {*inner.inputs, *inner.constants}
            left = {old: new for old, new in names.items() if old not in own}
            inner.outputs = [left.get(name, name) for name in inner.outputs]
            _rename(inner, left)


def _constant_names(graph: Graph, before: list[Node]) -> set[str]:
    """Return the names of a graph's initializers and of constants among some nodes."""
    names = {name for name in graph.constants if name not in graph.inputs}
    names.update(name for node in before if not node.inputs for name in node.outputs)
    return names


def _take_hoisted_nodes(body: Graph, around: Set[str], constants: Set[str]) -> list[Node]:
    """Remove the nodes of a body that need only values around it, and return them.

    `around` are the names that are taken there. What needs constants alone stays: it is computed
    once as a constant of the body's pieces.
    """
    inside = {*body.inputs, *body.constants}
    hoisted: list[Node] = []
    kept: list[Node] = []
    for node in body.nodes:
        reads = {*node.inputs}
        moves = node.op in HOISTED and not node.domain and "" not in reads
        moves = moves and inside.isdisjoint(reads) and not reads <= constants
        if moves and {*around, *body.outputs}.isdisjoint(node.outputs):
            hoisted.append(node)
        else:
            kept.append(node)
            inside.update(node.outputs)
    body.nodes = kept
    _number(body)
    return hoisted
