"""Tensor: a value with a shape and a type, computed when it is asked for.

A tensor holds a node of the tensor graph. Functions on tensors are plain functions; those that
`method` registers are methods as well, so `softmax(x)` and `x.softmax()` are the same thing, and
`operator` gives them a symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from porism.base.dtypes import DType
from porism.base.settings import settings
from porism.engine.run.buffer_storage import (
    NoValue,
    array_of,
    find_storage,
    node_storage,
    realized_buffer,
)
from porism.engine.run.realize import realize
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.tensor.jit.tracing import current, no_value
from porism.tensor.primitive import Dim, permute
from porism.tensor.promotion import name_of
from porism.tensor.shapes import product, shape_error, size_text, sizes_of, to_text

Function = TypeVar("Function", bound=Callable[..., Any])


class Tensor:
    """A lazy array. Use `porism.asarray` and its like to make one."""

    __slots__ = ("__weakref__", "_node")

    _node: UOp

    def __init__(self, node: UOp) -> None:
        self.node = node

    @property
    def node(self) -> UOp:
        """Its place in the graph; in a function that is traced, what it is there."""
        trace = current.get()
        return self._node if trace is None else trace.read(self)

    @node.setter
    def node(self, node: UOp) -> None:
        trace = current.get()
        if trace is None:
            self._node = node
        else:
            trace.write(self, node)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Functions registered by `method`."""

        # Registered by `operator`.
        def __add__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __lshift__(self, other: Any) -> Tensor: ...
        def __rshift__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __rand__(self, other: Any) -> Tensor: ...
        def __ror__(self, other: Any) -> Tensor: ...
        def __rxor__(self, other: Any) -> Tensor: ...
        def __rlshift__(self, other: Any) -> Tensor: ...
        def __rrshift__(self, other: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __getitem__(self, key: Any) -> Tensor: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...
        def __iter__(self) -> Iterator[Tensor]: ...

    __hash__ = object.__hash__

    # -- what it is --------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The sizes of the axes: ints, or nodes where a size is symbolic."""
        return sizes_of(self.node)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return product(self.shape)

    @property
    def nbytes(self) -> Dim:
        """The memory that the elements take when they are computed."""
        return self.size * self.dtype.numpy.itemsize

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.node.dtype

    @property
    def T(self) -> Tensor:  # noqa: N802 - the name that everybody knows
        """A matrix with its axes swapped; of other tensors, all axes reversed."""
        return Tensor(permute(self.node, range(self.ndim)[::-1]))

    @property
    def mT(self) -> Tensor:  # noqa: N802 - the Array API's name
        """Matrices in the last two axes, transposed."""
        return self.matrix_transpose()  # type: ignore[no-any-return]

    @property
    def device(self) -> str:
        """Where the values are computed."""
        return "cpu"

    def __len__(self) -> int:
        """The size of the first axis."""
        if not self.ndim:
            raise shape_error(
                "len() of a scalar", "a scalar has no axes", "use .size, or reshape it"
            )
        first = self.shape[0]
        if isinstance(first, int):
            return first
        if first.vmin == first.vmax:
            return int(first.vmin)
        raise shape_error(
            "len() of a tensor whose first axis is symbolic",
            f"its size is {size_text(first)}, and len() is an int",
            "use .shape[0]",
        )

    def __repr__(self) -> str:
        state = "" if realized_buffer(self.node) is None else ", realized"
        return f"Tensor({to_text(self.shape)}, {name_of(self.dtype)}{state})"

    # -- its values --------------------------------------------------------------------------------

    def realize(self, *, beam: int | None = None) -> Tensor:
        """Compute the values now, and keep them; in a jitted function that is left to the call.

        With `beam` new kernels are tuned first, as the setting of that name says.
        """
        if current.get() is not None or find_storage(self._node) is not None:
            return self
        if beam is None:
            self._buffer()
        else:
            with settings.override(beam=beam):
                self._buffer()
        return self

    def _buffer(self) -> UOp:
        """The buffer with the values, computed if need be."""
        try:
            buffer = realize([self.node])[0]
            node_storage(buffer)
        except NoValue:
            raise no_value() from None
        # A size that is symbolic stays so: it is what this tensor has in common with others.
        if all(isinstance(size, int) for size in self.shape):
            self.node = buffer
        return buffer

    def numpy(self) -> Array:
        """The values as a NumPy array of one's own."""
        buffer = self._buffer()
        dims = [int(size.arg) for size in buffer.src]
        return array_of(buffer).reshape(dims).copy()


def method(function: Function) -> Function:
    """Make a function on tensors a method of `Tensor` too."""
    assert not hasattr(Tensor, function.__name__), f"there are two methods {function.__name__}"
    setattr(Tensor, function.__name__, function)
    return function


def operator(symbol: str, *, reflected: bool = False) -> Callable[[Function], Function]:
    """Make a function an operator of `Tensor`: `operator("add", reflected=True)` is `+`."""

    def register(function: Function) -> Function:
        setattr(Tensor, f"__{symbol}__", function)
        if reflected:
            setattr(Tensor, f"__r{symbol}__", lambda self, other: function(other, self))
        return function

    return register
