"""Selection: what the key of `x[key]` says about each axis, with nothing computed yet.

A key is read into one `Part` for each axis of x and for each new axis. Ints and slices become parts
of an axis; index arrays stay for the gather that follows. Boolean arrays that are known become the
places where they hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from porism.base.dtypes import Kind
from porism.base.errors import PorismError, TypeMismatch
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.tensor.known_sizes import known
from porism.tensor.primitive import Dim
from porism.tensor.promotion import name_of
from porism.tensor.shapes import OutOfRange, Sizes, plain, refuse, same, size_text, to_text
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line


@dataclass(frozen=True)
class AxisIndex:
    """An axis of x from begin to end, backwards or not, every `step`-th element.

    A part with an `index` is a whole axis whose elements are chosen by an array. A part that is
    `new` is no axis of x; one that is `dropped` has size 1 and does not appear in the result.
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
        """Whether the part counts as an index array when it is decided where their axes go."""
        return self.index is not None or self.dropped


@dataclass(frozen=True)
class Mask:
    """A boolean tensor in a key: its values are not known, so neither is the shape of x[key]."""

    tensor: Tensor


def parse_key(key: Any, sizes: Sizes) -> list[AxisIndex]:
    """The parts of a key, in order; a mask that is not known is refused."""
    parts: list[AxisIndex] = []
    for part in parse_key_with_masks(key, sizes):
        if isinstance(part, Mask):
            raise _data_dependent_shape(part.tensor)
        parts.append(part)
    return parts


def parse_key_with_masks(key: Any, sizes: Sizes) -> list[AxisIndex | Mask]:
    """The parts of a key; a boolean tensor stands for as many axes as it has."""
    items = _masks_to_indices(list(key) if isinstance(key, tuple) else [key])
    used = sum(_axes_used(item) for item in items)
    dots = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise refuse(
            "an index with two ellipses",
            "`...` stands for all axes that are left, so there can be one",
            "write `:` for the axes of the other",
        )
    if used > len(sizes):
        raise OutOfRange(
            f"an index for {used} axes of a tensor of shape {to_text(sizes)}",
            where=users_line(),
            why=f"the tensor has {len(sizes)}",
            fix="index fewer axes, or add some with None",
        )
    place = dots[0] if dots else len(items)
    items[place : place + len(dots)] = [slice(None)] * (len(sizes) - used)
    parts: list[AxisIndex | Mask] = []
    axis = 0
    for item in items:
        if isinstance(item, Tensor) and item.dtype.kind is Kind.BOOL:
            _check_mask(item.shape, sizes[axis : axis + item.ndim], axis)
            parts.append(Mask(item))
        else:
            parts.append(
                AxisIndex(new=True) if item is None else _parse_item(item, sizes[axis], axis)
            )
        axis += _axes_used(item)
    return parts


def _axes_used(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Tensor) and item.dtype.kind is Kind.BOOL:
        return item.ndim
    return 1


def _masks_to_indices(items: list[Any]) -> list[Any]:
    """Lists as arrays, and boolean arrays as the places where they hold."""
    found: list[Any] = []
    for item in items:
        if isinstance(item, (bool, np.bool_)) or (_is_bool_array(item) and not np.ndim(item)):
            raise refuse(
                f"the index {item!r}",
                "a single bool neither is a place nor has an axis",
                "use None for a new axis, an int for a place, or porism.where",
            )
        if isinstance(item, (list, tuple, range)):
            item = np.asarray(item)
            item = item.astype(np.int64) if item.size == 0 else item
        if _is_bool_array(item):
            found += [_MaskIndex(where, item.shape, k) for k, where in enumerate(np.nonzero(item))]
        else:
            found.append(item)
    return found


def _is_bool_array(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype == np.bool_


@dataclass(frozen=True)
class _MaskIndex:
    """Where a known mask holds, along one of its axes."""

    index: Array
    mask: tuple[int, ...]
    axis: int


def _parse_item(item: Any, size: Dim, axis: int) -> AxisIndex:
    if isinstance(item, _MaskIndex):
        _check_mask((item.mask[item.axis],), (size,), axis)
        return AxisIndex(0, size, index=item.index)
    if isinstance(item, slice):
        return _parse_slice(item, size)
    if isinstance(item, UOp) and not isinstance(plain(item), int):
        return _parse_symbolic_int(item, size, axis)
    item = plain(item)
    if isinstance(item, Tensor):
        if not item.dtype.is_integer:
            raise _not_an_index(name_of(item.dtype))
        return AxisIndex(0, size, index=item)
    if isinstance(item, np.ndarray) and item.ndim:
        return _parse_array(item, size, axis)
    try:
        number = item.__index__()
    except (AttributeError, TypeError):
        raise _not_an_index(type(item).__name__) from None
    length = known(size, "an int as index") if number < 0 or isinstance(size, int) else None
    if length is not None and not -length <= number < length:
        raise _out_of_range(number, length, axis)
    begin = number % length if length is not None else number
    return AxisIndex(begin, begin + 1, dropped=True)


def _parse_array(item: Array, size: Dim, axis: int) -> AxisIndex:
    """An index array whose values are known: checked here, and counted from the front."""
    if item.dtype.kind not in "iu":
        raise _not_an_index(f"array of {item.dtype}")
    length = known(size, "an index array")
    outside = item[(item < -length) | (item >= length)]
    if outside.size:
        raise _out_of_range(int(outside.reshape(-1)[0]), length, axis)
    wide = item.astype(np.int64)
    return AxisIndex(0, size, index=np.where(wide < 0, wide + length, wide))


def _parse_symbolic_int(item: UOp, size: Dim, axis: int) -> AxisIndex:
    if not isinstance(size, int) or not 0 <= item.vmin <= item.vmax < size:
        raise OutOfRange(
            f"the index {size_text(item)} of axis {axis}, which has {size_text(size)} elements",
            where=users_line(),
            why=f"its value may be from {item.vmin} to {item.vmax}",
            fix="declare the variable with bounds inside of the axis",
        )
    return AxisIndex(item, item + 1, dropped=True)


def _parse_slice(item: slice, size: Dim) -> AxisIndex:
    item = slice(*map(plain, (item.start, item.stop, item.step)))
    if any(isinstance(end, UOp) for end in (item.start, item.stop)) or not isinstance(size, int):
        return _parse_symbolic_slice(item, size)
    try:
        begin, end, step = item.indices(size)
    except (TypeError, ValueError) as error:
        raise refuse(
            f"the slice {item.start}:{item.stop}:{item.step}",
            str(error),
            "use ints, and a step that is not 0",
        ) from None
    if step > 0:
        return AxisIndex(begin, max(begin, end), step)
    # Backwards from `begin` down to above `end`: the same elements forwards, then flipped.
    last = min(begin + 1, size)
    first = min(end + 1, last)
    return AxisIndex(first, last, -step, reversed=True)


def _parse_symbolic_slice(item: slice, size: Dim) -> AxisIndex:
    if item.step not in (None, 1):
        raise refuse(
            "a slice with a step of a symbolic part",
            "the number of its elements is not known",
            "slice first with numbers, or without a step",
        )
    begin = 0 if item.start is None else _check_symbolic_bound(item.start, size)
    end = size if item.stop is None else _check_symbolic_bound(item.stop, size)
    return AxisIndex(begin, end)


def _check_symbolic_bound(end: Any, size: Dim) -> Dim:
    """An end of a slice; it must lie inside for every value that it may have."""
    low, high = (end, end) if isinstance(end, int) else (end.vmin, end.vmax)
    # What depends on the size itself, like n - 1 or n, is compared with it as a whole.
    room = size - end
    left = room if isinstance(room, int) else room.vmin
    if isinstance(end, int) and end < 0:
        return size + end
    if low < 0 or left < 0:
        raise OutOfRange(
            f"a slice ends at {size_text(end)} in an axis of {size_text(size)} elements",
            where=users_line(),
            why=f"its value may be from {low} to {high}, and a part lies inside for all of them",
            fix="declare the variable with bounds inside of the axis",
        )
    return end  # type: ignore[no-any-return]


# -- refusals --------------------------------------------------------------------------------------


def _check_mask(own: Sizes, sizes: Sizes, axis: int) -> None:
    if len(own) != len(sizes) or not all(map(same, own, sizes)):
        raise refuse(
            f"a mask of shape {to_text(own)} for axes of sizes {to_text(sizes)}",
            f"a mask has an element for each place, from axis {axis} on",
            "give a mask of that shape",
        )


def _data_dependent_shape(mask: Tensor) -> PorismError:
    return refuse(
        f"an index by a boolean tensor of shape {to_text(mask.shape)}",
        "how many elements it chooses depends on its values, and shapes do not",
        "use porism.where(mask, x, other), or index with mask.numpy()",
    )


def _not_an_index(what: str) -> TypeMismatch:
    return TypeMismatch(
        f"an index of type {what}",
        where=users_line(),
        why="an index is an int, a slice, `...`, None, or integers in an array, list or tensor",
        fix="convert it to integers, for tensors with astype",
    )


def _out_of_range(number: int, size: int, axis: int) -> OutOfRange:
    return OutOfRange(
        f"the index {number} of axis {axis}, which has {size} elements",
        where=users_line(),
        why=f"places go from {-size} to {size - 1}" if size else "the axis is empty",
        fix="use an index inside, or a slice, which may be longer than the axis",
    )
