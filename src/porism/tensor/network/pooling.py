"""Pooling: the maximum or mean of sliding windows over the last axes.

Padding counts as the smallest value of the type for a maximum, and as zeros for a mean, which are
counted as elements or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from porism.base import dtypes
from porism.gradient.stated_pullbacks import differentiated_as
from porism.ir import ops
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.tensor import primitive, shapes
from porism.tensor.api.operands import float_node
from porism.tensor.api.reductions import drop_axes
from porism.tensor.conversion import as_tensor
from porism.tensor.float_formulas import in_f32
from porism.tensor.movement.pad import pad_with_value
from porism.tensor.network.sliding_windows import sliding_windows, window_count
from porism.tensor.primitive import Dim
from porism.tensor.static_sizes import per_axis, static_size
from porism.tensor.tensor import Tensor, method

Numbers = int | Sequence[int]


def require_rank(name: str, spatial: int, x: Tensor) -> None:
    """Refuse a tensor that is neither (batch, channels, size…) nor (channels, size…)."""
    if x.ndim not in (spatial + 1, spatial + 2):
        raise shapes.shape_error(
            f"{name} of a tensor of shape {shapes.to_text(x.shape)}",
            f"its axes are (batch, channels, …), with {spatial} after the channels; the batch may "
            "be missing",
            "add axes with reshape, or use the function for another number of axes",
        )


@dataclass(frozen=True)
class WindowAxis:
    """The windows along one axis."""

    axis: int
    size: int
    taps: int
    stride: int
    padding: int
    dilation: int
    count: int  # of windows

    @property
    def overhang(self) -> int:
        """The number of elements that the last window needs beyond the padded input."""
        last = (self.count - 1) * self.stride + (self.taps - 1) * self.dilation + 1
        return max(last - self.size - 2 * self.padding, 0)


def _window_axis(
    name: str,
    axis: int,
    size: Dim,
    taps: int,
    stride: int,
    padding: int,
    dilation: int,
    ceil_mode: bool,
) -> WindowAxis:
    """Return the windows along an axis; refuse a window that does not fit."""
    length = static_size(size, name)
    if 2 * padding > taps:
        raise shapes.shape_error(
            f"{name} with a window of {taps} and a padding of {padding}",
            "a window could lie in the padding alone",
            "pad by half of the window at most",
        )
    padded = length + 2 * padding
    extra = stride - 1 if ceil_mode else 0
    count = window_count(padded + extra, taps, stride, dilation) if padded else 0
    if ceil_mode and (count - 1) * stride >= length + padding:
        count -= 1  # it would begin after the input
    if count < 1:
        raise shapes.shape_error(
            f"{name} with a window of {(taps - 1) * dilation + 1} over an axis of {padded}",
            "the window is longer than the padded input",
            "use a smaller window, or pad more",
        )
    return WindowAxis(axis, length, taps, stride, padding, dilation, count)


def _window_axes(
    name: str,
    spatial: int,
    x: Tensor,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool,
) -> list[WindowAxis]:
    """Return the windows along each of the last `spatial` axes of x."""
    require_rank(name, spatial, x)
    taps = per_axis(kernel_size, spatial, "kernel_size", 1)
    strides = taps if stride is None else per_axis(stride, spatial, "stride", 1)
    paddings = per_axis(padding, spatial, "padding", 0)
    dilations = per_axis(dilation, spatial, "dilation", 1)
    first = x.ndim - spatial
    return [
        _window_axis(
            name,
            first + k,
            x.shape[first + k],
            taps[k],
            strides[k],
            paddings[k],
            dilations[k],
            ceil_mode,
        )
        for k in range(spatial)
    ]


def _windows(x: UOp, axes: Sequence[WindowAxis], value: float) -> UOp:
    """Return the sliding windows of x, with `value` outside of the input."""
    pads: list[tuple[Dim, Dim]] = [(0, 0)] * (len(shapes.sizes_of(x)) - len(axes))
    pads += [(axis.padding, axis.padding + axis.overhang) for axis in axes]
    padded = pad_with_value(x, pads, value)
    if shapes.sizes_equal(shapes.product(shapes.sizes_of(x)), 0):
        outer = shapes.sizes_of(x)[: -len(axes)]
        view = [*outer, *(axis.count for axis in axes), *(axis.taps for axis in axes)]
        return primitive.full(x.dtype, value, view)
    return sliding_windows(
        padded,
        [axis.axis for axis in axes],
        [axis.taps for axis in axes],
        [axis.stride for axis in axes],
        [axis.dilation for axis in axes],
    )


def _reduce_taps(view: UOp, op: Op, tap_axes: int) -> UOp:
    """Return a reduction over the last `tap_axes` axes, which are dropped."""
    rank = len(shapes.sizes_of(view))
    axes = range(rank - tap_axes, rank)
    return drop_axes(primitive.reduce(view, op, axes), axes)


# -- max pooling -----------------------------------------------------------------------------------


def _max_pool(
    spatial: int,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool,
) -> Tensor:
    """Return the maximum of windows over `spatial` axes: max_pool1d, 2d and 3d."""
    tensor = as_tensor(x)
    name = f"max_pool{spatial}d"
    axes = _window_axes(name, spatial, tensor, kernel_size, stride, padding, dilation, ceil_mode)
    lowest = identity(ops.MAX, tensor.node.dtype)
    assert lowest is not None
    view = _windows(tensor.node, axes, lowest)
    result = _reduce_taps(view, ops.MAX, spatial)
    return Tensor(differentiated_as(result, lambda: _first_of_taps(view, result, spatial)))


def _first_of_taps(view: UOp, extremes: UOp, tap_axes: int) -> UOp:
    """Return the maximum of each window as a sum in which only the first such element counts."""
    sizes = shapes.sizes_of(view)
    rank = len(sizes)
    reduced = range(rank - tap_axes, rank)
    tap = primitive.cast(primitive.iota(sizes, rank - tap_axes), dtypes.i32)
    for axis in reduced[1:]:
        size = static_size(sizes[axis], "max_pool")
        tap = tap * size + primitive.cast(primitive.iota(sizes, axis), dtypes.i32)
    kept = [*shapes.sizes_of(extremes), *[1] * tap_axes]
    highest = primitive.expand(primitive.reshape(extremes, kept), sizes)
    candidates = (view.eq(highest) | view.ne(view)).where(tap, tap.lift(dtypes.i32.max))
    first = primitive.expand(primitive.reduce(candidates, ops.MIN, reduced), sizes)
    return _reduce_taps(tap.eq(first).where(view, view.lift(0)), ops.ADD, tap_axes)


@method
def max_pool1d(
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the maximum of windows over the last axis of (…, channels, length).

    `kernel_size` is the number of elements of a window, `stride` their distance (`kernel_size` by
    default), `padding` the elements added on both sides, which never win, and `dilation` the
    distance between elements of a window. `ceil_mode` adds a last window that is only partly
    inside.

    >>> porism.max_pool1d([[1, 3, 2, 5]], 2).tolist()
    [[3, 5]]
    """
    return _max_pool(1, x, kernel_size, stride, padding, dilation, ceil_mode)


@method
def max_pool2d(
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the maximum of windows over the last two axes of (…, channels, h, w).

    The arguments are those of `max_pool1d`, each an int or one for each axis.

    >>> porism.max_pool2d([[[1, 3], [2, 5]]], 2).tolist()
    [[[5]]]
    """
    return _max_pool(2, x, kernel_size, stride, padding, dilation, ceil_mode)


@method
def max_pool3d(
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the maximum of windows over the last three axes of (…, channels, d, h, w).

    The arguments are those of `max_pool1d`, each an int or one for each axis.

    >>> porism.max_pool3d(porism.ones(3, 4, 4, 4), 2).shape
    (3, 2, 2, 2)
    """
    return _max_pool(3, x, kernel_size, stride, padding, dilation, ceil_mode)


# -- average pooling -------------------------------------------------------------------------------


def _avg_pool(
    spatial: int,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Tensor:
    """Return the mean of windows over `spatial` axes: avg_pool1d, 2d and 3d."""
    tensor = as_tensor(x)
    name = f"avg_pool{spatial}d"
    axes = _window_axes(name, spatial, tensor, kernel_size, stride, padding, 1, ceil_mode)

    def formula(node: UOp) -> UOp:
        total = _reduce_taps(_windows(node, axes, 0), ops.ADD, spatial)
        return ops.FDIV(total, _window_sizes(total, axes, count_include_pad))

    return Tensor(in_f32(formula, float_node(tensor)))


def _window_sizes(like: UOp, axes: Sequence[WindowAxis], with_padding: bool) -> UOp:
    """Return the number of elements of each window, as floats; a constant where all are equal."""
    result = like.lift(1)
    for axis in axes:
        if not axis.overhang and (with_padding or not axis.padding):
            result = result * like.lift(axis.taps)
            continue
        sizes = shapes.sizes_of(like)
        begin = primitive.iota(sizes, axis.axis) * axis.stride
        padded = axis.size + 2 * axis.padding
        low, high = (0, padded) if with_padding else (axis.padding, padded - axis.padding)
        end = ops.MIN(begin + axis.taps, begin.lift(high))
        inside = end - ops.MAX(begin, begin.lift(low))
        result = result * primitive.cast(inside, like.dtype)
    return result


@method
def avg_pool1d(
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of windows over the last axis of (…, channels, length).

    `kernel_size` is the number of elements of a window, `stride` their distance (`kernel_size` by
    default) and `padding` the zeros on both sides, which count as elements unless
    `count_include_pad` is false. `ceil_mode` adds a last window that is only partly inside.

    >>> porism.avg_pool1d([[1.0, 3.0, 2.0, 5.0]], 2).tolist()
    [[2.0, 3.5]]
    """
    return _avg_pool(1, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


@method
def avg_pool2d(
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of windows over the last two axes of (…, channels, h, w).

    The arguments are those of `avg_pool1d`, each an int or one for each axis.

    >>> porism.avg_pool2d([[[1.0, 3.0], [2.0, 6.0]]], 2).tolist()
    [[[3.0]]]
    """
    return _avg_pool(2, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


@method
def avg_pool3d(
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of windows over the last three axes of (…, channels, d, h, w).

    The arguments are those of `avg_pool1d`, each an int or one for each axis.

    >>> porism.avg_pool3d(porism.ones(3, 4, 4, 4), 2).shape
    (3, 2, 2, 2)
    """
    return _avg_pool(3, x, kernel_size, stride, padding, ceil_mode, count_include_pad)
