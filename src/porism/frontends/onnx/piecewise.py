"""Piecewise programs: a graph cut at nodes whose results data decide, into jitted pieces.

    jitted piece -> node on the host (NonZero, Loop, Reshape to a computed shape) -> jitted piece

The cuts are found by running it: where a piece asks for a value that is only traced, the node that
asks becomes a node on the host. The bodies of loops and branches are piecewise programs themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from porism.frontends.onnx.graph_builder import Constants, GraphBuilder, Scope
from porism.frontends.onnx.imported_graph import Graph, Node, free_names, names_read
from porism.frontends.onnx.model_errors import NeedsHost
from porism.frontends.onnx.model_file import ModelFile
from porism.frontends.onnx.onnx_types import is_held
from porism.frontends.onnx.operator_call import Call, Value
from porism.frontends.onnx.operators import operator_table
from porism.frontends.onnx.stored_programs import Hole, call_traced, content_of, filled, outlined
from porism.frontends.tensor_functions import xp
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor.jit.jit import Jitted
from porism.tensor.jit.tracing import current
from porism.tensor.tensor import Tensor

MOST_ELEMENTS: Final = 1 << 15
"""Elements of all inputs of a node, at most, that NumPy computes where a node is on the host."""

MOST_KEPT: Final = 64
"""How many shapes of its inputs a piece is compiled for; the oldest are dropped."""


class Cut(Exception):  # noqa: N818 - a request, and no error of the user
    """A piece is to be cut at a node, which the host computes."""

    def __init__(self, number: int) -> None:
        super().__init__(str(number))
        self.number = number


class PiecewiseBuilder(GraphBuilder):
    """Builds nodes on the host; subgraphs are piecewise programs, made once."""

    def __init__(
        self, file: ModelFile, constants: Constants, programs: dict[int, PiecewiseProgram]
    ) -> None:
        super().__init__(file, constants)
        self.programs = programs

    def run(self, graph: Graph, inputs: Sequence[Value], outer: Scope | None = None) -> list[Value]:
        """Return the outputs of a subgraph for values of its inputs."""
        if self.attributes or outer is None or current.get() is not None:
            return super().run(graph, inputs, outer)  # inside of a function: all on the host
        program = self.programs.get(id(graph))
        if program is None:
            known = {name: outer.constant(name) for name in free_names(graph)}
            known = {name: value for name, value in known.items() if value is not None}
            program = PiecewiseProgram(self.file, self.constants, graph, known, self.programs)
            self.programs[id(graph)] = program
        names = dict(zip(graph.inputs, inputs, strict=False))
        end = Node("output", "", "", (), (), {}, 0, self.file.name)
        for name in program.free:
            names[name] = outer.read(name, end)
        return program.run(names)

    def build(self, node: Node, inputs: Sequence[Value], scope: Scope) -> Sequence[Value]:
        """Return the outputs of one node: with NumPy, if the operator says how."""
        if current.get() is None and _is_small(inputs):
            version = self.opsets.get(node.domain, 1)
            operator = operator_table.find(node.domain, node.op, version)
            is_function = (node.domain, node.op) in self.file.functions
            if operator is not None and operator.host is not None and not is_function:
                arrays = [v.numpy() if isinstance(v, Tensor) else v for v in inputs]
                attributes = self._bound_attributes(node)
                result = operator.host(Call(node, arrays, attributes, version, self, scope))
                return result if isinstance(result, (tuple, list)) else (np.asarray(result),)
        return super().build(node, inputs, scope)


def _is_small(values: Sequence[Value]) -> bool:
    """Whether NumPy takes less time to compute with values than it takes to start a kernel."""
    if not all(v is None or isinstance(v, (Tensor, np.ndarray)) for v in values):
        return False
    return bool(sum(math.prod(v.shape) for v in values if v is not None) <= MOST_ELEMENTS)


class Piece:
    """Consecutive nodes of a graph that are one jitted function for each shape of its inputs."""

    def __init__(self, program: PiecewiseProgram, nodes: Sequence[Node], later: set[str]) -> None:
        graph = program.graph
        made = {name for node in nodes for name in node.outputs if name}
        known = program.names - made - {*graph.constants}
        reads = {name for node in nodes for name in names_read(node, program.names)}
        self.program = program
        self.first = nodes[0].number
        """The number of the first node."""
        self.reads = sorted(reads & known)
        self.graph = Graph(
            graph.name, list(nodes), self.reads, sorted(made & later), graph.constants
        )
        self.graph.number = graph.number
        self.graph.last_use, self.graph.read_often = graph.last_use, graph.read_often
        self.static: set[str] = set()
        """Inputs that are known when the piece is traced, and must be: they decide shapes."""
        self.compiled: dict[tuple[Any, ...], tuple[Any, list[Value]]] = {}

    def run(self, names: dict[str, Value]) -> None:
        """Compute the nodes, and add what later nodes read to the names."""
        values = {name: names[name] for name in self.reads if name in names}
        if not all(_is_argument(value) for value in values.values()):
            self._run_on_host(names)
            return
        while True:
            key = self._key(values)
            known = {n: v for n, v in values.items() if self._is_known(n, v)}
            tensors = [_as_tensor(v) for n, v in values.items() if n not in known]
            try:
                if key not in self.compiled:
                    self._trace(key, values, known, tensors)
                jitted, layout = self.compiled[key]
                results = iter(jitted(*tensors) if any(v is Hole for v in layout) else ())
            except NeedsHost as need:
                if need.inputs and all(isinstance(values[n], np.ndarray) for n in need.inputs):
                    self.static |= need.inputs
                    continue
                raise Cut(need.number) from None
            for name, value in zip(self.graph.outputs, layout, strict=True):
                names[name] = filled(value, results)
            return

    def _is_known(self, name: str, value: Value) -> bool:
        """Whether the piece is compiled for the value of an input."""
        return name in self.static and isinstance(value, np.ndarray)

    def _key(self, values: Mapping[str, Value]) -> tuple[Any, ...]:
        return tuple(
            (name, value.shape, value.tobytes())
            if self._is_known(name, value)
            else (name, tuple(value.shape), str(value.dtype))
            for name, value in values.items()
        )

    def _trace(
        self, key: tuple[Any, ...], values: Mapping[str, Value], known: Mapping[str, Value],
        tensors: Sequence[Tensor],
    ) -> None:  # fmt: skip
        """Compile the piece for inputs of these shapes."""
        traced = [name for name in values if name not in known]
        program = self.program
        layout: list[Value] = []

        def function(*arguments: Tensor) -> tuple[Tensor, ...]:
            builder = GraphBuilder(program.file, program.constants)
            scope = Scope(self.graph)
            scope.names.update(known)
            scope.names.update(zip(traced, arguments, strict=True))
            results = traced_outputs(builder, scope, traced, arguments)
            found: list[Tensor] = []
            layout[:] = [outlined(value, found) for value in results]
            return tuple(found)

        content = content_of(program.file, self.graph, known, traced, layout)
        jitted = Jitted(function, 1, content=content)
        call_traced(jitted, content, self.graph, tensors)
        while len(self.compiled) >= MOST_KEPT:
            del self.compiled[next(iter(self.compiled))]
        self.compiled[key] = jitted, layout

    def _run_on_host(self, names: dict[str, Value]) -> None:
        """Compute the nodes one after the other: an input is a sequence, or of another type."""
        for node in self.graph.nodes:
            self.program.run_node(node, names)


class PiecewiseProgram:
    """A graph as pieces and nodes on the host, which are found as it runs."""

    def __init__(
        self,
        file: ModelFile,
        constants: Constants,
        graph: Graph,
        known: Mapping[str, Value],
        programs: dict[int, PiecewiseProgram] | None = None,
    ) -> None:
        self.file = file
        self.constants = constants
        self.graph = _with_constants(file, constants, graph, known)
        """The graph, with constants in place of nodes that have no inputs."""
        self.programs: dict[int, PiecewiseProgram] = {} if programs is None else programs
        made = {name for node in self.graph.nodes for name in node.outputs}
        self.names = {*graph.inputs, *self.graph.constants, *made}
        self.free = sorted(free_names(self.graph))
        """Names of the graphs around this one that it reads."""
        self.names |= {*self.free}
        self.on_host: set[int] = set()
        """The numbers of the nodes that the host computes."""
        self.steps: list[Piece | Node] = []
        self._pieces: dict[tuple[Any, ...], Piece] = {}
        """The pieces by the numbers of their nodes and the names that later nodes read."""
        self._plan()

    def _plan(self) -> None:
        """Cut the graph before and after the nodes on the host."""
        later = {*self.graph.outputs}
        steps: list[Piece | Node] = []
        run: list[Node] = []
        for node in reversed(self.graph.nodes):
            if node.number in self.on_host:
                if run:
                    steps.append(self._piece(run, later))
                    run = []
                steps.append(node)
                later.update(names_read(node, self.names))
            else:
                run.append(node)
        if run:
            steps.append(self._piece(run, later))
        self.steps = steps[::-1]

    def _piece(self, backwards: Sequence[Node], later: set[str]) -> Piece:
        nodes = backwards[::-1]
        outputs = {name for node in nodes for name in node.outputs} & later
        key = (*(node.number for node in nodes), *sorted(outputs))
        piece = self._pieces.get(key)
        if piece is None:
            piece = self._pieces[key] = Piece(self, nodes, later)
        later.update(piece.reads)
        return piece

    def run(self, inputs: Mapping[str, Value]) -> list[Value]:
        """Return the outputs of the graph for values of its inputs and of its free names."""
        names = dict(inputs)
        steps = self.steps
        k = 0
        while k < len(steps):
            step = steps[k]
            try:
                if isinstance(step, Piece):
                    step.run(names)
                else:
                    self.run_node(step, names)
                k += 1
            except Cut as cut:  # what is before the piece is computed already
                assert isinstance(step, Piece), "a node on the host computes what it asks for"
                self.on_host.add(cut.number)
                self._plan()
                steps = self.steps
                firsts = [s.first if isinstance(s, Piece) else s.number for s in steps]
                k = firsts.index(step.first)
        constants = self.graph.constants
        return [names[n] if n in names else constants[n] for n in self.graph.outputs]

    def run_node(self, node: Node, names: dict[str, Value]) -> None:
        """Compute one node on the host."""
        builder = PiecewiseBuilder(self.file, self.constants, self.programs)
        scope = Scope(self.graph)
        scope.names.update(names)
        scope.number = node.number
        builder.run_one(node, scope)
        for name in node.outputs:
            if name:
                names[name] = scope.names[name]


def _with_constants(
    file: ModelFile, constants: Constants, graph: Graph, known: Mapping[str, Value]
) -> Graph:
    """Return a graph with more constants: `known` ones, and those of its nodes without inputs."""
    values = {**graph.constants, **known}
    builder = GraphBuilder(file, constants)
    nodes = []
    for node in graph.nodes:
        if node.op == "Constant" and not node.domain:
            scope = Scope(graph)
            builder.run_one(node, scope)
            found = {name: scope.names[name] for name in node.outputs}
            if all(isinstance(value, np.ndarray) for value in found.values()):
                values.update(found)
                continue
        nodes.append(node)
    if graph.read_often is None:
        Scope(graph)
    return replace(graph, nodes=nodes, constants=values)


# -- values of traced functions --------------------------------------------------------------------


def traced_outputs(
    builder: GraphBuilder, scope: Scope, traced: Sequence[str], arguments: Sequence[Tensor]
) -> list[Value]:
    """Return the outputs of a graph that is traced; NeedsHost says which inputs decide."""
    try:
        return builder.run_nodes(scope.graph, scope)
    except NeedsHost as need:
        leaves = _leaves(need.value.node)
        need.inputs = frozenset(
            name for name, x in zip(traced, arguments, strict=True) if x.node in leaves
        )
        need.number = scope.number
        raise


def _leaves(node: UOp) -> set[UOp]:
    """Return the nodes without sources that a node depends on, and all buffers."""
    visited: set[UOp] = set()
    leaves: set[UOp] = set()
    pending = [node]
    while pending:
        node = pending.pop()
        if node not in visited:
            visited.add(node)
            if node.op is ops.BUFFER or not node.src:
                leaves.add(node)
            pending.extend(node.src)
    return leaves


def _is_argument(value: Value) -> bool:
    """Whether a value can be an argument of a piece."""
    return isinstance(value, Tensor) or (isinstance(value, np.ndarray) and is_held(value.dtype))


def _as_tensor(value: Value) -> Tensor:
    return value if isinstance(value, Tensor) else xp.asarray(value)
