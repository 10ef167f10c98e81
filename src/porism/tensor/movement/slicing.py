"""Slicing: the elements that ints and slices select, by movement ops.

What a key of ints, slices, `...` and None selects depends on the key and the shape alone. It is
cached for known sizes, as the movement ops that lead from x to x[key]: a loop that slices parses
each key once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType, NoneType
from typing import Any, Final

from porism.base.dtypes import f32
from porism.ir import ops
from porism.ir.facts.node_shape import Shape
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.tensor import primitive
from porism.tensor.movement.index_keys import AxisIndex, parse_key
from porism.tensor.primitive import Dim, Dims
from porism.tensor.shapes import Sizes, sizes_of
from porism.tensor.static_sizes import static_size

Steps = tuple[tuple[Op, tuple[UOp, ...], Any], ...]
"""Movement ops in order: each with its sources but the first, and its argument."""

MAX_SLICINGS: Final = 1000
"""Entries of the table, chosen by hand; a full table is cleared."""


@dataclass(slots=True, eq=False)
class Slicing:
    """What ints and slices select from a tensor of some shape."""

    selection: Sequence[AxisIndex]
    """An element for each axis of x."""
    sliced: Sizes
    """The sizes after slicing, with those of dropped axes and without new ones."""
    result: Sizes
    """The sizes of x[key]."""
    steps: Steps
    """The movement ops from x to x[key]."""
    placement: tuple[Steps, UOp] | None = None
    """The movement ops from a sliced value to its position in x, and the mask of that position;
    set by the first assignment."""

    def apply(self, x: UOp) -> UOp:
        """Return x[key]."""
        return apply_steps(x, self.steps)


def apply_steps(x: UOp, steps: Steps) -> UOp:
    """Return a value after movement ops."""
    for op, sources, arg in steps:
        x = primitive.reshape(x, sources) if op is ops.RESHAPE else op(x, *sources, arg=arg)
    return x


def steps_between(x: UOp, moved: UOp) -> Steps:
    """Return the movement ops that lead from x to another node."""
    steps = []
    while moved is not x:
        steps.append((moved.op, moved.src[1:], moved.arg))
        moved = moved.src[0]
    return tuple(reversed(steps))


_slicings: dict[tuple[Any, Shape], Slicing] = {}


def slicing_of(key: Any, dims: Shape) -> Slicing | None:
    """Return what a key selects, cached; None if it has arrays or anything is symbolic."""
    parts = _hashable(key)
    if parts is None:
        return None
    slicing = _slicings.get((parts, dims))
    if slicing is None:
        if any(dim.op is not ops.CONST for dim in dims):
            return None
        slicing = new_slicing(parse_key(key, tuple([int(dim.arg) for dim in dims])), dims)
        if len(_slicings) >= MAX_SLICINGS:
            _slicings.clear()
        _slicings[parts, dims] = slicing
    return slicing


def _hashable(key: Any) -> tuple[Any, ...] | None:
    """Return a key of ints, slices of ints, `...` and None as a tuple to look it up by."""
    parts: list[Any] = []
    for item in key if type(key) is tuple else (key,):
        if type(item) is slice:
            ends = (item.start, item.stop, item.step)
            if not (type(ends[0]) in _ENDS and type(ends[1]) in _ENDS and type(ends[2]) in _ENDS):
                return None
            parts.append(ends)
        elif type(item) in _ITEMS:
            parts.append(item)
        else:
            return None
    return tuple(parts)


_ENDS: Final = frozenset({int, NoneType})
_ITEMS: Final = frozenset({int, NoneType, EllipsisType})


def any_tensor(sizes: Dims) -> UOp:
    """Return a node that stands for any tensor of a shape."""
    return ops.PARAM(*map(primitive.as_dim, sizes), dtype=f32, arg=0)


def new_slicing(selection: Sequence[AxisIndex], dims: Shape) -> Slicing:
    """Return what a parsed key without arrays selects from a tensor of some shape."""
    x = any_tensor(dims)
    axis_indices = [part for part in selection if not part.new]
    node = slice_axes(x, axis_indices)
    sliced = sizes_of(node)
    result = selected_sizes(selection, sliced)
    steps = steps_between(x, primitive.reshape(node, result))
    return Slicing(axis_indices, sliced, result, steps)


def slice_axes(x: UOp, selection: Sequence[AxisIndex]) -> UOp:
    """Return the elements of x that ranges of its axes select; no axis is dropped."""
    x = _shrink_axes(x, selection)
    x = primitive.flip(x, [k for k, part in enumerate(selection) if part.reversed])
    steps = [part.step for part in selection]
    if max(steps, default=1) == 1:
        return x
    # Split into blocks of `step` elements, of which the first is kept.
    sizes = sizes_of(x)
    counts = [_block_count(size, step) for size, step in zip(sizes, steps, strict=True)]
    x = primitive.pad(
        x, [(0, _padding_to_multiple(*dims)) for dims in zip(sizes, counts, steps, strict=True)]
    )
    split = [n for pair in zip(counts, steps, strict=True) for n in pair]
    x = primitive.reshape(x, split)
    x = primitive.shrink(x, [p for n in counts for p in ((0, n), (0, 1))])
    return primitive.reshape(x, counts)


def selected_sizes(selection: Sequence[AxisIndex], sliced: Sizes) -> Sizes:
    """Return the sizes of x[key] without index arrays, from those of x after slicing."""
    remaining = iter(sliced)
    sizes: list[Dim] = []
    for part in selection:
        size = 1 if part.new else next(remaining)
        if not part.dropped:
            sizes.append(size)
    return tuple(sizes)


def _block_count(size: Dim, step: int) -> Dim:
    """Return how many blocks of `step` elements a size has, the last perhaps partial."""
    return size if step == 1 else -(-static_size(size, "a slice with a step") // step)


def _padding_to_multiple(size: Dim, count: Dim, step: int) -> Dim:
    """Return how many elements the last block lacks."""
    return 0 if step == 1 else count * step - size


def _shrink_axes(x: UOp, selection: Sequence[AxisIndex]) -> UOp:
    """Return x from begin to end of each axis, without steps and reversal."""
    # A symbolic index i selects [i, i + 1). Shrinking to [i, size) first, and then to [0, 1), makes
    # the size of the result the constant 1.
    first_begins = [p.begin if p.dropped and not isinstance(p.begin, int) else 0 for p in selection]
    sizes = sizes_of(x)
    x = primitive.shrink(x, list(zip(first_begins, sizes, strict=True)))
    ends: list[tuple[Dim, Dim]] = []
    for part, begin in zip(selection, first_begins, strict=True):
        ends.append((part.begin, part.end) if isinstance(begin, int) else (0, 1))
    return primitive.shrink(x, ends)
