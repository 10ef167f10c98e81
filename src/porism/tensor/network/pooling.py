"""Pooling: the largest or the mean value of windows over the last axes.

Outside of the input, a maximum finds the smallest value of the type, and a mean zeros, which count
as elements or not. Adaptive pooling has windows of different sizes, which cover the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from porism.ir import ops
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api.operands import float_node
from porism.tensor.api.reductions import divide_by_count, drop_axes, reduced_count
from porism.tensor.conversion import as_tensor
from porism.tensor.float_formulas import widely
from porism.tensor.known_sizes import known, several
from porism.tensor.movement.pad import pad_with_value
from porism.tensor.network.sliding_windows import sliding_windows, window_count
from porism.tensor.primitive import Dim
from porism.tensor.tensor import Tensor, method

Numbers = int | Sequence[int]


def _require_rank(name: str, spatial: int, x: Tensor) -> None:
    if x.ndim not in (spatial + 1, spatial + 2):
        raise shapes.refuse(
            f"{name} of a tensor of shape {shapes.to_text(x.shape)}",
            f"its axes are (batch, channels, …), with {spatial} behind the channels; the batch may "
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
        """Elements that the last window needs beyond the padded input."""
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
    length = known(size, name)
    if 2 * padding > taps:
        raise shapes.refuse(
            f"{name} with a window of {taps} and a padding of {padding}",
            "a window could lie in the padding alone",
            "pad by half of the window at most",
        )
    padded = length + 2 * padding
    extra = stride - 1 if ceil_mode else 0
    count = window_count(padded + extra, taps, stride, dilation) if padded else 0
    if ceil_mode and (count - 1) * stride >= length + padding:
        count -= 1  # it would begin behind the input
    if count < 1:
        raise shapes.refuse(
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
    _require_rank(name, spatial, x)
    taps = several(kernel_size, spatial, "kernel_size", 1)
    strides = taps if stride is None else several(stride, spatial, "stride", 1)
    paddings = several(padding, spatial, "padding", 0)
    dilations = several(dilation, spatial, "dilation", 1)
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
    """The windows, with `value` outside of the input."""
    pads: list[tuple[Dim, Dim]] = [(0, 0)] * (len(shapes.sizes_of(x)) - len(axes))
    pads += [(axis.padding, axis.padding + axis.overhang) for axis in axes]
    whole = pad_with_value(x, pads, value)
    if shapes.same(shapes.product(shapes.sizes_of(x)), 0):
        outer = shapes.sizes_of(x)[: -len(axes)]
        view = [*outer, *(axis.count for axis in axes), *(axis.taps for axis in axes)]
        return primitive.full(x.dtype, value, view)
    return sliding_windows(
        whole,
        [axis.axis for axis in axes],
        [axis.taps for axis in axes],
        [axis.stride for axis in axes],
        [axis.dilation for axis in axes],
    )


def _reduce_taps(view: UOp, op: Op, tap_axes: int) -> UOp:
    """Reduced over the last axes, which go away."""
    rank = len(shapes.sizes_of(view))
    axes = range(rank - tap_axes, rank)
    return drop_axes(primitive.reduce(view, op, axes), axes)


# -- the largest value -----------------------------------------------------------------------------


def _max_pool(
    spatial: int,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool,
) -> Tensor:
    tensor = as_tensor(x)
    name = f"max_pool{spatial}d"
    axes = _window_axes(name, spatial, tensor, kernel_size, stride, padding, dilation, ceil_mode)
    lowest = identity(ops.MAX, tensor.dtype)
    assert lowest is not None
    return Tensor(_reduce_taps(_windows(tensor.node, axes, lowest), ops.MAX, spatial))


@method
def max_pool1d(
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest value of windows over the last axis; the stride is the window's size if None."""
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
    """The largest value of windows over the last two axes."""
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
    """The largest value of windows over the last three axes."""
    return _max_pool(3, x, kernel_size, stride, padding, dilation, ceil_mode)


# -- the mean --------------------------------------------------------------------------------------


def _avg_pool(
    spatial: int,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Tensor:
    tensor = as_tensor(x)
    name = f"avg_pool{spatial}d"
    axes = _window_axes(name, spatial, tensor, kernel_size, stride, padding, 1, ceil_mode)

    def formula(node: UOp) -> UOp:
        total = _reduce_taps(_windows(node, axes, 0), ops.ADD, spatial)
        return ops.FDIV(total, _window_sizes(total, axes, count_include_pad))

    return Tensor(widely(formula, float_node(tensor)))


def _window_sizes(like: UOp, axes: Sequence[WindowAxis], with_padding: bool) -> UOp:
    """How many elements each window has, as a float; a constant where all have the same."""
    result = like.lift(1)
    for axis in axes:
        if not axis.overhang and (with_padding or not axis.padding):
            result = result * like.lift(axis.taps)
            continue
        sizes = shapes.sizes_of(like)
        begin = primitive.iota(sizes, axis.axis) * axis.stride
        whole = axis.size + 2 * axis.padding
        low, high = (0, whole) if with_padding else (axis.padding, whole - axis.padding)
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
    """The mean of windows over the last axis; the stride is the window's size if None."""
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
    """The mean of windows over the last two axes."""
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
    """The mean of windows over the last three axes."""
    return _avg_pool(3, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


# -- adaptive --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BinElements:
    """Which elements of an axis are in a window, and how many; None where all are."""

    mask: UOp | None
    count: UOp | None


Pool = Callable[[UOp, BinElements, int], UOp]
"""Reduce one axis of a node, the elements of bins."""


def _adaptive(
    name: str, spatial: int, x: Tensor, output_size: Any, pool: Pool
) -> Callable[[UOp], UOp]:
    """Axis after axis, since the windows are rectangles.

    Where the result's size divides the axis, the windows are pieces of it. Elsewhere each window
    looks at the whole axis with a mask: n·m operations for m windows over n elements.
    """
    _require_rank(name, spatial, x)
    given = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * spatial
    first = x.ndim - spatial
    sizes = [known(size, name) for size in x.shape[first:]]
    kept = [n if m is None else m for n, m in zip(sizes, given, strict=False)]
    wanted = several(kept + list(given[spatial:]), spatial, "output_size", 1)
    if 0 in sizes:
        raise shapes.refuse(
            f"{name} of a tensor of shape {shapes.to_text(x.shape)}",
            "a window over no elements has no value",
            "check the sizes first",
        )

    def formula(node: UOp) -> UOp:
        for axis, count in enumerate(wanted, first):
            node = _pool_axis(node, axis, count, pool)
        return node

    return formula


def _pool_axis(node: UOp, axis: int, count: int, pool: Pool) -> UOp:
    sizes = list(shapes.sizes_of(node))
    size = sizes[axis]
    assert isinstance(size, int)
    if size == count:
        return node
    before, after = sizes[:axis], sizes[axis + 1 :]
    if size % count == 0:
        pieces = primitive.reshape(node, [*before, count, size // count, *after])
        return drop_axes(pool(pieces, BinElements(None, None), axis + 1), [axis + 1])
    whole = [*before, count, size, *after]
    view = primitive.expand(primitive.reshape(node, [*before, 1, size, *after]), whole)
    begin, end = _bin_bounds(primitive.iota(whole, axis), size, count)
    place = primitive.iota(whole, axis + 1)
    single = [*before, count, 1, *after]
    first, last = _bin_bounds(primitive.iota(single, axis), size, count)
    bins = BinElements((begin <= place) & (place < end), last - first)
    return drop_axes(pool(view, bins, axis + 1), [axis + 1])


def _bin_bounds(window: UOp, size: int, count: int) -> tuple[UOp, UOp]:
    """Window i has the elements from floor(i·n/m) to ceil((i+1)·n/m)."""
    return window * size // count, ((window + 1) * size + (count - 1)) // count


def _bin_max(node: UOp, bins: BinElements, axis: int) -> UOp:
    lowest = identity(ops.MAX, node.dtype)
    chosen = node if bins.mask is None else bins.mask.where(node, node.lift(lowest))
    return primitive.reduce(chosen, ops.MAX, [axis])


def _bin_mean(node: UOp, bins: BinElements, axis: int) -> UOp:
    if bins.mask is None or bins.count is None:
        return divide_by_count(primitive.reduce(node, ops.ADD, [axis]), reduced_count(node, [axis]))
    total = primitive.reduce(bins.mask.where(node, node.lift(0)), ops.ADD, [axis])
    return total / primitive.cast(bins.count, node.dtype)


def _adaptive_max_pool(spatial: int, x: Any, output_size: Any) -> Tensor:
    tensor = as_tensor(x)
    name = f"adaptive_max_pool{spatial}d"
    return Tensor(_adaptive(name, spatial, tensor, output_size, _bin_max)(tensor.node))


def _adaptive_avg_pool(spatial: int, x: Any, output_size: Any) -> Tensor:
    tensor = as_tensor(x)
    promotion.need(
        tensor.dtype, promotion.NUMBERS, f"adaptive_avg_pool{spatial}d", "convert it, with astype"
    )
    name = f"adaptive_avg_pool{spatial}d"
    formula = _adaptive(name, spatial, tensor, output_size, _bin_mean)
    return Tensor(widely(formula, float_node(tensor)))


@method
def adaptive_avg_pool1d(x: Any, output_size: Any) -> Tensor:
    """The means of so many windows that cover the last axis."""
    return _adaptive_avg_pool(1, x, output_size)


@method
def adaptive_avg_pool2d(x: Any, output_size: Any) -> Tensor:
    """The means of so many windows that cover the last two axes; None keeps an axis."""
    return _adaptive_avg_pool(2, x, output_size)


@method
def adaptive_avg_pool3d(x: Any, output_size: Any) -> Tensor:
    """The means of so many windows that cover the last three axes; None keeps an axis."""
    return _adaptive_avg_pool(3, x, output_size)


@method
def adaptive_max_pool1d(x: Any, output_size: Any) -> Tensor:
    """The largest values of so many windows that cover the last axis."""
    return _adaptive_max_pool(1, x, output_size)


@method
def adaptive_max_pool2d(x: Any, output_size: Any) -> Tensor:
    """The largest values of so many windows that cover the last two axes; None keeps an axis."""
    return _adaptive_max_pool(2, x, output_size)


@method
def adaptive_max_pool3d(x: Any, output_size: Any) -> Tensor:
    """The largest values of so many windows that cover the last three axes; None keeps an axis."""
    return _adaptive_max_pool(3, x, output_size)
