"""Repetition: repeated elements and tensors, and sliding windows as columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from porism.tensor import primitive
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.indexing import getitem
from porism.tensor.movement.reshape import flatten
from porism.tensor.network.sliding_windows import sliding_windows, window_count
from porism.tensor.shapes import as_int, as_sizes, normalize_axis, product, shape_error, to_text
from porism.tensor.static_sizes import per_axis, static_size
from porism.tensor.tensor import Tensor, method


@method
def repeat(x: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """Return x with each element repeated along an axis; x is flattened if axis is None.

    `repeats` is an int, or one int for each element of the axis. A tensor of them is computed at
    once, since the shape of the result depends on its values.

    >>> porism.repeat([1, 2], 2).tolist(), porism.repeat([1, 2], [0, 3]).tolist()
    ([1, 1, 2, 2], [2, 2, 2])
    """
    tensor = as_tensor(x)
    if axis is None:
        tensor, axis = flatten(tensor), 0
    repeated_axis = normalize_axis(axis, tensor.ndim)
    sizes = tensor.shape
    if isinstance(repeats, (list, tuple, np.ndarray, Tensor)):
        counts = repeats.numpy() if isinstance(repeats, Tensor) else np.asarray(repeats)
        if counts.size != 1:
            return _unevenly(tensor, counts, repeated_axis)
        repeats = counts.reshape(-1)[0]
    count = as_int(repeats, "repeats")
    if count < 0:
        raise shape_error(
            f"{count} repeats", "a number of repeats is not negative", "give 0 or more"
        )
    before, after = sizes[:repeated_axis], sizes[repeated_axis + 1 :]
    node = primitive.reshape(tensor.node, (*before, sizes[repeated_axis], 1, *after))
    node = primitive.expand(node, (*before, sizes[repeated_axis], count, *after))
    return Tensor(primitive.reshape(node, (*before, sizes[repeated_axis] * count, *after)))


def _unevenly(tensor: Tensor, repeats: Any, axis: int) -> Tensor:
    """Return x with each element along an axis repeated a number of times of its own."""
    size = static_size(tensor.shape[axis], "repeat by a list")
    if repeats.size == 0:  # NumPy makes an empty list an array of floats
        repeats = repeats.astype(np.int64)
    if repeats.shape != (size,) or repeats.dtype.kind not in "biu" or (repeats < 0).any():
        raise shape_error(
            f"repeats of shape {repeats.shape} along an axis of {size} elements",
            "there is one number for each element, and none is negative",
            "give an int, or as many as the axis has elements",
        )
    return getitem(tensor, (*[slice(None)] * axis, np.repeat(np.arange(size), repeats)))


@method
def tile(x: Any, repetitions: Any) -> Tensor:
    """Return the whole tensor repeated along each axis; further repetitions add leading axes.

    >>> porism.tile([1, 2], (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    tensor = as_tensor(x)
    repeats = as_sizes(repetitions)
    repeats = (1,) * (tensor.ndim - len(repeats)) + repeats
    sizes = (1,) * (len(repeats) - tensor.ndim) + tensor.shape
    paired = [s for size in sizes for s in (1, size)]
    expanded = [s for n, size in zip(repeats, sizes, strict=True) for s in (n, size)]
    node = primitive.expand(primitive.reshape(tensor.node, paired), expanded)
    result_sizes = [product(pair) for pair in zip(repeats, sizes, strict=True)]
    return Tensor(primitive.reshape(node, result_sizes))


@method
def unfold(
    x: Any, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1
) -> Tensor:
    """Return windows as columns (im2col): (n, c, h, w) becomes (n, c·taps, windows).

    It is a view: nothing is computed or copied. The arguments are those of `conv2d`.

    >>> porism.unfold([[[1, 2, 3]]], 2).tolist()
    [[[1, 2], [2, 3]]]
    """
    tensor = as_tensor(x)
    if tensor.ndim < 3:
        raise shape_error(
            f"unfold of a tensor of shape {to_text(tensor.shape)}",
            "it needs axes for the batch, the channels and at least one spatial axis",
            "add axes with expand_dims",
        )
    n, c, *spatial_sizes = tensor.shape
    rank = len(spatial_sizes)
    taps, strides = (
        per_axis(kernel_size, rank, "kernel_size", 1),
        per_axis(stride, rank, "stride", 1),
    )
    dilations, paddings = (
        per_axis(dilation, rank, "dilation", 1),
        per_axis(padding, rank, "padding", 0),
    )
    sizes = [
        static_size(size, "unfold") + 2 * p for size, p in zip(spatial_sizes, paddings, strict=True)
    ]
    counts = [window_count(*window) for window in zip(sizes, taps, strides, dilations, strict=True)]
    if min(counts) < 1:
        raise shape_error(
            f"unfold of spatial sizes {to_text(sizes)} with windows of {to_text(taps)}",
            "the windows are larger than the padded tensor",
            "use a smaller kernel_size or dilation, or more padding",
        )
    node = primitive.pad(tensor.node, [(0, 0), (0, 0), *((p, p) for p in paddings)])
    node = sliding_windows(node, range(2, 2 + rank), taps, strides, dilations)
    node = primitive.permute(node, (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank)))
    return Tensor(primitive.reshape(node, (n, c * product(taps), product(counts))))
