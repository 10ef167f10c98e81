"""Model report: which operators a model has, how each is provided, and what a call costs."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from porism.frontends.onnx import function_bodies
from porism.frontends.onnx.graph_builder import Constants, GraphBuilder
from porism.frontends.onnx.imported_graph import Graph, ValueInfo
from porism.frontends.onnx.model_errors import ModelError
from porism.frontends.onnx.onnx_model import Model
from porism.frontends.onnx.operators import operator_table
from porism.frontends.tensor_functions import xp
from porism.tensor.tensor import Tensor

BUILT_IN, DEFINED, MISSING = "built in", "by its definition", "missing"


@dataclass(frozen=True)
class OperatorUse:
    """An operator of a model."""

    domain: str
    name: str
    count: int
    provided: str
    """BUILT_IN, DEFINED (by other operators) or MISSING."""


def nodes_of(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield the domain and name of every node, also in subgraphs."""
    for node in graph.nodes:
        yield node.domain, node.op
        for value in node.attributes.values():
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, Graph):
                    yield from nodes_of(inner)


def operators_of(model: Model) -> list[OperatorUse]:
    """Return the operators of a model, the most frequent first."""
    file = model.file
    counts = collections.Counter(nodes_of(file.graph))
    for function in file.functions.values():
        counts.update(nodes_of(function.graph))
    uses = []
    for (domain, name), count in counts.most_common():
        version = file.opsets.get(domain, 1)
        if operator_table.find(domain, name, version) is not None:
            provided = BUILT_IN
        elif (domain, name) in file.functions:
            provided = DEFINED
        else:
            schema = function_bodies.schema_of(domain, name, version)
            defined = schema is not None and (
                schema.has_function or schema.has_context_dependent_function
            )
            provided = DEFINED if defined else MISSING
        uses.append(OperatorUse(domain, name, count, provided))
    return uses


def weight_bytes(graph: Graph) -> int:
    """Return the bytes of all constants of a graph and its subgraphs."""
    total = sum(int(array.nbytes) for array in graph.constants.values())
    for node in graph.nodes:
        for value in node.attributes.values():
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, Graph):
                    total += weight_bytes(inner)
                elif isinstance(inner, np.ndarray):
                    total += int(inner.nbytes)
    return total


def example_shape(info: ValueInfo, given: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the shape of an input: as given, or as declared with 1 for sizes that are open."""
    if given is not None:
        return given
    return tuple(size if isinstance(size, int) else 1 for size in info.shape or ())


def example_input(name: str, info: ValueInfo, shape: tuple[int, ...], how: str, rng: Any) -> Any:
    """Return zeros or random values for an input: floats in [0, 1), small integers."""
    if info.dtype in ("string", "sequence", "optional", "map", "unknown"):
        raise ModelError(
            f"the input {name!r} is of type {info.dtype}",
            why="only tensors of numbers can be made up",
            fix="run the model from Python, with porism.onnx.load",
        )
    dtype = np.dtype(info.dtype)
    if how == "zeros":
        return np.zeros(shape, dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, 8, shape).astype(dtype)
    return rng.random(shape).astype(dtype)


@dataclass(frozen=True)
class Cost:
    """What a call of a model costs, of shapes that are given."""

    kernels: int
    bytes_moved: int
    """Bytes that kernels read and write."""
    flops: int
    """Operations on floats."""


def cost_of(model: Model, inputs: Mapping[str, Any]) -> Cost:
    """Return what a call costs, from the kernels of its program; nothing is computed."""
    from porism.engine.profile import work_counts

    builder = GraphBuilder(model.file, Constants())
    given = {name: xp.asarray(value) for name, value in inputs.items()}
    results = builder.run_named(model.file.graph, given)
    tensors = [value for value in results if isinstance(value, Tensor)]
    kernels = xp.kernels(*tensors)
    work = [work_counts.work_of(kernel.node, {}) for kernel in kernels]
    return Cost(len(kernels), sum(w.bytes for w in work), sum(w.flops for w in work))
