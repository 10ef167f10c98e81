"""Tracing: what a function does with tensors, written down instead of done.

While a function is traced, a tensor from outside of it is read as a placeholder, and what is
assigned to it is noted here; the tensor itself stays as it is, whatever happens. Tensors made on
the way belong to the trace.
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
class Outside:
    """A tensor that the function did not get as an argument and did not make."""

    tensor: Tensor
    before: UOp
    """The placeholder for its value."""
    now: UOp
    """What it is at this point of the function."""


@dataclass(slots=True, eq=False)
class Supply:
    """A source of values that go on from call to call, as random numbers do."""

    placeholder: UOp
    take: Callable[[int], Array]
    """The values for a call that uses up some amount."""
    amount: int = 0


class Trace:
    """What is known of one function on its way."""

    def __init__(self) -> None:
        self.made: dict[int, Tensor] = {}
        self.outside: dict[int, Outside] = {}
        self.supplies: dict[str, Supply] = {}

    def read(self, tensor: Tensor) -> UOp:
        """The node that a tensor has inside of the function."""
        if id(tensor) in self.made:
            return tensor._node
        return self._outside(tensor).now

    def write(self, tensor: Tensor, node: UOp) -> None:
        """Give a tensor another node, inside of the function."""
        if not hasattr(tensor, "_node"):
            self.made[id(tensor)] = tensor
        if id(tensor) in self.made:
            tensor._node = node
        else:
            self._outside(tensor).now = node

    def _outside(self, tensor: Tensor) -> Outside:
        found = self.outside.get(id(tensor))
        if found is None:
            node = tensor._node
            placeholder = new_placeholder(node.dtype, shape(node))
            found = self.outside[id(tensor)] = Outside(tensor, placeholder, placeholder)
        return found


current: ContextVar[Trace | None] = ContextVar("trace", default=None)
"""The trace of this thread or task."""


def no_value() -> NoValue:
    """The error for a value that is asked for, at the user's line."""
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
