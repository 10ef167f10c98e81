"""Reshaping: axes split, merged, permuted, reversed and broadcast; no element is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.complex.complex_dispatch import accepts_complex
from porism.tensor.conversion import as_tensor
from porism.tensor.primitive import Dim
from porism.tensor.shapes import (
    Sizes,
    as_int,
    as_sizes,
    broadcast_shapes,
    is_one,
    joined_sizes,
    normalize_axes,
    normalize_axis,
    product,
    shape_error,
    size_text,
    sizes_equal,
    sizes_of,
    to_text,
)
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method

# -- reshape ---------------------------------------------------------------------------------------


@method
def reshape(x: Any, shape: Any = (), *sizes: Any, copy: bool | None = None) -> Tensor:
    """Return the elements in row-major order under another shape; one size -1 is inferred.

    `copy` is accepted for the Array API and changes nothing.

    >>> porism.reshape([1, 2, 3, 4], 2, -1).tolist()
    [[1, 2], [3, 4]]
    """
    node = as_tensor(x).node
    wanted = as_sizes(joined_sizes(shape, sizes), allow=-1)
    return Tensor(primitive.reshape(node, _infer_size(sizes_of(node), wanted)))


def _infer_size(old: Sizes, new: Sizes) -> Sizes:
    """Return the new sizes with -1 replaced; refuse them if the numbers of elements differ."""
    inferred_axes = [k for k, size in enumerate(new) if isinstance(size, int) and size == -1]
    if len(inferred_axes) > 1:
        raise shape_error(
            f"cannot reshape {to_text(old)} to {to_text(new)}",
            "-1 stands for the one size that follows from the others",
            "write -1 once at most",
        )
    given = [size for k, size in enumerate(new) if k not in inferred_axes]
    old_count, new_count = _counts_without_common_symbols(old, given)
    are_ints = isinstance(old_count, int) and isinstance(new_count, int)
    if not inferred_axes:
        if are_ints and old_count != new_count:
            reason = f"they have {product(old)} and {product(new)} elements"
            raise _element_count_mismatch(old, new, reason)
        return new
    if are_ints and (new_count == 0 or old_count % new_count):
        reason = f"{product(old)} elements do not divide by {new_count}"
        raise _element_count_mismatch(
            old, new, reason if new_count else "any size goes with 0 elements"
        )
    inferred: Dim = old_count // new_count if are_ints else _divide_sizes(old_count, new_count)
    return tuple(inferred if k in inferred_axes else size for k, size in enumerate(new))


def _counts_without_common_symbols(old: Sizes, new: Sequence[Dim]) -> tuple[Dim, Dim]:
    """Return the products of two shapes, without the symbolic sizes that both have."""
    before, after = list(old), list(new)
    for size in [s for s in after if not isinstance(s, int)]:
        matching_axis = next((k for k, s in enumerate(before) if sizes_equal(s, size)), None)
        if matching_axis is not None:
            before.pop(matching_axis)
            after.remove(size)
    return product(before), product(after)


def _divide_sizes(total: Dim, divisor: Dim) -> Dim:
    """Return the quotient of two sizes, of which one may be symbolic."""
    return total if is_one(divisor) else total // divisor


def _element_count_mismatch(old: Sizes, new: Sizes, why: str) -> Exception:
    """Return the error for a shape with another number of elements."""
    return shape_error(
        f"cannot reshape {to_text(old)} to {to_text(new)}",
        why,
        "give sizes with as many elements; slicing, pad and expand change the number",
    )


@method
def flatten(x: Any, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Return x with the axes from `start_axis` to `end_axis` merged to one; a scalar gets one axis.

    >>> porism.flatten([[1, 2], [3, 4]]).tolist()
    [1, 2, 3, 4]
    """
    tensor = as_tensor(x)
    if isinstance(start_axis, str):  # NumPy's order
        if start_axis == "F":
            raise shape_error(
                "flatten in column-major order",
                "elements are in row-major order",
                "transpose before: x.T.flatten()",
            )
        start_axis = 0
    if not tensor.ndim:
        return reshape(tensor, 1)
    first = normalize_axis(start_axis, tensor.ndim, "start_axis")
    last = normalize_axis(end_axis, tensor.ndim, "end_axis")
    if first > last:
        raise shape_error(
            f"flatten from axis {first} to axis {last}",
            "the first axis comes after the last",
            "swap start_axis and end_axis",
        )
    sizes = tensor.shape
    joined = product(sizes[first : last + 1])
    return Tensor(primitive.reshape(tensor.node, (*sizes[:first], joined, *sizes[last + 1 :])))


@method
def unflatten(x: Any, axis: int, sizes: Any) -> Tensor:
    """Return x with one axis split into several of the given sizes, of which one may be -1.

    >>> porism.unflatten([1, 2, 3, 4], 0, (2, -1)).tolist()
    [[1, 2], [3, 4]]
    """
    tensor = as_tensor(x)
    split_axis = normalize_axis(axis, tensor.ndim)
    old_sizes = tensor.shape
    parts = _infer_size((old_sizes[split_axis],), as_sizes(sizes, allow=-1))
    return Tensor(
        primitive.reshape(
            tensor.node, (*old_sizes[:split_axis], *parts, *old_sizes[split_axis + 1 :])
        )
    )


@method
def expand_dims(x: Any, axis: Any = 0) -> Tensor:
    """Return x with new axes of size 1 at the given positions of the result.

    >>> porism.expand_dims([1, 2], 1).tolist()
    [[1], [2]]
    """
    tensor = as_tensor(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    new_axes = normalize_axes(axis, tensor.ndim + count)
    old_sizes = iter(tensor.shape)
    sizes = [1 if k in new_axes else next(old_sizes) for k in range(tensor.ndim + count)]
    return Tensor(primitive.reshape(tensor.node, sizes))


@method
def unsqueeze(x: Any, axis: Any) -> Tensor:
    """Return x with new axes of size 1: PyTorch's name for `expand_dims`.

    >>> porism.unsqueeze([1, 2], 0).tolist()
    [[1, 2]]
    """
    return expand_dims(x, axis)


@method
def squeeze(x: Any, axis: Any = None) -> Tensor:
    """Return x without the given axes, which have size 1; without all axes of size 1 by default.

    >>> porism.squeeze([[1, 2]]).tolist()
    [1, 2]
    """
    tensor = as_tensor(x)
    sizes = tensor.shape
    if axis is None:
        dropped = tuple(k for k, size in enumerate(sizes) if is_one(size))
    else:
        dropped = normalize_axes(axis, tensor.ndim)
    for squeezed in dropped:
        if not is_one(sizes[squeezed]):
            raise shape_error(
                f"cannot squeeze axis {squeezed} of a tensor of shape {to_text(sizes)}",
                f"its size is {size_text(sizes[squeezed])}, and not 1",
                "name axes of size 1, or index the axis with an int",
            )
    return Tensor(
        primitive.reshape(tensor.node, [s for k, s in enumerate(sizes) if k not in dropped])
    )


# -- order of axes ---------------------------------------------------------------------------------


@method
def permute_dims(x: Any, axes: Any = (), *others: Any) -> Tensor:
    """Return x with its axes in another order: axis `axes[k]` becomes axis k.

    >>> porism.permute_dims(porism.zeros(2, 3, 4), (2, 0, 1)).shape
    (4, 2, 3)
    """
    tensor = as_tensor(x)
    joined = joined_sizes(axes, others)
    order_given = joined if isinstance(joined, (tuple, list)) else (joined,)
    order = normalize_axes(tuple(order_given), tensor.ndim)
    if len(order) != tensor.ndim:
        raise shape_error(
            f"permute_dims by {tuple(order_given)} of a tensor of shape {to_text(tensor.shape)}",
            f"the tensor has {tensor.ndim} axes, and the order names {len(order)}",
            "name every axis once",
        )
    return Tensor(primitive.permute(tensor.node, order))


@method
def permute(x: Any, *axes: Any) -> Tensor:
    """Return x with its axes in another order: PyTorch's name for `permute_dims`.

    >>> porism.permute(porism.zeros(2, 3, 4), 2, 0, 1).shape
    (4, 2, 3)
    """
    return permute_dims(x, *axes)


@method
def transpose(x: Any, *axes: Any) -> Tensor:
    """Return x with two axes swapped, as in PyTorch, or in an order of all axes, as in NumPy.

    Two ints are swapped; a tuple is the order of all axes; without arguments the order is reversed.

    >>> porism.transpose([[1, 2], [3, 4]]).tolist(), porism.zeros(2, 3, 4).transpose(0, 1).shape
    ([[1, 3], [2, 4]], (3, 2, 4))
    """
    tensor = as_tensor(x)
    if not axes:
        return permute_dims(tensor, tuple(range(tensor.ndim))[::-1])
    if len(axes) == 2:
        return swapaxes(tensor, *axes)
    return permute_dims(tensor, *axes)


@method
def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Return x with two axes swapped.

    >>> porism.swapaxes(porism.zeros(2, 3, 4), 0, 2).shape
    (4, 3, 2)
    """
    tensor = as_tensor(x)
    a, b = normalize_axis(axis1, tensor.ndim), normalize_axis(axis2, tensor.ndim)
    order = list(range(tensor.ndim))
    order[a], order[b] = b, a
    return Tensor(primitive.permute(tensor.node, order))


@method
def moveaxis(x: Any, source: Any, destination: Any) -> Tensor:
    """Return x with axes moved from positions `source` to `destination`; the rest keep their order.

    >>> porism.moveaxis(porism.zeros(2, 3, 4), 0, -1).shape
    (3, 4, 2)
    """
    tensor = as_tensor(x)
    moved = normalize_axes(source, tensor.ndim, "source")
    targets = normalize_axes(destination, tensor.ndim, "destination")
    if len(moved) != len(targets):
        raise shape_error(
            f"moveaxis of {len(moved)} axes to {len(targets)} positions",
            "each axis that moves has one new position",
            "name as many positions as axes",
        )
    rest = iter([k for k in range(tensor.ndim) if k not in moved])
    source_of = dict(zip(targets, moved, strict=True))
    order = [source_of[k] if k in source_of else next(rest) for k in range(tensor.ndim)]
    return Tensor(primitive.permute(tensor.node, order))


@method
def matrix_transpose(x: Any) -> Tensor:
    """Return x with its last two axes swapped, as `x.mT`.

    >>> porism.matrix_transpose([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    tensor = as_tensor(x)
    if tensor.ndim < 2:
        raise shape_error(
            f"matrix_transpose of a tensor of shape {to_text(tensor.shape)}",
            "a matrix has two axes",
            "add an axis with expand_dims",
        )
    return swapaxes(tensor, -1, -2)


@method
def flip(x: Any, axis: Any = None) -> Tensor:
    """Return x with the elements along the given axes in reverse order; along all axes by default.

    >>> porism.flip([1, 2, 3]).tolist()
    [3, 2, 1]
    """
    tensor = as_tensor(x)
    return Tensor(primitive.flip(tensor.node, normalize_axes(axis, tensor.ndim)))


# -- broadcasting and views ------------------------------------------------------------------------


@method
def broadcast_to(x: Any, shape: Any) -> Tensor:
    """Return x repeated along axes of size 1 and new leading axes to a shape.

    >>> porism.broadcast_to([1, 2], (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    tensor = as_tensor(x)
    sizes = as_sizes(shape)
    common = broadcast_shapes(tensor.shape, sizes)
    if len(common) != len(sizes) or not all(map(sizes_equal, common, sizes)):
        raise shape_error(
            f"cannot broadcast {to_text(tensor.shape)} to {to_text(sizes)}",
            "only axes of size 1 are repeated, and no axis is dropped",
            "sum or index the axes that are too many, or broadcast both with broadcast_arrays",
        )
    return Tensor(primitive.broadcast(tensor.node, sizes))


@method
def expand(x: Any, *sizes: Any) -> Tensor:
    """Return x broadcast to the given sizes, where -1 keeps the size of an axis.

    >>> porism.expand([[1], [2]], -1, 2).tolist()
    [[1, 1], [2, 2]]
    """
    tensor = as_tensor(x)
    wanted = as_sizes(sizes, allow=-1)
    old_sizes = (None,) * (len(wanted) - tensor.ndim) + tensor.shape
    expanded: list[Dim] = []
    for size, old in zip(wanted, old_sizes[len(old_sizes) - len(wanted) :], strict=True):
        if isinstance(size, int) and size == -1:
            if old is None:
                raise shape_error(
                    f"expand of {to_text(tensor.shape)} to {to_text(wanted)}",
                    "-1 leaves an axis as it is, and a new axis has no size yet",
                    "give the size of the new axis",
                )
            size = old
        expanded.append(size)
    return broadcast_to(tensor, tuple(expanded))


@accepts_complex
def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """Return all tensors broadcast to their common shape.

    >>> [x.tolist() for x in porism.broadcast_arrays([1, 2], 3)]
    [[1, 2], [3, 3]]
    """
    tensors = [as_tensor(x) for x in arrays]
    common = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(Tensor(primitive.broadcast(t.node, common)) for t in tensors)


@method
def diagonal(x: Any, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Return the elements whose column index is their row index plus `offset`, as the last axis.

    >>> porism.diagonal([[1, 2], [3, 4]]).tolist(), porism.diagonal([[1, 2], [3, 4]], 1).tolist()
    ([1, 4], [2])
    """
    tensor = as_tensor(x)
    rows, columns = normalize_axes((axis1, axis2), tensor.ndim)
    rest = [k for k in range(tensor.ndim) if k not in (rows, columns)]
    node = primitive.permute(tensor.node, (*rest, rows, columns))
    *outer, n, m = (static_size(size, "diagonal") for size in sizes_of(node))
    first_row, first_column = max(-offset, 0), max(offset, 0)
    length = max(min(n - first_row, m - first_column), 0)
    if not length:
        return Tensor(slice_axis(primitive.reshape(node, (*outer, n * m)), len(outer), 0, 0))
    part = [(first_row, first_row + length), (first_column, first_column + length)]
    node = primitive.shrink(node, [*((0, size) for size in outer), *part])
    # In rows longer by one, each begins one element later: its first is on the diagonal.
    flat = primitive.reshape(node, (*outer, length * length))
    flat = primitive.pad(flat, [*((0, 0) for _ in outer), (0, length)])
    longer = primitive.reshape(flat, (*outer, length, length + 1))
    first = primitive.shrink(longer, [*((0, size) for size in (*outer, length)), (0, 1)])
    return Tensor(primitive.reshape(first, (*outer, length)))


@method
def pixel_shuffle(x: Any, upscale_factor: int) -> Tensor:
    """Return channels rearranged to pixels: (…, c·r², h, w) becomes (…, c, h·r, w·r).

    >>> porism.pixel_shuffle([[[1]], [[2]], [[3]], [[4]]], 2).tolist()
    [[[1, 2], [3, 4]]]
    """
    tensor, r = as_tensor(x), as_int(upscale_factor, "upscale_factor")
    outer, (channels, height, width) = _image_sizes(tensor, "pixel_shuffle")
    if r < 1 or (isinstance(channels, int) and channels % (r * r)):
        raise shape_error(
            f"pixel_shuffle by {r} of a tensor of shape {to_text(tensor.shape)}",
            f"{size_text(channels)} channels do not divide by {r}·{r}",
            "choose a factor whose square divides the channels",
        )
    c = channels // (r * r)
    node = primitive.reshape(tensor.node, (*outer, c, r, r, height, width))
    k = len(outer)
    node = primitive.permute(node, (*range(k + 1), k + 3, k + 1, k + 4, k + 2))
    return Tensor(primitive.reshape(node, (*outer, c, height * r, width * r)))


@method
def pixel_unshuffle(x: Any, downscale_factor: int) -> Tensor:
    """Return pixels rearranged to channels: (…, c, h·r, w·r) becomes (…, c·r², h, w).

    >>> porism.pixel_unshuffle([[[1, 2], [3, 4]]], 2).tolist()
    [[[1]], [[2]], [[3]], [[4]]]
    """
    tensor, r = as_tensor(x), as_int(downscale_factor, "downscale_factor")
    outer, (channels, height, width) = _image_sizes(tensor, "pixel_unshuffle")
    if r < 1 or any(isinstance(size, int) and size % r for size in (height, width)):
        raise shape_error(
            f"pixel_unshuffle by {r} of a tensor of shape {to_text(tensor.shape)}",
            f"{r} does not divide the height and the width",
            "choose a factor that divides both, or pad first",
        )
    h, w = height // r, width // r
    node = primitive.reshape(tensor.node, (*outer, channels, h, r, w, r))
    k = len(outer)
    node = primitive.permute(node, (*range(k + 1), k + 2, k + 4, k + 1, k + 3))
    return Tensor(primitive.reshape(node, (*outer, channels * (r * r), h, w)))


def _image_sizes(tensor: Tensor, what: str) -> tuple[Sizes, Sizes]:
    """Return the leading sizes and the last three (channels, height, width)."""
    if tensor.ndim < 3:
        raise shape_error(
            f"{what} of a tensor of shape {to_text(tensor.shape)}",
            "it needs axes for channels, height and width",
            "add axes with expand_dims",
        )
    return tensor.shape[:-3], tensor.shape[-3:]


def slice_axis(x: UOp, axis: int, begin: Dim, end: Dim) -> UOp:
    """Return the elements of a node from `begin` up to `end` along one axis."""
    pairs: list[tuple[Dim, Dim]] = [(0, size) for size in sizes_of(x)]
    pairs[axis] = (begin, end)
    return primitive.shrink(x, pairs)


def axis_last(axis: int, rank: int) -> tuple[list[int], list[int]]:
    """Return the permutation that moves an axis to the end, and its inverse.

    >>> axis_last(0, 3)
    ([1, 2, 0], [2, 0, 1])
    """
    order = [*(k for k in range(rank) if k != axis), axis]
    return order, [order.index(k) for k in range(rank)]
