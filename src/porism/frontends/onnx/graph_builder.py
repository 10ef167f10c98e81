"""Graph builder: computes the values of a graph's nodes, in order, as tensors or as arrays.

A node whose inputs are all known is computed with NumPy if its operator says how and its values
are few: so shapes, indices and scales are numbers where tensors need them. Every other node becomes
functions on tensors. An operator that is not in the table is expanded from its definition.

A node that needs the value of a tensor (the shape of its result depends on data) raises `NeedsHost`
while a function is traced; outside of a trace the value is computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from porism.frontends.onnx import function_bodies
from porism.frontends.onnx.imported_graph import (
    MOST_BYTES,
    MOST_DEPTH,
    AttributeReference,
    Function,
    Graph,
    Node,
)
from porism.frontends.onnx.model_errors import NeedsHost, errors_of, node_error
from porism.frontends.onnx.model_file import ModelFile
from porism.frontends.onnx.onnx_types import is_held
from porism.frontends.onnx.operator_call import Call, Value, dtype_of
from porism.frontends.onnx.operators import operator_table
from porism.frontends.onnx.stored_operands import read_often, stored
from porism.frontends.tensor_functions import xp
from porism.ir.node import UOp
from porism.tensor.jit.tracing import current
from porism.tensor.tensor import Tensor

MOST_HOST_ELEMENTS: Final = 1 << 12
"""Nodes on more known elements than this are computed by kernels and not by NumPy."""

MOST_STEPS: Final = 1_000_000
"""How many nodes one call may build, in all iterations of its loops."""


class Scope:
    """The values of one graph by name, and those of the graphs around it."""

    __slots__ = ("graph", "names", "number", "outer", "read_often")

    def __init__(self, graph: Graph, outer: Scope | None = None) -> None:
        self.graph = graph
        self.outer = outer
        self.names: dict[str, Value] = dict(graph.constants)
        if graph.read_often is None:
            graph.read_often = read_often(graph.nodes)
        self.read_often = graph.read_often
        self.number = 0
        """The number of the node that is being built."""

    def read(self, name: str, node: Node) -> Value:
        """Return a value by name, here or in a graph around."""
        if not name:
            return None
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        raise node_error(
            node, f"{node.op} reads {name!r}, which has no value",
            "no node before it, input or initializer has that name", "get a valid model file",
        )  # fmt: skip

    def constant(self, name: str) -> Value:
        """Return the value of a name if it is the same in every call, else None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                graph = scope.graph
                return None if name in graph.inputs else graph.constants.get(name)
            scope = scope.outer
        return None


class Constants:
    """Tensors of the arrays of a model, each made once; they are captured by traces."""

    def __init__(self) -> None:
        self._tensors: dict[int, tuple[Any, Tensor]] = {}
        self._positions: dict[int, Tensor] = {}

    def position(self, number: int) -> Tensor:
        """Return a number in memory, so that kernels which read it are the same for all numbers."""
        tensor = self._positions.get(number)
        if tensor is None:
            token = current.set(None)
            try:
                tensor = self._positions[number] = xp.asarray(np.array([number], np.int64))
            finally:
                current.reset(token)
        return tensor

    def tensor(self, array: Any) -> Tensor:
        """Return an array as a tensor; one whose elements are equal takes no memory."""
        held = self._tensors.get(id(array))
        if held is None:
            token = current.set(None)  # it belongs to the model and not to the trace
            try:
                tensor = _captured(array)
            finally:
                current.reset(token)
            if tensor is None:
                filled: Tensor = xp.full(array.shape, array.flat[0].item(), dtype=array.dtype)
                return filled
            held = self._tensors[id(array)] = array, tensor
        return held[1]


def _captured(array: Any) -> Tensor | None:
    """Return a tensor with a copy of an array; None if all of its elements are one number."""
    if array.size:
        first = array.flat[0]
        uniform = array.size == 1 or (array.size <= MOST_HOST_ELEMENTS and (array == first).all())
        if uniform and (array.dtype.kind in "iub" or (first == first and array.dtype.kind == "f")):
            return None
    return xp.asarray(array)  # type: ignore[no-any-return]


class GraphBuilder:
    """Builds the graphs of one model."""

    def __init__(self, file: ModelFile, constants: Constants) -> None:
        self.file = file
        self.constants = constants
        self.steps = 0
        self.scopes: list[Scope] = []
        self.floats: dict[UOp, Value] = {}
        """Floats from which integers were computed, and that are equal to them, by their nodes."""
        self.opsets = file.opsets
        self.attributes: Mapping[str, Any] = {}
        """The attributes of the function that is being expanded."""

    # -- values ------------------------------------------------------------------------------------

    def as_tensor(self, value: Value, node: Node) -> Value:
        """Return a value as a tensor."""
        if isinstance(value, Tensor):
            return value
        if isinstance(value, np.ndarray) and is_held(value.dtype):
            return self.constants.tensor(value)
        kind = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise node_error(
            node, f"{node.op} of {kind}",
            "tensors have no such type, and the operator is not computed on the host",
            "convert the model, so that this node has numbers of at least 8 bits",
        )  # fmt: skip

    def as_array(self, value: Value, node: Node) -> Any:
        """Return a value as an array, computed if need be; NeedsHost if it is only traced."""
        if isinstance(value, np.ndarray):
            return value
        if not isinstance(value, Tensor):
            raise node_error(
                node, f"{node.op} of a sequence", "it wants a tensor", "check the model"
            )
        if current.get() is not None:
            raise NeedsHost(node, value)
        self.realize_live()
        return value.numpy()

    def with_floats(self, integers: Value, floats: Value) -> Value:
        """Return integers, having noted the floats that are equal to them."""
        self.floats[integers.node] = floats
        return integers

    def realize_live(self) -> None:
        """Compute all tensors that nodes still need, at once, so that none is computed twice."""
        live = []
        for scope in self.scopes:
            last_use, number = scope.graph.last_use, scope.number
            for name, value in scope.names.items():
                if isinstance(value, Tensor) and last_use.get(name, -1) >= number:
                    live.append(value)
        if live:
            xp.realize(*live)

    # -- graphs ------------------------------------------------------------------------------------

    def run(self, graph: Graph, inputs: Sequence[Value], outer: Scope | None = None) -> list[Value]:
        """Return the outputs of a graph for values of its inputs."""
        scope = Scope(graph, outer)
        scope.names.update(zip(graph.inputs, inputs, strict=False))
        return self.run_nodes(graph, scope)

    def run_named(self, graph: Graph, inputs: Mapping[str, Value]) -> list[Value]:
        """Return the outputs of a graph for values of some inputs; the others are constants."""
        scope = Scope(graph)
        scope.names.update(inputs)
        return self.run_nodes(graph, scope)

    def run_nodes(self, graph: Graph, scope: Scope) -> list[Value]:
        """Build the nodes of a graph, and return its outputs."""
        self.scopes.append(scope)
        try:
            for node in graph.nodes:
                scope.number = node.number
                self.run_one(node, scope)
            end = Node("output", "", "", (), (), {}, len(graph.nodes), self.file.name)
            return [scope.read(name, end) for name in graph.outputs]
        finally:
            self.scopes.pop()

    def run_one(self, node: Node, scope: Scope) -> None:
        """Build one node, and add its outputs to the names."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise node_error(
                node, f"more than {MOST_STEPS} nodes are built",
                "loops and functions of the model are expanded without end",
                "check the trip counts of its loops",
            )  # fmt: skip
        inputs = [scope.read(name, node) for name in node.inputs]
        with errors_of(node):
            results = self.build(node, inputs, scope)
        if len(results) < len([name for name in node.outputs if name]):
            raise node_error(
                node, f"{node.op} has {len(node.outputs)} outputs",
                f"it gives {len(results)} here", "check the model",
            )  # fmt: skip
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                _check_size(value, node)
                how = scope.read_often.get(name)
                if how is not None and isinstance(value, Tensor):
                    value = stored(value, how)
                scope.names[name] = value

    def build(self, node: Node, inputs: Sequence[Value], scope: Scope) -> Sequence[Value]:
        """Return the outputs of one node."""
        attributes = self._bound_attributes(node)
        function = self.file.functions.get((node.domain, node.op))
        if function is not None:
            return self.expand(function, inputs, attributes, scope)
        version = self.opsets.get(node.domain, 1 if node.domain else max(self.opsets.values()))
        call = Call(node, inputs, attributes, version, self, scope)
        operator = operator_table.find(node.domain, node.op, version)
        if operator is None:
            expansion = function_bodies.find(call, self.file.reader)
            if expansion is None:
                raise function_bodies.unknown_operator(node, version)
            return self.expand(expansion, inputs, attributes, scope)
        if operator.host is not None and self._is_known(inputs):
            result = operator.host(call)
            return result if isinstance(result, (tuple, list)) else (np.asarray(result),)
        result = operator.build(call)
        return result if isinstance(result, tuple) else (result,)

    def _bound_attributes(self, node: Node) -> dict[str, Any]:
        """Return a node's attributes, those of functions replaced by what the call gives."""
        if not any(isinstance(v, AttributeReference) for v in node.attributes.values()):
            return node.attributes
        bound = {}
        for name, value in node.attributes.items():
            if isinstance(value, AttributeReference):
                value = self.attributes.get(value.name)
            if value is not None:
                bound[name] = value
        return bound

    def _is_known(self, inputs: Sequence[Value]) -> bool:
        """Whether a node is computed with NumPy: its inputs are known, and few or no tensors."""
        count = 0
        for value in inputs:
            if isinstance(value, np.ndarray):
                if not is_held(value.dtype):
                    return True
                count += value.size
            elif value is not None:
                return False
        return count <= MOST_HOST_ELEMENTS

    def expand(
        self,
        function: Function,
        inputs: Sequence[Value],
        attributes: Mapping[str, Any],
        scope: Scope,
    ) -> list[Value]:
        """Return the outputs of a function for values of its inputs."""
        if len(self.scopes) > MOST_DEPTH:
            raise RecursionError("functions are nested too deep")
        outer_opsets, outer_attributes = self.opsets, self.attributes
        defaults = {k: v for k, v in function.attributes.items() if v is not None}
        self.opsets = {**outer_opsets, **function.opsets}
        self.attributes = {**defaults, **attributes}
        try:
            graph = function.graph
            names = Scope(graph)
            names.names.update(dict.fromkeys(graph.outputs))  # those that the body leaves out
            names.names.update(dict.fromkeys(graph.inputs))
            names.names.update(zip(graph.inputs, inputs, strict=False))
            return self.run_nodes(graph, names)
        finally:
            self.opsets, self.attributes = outer_opsets, outer_attributes


def _check_size(value: Value, node: Node) -> None:
    """Refuse a result that is larger than a tensor of a model may be."""
    if isinstance(value, Tensor):
        count = math.prod(size for size in value.shape if isinstance(size, int))
        if count * dtype_of(value).itemsize > MOST_BYTES:
            raise node_error(
                node, f"{node.op} has a result of shape {value.shape}",
                f"a tensor of a model has at most {MOST_BYTES} bytes",
                "check the shapes of the inputs, and the model",
            )  # fmt: skip
