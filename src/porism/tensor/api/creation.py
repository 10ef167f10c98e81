"""Creation: tensors from data, and tensors computed from their indices, which take no memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from porism.base import device_use, dtypes
from porism.base.device_use import HOST
from porism.base.dtypes import DType
from porism.gradient.stated_pullbacks import stopped
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.complex.complex_dispatch import accepts_complex, complex_operand
from porism.tensor.conversion import as_tensor, from_copy, node_of, to_array, weak_or_tensor
from porism.tensor.exchange import from_dlpack
from porism.tensor.memory.shared_memory import refused, shared
from porism.tensor.primitive import Dim
from porism.tensor.promotion import (
    DEFAULT_FLOAT,
    DEFAULT_INT,
    INTEGERS,
    as_dtype,
    constant,
    require_dtype,
    result_type,
)
from porism.tensor.shapes import (
    as_int,
    as_number,
    as_sizes,
    joined_sizes,
    normalize_axis,
    shape_error,
    sizes_of,
    to_static,
    to_text,
)
from porism.tensor.standard.devices import check_device, new_device, on_device
from porism.tensor.tensor import Tensor, method


@accepts_complex
def asarray(obj: Any, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor of numbers, nested lists, a NumPy array, a buffer, or an object with DLPack.

    The data is copied by default, so that later changes to it do not affect the tensor. With
    `copy=False` the tensor shares the memory of an array, as `from_dlpack` does, or raises an error
    if it cannot. Python floats become float32 and Python ints int64, unless `dtype` is given.

    >>> porism.asarray([[1, 2], [3, 4]], dtype="float32")
    Tensor([[1., 2.],
            [3., 4.]], shape=(2, 2), dtype=float32)
    """
    check_device(device)
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(obj, Tensor) or not _is_data(obj):
        tensor = on_device(as_tensor(obj, wanted), device)
        if not isinstance(obj, Tensor):
            return tensor
        if tensor.node is obj.node:
            return Tensor(obj.node) if copy else obj
        if copy is False:
            raise refused(obj, "its type or its device would change")
        return tensor
    if not isinstance(obj, (np.ndarray, np.generic)) and hasattr(obj, "__dlpack__"):
        tensor = from_dlpack(obj, copy=copy is not False)
        if copy is False and wanted not in (None, tensor.node.dtype):
            raise refused(obj, "its type would change")
        return on_device(as_tensor(tensor, wanted), device)
    array = to_array(obj, wanted)
    if copy is False and new_device(device) != HOST:
        raise refused(obj, "the memory of an array is the processor's")
    if copy is False:
        return _share_memory(obj, array, wanted)
    return from_copy(array, wanted, new_device(device))


@accepts_complex
def tensor(
    data: Any, dtype: Any = None, *, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor with a copy of the data: PyTorch's name for `asarray`.

    With `requires_grad` it keeps the gradients that `backward` computes, in `.grad`; those of a
    tensor that it is a copy of are another matter.

    >>> porism.tensor([[1, 2], [3, 4]], dtype="float32").sum().item()
    10.0
    """
    if isinstance(data, int) and isinstance(dtype, int) and not isinstance(dtype, bool):
        raise shape_error(
            f"a tensor of the number {data} with the type {dtype}",
            "the arguments are the values and their type; sizes alone give no values",
            f"for a tensor of a shape write porism.zeros({data}, {dtype})",
        )
    made = asarray(data, dtype=dtype, device=device, copy=True)
    if isinstance(data, Tensor):
        made = Tensor(stopped(made.value_node))
    if requires_grad:
        made.requires_grad = True
    return made


def _is_data(obj: Any) -> bool:
    """Return whether an object holds its values in memory, unlike Python numbers and sizes."""
    return isinstance(obj, np.generic) or not isinstance(obj, (bool, int, float, complex, UOp))


def _share_memory(obj: Any, array: Any, wanted: DType | None) -> Tensor:
    """Return a tensor on the memory of an array, or raise the reason why that is impossible."""
    reasons = {
        "its bytes are in another order": not getattr(obj, "dtype", array.dtype).isnative,
        "it is no array and no buffer": not np.may_share_memory(array, _memory_of(obj)),
        "its type would change": wanted is not None and as_dtype(array.dtype) is not wanted,
    }
    for why, holds in reasons.items():
        if holds:
            raise refused(obj, why)
    return shared(obj, array)


def _memory_of(obj: Any) -> Any:
    """Return the memory of an object as an array; an empty array if it has none."""
    if isinstance(obj, np.ndarray):
        return obj
    try:
        return np.asarray(memoryview(obj))
    except (TypeError, ValueError):
        return np.empty(0)


# -- constant tensors ------------------------------------------------------------------------------


@accepts_complex
def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of a shape whose elements all are `fill_value`, a number.

    >>> porism.full((2, 2), 7).tolist()
    [[7, 7], [7, 7]]
    """
    check_device(device)
    sizes = as_sizes(shape)
    if not _is_data(fill_value) or isinstance(fill_value, np.generic):
        dims: Any = ()
    else:
        dims = fill_value.shape if isinstance(fill_value, Tensor) else np.shape(fill_value)
    if dims:
        raise shape_error(
            f"full with a value of shape {to_text(dims)}",
            "one number fills all elements",
            "use broadcast_to(value, shape), which repeats the value along new axes",
        )
    element_type = result_type(weak_or_tensor(fill_value)) if dtype is None else as_dtype(dtype)
    return on_device(Tensor(primitive.broadcast(node_of(fill_value, element_type), sizes)), device)


def zeros(shape: Any = (), *sizes: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of zeros, float32 by default; the shape is a tuple or separate ints.

    >>> porism.zeros(2, 3).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    dims, element_type = _shape_and_type(shape, sizes, dtype)
    return full(dims, 0, dtype=element_type, device=device)


def _shape_and_type(shape: Any, sizes: tuple[Any, ...], dtype: Any) -> tuple[Any, Any]:
    """Return a shape and a type, which may be given after the shape without its keyword."""
    if dtype is None and len(sizes) == 1 and not isinstance(sizes[0], (int, np.integer, UOp)):
        return shape, sizes[0]
    return joined_sizes(shape, sizes), DEFAULT_FLOAT if dtype is None else dtype


def ones(shape: Any = (), *sizes: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of ones, float32 by default; the shape is a tuple or separate ints.

    >>> porism.ones(2, 3, dtype="int64").tolist()
    [[1, 1, 1], [1, 1, 1]]
    """
    dims, element_type = _shape_and_type(shape, sizes, dtype)
    return full(dims, 1, dtype=element_type, device=device)


def empty(shape: Any = (), *sizes: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of unspecified values, which are zeros here; float32 by default.

    >>> porism.empty(2, 3)
    Tensor(lazy, shape=(2, 3), dtype=float32)
    """
    return zeros(shape, *sizes, dtype=dtype, device=device)


@method
def full_like(x: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of the shape (and by default the type) of x with all elements `fill_value`.

    >>> porism.full_like([1, 2], 7).tolist()
    [7, 7]
    """
    like = as_tensor(x)
    wanted = like.dtype if dtype is None else dtype
    if device is None and device_use.others_are_used:
        device = like.device
    return full(like.shape, fill_value, dtype=wanted, device=device)


@method
def zeros_like(x: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of zeros of the shape of x; the type is x's by default.

    >>> porism.zeros_like([1, 2]).tolist()
    [0, 0]
    """
    return full_like(x, 0, dtype=dtype, device=device)


@method
def ones_like(x: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of ones of the shape of x; the type is x's by default.

    >>> porism.ones_like([1, 2]).tolist()
    [1, 1]
    """
    return full_like(x, 1, dtype=dtype, device=device)


@method
def empty_like(x: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of unspecified values of the shape of x; the type is x's by default.

    >>> porism.empty_like([1, 2])
    Tensor(lazy, shape=(2,), dtype=int64)
    """
    return full_like(x, 0, dtype=dtype, device=device)


# -- sequences -------------------------------------------------------------------------------------


def arange(
    start: Any, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Return start, start + step, … up to but without stop; `arange(stop)` starts at 0.

    >>> porism.arange(3).tolist(), porism.arange(2, 8, 2).tolist()
    ([0, 1, 2], [2, 4, 6])
    """
    check_device(device)
    start, stop, step = to_static(start), to_static(stop), to_static(step)
    if stop is None:
        start, stop = 0, start
    for name, value in (("start", start), ("stop", stop), ("step", step)):
        if not isinstance(value, UOp):
            as_number(value, f"{name} of arange")
    if step == 0:
        raise shape_error("arange with a step of 0", "it would not end", "give another step")
    element_type = result_type(start, stop, step) if dtype is None else as_dtype(dtype)
    if isinstance(stop, UOp) or isinstance(start, UOp):
        count: Dim = _symbolic_count(start, stop, step)
    else:
        exact = all(isinstance(v, (int, np.integer)) for v in (start, stop, step))
        steps = -((start - stop) // step) if exact else math.ceil((stop - start) / step)
        count = max(int(steps), 0)
    return on_device(Tensor(_arithmetic_sequence(count, start, step, element_type)), device)


def _symbolic_count(start: Any, stop: Any, step: Any) -> Dim:
    """Return the number of elements of a range with symbolic ends, which must have the step 1."""
    if step != 1:
        raise shape_error(
            "arange with a symbolic end and a step",
            "the number of its elements is not known",
            "use a step of 1, and multiply",
        )
    return stop - start if start != 0 else stop  # type: ignore[no-any-return]


def _arithmetic_sequence(count: Dim, start: Any, step: Any, dtype: DType) -> UOp:
    """Return start + k * step for k = 0 … count - 1; narrow floats are computed in f32."""
    position = primitive.iota((count,), 0)
    if not dtype.is_float:
        if all(isinstance(v, (int, np.integer, UOp)) for v in (start, step)):
            return primitive.cast(_linear_sequence(position, start, step), dtype)
        return primitive.cast(_arithmetic_sequence(count, start, step, dtypes.f64), dtype)
    compute_dtype = dtypes.f64 if dtype is dtypes.f64 else dtypes.f32
    if all(isinstance(v, (int, np.integer, UOp)) for v in (start, step)):
        return primitive.cast(_linear_sequence(position, start, step), dtype)
    number = primitive.cast(position, compute_dtype)
    return primitive.cast(
        ops.MULACC(
            number, constant(compute_dtype, float(step)), constant(compute_dtype, float(start))
        ),
        dtype,
    )


def _linear_sequence(position: UOp, start: Any, step: Any) -> UOp:
    """Return start + index * step in integer arithmetic."""
    scaled = position if step == 1 else position * int(step)
    if isinstance(start, UOp):
        return scaled + start
    return scaled if start == 0 else scaled + int(start)


@accepts_complex
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """Return `num` evenly spaced numbers from start to stop; `endpoint` includes stop.

    They equal NumPy's bit for bit: computed in f64, then rounded to the type (float32 by default);
    integer types round down.

    >>> porism.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    check_device(device)
    count = as_int(num, "num")
    if count < 0:
        raise shape_error(
            f"linspace of {count} numbers", "a size is not negative", "give 0 or more"
        )
    element_type = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    if count == 0:
        return zeros(0, dtype=element_type, device=device)
    gaps = max(count - 1 if endpoint else count, 1)
    position = primitive.iota((count,), 0)
    number = primitive.cast(position, dtypes.f64)
    if isinstance(start, complex) or isinstance(stop, complex):
        raise complex_operand()
    first, last = float(start), float(stop)
    step = (last - first) / gaps
    # The step may underflow to 0 where the whole distance does not.
    scaled = number * step if step else number / float(gaps) * (last - first)
    node = scaled + first
    if endpoint and count > 1:
        node = position.eq(count - 1).where(node.lift(last), node)
    rounded = node if element_type.is_float else ops.FLOOR(node)
    return on_device(Tensor(primitive.cast(rounded, element_type)), device)


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    *,
    base: float = 10.0,
    dtype: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """Return `num` powers of a base, whose exponents are evenly spaced from start to stop.

    >>> porism.logspace(0, 3, 4).tolist()
    [1.0, 10.0, 100.0, 1000.0]
    """
    exponents = linspace(start, stop, num, dtype=dtypes.f64, endpoint=endpoint).node
    powers = ops.POW(exponents.lift(float(base)), exponents)
    element_type = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    return Tensor(primitive.cast(powers, element_type))


def geomspace(
    start: float, stop: float, num: int = 50, *, dtype: Any = None, endpoint: bool = True
) -> Tensor:
    """Return `num` numbers from start to stop, each a multiple of the one before by one factor.

    >>> porism.geomspace(1, 8, 4).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    first, last = as_number(start, "start"), as_number(stop, "stop")
    if first * last <= 0:
        raise shape_error(
            f"geomspace from {first} to {last}",
            "both ends have the same sign, and none is 0",
            "use linspace",
        )
    element_type = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    ratios = logspace(0.0, math.log2(last / first), num, base=2.0, dtype="float64",
                      endpoint=endpoint).node  # fmt: skip
    node = ratios * float(first)
    position = primitive.iota(sizes_of(node), 0)
    if endpoint and as_int(num, "num") > 1:
        node = position.eq(as_int(num, "num") - 1).where(node.lift(float(last)), node)
    return Tensor(primitive.cast(node, element_type))


@accepts_complex
def eye(
    n_rows: int,
    n_cols: int | None = None,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return a matrix with ones on the k-th diagonal above the main one and zeros elsewhere.

    `n_cols` is `n_rows` by default, the type float32; a negative k is below the main diagonal.

    >>> porism.eye(2, 3, k=1, dtype="int64").tolist()
    [[0, 1, 0], [0, 0, 1]]
    """
    check_device(device)
    sizes = as_sizes((n_rows, n_rows if n_cols is None else n_cols))
    element_type = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    row, column = primitive.iota(sizes, 0), primitive.iota(sizes, 1)
    matrix = Tensor(primitive.cast((column - row).eq(as_int(k, "k")), element_type))
    return on_device(matrix, device)


@method
def tril(x: Any, k: int = 0) -> Tensor:
    """Return the lower triangle of the last two axes: zeros above the k-th diagonal.

    >>> porism.tril([[1, 2], [3, 4]]).tolist()
    [[1, 0], [3, 4]]
    """
    return _triangle(x, k, "tril", lower=True)


@method
def triu(x: Any, k: int = 0) -> Tensor:
    """Return the upper triangle of the last two axes: zeros below the k-th diagonal.

    >>> porism.triu([[1, 2], [3, 4]]).tolist()
    [[1, 2], [0, 4]]
    """
    return _triangle(x, k, "triu", lower=False)


def _triangle(x: Any, k: int, what: str, *, lower: bool) -> Tensor:
    """Return the lower or upper triangle of the last two axes of x."""
    node = as_tensor(x).node
    sizes = sizes_of(node)
    if len(sizes) < 2:
        raise shape_error(
            f"{what} of a tensor of shape {to_text(sizes)}",
            "a matrix has two axes",
            "add an axis with expand_dims",
        )
    row = primitive.iota(sizes, len(sizes) - 2)
    column = primitive.iota(sizes, len(sizes) - 1)
    diagonal = column - row
    inside = diagonal <= as_int(k, "k") if lower else diagonal >= as_int(k, "k")
    return Tensor(inside.where(node, node.lift(0)))


@method
def one_hot(x: Any, num_classes: int, axis: int = -1, dtype: Any = None) -> Tensor:
    """Return a new axis of `num_classes` elements with a 1 at each label's index and 0 elsewhere.

    A label outside of 0 … num_classes - 1 gives zeros only. The new axis is inserted at `axis` of
    the result, and the type is int64 by default.

    >>> porism.one_hot([0, 2], 3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    labels = as_tensor(x)
    require_dtype(labels.node.dtype, INTEGERS, "one_hot", "convert it first, with astype")
    class_axis = normalize_axis(axis, labels.ndim + 1)
    sizes = list(labels.shape)
    classes = as_sizes(num_classes)[0]
    result_sizes = [*sizes[:class_axis], classes, *sizes[class_axis:]]
    column = primitive.reshape(labels.node, [*sizes[:class_axis], 1, *sizes[class_axis:]])
    chosen = primitive.clamp_index(primitive.expand(column, result_sizes), classes)
    matches = chosen.eq(primitive.iota(result_sizes, class_axis))
    return Tensor(primitive.cast(matches, DEFAULT_INT if dtype is None else as_dtype(dtype)))
