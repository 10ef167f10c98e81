"""Tracing: the tensor operations of a function recorded instead of executed.

While a function is traced, a tensor that it captures is read as a placeholder, and an assignment to
the tensor is recorded here; the tensor itself stays as it is, also after an error. Tensors that the
function creates belong to the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from porism.engine.run.buffer_storage import NoValue, new_placeholder
from porism.ir.facts.node_shape import shape
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.tensor.user_line import users_line

if TYPE_CHECKING:
    from porism.tensor.tensor import Tensor


@dataclass(slots=True, eq=False)
class CapturedTensor:
    """A captured tensor: one that is neither an argument nor created by the function."""

    tensor: Tensor
    placeholder: UOp
    """What stands for the value of the tensor at the call."""
    node: UOp
    """The value at this point of the function; the placeholder if nothing was assigned."""


@dataclass(slots=True, eq=False)
class ValueStream:
    """An input that has new values in each call, such as random numbers."""

    placeholder: UOp
    take: Callable[[int], Array]
    """Returns the values for a call that consumes the given amount."""
    amount: int = 0
    """How much a call consumes."""


class Trace:
    """The record of one function while it is traced."""

    def __init__(self) -> None:
        self.created: dict[int, Tensor] = {}
        """The arguments and the tensors that the function creates, by id."""
        self.captured: dict[int, CapturedTensor] = {}
        """The captured tensors, by id."""
        self.streams: dict[str, ValueStream] = {}

    def read(self, tensor: Tensor) -> UOp:
        """Return the node that a tensor has inside the function."""
        if id(tensor) in self.created:
            return tensor._node
        return self._captured(tensor).node

    def write(self, tensor: Tensor, node: UOp) -> None:
        """Give a tensor another node inside the function."""
        if not hasattr(tensor, "_node"):
            self.created[id(tensor)] = tensor
        if id(tensor) in self.created:
            tensor._node = node
        else:
            self._captured(tensor).node = node

    def _captured(self, tensor: Tensor) -> CapturedTensor:
        """Return the record of a captured tensor, made at its first use."""
        captured = self.captured.get(id(tensor))
        if captured is None:
            node = tensor._node
            placeholder = new_placeholder(node.dtype, shape(node))
            captured = CapturedTensor(tensor, placeholder, placeholder)
            self.captured[id(tensor)] = captured
        return captured


current: ContextVar[Trace | None] = ContextVar("trace", default=None)
"""The trace that is being recorded in this thread or task, if any."""


def no_value() -> NoValue:
    """Return the error for asking a traced tensor for its value, at the user's line."""
    if current.get() is None:
        return NoValue(
            "a tensor that was kept from inside of a jitted function is asked for its value",
            where=users_line(),
            why="it only stood for a value while the function was traced",
            fix="return it from the function, or give its value to a tensor with x.assign(...)",
        )
    return NoValue(
        "a tensor is asked for its value inside of a jitted function",
        where=users_line(),
        why="the function is traced once and then replayed on other data, so a number that is read "
        "from a tensor now would be wrong later",
        fix="return the tensor and read it outside; in place of `if`, use porism.where",
    )
