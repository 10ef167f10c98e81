"""Convolution: dot products of a kernel with sliding windows of the input.

The input is (batch, channels, size…) or, without the batch, (channels, size…); the kernel is
(channels out, channels in / groups, taps…). Windows are views made of movement ops, so there is no
im2col copy.

Transposed convolutions are computed by `convolution_phases`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from porism.gradient.stated_pullbacks import pullback, stated
from porism.ir.node import UOp
from porism.tensor import primitive, shapes
from porism.tensor.api.arithmetic import add
from porism.tensor.api.operands import promoted_operands
from porism.tensor.api.reductions import sum_of_products
from porism.tensor.conversion import as_tensor
from porism.tensor.network.sliding_windows import sliding_windows, window_count
from porism.tensor.primitive import Dim
from porism.tensor.static_sizes import per_axis, static_size
from porism.tensor.tensor import Tensor, method

Numbers = int | Sequence[int]
Padding = int | Sequence[int] | str


@dataclass(frozen=True)
class Operands:
    """The operands of a convolution, checked, with the input as (batch, channels in, size…)."""

    name: str
    x: UOp  # (batch, channels in, size…)
    kernel: UOp
    batched: bool
    spatial: int  # axes over which windows slide
    groups: int
    taps: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the axes over which windows slide."""
        return tuple(static_size(size, self.name) for size in shapes.sizes_of(self.x)[2:])


def _check_operands(
    name: str, spatial: int, x: Any, weight: Any, groups: Any, transposed: bool
) -> Operands:
    """Return the operands of a convolution over `spatial` axes; refuse shapes that do not fit."""
    image, kernel = promoted_operands(name, x, weight)
    if image.ndim not in (spatial + 1, spatial + 2) or kernel.ndim != spatial + 2:
        raise shapes.shape_error(
            f"{name} of shapes {shapes.to_text(image.shape)} and {shapes.to_text(kernel.shape)}",
            f"the input has {spatial + 2} axes (batch, channels, …) or {spatial + 1} without the "
            f"batch, and the weight {spatial + 2}",
            "add axes with reshape, or use the function for another number of axes",
        )
    batched = image.ndim == spatial + 2
    node = image.node if batched else primitive.reshape(image.node, [1, *image.shape])
    channels = static_size(shapes.sizes_of(node)[1], name)
    group_count = shapes.as_int(groups, "groups")
    first, second = (static_size(size, name) for size in kernel.shape[:2])
    wanted = first if transposed else second * group_count
    if group_count < 1 or channels % group_count or first % group_count or channels != wanted:
        layout = "in, out / groups" if transposed else "out, in / groups"
        raise shapes.shape_error(
            f"{name} of {channels} channels with a weight of shape "
            f"{shapes.to_text(kernel.shape)} and {group_count} groups",
            f"the weight is (channels {layout}, taps…): it is for {wanted} channels, and "
            "groups divide the channels on both sides",
            "check the order of the weight's axes, and groups",
        )
    taps = tuple(static_size(size, name) for size in kernel.shape[2:])
    if 0 in taps:
        raise shapes.shape_error(
            f"{name} with a weight of shape {shapes.to_text(kernel.shape)}",
            "a window has at least one tap",
            "use a weight without axes of size 0",
        )
    return Operands(name, node, kernel.node, batched, spatial, group_count, taps)


def _padding(
    padding: Padding, taps: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the zeros before and after each axis, from numbers, 'same' or 'valid'."""
    if not isinstance(padding, str):
        return [(n, n) for n in per_axis(padding, len(taps), "padding", 0)]
    if padding == "valid":
        return [(0, 0)] * len(taps)
    if padding != "same":
        raise shapes.shape_error(
            f"padding is {padding!r}", "it is a number, 'same' or 'valid'", "pass one of these"
        )
    if any(step != 1 for step in stride):
        raise shapes.shape_error(
            f"padding is 'same' with stride {tuple(stride)}",
            "the result is as large as the input only if the stride is 1",
            "pass the padding as numbers",
        )
    totals = [(n - 1) * d for n, d in zip(taps, dilation, strict=True)]
    return [(total // 2, total - total // 2) for total in totals]


def convolve(
    operands: Operands,
    kernel: UOp,
    pads: Sequence[tuple[int, int]],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> UOp:
    """Return the convolution with a kernel (out, in / groups, taps…), without bias.

    Negative `pads` crop the input.
    """
    groups, spatial = operands.groups, operands.spatial
    x = pad_or_crop(operands.x, pads)
    batch, _, *sizes = shapes.sizes_of(x)
    counts = _window_counts(
        operands, [static_size(n, operands.name) for n in sizes], stride, dilation
    )
    out, inner, *taps = shapes.sizes_of(kernel)
    fan_in = [inner, *taps]
    product_sizes: list[Dim] = [batch, groups, out // groups, *counts, *fan_in]
    rank = len(product_sizes)
    if shapes.product(shapes.sizes_of(x)) == 0:
        # An empty input has no windows: the reduction or the batch is empty too.
        view = primitive.full(x.dtype, 0, product_sizes)
    else:
        axes = range(2, 2 + spatial)
        view = sliding_windows(x, axes, operands.taps, stride, dilation)
        view = primitive.reshape(view, [batch, groups, inner, *counts, *taps])
        order = [0, 1, *range(3, 3 + spatial), 2, *range(3 + spatial, 3 + 2 * spatial)]
        view = primitive.permute(view, order)
        view = primitive.reshape(view, [batch, groups, 1, *counts, *fan_in])
        view = primitive.expand(view, product_sizes)
    weights = primitive.reshape(kernel, [1, groups, out // groups, *[1] * spatial, *fan_in])
    summed = range(rank - len(fan_in), rank)
    result = sum_of_products(view, primitive.expand(weights, product_sizes), summed)
    result = primitive.reshape(result, [batch, out, *counts])
    parameters = (tuple(pads), tuple(stride), tuple(dilation), groups)
    return stated("convolution", result, operands.x, kernel, parameters=parameters)


@pullback(
    "convolution",
    "by the input, g convolved with the transposed kernel; by the kernel, the sums of g times the "
    "windows of the input",
)
def _pull_convolution(g: UOp, y: UOp, *rest: Any) -> list[UOp]:
    from porism.tensor.network.convolution_pullbacks import operand_cotangents

    return operand_cotangents(g, *rest)


def pad_or_crop(x: UOp, pads: Sequence[tuple[int, int]]) -> UOp:
    """Return x with zeros around its spatial axes; negative numbers remove elements."""
    all_pads = [(0, 0), (0, 0), *pads]
    x = primitive.pad(x, [(max(before, 0), max(after, 0)) for before, after in all_pads])
    sizes = shapes.sizes_of(x)
    bounds = [
        (max(-before, 0), size + min(after, 0))
        for size, (before, after) in zip(sizes, all_pads, strict=True)
    ]
    return primitive.shrink(x, bounds)


def _window_counts(
    operands: Operands, sizes: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    """Return the number of windows along each axis; refuse a window longer than its axis."""
    counts = list(map(window_count, sizes, operands.taps, stride, dilation))
    if 0 in counts:
        axis = counts.index(0)
        span = (operands.taps[axis] - 1) * dilation[axis] + 1
        raise shapes.shape_error(
            f"{operands.name} with a window of {span} elements over an axis of {sizes[axis]}",
            "the window is longer than the padded input",
            "pad more, or use a smaller kernel or dilation",
        )
    return counts


def _add_bias(operands: Operands, result: UOp, bias: Any, channels: int) -> Tensor:
    """Return the result in the input's type, without an added batch axis, plus the bias."""
    result = primitive.cast(result, operands.x.dtype)
    if not operands.batched:
        result = primitive.reshape(result, shapes.sizes_of(result)[1:])
    if bias is None:
        return Tensor(result)
    offsets = as_tensor(bias)
    if not shapes.shapes_equal(offsets.shape, (channels,)):
        raise shapes.shape_error(
            f"{operands.name} with a bias of shape {shapes.to_text(offsets.shape)}",
            f"it has one number for each of the {channels} channels of the result",
            f"use a bias of shape ({channels},)",
        )
    column = primitive.reshape(offsets.node, [channels, *[1] * operands.spatial])
    return add(Tensor(result), Tensor(column))


def _conv(
    spatial: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int,
) -> Tensor:
    """Return the convolution over `spatial` axes: conv1d, conv2d or conv3d."""
    operands = _check_operands(f"conv{spatial}d", spatial, x, weight, groups, transposed=False)
    strides = per_axis(stride, spatial, "stride", 1)
    dilations = per_axis(dilation, spatial, "dilation", 1)
    pads = _padding(padding, operands.taps, strides, dilations)
    result = convolve(operands, operands.kernel, pads, strides, dilations)
    return _add_bias(
        operands, result, bias, static_size(shapes.sizes_of(operands.kernel)[0], operands.name)
    )


def _conv_transpose(
    spatial: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Numbers,
    padding: Numbers,
    output_padding: Numbers,
    groups: int,
    dilation: Numbers,
) -> Tensor:
    """Return the transposed convolution over `spatial` axes: conv_transpose1d, 2d or 3d."""
    operands = _check_operands(
        f"conv_transpose{spatial}d", spatial, x, weight, groups, transposed=True
    )
    strides = per_axis(stride, spatial, "stride", 1)
    dilations = per_axis(dilation, spatial, "dilation", 1)
    crops = per_axis(padding, spatial, "padding", 0)
    extra = per_axis(output_padding, spatial, "output_padding", 0)
    for axis in range(spatial):
        if extra[axis] >= max(strides[axis], dilations[axis]):
            raise shapes.shape_error(
                f"{operands.name} with output_padding {tuple(extra)}",
                "it is smaller than the stride or the dilation, else it only adds zeros",
                "pass a smaller output_padding",
            )
    uncropped = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, k, s, d, e in zip(
            operands.sizes, operands.taps, strides, dilations, extra, strict=True
        )
    ]
    for size, full, crop in zip(operands.sizes, uncropped, crops, strict=True):
        if size == 0 or full <= 2 * crop:
            raise shapes.shape_error(
                f"{operands.name} with {full} elements along an axis and a padding of {crop}",
                "the padding is what is cut off on both sides, and nothing is left",
                "pass a smaller padding, or a larger input",
            )
    from porism.tensor.network.convolution_phases import transposed_convolution

    bounds = [(crop, full - crop) for crop, full in zip(crops, uncropped, strict=True)]
    result = transposed_convolution(operands, strides, dilations, bounds)
    return _add_bias(operands, result, bias, static_size(shapes.sizes_of(result)[1], operands.name))


# -- public functions ------------------------------------------------------------------------------


@method
def conv1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """Return the convolution of x (…, channels, length) with (out, channels / groups, taps).

    `stride` and `dilation` are distances in elements between windows and between taps; `padding` is
    a number of zeros on both sides, 'same' or 'valid'; `bias` has one number for each output
    channel.

    >>> porism.conv1d([[1, 2, 3, 4]], [[[1, 1]]]).tolist()
    [[3, 5, 7]]
    """
    return _conv(1, x, weight, bias, stride, padding, dilation, groups)


@method
def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """Return the convolution of x (…, channels, h, w) with (out, channels / groups, taps…).

    `stride`, `padding` and `dilation` are an int or one for each axis: distances in elements
    between windows, zeros on both sides ('same' and 'valid' are possible too), and distances
    between taps. `bias` has one number for each output channel.

    >>> porism.conv2d([[[1, 2], [3, 4]]], [[[[1, 1]]]]).tolist()
    [[[3], [7]]]
    """
    return _conv(2, x, weight, bias, stride, padding, dilation, groups)


@method
def conv3d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """Return the convolution of x (…, channels, d, h, w) with (out, channels / groups, taps…).

    The arguments are those of `conv2d`, for three axes.

    >>> porism.conv3d(porism.ones(1, 4, 4, 4), porism.ones(2, 1, 3, 3, 3)).shape
    (2, 2, 2, 2)
    """
    return _conv(3, x, weight, bias, stride, padding, dilation, groups)


@method
def conv_transpose1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> Tensor:
    """Return the transposed convolution of x with a weight (channels, out / groups, taps).

    It is the gradient of `conv1d` with respect to its input: `padding` is the number of elements
    cut off on both sides, and `output_padding` the number added at the end.

    >>> porism.conv_transpose1d([[1, 2]], [[[1, 10, 100]]], stride=2).tolist()
    [[1, 10, 102, 20, 200]]
    """
    return _conv_transpose(1, x, weight, bias, stride, padding, output_padding, groups, dilation)


@method
def conv_transpose2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> Tensor:
    """Return the transposed convolution of x with a weight (channels, out / groups, taps…).

    It is the gradient of `conv2d` with respect to its input: `padding` is the number of elements
    cut off on both sides, and `output_padding` the number added at the end, for each axis.

    >>> porism.conv_transpose2d(porism.ones(8, 16, 16), porism.ones(8, 4, 2, 2), stride=2).shape
    (4, 32, 32)
    """
    return _conv_transpose(2, x, weight, bias, stride, padding, output_padding, groups, dilation)


@method
def conv_transpose3d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> Tensor:
    """Return the transposed convolution of x with a weight (channels, out / groups, taps…).

    The arguments are those of `conv_transpose2d`, for three axes.

    >>> porism.conv_transpose3d(porism.ones(8, 4, 4, 4), porism.ones(8, 4, 2, 2, 2), stride=2).shape
    (4, 8, 8, 8)
    """
    return _conv_transpose(3, x, weight, bias, stride, padding, output_padding, groups, dilation)
