"""Conversion: Python's numbers, lists and NumPy's arrays to tensors; promotion of operands.

`as_tensor` shares no memory: an array is copied, so that later writes to it do not change the
tensor. Functions of several operands begin with `promote_operands`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from porism.base import device_use
from porism.base.device_use import HOST
from porism.base.dtypes import DType, Kind, index
from porism.base.settings import settings
from porism.engine.run.buffer_storage import buffer_with_copy, new_buffer, note_movable
from porism.ir.facts import semantics
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.complex.complex_dispatch import complex_operand
from porism.tensor.promotion import (
    DEFAULT_FLOAT,
    DEFAULT_INT,
    NAMES,
    as_dtype,
    constant,
    result_type,
    type_error,
)
from porism.tensor.shapes import broadcast_shapes, sizes_of
from porism.tensor.tensor import Tensor


def as_tensor(value: Any, dtype: DType | None = None) -> Tensor:
    """Return a tensor as it is; numbers, nested lists and arrays as a new tensor.

    >>> as_tensor([1, 2, 3]), as_tensor(2.5)
    (Tensor([1, 2, 3], shape=(3,), dtype=int64), Tensor(lazy, shape=(), dtype=float32))
    """
    if isinstance(value, Tensor):
        return value if dtype is None else Tensor(primitive.cast(value.node, dtype))
    if is_weak(value):
        return Tensor(constant(result_type(value) if dtype is None else dtype, value))
    array = to_array(value, dtype)
    return as_operand(array, dtype) if device_use.others_are_used else from_copy(array, dtype)


def as_operand(array: Any, dtype: DType | None = None) -> Tensor:
    """Return a tensor with a copy of an array, which moves to the device of other operands."""
    tensor = from_copy(array)
    if device_use.others_are_used:
        note_movable(tensor.node, tensor.node)
    return tensor if dtype is None else Tensor(primitive.cast(tensor.node, dtype))


def from_copy(array: Any, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Return a tensor with a copy of an array, which may have any layout."""
    own_dtype = as_dtype(array.dtype)
    if own_dtype.kind is Kind.COMPLEX:
        raise complex_operand()
    if device is None:
        device = settings.device if device_use.others_are_used else HOST
    dims = tuple(UOp.const(index, size) for size in array.shape)
    node = buffer_with_copy(own_dtype, dims, array, device)
    return Tensor(node if dtype is None else primitive.cast(node, dtype))


def from_array(array: Any, dtype: DType | None = None) -> Tensor:
    """Return a tensor of an array, which shares its memory if the array is contiguous."""
    own_dtype = as_dtype(array.dtype)
    if own_dtype.kind is Kind.COMPLEX:
        raise complex_operand()
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    node = new_buffer(
        own_dtype, array.shape, contiguous if contiguous.flags.aligned else contiguous.copy()
    )
    if device_use.others_are_used:
        note_movable(node, node)
    return Tensor(node if dtype is None else primitive.cast(node, dtype))


def host_result(array: Any, like: Tensor) -> Tensor:
    """Return a tensor of what the host computed from the values of another, on its device."""
    if device_use.others_are_used and like.device != HOST:
        return from_copy(array, device=like.device)
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    return Tensor(new_buffer(as_dtype(array.dtype), array.shape, contiguous))


def own_array(array: Any) -> Tensor:
    """Return a tensor of an array that nothing else writes to; it moves with other operands."""
    return as_operand(array) if device_use.others_are_used else from_array(array)


def to_array(value: Any, dtype: DType | None = None) -> Any:
    """Return a NumPy array of a supported type, of anything that NumPy can convert."""
    if isinstance(value, (list, tuple)) and _holds_tensor(value):
        value = _with_arrays(value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise type_error(
            f"a {type(value).__name__} that is no array",
            str(error),
            "give numbers, or lists of equal lengths",
        ) from None
    if array.dtype.kind == "O":
        raise _no_number(value)
    if isinstance(value, (list, tuple)) and array.dtype.kind in "biuf":
        array = _list_array(array, dtype, value)
    if array.dtype.kind == "c":
        raise complex_operand()
    if array.dtype.kind in "SUmMT" or (array.dtype.kind == "V" and not _is_known(array)):
        raise type_error(
            f"an array of NumPy's {array.dtype} as a tensor",
            "tensors have " + ", ".join(NAMES),
            "convert the array first, with .astype()",
        )
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _holds_tensor(values: Iterable[Any]) -> bool:
    """Whether nested lists hold a tensor."""
    return any(
        isinstance(v, Tensor) or (isinstance(v, (list, tuple)) and _holds_tensor(v)) for v in values
    )


def _with_arrays(value: Any) -> Any:
    """Return nested lists with tensors replaced by arrays of their values."""
    if isinstance(value, (list, tuple)):
        return [_with_arrays(v) for v in value]
    return value.numpy() if isinstance(value, Tensor) else value


def _no_number(value: Any) -> Exception:
    """Return the error for a value that has no numeric type."""
    leaf = _first_non_number(value)
    if isinstance(leaf, int):
        return type_error(
            f"an int of {leaf.bit_length()} bits in a tensor",
            "integers of tensors have at most 64 bits",
            "use floats",
        )
    shown = "None" if leaf is None else f"a {type(leaf).__name__}"
    return type_error(
        f"{shown} as a tensor, or in one",
        "a tensor holds numbers: tensors have " + ", ".join(NAMES),
        "give numbers, lists of equal lengths, or arrays of them; "
        "a function that ends without `return` gives None",
    )


def _first_non_number(value: Any) -> Any:
    """Return the first value in nested lists, or in an array of objects, that is no number."""
    if isinstance(value, (list, tuple)):
        inner = [_first_non_number(item) for item in value]
        return next((item for item in inner if not _is_number(item)), 0)
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return _first_non_number(value.reshape(-1).tolist())
    return value


def _is_number(value: Any) -> bool:
    """Whether a value is a number of at most 64 bits, or an array."""
    small = isinstance(value, int) and -(2**63) <= value < 2**64
    return small or isinstance(value, (float, complex, np.number, np.ndarray))


def _kinds(values: Any) -> set[type | DType]:
    """Return Python's classes of numbers, and the types of arrays and tensors, in nested lists."""
    kinds: set[type | DType] = set()
    for kind in set(map(type, values)):
        number = next((cls for cls in (bool, int, float) if issubclass(kind, cls)), None)
        if issubclass(kind, np.generic):
            kinds.add(as_dtype(np.dtype(kind)))
        elif number is not None:
            kinds.add(number)
        else:
            for value in values:
                if type(value) is kind:
                    is_list = isinstance(value, (list, tuple))
                    kinds |= _kinds(value) if is_list else {as_dtype(np.asarray(value).dtype)}
    return kinds


def _list_array(array: Any, dtype: DType | None, value: Any) -> Any:
    """Convert the array of a nested list: numbers get default types, arrays keep theirs."""
    kinds = _kinds(value)
    typed = [kind for kind in kinds if isinstance(kind, DType)]
    whole = not any(kind is float if isinstance(kind, type) else kind.is_float for kind in kinds)
    if kinds and whole and array.dtype.kind == "f" and not (dtype and dtype.is_float):
        try:  # NumPy makes floats of small and large ints together
            array = np.asarray(value, np.uint64)
        except OverflowError:
            typed = typed or [as_dtype("int64"), as_dtype("uint64")]
        if typed:
            raise type_error(
                "integers of which some are negative and some have 64 bits",
                "no integer type holds both",
                "use floats",
            )
    if dtype is None and typed:
        numbers = [kind() for kind in kinds if isinstance(kind, type)]
        typed.sort(key=lambda t: (not t.is_float, t.name))
        return array.astype(result_type(*typed, *numbers).numpy)
    if dtype is not None:
        if dtype.is_integer and array.dtype.kind in "iu" and array.size:
            constant(dtype, int(array.min()))  # raises an error if it does not fit
            constant(dtype, int(array.max()))
        return semantics.cast(as_dtype(array.dtype), dtype, array)
    if array.dtype == np.float64:
        return array.astype(DEFAULT_FLOAT.numpy)
    return array.astype(DEFAULT_INT.numpy) if array.dtype == np.dtype("long") else array


def _is_known(array: Any) -> bool:
    """Whether an array has a type that tensors have, such as bfloat16."""
    return any(t.numpy == array.dtype for t in NAMES.values())


# -- operands --------------------------------------------------------------------------------------


def promote_operands(*values: Any, dtype: DType | None = None) -> tuple[UOp, ...]:
    """Return operands as nodes of the type of the result, broadcast to one shape.

    Scalars stay scalars: they are compatible with every shape.
    """
    if dtype is None and len(values) == 2:
        pair = _equal_operands(*values)
        if pair is not None:
            return pair
    common = result_type(*map(_typed, values)) if dtype is None else dtype
    return broadcast(*(node_of(value, common) for value in values))


def _equal_operands(x: Any, y: Any) -> tuple[UOp, UOp] | None:
    """Return two operands that need neither a cast nor a broadcast; None if they may.

    They are two tensors of one type and shape, or a tensor of floats and a Python number. Most
    operands are such, and promoting them takes longer than making the node of their sum.
    """
    if type(x) is not Tensor:
        if type(y) is not Tensor or type(x) is Tensor:
            return None
        swapped = _equal_operands(y, x)
        return None if swapped is None else swapped[::-1]
    a = x.node
    if type(y) is Tensor:
        b = y.node
        return (a, b) if a.dtype is b.dtype and shape(a) == shape(b) else None
    return (a, constant(a.dtype, y)) if a.dtype.is_float and type(y) in (int, float) else None


def broadcast(*nodes: UOp) -> tuple[UOp, ...]:
    """Return nodes broadcast to one shape; scalars stay scalars."""
    sizes = [sizes_of(node) for node in nodes]
    common = broadcast_shapes(*sizes)
    return tuple(
        primitive.broadcast(node, common) if own else node
        for node, own in zip(nodes, sizes, strict=True)
    )


def node_of(value: Any, dtype: DType | None = None) -> UOp:
    """Return the node of an operand, converted to a type if one is given."""
    if isinstance(value, Tensor):
        return value.node if dtype is None else primitive.cast(value.node, dtype)
    if dtype is not None and is_weak(value):
        return constant(dtype, value)
    return as_tensor(value, dtype).node


def _typed(value: Any) -> Any:
    """Return an operand as `result_type` takes it."""
    if isinstance(value, (Tensor, bool, int, float, complex, UOp, np.generic)):
        return value
    return to_array(value)


def weak_or_tensor(value: Any) -> Any:
    """Return a tensor of an operand; Python's numbers stay weakly typed."""
    return value if is_weak(value) else as_tensor(value)


def is_weak(value: Any) -> bool:
    """Whether an operand is weakly typed: a Python number or a symbolic size."""
    return isinstance(value, (bool, int, float, UOp)) and not isinstance(value, np.generic)


def is_operand(value: Any) -> bool:
    """Whether a value can be an operand together with a tensor."""
    kinds = (Tensor, bool, int, float, complex, UOp, np.generic, np.ndarray, list, tuple)
    return isinstance(value, kinds) or hasattr(value, "__array__")
