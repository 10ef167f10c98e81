"""Creation: tensors of data, and tensors that are counted out and take no memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.conversion import as_tensor, from_copy, node_of, to_array, weak_or_tensor
from porism.tensor.exchange import from_dlpack, shared
from porism.tensor.exchange import not_shared as _not_shared
from porism.tensor.primitive import Dim
from porism.tensor.promotion import (
    DEFAULT_FLOAT,
    DEFAULT_INT,
    INTEGERS,
    as_dtype,
    constant,
    need,
    result_type,
)
from porism.tensor.shapes import (
    as_int,
    as_number,
    as_sizes,
    normal_axis,
    plain,
    sizes_of,
    to_text,
)
from porism.tensor.shapes import refuse as refuse_shape
from porism.tensor.tensor import Tensor, method


def asarray(obj: Any, *, dtype: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of numbers, nested lists, NumPy arrays, buffers, or what speaks DLPack.

    The data is copied, so that it can change without the tensor doing so. With `copy=False` the
    tensor shares the memory of an array that is laid out row by row; what cannot be shared is
    refused.

    >>> asarray([[1, 2], [3, 4]], dtype="float32")
    Tensor((2, 2), float32, realized)
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(obj, Tensor) or not _is_data(obj):
        found = as_tensor(obj, wanted)
        if copy is False and isinstance(obj, Tensor) and found.node is not obj.node:
            raise _not_shared(obj, "its type would change")
        return Tensor(found.node) if found is obj and copy else found
    if not isinstance(obj, (np.ndarray, np.generic)) and hasattr(obj, "__dlpack__"):
        found = from_dlpack(obj, copy=copy)
        if copy is False and wanted not in (None, found.dtype):
            raise _not_shared(obj, "its type would change")
        return as_tensor(found, wanted)
    array = to_array(obj, wanted)
    if copy is False:
        return _share_memory(obj, array, wanted)
    return from_copy(array, wanted)


def _is_data(obj: Any) -> bool:
    return isinstance(obj, np.generic) or not isinstance(obj, (bool, int, float, UOp))


def _share_memory(obj: Any, array: Any, wanted: DType | None) -> Tensor:
    reasons = {
        "its bytes are in another order": not getattr(obj, "dtype", array.dtype).isnative,
        "it is no array and no buffer": not np.may_share_memory(array, _memory_of(obj)),
        "its type would change": wanted is not None and as_dtype(array.dtype) is not wanted,
    }
    for why, holds in reasons.items():
        if holds:
            raise _not_shared(obj, why)
    return shared(obj, array)


def _memory_of(obj: Any) -> Any:
    if isinstance(obj, np.ndarray):
        return obj
    try:
        return np.asarray(memoryview(obj))
    except (TypeError, ValueError):
        return np.empty(0)


# -- one number everywhere -------------------------------------------------------------------------


def full(shape: Any, fill_value: Any, *, dtype: Any = None) -> Tensor:
    """One number in every element."""
    sizes = as_sizes(shape)
    if not _is_data(fill_value) or isinstance(fill_value, np.generic):
        dims: Any = ()
    else:
        dims = fill_value.shape if isinstance(fill_value, Tensor) else np.shape(fill_value)
    if dims:
        raise refuse_shape(
            f"full with a value of shape {to_text(dims)}",
            "one number fills all elements",
            "use broadcast_to(value, shape), which repeats the value along new axes",
        )
    found = result_type(weak_or_tensor(fill_value)) if dtype is None else as_dtype(dtype)
    return Tensor(primitive.broadcast(node_of(fill_value, found), sizes))


def zeros(*shape: Any, dtype: Any = None) -> Tensor:
    """0 in every element."""
    return full(shape, 0, dtype=DEFAULT_FLOAT if dtype is None else dtype)


def ones(*shape: Any, dtype: Any = None) -> Tensor:
    """1 in every element."""
    return full(shape, 1, dtype=DEFAULT_FLOAT if dtype is None else dtype)


def empty(*shape: Any, dtype: Any = None) -> Tensor:
    """Elements of any value: here 0, which costs nothing."""
    return zeros(*shape, dtype=dtype)


@method
def full_like(x: Any, fill_value: Any, *, dtype: Any = None) -> Tensor:
    """One number in a tensor of the shape and type of x."""
    like = as_tensor(x)
    return full(like.shape, fill_value, dtype=like.dtype if dtype is None else dtype)


@method
def zeros_like(x: Any, *, dtype: Any = None) -> Tensor:
    """0 in a tensor of the shape and type of x."""
    return full_like(x, 0, dtype=dtype)


@method
def ones_like(x: Any, *, dtype: Any = None) -> Tensor:
    """1 in a tensor of the shape and type of x."""
    return full_like(x, 1, dtype=dtype)


@method
def empty_like(x: Any, *, dtype: Any = None) -> Tensor:
    """Any values in a tensor of the shape and type of x."""
    return full_like(x, 0, dtype=dtype)


# -- counted ---------------------------------------------------------------------------------------


def arange(start: Any, stop: Any = None, step: Any = 1, *, dtype: Any = None) -> Tensor:
    """start, start + step, … below stop; of one argument, 0 … below it."""
    start, stop, step = plain(start), plain(stop), plain(step)
    if stop is None:
        start, stop = 0, start
    for name, value in (("start", start), ("stop", stop), ("step", step)):
        if not isinstance(value, UOp):
            as_number(value, f"{name} of arange")
    if step == 0:
        raise refuse_shape("arange with a step of 0", "it would not end", "give another step")
    found = result_type(start, stop, step) if dtype is None else as_dtype(dtype)
    if isinstance(stop, UOp) or isinstance(start, UOp):
        count: Dim = _symbolic_count(start, stop, step)
    else:
        exact = all(isinstance(v, (int, np.integer)) for v in (start, stop, step))
        steps = -((start - stop) // step) if exact else math.ceil((stop - start) / step)
        count = max(int(steps), 0)
    return Tensor(_arithmetic_sequence(count, start, step, found))


def _symbolic_count(start: Any, stop: Any, step: Any) -> Dim:
    if step != 1:
        raise refuse_shape(
            "arange with a symbolic end and a step",
            "the number of its elements is not known",
            "use a step of 1, and multiply",
        )
    return stop - start if start != 0 else stop  # type: ignore[no-any-return]


def _arithmetic_sequence(count: Dim, start: Any, step: Any, dtype: DType) -> UOp:
    """start + k*step for k from 0 on; floats in f64 if they are f64, else at least in f32."""
    place = primitive.iota((count,), 0)
    if not dtype.is_float:
        if all(isinstance(v, (int, np.integer, UOp)) for v in (start, step)):
            return primitive.cast(_linear_sequence(place, start, step), dtype)
        return primitive.cast(_arithmetic_sequence(count, start, step, dtypes.f64), dtype)
    wide = dtypes.f64 if dtype is dtypes.f64 else dtypes.f32
    if all(isinstance(v, (int, np.integer, UOp)) for v in (start, step)):
        return primitive.cast(_linear_sequence(place, start, step), dtype)
    number = primitive.cast(place, wide)
    return primitive.cast(
        ops.MULACC(number, constant(wide, float(step)), constant(wide, float(start))), dtype
    )


def _linear_sequence(place: UOp, start: Any, step: Any) -> UOp:
    scaled = place if step == 1 else place * int(step)
    if isinstance(start, UOp):
        return scaled + start
    return scaled if start == 0 else scaled + int(start)


def linspace(
    start: Any, stop: Any, num: int = 50, *, dtype: Any = None, endpoint: bool = True
) -> Tensor:
    """Numbers at equal distances from start to stop, which is the last one.

    They are NumPy's to the last bit: computed in f64, then rounded; of integers, rounded down.
    """
    count = as_int(num, "num")
    if count < 0:
        raise refuse_shape(
            f"linspace of {count} numbers", "a size is not negative", "give 0 or more"
        )
    found = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    if count == 0:
        return zeros(0, dtype=found)
    gaps = max(count - 1 if endpoint else count, 1)
    place = primitive.iota((count,), 0)
    number = primitive.cast(place, dtypes.f64)
    first, last = float(start), float(stop)
    step = (last - first) / gaps
    # A step may be too small for a float where the whole distance is not.
    scaled = number * step if step else number / float(gaps) * (last - first)
    node = scaled + first
    if endpoint and count > 1:
        node = place.eq(count - 1).where(node.lift(last), node)
    return Tensor(primitive.cast(node if found.is_float else ops.FLOOR(node), found))


def eye(n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: Any = None) -> Tensor:
    """1 on a diagonal, k places above the main one, and 0 elsewhere."""
    sizes = as_sizes((n_rows, n_rows if n_cols is None else n_cols))
    found = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    row, column = primitive.iota(sizes, 0), primitive.iota(sizes, 1)
    return Tensor(primitive.cast((column - row).eq(as_int(k, "k")), found))


@method
def tril(x: Any, k: int = 0) -> Tensor:
    """The lower triangle of matrices, up to k places above the main diagonal; 0 above it."""
    return _triangle(x, k, "tril", lower=True)


@method
def triu(x: Any, k: int = 0) -> Tensor:
    """The upper triangle of matrices, from k places above the main diagonal on; 0 below it."""
    return _triangle(x, k, "triu", lower=False)


def _triangle(x: Any, k: int, what: str, *, lower: bool) -> Tensor:
    node = as_tensor(x).node
    sizes = sizes_of(node)
    if len(sizes) < 2:
        raise refuse_shape(
            f"{what} of a tensor of shape {to_text(sizes)}",
            "a matrix has two axes",
            "add an axis with expand_dims",
        )
    row = primitive.iota(sizes, len(sizes) - 2)
    column = primitive.iota(sizes, len(sizes) - 1)
    above = column - row
    inside = above <= as_int(k, "k") if lower else above >= as_int(k, "k")
    return Tensor(inside.where(node, node.lift(0)))


@method
def one_hot(x: Any, num_classes: int, axis: int = -1, dtype: Any = None) -> Tensor:
    """For each integer an axis that is 1 at its place and 0 elsewhere; 0 everywhere if outside."""
    labels = as_tensor(x)
    need(labels.dtype, INTEGERS, "one_hot", "convert it first, with astype")
    place = normal_axis(axis, labels.ndim + 1)
    sizes = list(labels.shape)
    classes = as_sizes(num_classes)[0]
    result_sizes = [*sizes[:place], classes, *sizes[place:]]
    column = primitive.reshape(labels.node, [*sizes[:place], 1, *sizes[place:]])
    chosen = primitive.place(primitive.expand(column, result_sizes), classes)
    matches = chosen.eq(primitive.iota(result_sizes, place))
    return Tensor(primitive.cast(matches, DEFAULT_INT if dtype is None else as_dtype(dtype)))
