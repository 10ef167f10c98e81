"""Stacking: tensors joined and split by rows, columns and depth, rotated and mirrored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from porism.tensor.api.creation import asarray
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.joining import concat, split
from porism.tensor.movement.reshape import expand_dims, flip, reshape, slice_axis, swapaxes
from porism.tensor.shapes import as_int, normalize_axes, normalize_axis, shape_error, to_text
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method

# -- at least so many axes -------------------------------------------------------------------------


@method
def atleast_1d(x: Any) -> Tensor:
    """Return x, a scalar with one axis.

    >>> porism.atleast_1d(3).tolist()
    [3]
    """
    tensor = asarray(x, copy=True)
    return tensor if tensor.ndim else reshape(tensor, 1)


@method
def atleast_2d(x: Any) -> Tensor:
    """Return x with at least two axes; new axes come first.

    >>> porism.atleast_2d([1, 2]).tolist()
    [[1, 2]]
    """
    tensor = atleast_1d(x)
    return tensor if tensor.ndim > 1 else expand_dims(tensor, 0)


@method
def atleast_3d(x: Any) -> Tensor:
    """Return x with at least three axes: a vector becomes (1, n, 1), a matrix (n, m, 1).

    >>> porism.atleast_3d([1, 2]).shape
    (1, 2, 1)
    """
    tensor = atleast_2d(x)
    return tensor if tensor.ndim > 2 else expand_dims(tensor, 2)


# -- joined ----------------------------------------------------------------------------------------


def vstack(arrays: Any) -> Tensor:
    """Return tensors joined along axis 0; vectors are rows.

    >>> porism.vstack([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    return concat([atleast_2d(x) for x in arrays], 0)


def hstack(arrays: Any) -> Tensor:
    """Return tensors joined along axis 1; vectors along their only axis.

    >>> porism.hstack([[1, 2], [3]]).tolist()
    [1, 2, 3]
    """
    tensors = [atleast_1d(x) for x in arrays]
    return concat(tensors, 0 if tensors and tensors[0].ndim == 1 else 1)


def dstack(arrays: Any) -> Tensor:
    """Return tensors joined along axis 2, which vectors and matrices get.

    >>> porism.dstack([[1, 2], [3, 4]]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return concat([atleast_3d(x) for x in arrays], 2)


def column_stack(arrays: Any) -> Tensor:
    """Return tensors joined along axis 1; vectors are columns.

    >>> porism.column_stack([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    tensors = [as_tensor(x) for x in arrays]
    return concat([x if x.ndim > 1 else reshape(x, -1, 1) for x in tensors], 1)


# -- split -----------------------------------------------------------------------------------------


@method
def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Return so many slices along an axis, the first ones longer by one where it does not divide.

    With a list, they are cut at those indices.

    >>> [part.tolist() for part in porism.array_split([1, 2, 3], 2)]
    [[1, 2], [3]]
    """
    tensor = as_tensor(x)
    cut_axis = normalize_axis(axis, tensor.ndim)
    size = static_size(tensor.shape[cut_axis], "array_split")
    if isinstance(indices_or_sections, (list, tuple, np.ndarray)):
        cuts = [as_int(k, "an index of a cut") for k in indices_or_sections]
        ends = [min(max(k + size if k < 0 else k, 0), size) for k in cuts]
        bounds = list(zip([0, *ends], [*ends, size], strict=True))
        return [Tensor(slice_axis(tensor.node, cut_axis, a, max(a, b))) for a, b in bounds]
    count = as_int(indices_or_sections, "the number of parts")
    if count < 1:
        raise shape_error(f"{count} parts", "there is at least one part", "give 1 or more")
    return split(tensor, [size // count + (k < size % count) for k in range(count)], cut_axis)


def _split_evenly(x: Any, sections: Any, axis: int, what: str) -> list[Tensor]:
    """Return slices of equal size, or slices cut at a list of indices."""
    tensor = as_tensor(x)
    if tensor.ndim <= axis:
        raise shape_error(
            f"{what} of a tensor of shape {to_text(tensor.shape)}",
            f"it is split along axis {axis}",
            "split along another axis, with porism.split",
        )
    size = static_size(tensor.shape[axis], what)
    if isinstance(sections, int) and (sections < 1 or size % sections):
        raise shape_error(
            f"{what} of {size} elements into {sections} parts",
            "the parts have equal sizes",
            "use array_split, whose parts may differ by one",
        )
    return array_split(tensor, sections, axis)


@method
def hsplit(x: Any, indices_or_sections: Any) -> list[Tensor]:
    """Return equal slices along axis 1, or along the only axis; a list cuts at its indices.

    >>> [part.tolist() for part in porism.hsplit([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    """
    return _split_evenly(x, indices_or_sections, 0 if as_tensor(x).ndim == 1 else 1, "hsplit")


@method
def vsplit(x: Any, indices_or_sections: Any) -> list[Tensor]:
    """Return equal slices along axis 0; a list cuts at its indices.

    >>> [part.tolist() for part in porism.vsplit([[1, 2], [3, 4]], 2)]
    [[[1, 2]], [[3, 4]]]
    """
    return _split_evenly(x, indices_or_sections, 0, "vsplit")


@method
def narrow(x: Any, axis: int, start: int, length: int) -> Tensor:
    """Return `length` elements along an axis from `start` on.

    >>> porism.narrow([1, 2, 3, 4], 0, 1, 2).tolist()
    [2, 3]
    """
    tensor = as_tensor(x)
    cut_axis = normalize_axis(axis, tensor.ndim)
    size = static_size(tensor.shape[cut_axis], "narrow")
    first, count = as_int(start, "start"), as_int(length, "length")
    first = first + size if first < 0 else first
    if not (first >= 0 and count >= 0 and first + count <= size):
        raise shape_error(
            f"narrow to {count} elements from {start} on, along an axis of {size}",
            "they are not all inside of the axis",
            "give a smaller start or length",
        )
    return Tensor(slice_axis(tensor.node, cut_axis, first, first + count))


# -- rotated and mirrored --------------------------------------------------------------------------


@method
def flipud(x: Any) -> Tensor:
    """Return x with its rows (axis 0) in reverse order.

    >>> porism.flipud([[1, 2], [3, 4]]).tolist()
    [[3, 4], [1, 2]]
    """
    return flip(x, 0)


@method
def fliplr(x: Any) -> Tensor:
    """Return x with its columns (axis 1) in reverse order.

    >>> porism.fliplr([[1, 2], [3, 4]]).tolist()
    [[2, 1], [4, 3]]
    """
    return flip(x, 1)


@method
def rot90(x: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Return x rotated by k right angles in the plane of two axes, from the first to the second.

    >>> porism.rot90([[1, 2], [3, 4]]).tolist()
    [[2, 4], [1, 3]]
    """
    tensor = asarray(x, copy=True)
    if len(axes) != 2:
        raise shape_error(f"rot90 in {len(axes)} axes", "a plane has two", "pass two axes")
    first, second = normalize_axes(tuple(axes), tensor.ndim, "axes")
    turns = as_int(k, "k") % 4
    if turns == 2:
        return flip(tensor, (first, second))
    if turns == 1:
        return swapaxes(flip(tensor, second), first, second)
    return flip(swapaxes(tensor, first, second), second) if turns else tensor
