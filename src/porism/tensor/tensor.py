"""Tensor: a value with a shape and a type, computed when it is asked for.

A tensor holds a node of the tensor graph. Functions on tensors are plain functions; those that
`method` registers are methods as well, so `softmax(x)` and `x.softmax()` are the same thing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from porism.base.dtypes import DType
from porism.engine.realize import realize
from porism.engine.storage import array_of, realized
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.semantics import Array
from porism.ir.shape import shape
from porism.tensor.primitive import Dim

Function = TypeVar("Function", bound=Callable[..., Any])


class Tensor:
    """A lazy array. Use `porism.asarray` and its like to make one."""

    __slots__ = ("__weakref__", "node")

    node: UOp

    def __init__(self, node: UOp) -> None:
        self.node = node

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Functions registered by `method`."""

    # -- what it is --------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The sizes of the axes: ints, or nodes where a size is symbolic."""
        return tuple(d.arg if d.op is ops.CONST else d for d in shape(self.node))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(shape(self.node))

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.node.dtype

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        state = "" if realized(self.node) is None else ", realized"
        return f"Tensor(({sizes}{',' * (self.ndim == 1)}), {self.dtype}{state})"

    # -- its values --------------------------------------------------------------------------------

    def realize(self) -> Tensor:
        """Compute the values now, and keep them."""
        self.node = realize([self.node])[0]
        return self

    def numpy(self) -> Array:
        """The values as a NumPy array of one's own."""
        self.realize()
        dims = [int(d) for d in self.shape if isinstance(d, int)]
        return array_of(self.node).reshape(dims).copy()


def method(function: Function) -> Function:
    """Make a function on tensors a method of `Tensor` too."""
    assert not hasattr(Tensor, function.__name__), f"there are two methods {function.__name__}"
    setattr(Tensor, function.__name__, function)
    return function
