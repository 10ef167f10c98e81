"""Assignment: `x[key] = value` gives x a new value; tensors computed from the old one keep it.

Where nothing else needs the old values, ints and slices are written in place
(`porism.tensor.movement.inplace_update`). Otherwise the value is padded to the shape of x by
movement ops, and selected by a mask of where it goes. With index arrays each element takes the
value of the last index that refers to it; the compiler turns that into stores at these indices
(`porism.schedule.loops.scatter_stores`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from porism.base import dtypes
from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.autodiff.leaf_state import disabled
from porism.tensor.conversion import broadcast, node_of, own_array
from porism.tensor.jit.tracing import current
from porism.tensor.movement.index_keys import AxisIndex, Mask, parse_key, parse_key_with_masks
from porism.tensor.movement.indexing import GatherLayout, gather_layout, index_node
from porism.tensor.movement.inplace_update import is_exclusive, try_overwrite
from porism.tensor.movement.reshape import broadcast_to
from porism.tensor.movement.slicing import (
    Slicing,
    Steps,
    any_tensor,
    apply_steps,
    new_slicing,
    slice_axes,
    slicing_of,
    steps_between,
)
from porism.tensor.primitive import Dim
from porism.tensor.promotion import name_of, type_error
from porism.tensor.shapes import (
    Sizes,
    broadcast_shapes,
    product,
    shape_error,
    shapes_equal,
    sizes_of,
    to_text,
)
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method, operator
from porism.tensor.user_line import users_line


@method
def assign(x: Tensor, value: Any) -> Tensor:
    """Give x another value, broadcast to its shape and converted to its type; return x."""
    _refuse_leaf(x)
    node = _cast_value(x, value)
    x.node = broadcast_to(Tensor(node), x.shape).node
    return x


def _refuse_leaf(x: Tensor) -> None:
    """Refuse an assignment to a tensor that requires a gradient, unless gradients are disabled."""
    if x._leaf is not None and not disabled.get():
        raise PorismError(
            "an assignment to a tensor that requires a gradient",
            where=users_line(),
            why="its gradient is that of the value it was given, and not of one computed from "
            "other tensors",
            fix="assign under `with porism.no_grad():`, as an optimizer does, or to a copy, x + 0",
        )


@operator("setitem")
def setitem(x: Tensor, key: Any, value: Any) -> None:
    """Perform x[key] = value: the value is broadcast to the shape of x[key]."""
    _assign_part(x, key, value)
    trace = current.get()
    if sys.getrefcount(x) <= _UNNAMED_REFERENCES + (trace is not None and id(x) in trace.created):
        raise PorismError(
            "an assignment to a part of a tensor that nothing refers to, as x[0][1] = value",
            where=users_line(),
            why="x[0] is a tensor of its own and no view of x: x would stay as it is",
            fix="write x[0, 1] = value; or row = x[0]; row[1] = value; x[0] = row",
        )


def _assign_part(x: Tensor, key: Any, value: Any) -> None:
    """Give x the value that it has after x[key] = value."""
    _refuse_leaf(x)
    node = _cast_value(x, value)
    slicing = slicing_of(key, shape(x.node))
    if slicing is not None:
        _assign_sliced(x, slicing, node)
        return
    masks = [part for part in parse_key_with_masks(key, x.shape) if isinstance(part, Mask)]
    if masks and current.get() is None and _needs_count(x, key, masks, node):
        if not masks[0].tensor.ndim and not masks[0].tensor.item() and 0 in sizes_of(node):
            return  # no values for no elements of a scalar
        key, masks = _with_known_masks(key), []
    if masks:
        x.node = _assign_masked(x.node, key, masks, node)
        return
    selection = parse_key(key, x.shape)
    if any(part.index is not None for part in selection):
        x.node = _assign_by_arrays(x.node, selection, node)
    else:
        _assign_sliced(x, new_slicing(selection, shape(x.node)), node)


def _assign_sliced(x: Tensor, slicing: Slicing, value: UOp) -> None:
    """Give x the value that it has after its sliced part was assigned to."""
    if not _try_in_place(x, slicing, value):
        x.node = _assign_slices(x.node, slicing, value)


class _RefcountProbe:
    """Records how many references to it there are while something is assigned to a part of it."""

    seen = 0

    def __setitem__(self, key: int, value: int) -> None:
        _RefcountProbe.seen = sys.getrefcount(self)


def _probe_refcount() -> int:
    """Return the reference count of an object that only its assignment refers to; 0 if unknown."""
    named = _RefcountProbe()
    named[0] = 0
    of_named = _RefcountProbe.seen
    _RefcountProbe()[0] = 0
    return _RefcountProbe.seen if _RefcountProbe.seen < of_named else 0


_UNNAMED_REFERENCES: Final = _probe_refcount()


def _cast_value(x: Tensor, value: Any) -> UOp:
    """Return the value in the type of x; refuse floats for an integer tensor."""
    node = node_of(value, None if _has_type(value) else x.node.dtype)
    if node.dtype.is_float and not x.node.dtype.is_float:
        raise type_error(
            f"a value of {name_of(node.dtype)} for a tensor of {name_of(x.node.dtype)}",
            "its fractions would be lost",
            "convert the value or the tensor first, with astype",
        )
    return primitive.cast(node, x.node.dtype)


def _has_type(value: Any) -> bool:
    """Return whether a value has a type of its own, unlike a Python number."""
    return isinstance(value, (Tensor, np.ndarray, np.generic, list, tuple))


def _broadcast_value(value: UOp, sizes: Sizes) -> UOp:
    """Return the value broadcast to the sizes of what it is assigned to."""
    value_sizes = sizes_of(value)
    if value_sizes == sizes:
        return value
    # As in NumPy, surplus leading axes of size 1 are dropped.
    while len(value_sizes) > len(sizes) and value_sizes[0] == 1:
        value_sizes = value_sizes[1:]
    value = primitive.reshape(value, value_sizes)
    common = broadcast_shapes(value_sizes, sizes)
    if not shapes_equal(common, sizes):
        raise shape_error(
            f"a value of shape {to_text(value_sizes)} for elements of shape {to_text(sizes)}",
            "it is broadcast to them, and only axes of size 1 are repeated",
            "give a value of that shape, or a scalar",
        )
    return primitive.broadcast(value, sizes)


# -- ints and slices -------------------------------------------------------------------------------


def _try_in_place(x: Tensor, slicing: Slicing, value: UOp) -> bool:
    """Write the value in place if possible; return whether it was written."""
    if not is_exclusive(x):
        return False
    _broadcast_value(value, slicing.result)  # raises if the value does not fit
    return try_overwrite(x, slicing.selection, slicing.result, value)


def _assign_slices(x: UOp, slicing: Slicing, value: UOp) -> UOp:
    """Return x with the value at the elements that ints and slices select."""
    value = primitive.reshape(_broadcast_value(value, slicing.result), slicing.sliced)
    if slicing.placement is None:
        if any(_is_symbolic(part) for part in slicing.selection):
            mask = primitive.full(dtypes.boolean, True, slicing.sliced)
            whole = sizes_of(x)
            placed, inside = (_place_slices(n, slicing.selection, whole) for n in (value, mask))
            return placed if inside is mask else inside.where(placed, x)
        slicing.placement = _placement(slicing, sizes_of(x))
    steps, inside = slicing.placement
    return inside.where(apply_steps(value, steps), x) if steps else value


def _placement(slicing: Slicing, sizes: Sizes) -> tuple[Steps, UOp]:
    """Return the movement ops that place a sliced value in the whole, and the mask of its place."""
    value = any_tensor(slicing.sliced)
    mask = primitive.full(dtypes.boolean, True, slicing.sliced)
    placed, inside = (_place_slices(n, slicing.selection, sizes) for n in (value, mask))
    return steps_between(value, placed), inside


def _place_slices(value: UOp, selection: Sequence[AxisIndex], sizes: Sizes) -> UOp:
    """Return a value of the selected part's shape at its position in the whole; 0 elsewhere."""
    counts = sizes_of(value)
    steps = [part.step for part in selection]
    lengths = [part.end - part.begin for part in selection]
    if max(steps, default=1) > 1:
        value = primitive.reshape(value, [n for count in counts for n in (count, 1)])
        value = primitive.pad(value, [p for step in steps for p in ((0, 0), (0, step - 1))])
        value = primitive.reshape(value, [c * s for c, s in zip(counts, steps, strict=True)])
        value = primitive.shrink(value, [(0, length) for length in lengths])
    value = primitive.flip(value, [k for k, part in enumerate(selection) if part.reversed])
    symbolic = [k for k, part in enumerate(selection) if _is_symbolic(part)]
    ends: list[tuple[Dim, Dim]] = [
        (0, 0) if k in symbolic else (part.begin, size - part.end)
        for k, (part, size) in enumerate(zip(selection, sizes, strict=True))
    ]
    value = primitive.pad(value, ends)
    if not symbolic:
        return value
    # Symbolic positions are gathered, not padded: so the sizes of x stay as they are.
    indices = [primitive.iota(sizes, k) for k in range(len(sizes))]
    for k in symbolic:
        indices[k] = indices[k] - selection[k].begin
    return primitive.gather(value, indices)


def _is_symbolic(part: AxisIndex) -> bool:
    """Return whether the length or the position of a slice is symbolic."""
    return not (isinstance(part.begin, int) and isinstance(part.end - part.begin, int))


# -- masks -----------------------------------------------------------------------------------------


def _needs_count(x: Tensor, key: Any, masks: Sequence[Mask], value: UOp) -> bool:
    """Whether an assignment depends on how many elements a mask chooses."""
    if isinstance(key, tuple) and len([part for part in key if part is not Ellipsis]) > 1:
        return True
    sizes = sizes_of(value)
    extra = len(sizes) - (x.ndim - masks[0].tensor.ndim)
    return extra > 1 or (extra == 1 and sizes[0] != 1)


def _with_known_masks(key: Any) -> Any:
    """Return a key with arrays of the values of its boolean tensors, which are computed."""
    if isinstance(key, tuple):
        return tuple(map(_with_known_masks, key))
    is_mask = isinstance(key, Tensor) and key.node.dtype is dtypes.boolean
    return key.numpy() if is_mask else key


def _assign_masked(x: UOp, key: Any, masks: Sequence[Mask], value: UOp) -> UOp:
    """Return x with the value where a mask is true; the value has the axes after the mask's."""
    mask = masks[0].tensor
    if isinstance(key, tuple) and [k for k in key if k is not Ellipsis] != [mask]:
        raise shape_error(
            "an assignment by a boolean tensor and other indices",
            "only x[mask] = value is possible while the mask is not known",
            "use porism.where, or index with mask.numpy()",
        )
    sizes = sizes_of(x)
    trailing = sizes[mask.ndim :]
    value_sizes = sizes_of(value)
    if len(value_sizes) > len(trailing) and not (
        len(value_sizes) == len(trailing) + 1 and value_sizes[0] == 1
    ):
        raise shape_error(
            f"a value of shape {to_text(value_sizes)} for x[mask]",
            "how many elements the mask chooses depends on its values, and shapes do not",
            "give a scalar or one value for all elements, or use porism.where",
        )
    expanded = primitive.broadcast(_broadcast_value(value, trailing), sizes)
    inside = primitive.reshape(mask.node, (*mask.shape, *[1] * len(trailing)))
    return primitive.expand(inside, sizes).where(expanded, x)


# -- arrays ----------------------------------------------------------------------------------------


def _assign_by_arrays(x: UOp, selection: Sequence[AxisIndex], value: UOp) -> UOp:
    """Return x in which each element has the value of the last index that refers to it.

    The axes with arrays are merged to one, which a flat index addresses; the part is changed there,
    and put back into x.
    """
    axis_indices = [part for part in selection if not part.new]
    part = slice_axes(x, axis_indices)
    sizes = sizes_of(part)
    array_axes = [k for k, axis_index in enumerate(axis_indices) if axis_index.is_array]
    other_axes = [k for k in range(len(axis_indices)) if k not in array_axes]
    axis_order, length = (*array_axes, *other_axes), product(sizes[k] for k in array_axes)
    remaining = [sizes[k] for k in other_axes]
    flat = primitive.reshape(primitive.permute(part, axis_order), (length, *remaining))

    plan = gather_layout(selection)
    last_write = _last_writer(
        axis_indices, sizes, plan.common, static_size(length, "an assignment by arrays")
    )
    new = _flatten_value(value, selection, sizes, plan)
    flat_sizes = (length, *remaining)
    last_write_at = primitive.expand(
        primitive.reshape(last_write, (length, *[1] * len(other_axes))), flat_sizes
    )
    indices = [
        last_write_at - 1,
        *(primitive.iota(flat_sizes, k) for k in range(1, len(flat_sizes))),
    ]
    flat = (last_write_at > 0).where(primitive.gather(new, indices), flat)

    back = primitive.reshape(flat, [sizes[k] for k in axis_order])
    back = primitive.permute(back, [axis_order.index(k) for k in range(len(axis_order))])
    undropped = [replace(axis_index, dropped=False) for axis_index in axis_indices]
    return _assign_slices(x, new_slicing(undropped, shape(x)), back)


def _flatten_value(
    value: UOp, selection: Sequence[AxisIndex], sizes: Sizes, plan: GatherLayout
) -> UOp:
    """Return the value with one axis for the elements of the arrays first, and without new axes."""
    remaining_sizes = iter(sizes)
    all_sizes = [1 if part.new else next(remaining_sizes) for part in selection]
    outer, inner = ([all_sizes[k] for k in group] for group in (plan.outer, plan.inner))
    value = _broadcast_value(value, (*outer, *plan.common, *inner))
    first, count = len(outer), len(plan.common)
    axes = range(len(outer) + count + len(inner))
    middle = [k for k in axes if first <= k < first + count]
    value = primitive.permute(value, (*middle, *(k for k in axes if k not in middle)))
    kept_sizes = [all_sizes[k] for k in (*plan.outer, *plan.inner) if not selection[k].new]
    return primitive.reshape(value, (product(plan.common), *kept_sizes))


def _last_writer(
    axis_indices: Sequence[AxisIndex], sizes: Sizes, common: Sizes, length: int
) -> UOp:
    """Return the last index that refers to each element of the flat axis, from 1; 0 if none."""
    shape = tuple(static_size(size, "an assignment by arrays") for size in common)
    count, stride = math.prod(shape), length
    known_index = np.zeros(shape, np.int64)
    flat_index: UOp | None = None
    for part, size in zip(axis_indices, sizes, strict=True):
        if not part.is_array:
            continue
        stride //= max(static_size(size, "an assignment by arrays"), 1)
        if isinstance(part.index, np.ndarray):
            known_index += part.index * stride
        elif part.index is not None:
            index = index_node(part.index, size)
            inside = (index >= 0) & (index < size)
            # an index out of range makes the sum negative, so that it refers to no element
            term = inside.where(index.maximum(0).minimum(size - 1) * stride, -length)
            flat_index = term if flat_index is None else ops.ADD(*broadcast(flat_index, term))
    if flat_index is None:
        last_writes = np.zeros(length, np.int64)
        flat = known_index.reshape(-1)
        np.maximum.at(last_writes, flat, np.arange(1, count + 1))
        return _clamp_index(own_array(last_writes).node, count)
    if known_index.any():
        node = _clamp_index(own_array(np.ascontiguousarray(known_index)).node, length)
        flat_index = ops.ADD(*broadcast(flat_index, node))
    flat_row = primitive.reshape(primitive.broadcast(flat_index, common), (1, count))
    grid = (length, count)
    hits = primitive.expand(flat_row, grid).eq(primitive.iota(grid, 0))
    number = primitive.cast(primitive.iota(grid, 1) + 1, dtypes.i64)
    last_hit = primitive.reduce(hits.where(number, number.lift(0)), ops.MAX, [1])
    return _clamp_index(primitive.reshape(last_hit, (length,)), count)


def _clamp_index(node: UOp, most: int) -> UOp:
    """Return integers known to be in 0 … most as index nodes whose bounds say so."""
    return primitive.cast(node, dtypes.index).maximum(0).minimum(most)
