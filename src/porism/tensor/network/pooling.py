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
from porism.tensor.api.reductions import as_floats, number_of, quotient, without
from porism.tensor.conversion import as_tensor
from porism.tensor.float_formulas import widely
from porism.tensor.known_sizes import known, several
from porism.tensor.movement.pad_value import filled
from porism.tensor.network.sliding_windows import count, windows
from porism.tensor.primitive import Dim
from porism.tensor.tensor import Tensor, method

Numbers = int | Sequence[int]


def _need_rank(name: str, spatial: int, x: Tensor) -> None:
    if x.ndim not in (spatial + 1, spatial + 2):
        raise shapes.refuse(
            f"{name} of a tensor of shape {shapes.to_text(x.shape)}",
            f"its axes are (batch, channels, …), with {spatial} behind the channels; the batch may "
            "be missing",
            "add axes with reshape, or use the function for another number of axes",
        )


@dataclass(frozen=True)
class Line:
    """The windows along one axis."""

    axis: int
    size: int
    taps: int
    stride: int
    padding: int
    dilation: int
    number: int  # of windows

    @property
    def missing(self) -> int:
        """Elements that the last window needs beyond the padded input."""
        last = (self.number - 1) * self.stride + (self.taps - 1) * self.dilation + 1
        return max(last - self.size - 2 * self.padding, 0)


def _line(
    name: str,
    axis: int,
    size: Dim,
    taps: int,
    stride: int,
    padding: int,
    dilation: int,
    ceil_mode: bool,
) -> Line:
    length = known(size, name)
    if 2 * padding > taps:
        raise shapes.refuse(
            f"{name} with a window of {taps} and a padding of {padding}",
            "a window could lie in the padding alone",
            "pad by half of the window at most",
        )
    padded = length + 2 * padding
    extra = stride - 1 if ceil_mode else 0
    number = count(padded + extra, taps, stride, dilation) if padded else 0
    if ceil_mode and (number - 1) * stride >= length + padding:
        number -= 1  # it would begin behind the input
    if number < 1:
        raise shapes.refuse(
            f"{name} with a window of {(taps - 1) * dilation + 1} over an axis of {padded}",
            "the window is longer than the padded input",
            "use a smaller window, or pad more",
        )
    return Line(axis, length, taps, stride, padding, dilation, number)


def _lines(
    name: str,
    spatial: int,
    x: Tensor,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool,
) -> list[Line]:
    _need_rank(name, spatial, x)
    taps = several(kernel_size, spatial, "kernel_size", 1)
    steps = taps if stride is None else several(stride, spatial, "stride", 1)
    around = several(padding, spatial, "padding", 0)
    apart = several(dilation, spatial, "dilation", 1)
    first = x.ndim - spatial
    return [
        _line(
            name, first + k, x.shape[first + k], taps[k], steps[k], around[k], apart[k], ceil_mode
        )
        for k in range(spatial)
    ]


def _windows(x: UOp, lines: Sequence[Line], value: float) -> UOp:
    """The windows, with `value` outside of the input."""
    pads: list[tuple[Dim, Dim]] = [(0, 0)] * (len(shapes.sizes_of(x)) - len(lines))
    pads += [(line.padding, line.padding + line.missing) for line in lines]
    whole = filled(x, pads, value)
    if shapes.same(shapes.product(shapes.sizes_of(x)), 0):
        outer = shapes.sizes_of(x)[: -len(lines)]
        view = [*outer, *(line.number for line in lines), *(line.taps for line in lines)]
        return primitive.full(x.dtype, value, view)
    return windows(
        whole,
        [line.axis for line in lines],
        [line.taps for line in lines],
        [line.stride for line in lines],
        [line.dilation for line in lines],
    )


def _reduced(view: UOp, op: Op, count: int) -> UOp:
    """Reduced over the last axes, which go away."""
    rank = len(shapes.sizes_of(view))
    axes = range(rank - count, rank)
    return without(primitive.reduce(view, op, axes), axes)


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
    lines = _lines(name, spatial, tensor, kernel_size, stride, padding, dilation, ceil_mode)
    lowest = identity(ops.MAX, tensor.dtype)
    assert lowest is not None
    return Tensor(_reduced(_windows(tensor.node, lines, lowest), ops.MAX, spatial))


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
    lines = _lines(name, spatial, tensor, kernel_size, stride, padding, 1, ceil_mode)

    def formula(node: UOp) -> UOp:
        total = _reduced(_windows(node, lines, 0), ops.ADD, spatial)
        return ops.FDIV(total, _counts(total, lines, count_include_pad))

    return Tensor(widely(formula, as_floats(tensor)))


def _counts(like: UOp, lines: Sequence[Line], with_padding: bool) -> UOp:
    """How many elements each window has, as a float; a constant where all have the same."""
    result = like.lift(1)
    for line in lines:
        if not line.missing and (with_padding or not line.padding):
            result = result * like.lift(line.taps)
            continue
        sizes = shapes.sizes_of(like)
        begin = primitive.iota(sizes, line.axis) * line.stride
        whole = line.size + 2 * line.padding
        low, high = (0, whole) if with_padding else (line.padding, whole - line.padding)
        end = ops.MIN(begin + line.taps, begin.lift(high))
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
class Bins:
    """Which elements of an axis are in a window, and how many; None where all are."""

    mask: UOp | None
    count: UOp | None


Pool = Callable[[UOp, Bins, int], UOp]
"""Reduce one axis of a node, the elements of bins."""


def _adaptive(
    name: str, spatial: int, x: Tensor, output_size: Any, pool: Pool
) -> Callable[[UOp], UOp]:
    """Axis after axis, since the windows are rectangles.

    Where the result's size divides the axis, the windows are pieces of it. Elsewhere each window
    looks at the whole axis with a mask: n·m operations for m windows over n elements.
    """
    _need_rank(name, spatial, x)
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
        for axis, number in enumerate(wanted, first):
            node = _binned(node, axis, number, pool)
        return node

    return formula


def _binned(node: UOp, axis: int, number: int, pool: Pool) -> UOp:
    sizes = list(shapes.sizes_of(node))
    size = sizes[axis]
    assert isinstance(size, int)
    if size == number:
        return node
    before, after = sizes[:axis], sizes[axis + 1 :]
    if size % number == 0:
        pieces = primitive.reshape(node, [*before, number, size // number, *after])
        return without(pool(pieces, Bins(None, None), axis + 1), [axis + 1])
    whole = [*before, number, size, *after]
    view = primitive.expand(primitive.reshape(node, [*before, 1, size, *after]), whole)
    begin, end = _edges(primitive.iota(whole, axis), size, number)
    place = primitive.iota(whole, axis + 1)
    single = [*before, number, 1, *after]
    first, last = _edges(primitive.iota(single, axis), size, number)
    bins = Bins((begin <= place) & (place < end), last - first)
    return without(pool(view, bins, axis + 1), [axis + 1])


def _edges(window: UOp, size: int, number: int) -> tuple[UOp, UOp]:
    """Window i has the elements from floor(i·n/m) to ceil((i+1)·n/m)."""
    return window * size // number, ((window + 1) * size + (number - 1)) // number


def _largest(node: UOp, bins: Bins, axis: int) -> UOp:
    lowest = identity(ops.MAX, node.dtype)
    chosen = node if bins.mask is None else bins.mask.where(node, node.lift(lowest))
    return primitive.reduce(chosen, ops.MAX, [axis])


def _mean(node: UOp, bins: Bins, axis: int) -> UOp:
    if bins.mask is None or bins.count is None:
        return quotient(primitive.reduce(node, ops.ADD, [axis]), number_of(node, [axis]))
    total = primitive.reduce(bins.mask.where(node, node.lift(0)), ops.ADD, [axis])
    return total / primitive.cast(bins.count, node.dtype)


def _adaptive_max(spatial: int, x: Any, output_size: Any) -> Tensor:
    tensor = as_tensor(x)
    name = f"adaptive_max_pool{spatial}d"
    return Tensor(_adaptive(name, spatial, tensor, output_size, _largest)(tensor.node))


def _adaptive_mean(spatial: int, x: Any, output_size: Any) -> Tensor:
    tensor = as_tensor(x)
    promotion.need(
        tensor.dtype, promotion.NUMBERS, f"adaptive_avg_pool{spatial}d", "convert it, with astype"
    )
    name = f"adaptive_avg_pool{spatial}d"
    formula = _adaptive(name, spatial, tensor, output_size, _mean)
    return Tensor(widely(formula, as_floats(tensor)))


@method
def adaptive_avg_pool1d(x: Any, output_size: Any) -> Tensor:
    """The means of so many windows that cover the last axis."""
    return _adaptive_mean(1, x, output_size)


@method
def adaptive_avg_pool2d(x: Any, output_size: Any) -> Tensor:
    """The means of so many windows that cover the last two axes; None keeps an axis."""
    return _adaptive_mean(2, x, output_size)


@method
def adaptive_avg_pool3d(x: Any, output_size: Any) -> Tensor:
    """The means of so many windows that cover the last three axes; None keeps an axis."""
    return _adaptive_mean(3, x, output_size)


@method
def adaptive_max_pool1d(x: Any, output_size: Any) -> Tensor:
    """The largest values of so many windows that cover the last axis."""
    return _adaptive_max(1, x, output_size)


@method
def adaptive_max_pool2d(x: Any, output_size: Any) -> Tensor:
    """The largest values of so many windows that cover the last two axes; None keeps an axis."""
    return _adaptive_max(2, x, output_size)


@method
def adaptive_max_pool3d(x: Any, output_size: Any) -> Tensor:
    """The largest values of so many windows that cover the last three axes; None keeps an axis."""
    return _adaptive_max(3, x, output_size)
