"""Complex tensor: a tensor of complex64 or complex128, held as two tensors of floats.

Everything below the front end sees the parts alone: two tensors of one shape, computed together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

import numpy as np

from porism.base.dtypes import DType
from porism.base.settings import settings
from porism.engine.run.buffer_storage import realized_buffer
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.complex.complex_dispatch import complex_operand
from porism.tensor.conversion import as_operand, as_tensor
from porism.tensor.element_types import ElementType
from porism.tensor.jit.replay import realize_tensors
from porism.tensor.jit.tracing import current, no_value
from porism.tensor.promotion import (
    ELEMENT_TYPE_OF,
    PART_TYPE,
    as_dtype,
    complex_type,
    constant,
    name_of,
    result_type,
    type_error,
)
from porism.tensor.shapes import to_text
from porism.tensor.tensor import Function, Tensor

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {}
"""The implementations for complex tensors, by the name of the function."""


def implements(*names: str) -> Callable[[Function], Function]:
    """Register an implementation for complex tensors of the functions with these names."""

    def register(function: Function) -> Function:
        for name in names:
            assert name not in IMPLEMENTATIONS, f"there are two implementations of {name}"
            IMPLEMENTATIONS[name] = function
        return function

    return register


class ComplexTensor(Tensor):
    """A tensor of complex numbers: two tensors of floats, of one shape and type.

    >>> import porism
    >>> z = porism.asarray([1 + 2j, 3.0])
    >>> z, z.real.tolist(), (z * z).tolist()
    (Tensor([1.+2.j, 3.+0.j], shape=(2,), dtype=complex64), [1.0, 3.0], [(-3+4j), (9+0j)])
    """

    __slots__ = ("imag_part", "real_part")

    real_part: Tensor
    imag_part: Tensor

    def __init__(self, real: Tensor, imag: Tensor) -> None:
        self._leaf = None
        self.real_part = real
        self.imag_part = imag

    @property
    def node(self) -> UOp:
        """Refuse: a complex tensor has two nodes, those of its parts."""
        raise complex_operand()

    @node.setter
    def node(self, node: UOp) -> None:
        raise complex_operand()

    @property
    def value_node(self) -> UOp:
        """Refuse, as `node` does."""
        raise complex_operand()

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self.real_part.shape

    @property
    def device(self) -> str:
        """The device of the parts."""
        return self.real_part.device

    @property
    def dtype(self) -> ElementType:
        """The type of the elements: complex64 or complex128."""
        return ELEMENT_TYPE_OF[complex_type(self.real_part.dtype.base)]

    @property
    def T(self) -> Tensor:  # noqa: N802 - the name that everybody knows
        """The transposed matrix; for other tensors, all axes reversed."""
        return ComplexTensor(self.real_part.T, self.imag_part.T)

    @property
    def real(self) -> Tensor:
        """The real part, a tensor of floats."""
        return Tensor(self.real_part.node)

    @property
    def imag(self) -> Tensor:
        """The imaginary part, a tensor of floats."""
        return Tensor(self.imag_part.node)

    def __repr__(self) -> str:
        parts = (self.real_part, self.imag_part)
        shown = "lazy"
        if all(realized_buffer(part.value_node) is not None for part in parts):
            shown = np.array2string(self.numpy(), separator=", ", prefix="Tensor(")
        return f"Tensor({shown}, shape={to_text(self.shape)}, dtype={self.dtype.name})"

    # -- values ------------------------------------------------------------------------------------

    def realize(self, *, beam: int | None = None) -> Tensor:
        """Compute the values of both parts now, and keep them, as for other tensors."""
        if current.get() is None:
            if beam is None:
                realize_tensors([self.real_part, self.imag_part])
            else:
                with settings.override(beam=beam):
                    realize_tensors([self.real_part, self.imag_part])
        return self

    def numpy(self) -> Array:
        """Return the values as a NumPy array, which is read-only as that of other tensors."""
        if current.get() is not None:
            raise no_value()
        realize_tensors([self.real_part, self.imag_part])
        real = self.real_part.numpy()
        values = np.empty(real.shape, self.dtype.numpy)
        values.real, values.imag = real, self.imag_part.numpy()
        values.flags.writeable = False
        return values

    def __int__(self) -> NoReturn:
        raise self._no_real_number("int()")

    def __float__(self) -> NoReturn:
        raise self._no_real_number("float()")

    def _no_real_number(self, what: str) -> Exception:
        """Return the error for a complex number that is asked for as a real one."""
        return type_error(
            f"{what} of a tensor of {self.dtype.name}",
            "its imaginary part would be lost",
            "use complex(x), or float(x.real)",
        )

    def __copy__(self) -> ComplexTensor:
        return ComplexTensor(self.real, self.imag)

    def __deepcopy__(self, _memo: object) -> ComplexTensor:
        return ComplexTensor(self.real, self.imag)

    def __reduce__(self) -> tuple[Any, ...]:
        return as_complex, (self.numpy(),)

    # -- parts -------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        return ComplexTensor(self.real_part[key], self.imag_part[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        new = as_complex(value, self.dtype)
        self.real_part[key] = new.real_part
        self.imag_part[key] = new.imag_part

    def __iter__(self) -> Iterator[Tensor]:
        return map(ComplexTensor, self.real_part, self.imag_part)


# -- conversion ------------------------------------------------------------------------------------


def as_complex(value: Any, wanted: Any = None) -> ComplexTensor:
    """Return a complex tensor of a tensor, a number, nested lists or an array."""
    dtype = None if wanted is None else as_dtype(wanted)
    if dtype is not None and dtype not in PART_TYPE:
        raise complex_operand(f"complex numbers as {name_of(dtype)}")
    if isinstance(value, ComplexTensor):
        part = PART_TYPE[value.dtype.base if dtype is None else dtype]
        if value.real_part.dtype.base is part:
            return value
        parts = (value.real_part, value.imag_part)
        return ComplexTensor(*(Tensor(primitive.cast(x.node, part)) for x in parts))
    if isinstance(value, (bool, int, float, complex, UOp)) and not isinstance(value, np.generic):
        part = PART_TYPE[complex_type(result_type(value)) if dtype is None else dtype]
        real, imag = (value.real, value.imag) if isinstance(value, complex) else (value, 0)
        return ComplexTensor(Tensor(constant(part, real)), Tensor(constant(part, imag)))
    if isinstance(value, Tensor):
        part = PART_TYPE[complex_type(value.dtype.base) if dtype is None else dtype]
        node = primitive.cast(value.node, part)
        return ComplexTensor(Tensor(node), Tensor(primitive.full(part, 0, value.shape)))
    array = _complex_array(value, narrow=dtype is None)
    if array.dtype.kind != "c":
        return as_complex(as_tensor(value), dtype)
    own = as_dtype(array.dtype) if dtype is None else dtype
    return as_complex(ComplexTensor(as_operand(array.real), as_operand(array.imag)), own)


def _complex_array(value: Any, *, narrow: bool = True) -> Array:
    """Return a NumPy array of numbers or nested lists; `narrow`: Python's numbers as complex64."""
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
    else:
        array = np.asarray(_as_arrays(value))
    if narrow and array.dtype.kind == "c" and not hasattr(value, "dtype"):
        typed = [t for t in _element_types(value) if t.kind == "c" or t == np.float64]
        wide = any(t.itemsize == 16 or t == np.float64 for t in typed)
        array = array.astype(np.complex128 if wide else np.complex64)
    if array.dtype.kind == "c" and array.dtype.itemsize > 16:
        raise type_error(
            f"an array of NumPy's {array.dtype} as a tensor",
            "complex tensors have complex64 and complex128",
            "convert the array first, with .astype()",
        )
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _as_arrays(value: Any) -> Any:
    """Return nested lists with tensors replaced by arrays of their values."""
    if isinstance(value, (list, tuple)):
        return [_as_arrays(item) for item in value]
    return value.numpy() if isinstance(value, Tensor) else value


def _element_types(value: Any) -> list[np.dtype[Any]]:
    """Return the types of the arrays, tensors and NumPy numbers in nested lists."""
    if isinstance(value, (list, tuple)):
        return [found for item in value for found in _element_types(item)]
    if isinstance(value, Tensor):
        return [value.dtype.numpy]
    return [value.dtype] if isinstance(value, (np.ndarray, np.generic)) else []


def is_complex(value: Any) -> bool:
    """Whether an operand is complex: a tensor, an array, a number, or a list with one."""
    if isinstance(value, (ComplexTensor, complex, np.complexfloating)):
        return True
    if isinstance(value, np.ndarray):
        return bool(value.dtype.kind == "c")
    return isinstance(value, (list, tuple)) and any(map(is_complex, value))


def common_type(*values: Any) -> DType:
    """Return the complex type that operands promote to together."""
    typed = [_complex_array(v) if isinstance(v, (list, tuple)) else v for v in values]
    dtypes = [v.dtype if isinstance(v, Tensor) else v for v in typed]
    return complex_type(result_type(*dtypes))


def promoted(*values: Any) -> tuple[ComplexTensor, ...]:
    """Return operands as complex tensors of their common type."""
    common = common_type(*values)
    return tuple(as_complex(value, common) for value in values)
