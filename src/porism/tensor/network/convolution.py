"""Convolution: dot products of a kernel with sliding windows of the input.

The input is (batch, channels, size…) or, without the batch, (channels, size…); the kernel is
(channels out, channels in / groups, taps…). Windows are views made of movement ops, so there is no
im2col copy.

A transposed convolution with stride s is computed as s convolutions for each axis (its phases) with
every s-th tap of the reversed kernel: no zeros are inserted into the input, and none are
multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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


def _convolve(
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
    result = _convolve(operands, operands.kernel, pads, strides, dilations)
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
    result = convolve_phases(operands, strides, dilations)
    sizes = shapes.sizes_of(result)[2:]
    ends = [static_size(n, operands.name) for n in sizes]
    pads = [(-c, full - c - n) for c, full, n in zip(crops, uncropped, ends, strict=True)]
    result = pad_or_crop(result, pads)
    return _add_bias(operands, result, bias, static_size(shapes.sizes_of(result)[1], operands.name))


def convolve_phases(
    operands: Operands,
    strides: Sequence[int],
    dilations: Sequence[int],
    stores_kernel: bool = False,
) -> UOp:
    """Return the uncropped transposed convolution: each element times the kernel, `stride` apart.

    Tap `u*stride + phase` of element `i` contributes to position `(i + u)*stride + phase`. So each
    phase is a convolution of the input with every stride-th tap; phases are channels of one
    convolution and are interleaved at the end. With stride 1 there is one phase, and its taps may
    be dilated.
    """
    gaps = [d if s > 1 else 1 for s, d in zip(strides, dilations, strict=True)]
    dilation = [1 if s > 1 else d for s, d in zip(strides, dilations, strict=True)]
    kernel = _dilate(operands.kernel, gaps)
    inner, out, *taps = (static_size(n, operands.name) for n in shapes.sizes_of(kernel))
    taps_per_phase = [-(-n // s) for n, s in zip(taps, strides, strict=True)]
    fill = [(0, u * s - n) for u, s, n in zip(taps_per_phase, strides, taps, strict=True)]
    kernel = primitive.pad(kernel, [(0, 0), (0, 0), *fill])
    pairs = [n for pair in zip(taps_per_phase, strides, strict=True) for n in pair]
    kernel = primitive.reshape(kernel, [inner, out, *pairs])
    spatial = len(strides)
    tap_axes, phase_axes = range(2, 2 + 2 * spatial, 2), range(3, 3 + 2 * spatial, 2)
    kernel = primitive.permute(kernel, [0, 1, *phase_axes, *tap_axes])
    kernel = primitive.reshape(kernel, [inner, out * math.prod(strides), *taps_per_phase])
    phase_operands = replace(operands, kernel=kernel, taps=tuple(taps_per_phase))
    edges = [(u - 1) * d for u, d in zip(taps_per_phase, dilation, strict=True)]
    pads = [(n, n) for n in edges]
    transposed = _transpose_kernel(phase_operands)
    if stores_kernel:
        transposed = primitive.contiguous(transposed, "the kernel of a transposed convolution")
    result = _convolve(phase_operands, transposed, pads, [1] * spatial, dilation)
    if math.prod(strides) > 1:  # fused with the interleaving, its loops would have no register tile
        result = primitive.contiguous(result, "a strided conv_transpose")
    batch, _, *positions = shapes.sizes_of(result)
    channels = out * operands.groups
    result = primitive.reshape(result, [batch, channels, *strides, *positions])
    order = [axis for k in range(spatial) for axis in (2 + spatial + k, 2 + k)]
    result = primitive.permute(result, [0, 1, *order])
    sizes = [n * s for n, s in zip(positions, strides, strict=True)]
    return primitive.reshape(result, [batch, channels, *sizes])


def _dilate(x: UOp, dilations: Sequence[int]) -> UOp:
    """Return x with `dilation - 1` zeros between the elements of the axes after the first two."""
    for axis, dilation in enumerate(dilations, 2):
        sizes = list(shapes.sizes_of(x))
        size = sizes[axis]
        if dilation == 1:
            continue
        x = primitive.reshape(x, [*sizes[: axis + 1], 1, *sizes[axis + 1 :]])
        x = primitive.pad(x, [(0, (dilation - 1) * (k == axis + 1)) for k in range(len(sizes) + 1)])
        sizes[axis] = size * dilation
        x = primitive.reshape(x, sizes)
        sizes[axis] = size * dilation - (dilation - 1)
        x = primitive.shrink(x, [(0, n) for n in sizes])
    return x


def _transpose_kernel(operands: Operands) -> UOp:
    """Return a kernel (in, out / groups, taps…) as (out, in / groups, reversed taps…)."""
    groups = operands.groups
    inner, out, *taps = shapes.sizes_of(operands.kernel)
    kernel = primitive.flip(operands.kernel, range(2, 2 + len(taps)))
    kernel = primitive.reshape(kernel, [groups, inner // groups, out, *taps])
    kernel = primitive.permute(kernel, [0, 2, 1, *range(3, 3 + len(taps))])
    return primitive.reshape(kernel, [groups * out, inner // groups, *taps])


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
