"""Conversion: Python's numbers, lists and NumPy's arrays as tensors, and operands brought together.

`as_tensor` shares nothing: an array is copied, so that a tensor's value never changes behind its
back. `together` is what functions of several operands begin with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from porism.base.dtypes import DType, index
from porism.engine import memory
from porism.engine.storage import hold, new_buffer
from porism.ir import semantics
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.promotion import (
    DEFAULT_FLOAT,
    DEFAULT_INT,
    NAMES,
    as_dtype,
    constant,
    refuse,
    result_type,
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
    flat, address = memory.new_array(array.size, array.dtype)
    flat.reshape(array.shape)[...] = array
    node = hold(found, tuple(UOp.const(index, size) for size in array.shape), flat, address)
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
        raise refuse(
            f"a {type(value).__name__} that is no array",
            str(error),
            "give numbers, or lists of equal lengths",
        ) from None
    if isinstance(value, (list, tuple)) and array.dtype.kind in "biuf":
        array = _list_array(array, dtype)
    if array.dtype.kind in "OSUcmMT" or (array.dtype.kind == "V" and not _is_known(array)):
        raise refuse(
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


def _list_array(array: Any, dtype: DType | None) -> Any:
    """Python's numbers have the default types, whatever NumPy thinks of them."""
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


def together(*values: Any, dtype: DType | None = None) -> tuple[UOp, ...]:
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
