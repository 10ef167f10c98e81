"""Familiar methods: those of NumPy's arrays and PyTorch's tensors that other functions are here.

A tensor has a value and no memory that others see, so a copy, a tensor without gradients and one on
the CPU are tensors of the same value.
"""

from __future__ import annotations

import builtins
from typing import Any, Final

import numpy as np

from porism.base.dtypes import DType
from porism.tensor import primitive, promotion
from porism.tensor.conversion import as_tensor
from porism.tensor.element_types import ElementType
from porism.tensor.movement.reshape import broadcast_to, reshape
from porism.tensor.primitive import Dim
from porism.tensor.shapes import product, shape_error, to_text
from porism.tensor.standard.devices import is_device_name, on_device
from porism.tensor.tensor import Tensor, method

# -- the same value --------------------------------------------------------------------------------


@method
def clone(x: Tensor) -> Tensor:
    """Return another tensor of the same value; assigning to one leaves the other alone."""
    return Tensor(x.node)


@method
def copy(x: Tensor) -> Tensor:
    """Return another tensor of the same value; assigning to one leaves the other alone."""
    return Tensor(x.node)


@method
def cpu(x: Tensor) -> Tensor:
    """Return the tensor in the memory of the processor."""
    return on_device(x, "cpu")


@method
def cuda(x: Tensor, device: Any = None) -> Tensor:
    """Return the tensor in the memory of a GPU, the first one by default."""
    name = device if isinstance(device, str) else f"cuda:{device or 0}"
    return on_device(x, name)


@method
def contiguous(x: Tensor) -> Tensor:
    """Return the tensor, whose elements are in row-major order."""
    return x


@method
def is_contiguous(x: Tensor) -> bool:
    """Return True: elements are in row-major order."""
    return True


@method
def block_until_ready(x: Tensor) -> Tensor:
    """Compute the values now, and return the tensor: JAX's name for `realize`."""
    return x.realize()


# -- types -----------------------------------------------------------------------------------------


@method
def to(
    x: Tensor, *target: Any, dtype: Any = None, device: Any = None, copy: bool = False
) -> Tensor:
    """Return the tensor in another type and on another device, which other tensors can stand for.

    >>> porism.ones(2).to("int64").dtype, porism.ones(2).to("cpu").dtype
    (porism.int64, porism.float32)
    """
    for given in (*target, *(v for v in (device, dtype) if v is not None)):
        if isinstance(given, Tensor):
            x = on_device(_cast(x, given.node.dtype), given.device)
        elif is_device_name(str(given)):
            x = on_device(x, given)
        else:
            x = _cast(x, promotion.as_dtype(given))
    return Tensor(x.node) if copy else x


def _cast(x: Tensor, dtype: DType) -> Tensor:
    """Return a tensor in another type."""
    return Tensor(primitive.cast(x.node, dtype))


@method
def type(x: Tensor, dtype: Any = None) -> Any:
    """Return the name of the type, or the tensor in another type.

    >>> porism.ones(2).type()
    'float32'
    """
    if dtype is None:
        return promotion.name_of(x.node.dtype)
    return _cast(x, promotion.as_dtype(dtype))


@method
def type_as(x: Tensor, other: Tensor) -> Tensor:
    """Return the tensor in the type of another."""
    return _cast(x, other.node.dtype)


def _conversion(name: str, dtype: str) -> None:
    """Register a method that converts to a type."""

    def convert(x: Tensor) -> Tensor:
        return _cast(x, promotion.NAMES[dtype])

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"Return the tensor in the type {dtype}."
    method(convert)


_TYPES: Final = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "byte": "uint8",
    "bool": "bool",
}
"""Methods that convert to a type, by PyTorch's names."""

for _name, _dtype in _TYPES.items():
    _conversion(_name, _dtype)


@method
def is_floating_point(x: Tensor) -> Any:
    """Return whether the type of the elements is a float."""
    return x.node.dtype.is_float


# -- sizes -----------------------------------------------------------------------------------------


@method
def numel(x: Tensor) -> Dim:
    """Return the number of elements."""
    return product(x.shape)


@method
def nelement(x: Tensor) -> Dim:
    """Return the number of elements."""
    return product(x.shape)


@method
def dim(x: Tensor) -> Any:
    """Return the number of axes."""
    return x.ndim


@method
def element_size(x: Tensor) -> Any:
    """Return the memory of an element, in bytes."""
    return x.dtype.itemsize


@method
def view(x: Tensor, *shape: Any) -> Tensor:
    """Return the elements under another shape: PyTorch's name for `reshape`."""
    if len(shape) == 1 and isinstance(shape[0], (str, builtins.type, np.dtype, ElementType)):
        raise shape_error(
            f"view of a tensor as {shape[0]!r}",
            "the arguments are sizes; a type would read the same bytes in another way",
            "write x.astype(dtype) for the values, or porism.asarray(x.numpy().view(dtype))",
        )
    return reshape(x, *shape) if shape else x


@method
def view_as(x: Tensor, other: Any) -> Tensor:
    """Return the elements under the shape of another tensor."""
    return reshape(x, as_tensor(other).shape)


@method
def reshape_as(x: Tensor, other: Any) -> Tensor:
    """Return the elements under the shape of another tensor."""
    return reshape(x, as_tensor(other).shape)


@method
def expand_as(x: Tensor, other: Any) -> Tensor:
    """Return the tensor broadcast to the shape of another."""
    return broadcast_to(x, as_tensor(other).shape)


@method
def t(x: Tensor) -> Tensor:
    """Return the transposed matrix; a vector or a scalar as it is."""
    if x.ndim > 2:
        raise shape_error(
            f"t() of a tensor of shape {to_text(x.shape)}",
            "a matrix has two axes",
            "swap two axes with transpose, or the last two with .mT",
        )
    return x.T
