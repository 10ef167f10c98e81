"""Tracing: the tensor operations of a function recorded instead of executed.

While a function is traced, a tensor that it captures is read as a placeholder, and an assignment to
the tensor is recorded here; the tensor itself stays as it is, also after an error. Tensors that the
function creates belong to the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from porism.base import device_use
from porism.base.errors import PorismError
from porism.engine.run.buffer_storage import NoValue, new_placeholder
from porism.gradient.stated_pullbacks import depends_on_variable, is_recording
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
class TracedGradient:
    """The gradient of a tensor inside the function: what `.grad` is there."""

    tensor: Tensor
    initial: Tensor | None
    """The gradient at the call; None of an argument, to whose gradient is added after the call."""
    value: Tensor | None
    """The gradient at this point of the function."""
    is_read: bool = False
    """Whether the initial gradient was used."""
    is_written: bool = False
    is_cleared: bool = False
    """Whether the initial gradient was discarded."""


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
        self.gradients: dict[int, TracedGradient] = {}
        """The gradients that were read or written, by the id of the tensor."""
        self.streams: dict[str, ValueStream] = {}
        self.modes: dict[int, tuple[dict[str, Any], str]] = {}
        """Containers and keys of values, not tensors, that the function depends on, by id."""

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

    def read_gradient(self, tensor: Tensor) -> Tensor | None:
        """Return the gradient that a tensor has inside the function."""
        gradient = self._gradient(tensor)
        if not gradient.is_written:
            gradient.is_read = True
        return gradient.value

    def write_gradient(self, tensor: Tensor, value: Tensor | None) -> None:
        """Give a tensor another gradient inside the function."""
        gradient = self._gradient(tensor)
        gradient.value = value
        gradient.is_written = True
        gradient.is_cleared = gradient.is_cleared or value is None

    def _gradient(self, tensor: Tensor) -> TracedGradient:
        """Return the record of a tensor's gradient, made at its first use."""
        gradient = self.gradients.get(id(tensor))
        if gradient is None:
            leaf = tensor._leaf
            initial = None if leaf is None else leaf.grad
            gradient = TracedGradient(tensor, initial, initial)
            self.gradients[id(tensor)] = gradient
        return gradient

    def _captured(self, tensor: Tensor) -> CapturedTensor:
        """Return the record of a captured tensor, made at its first use."""
        captured = self.captured.get(id(tensor))
        if captured is None:
            node = tensor._node
            if tensor._leaf is None and is_recording() and depends_on_variable(node):
                raise _captured_history()
            placeholder = placeholder_of(node)
            captured = CapturedTensor(tensor, placeholder, placeholder)
            self.captured[id(tensor)] = captured
        return captured


def placeholder_of(node: UOp) -> UOp:
    """Return what stands for a value while a function is traced, on the device of the value."""
    if not device_use.others_are_used:
        return new_placeholder(node.dtype, shape(node))
    from porism.engine.device.device_placement import own_device

    return new_placeholder(node.dtype, shape(node), own_device(node))


def read_mode(container: dict[str, Any], key: str) -> Any:
    """Return a value in a container, on which the function depends that is being traced, if any.

    If the container holds another object later, the function is traced again.
    """
    trace = current.get()
    if trace is not None:
        trace.modes[id(container)] = (container, key)
    return container[key]


current: ContextVar[Trace | None] = ContextVar("trace", default=None)
"""The trace that is being recorded in this thread or task, if any."""


def _captured_history() -> PorismError:
    """Return the error for capturing a tensor through which gradients pass."""
    return PorismError(
        "a jitted function uses a tensor from outside that was computed from tensors which require "
        "a gradient",
        where=users_line(),
        why="a captured tensor is read as a value, and gradients would stop there without notice",
        fix="pass the tensor as an argument, or use x.detach()",
    )


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
