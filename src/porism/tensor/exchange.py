"""Exchange: conversion of tensors to Python's numbers and lists, NumPy, pickle and DLPack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

import numpy as np

from porism.ir.facts.semantics import Array
from porism.tensor.conversion import as_tensor, from_array, from_copy
from porism.tensor.promotion import as_dtype, name_of, type_error
from porism.tensor.shapes import shape_error, to_text
from porism.tensor.tensor import Tensor, method, operator


@method
def tolist(x: Tensor) -> Any:
    """Return the values as nested lists of Python's numbers."""
    return x.numpy().tolist()


@method
def item(x: Tensor) -> bool | int | float:
    """Return the value of a tensor with one element as a Python number."""
    return _single(x, "item()").item()  # type: ignore[no-any-return]


def _single(x: Tensor, what: str) -> Any:
    """Return the only element of a tensor as a NumPy scalar; `what` names the caller."""
    if isinstance(x.size, int) and x.size != 1:
        raise shape_error(
            f"{what} of a tensor of shape {to_text(x.shape)}",
            f"it has {x.size} elements, and one is wanted",
            "index the element, or reduce the tensor (any, all, sum, …)",
        )
    return x.numpy().reshape(-1)[0]


@operator("bool")
def _bool(x: Tensor) -> bool:
    """Return bool(x) of a tensor with one element."""
    return bool(_single(x, "bool()"))


@operator("int")
def _int(x: Tensor) -> int:
    """Return int(x) of a tensor with one element."""
    return int(_single(x, "int()"))


@operator("float")
def _float(x: Tensor) -> float:
    """Return float(x) of a tensor with one element."""
    return float(_single(x, "float()"))


@operator("index")
def _index(x: Tensor) -> int:
    """Return the integer that Python uses a tensor as, such as an index of a list."""
    if not x.node.dtype.is_integer:
        raise type_error(
            f"a tensor of {name_of(x.node.dtype)} as an index",
            "an index is an integer",
            "convert it with astype, or with int()",
        )
    return int(_single(x, "an index"))


@operator("complex")
def _complex(x: Tensor) -> NoReturn:
    """Refuse complex(x)."""
    raise type_error(
        "complex() of a tensor",
        "there are no complex numbers here",
        "use complex(float(x))",
    )


@operator("format")
def _format(x: Tensor, spec: str) -> str:
    """Return the only element in a format, or without one the text of the tensor."""
    return format(_single(x, "format()").item(), spec) if spec else repr(x)


@operator("array_namespace")
def _namespace(x: Tensor, /, *, api_version: str | None = None) -> Any:
    """Return the module with the functions on tensors, as the Array API defines it."""
    import sys

    return sys.modules["porism"]


# -- NumPy -----------------------------------------------------------------------------------------


@operator("array")
def _array(x: Tensor, dtype: Any = None, copy: bool | None = None) -> Array:
    """Return the values for `numpy.asarray(x)`."""
    if copy is False:
        raise ValueError(
            "a tensor's values are always copied; use numpy.asarray without copy=False"
        )
    values = x.numpy()
    return values if dtype is None else values.astype(dtype)


@operator("array_ufunc")
def _ufunc(
    x: Tensor, ufunc: Any, method: str, *inputs: Any, out: tuple[Any, ...] = (), **options: Any
) -> Any:
    """Compute `array + x`, `array += x` and `numpy.exp(x)`.

    An operator on an array and a tensor returns a tensor. `array += x` changes the array: the
    values of x are computed. Other functions run in NumPy, on the values.
    """
    if any(isinstance(target, Tensor) for target in out):
        raise type_error(
            f"numpy.{ufunc.__name__} with a tensor as `out`",
            "NumPy writes into memory, and a tensor has none that may change",
            "assign the result: x[...] = result",
        )
    symbol = _SYMBOLS.get(ufunc)
    if symbol is not None and method == "__call__" and not out and not options:
        a, b = inputs
        return getattr(a if isinstance(a, Tensor) else as_tensor(a), f"__{symbol}__")(b)
    if out:
        options["out"] = out
    return getattr(ufunc, method)(*_in_numpy(inputs), **options)


_SYMBOLS: Final = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.matmul: "matmul",
    np.divide: "truediv",
    np.floor_divide: "floordiv",
    np.remainder: "mod",
    np.power: "pow",
    np.bitwise_and: "and",
    np.bitwise_or: "or",
    np.bitwise_xor: "xor",
    np.left_shift: "lshift",
    np.right_shift: "rshift",
    np.less: "lt",
    np.less_equal: "le",
    np.greater: "gt",
    np.greater_equal: "ge",
    np.equal: "eq",
    np.not_equal: "ne",
}
"""The operators of the ufuncs that have one."""


@operator("array_function")
def _function(
    x: Tensor, function: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]
) -> Any:
    """Run a function such as `numpy.sum(x)` in NumPy, on the values."""
    return function(*_in_numpy(args), **_in_numpy(kwargs))


def _in_numpy(value: Any) -> Any:
    """Return arguments with tensors replaced by arrays of their values."""
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, dict):
        return {key: _in_numpy(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_in_numpy(item) for item in value)
    return value


# -- DLPack ----------------------------------------------------------------------------------------

CPU: Final = 1
"""The device type kDLCPU of DLPack."""


@operator("copy")
def _copy(x: Tensor) -> Tensor:
    """Return another tensor of the same value."""
    return Tensor(x.node)  # assigning to one leaves the other alone


@operator("deepcopy")
def _deepcopy(x: Tensor, _memo: object) -> Tensor:
    """Return another tensor of the same value."""
    return Tensor(x.node)


@operator("reduce")
def _reduce(x: Tensor) -> tuple[Any, ...]:
    """Pickle a tensor with its values, which are computed if need be."""
    return from_copy, (x.numpy(),)


@operator("dlpack")
def _dlpack(x: Tensor, **options: Any) -> Any:
    """Return a copy of the values as a DLPack capsule; the consumer may change it."""
    if options.get("copy") is False:
        raise BufferError("a tensor's values are always copied; leave out copy=False")
    if options.get("dl_device") not in (None, (CPU, 0)):
        raise BufferError("a tensor's values are in the CPU's memory; leave out dl_device")
    values = x.numpy()
    if values.dtype.kind in "V" or (x.node.dtype.bits < 16 and x.node.dtype.is_float):
        raise _no_dlpack(name_of(x.node.dtype))
    try:
        return values.__dlpack__(**options)
    except (BufferError, RuntimeError, TypeError):
        raise _no_dlpack(name_of(x.node.dtype)) from None


@operator("dlpack_device")
def _dlpack_device(x: Tensor) -> tuple[int, int]:
    """Return the device of the values for DLPack."""
    return (CPU, 0)


def from_dlpack(x: Any, *, copy: bool | None = None) -> Tensor:
    """Return a tensor of another library's array in CPU memory; shared only with copy=False.

    >>> porism.from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    if isinstance(x, Tensor):
        return Tensor(x.node) if copy else x
    if not hasattr(x, "__dlpack__"):
        raise type_error(
            f"from_dlpack of a {type(x).__name__}",
            "it has no __dlpack__",
            "use asarray",
        )
    try:
        array = np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError) as error:
        raise type_error(f"from_dlpack of a {type(x).__name__}", str(error), _advice(x)) from None
    as_dtype(array.dtype)
    return shared(x, array) if copy is False else from_copy(array)


def _advice(x: Any) -> str:
    """Return the advice for an array that its library does not export."""
    if getattr(x, "requires_grad", False):
        return "pass x.detach(), which leaves the gradients behind"
    device = getattr(x, "__dlpack_device__", lambda: (CPU, 0))()
    if device[0] != CPU:
        return "move it to the CPU's memory first"
    return "pass a copy that may be written to, of a type that NumPy has"


def shared(obj: Any, array: Array) -> Tensor:
    """Return a tensor that shares the memory of `obj`, of which `array` is a view, or refuse."""
    if not array.flags.c_contiguous:
        raise not_shared(obj, "it is not contiguous in row-major order")
    if not array.flags.aligned:
        raise not_shared(obj, "its elements are not aligned")
    return from_array(array)


def not_shared(obj: Any, why: str) -> Exception:
    """Return the error for memory that a tensor cannot share."""
    return type_error(
        f"cannot share the memory of a {type(obj).__name__}",
        why,
        "pass copy=True, or an array that fits",
    )


def _no_dlpack(name: str) -> Exception:
    """Return the error for a type that DLPack cannot express."""
    return type_error(
        f"__dlpack__ of a tensor of {name}",
        "NumPy, through which values are handed over, has no such type in DLPack",
        "convert it first, with astype",
    )
