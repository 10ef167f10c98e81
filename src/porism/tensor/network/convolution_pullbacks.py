"""Pullbacks of convolutions: by the input a transposed convolution, by the kernel a contraction.

The derivative by the input convolves the cotangent with the transposed kernel, as
`porism.conv_transpose2d` does: no buffer of all windows is made. That by the kernel is a sum of
products over the batch and all windows, which are views. Where rows are short and channels many,
both operands are copied with contiguous channels, so that vectors run along these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor import primitive, shapes
from porism.tensor.network.convolution import Operands, pad_or_crop
from porism.tensor.network.convolution_phases import transposed_convolution
from porism.tensor.network.sliding_windows import sliding_windows
from porism.tensor.primitive import Dim
from porism.tensor.static_sizes import static_size

Pads = Sequence[tuple[int, int]]
NAME = "the derivative of a convolution"

MIN_CHANNELS: Final = 32
"""Channels on both sides from which on vectors run along them; measured with AVX-512."""

MIN_POSITIONS: Final = 128
"""Elements of a channel, of all images, from which on a transposed copy of the kernel pays: 0.3 ns
for an element of the kernel, against 4 ps at each position; measured with AVX-512."""

MAX_ROW: Final = 32
"""Elements of a row of the result up to which they do; measured with AVX-512."""


def operand_cotangents(
    g: UOp,
    inputs: tuple[UOp, UOp],
    pads: Pads,
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> list[UOp]:
    """Return the cotangents of the input and of the kernel of a convolution, from its own."""
    x, kernel = inputs
    if shapes.product(shapes.sizes_of(x)) == 0 or shapes.product(shapes.sizes_of(g)) == 0:
        return [primitive.full(n.dtype, 0, shapes.sizes_of(n)) for n in inputs]
    taps = tuple(static_size(size, NAME) for size in shapes.sizes_of(kernel)[2:])
    cotangent = primitive.cast(g, kernel.dtype)
    operands = Operands(NAME, cotangent, kernel, True, len(taps), groups, taps)
    positions = math.prod(size_bound(dim) for k, dim in enumerate(shapes.sizes_of(g)) if k != 1)
    stores_kernel = groups == 1 and positions >= MIN_POSITIONS
    sizes = [static_size(size, NAME) for size in shapes.sizes_of(x)[2:]]
    bounds = [(before, before + size) for size, (before, _) in zip(sizes, pads, strict=True)]
    by_input = transposed_convolution(operands, stride, dilation, bounds, stores_kernel)
    by_kernel = _kernel_cotangent(g, pad_or_crop(x, pads), kernel, stride, dilation, groups)
    return [by_input, by_kernel]


def _kernel_cotangent(
    g: UOp, x: UOp, kernel: UOp, stride: Sequence[int], dilation: Sequence[int], groups: int
) -> UOp:
    """Return the sums of the cotangent times the windows of a padded input."""
    if _has_channels_last(g, kernel, groups):
        return _kernel_cotangent_channels_last(g, x, kernel, stride, dilation, groups)
    if max(stride) > 1 and max(dilation) == 1:
        return _kernel_cotangent_by_phases(g, x, kernel, stride, groups)
    out, inner, *taps = shapes.sizes_of(kernel)
    batch, _, *counts = shapes.sizes_of(g)
    spatial = len(taps)
    tap_counts = [static_size(n, NAME) for n in taps]
    view = sliding_windows(x, range(2, 2 + spatial), tap_counts, stride, dilation)
    view = primitive.reshape(view, [batch, groups, 1, inner, *counts, *taps])
    rows = primitive.reshape(g, [batch, groups, out // groups, 1, *counts, *[1] * spatial])
    sizes: list[Dim] = [batch, groups, out // groups, inner, *counts, *taps]
    product = primitive.cast(primitive.expand(view, sizes), g.dtype) * primitive.expand(rows, sizes)
    summed = (0, *range(4, 4 + spatial))
    return primitive.reshape(primitive.reduce(product, ops.ADD, summed), shapes.sizes_of(kernel))


def _has_channels_last(g: UOp, kernel: UOp, groups: int) -> bool:
    """Return whether vectors along channels pay: rows of the image are short, channels are many."""
    out, inner, *_ = (static_size(n, NAME) for n in shapes.sizes_of(kernel))
    row = static_size(shapes.sizes_of(g)[-1], NAME)
    return min(out // groups, inner) >= MIN_CHANNELS and row <= MAX_ROW


def _kernel_cotangent_channels_last(
    g: UOp, x: UOp, kernel: UOp, stride: Sequence[int], dilation: Sequence[int], groups: int
) -> UOp:
    """Return the same by copies with contiguous channels: an outer product for each element."""
    out, inner, *sizes = shapes.sizes_of(kernel)
    taps = [static_size(n, NAME) for n in sizes]
    batch, _, *counts = shapes.sizes_of(g)
    spatial = len(taps)
    last = [0, *range(2, 2 + spatial), 1]
    reason = "the derivative of a convolution by its kernel"
    x = primitive.contiguous(primitive.permute(x, last), reason)
    rows = primitive.contiguous(primitive.permute(g, last), reason)
    view = sliding_windows(x, range(1, 1 + spatial), taps, stride, dilation)
    order = [*range(1 + spatial), *range(2 + spatial, 2 + 2 * spatial), 1 + spatial]
    view = primitive.permute(view, order)
    view = primitive.reshape(view, [batch, *counts, *taps, groups, 1, inner])
    ones = [1] * spatial
    rows = primitive.reshape(rows, [batch, *counts, *ones, groups, out // groups, 1])
    product_sizes: list[Dim] = [batch, *counts, *taps, groups, out // groups, inner]
    product = primitive.cast(primitive.expand(view, product_sizes), g.dtype) * primitive.expand(
        rows, product_sizes
    )
    found = primitive.reduce(product, ops.ADD, tuple(range(1 + spatial)))
    found = primitive.reshape(found, [*taps, groups, out // groups, inner])
    found = primitive.contiguous(found, reason)
    found = primitive.permute(found, [*range(spatial, 3 + spatial), *range(spatial)])
    return primitive.contiguous(primitive.reshape(found, shapes.sizes_of(kernel)), reason)


def _kernel_cotangent_by_phases(
    g: UOp, x: UOp, kernel: UOp, stride: Sequence[int], groups: int
) -> UOp:
    """Return the same for a stride above 1: every stride-th element is a channel of its own.

    Tap `u*stride + phase` of window `i` is element `i + u` of that phase, so windows of phases are
    a stride of 1 apart, and their elements are contiguous.
    """
    out, inner, *sizes = shapes.sizes_of(kernel)
    taps = [static_size(n, NAME) for n in sizes]
    counts = [static_size(n, NAME) for n in shapes.sizes_of(g)[2:]]
    spatial, phases = len(taps), math.prod(stride)
    per_phase = [-(-n // s) for n, s in zip(taps, stride, strict=True)]
    lengths = [count + u - 1 for count, u in zip(counts, per_phase, strict=True)]
    batch, channels, *whole = shapes.sizes_of(x)
    ends = [
        (0, n * s - static_size(size, NAME))
        for n, s, size in zip(lengths, stride, whole, strict=True)
    ]
    x = pad_or_crop(x, ends)
    pairs = [n for pair in zip(lengths, stride, strict=True) for n in pair]
    x = primitive.reshape(x, [batch, channels, *pairs])
    x = primitive.permute(x, [0, 1, *range(3, 3 + 2 * spatial, 2), *range(2, 2 + 2 * spatial, 2)])
    x = primitive.reshape(x, [batch, channels * phases, *lengths])
    x = primitive.contiguous(x, "the derivative of a strided convolution")
    like = primitive.full(kernel.dtype, 0, [out, inner * phases, *per_phase])
    ones = [1] * spatial
    found = _kernel_cotangent(g, x, like, ones, ones, groups)
    found = primitive.reshape(found, [out, inner, *stride, *per_phase])
    order = [axis for k in range(spatial) for axis in (2 + spatial + k, 2 + k)]
    found = primitive.permute(found, [0, 1, *order])
    grown = [u * s for u, s in zip(per_phase, stride, strict=True)]
    found = primitive.reshape(found, [out, inner, *grown])
    return primitive.shrink(found, [(0, n) for n in (out, inner, *taps)])


def size_bound(size: Dim) -> int:
    """Return the largest value of a size."""
    return size if isinstance(size, int) else int(size.vmax)
