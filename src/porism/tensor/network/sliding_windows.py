"""Sliding windows: all positions of a window over some axes, as a view made of movement ops.

Along one axis, window `i` has at tap `j` the element `i*stride + j*dilation`. Where windows do not
overlap, the axis is split into blocks of `stride` elements. Where they do, the axis is repeated and
reshaped to rows that are longer by `dilation`, so that each row starts `dilation` elements later.

    axis         a b c d                taps 3, dilation 1: rows of 5, of which 2 columns are kept
    repeated     a b c d a b c d a b c d a b c d …
    reshaped     a b c d a | b c d a b | c d a b c
    kept         a b       | b c       | c d
"""

from __future__ import annotations

from collections.abc import Sequence

from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.primitive import Dim


def window_count(size: int, taps: int, stride: int = 1, dilation: int = 1) -> int:
    """Return how many windows fit on an axis of `size` elements; 0 if it is too short for one.

    >>> window_count(7, 3), window_count(7, 3, stride=2), window_count(7, 3, dilation=4)
    (5, 3, 0)
    """
    window_span = (taps - 1) * dilation + 1
    return (size - window_span) // stride + 1 if size >= window_span else 0


def sliding_windows(
    x: UOp,
    axes: Sequence[int],
    taps: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> UOp:
    """Return x with the axes replaced by window indices, and an axis of taps for each at the end.

    The sizes of the axes must be known, and at least one window must fit on each.
    """
    # From the last axis on, so that the positions of the earlier ones do not change.
    order = sorted(range(len(axes)), key=lambda k: -axes[k])
    rank = len(shape(x))
    ends: list[int] = []
    for k in order:
        x = _split_axis(x, axes[k], taps[k], stride[k], dilation[k])
        x = _move_to_end(x, axes[k] + 1)
        ends.append(k)
    tap_axes = [rank + ends.index(k) for k in range(len(axes))]
    return primitive.permute(x, [*range(rank), *tap_axes])


def _move_to_end(x: UOp, axis: int) -> UOp:
    """Return x with an axis moved to the end."""
    others = [k for k in range(len(shape(x))) if k != axis]
    return primitive.permute(x, [*others, axis])


def _split_axis(x: UOp, axis: int, taps: int, stride: int, dilation: int) -> UOp:
    """Return x with an axis split in two: the window index and the tap."""
    dims = list[Dim](shape(x))
    size = shape(x)[axis].arg
    number = window_count(size, taps, stride, dilation)
    assert number > 0, "the axis is too short for a window"
    if number == 1:
        stride = taps * dilation
    row = dims[axis + 1 :]
    if taps * dilation <= stride:
        x = _resize_axis(x, axis, number * stride)
        x = primitive.reshape(x, [*dims[:axis], number, stride, *row])
        x = _resize_axis(x, axis + 1, taps * dilation)
        x = primitive.reshape(x, [*dims[:axis], number, taps, dilation, *row])
        return _take_first(x, axis + 2)
    span = (number - 1) * stride + (taps - 1) * dilation + 1
    width = span + dilation
    copies = -(-taps * width // span)
    x = _resize_axis(x, axis, span)
    x = primitive.reshape(x, [*dims[:axis], 1, span, *row])
    x = primitive.expand(x, [*dims[:axis], copies, span, *row])
    x = primitive.reshape(x, [*dims[:axis], copies * span, *row])
    x = _resize_axis(x, axis, taps * width)
    x = primitive.reshape(x, [*dims[:axis], taps, width, *row])
    x = _resize_axis(x, axis + 1, number * stride)
    x = primitive.reshape(x, [*dims[:axis], taps, number, stride, *row])
    x = _take_first(x, axis + 2)
    rank = len(dims) + 1
    return primitive.permute(x, [*range(axis), axis + 1, axis, *range(axis + 2, rank)])


def _resize_axis(x: UOp, axis: int, size: int) -> UOp:
    """Return x with an axis truncated, or padded with zeros, to a size."""
    dims = shape(x)
    old = dims[axis].arg
    if size > old:
        return primitive.pad(x, [(0, (k == axis) * (size - old)) for k in range(len(dims))])
    return primitive.shrink(x, [(0, size if k == axis else d) for k, d in enumerate(dims)])


def _take_first(x: UOp, axis: int) -> UOp:
    """Return the first element along an axis, which is dropped."""
    dims = list[Dim](shape(_resize_axis(x, axis, 1)))
    return primitive.reshape(_resize_axis(x, axis, 1), dims[:axis] + dims[axis + 1 :])
