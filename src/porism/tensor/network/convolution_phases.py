"""Convolution phases: a transposed convolution as convolutions of the input, without zeros in it.

A transposed convolution with stride s adds each element times the kernel to a window of the result,
and windows are s apart. Every s-th position of the result, a *phase*, is a convolution of the input
with every s-th tap of the reversed kernel; phases are interleaved at the end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from porism.ir.node import UOp
from porism.tensor import primitive, shapes
from porism.tensor.api.reductions import accumulation_dtype
from porism.tensor.movement.joining import concat_nodes
from porism.tensor.network.convolution import Operands, convolve, pad_or_crop
from porism.tensor.primitive import Dim
from porism.tensor.static_sizes import static_size

MAX_SEPARATE_PHASES: Final = 8
"""Phases of a transposed convolution, at most, that are convolutions of their own; chosen by hand.
"""

MAX_FILL: Final = 1.25
"""Taps of all phases, at most, in those of the kernel, where all phases are one convolution: zeros
fill up the phases that have fewer taps. Chosen by hand."""

PHASES_REASON: Final = "a strided conv_transpose"


def transposed_convolution(
    operands: Operands,
    strides: Sequence[int],
    dilations: Sequence[int],
    bounds: Sequence[tuple[int, int]],
    stores_kernel: bool = False,
) -> UOp:
    """Return a part of a transposed convolution: each element times the kernel, `stride` apart.

    `bounds` are the first position of the result along each axis, and that after the last; beyond
    the ends are zeros. Tap `u*stride + phase` of element `i` contributes to position
    `(i + u)*stride + phase`. So each phase is a convolution of the input with every stride-th tap;
    with stride 1 there is one phase, and its taps may be dilated. Phases with as many taps as each
    other are channels of one convolution; of another kernel, each phase is one of its own.
    """
    gaps = [d if s > 1 else 1 for s, d in zip(strides, dilations, strict=True)]
    kernel = _dilate(operands.kernel, gaps)
    whole = replace(operands, kernel=kernel, taps=_taps(kernel, operands))
    dilation = [1 if s > 1 else d for s, d in zip(strides, dilations, strict=True)]
    taps_with_fill = math.prod(-(-n // s) * s for n, s in zip(whole.taps, strides, strict=True))
    has_few_phases = math.prod(strides) <= MAX_SEPARATE_PHASES
    if has_few_phases and taps_with_fill > MAX_FILL * math.prod(whole.taps):
        return _convolve_each_phase(whole, strides, dilation, bounds, stores_kernel)
    result = _convolve_phases(whole, strides, dilation, stores_kernel)
    ends = zip(bounds, shapes.sizes_of(result)[2:], strict=True)
    pads = [(-start, stop - static_size(n, operands.name)) for (start, stop), n in ends]
    return pad_or_crop(result, pads)


def _taps(kernel: UOp, operands: Operands) -> tuple[int, ...]:
    """Return the taps of a kernel along each axis."""
    return tuple(static_size(n, operands.name) for n in shapes.sizes_of(kernel)[2:])


def _convolve_phases(
    operands: Operands, strides: Sequence[int], dilation: Sequence[int], stores_kernel: bool
) -> UOp:
    """Return the whole transposed convolution by one convolution, whose channels are phases."""
    kernel, taps = operands.kernel, operands.taps
    inner, out, *_ = (static_size(n, operands.name) for n in shapes.sizes_of(kernel))
    taps_per_phase = [-(-n // s) for n, s in zip(taps, strides, strict=True)]
    fill = [(0, u * s - n) for u, s, n in zip(taps_per_phase, strides, taps, strict=True)]
    kernel = primitive.pad(kernel, [(0, 0), (0, 0), *fill])
    pairs = [n for pair in zip(taps_per_phase, strides, strict=True) for n in pair]
    kernel = primitive.reshape(kernel, [inner, out, *pairs])
    spatial = len(strides)
    tap_axes, phase_axes = range(2, 2 + 2 * spatial, 2), range(3, 3 + 2 * spatial, 2)
    kernel = primitive.permute(kernel, [0, 1, *phase_axes, *tap_axes])
    kernel = primitive.reshape(kernel, [inner, out * math.prod(strides), *taps_per_phase])
    edges = [(u - 1) * d for u, d in zip(taps_per_phase, dilation, strict=True)]
    pads = [(n, n) for n in edges]
    result = _convolve_transposed(operands, kernel, pads, dilation, stores_kernel)
    if math.prod(strides) > 1:  # fused with the interleaving, its loops would have no register tile
        result = primitive.contiguous(result, PHASES_REASON)
    batch, _, *positions = shapes.sizes_of(result)
    channels = out * operands.groups
    result = primitive.reshape(result, [batch, channels, *strides, *positions])
    order = [axis for k in range(spatial) for axis in (2 + spatial + k, 2 + k)]
    result = primitive.permute(result, [0, 1, *order])
    sizes = [n * s for n, s in zip(positions, strides, strict=True)]
    return primitive.reshape(result, [batch, channels, *sizes])


def _convolve_each_phase(
    operands: Operands,
    strides: Sequence[int],
    dilation: Sequence[int],
    bounds: Sequence[tuple[int, int]],
    stores_kernel: bool,
) -> UOp:
    """Return a part of the transposed convolution by a convolution for each phase of the result."""
    lengths = [stop - start for start, stop in bounds]
    counts = [-(-length // s) for length, s in zip(lengths, strides, strict=True)]
    parts = []
    for remainders in itertools.product(*map(range, strides)):
        firsts = [r + start for r, (start, _) in zip(remainders, bounds, strict=True)]
        phases = [(n % s, n // s) for n, s in zip(firsts, strides, strict=True)]
        part = _convolve_phase(operands, strides, dilation, phases, counts, stores_kernel)
        parts.append(primitive.contiguous(part, PHASES_REASON))
    for axis in reversed(range(len(strides))):
        parts = [
            _interleave(parts[k : k + strides[axis]], 2 + axis)
            for k in range(0, len(parts), strides[axis])
        ]
    (result,) = parts
    return pad_or_crop(
        result, [(0, n - c * s) for n, c, s in zip(lengths, counts, strides, strict=True)]
    )


def _convolve_phase(
    operands: Operands,
    strides: Sequence[int],
    dilation: Sequence[int],
    phases: Sequence[tuple[int, int]],
    counts: Sequence[int],
    stores_kernel: bool,
) -> UOp:
    """Return every stride-th position of a transposed convolution, `counts` of them.

    `phases` has the first position along each axis, as its remainder and its quotient by the
    stride. Position `q` of the phase is the sum of element `q + quotient - u` times tap
    `u*stride + remainder`.
    """
    taps = [
        max(-(-(n - phase) // s), 0)
        for n, s, (phase, _) in zip(operands.taps, strides, phases, strict=True)
    ]
    batch, _, *sizes = shapes.sizes_of(operands.x)
    _, out, *_ = shapes.sizes_of(operands.kernel)
    if 0 in taps:  # sums of small floats are wider than their operands
        dtype = accumulation_dtype(operands.x.dtype)
        return primitive.full(dtype, 0, [batch, out * operands.groups, *counts])
    kernel = operands.kernel
    for axis, (u, s, (phase, _)) in enumerate(zip(taps, strides, phases, strict=True), 2):
        kernel = _every_nth(kernel, axis, phase, s, u)
    pads = []
    for k, (u, d, (_, first)) in enumerate(zip(taps, dilation, phases, strict=True)):
        size = static_size(sizes[k], operands.name)
        pads.append(((u - 1) * d - first, counts[k] + first - size))
    return _convolve_transposed(operands, kernel, pads, dilation, stores_kernel)


def _convolve_transposed(
    operands: Operands,
    kernel: UOp,
    pads: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    stores_kernel: bool,
) -> UOp:
    """Return the convolution with a kernel (in, out / groups, taps…), transposed."""
    own = replace(operands, kernel=kernel, taps=_taps(kernel, operands))
    transposed = _transpose_kernel(own)
    if stores_kernel:
        transposed = primitive.contiguous(transposed, "the kernel of a transposed convolution")
    return convolve(own, transposed, pads, [1] * len(dilation), dilation)


def _every_nth(x: UOp, axis: int, first: int, step: int, count: int) -> UOp:
    """Return every step-th element of an axis: `count` of them, from the first on."""
    sizes = list(shapes.sizes_of(x))
    size = static_size(sizes[axis], "a convolution")
    missing = first + count * step - size
    pads = [(0, max(missing, 0) * (k == axis)) for k in range(len(sizes))]
    x = primitive.pad(x, pads)
    whole: list[tuple[Dim, Dim]] = [(0, n) for n in sizes]
    whole[axis] = (first, first + count * step)
    x = primitive.reshape(
        primitive.shrink(x, whole), [*sizes[:axis], count, step, *sizes[axis + 1 :]]
    )
    bounds: list[tuple[Dim, Dim]] = [(0, n) for n in shapes.sizes_of(x)]
    bounds[axis + 1] = (0, 1)
    return primitive.reshape(
        primitive.shrink(x, bounds), [*sizes[:axis], count, *sizes[axis + 1 :]]
    )


def _interleave(parts: Sequence[UOp], axis: int) -> UOp:
    """Return tensors of one shape interleaved along an axis."""
    if len(parts) == 1:
        return parts[0]
    sizes = shapes.sizes_of(parts[0])
    columns = [
        primitive.reshape(part, [*sizes[: axis + 1], 1, *sizes[axis + 1 :]]) for part in parts
    ]
    count = static_size(sizes[axis], "a convolution") * len(parts)
    return primitive.reshape(
        concat_nodes(columns, axis + 1), [*sizes[:axis], count, *sizes[axis + 1 :]]
    )


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
