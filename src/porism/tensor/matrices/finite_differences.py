"""Finite differences: derivatives of samples along axes, by differences of neighbours.

Inside, the difference is that of both neighbours, which is exact for parabolas; with unequal steps
it is weighted so that it stays exact. At the ends it is one-sided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from porism.tensor import shapes
from porism.tensor.api.arithmetic import astype, multiply
from porism.tensor.api.operands import float_node
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.joining import concat
from porism.tensor.movement.reshape import reshape, slice_axis
from porism.tensor.promotion import type_error
from porism.tensor.shapes import shape_error
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method

Steps = float | Tensor
"""The distance of neighbours: one number, or a tensor of all of them along the axis."""


@method
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return the derivative of samples along an axis, by differences; of several axes a tuple.

    The samples are 1 apart, or as far apart as a number says; a vector has their positions. For
    several axes, which are all by default, there is one of these for all or one for each.
    `edge_order` is the order of the differences at both ends, 1 or 2. The derivative of a function
    is `porism.grad`.

    >>> porism.gradient([1.0, 2.0, 4.0, 7.0]).tolist()
    [1.0, 1.5, 2.5, 3.0]
    >>> porism.gradient([1, 4, 16], [0, 1, 3]).tolist()
    [3.0, 4.0, 6.0]
    """
    if callable(f) and not isinstance(f, Tensor):
        raise type_error(
            "gradient of a function",
            "gradient takes samples; derivatives of functions are those of porism.grad",
            "write porism.grad(function)(x)",
        )
    if edge_order not in (1, 2):
        raise shape_error(
            f"gradient with edge_order={edge_order!r}",
            "differences at the ends have the order 1 or 2",
            "pass one of them",
        )
    samples = Tensor(float_node(as_tensor(f)))
    axes = shapes.normalize_axes(axis, samples.ndim)
    spacings = _spacings(varargs, len(axes))
    results = tuple(
        _along(samples, k, spacing, edge_order) for k, spacing in zip(axes, spacings, strict=True)
    )
    return results[0] if len(results) == 1 else results


def _spacings(given: Sequence[Any], count: int) -> list[Any]:
    """Return the distance or the positions along each axis."""
    if not given:
        return [1.0] * count
    if len(given) == 1 and as_tensor(given[0]).ndim == 0:
        return [given[0]] * count
    if len(given) != count:
        raise shape_error(
            f"gradient along {count} axes with {len(given)} spacings",
            "there is one number for all axes, or for each axis a number or a vector of positions",
            "pass one for each axis",
        )
    return list(given)


def _along(f: Tensor, axis: int, spacing: Any, order: int) -> Tensor:
    """Return the derivative along an axis."""
    size = static_size(f.shape[axis], "gradient")
    if size < order + 1:
        raise shape_error(
            f"gradient along axis {axis} of a tensor of shape {shapes.to_text(f.shape)}",
            f"it takes at least {order + 1} samples along each axis",
            "name other axes, or pass more samples",
        )
    steps = _steps(f, axis, size, spacing)

    def at(first: int, last: int) -> Tensor:
        return Tensor(slice_axis(f.node, axis, first, last))

    def step(first: int, last: int) -> Steps:
        return steps if isinstance(steps, float) else _part(steps, axis, first, last)

    differences = at(1, size) - at(0, size - 1)
    slopes = differences / steps
    first, last = _part(slopes, axis, 0, 1), _part(slopes, axis, size - 2, size - 1)
    if size == 2:
        return concat([first, last], axis)
    # The slope between two samples, at the middle one, is that of the parabola through three.
    before, after = _part(slopes, axis, 0, size - 2), _part(slopes, axis, 1, size - 1)
    left, right = step(0, size - 2), step(1, size - 1)
    if isinstance(steps, float):
        inside = (at(2, size) - at(0, size - 2)) / (2 * steps)
    else:
        inside = (before * right + after * left) / (left + right)
    if order == 2:
        first = _extrapolated(first, _part(slopes, axis, 1, 2), step(0, 1), step(1, 2))
        last_but_one = _part(slopes, axis, size - 3, size - 2)
        last = _extrapolated(last, last_but_one, step(size - 2, size - 1), step(size - 3, size - 2))
    return concat([first, inside, last], axis)


def _part(x: Tensor, axis: int, first: int, last: int) -> Tensor:
    """Return a slice along an axis."""
    return Tensor(slice_axis(x.node, axis, first, last))


def _extrapolated(slope: Tensor, inner: Tensor, step: Steps, inner_step: Steps) -> Tensor:
    """Return the slope of a parabola at its end, from those of its two chords."""
    return slope + (slope - inner) * (step / (step + inner_step))


def _steps(f: Tensor, axis: int, size: int, spacing: Any) -> Steps:
    """Return the distances of neighbouring samples."""
    if isinstance(spacing, (int, float)):
        return float(spacing)
    given = as_tensor(spacing)
    if given.ndim == 0:
        return multiply(astype(given, f.dtype), _ones_along(f, axis, size - 1))
    if given.ndim != 1 or not shapes.sizes_equal(given.shape[0], size):
        raise shape_error(
            f"gradient at positions of shape {shapes.to_text(given.shape)}",
            f"there is a position for each of the {size} samples along the axis",
            "pass a vector of that length, or the distance as a number",
        )
    positions = Tensor(float_node(given))
    steps = _part(positions, 0, 1, size) - _part(positions, 0, 0, size - 1)
    sizes = [size - 1 if k == axis else 1 for k in range(f.ndim)]
    return reshape(astype(steps, f.dtype), sizes)


def _ones_along(f: Tensor, axis: int, count: int) -> Tensor:
    """Return ones along an axis, with size 1 of all others."""
    from porism.tensor.api.creation import ones

    return ones([count if k == axis else 1 for k in range(f.ndim)], dtype=f.dtype)
