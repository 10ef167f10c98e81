"""Sequence products: convolution of vectors, integrals, polynomials and interpolation."""

from __future__ import annotations

from typing import Any

from porism.ir import ops
from porism.tensor import primitive, shapes
from porism.tensor.api import reductions
from porism.tensor.api.arithmetic import add, divide, multiply, subtract
from porism.tensor.api.comparison import clip
from porism.tensor.api.operands import float_node, promoted_operands
from porism.tensor.api.reductions import accumulation_dtype
from porism.tensor.complex.complex_dispatch import accepts_complex
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.indexing import take
from porism.tensor.movement.reshape import flip, reshape, slice_axis
from porism.tensor.movement.sorting import searchsorted
from porism.tensor.network.convolution import conv1d
from porism.tensor.shapes import shape_error
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method

# -- convolution -----------------------------------------------------------------------------------


def _vectors(x1: Any, x2: Any, what: str) -> tuple[Tensor, Tensor]:
    """Return two vectors of one type, each with elements."""
    a, b = promoted_operands(what, x1, x2)
    for tensor in (a, b):
        if tensor.ndim != 1 or shapes.sizes_equal(tensor.shape[0], 0):
            raise shape_error(
                f"{what} of tensors of shapes {shapes.to_text(a.shape)} and "
                f"{shapes.to_text(b.shape)}",
                "both are vectors that have elements",
                "flatten them, or use conv1d and conv2d for batches and images",
            )
    return a, b


def _mode_part(full: int, lengths: tuple[int, int], mode: str, what: str) -> tuple[int, int]:
    """Return the first index and the number of elements of a full convolution that a mode keeps."""
    longer, shorter = max(lengths), min(lengths)
    parts = {
        "full": (0, full),
        "same": ((shorter - 1) // 2, longer),
        "valid": (shorter - 1, longer - shorter + 1),
    }
    if mode not in parts:
        raise shape_error(
            f"{what} with mode={mode!r}",
            "'full' has every overlap, 'same' as many as the longer vector, 'valid' complete ones",
            "pass 'full', 'same' or 'valid'",
        )
    return parts[mode]


def _full_convolution(a: Tensor, b: Tensor) -> Tensor:
    """Return all sums of products of two vectors whose indices have the same sum."""
    lengths = [static_size(t.shape[0], "convolve") for t in (a, b)]
    if lengths[0] < lengths[1]:
        a, b = b, a
    signal = reshape(a, 1, 1, -1)
    kernel = reshape(flip(b, 0), 1, 1, -1)
    return reshape(conv1d(signal, kernel, padding=min(lengths) - 1), -1)


@method
def convolve(x1: Any, x2: Any, mode: str = "full") -> Tensor:
    """Return the convolution of two vectors: sums of products whose indices have the same sum.

    `mode` is 'full', 'same' (the middle, as long as the longer vector) or 'valid' (where they
    overlap completely).

    >>> porism.convolve([1, 2, 3], [1, 10]).tolist()
    [1, 12, 23, 30]
    """
    a, b = _vectors(x1, x2, "convolve")
    lengths = (static_size(a.shape[0], "convolve"), static_size(b.shape[0], "convolve"))
    first, count = _mode_part(lengths[0] + lengths[1] - 1, lengths, mode, "convolve")
    return Tensor(slice_axis(_full_convolution(a, b).node, 0, first, first + count))


@method
def correlate(x1: Any, x2: Any, mode: str = "valid") -> Tensor:
    """Return the correlation of two vectors: sums of products of x1, shifted, with x2.

    The modes are those of `convolve`.

    >>> porism.correlate([1, 2, 3], [0, 1]).tolist()
    [2, 3]
    """
    a, b = _vectors(x1, x2, "correlate")
    lengths = (static_size(a.shape[0], "correlate"), static_size(b.shape[0], "correlate"))
    full = lengths[0] + lengths[1] - 1
    first, count = _mode_part(full, lengths, mode, "correlate")
    if lengths[0] < lengths[1]:  # as in NumPy, the middle is counted from the other end
        first = full - first - count
    return Tensor(slice_axis(_full_convolution(a, flip(b, 0)).node, 0, first, first + count))


# -- integrals and functions of samples ------------------------------------------------------------


@method
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """Return the integral of samples along an axis by the trapezoidal rule.

    The samples are at the positions `x`, or `dx` apart.

    >>> porism.trapezoid([1.0, 2.0, 3.0]).item(), porism.trapezoid([1, 3], [0, 4]).item()
    (4.0, 8.0)
    """
    node = float_node(as_tensor(y))
    wide = primitive.cast(node, accumulation_dtype(node.dtype))
    sizes = shapes.sizes_of(wide)
    summed_axis = shapes.normalize_axis(axis, len(sizes))
    size = static_size(sizes[summed_axis], "trapezoid")
    ends = [(max(size - 1, 0), 0), (size, min(size, 1))]
    before, after = (slice_axis(wide, summed_axis, first, end) for end, first in ends)
    heights = Tensor(before + after)
    if x is None:
        areas = multiply(heights, 0.5 * dx)
    else:
        areas = multiply(multiply(heights, 0.5), _distances(x, len(sizes), summed_axis, size))
    return Tensor(primitive.cast(reductions.sum(areas, summed_axis).node, node.dtype))


def _distances(x: Any, rank: int, axis: int, size: int) -> Tensor:
    """Return the distances of neighbouring positions, with the axes of the samples."""
    positions = as_tensor(x)
    if positions.ndim == 1:
        positions = reshape(positions, [-1 if k == axis else 1 for k in range(rank)])
    if positions.ndim != rank or not shapes.sizes_equal(positions.shape[axis], size):
        raise shape_error(
            f"trapezoid at positions of shape {shapes.to_text(as_tensor(x).shape)}",
            f"there is a position for each of the {size} samples along the axis",
            "pass a vector, or a tensor of the shape of y",
        )
    first = min(size, 1)
    later = Tensor(slice_axis(positions.node, axis, first, size))
    return subtract(later, Tensor(slice_axis(positions.node, axis, 0, max(size - 1, 0))))


@accepts_complex
def polyval(p: Any, x: Any) -> Tensor:
    """Return the value of a polynomial at x; the coefficient of the highest power comes first.

    >>> porism.polyval([1, 0, 2], [3, 4]).tolist()
    [11, 18]
    """
    coefficients, points = promoted_operands("polyval", p, x)
    if coefficients.ndim != 1:
        raise shape_error(
            f"polyval with coefficients of shape {shapes.to_text(coefficients.shape)}",
            "they are a vector",
            "flatten them",
        )
    dtype = points.node.dtype
    wide = accumulation_dtype(dtype)
    node = primitive.cast(points.node, wide)
    total = primitive.full(wide, 0, points.shape)
    for k in range(static_size(coefficients.shape[0], "polyval")):
        part = primitive.reshape(slice_axis(coefficients.node, 0, k, k + 1), [1] * points.ndim)
        constant = primitive.expand(primitive.cast(part, wide), points.shape)
        total = ops.MULACC(total, node, constant) if wide.is_float else total * node + constant
    return Tensor(primitive.cast(total, dtype))


@method
def interp(x: Any, xp: Any, fp: Any) -> Tensor:
    """Return a function at x by linear interpolation between its values `fp` at increasing `xp`.

    Outside of `xp` it is the first or the last value.

    >>> porism.interp([0.5, 5.0], [0.0, 1.0, 2.0], [0.0, 10.0, 30.0]).tolist()
    [5.0, 30.0]
    """
    points, known, values = (Tensor(float_node(as_tensor(t))) for t in (x, xp, fp))
    if known.ndim != 1 or not shapes.shapes_equal(known.shape, values.shape):
        raise shape_error(
            f"interp between positions of shape {shapes.to_text(known.shape)} and values of shape "
            f"{shapes.to_text(values.shape)}",
            "there is one value for each position, in vectors",
            "pass two vectors of the same length",
        )
    points, known, values = promoted_operands("interp", points, known, values)
    count = static_size(known.shape[0], "interp")
    if not count:
        raise shape_error("interp between no values", "there is nothing to choose", "pass some")
    index = subtract(searchsorted(known, points, side="right"), 1)
    lower, upper = clip(index, 0, max(count - 2, 0)), clip(add(index, 1), 0, count - 1)
    upper = add(lower, min(1, count - 1)) if count > 1 else upper
    left, right = take(known, lower, 0), take(known, upper, 0)
    low, high = take(values, lower, 0), take(values, upper, 0)
    slope = divide(subtract(high, low), subtract(right, left))
    inside = add(multiply(slope, subtract(points, left)), low).node
    first, last = take(known, 0, 0), take(known, count - 1, 0)
    sizes = points.shape
    below = points.node <= primitive.broadcast(first.node, sizes)
    above = points.node >= primitive.broadcast(last.node, sizes)
    start = primitive.broadcast(take(values, 0, 0).node, sizes)
    end = primitive.broadcast(take(values, count - 1, 0).node, sizes)
    return Tensor(below.where(start, above.where(end, inside)))
