"""Tensor: a value with a shape and a type, computed when it is asked for.

A tensor holds a node of the tensor graph. Functions on tensors are plain functions; those that
`method` registers are methods as well, so `softmax(x)` and `x.softmax()` are the same thing, and
`operator` gives them a symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from porism.base import device_use
from porism.base.settings import settings
from porism.engine.run.buffer_storage import (
    NoValue,
    find_storage,
    node_storage,
    read_only_view,
)
from porism.engine.run.realize import realize
from porism.gradient.stated_pullbacks import depends_on_variable, live_variables
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.tensor.autodiff.leaf_state import Leaf, read_without_gradient
from porism.tensor.complex.complex_dispatch import accepts_complex
from porism.tensor.element_types import ElementType
from porism.tensor.habits.keywords import public
from porism.tensor.jit.tracing import current, no_value
from porism.tensor.primitive import Dim, permute
from porism.tensor.promotion import ELEMENT_TYPE_OF
from porism.tensor.shapes import product, shape_error, size_text, sizes_of

if TYPE_CHECKING:
    from porism.tensor.annotations.tensor_methods import TensorMethods
else:
    TensorMethods = object

_live_variables: Final = live_variables
"""Empty unless something is being differentiated."""

observer: Callable[[UOp], None] | None = None
"""Called with the node of each new tensor while a program is recorded."""

placer: Callable[[Tensor, UOp], UOp] | None = None
"""Returns the node for a tensor that is given one, with its operands on one device; None while only
the processor is used."""

Function = TypeVar("Function", bound=Callable[..., Any])


class ElementCount(int):
    """A number of elements, which can be called as PyTorch's `size`."""

    _sizes: tuple[Dim, ...]

    def __new__(cls, count: int, sizes: tuple[Dim, ...]) -> ElementCount:
        made = super().__new__(cls, count)
        made._sizes = sizes
        return made

    def __call__(self, axis: int | None = None) -> Any:
        """Return the shape of the tensor, or the size of an axis."""
        return self._sizes if axis is None else self._sizes[axis]

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)


class Tensor(TensorMethods):
    """A lazy array, made of data, or by `porism.zeros` and other functions of `porism`.

    >>> x = porism.Tensor([1.0, 2.0]) * 2
    >>> x
    Tensor(lazy, shape=(2,), dtype=float32)
    >>> x.tolist()
    [2.0, 4.0]
    >>> x
    Tensor([2., 4.], shape=(2,), dtype=float32)
    """

    __slots__ = ("__weakref__", "_leaf", "_node")

    _node: UOp
    _leaf: Leaf | None

    def __init__(self, data: Any, dtype: Any = None) -> None:
        """Make a tensor of data, as `porism.asarray` does; functions on tensors pass a node."""
        self._leaf = None
        if type(data) is UOp:
            self.node = data
            if observer is not None:
                observer(data)
        else:
            self.node = _node_of_data(data, dtype)

    @property
    def node(self) -> UOp:
        """The node of the tensor graph, as functions read it.

        While a function is traced, it is the one inside the trace; that of a tensor which requires
        a gradient is the value of a variable.
        """
        trace = current.get()
        node = self._node if trace is None else trace.read(self)
        leaf = self._leaf
        if leaf is not None:
            return leaf.read(node)
        return read_without_gradient(node) if _live_variables else node

    @node.setter
    def node(self, node: UOp) -> None:
        """Give the tensor another node; while a function is traced, inside the trace only."""
        if placer is not None:
            node = placer(self, node)
        trace = current.get()
        if trace is None:
            self._node = node
        else:
            trace.write(self, node)

    @property
    def value_node(self) -> UOp:
        """The node of the value alone, without a variable of its own."""
        trace = current.get()
        return self._node if trace is None else trace.read(self)

    if not TYPE_CHECKING:  # the methods are in `TensorMethods`, and no others

        def __getattr__(self, name: str) -> Any:
            """Return a method that is not loaded yet, or that has this name in another library.

            For what tensors do not have, the error says what to write instead.
            """
            if name.startswith("_"):
                raise AttributeError(f"'Tensor' object has no attribute {name!r}")
            from porism.tensor import namespace

            return getattr(self, namespace.method_name(name))

    def __dir__(self) -> Iterable[str]:
        """Return the names of all attributes, also of methods that are not loaded yet."""
        from porism.tensor import namespace

        namespace.load()
        return super().__dir__()

    __hash__ = object.__hash__

    # -- properties --------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes: ints, or nodes where a size is symbolic.

        For type checkers all are ints, as in the code of those who use no symbolic sizes.
        """
        return sizes_of(self.value_node)  # type: ignore[return-value]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements; `size()` and `size(axis)` are the shape and one of its sizes."""
        sizes = self.shape
        count = product(sizes)
        counted = ElementCount(count, sizes) if isinstance(count, int) else count
        return counted  # type: ignore[return-value] # as for `shape`

    @property
    def itemsize(self) -> int:
        """The memory of an element, in bytes."""
        return self.dtype.numpy.itemsize

    @property
    def nbytes(self) -> int:
        """The memory of the realized elements, in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def dtype(self) -> ElementType:
        """The type of the elements, such as `porism.float32`; in the graph it is `node.dtype`."""
        return ELEMENT_TYPE_OF[self.value_node.dtype]

    @property
    def T(self) -> Tensor:  # noqa: N802 - the name that everybody knows
        """The transposed matrix; for other tensors, all axes reversed."""
        return Tensor(permute(self.node, range(self.ndim)[::-1]))

    @property
    def mT(self) -> Tensor:  # noqa: N802 - the Array API's name
        """The tensor with its last two axes swapped."""
        return self.matrix_transpose()

    @property
    def real(self) -> Tensor:
        """The real part of the numbers: of a tensor that is not complex, the tensor itself."""
        return self

    @property
    def imag(self) -> Tensor:
        """The imaginary part of the numbers: of a tensor that is not complex, zeros."""
        return self.zeros_like()

    @property
    def device(self) -> str:
        """The device that the values are on, or that computes them: "cpu", "cuda", "cuda:1" …"""
        return device_use.HOST if placer is None else device_name(self.value_node)

    def __len__(self) -> int:
        """Return the size of the first axis."""
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

    # -- values ------------------------------------------------------------------------------------

    def realize(self, *, beam: int | None = None) -> Tensor:
        """Compute the values now, and keep them; inside a jitted function, do nothing.

        With `beam` new kernels are tuned first, as with the setting of that name.
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
        """Return the BUFFER with the values, computed if need be."""
        node = self.value_node
        try:
            buffer = realize([node])[0]
            node_storage(buffer)
        except NoValue:
            raise no_value() from None
        if is_replaceable(node):
            self.node = buffer
        return buffer

    def numpy(self) -> Array:
        """Return the values as a NumPy array, which is read-only: it shares the tensor's memory.

        Values that are assigned to the tensor later are not seen in the array. `numpy.array(x)`
        returns a copy that may be changed. The values on another device are copied.
        """
        return read_only_view(self._buffer())


def _node_of_data(data: Any, dtype: Any) -> UOp:
    """Return the node of a tensor with the given values."""
    from porism.tensor.api.creation import tensor

    return tensor(data, dtype).node


def is_replaceable(node: UOp) -> bool:
    """Return whether the buffer with the value of a node may stand for the node.

    A symbolic size stays symbolic: other tensors share the variable. What has a derivative stays
    as it was computed.
    """
    for dim in shape(node):
        if dim.op is not ops.CONST:
            return False
    return not (_live_variables and depends_on_variable(node))


def device_name(node: UOp) -> str:
    """Return the device of a value, where others than the processor are used."""
    from porism.engine.device.device_placement import default_device
    from porism.ir.facts.node_device import device_of

    return device_of(node) or default_device()


def _use_placer() -> None:
    global placer
    from porism.tensor.standard.device_operands import place

    placer = place


device_use.when_others_are_used(_use_placer)


def method(function: Function) -> Function:
    """Register a function on tensors as a method of `Tensor`; it dispatches on complex tensors."""
    assert not hasattr(Tensor, function.__name__), f"there are two methods {function.__name__}"
    dispatching = accepts_complex(function)
    setattr(Tensor, function.__name__, public(dispatching))
    return dispatching


def operator(symbol: str, *, reflected: bool = False) -> Callable[[Function], Function]:
    """Register a function as an operator of `Tensor`: `operator("add", reflected=True)` is `+`."""

    def register(function: Function) -> Function:
        setattr(Tensor, f"__{symbol}__", function)
        if reflected:
            setattr(Tensor, f"__r{symbol}__", lambda self, other: function(other, self))
        return function

    return register
