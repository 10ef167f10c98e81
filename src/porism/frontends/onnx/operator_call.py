"""Operator call: one node with its input values, as the functions that build operators see it.

A value is a tensor, or an array if it is known while the graph is built (an initializer, a shape,
what is computed from these), or a list (a sequence), or None (an input that is left out).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from porism.frontends.onnx import onnx_types
from porism.frontends.onnx.imported_graph import Node
from porism.frontends.onnx.model_errors import ModelError, node_error
from porism.tensor.promotion import as_dtype
from porism.tensor.tensor import Tensor

if TYPE_CHECKING:
    from porism.frontends.onnx.graph_builder import GraphBuilder, Scope

Value = Any
"""A tensor, an array, a list of values, or None."""


class Call:
    """A node, its inputs, and the version of its operator set."""

    __slots__ = ("attributes", "builder", "inputs", "node", "scope", "version")

    def __init__(
        self,
        node: Node,
        inputs: Sequence[Value],
        attributes: dict[str, Any],
        version: int,
        builder: GraphBuilder,
        scope: Scope,
    ) -> None:
        self.node = node
        self.inputs = inputs
        self.attributes = attributes
        self.version = version
        self.builder = builder
        self.scope = scope

    # -- inputs ------------------------------------------------------------------------------------

    def has(self, number: int) -> bool:
        """Whether an input is given."""
        return number < len(self.inputs) and self.inputs[number] is not None

    def value(self, number: int) -> Value:
        """Return an input as it is; an error if it is left out."""
        if not self.has(number):
            raise self.error(
                f"{self.node.op} without its input {number}", "the operator needs this input"
            )
        return self.inputs[number]

    def tensor(self, number: int) -> Value:
        """Return an input as a tensor."""
        return self.builder.as_tensor(self.value(number), self.node)

    def has_floats(self, number: int) -> bool:
        """Whether an input of integers was computed from floats that are equal to it."""
        value = self.value(number)
        return isinstance(value, Tensor) and value.node in self.builder.floats

    def floats(self, number: int) -> Value:
        """Return an input of integers as float32, without a detour if it was computed so."""
        value = self.tensor(number)
        if self.has_floats(number):
            return self.builder.floats[value.node]
        return value.astype("float32")

    def optional(self, number: int) -> Value:
        """Return an input as a tensor, or None if it is left out."""
        return self.tensor(number) if self.has(number) else None

    def tensors(self) -> list[Value]:
        """Return all inputs as tensors."""
        return [self.tensor(number) for number in range(len(self.inputs))]

    def host(self, number: int) -> Any:
        """Return an input as an array, whose values decide what is built."""
        return self.builder.as_array(self.value(number), self.node)

    def is_host(self, number: int) -> bool:
        """Whether the values of an input are known."""
        return self.has(number) and isinstance(self.inputs[number], np.ndarray)

    def numbers(self, number: int, attribute: str | None = None) -> list[int] | None:
        """Return ints from an input if it is given, else from an attribute, else None."""
        if self.has(number):
            return [int(n) for n in np.ravel(self.host(number))]
        if attribute is None or attribute not in self.attributes:
            return None
        return self.ints(attribute)

    def scalar(self, number: int, default: Any = None) -> Any:
        """Return an input of one element as a Python number."""
        if not self.has(number):
            return default
        array = self.host(number)
        if array.size != 1:
            raise self.error(
                f"{self.node.op} with {array.size} elements as its input {number}",
                "it wants one number",
            )
        return array.reshape(()).item()

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of an input."""
        return shape_of(self.value(number))

    def rank(self, number: int) -> int:
        """Return the number of axes of an input."""
        return len(self.shape(number))

    def dtype(self, number: int) -> np.dtype[Any]:
        """Return the type of an input, as NumPy's."""
        return dtype_of(self.value(number))

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the start; refuse one that is not there."""
        if not -rank <= axis < rank:
            raise self.error(
                f"{self.node.op} along axis {axis} of {rank} axes", "there is no such axis"
            )
        return axis % rank

    # -- attributes --------------------------------------------------------------------------------

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or the default."""
        value = self.attributes.get(name)
        return default if value is None else value

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute that is an int."""
        return int(self.attribute(name, default))

    def number(self, name: str, default: float) -> float:
        """Return an attribute as the float32 that it is, not more exact."""
        return float(np.float32(self.attribute(name, default)))

    def ints(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """Return an attribute that is a list of ints."""
        value = self.attribute(name, default)
        if value is None:
            raise self.error(f"{self.node.op} without the attribute {name}", "it is required")
        return [int(n) for n in value]

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is text."""
        return str(self.attribute(name, default))

    def constant(self, array: Any) -> Value:
        """Return an array that is known now as a tensor, which the trace captures."""
        return self.builder.constants.tensor(array)

    # -- results -----------------------------------------------------------------------------------

    @property
    def output_count(self) -> int:
        """How many outputs are asked for."""
        return len(self.node.outputs)

    def error(self, what: str, why: str, fix: str = "check the model") -> ModelError:
        """Return an error about this node."""
        return node_error(self.node, what, why, fix)


def shape_of(value: Value) -> tuple[int, ...]:
    """Return the shape of a tensor or array."""
    return tuple(int(size) for size in value.shape)


def dtype_of(value: Value) -> np.dtype[Any]:
    """Return the type of a tensor or array, as NumPy's."""
    dtype: np.dtype[Any] = np.dtype(value.dtype.numpy if isinstance(value, Tensor) else value.dtype)
    return dtype


def tensor_dtype(dtype: Any) -> Any:
    """Return the type of tensors for a type of NumPy."""
    return as_dtype(np.dtype(dtype))


def held(dtype: Any) -> bool:
    """Whether tensors have a type of NumPy."""
    return onnx_types.is_held(dtype)
