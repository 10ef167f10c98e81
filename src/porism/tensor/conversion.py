"""Conversion: Python's numbers, lists and NumPy's arrays as tensors, and operands brought together.

`as_tensor` shares nothing: an array is copied, so that a tensor's value never changes behind its
back. `promote_operands` is what functions of several operands begin with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from porism.base.dtypes import DType, index
from porism.engine.run import array_allocator
from porism.engine.run.buffer_storage import buffer_for_array, new_buffer
from porism.ir.facts import semantics
from porism.ir.node import UOp
from porism.tensor import primitive
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
    """A tensor as it is; numbers, (nested) lists and arrays as a new tensor.

    >>> as_tensor([1, 2, 3]), as_tensor(2.5), as_tensor(np.ones((2, 1), "float16"))
    (Tensor((3,), int64, realized), Tensor((), float32), Tensor((2, 1), float16, realized))
    """
    if isinstance(value, Tensor):
        return value if dtype is None else Tensor(primitive.cast(value.node, dtype))
    if is_weak(value):
        return Tensor(constant(result_type(value) if dtype is None else dtype, value))
    return from_copy(to_array(value, dtype), dtype)


def from_copy(array: Any, dtype: DType | None = None) -> Tensor:
    """A tensor of an array in any layout, with memory of its own."""
    found = as_dtype(array.dtype)
    flat, address = array_allocator.new_array(array.size, array.dtype)
    flat.reshape(array.shape)[...] = array
    node = buffer_for_array(
        found, tuple(UOp.const(index, size) for size in array.shape), flat, address
    )
    return Tensor(node if dtype is None else primitive.cast(node, dtype))


def from_array(array: Any, dtype: DType | None = None) -> Tensor:
    """A tensor of an array, whose memory it shares if it is laid out row by row."""
    found = as_dtype(array.dtype)
    rows = np.ascontiguousarray(array).reshape(array.shape)
    node = new_buffer(found, array.shape, rows if rows.flags.aligned else rows.copy())
    return Tensor(node if dtype is None else primitive.cast(node, dtype))


def to_array(value: Any, dtype: DType | None = None) -> Any:
    """A NumPy array, of a type that tensors have, of whatever NumPy makes an array of."""
    if isinstance(value, (list, tuple)) and _holds_tensor(value):
        value = _computed(value)
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
    if array.dtype.kind in "SUcmMT" or (array.dtype.kind == "V" and not _is_known(array)):
        raise type_error(
            f"an array of NumPy's {array.dtype} as a tensor",
            "tensors have " + ", ".join(NAMES),
            "convert the array first, with .astype()",
        )
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _holds_tensor(values: Iterable[Any]) -> bool:
    return any(
        isinstance(v, Tensor) or (isinstance(v, (list, tuple)) and _holds_tensor(v)) for v in values
    )


def _computed(value: Any) -> Any:
    """Nested lists with the values of the tensors in them."""
    if isinstance(value, (list, tuple)):
        return [_computed(v) for v in value]
    return value.numpy() if isinstance(value, Tensor) else value


def _no_number(value: Any) -> Exception:
    """The error for what NumPy finds no type for."""
    leaf = _first_odd(value)
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


def _first_odd(value: Any) -> Any:
    """The first value in nested lists, or in an array of objects, that is no number."""
    if isinstance(value, (list, tuple)):
        inner = [_first_odd(one) for one in value]
        return next((one for one in inner if not _is_number(one)), 0)
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return _first_odd(value.reshape(-1).tolist())
    return value


def _is_number(value: Any) -> bool:
    small = isinstance(value, int) and -(2**63) <= value < 2**64
    return small or isinstance(value, (float, np.number, np.ndarray))


def _kinds(values: Any) -> set[type | DType]:
    """What nested lists hold: Python's classes of numbers, and the types of arrays and tensors."""
    found: set[type | DType] = set()
    for kind in set(map(type, values)):
        number = next((one for one in (bool, int, float) if issubclass(kind, one)), None)
        if issubclass(kind, np.generic):
            found.add(as_dtype(np.dtype(kind)))
        elif number is not None:
            found.add(number)
        else:
            for value in values:
                if type(value) is kind:
                    is_list = isinstance(value, (list, tuple))
                    found |= _kinds(value) if is_list else {as_dtype(np.asarray(value).dtype)}
    return found


def _list_array(array: Any, dtype: DType | None, value: Any) -> Any:
    """Python's numbers have the default types, whatever NumPy says of them; arrays keep theirs."""
    kinds = _kinds(value)
    typed = [kind for kind in kinds if isinstance(kind, DType)]
    whole = not any(kind is float if isinstance(kind, type) else kind.is_float for kind in kinds)
    if kinds and whole and array.dtype.kind == "f" and not (dtype and dtype.is_float):
        raise type_error(
            "integers of which some are negative and some have 64 bits",
            "no integer type holds both",
            "use floats",
        )
    if dtype is None and typed:
        numbers = [kind() for kind in kinds if isinstance(kind, type)]
        typed.sort(key=lambda one: (not one.is_float, one.name))
        return array.astype(result_type(*typed, *numbers).numpy)
    if dtype is not None:
        if dtype.is_integer and array.dtype.kind in "iu" and array.size:
            constant(dtype, int(array.min()))  # which refuses what does not fit
            constant(dtype, int(array.max()))
        return semantics.cast(as_dtype(array.dtype), dtype, array)
    if array.dtype == np.float64:
        return array.astype(DEFAULT_FLOAT.numpy)
    return array.astype(DEFAULT_INT.numpy) if array.dtype == np.dtype("long") else array


def _is_known(array: Any) -> bool:
    return any(t.numpy == array.dtype for t in NAMES.values())


# -- operands --------------------------------------------------------------------------------------


def promote_operands(*values: Any, dtype: DType | None = None) -> tuple[UOp, ...]:
    """Operands as nodes of one type, that of the result, and of one shape.

    What has the shape () stays as it is: it goes with every other shape.
    """
    found = result_type(*map(_typed, values)) if dtype is None else dtype
    return broadcast(*(node_of(value, found) for value in values))


def broadcast(*nodes: UOp) -> tuple[UOp, ...]:
    """Nodes in one shape; what has the shape () stays as it is."""
    sizes = [sizes_of(node) for node in nodes]
    whole = broadcast_shapes(*sizes)
    return tuple(
        primitive.broadcast(node, whole) if own else node
        for node, own in zip(nodes, sizes, strict=True)
    )


def node_of(value: Any, dtype: DType | None = None) -> UOp:
    """The node of an operand, converted to a type."""
    if isinstance(value, Tensor):
        return value.node if dtype is None else primitive.cast(value.node, dtype)
    if dtype is not None and is_weak(value):
        return constant(dtype, value)
    return as_tensor(value, dtype).node


def _typed(value: Any) -> Any:
    """An operand as `result_type` takes it."""
    if isinstance(value, (Tensor, bool, int, float, UOp, np.generic)):
        return value
    return to_array(value)


def weak_or_tensor(value: Any) -> Any:
    """An operand as `result_type` takes it: Python's numbers stay weak."""
    return value if is_weak(value) else as_tensor(value)


def is_weak(value: Any) -> bool:
    """Whether an operand is one of Python's numbers or a symbolic size, whose type gives way."""
    return isinstance(value, (bool, int, float, UOp)) and not isinstance(value, np.generic)


def is_operand(value: Any) -> bool:
    """Whether something can be an operand beside a tensor."""
    kinds = (Tensor, bool, int, float, UOp, np.generic, np.ndarray, list, tuple)
    return isinstance(value, kinds) or hasattr(value, "__array__")
