"""Index keys: the parser of the key of `x[key]`, to one `AxisIndex` for each axis.

There is one `AxisIndex` for each axis of x and for each new axis. Ints and slices become ranges of
an axis; index arrays are kept for the gather that follows. Boolean arrays whose values are known
become index arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from porism.base.dtypes import Kind
from porism.base.errors import PorismError, TypeMismatch
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.tensor.primitive import Dim
from porism.tensor.promotion import name_of
from porism.tensor.shapes import (
    OutOfRange,
    Sizes,
    shape_error,
    size_text,
    sizes_equal,
    to_static,
    to_text,
)
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line


@dataclass(frozen=True)
class AxisIndex:
    """The elements of an axis from begin to end, every `step`-th one, in reverse order or not.

    One with an `index` is a whole axis whose elements are chosen by an array. A `new` one is no
    axis of x; a `dropped` one has size 1 and does not appear in the result.
    """

    begin: Dim = 0
    end: Dim = 1
    step: int = 1
    reversed: bool = False
    dropped: bool = False
    new: bool = False
    index: Array | Tensor | None = None

    @property
    def is_array(self) -> bool:
        """Whether it counts as an index array when the position of the array axes is determined."""
        return self.index is not None or self.dropped


@dataclass(frozen=True)
class Mask:
    """A boolean tensor in a key, whose values are unknown, and so the shape of x[key]."""

    tensor: Tensor


def parse_key(key: Any, sizes: Sizes) -> list[AxisIndex]:
    """Return what a key selects along each axis, in order; refuse boolean tensors."""
    parts: list[AxisIndex] = []
    for part in parse_key_with_masks(key, sizes):
        if isinstance(part, Mask):
            raise _data_dependent_shape(part.tensor)
        parts.append(part)
    return parts


def parse_key_with_masks(key: Any, sizes: Sizes) -> list[AxisIndex | Mask]:
    """Return what a key selects along each axis; a boolean tensor stands for all of its axes."""
    items = _masks_to_indices(list(key) if isinstance(key, tuple) else [key])
    axis_count = sum(_axes_used(item) for item in items)
    dots = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise shape_error(
            "an index with two ellipses",
            "`...` stands for all axes that are left, so there can be one",
            "write `:` for the axes of the other",
        )
    if axis_count > len(sizes):
        raise OutOfRange(
            f"an index for {axis_count} axes of a tensor of shape {to_text(sizes)}",
            where=users_line(),
            why=f"the tensor has {len(sizes)}",
            fix="index fewer axes, or add some with None",
        )
    dots_at = dots[0] if dots else len(items)
    items[dots_at : dots_at + len(dots)] = [slice(None)] * (len(sizes) - axis_count)
    parts: list[AxisIndex | Mask] = []
    axis = 0
    for item in items:
        if isinstance(item, Tensor) and item.node.dtype.kind is Kind.BOOL:
            check_mask(item.shape, sizes[axis : axis + item.ndim], axis)
            parts.append(Mask(item))
        else:
            parts.append(
                AxisIndex(new=True) if item is None else _parse_item(item, sizes[axis], axis)
            )
        axis += _axes_used(item)
    return parts


def holds_mask(key: Any) -> bool:
    """Whether a key is or contains a boolean tensor."""
    if isinstance(key, tuple):
        return any(holds_mask(item) for item in key)
    return isinstance(key, Tensor) and key.dtype.base.kind is Kind.BOOL


def _axes_used(item: Any) -> int:
    """Return how many axes of x an item of a key consumes."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Tensor) and item.node.dtype.kind is Kind.BOOL:
        return item.ndim
    return 1


def _masks_to_indices(items: list[Any]) -> list[Any]:
    """Return the items with lists as arrays, and boolean arrays as their true indices."""
    converted: list[Any] = []
    for item in items:
        if isinstance(item, (bool, np.bool_)) or (_is_bool_array(item) and not np.ndim(item)):
            raise shape_error(
                f"the index {item!r}",
                "a single bool is neither an index nor has it an axis",
                "use None for a new axis, an int as an index, or porism.where",
            )
        if isinstance(item, (list, tuple, range)):
            item = np.asarray(item)
            item = item.astype(np.int64) if item.size == 0 else item
        if _is_bool_array(item):
            converted += [
                _MaskIndex(true_indices, item.shape, k)
                for k, true_indices in enumerate(np.nonzero(item))
            ]
        else:
            converted.append(item)
    return converted


def _is_bool_array(item: Any) -> bool:
    """Return whether an item is a NumPy array of bools."""
    return isinstance(item, np.ndarray) and item.dtype == np.bool_


@dataclass(frozen=True)
class _MaskIndex:
    """The indices, along one axis, of the true elements of a boolean array."""

    index: Array
    mask: tuple[int, ...]
    axis: int


def _parse_item(item: Any, size: Dim, axis: int) -> AxisIndex:
    """Return what one item of a key selects along its axis."""
    if isinstance(item, _MaskIndex):
        check_mask((item.mask[item.axis],), (size,), axis)
        return AxisIndex(0, size, index=item.index)
    if isinstance(item, slice):
        return _parse_slice(item, size)
    if isinstance(item, UOp) and not isinstance(to_static(item), int):
        return _parse_symbolic_int(item, size, axis)
    item = to_static(item)
    if isinstance(item, Tensor):
        if not item.node.dtype.is_integer:
            raise _not_an_index(name_of(item.node.dtype))
        return AxisIndex(0, size, index=item)
    if isinstance(item, np.ndarray) and item.ndim:
        return _parse_array(item, size, axis)
    try:
        number = item.__index__()
    except (AttributeError, TypeError):
        raise _not_an_index(type(item).__name__) from None
    length = static_size(size, "an int as index") if number < 0 or isinstance(size, int) else None
    if length is not None and not -length <= number < length:
        raise _out_of_range(number, length, axis)
    begin = number % length if length is not None else number
    return AxisIndex(begin, begin + 1, dropped=True)


def _parse_array(item: Array, size: Dim, axis: int) -> AxisIndex:
    """Return the selection by an index array of known values, checked and made non-negative."""
    if item.dtype.kind not in "iu":
        raise _not_an_index(f"array of {item.dtype}")
    length = static_size(size, "an index array")
    outside = item[(item < -length) | (item >= length)]
    if outside.size:
        raise _out_of_range(int(outside.reshape(-1)[0]), length, axis)
    indices = item.astype(np.int64)
    return AxisIndex(0, size, index=np.where(indices < 0, indices + length, indices))


def _parse_symbolic_int(item: UOp, size: Dim, axis: int) -> AxisIndex:
    """Return the selection of one element at a symbolic index, which must always be inside."""
    if not isinstance(size, int) or not 0 <= item.vmin <= item.vmax < size:
        raise OutOfRange(
            f"the index {size_text(item)} of axis {axis}, which has {size_text(size)} elements",
            where=users_line(),
            why=f"its value may be from {item.vmin} to {item.vmax}",
            fix="declare the variable with bounds inside of the axis",
        )
    return AxisIndex(item, item + 1, dropped=True)


def _parse_slice(item: slice, size: Dim) -> AxisIndex:
    """Return the selection by a slice."""
    item = slice(*map(to_static, (item.start, item.stop, item.step)))
    if any(isinstance(end, UOp) for end in (item.start, item.stop)) or not isinstance(size, int):
        return _parse_symbolic_slice(item, size)
    try:
        begin, end, step = item.indices(size)
    except (TypeError, ValueError) as error:
        raise shape_error(
            f"the slice {item.start}:{item.stop}:{item.step}",
            str(error),
            "use ints, and a step that is not 0",
        ) from None
    if step > 0:
        return AxisIndex(begin, max(begin, end), step)
    # From `begin` down to above `end`: the same elements in ascending order, then reversed.
    last = min(begin + 1, size)
    first = min(end + 1, last)
    return AxisIndex(first, last, -step, reversed=True)


def _parse_symbolic_slice(item: slice, size: Dim) -> AxisIndex:
    """Return the selection by a slice with a symbolic bound or size."""
    if item.step not in (None, 1):
        raise shape_error(
            "a slice with a step of a symbolic part",
            "the number of its elements is not known",
            "slice first with numbers, or without a step",
        )
    begin = 0 if item.start is None else _check_symbolic_bound(item.start, size)
    end = size if item.stop is None else _check_symbolic_bound(item.stop, size)
    return AxisIndex(begin, end)


def _check_symbolic_bound(end: Any, size: Dim) -> Dim:
    """Return a bound of a slice, which must be in the axis for all values of its variables."""
    low, high = (end, end) if isinstance(end, int) else (end.vmin, end.vmax)
    # A bound that depends on the size itself, like n - 1, is compared with it symbolically.
    margin = size - end
    least_margin = margin if isinstance(margin, int) else margin.vmin
    if isinstance(end, int) and end < 0:
        return size + end
    if low < 0 or least_margin < 0:
        raise OutOfRange(
            f"a slice ends at {size_text(end)} in an axis of {size_text(size)} elements",
            where=users_line(),
            why=f"its value may be from {low} to {high}, and a part lies inside for all of them",
            fix="declare the variable with bounds inside of the axis",
        )
    return end  # type: ignore[no-any-return]


# -- errors ----------------------------------------------------------------------------------------


def check_mask(mask_sizes: Sizes, sizes: Sizes, axis: int) -> None:
    """Refuse a mask whose shape is not that of the axes it stands for."""
    if len(mask_sizes) != len(sizes) or not all(map(sizes_equal, mask_sizes, sizes)):
        raise OutOfRange(
            f"a mask of shape {to_text(mask_sizes)} for axes of sizes {to_text(sizes)}",
            where=users_line(),
            why=f"a mask has one element for each element of the axes from {axis} on",
            fix="give a mask of that shape",
        )


def _data_dependent_shape(mask: Tensor) -> PorismError:
    """Return the error for indexing by a boolean tensor."""
    return shape_error(
        f"an index by a boolean tensor of shape {to_text(mask.shape)} in a jitted function",
        "how many elements it chooses depends on its values, and shapes do not",
        "use porism.where(mask, x, other), or porism.nonzero(mask, size=...)",
    )


def _not_an_index(what: str) -> TypeMismatch:
    """Return the error for an index of a type that cannot index."""
    return TypeMismatch(
        f"an index of type {what}",
        where=users_line(),
        why="an index is an int, a slice, `...`, None, or integers in an array, list or tensor",
        fix="convert it to integers, for tensors with astype",
    )


def _out_of_range(number: int, size: int, axis: int) -> OutOfRange:
    """Return the error for an index outside of its axis."""
    return OutOfRange(
        f"the index {number} of axis {axis}, which has {size} elements",
        where=users_line(),
        why=f"indices go from {-size} to {size - 1}" if size else "the axis is empty",
        fix="use an index inside, or a slice, which may be longer than the axis",
    )
