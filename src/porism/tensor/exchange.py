"""Exchange: conversion of tensors to Python's numbers and lists, NumPy, pickle and DLPack."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from porism.base.device_use import HOST
from porism.base.dtypes import index
from porism.engine.run.buffer_storage import buffer_for_array, node_storage
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.tensor.complex.complex_dispatch import accepts_complex
from porism.tensor.conversion import as_tensor, from_copy
from porism.tensor.memory.dlpack_capsules import CPU, HOST_DEVICES, array_of_capsule, new_capsule
from porism.tensor.memory.shared_memory import NotShared, not_shared, refused, shared_tensor
from porism.tensor.promotion import as_dtype, name_of, type_error
from porism.tensor.shapes import shape_error, to_text
from porism.tensor.standard.devices import check_device, on_device
from porism.tensor.tensor import Tensor, method, operator

if TYPE_CHECKING:
    from porism.engine.device.device import Device


@method
def tolist(x: Tensor) -> Any:
    """Return the values as nested lists of Python's numbers."""
    return x.numpy().tolist()


@method
def item(x: Tensor, *index: Any) -> bool | int | float:
    """Return the value of a tensor with one element, or of the one at an index, as a number.

    One int counts the elements in row-major order.
    """
    if index:
        key = index[0] if len(index) == 1 else index
        x = x[key] if isinstance(key, tuple) else x.reshape(-1)[key]
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


@operator("contains")
def _contains(x: Tensor, value: Any) -> bool:
    """Return whether an element equals a value, as `value in x` does for NumPy's arrays."""
    return bool((x == value).any())


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
def _complex(x: Tensor) -> complex:
    """Return complex(x) of a tensor with one element."""
    return complex(_single(x, "complex()"))


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
    """Return the values for `numpy.asarray(x)`, on the tensor's memory, or for `numpy.array(x)`."""
    values = x.numpy()
    if dtype is None or np.dtype(dtype) == values.dtype:
        return values.copy() if copy else values
    if copy is False:
        raise not_shared(
            f"an array of {np.dtype(dtype)} on the memory of a tensor of {x.dtype}",
            "its type would change",
        )
    return values.astype(dtype)


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
def _dlpack(
    x: Tensor,
    /,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Return the values as a DLPack capsule: the tensor's memory, read-only, or a copy of it.

    A consumer that does not understand version 1 of DLPack gets a copy, since it could not be told
    that the memory is read-only.
    """
    if x.device != HOST and (dl_device is None or (int(dl_device[0]), dl_device[1]) != CPU):
        return _device_capsule(x, stream, max_version, dl_device, copy)
    if stream is not None:
        raise not_shared(
            f"__dlpack__ with the stream {stream!r}",
            "the processor has no streams",
            "leave out stream",
        )
    if dl_device is not None and (int(dl_device[0]), dl_device[1]) != CPU:
        raise not_shared(
            f"__dlpack__ to the device {tuple(dl_device)!r}",
            "a tensor's values are in the CPU's memory, the device (1, 0)",
            "leave out dl_device, and let the other library move them",
        )
    understood = max_version is not None and max_version[0] >= 1
    if copy is False and x.device != HOST:
        raise not_shared(
            "__dlpack__ to the CPU without a copy",
            f"the tensor is on the device {x.device!r}",
        )
    if copy is False and not understood:
        raise not_shared(
            "__dlpack__ without a copy for a consumer of DLPack before version 1",
            "the memory of a tensor is read-only, and such a capsule cannot say so",
            "leave out copy=False, or pass max_version=(1, 0)",
        )
    return new_capsule(x.numpy(), max_version, copy=bool(copy) or not understood)


def _device_capsule(
    x: Tensor, stream: Any, max_version: tuple[int, int] | None, dl_device: Any, copy: bool | None
) -> Any:
    """Return a capsule of the memory of a tensor on another device than the processor."""
    from porism.engine.device.device_table import find_device
    from porism.tensor.memory.device_capsules import export

    device = find_device(x.device)
    if dl_device is not None and (int(dl_device[0]), dl_device[1]) != device.dlpack:
        raise not_shared(
            f"__dlpack__ to the device {tuple(dl_device)!r}",
            f"the tensor is on {x.device!r}, the device {device.dlpack}",
            "leave out dl_device, and let the other library move them",
        )
    if copy is False and (max_version is None or max_version[0] < 1):
        raise not_shared(
            "__dlpack__ without a copy for a consumer of DLPack before version 1",
            "the memory of a tensor is read-only, and such a capsule cannot say so",
            "leave out copy=False, or pass max_version=(1, 0)",
        )
    buffer = x._buffer()
    sizes = tuple(int(size.arg) for size in buffer.src)
    capsule = export(node_storage(buffer), sizes, max_version, copy=bool(copy))
    if stream is not None and stream != -1:  # -1: the consumer waits by itself
        device.let_wait(stream)
    return capsule


@operator("dlpack_device")
def _dlpack_device(x: Tensor) -> tuple[int, int]:
    """Return the device of the values for DLPack."""
    if x.device == HOST:
        return CPU
    from porism.engine.device.device_table import find_device

    return find_device(x.device).dlpack


@accepts_complex
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor of another library's array, on the array's memory if that is possible.

    The tensor never writes to the array. If the array is written to, tensors that are not computed
    yet see it; `copy=True` copies the values. With `copy=False` it is an error if the memory cannot
    be shared: slices, transposes and broadcasts of arrays can be, overlapping windows cannot.

    >>> porism.from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    wanted = check_device(device)
    if isinstance(x, Tensor):
        tensor = on_device(x, wanted)
        return Tensor(x.node) if copy and tensor is x else tensor
    if not hasattr(x, "__dlpack__"):
        raise type_error(
            f"from_dlpack of a {type(x).__name__}",
            "it has no __dlpack__",
            "use asarray",
        )
    there = _on_other_device(x)
    if there is not None:
        return _shared_on_device(x, there, wanted, copy)
    array = _imported(x, wanted, copy)
    as_dtype(array.dtype)
    if wanted in (None, HOST):
        shared = "a copy was asked for" if copy else shared_tensor(array)
        if isinstance(shared, Tensor):
            return shared
    else:
        shared = f"its memory is not on the device {wanted!r}"
    if copy is False:
        raise refused(x, shared)
    return from_copy(array, device=wanted or HOST)


def _on_other_device(x: Any) -> Device | None:
    """Return the device of an object with DLPack if it is one of ours beside the processor."""
    where = getattr(x, "__dlpack_device__", lambda: CPU)()
    if int(where[0]) in HOST_DEVICES:
        return None
    from porism.engine.device.device_table import device_of_dlpack

    return device_of_dlpack(int(where[0]), int(where[1]))


def _shared_on_device(x: Any, device: Device, wanted: str | None, copy: bool | None) -> Tensor:
    """Return a tensor of an object on a device, on its memory if it stays there."""
    from porism.tensor.memory.device_capsules import imported

    options: dict[str, Any] = {"max_version": (1, 1)}
    if device.stream_number is not None:
        options["stream"] = device.stream_number  # it will wait for what makes the values
    found = imported(_exported(x, options), device)
    if isinstance(found, str):
        raise type_error(f"from_dlpack of a {type(x).__name__}", found, "make it contiguous first")
    memory, sizes = found
    storage: Any = memory, memory.address
    if copy or memory.address % device.alignment:
        if copy is False:
            raise refused(x, f"it does not begin at a multiple of {device.alignment} bytes")
        storage = device.duplicate(storage)
    dims = tuple(UOp.const(index, size) for size in sizes)
    node = buffer_for_array(as_dtype(memory.dtype), dims, *storage, device.name)
    tensor = on_device(Tensor(node), wanted)
    if copy is False and tensor.node is not node:
        raise refused(x, f"it is on the device {device.name!r}")
    return tensor


def _imported(x: Any, device: Any, copy: bool | None) -> Array:
    """Return the array of an object with DLPack, on its memory; one of NumPy needs no capsule."""
    if isinstance(x, np.ndarray):
        return x
    options: dict[str, Any] = {"max_version": (1, 1)}
    if copy is False:
        options["copy"] = False
    try:
        where = getattr(x, "__dlpack_device__", lambda: CPU)()
        if int(where[0]) not in HOST_DEVICES:
            if device is None:
                raise BufferError(f"it is on the device {tuple(where)!r}, not in the CPU's memory")
            options["dl_device"] = CPU
        return array_of_capsule(_exported(x, options))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, NotShared):
            raise
        raise type_error(f"from_dlpack of a {type(x).__name__}", str(error), _advice(x)) from None


def _exported(x: Any, options: dict[str, Any]) -> Any:
    """Return the capsule of an object; one that knows no versions is asked without them."""
    try:
        return x.__dlpack__(**options)
    except TypeError:
        return x.__dlpack__()


def _advice(x: Any) -> str:
    """Return the advice for an array that its library does not export."""
    if getattr(x, "requires_grad", False):
        return "pass x.detach(), which leaves the gradients behind"
    if int(getattr(x, "__dlpack_device__", lambda: CPU)()[0]) not in HOST_DEVICES:
        return 'move it to the CPU\'s memory first, or pass device="cpu"'
    return "pass an array of a type that tensors have, or numpy.asarray(x)"
