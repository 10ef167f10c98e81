"""Convolution: windows of the input, multiplied with a kernel and summed.

The input is (batch, channels, size…) or, without the batch, (channels, size…); the kernel is
(channels out, channels in / groups, taps…). Windows come from movement ops, so nothing is copied.
A transposed convolution with stride s is s convolutions (for each axis) with every s-th tap of the
kernel, backwards: no zeros are put between the elements, and none are multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from porism.ir.node import UOp
from porism.tensor import primitive, shapes
from porism.tensor.api.elementwise import add
from porism.tensor.api.linear_algebra import operands
from porism.tensor.api.reductions import summed_product
from porism.tensor.conversion import as_tensor
from porism.tensor.known_sizes import known, several
from porism.tensor.network.sliding_windows import count, windows
from porism.tensor.primitive import Dim
from porism.tensor.tensor import Tensor, method

Numbers = int | Sequence[int]
Padding = int | Sequence[int] | str


@dataclass(frozen=True)
class Problem:
    """A convolution whose arguments fit: what the functions below work on."""

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
        return tuple(known(size, self.name) for size in shapes.sizes_of(self.x)[2:])


def _problem(
    name: str, spatial: int, x: Any, weight: Any, groups: Any, transposed: bool
) -> Problem:
    image, kernel = operands(name, x, weight)
    if image.ndim not in (spatial + 1, spatial + 2) or kernel.ndim != spatial + 2:
        raise shapes.refuse(
            f"{name} of shapes {shapes.to_text(image.shape)} and {shapes.to_text(kernel.shape)}",
            f"the input has {spatial + 2} axes (batch, channels, …) or {spatial + 1} without the "
            f"batch, and the weight {spatial + 2}",
            "add axes with reshape, or use the function for another number of axes",
        )
    batched = image.ndim == spatial + 2
    node = image.node if batched else primitive.reshape(image.node, [1, *image.shape])
    channels = known(shapes.sizes_of(node)[1], name)
    parts = shapes.as_int(groups, "groups")
    first, second = (known(size, name) for size in kernel.shape[:2])
    wanted = first if transposed else second * parts
    if parts < 1 or channels % parts or first % parts or channels != wanted:
        layout = "in, out / groups" if transposed else "out, in / groups"
        raise shapes.refuse(
            f"{name} of {channels} channels with a weight of shape "
            f"{shapes.to_text(kernel.shape)} and {parts} groups",
            f"the weight is (channels {layout}, taps…): it is for {wanted} channels, and "
            "groups divide the channels on both sides",
            "check the order of the weight's axes, and groups",
        )
    taps = tuple(known(size, name) for size in kernel.shape[2:])
    if 0 in taps:
        raise shapes.refuse(
            f"{name} with a weight of shape {shapes.to_text(kernel.shape)}",
            "a window has at least one tap",
            "use a weight without axes of size 0",
        )
    return Problem(name, node, kernel.node, batched, spatial, parts, taps)


def _padding(
    given: Padding, taps: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[tuple[int, int]]:
    """Zeros before and after each axis."""
    if not isinstance(given, str):
        return [(n, n) for n in several(given, len(taps), "padding", 0)]
    if given == "valid":
        return [(0, 0)] * len(taps)
    if given != "same":
        raise shapes.refuse(
            f"padding is {given!r}", "it is a number, 'same' or 'valid'", "pass one of these"
        )
    if any(step != 1 for step in stride):
        raise shapes.refuse(
            f"padding is 'same' with stride {tuple(stride)}",
            "the result is as large as the input only if the stride is 1",
            "pass the padding as numbers",
        )
    totals = [(n - 1) * apart for n, apart in zip(taps, dilation, strict=True)]
    return [(total // 2, total - total // 2) for total in totals]


def _convolved(
    problem: Problem,
    kernel: UOp,
    pads: Sequence[tuple[int, int]],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> UOp:
    """`kernel` is (channels out, channels in / groups, taps…); `pads` below 0 cut off."""
    groups, spatial = problem.groups, problem.spatial
    x = _padded(problem.x, pads)
    batch, _, *sizes = shapes.sizes_of(x)
    numbers = _window_numbers(problem, [known(n, problem.name) for n in sizes], stride, dilation)
    out, inner, *taps = shapes.sizes_of(kernel)
    fan_in = [inner, *taps]
    whole: list[Dim] = [batch, groups, out // groups, *numbers, *fan_in]
    rank = len(whole)
    if shapes.product(shapes.sizes_of(x)) == 0:
        # No element, so no window: what is summed has no elements either, or the batch is empty.
        view = primitive.full(x.dtype, 0, whole)
    else:
        axes = range(2, 2 + spatial)
        slid = windows(x, axes, problem.taps, stride, dilation)
        slid = primitive.reshape(slid, [batch, groups, inner, *numbers, *taps])
        order = [0, 1, *range(3, 3 + spatial), 2, *range(3 + spatial, 3 + 2 * spatial)]
        slid = primitive.permute(slid, order)
        slid = primitive.reshape(slid, [batch, groups, 1, *numbers, *fan_in])
        view = primitive.expand(slid, whole)
    weights = primitive.reshape(kernel, [1, groups, out // groups, *[1] * spatial, *fan_in])
    summed = range(rank - len(fan_in), rank)
    result = summed_product(view, primitive.expand(weights, whole), summed)
    return primitive.reshape(result, [batch, out, *numbers])


def _padded(x: UOp, pads: Sequence[tuple[int, int]]) -> UOp:
    """Zeros around the axes of size…; elements off where a number is below 0."""
    whole = [(0, 0), (0, 0), *pads]
    x = primitive.pad(x, [(max(before, 0), max(after, 0)) for before, after in whole])
    sizes = shapes.sizes_of(x)
    cut = [
        (max(-before, 0), size + min(after, 0))
        for size, (before, after) in zip(sizes, whole, strict=True)
    ]
    return primitive.shrink(x, cut)


def _window_numbers(
    problem: Problem, sizes: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    numbers = list(map(count, sizes, problem.taps, stride, dilation))
    if 0 in numbers:
        axis = numbers.index(0)
        reach = (problem.taps[axis] - 1) * dilation[axis] + 1
        raise shapes.refuse(
            f"{problem.name} with a window of {reach} elements over an axis of {sizes[axis]}",
            "the window is longer than the padded input",
            "pad more, or use a smaller kernel or dilation",
        )
    return numbers


def _finished(problem: Problem, result: UOp, bias: Any, channels: int) -> Tensor:
    result = primitive.cast(result, problem.x.dtype)
    if not problem.batched:
        result = primitive.reshape(result, shapes.sizes_of(result)[1:])
    if bias is None:
        return Tensor(result)
    offsets = as_tensor(bias)
    if not shapes.same_shape(offsets.shape, (channels,)):
        raise shapes.refuse(
            f"{problem.name} with a bias of shape {shapes.to_text(offsets.shape)}",
            f"it has one number for each of the {channels} channels of the result",
            f"use a bias of shape ({channels},)",
        )
    column = primitive.reshape(offsets.node, [channels, *[1] * problem.spatial])
    return add(Tensor(result), Tensor(column))


def _convolution(
    spatial: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int,
) -> Tensor:
    problem = _problem(f"conv{spatial}d", spatial, x, weight, groups, transposed=False)
    steps = several(stride, spatial, "stride", 1)
    apart = several(dilation, spatial, "dilation", 1)
    pads = _padding(padding, problem.taps, steps, apart)
    result = _convolved(problem, problem.kernel, pads, steps, apart)
    return _finished(problem, result, bias, known(shapes.sizes_of(problem.kernel)[0], problem.name))


def _transposed_convolution(
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
    problem = _problem(f"conv_transpose{spatial}d", spatial, x, weight, groups, transposed=True)
    steps = several(stride, spatial, "stride", 1)
    apart = several(dilation, spatial, "dilation", 1)
    cut = several(padding, spatial, "padding", 0)
    extra = several(output_padding, spatial, "output_padding", 0)
    for axis in range(spatial):
        if extra[axis] >= max(steps[axis], apart[axis]):
            raise shapes.refuse(
                f"{problem.name} with output_padding {tuple(extra)}",
                "it is smaller than the stride or the dilation, else it only adds zeros",
                "pass a smaller output_padding",
            )
    whole = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, k, s, d, e in zip(problem.sizes, problem.taps, steps, apart, extra, strict=True)
    ]
    for size, full, off in zip(problem.sizes, whole, cut, strict=True):
        if size == 0 or full <= 2 * off:
            raise shapes.refuse(
                f"{problem.name} with {full} elements along an axis and a padding of {off}",
                "the padding is what is cut off on both sides, and nothing is left",
                "pass a smaller padding, or a larger input",
            )
    result = _spread_out(problem, steps, apart)
    sizes = shapes.sizes_of(result)[2:]
    ends = [known(n, problem.name) for n in sizes]
    pads = [(-c, full - c - n) for c, full, n in zip(cut, whole, ends, strict=True)]
    result = _padded(result, pads)
    return _finished(problem, result, bias, known(shapes.sizes_of(result)[1], problem.name))


def _spread_out(problem: Problem, steps: Sequence[int], apart: Sequence[int]) -> UOp:
    """Each element times the kernel, `step` apart and added up: at least the whole result.

    Tap `u*step + phase` of element `i` goes to place `(i + u)*step + phase`. So the phases are
    convolutions of the input with every step-th tap, and their results are channels until the end,
    when they are put side by side. Where the step is 1 there is one phase, and taps may be apart.
    """
    gaps = [d if s > 1 else 1 for s, d in zip(steps, apart, strict=True)]
    dilation = [1 if s > 1 else d for s, d in zip(steps, apart, strict=True)]
    kernel = _with_gaps(problem.kernel, gaps)
    inner, out, *taps = (known(n, problem.name) for n in shapes.sizes_of(kernel))
    turns = [-(-n // s) for n, s in zip(taps, steps, strict=True)]
    fill = [(0, u * s - n) for u, s, n in zip(turns, steps, taps, strict=True)]
    kernel = primitive.pad(kernel, [(0, 0), (0, 0), *fill])
    pairs = [n for pair in zip(turns, steps, strict=True) for n in pair]
    kernel = primitive.reshape(kernel, [inner, out, *pairs])
    spatial = len(steps)
    turn_axes, phase_axes = range(2, 2 + 2 * spatial, 2), range(3, 3 + 2 * spatial, 2)
    kernel = primitive.permute(kernel, [0, 1, *phase_axes, *turn_axes])
    kernel = primitive.reshape(kernel, [inner, out * math.prod(steps), *turns])
    phased = replace(problem, kernel=kernel, taps=tuple(turns))
    edges = [(u - 1) * d for u, d in zip(turns, dilation, strict=True)]
    pads = [(n, n) for n in edges]
    result = _convolved(phased, _exchanged(phased), pads, [1] * spatial, dilation)
    if math.prod(steps) > 1:  # interleaved while it is computed, its loops would have no tiles
        result = primitive.contiguous(result)
    batch, _, *places = shapes.sizes_of(result)
    channels = out * problem.groups
    result = primitive.reshape(result, [batch, channels, *steps, *places])
    order = [axis for k in range(spatial) for axis in (2 + spatial + k, 2 + k)]
    result = primitive.permute(result, [0, 1, *order])
    sizes = [n * s for n, s in zip(places, steps, strict=True)]
    return primitive.reshape(result, [batch, channels, *sizes])


def _with_gaps(x: UOp, steps: Sequence[int]) -> UOp:
    """`step - 1` zeros between the elements of the axes after the first two."""
    for axis, step in enumerate(steps, 2):
        sizes = list(shapes.sizes_of(x))
        size = sizes[axis]
        if step == 1:
            continue
        x = primitive.reshape(x, [*sizes[: axis + 1], 1, *sizes[axis + 1 :]])
        x = primitive.pad(x, [(0, (step - 1) * (k == axis + 1)) for k in range(len(sizes) + 1)])
        sizes[axis] = size * step
        x = primitive.reshape(x, sizes)
        sizes[axis] = size * step - (step - 1)
        x = primitive.shrink(x, [(0, n) for n in sizes])
    return x


def _exchanged(problem: Problem) -> UOp:
    """(in, out / groups, taps…) as (out, in / groups, taps…), with the taps backwards."""
    groups = problem.groups
    inner, out, *taps = shapes.sizes_of(problem.kernel)
    kernel = primitive.flip(problem.kernel, range(2, 2 + len(taps)))
    kernel = primitive.reshape(kernel, [groups, inner // groups, out, *taps])
    kernel = primitive.permute(kernel, [0, 2, 1, *range(3, 3 + len(taps))])
    return primitive.reshape(kernel, [groups * out, inner // groups, *taps])


# -- by the number of axes -------------------------------------------------------------------------


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
    """Windows over one axis, times a kernel; `padding` may be 'same' or 'valid'."""
    return _convolution(1, x, weight, bias, stride, padding, dilation, groups)


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
    """Windows over two axes, times a kernel; `padding` may be 'same' or 'valid'."""
    return _convolution(2, x, weight, bias, stride, padding, dilation, groups)


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
    """Windows over three axes, times a kernel; `padding` may be 'same' or 'valid'."""
    return _convolution(3, x, weight, bias, stride, padding, dilation, groups)


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
    """What `conv1d` with these arguments does to gradients: weight is (in, out / groups, taps)."""
    return _transposed_convolution(
        1, x, weight, bias, stride, padding, output_padding, groups, dilation
    )


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
    """What `conv2d` with these arguments does to gradients: weight is (in, out / groups, taps)."""
    return _transposed_convolution(
        2, x, weight, bias, stride, padding, output_padding, groups, dilation
    )


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
    """What `conv3d` with these arguments does to gradients: weight is (in, out / groups, taps)."""
    return _transposed_convolution(
        3, x, weight, bias, stride, padding, output_padding, groups, dilation
    )
