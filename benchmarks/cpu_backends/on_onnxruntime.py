"""Programs on onnxruntime: an operation writes nodes of a graph, which is then loaded and run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-not-found, import-untyped, unused-ignore]
from numpy.typing import NDArray
from onnx import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    TensorProto,
    helper,
    numpy_helper,
)

from benchmarks.cpu_operations import EPSILON, Array, Arrays, Call, Program, Read

OPSET = 20
FORMAT = 10
TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}


class Graph:
    """The nodes and constants so far."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: NDArray[Any]) -> Value:
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return Value(self, name, value.shape)

    def add(self, op: str, *arguments: Any, count: int = 1, **attributes: Any) -> list[Value]:
        """One node; numbers among its arguments become constants."""
        values = [
            a if isinstance(a, Value) else self.constant(np.array(a, np.float32)) for a in arguments
        ]
        names = [f"value{len(self.nodes)}_{k}" for k in range(count)]
        self.nodes.append(helper.make_node(op, [v.name for v in values], names, **attributes))
        return [Value(self, name) for name in names]


class Value:
    """A result of a node, or an input: then its shape is known."""

    def __init__(self, graph: Graph, name: str, shape: tuple[int, ...] = ()) -> None:
        self.graph, self.name, self.shape = graph, name, shape

    def __add__(self, other: Array) -> Value:
        return self.graph.add("Add", self, other)[0]

    def __mul__(self, other: Array) -> Value:
        return self.graph.add("Mul", self, other)[0]

    def __matmul__(self, other: Array) -> Value:
        return self.graph.add("MatMul", self, other)[0]

    def __neg__(self) -> Value:
        return self.graph.add("Neg", self)[0]


class OnnxOperations:
    """Each is one node where the standard has it, so that the runtime can use its best kernel."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def one(self, op: str, *arguments: Any, **attributes: Any) -> Value:
        return self.graph.add(op, *arguments, **attributes)[0]

    def integers(self, *values: int) -> Value:
        return self.graph.constant(np.array(values, np.int64))

    def exp(self, x: Array) -> Array:
        return self.one("Exp", x)

    def tanh(self, x: Array) -> Array:
        return self.one("Tanh", x)

    def relu(self, x: Array) -> Array:
        return self.one("Relu", x)

    def gelu(self, x: Array, by_tanh: bool = False) -> Array:
        return self.one("Gelu", x, approximate="tanh" if by_tanh else "none")

    def reshape(self, x: Array, shape: Sequence[int]) -> Array:
        return self.one("Reshape", x, self.integers(*shape))

    def permute(self, x: Array, order: Sequence[int]) -> Array:
        return self.one("Transpose", x, perm=list(order))

    def stored(self, x: Array) -> Array:
        return x  # values of a graph are in row order

    def halves(self, x: Array) -> Sequence[Array]:
        return self.graph.add("Split", x, count=2, axis=-1, num_outputs=2)

    def thirds(self, x: Array) -> Sequence[Array]:
        return self.graph.add("Split", x, count=3, axis=-1, num_outputs=3)

    def joined(self, parts: Sequence[Array]) -> Array:
        return self.one("Concat", *parts, axis=-1)

    def take(self, table: Array, rows: Array) -> Array:
        return self.one("Gather", table, rows)

    def sum(self, x: Array, axis: int | None) -> Array:
        axes = () if axis is None else (self.integers(axis),)
        return self.one("ReduceSum", x, *axes, keepdims=0)

    def cumsum(self, x: Array) -> Array:
        return self.one("CumSum", x, self.graph.constant(np.array(-1, np.int64)))

    def argmax(self, x: Array) -> Array:
        return self.one("ArgMax", x, axis=-1, keepdims=0)

    def softmax(self, x: Array) -> Array:
        return self.one("Softmax", x, axis=-1)

    def layer_norm(self, x: Array, weight: Array, bias: Array) -> Array:
        return self.one("LayerNormalization", x, weight, bias, axis=-1, epsilon=EPSILON)

    def rms_norm(self, x: Array, weight: Array) -> Array:
        squares = self.one("ReduceMean", x * x, self.integers(-1), keepdims=1)
        return self.one("Div", x, self.one("Sqrt", squares + EPSILON)) * weight

    def linear(self, x: Array, weight: Array, bias: Array) -> Array:
        return x @ weight + bias

    def attention(self, q: Array, k: Array, v: Array, causal: bool = False) -> Array:
        order = (0, 2, 1) if causal else (0, 1, 3, 2)
        scores = (q @ self.permute(k, order)) * 0.125
        if causal:
            length = self.length
            mask = np.triu(np.full((length, length), -1e9, np.float32), 1)
            scores = scores + self.graph.constant(mask)
        return self.softmax(scores) @ v

    def conv(self, x: Array, weight: Array, stride: int, padding: int, groups: int = 1) -> Array:
        return self.one("Conv", x, weight, strides=[stride] * 2, pads=[padding] * 4, group=groups)

    def batch_norm(self, x: Array, statistics: Sequence[Array]) -> Array:
        return self.one("BatchNormalization", x, *statistics, epsilon=EPSILON)

    def max_pool(self, x: Array) -> Array:
        return self.one("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)

    def mean_of_image(self, x: Array) -> Array:
        return self.one("Flatten", self.one("GlobalAveragePool", x))

    length = 0
    """Rows of the first input; the mask of an attention is a constant of that size."""


class OnnxRuntime:
    """Weights are initializers, all else is bound beforehand."""

    version = onnxruntime.__version__

    def __init__(self, threads: int) -> None:
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1
        self.options.log_severity_level = 3

    def prepare(
        self, program: Program, arrays: Arrays, constants: frozenset[str]
    ) -> tuple[Call, Read]:
        model = self.model(program, arrays, constants)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), self.options, providers=["CPUExecutionProvider"]
        )
        feed = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(array)
            for name, array in arrays.items()
            if name not in constants
        }
        return (
            lambda: session.run_with_ort_values(["result"], feed),
            lambda result: np.asarray(result[0].numpy()),
        )

    def model(self, program: Program, arrays: Arrays, constants: frozenset[str]) -> Any:
        graph = Graph()
        operations = OnnxOperations(graph)
        operations.length = next(iter(arrays.values())).shape[0]
        values = {name: Value(graph, name, array.shape) for name, array in arrays.items()}
        result = program(operations, **values)
        graph.nodes.append(helper.make_node("Identity", [result.name], ["result"]))
        inputs = [
            helper.make_tensor_value_info(name, TYPES[array.dtype], array.shape)
            for name, array in arrays.items()
            if name not in constants
        ]
        kind = TensorProto.INT64 if graph.nodes[-2].op_type == "ArgMax" else TensorProto.FLOAT
        outputs = [helper.make_tensor_value_info("result", kind, None)]
        weights = [numpy_helper.from_array(arrays[name], name) for name in sorted(constants)]
        made = helper.make_graph(
            graph.nodes, "program", inputs, outputs, [*weights, *graph.constants]
        )
        version = [helper.make_opsetid("", OPSET)]
        return helper.make_model(made, opset_imports=version, ir_version=FORMAT)
