"""Joining and splitting: several tensors as one along an axis, and one as several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from porism.base.device_use import HOST
from porism.base.dtypes import DType
from porism.engine.run.buffer_storage import find_storage
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.complex.complex_dispatch import accepts_complex
from porism.tensor.conversion import as_tensor, from_copy
from porism.tensor.jit.tracing import current
from porism.tensor.movement.reshape import expand_dims, flatten, slice_axis
from porism.tensor.primitive import Dim
from porism.tensor.promotion import result_type
from porism.tensor.shapes import (
    Sizes,
    as_int,
    as_size,
    normalize_axis,
    shape_error,
    size_text,
    sizes_equal,
    sizes_of,
    to_text,
)
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method

MAX_FUSED: Final = 16
"""Tensors concatenated by one kernel; more are joined in groups that are materialized first.

Every element of the result selects among all tensors of its group, so the limit bounds the work
for each element (chosen by hand).
"""

MAX_FUSED_ALIKE: Final = 32
"""The same for tensors of one size, of which each has code of its own in the kernel: no element
selects then (chosen by hand, for the time of compiling).
"""

MAX_SCHEDULED: Final = 64
"""Realized tensors concatenated by kernels; more are copied by NumPy (chosen by hand).

Scheduling so many loads takes longer than copying small tensors, and copying large ones takes as
long in a kernel.
"""


def concat_nodes(nodes: Sequence[UOp], axis: int) -> UOp:
    """Return nodes of one type concatenated along an axis; their other sizes are equal."""
    parts = [node for node in nodes if not sizes_equal(sizes_of(node)[axis], 0)] or list(nodes[:1])
    while len(parts) > (most := _most_fused(parts, axis)):
        groups = [parts[k : k + most] for k in range(0, len(parts), most)]
        parts = [
            primitive.contiguous(_pad_and_select(group, axis), "joining very many tensors")
            for group in groups
        ]
    return _pad_and_select(parts, axis)


def _most_fused(parts: Sequence[UOp], axis: int) -> int:
    """Return how many nodes one kernel concatenates, at most."""
    size = sizes_of(parts[0])[axis]
    is_alike = all(sizes_equal(sizes_of(part)[axis], size) for part in parts)
    return MAX_FUSED_ALIKE if is_alike else MAX_FUSED


def _pad_and_select(parts: Sequence[UOp], axis: int) -> UOp:
    """Return the concatenation of a few nodes: each padded to the result, selected by position."""
    ends: list[Dim] = []
    for part in parts:
        size = sizes_of(part)[axis]
        ends.append(ends[-1] + size if ends else size)
    if len(parts) == 1:
        return parts[0]
    padded = []
    for part, end in zip(parts, ends, strict=True):
        pairs: list[tuple[Dim, Dim]] = [(0, 0)] * len(sizes_of(part))
        pairs[axis] = (end - sizes_of(part)[axis], ends[-1] - end)
        padded.append(primitive.pad(part, pairs))
    return _select_by_position(padded, ends, primitive.iota(sizes_of(padded[0]), axis))


def _select_by_position(padded: Sequence[UOp], ends: Sequence[Dim], position: UOp) -> UOp:
    """Return the node to which each position belongs, by a balanced tree of selects."""
    if len(padded) == 1:
        return padded[0]
    half = len(padded) // 2
    first, second = (
        _select_by_position(padded[part], ends[part], position)
        for part in (slice(None, half), slice(half, None))
    )
    return (position < primitive.as_dim(ends[half - 1])).where(first, second)


@accepts_complex
def concat(arrays: Any, axis: int | None = 0) -> Tensor:
    """Return tensors concatenated along an axis; with axis None, of their flattened elements.

    >>> porism.concat([[1, 2], [3]]).tolist()
    [1, 2, 3]
    """
    tensors = _tensor_list(arrays, axis, "concat")
    if axis is None:
        tensors, axis = [flatten(x) for x in tensors], 0
    first = tensors[0].shape
    joined_axis = normalize_axis(axis, len(first))
    for k, other in enumerate(tensors[1:], 1):
        _check_fits(first, other.shape, joined_axis, k)
    dtype = result_type(*tensors)
    values = _realized_arrays(tensors, dtype)
    if values:
        return from_copy(np.concatenate(values, joined_axis), device=HOST)
    return Tensor(concat_nodes([primitive.cast(x.node, dtype) for x in tensors], joined_axis))


def _realized_arrays(tensors: Sequence[Tensor], dtype: DType) -> list[Array]:
    """Return the arrays of many tensors of one type, if all are in memory; else an empty list."""
    if len(tensors) <= MAX_SCHEDULED or current.get() is not None:
        return []
    arrays = []
    for tensor in tensors:
        held = find_storage(tensor.node)
        sizes = tensor.shape
        if (
            held is None
            or not isinstance(held[0], np.ndarray)
            or tensor.node.dtype is not dtype
            or not all(isinstance(n, int) for n in sizes)
        ):
            return []
        arrays.append(held[0].reshape(sizes))
    return arrays


def _tensor_list(arrays: Any, axis: Any, what: str) -> list[Tensor]:
    """Return the tensors in a sequence; refuse an empty one and a misplaced axis."""
    if isinstance(axis, (Tensor, np.ndarray, list, tuple)):
        raise shape_error(
            f"{what} with a {type(axis).__name__} as the axis",
            "the tensors are one argument, a sequence, and the next one is the axis",
            f"write {what}([a, b])",
        )
    if not isinstance(arrays, Iterable):
        raise shape_error(
            f"{what} of {arrays!r}",
            f"it is a {type(arrays).__name__}, and a sequence of tensors is wanted",
            "pass a list of tensors",
        )
    tensors = [as_tensor(x) for x in arrays]
    if not tensors:
        raise shape_error(
            f"{what} of no tensors", "there is no shape to start from", "pass at least one"
        )
    return tensors


def _check_fits(first: Sizes, other: Sizes, axis: int, k: int) -> None:
    """Refuse tensors whose sizes differ along an axis that is not joined."""
    if len(first) != len(other) or not all(
        sizes_equal(a, b) for n, (a, b) in enumerate(zip(first, other, strict=True)) if n != axis
    ):
        raise shape_error(
            f"cannot join tensors of shapes {to_text(first)} and {to_text(other)} "
            f"along axis {axis}",
            f"the sizes of the other axes differ between the tensors 0 and {k}",
            "reshape, slice or pad them first, or choose another axis",
        )


@accepts_complex
def stack(arrays: Any, axis: int = 0) -> Tensor:
    """Return tensors of one shape joined along a new axis.

    >>> porism.stack([[1, 2], [3, 4]], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    tensors = _tensor_list(arrays, axis, "stack")
    new_axis = normalize_axis(axis, tensors[0].ndim + 1)
    for k, other in enumerate(tensors[1:], 1):
        if other.ndim != tensors[0].ndim or not all(
            map(sizes_equal, tensors[0].shape, other.shape)
        ):
            raise shape_error(
                f"cannot stack tensors of shapes {to_text(tensors[0].shape)} and "
                f"{to_text(other.shape)}",
                f"the tensors 0 and {k} differ in shape",
                "give tensors of one shape, or use concat",
            )
    values = _realized_arrays(tensors, result_type(*tensors))
    if values:
        return from_copy(np.stack(values, new_axis), device=HOST)
    return concat([expand_dims(x, new_axis) for x in tensors], new_axis)


# -- splitting -------------------------------------------------------------------------------------


@method
def split(x: Any, split_size_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Return slices of a given size along an axis (the last may be smaller), or of a list of sizes.

    >>> [x.tolist() for x in porism.split([1, 2, 3], 2)]
    [[1, 2], [3]]
    """
    tensor = as_tensor(x)
    split_axis = normalize_axis(axis, tensor.ndim)
    size = tensor.shape[split_axis]
    sections = split_size_or_sections
    if isinstance(sections, (tuple, list)):
        parts = [as_size(part, "a size in split") for part in sections]
        total: Dim = 0
        for part in parts:
            total = part if isinstance(total, int) and total == 0 else total + part
        if not sizes_equal(total, size):
            raise shape_error(
                f"split of an axis of size {size_text(size)} into {sections!r}",
                f"the parts have {size_text(total)} elements together",
                "give sizes that sum to that of the axis",
            )
    else:
        part_size, axis_size = (
            as_int(sections, "split_size_or_sections"),
            static_size(size, "split"),
        )
        if part_size < 1:
            raise shape_error(
                f"split into parts of {part_size}", "a part has an element", "give 1 or more"
            )
        parts = [min(part_size, axis_size - k) for k in range(0, axis_size, part_size)] or [0]
    return _slices(tensor, parts, split_axis)


def _slices(tensor: Tensor, parts: Sequence[Dim], axis: int) -> list[Tensor]:
    """Return consecutive slices of the given sizes along an axis."""
    begin: Dim = 0
    slices = []
    for part in parts:
        end = begin + part
        slices.append(Tensor(slice_axis(tensor.node, axis, begin, end)))
        begin = end
    return slices


@method
def chunk(x: Any, chunks: int, axis: int = 0) -> list[Tensor]:
    """Return at most `chunks` slices of equal size along an axis; the last may be smaller.

    >>> [x.tolist() for x in porism.chunk([1, 2, 3], 2)]
    [[1, 2], [3]]
    """
    tensor, count = as_tensor(x), as_int(chunks, "chunks")
    if count < 1:
        raise shape_error(f"{count} chunks", "there is at least one part", "give 1 or more")
    split_axis = normalize_axis(axis, tensor.ndim)
    size = static_size(tensor.shape[split_axis], "split")
    return split(tensor, max(-(-size // count), 1), split_axis)


@method
def unstack(x: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along an axis, which is dropped, as a tuple.

    >>> [x.tolist() for x in porism.unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    tensor = as_tensor(x)
    dropped_axis = normalize_axis(axis, tensor.ndim)
    size = static_size(tensor.shape[dropped_axis], "split")
    rest = [s for k, s in enumerate(tensor.shape) if k != dropped_axis]
    parts = [slice_axis(tensor.node, dropped_axis, k, k + 1) for k in range(size)]
    return tuple(Tensor(primitive.reshape(part, rest)) for part in parts)


@method
def roll(x: Any, shift: Any, axis: Any = None) -> Tensor:
    """Return x with its elements shifted cyclically along axes, or in row-major order.

    A positive shift moves elements to larger indices.

    >>> porism.roll([1, 2, 3, 4], 1).tolist()
    [4, 1, 2, 3]
    """
    tensor = as_tensor(x)
    if axis is None:
        flat = flatten(tensor)
        return Tensor(primitive.reshape(roll(flat, shift, 0).node, tensor.shape))
    given_axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    # An axis that is named twice is rolled twice.
    axes = [normalize_axis(number, tensor.ndim) for number in given_axes]
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise shape_error(
            f"roll by {len(shifts)} shifts along {len(axes)} axes",
            "each axis has one shift",
            "give one shift, or one for each axis",
        )
    node = tensor.node
    for amount, rolled_axis in zip(shifts, axes, strict=True):
        size = static_size(sizes_of(node)[rolled_axis], "roll")
        offset = as_int(amount, "shift") % size if size else 0
        if offset:
            node = concat_nodes(
                [
                    slice_axis(node, rolled_axis, size - offset, size),
                    slice_axis(node, rolled_axis, 0, size - offset),
                ],
                rolled_axis,
            )
    return Tensor(node)


@accepts_complex
def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Return the coordinates of a grid: each 1-D tensor repeated along the axes of the others.

    With `indexing='xy'` (the default) the first two axes are swapped, with 'ij' they are not.

    >>> [x.tolist() for x in porism.meshgrid([1, 2], [10, 20, 30])]
    [[[1, 2], [1, 2], [1, 2]], [[10, 10], [20, 20], [30, 30]]]
    """
    if indexing not in ("xy", "ij"):
        raise shape_error(
            f"meshgrid with indexing {indexing!r}",
            "'xy' swaps the first two axes, 'ij' does not",
            "pass 'xy' or 'ij'",
        )
    tensors = [flatten(x) if not as_tensor(x).ndim else as_tensor(x) for x in arrays]
    for k, x in enumerate(tensors):
        if x.ndim != 1:
            raise shape_error(
                f"meshgrid of a tensor of shape {to_text(x.shape)}",
                f"argument {k} has {x.ndim} axes, and coordinates have one",
                "flatten it first",
            )
    dtype = result_type(*tensors) if tensors else None
    sizes = [x.shape[0] for x in tensors]
    grids = []
    for k, x in enumerate(tensors):
        own_axis_sizes = [sizes[k] if n == k else 1 for n in range(len(sizes))]
        assert dtype is not None
        node = primitive.expand(
            primitive.reshape(primitive.cast(x.node, dtype), own_axis_sizes), sizes
        )
        if indexing == "xy" and len(sizes) > 1:
            node = primitive.permute(node, (1, 0, *range(2, len(sizes))))
        grids.append(Tensor(node))
    return tuple(grids)
