"""Imported graph: nodes, subgraphs and functions of a model as light records, checked on the way.

Everything here is untrusted: sizes are checked before memory is allocated, names before they are
used, and a graph must be acyclic, in an order in which values are defined before they are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from porism.frontends.onnx import onnx_types
from porism.frontends.onnx.model_errors import ModelError

MOST_BYTES: Final = 1 << 33
"""The largest tensor of a model, in bytes; a file that asks for more is refused."""

MOST_DEPTH: Final = 32
"""How deep subgraphs and functions may be nested."""


class ValueInfo(NamedTuple):
    """The shape and type of an input or output: sizes are ints, or names where they are open."""

    shape: tuple[int | str | None, ...] | None
    dtype: str


@dataclass(frozen=True, slots=True)
class AttributeReference:
    """An attribute of a node in a function, which has the value of the call's attribute."""

    name: str


@dataclass(slots=True, eq=False)
class Node:
    """One operator with the names of its inputs and outputs."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    number: int = 0
    model: str = ""

    @property
    def label(self) -> str:
        """The node in words, for messages."""
        name = f" {self.name!r}" if self.name else f", node {self.number}"
        domain = f"{self.domain}." if self.domain else ""
        return f"{self.model}: {domain}{self.op}{name}"


@dataclass(slots=True, eq=False)
class Graph:
    """A graph or subgraph, or the body of a function."""

    name: str
    nodes: list[Node]
    inputs: list[str]
    outputs: list[str]
    constants: dict[str, Any] = field(default_factory=dict)
    input_info: dict[str, ValueInfo] = field(default_factory=dict)
    output_info: dict[str, ValueInfo] = field(default_factory=dict)
    message: Any = None
    """What the file has for a subgraph, for definitions that take it as an attribute."""
    read_often: dict[str, str] | None = None
    """How values that nodes read many times are read; see `stored_operands`."""
    last_use: dict[str, int] = field(default_factory=dict)
    """The number of the last node that reads a value; outputs have the number of nodes."""
    number: int | None = None
    """The number of the graph among those of the file; None if it is not in the file."""


@dataclass(slots=True, eq=False)
class Function:
    """A function of a model or of a schema: a graph, its attributes and its operator versions."""

    graph: Graph
    attributes: dict[str, Any]
    """Names of attributes with their default, or None where it has none."""
    opsets: dict[str, int]


class Reader:
    """Reads protobuf messages of one model into records."""

    def __init__(self, model: str, external: Callable[[Any], bytes]) -> None:
        self.model = model
        self.external = external
        self.graphs: int | None = 0
        """How many graphs of the file were read; None after that."""
        """Returns the bytes of a tensor that is stored outside of the model file."""

    def error(self, what: str, why: str, fix: str = "get a valid model file") -> ModelError:
        """Return the error for this model."""
        return ModelError(what, where=self.model, why=why, fix=fix)

    def graph(self, proto: Any, depth: int = 0, known: Iterable[str] = ()) -> Graph:
        """Return a graph; `known` are the names that outer graphs define."""
        if depth > MOST_DEPTH:
            raise self.error("subgraphs are nested too deep", f"more than {MOST_DEPTH} levels")
        constants = {tensor.name: self.tensor(tensor) for tensor in proto.initializer}
        for sparse in proto.sparse_initializer:
            constants[sparse.values.name] = self.sparse_tensor(sparse)
        inputs = [info.name for info in proto.input]
        outputs = [info.name for info in proto.output]
        nodes = self.nodes(proto.node, [*known, *inputs, *constants], depth)
        graph = Graph(proto.name, nodes, inputs, outputs, constants)
        graph.message = proto if depth else None
        if self.graphs is not None:
            graph.number = self.graphs
            self.graphs += 1
        graph.input_info = {info.name: self.value_info(info) for info in proto.input}
        graph.output_info = {info.name: self.value_info(info) for info in proto.output}
        self._check_outputs(graph, known)
        find_last_uses(graph)
        return graph

    def function(self, proto: Any, depth: int = 0) -> Function:
        """Return a function of a model or of an operator's schema."""
        inputs, outputs = [*proto.input], [*proto.output]
        graph = Graph(proto.name, self.nodes(proto.node, inputs, depth), inputs, outputs)
        find_last_uses(graph)
        attributes: dict[str, Any] = dict.fromkeys(proto.attribute)
        for attribute in proto.attribute_proto:
            attributes[attribute.name] = self.attribute(attribute, depth, ())
        return Function(graph, attributes, {o.domain: o.version for o in proto.opset_import})

    def _check_outputs(self, graph: Graph, known: Iterable[str]) -> None:
        """Refuse a graph whose outputs nothing defines."""
        defined = {*graph.inputs, *graph.constants, *known}
        defined.update(name for node in graph.nodes for name in node.outputs)
        if len({*graph.outputs}) < len(graph.outputs) or len({*graph.inputs}) < len(graph.inputs):
            raise self.error(
                f"graph {graph.name!r} has two inputs or two outputs of one name",
                "they are given and returned by name",
            )
        for name in graph.outputs:
            if name not in defined:
                raise self.error(
                    f"the output {name!r} of graph {graph.name!r} has no value",
                    "no node, input or initializer has that name",
                )

    def nodes(self, protos: Sequence[Any], known: Sequence[str], depth: int) -> list[Node]:
        """Return nodes in an order in which values are defined before they are used."""
        names = {*known, *(name for proto in protos for name in proto.output)}
        nodes = [self.node(proto, number, depth, names) for number, proto in enumerate(protos)]
        defined = {"", *known}
        produced: set[str] = set()
        for node in nodes:
            for name in node.outputs:
                if name and name in produced:
                    raise self.error(
                        f"two nodes have the output {name!r}", "a value is assigned once"
                    )
                produced.add(name)
        ordered = []
        waiting = nodes
        while waiting:  # almost always in order: one round
            left = []
            for node in waiting:
                if all(name in defined for name in names_read(node, names)):
                    defined.update(node.outputs)
                    ordered.append(node)
                else:
                    left.append(node)
            if len(left) == len(waiting):
                node = left[0]
                missing = [name for name in node.inputs if name not in defined]
                raise ModelError(
                    f"the value {(missing or ['?'])[0]!r} is used and never defined before",
                    where=node.label,
                    why="the graph has a cycle, or the value has no definition",
                    fix="get a valid model file",
                )
            waiting = left
        for number, node in enumerate(ordered):
            node.number = number
        return ordered

    def node(self, proto: Any, number: int, depth: int, known: Iterable[str]) -> Node:
        """Return one node."""
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        node = Node(proto.op_type, domain, proto.name, (*proto.input,), (*proto.output,), {})
        node.number, node.model = number, self.model
        for attribute in proto.attribute:
            node.attributes[attribute.name] = self.attribute(attribute, depth, known)
        return node

    def attribute(self, proto: Any, depth: int, known: Iterable[str]) -> Any:
        """Return the value of an attribute."""
        if proto.ref_attr_name:
            return AttributeReference(proto.ref_attr_name)
        kind = proto.type
        if kind == 1:
            return float(proto.f)
        if kind == 2:
            return int(proto.i)
        if kind == 3:
            return proto.s.decode("utf-8", "replace")
        if kind == 4:
            return self.tensor(proto.t)
        if kind == 5:
            return self.graph(proto.g, depth + 1, known)
        if kind == 6:
            return [float(v) for v in proto.floats]
        if kind == 7:
            return [int(v) for v in proto.ints]
        if kind == 8:
            return [v.decode("utf-8", "replace") for v in proto.strings]
        if kind == 9:
            return [self.tensor(t) for t in proto.tensors]
        if kind == 10:
            return [self.graph(g, depth + 1, known) for g in proto.graphs]
        if kind == 11:
            return self.sparse_tensor(proto.sparse_tensor)
        if kind == 13:
            return proto.tp
        raise self.error(
            f"the attribute {proto.name!r} has the type {kind}", "attributes have no such type"
        )

    def value_info(self, proto: Any) -> ValueInfo:
        """Return the shape and the type of an input or output."""
        kind = proto.type.WhichOneof("value")
        if kind != "tensor_type":
            return ValueInfo(None, (kind or "unknown").removesuffix("_type"))
        tensor = proto.type.tensor_type
        dtype = onnx_types.name_of(tensor.elem_type)
        if not tensor.HasField("shape"):
            return ValueInfo(None, dtype)
        dims = tuple(
            d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or None
            for d in tensor.shape.dim  # some exporters write -1 for a size that is open
        )
        return ValueInfo(dims, dtype)

    # -- tensors -------------------------------------------------------------------------------

    def tensor(self, proto: Any) -> Any:
        """Return the values of a tensor in the file as an array, which may share its memory."""
        dims = tuple(proto.dims)
        dtype = self._tensor_dtype(proto)
        count = self._count(dims, dtype.itemsize, proto.name)
        if proto.data_location == 1:
            return self._from_bytes(self.external(proto), dims, dtype, proto)
        if proto.HasField("raw_data"):
            return self._from_bytes(proto.raw_data, dims, dtype, proto)
        stored = onnx_types.stored_values(proto, dtype)
        if len(stored) != count:
            raise self._wrong_count(proto, len(stored), count)
        return stored.reshape(dims)

    def _tensor_dtype(self, proto: Any) -> np.dtype[Any]:
        try:
            return onnx_types.numpy_dtype(proto.data_type)
        except KeyError:
            raise self.error(
                f"the tensor {proto.name!r} has the element type {proto.data_type}",
                "there is no such type",
            ) from None

    def _count(self, dims: Sequence[int], itemsize: int, name: str) -> int:
        """Return the number of elements of a shape; refuse one that is no shape, or too large."""
        if any(size < 0 for size in dims):
            raise self.error(f"the tensor {name!r} has the shape {dims}", "a size is negative")
        count = math.prod(dims)
        if count * itemsize > MOST_BYTES:
            raise self.error(
                f"the tensor {name!r} of shape {dims} has {count * itemsize} bytes",
                f"a tensor of a model has at most {MOST_BYTES} bytes",
            )
        return count

    def _from_bytes(
        self, data: bytes, dims: tuple[int, ...], dtype: np.dtype[Any], proto: Any
    ) -> Any:
        count = math.prod(dims)
        bits = onnx_types.BITS.get(proto.data_type)
        needed = -(-count * bits // 8) if bits else count * dtype.itemsize
        if dtype.kind == "O" or len(data) != needed:
            raise self._wrong_count(proto, len(data), needed, "bytes")
        if bits:
            return onnx_types.unpack(data, bits, count, dtype).reshape(dims)
        return np.frombuffer(data, dtype).reshape(dims)

    def _wrong_count(
        self, proto: Any, found: int, wanted: int, unit: str = "elements"
    ) -> ModelError:
        return self.error(
            f"the tensor {proto.name!r} of shape {tuple(proto.dims)} has {found} {unit}",
            f"its shape and type want {wanted}",
        )

    def sparse_tensor(self, proto: Any) -> Any:
        """Return a sparse tensor as a dense array."""
        dims = tuple(proto.dims)
        values, indices = self.tensor(proto.values), self.tensor(proto.indices)
        self._count(dims, values.dtype.itemsize, proto.values.name)
        result = np.zeros(dims, values.dtype)
        try:
            if indices.ndim == 1:
                result.reshape(-1)[indices] = values
            else:
                result[tuple(indices.T)] = values
        except (IndexError, ValueError) as error:
            raise self.error(
                f"the sparse tensor {proto.values.name!r} has wrong indices", str(error)
            ) from None
        return result


def names_read(node: Node, local: Iterable[str] | None) -> list[str]:
    """Return the names that a node reads, also in its subgraphs, there only those in `local`."""
    names = [*node.inputs]
    for value in node.attributes.values():
        for graph in _graphs(value):
            names += [n for n in free_names(graph) if local is None or n in local]
    return names


def free_names(graph: Graph) -> list[str]:
    """Return the names of values around a graph that its nodes and outputs read."""
    own = {"", *graph.inputs, *graph.constants}
    own.update(name for node in graph.nodes for name in node.outputs)
    reads = [name for node in graph.nodes for name in names_read(node, None)]
    return [name for name in dict.fromkeys((*reads, *graph.outputs)) if name not in own]


def subgraphs(node: Node) -> list[Graph]:
    """Return the graphs among the attributes of a node."""
    return [graph for value in node.attributes.values() for graph in _graphs(value)]


def _graphs(value: Any) -> list[Graph]:
    if isinstance(value, Graph):
        return [value]
    if isinstance(value, list):
        return [item for item in value if isinstance(item, Graph)]
    return []


def find_last_uses(graph: Graph) -> None:
    """Record for each value the last node that reads it."""
    graph.last_use.clear()
    names = {*graph.inputs, *graph.constants}
    names.update(name for node in graph.nodes for name in node.outputs)
    for node in graph.nodes:
        for name in names_read(node, names):
            graph.last_use[name] = node.number
    for name in graph.outputs:
        graph.last_use[name] = len(graph.nodes)
