"""Movement operators of ATen: shapes, slices, joining, padding, creation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten.aten_table import UncoveredFormError, aten
from porism.ir.node import UOp
from porism.tensor.tensor import Tensor


@aten(
    "alias.default",
    "alias_copy.default",
    "detach.default",
    "detach_copy.default",
    "lift_fresh_copy.default",
    "clone.default",
)
def same(x: Any, memory_format: Any = None) -> Any:
    """Return x."""
    return x


@aten("_to_copy.default", "to.dtype", "prims.convert_element_type.default")
def to_copy(x: Any, *_: Any, dtype: Any = None, **__: Any) -> Any:
    """Return x; the type of the result is that which torch gives it.

    Of complex numbers that are converted to real ones, the real part is left.
    """
    real = dtype is not None and not dtype.startswith("complex") and dtype != "bool"
    return xp.real(x) if real and x.dtype.kind == "c" else x


@aten("copy.default")
def copy(x: Any, source: Any, non_blocking: bool = False) -> Any:
    """Return a value in the shape of x."""
    return xp.broadcast_to(source, x.shape)


@aten(
    "view.default",
    "view_copy.default",
    "reshape.default",
    "_unsafe_view.default",
    "_reshape_alias.default",
)
def view(x: Any, size: Sequence[int], stride: Any = None) -> Any:
    """Return the elements in another shape."""
    return xp.reshape(x, tuple(size))


@aten("permute.default", "permute_copy.default")
def permute(x: Any, dims: Sequence[int]) -> Any:
    """Return x with its axes in another order."""
    return xp.permute_dims(x, tuple(dims))


@aten("transpose.int", "transpose_copy.int")
def transpose(x: Any, dim0: int, dim1: int) -> Any:
    """Return x with two axes swapped."""
    return xp.swapaxes(x, dim0, dim1) if x.ndim else x


@aten("t.default", "t_copy.default")
def t(x: Any) -> Any:
    """Return the transposed matrix."""
    return x.T


@aten("unsqueeze.default", "unsqueeze_copy.default")
def unsqueeze(x: Any, dim: int) -> Any:
    """Return x with an axis of size 1 more."""
    return xp.expand_dims(x, axis=dim)


@aten("squeeze.default", "squeeze_copy.default")
def squeeze_all(x: Any) -> Any:
    """Return x without its axes of size 1."""
    return xp.reshape(x, tuple(n for n in x.shape if n != 1))


@aten("squeeze.dim", "squeeze.dims")
def squeeze(x: Any, dim: Any) -> Any:
    """Return x without some of its axes, where these have size 1."""
    dims = {d % max(x.ndim, 1) for d in ([dim] if isinstance(dim, int) else dim)}
    return xp.reshape(x, tuple(n for k, n in enumerate(x.shape) if n != 1 or k not in dims))


@aten("expand.default", "expand_copy.default")
def expand(x: Any, size: Sequence[int], implicit: bool = False) -> Any:
    """Return x with axes of size 1 repeated; -1 keeps the size of an axis."""
    missing = len(size) - x.ndim
    wanted = [x.shape[k - missing] if n == -1 else n for k, n in enumerate(size)]
    return xp.broadcast_to(x, tuple(wanted))


@aten("repeat.default")
def repeat(x: Any, repeats: Sequence[int]) -> Any:
    """Return x several times along its axes."""
    x = xp.reshape(x, (*[1] * (len(repeats) - x.ndim), *x.shape))
    return xp.tile(x, tuple(repeats))


@aten("flip.default")
def flip(x: Any, dims: Sequence[int]) -> Any:
    """Return x with the elements along some axes in reverse order."""
    return xp.flip(x, axis=tuple(d % max(x.ndim, 1) for d in dims)) if dims else x


@aten("roll.default")
def roll(x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    """Return x shifted along axes, what leaves at one end coming in at the other."""
    if not dims:
        return xp.reshape(xp.roll(xp.reshape(x, (-1,)), shifts[0]), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        x = xp.roll(x, shift, axis=dim)
    return x


@aten("slice.Tensor", "slice_copy.Tensor")
def slice_(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """Return a slice along an axis."""
    return x[*[slice(None)] * (dim % x.ndim), slice(start, end, step)]


@aten("select.int", "select_copy.int")
def select(x: Any, dim: int, index: int) -> Any:
    """Return one slice along an axis, which is left out."""
    return x[*[slice(None)] * (dim % x.ndim), index]


@aten("slice_scatter.default")
def slice_scatter(
    x: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    """Return x with a slice along an axis replaced."""
    axis = dim % x.ndim
    size, count = x.shape[axis], src.shape[axis]
    if isinstance(size, int) and isinstance(count, int):
        positions = range(size)[start:end:step]
        return _replaced(x, src, axis, positions.start, positions.step, len(positions))
    begin = 0 if start is None else start
    if (begin if isinstance(begin, int) else begin.vmax) < 0:
        begin = size + begin
    return _replaced(x, src, axis, begin, step, count)


@aten("select_scatter.default")
def select_scatter(x: Any, src: Any, dim: int, index: int) -> Any:
    """Return x with one slice along an axis replaced."""
    axis = dim % x.ndim
    return _replaced(x, xp.expand_dims(src, axis=axis), axis, index % x.shape[axis], 1, 1)


def _replaced(x: Any, src: Any, axis: int, start: Any, step: int, count: Any) -> Any:
    """Return x with `count` elements along an axis replaced: start, start + step, …"""
    if isinstance(count, int) and not count:
        return x
    position = xp.arange(x.shape[axis]) - start
    inside = (position >= 0) & (position < count * step) & (position % step == 0)
    rank = position // step
    index = xp.where(inside, rank, 0)
    shape = tuple(-1 if k == axis else 1 for k in range(x.ndim))
    new = xp.take(src.astype(x.dtype), index, axis=axis)
    return xp.where(xp.reshape(inside, shape), new, x)


@aten("cat.default")
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Return tensors joined along an axis; empty ones of one axis are left out."""
    full = [x for x in tensors if not (x.ndim == 1 and x.shape[0] == 0)] or tensors[:1]
    return xp.concat(list(full), axis=dim)


@aten("stack.default")
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Return tensors joined along a new axis."""
    return xp.stack(list(tensors), axis=dim)


@aten("split_with_sizes.default", "split_with_sizes_copy.default")
def split_with_sizes(x: Any, split_sizes: Sequence[int], dim: int = 0) -> list[Any]:
    """Return x in parts of given sizes along an axis."""
    parts, start = [], 0
    for size in split_sizes:
        parts.append(slice_(x, dim, start, start + size))
        start += size
    return parts


@aten("split.Tensor")
def split(x: Any, split_size: int, dim: int = 0) -> list[Any]:
    """Return x in parts of one size along an axis; the last may be smaller."""
    size = x.shape[dim]
    starts = range(0, max(size, 1), split_size) if split_size else [0]
    return [slice_(x, dim, k, min(k + split_size, size)) for k in starts]


@aten("unbind.int", "unbind_copy.int")
def unbind(x: Any, dim: int = 0) -> list[Any]:
    """Return the slices along an axis."""
    return [select(x, dim, k) for k in range(x.shape[dim])]


@aten("diagonal.default", "diagonal_copy.default")
def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return a diagonal of two axes, as the last axis."""
    x = xp.moveaxis(x, (dim1, dim2), (-2, -1))
    return xp.diagonal(x, offset, -2, -1)


@aten("unfold.default", "unfold_copy.default")
def unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    """Return windows along an axis, their elements as the last axis."""
    if not x.ndim:
        return xp.reshape(x, (1,))[:size]
    axis = dimension % x.ndim
    count = (x.shape[axis] - size) // step + 1
    index = xp.arange(count)[:, None] * step + xp.arange(size)[None, :]
    taken = xp.take(x, xp.reshape(index, (-1,)), axis=axis)
    shape = (*x.shape[:axis], count, size, *x.shape[axis + 1 :])
    return xp.moveaxis(xp.reshape(taken, shape), axis + 1, -1)


@aten("constant_pad_nd.default")
def constant_pad_nd(x: Any, pad: Sequence[int], value: Any = 0) -> Any:
    """Return x padded by a number, or cropped; pairs are given from the last axis on."""
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2)
    pairs += [(pad[k], pad[k + 1]) for k in range(len(pad) - 2, -2, -2)]
    if x.dtype == xp.bool:
        value = bool(value)
    return xp.pad(x, pairs, mode="constant", value=value)


@aten("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def reflection_pad(x: Any, padding: Sequence[int]) -> Any:
    """Return x padded by its reflection."""
    return _pad(x, padding, "reflect")


@aten("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def replication_pad(x: Any, padding: Sequence[int]) -> Any:
    """Return x padded by its border."""
    return _pad(x, padding, "edge")


def _pad(x: Any, padding: Sequence[int], mode: str) -> Any:
    """Return x padded in a mode; pairs are given from the last axis on."""
    pairs = [(0, 0)] * (x.ndim - len(padding) // 2)
    pairs += [(padding[k], padding[k + 1]) for k in range(len(padding) - 2, -2, -2)]
    return xp.pad(x, pairs, mode=mode)


@aten("tril.default")
def tril(x: Any, diagonal: int = 0) -> Any:
    """Return the lower triangle."""
    return xp.tril(x, k=diagonal)


@aten("triu.default")
def triu(x: Any, diagonal: int = 0) -> Any:
    """Return the upper triangle."""
    return xp.triu(x, k=diagonal)


@aten("pixel_shuffle.default")
def pixel_shuffle(x: Any, upscale_factor: int) -> Any:
    """Return channels made space."""
    return xp.pixel_shuffle(x, upscale_factor)


# -- creation; the type of a result is that which torch gives it -----------------------------------


def _full(size: Sequence[int], value: Any) -> Any:
    """Return a tensor with one value in every element."""
    if isinstance(value, Tensor):
        return xp.broadcast_to(value, tuple(size))
    dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64"
    return xp.full(tuple(size), value, dtype=dtype)


@aten("full.default")
def full(size: Sequence[int], fill_value: Any, **_: Any) -> Any:
    """Return a tensor with one value in every element."""
    return _full(size, fill_value)


@aten("full_like.default", "fill.Scalar", "fill.Tensor")
def full_like(x: Any, fill_value: Any, **_: Any) -> Any:
    """Return one value in every element, in the shape of x."""
    return _full(x.shape, fill_value)


@aten("zeros.default", "empty.memory_format", "empty_permuted.default")
def zeros(size: Sequence[int], *__: Any, **_: Any) -> Any:
    """Return zeros."""
    return _full(size, 0)


@aten("ones.default")
def ones(size: Sequence[int], **_: Any) -> Any:
    """Return ones."""
    return _full(size, 1)


@aten("zeros_like.default", "empty_like.default")
def zeros_like(x: Any, **_: Any) -> Any:
    """Return zeros in the shape of x."""
    return _full(x.shape, 0)


@aten("ones_like.default")
def ones_like(x: Any, **_: Any) -> Any:
    """Return ones in the shape of x."""
    return _full(x.shape, 1)


@aten("new_zeros.default", "new_empty.default")
def new_zeros(x: Any, size: Sequence[int], **_: Any) -> Any:
    """Return zeros."""
    return _full(size, 0)


@aten("new_ones.default")
def new_ones(x: Any, size: Sequence[int], **_: Any) -> Any:
    """Return ones."""
    return _full(size, 1)


@aten("new_full.default")
def new_full(x: Any, size: Sequence[int], fill_value: Any, **_: Any) -> Any:
    """Return a tensor with one value in every element."""
    return _full(size, fill_value)


@aten("scalar_tensor.default")
def scalar_tensor(s: Any, **_: Any) -> Any:
    """Return a number as a tensor without axes."""
    return _full((), s)


@aten("arange.start_step")
def arange(start: Any, end: Any, step: Any = 1, dtype: Any = None, **_: Any) -> Any:
    """Return evenly spaced numbers; those of int64 from the whole parts of the arguments."""
    if isinstance(start, UOp) or isinstance(end, UOp):  # sizes of torch, not below one another
        if step != 1:
            raise UncoveredFormError("steps between symbolic sizes")
        return xp.arange(end - start) + start
    if dtype == "int64":
        start, end, step = int(start), int(end), int(step)
    count = max(math.ceil((end - start) / step), 0)
    if all(isinstance(number, int) for number in (start, step)):
        return xp.arange(count) * step + start
    return xp.arange(count).astype("float64") * step + start


@aten("eye.default", "eye.m")
def eye(n: int, m: int | None = None, **_: Any) -> Any:
    """Return the identity matrix."""
    return xp.eye(n, m)


@aten("linspace.default")
def linspace(start: Any, end: Any, steps: int, dtype: Any = None, **_: Any) -> Any:
    """Return a number of evenly spaced numbers; integers are cut off after steps in float64."""
    if dtype is None or not dtype.startswith(("int", "uint")):
        return xp.linspace(start, end, steps, dtype="float64")
    start, end = int(start), int(end)
    step = (end - start) / max(steps - 1, 1)
    numbers = [
        int(start + step * k if k < steps // 2 else end - step * (steps - 1 - k))
        for k in range(steps)
    ]
    return xp.asarray(numbers if steps != 1 else [start], dtype=dtype)


@aten("linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor")
def linspace_of_tensors(start: Any, end: Any, steps: int, dtype: Any = None, **_: Any) -> Any:
    """Return a number of evenly spaced numbers between two that are computed."""
    start, end = (xp.asarray(v).astype("float64") for v in (start, end))
    if dtype is not None and dtype.startswith(("int", "uint")):
        start, end = xp.trunc(start), xp.trunc(end)
    step = (end - start) / max(steps - 1, 1)
    rank = xp.arange(steps).astype("float64")
    later = end - step * (steps - 1 - rank)
    return xp.where((rank < steps // 2) | (steps == 1), start + step * rank, later)


@aten("tril_indices.default")
def tril_indices(row: int, col: int, offset: int = 0, **_: Any) -> Any:
    """Return the indices of a lower triangle, two rows."""
    pairs = [[i, j] for i in range(row) for j in range(min(col, i + offset + 1))]
    return xp.reshape(xp.asarray(pairs, dtype="int64"), (-1, 2)).mT


@aten("triu_indices.default")
def triu_indices(row: int, col: int, offset: int = 0, **_: Any) -> Any:
    """Return the indices of an upper triangle, two rows."""
    pairs = [[i, j] for i in range(row) for j in range(max(0, i + offset), col)]
    return xp.reshape(xp.asarray(pairs, dtype="int64"), (-1, 2)).mT


@aten("as_strided.default", "as_strided_copy.default")
def as_strided(
    x: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """Return the elements at an offset and strides in the memory of x, which is contiguous."""
    index = _strided_positions(size, stride, storage_offset)
    taken = xp.take(xp.reshape(x, (-1,)), xp.reshape(index, (-1,)), axis=0)
    return xp.reshape(taken, tuple(size))


@aten("as_strided_scatter.default")
def as_strided_scatter(
    x: Any, src: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """Return x with the elements at an offset and strides in its memory replaced."""
    return _placed(x, src, _strided_positions(size, stride, storage_offset))


@aten("diagonal_scatter.default")
def diagonal_scatter(x: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return x with a diagonal of two axes replaced."""
    positions = xp.reshape(xp.arange(x.size), x.shape)
    return _placed(x, src, diagonal(positions, offset, dim1, dim2))


def _placed(x: Any, src: Any, positions: Any) -> Any:
    """Return x with the elements at positions in its memory replaced."""
    values = xp.reshape(xp.broadcast_to(src.astype(x.dtype), positions.shape), (-1,))
    flat = xp.scatter(xp.reshape(x, (-1,)), 0, xp.reshape(positions, (-1,)), values)
    return xp.reshape(flat, x.shape)


def _strided_positions(size: Sequence[int], stride: Sequence[int], offset: int | None) -> Any:
    """Return the positions in memory of elements at an offset and strides."""
    index = xp.full((), offset or 0, dtype="int64")
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        shape = tuple(count if k == axis else 1 for k in range(len(size)))
        index = index + xp.reshape(xp.arange(count) * step, shape)
    return xp.broadcast_to(index, tuple(size))


@aten("narrow_copy.default")
def narrow(x: Any, dim: int, start: int, length: int) -> Any:
    """Return a slice along an axis."""
    return slice_(x, dim, start, start + length)
