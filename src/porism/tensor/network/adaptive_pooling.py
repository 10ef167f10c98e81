"""Adaptive pooling: the maximum or mean of a given number of windows (bins) that cover an axis.

Bin i of m bins over n elements has the elements from floor(i·n/m) to ceil((i+1)·n/m), so bins can
differ in size and overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from porism.ir import ops
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api.operands import float_node
from porism.tensor.api.reductions import divide_by_count, drop_axes, reduced_count
from porism.tensor.conversion import as_tensor
from porism.tensor.float_formulas import in_f32
from porism.tensor.network.pooling import require_rank
from porism.tensor.static_sizes import per_axis, static_size
from porism.tensor.tensor import Tensor, method


@dataclass(frozen=True)
class BinElements:
    """Which elements of an axis belong to a bin, and how many; None where all do."""

    mask: UOp | None
    count: UOp | None


Pool = Callable[[UOp, BinElements, int], UOp]
"""A reduction of the elements of each bin along one axis: (node, bins, axis) to node."""


def _adaptive(
    name: str, spatial: int, x: Tensor, output_size: Any, pool: Pool
) -> Callable[[UOp], UOp]:
    """Return a function that pools axis after axis, since the bins are boxes.

    Where the output size divides the axis, the bins are equal blocks of it. Elsewhere each bin is
    reduced over the whole axis with a mask: n·m operations for m bins over n elements.
    """
    require_rank(name, spatial, x)
    requested = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * spatial
    first = x.ndim - spatial
    sizes = [static_size(size, name) for size in x.shape[first:]]
    bin_counts = [n if m is None else m for n, m in zip(sizes, requested, strict=False)]
    wanted = per_axis(bin_counts + list(requested[spatial:]), spatial, "output_size", 1)
    if 0 in sizes:
        raise shapes.shape_error(
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
    """Return one axis of a node pooled to `count` bins."""
    sizes = list(shapes.sizes_of(node))
    size = sizes[axis]
    assert isinstance(size, int)
    if size == count:
        return node
    before, after = sizes[:axis], sizes[axis + 1 :]
    if size % count == 0:
        blocks = primitive.reshape(node, [*before, count, size // count, *after])
        return drop_axes(pool(blocks, BinElements(None, None), axis + 1), [axis + 1])
    table = [*before, count, size, *after]
    view = primitive.expand(primitive.reshape(node, [*before, 1, size, *after]), table)
    begin, end = _bin_bounds(primitive.iota(table, axis), size, count)
    position = primitive.iota(table, axis + 1)
    bin_sizes = [*before, count, 1, *after]
    first, last = _bin_bounds(primitive.iota(bin_sizes, axis), size, count)
    bins = BinElements((begin <= position) & (position < end), last - first)
    return drop_axes(pool(view, bins, axis + 1), [axis + 1])


def _bin_bounds(window: UOp, size: int, count: int) -> tuple[UOp, UOp]:
    """Return where bin i of m begins and ends: floor(i·n/m) and ceil((i+1)·n/m)."""
    return window * size // count, ((window + 1) * size + (count - 1)) // count


def _bin_max(node: UOp, bins: BinElements, axis: int) -> UOp:
    """Return the maximum of the elements of each bin."""
    lowest = identity(ops.MAX, node.dtype)
    chosen = node if bins.mask is None else bins.mask.where(node, node.lift(lowest))
    return primitive.reduce(chosen, ops.MAX, [axis])


def _bin_mean(node: UOp, bins: BinElements, axis: int) -> UOp:
    """Return the mean of the elements of each bin."""
    if bins.mask is None or bins.count is None:
        return divide_by_count(primitive.reduce(node, ops.ADD, [axis]), reduced_count(node, [axis]))
    total = primitive.reduce(bins.mask.where(node, node.lift(0)), ops.ADD, [axis])
    return total / primitive.cast(bins.count, node.dtype)


def _adaptive_max_pool(spatial: int, x: Any, output_size: Any) -> Tensor:
    """Return adaptive_max_pool1d, 2d or 3d."""
    tensor = as_tensor(x)
    name = f"adaptive_max_pool{spatial}d"
    return Tensor(_adaptive(name, spatial, tensor, output_size, _bin_max)(tensor.node))


def _adaptive_avg_pool(spatial: int, x: Any, output_size: Any) -> Tensor:
    """Return adaptive_avg_pool1d, 2d or 3d."""
    tensor = as_tensor(x)
    promotion.require_dtype(
        tensor.node.dtype,
        promotion.NUMBERS,
        f"adaptive_avg_pool{spatial}d",
        "convert it, with astype",
    )
    name = f"adaptive_avg_pool{spatial}d"
    formula = _adaptive(name, spatial, tensor, output_size, _bin_mean)
    return Tensor(in_f32(formula, float_node(tensor)))


@method
def adaptive_avg_pool1d(x: Any, output_size: Any) -> Tensor:
    """Return the means of `output_size` windows that cover the last axis.

    Window i has the elements from floor(i·n/m) to ceil((i+1)·n/m) of n elements for m windows.

    >>> porism.adaptive_avg_pool1d([[1.0, 3.0, 2.0, 6.0]], 2).tolist()
    [[2.0, 4.0]]
    """
    return _adaptive_avg_pool(1, x, output_size)


@method
def adaptive_avg_pool2d(x: Any, output_size: Any) -> Tensor:
    """Return the means of windows that cover the last two axes.

    `output_size` is the number of windows along each axis; None keeps the axis as it is.

    >>> porism.adaptive_avg_pool2d(porism.ones(3, 7, 7), (2, None)).shape
    (3, 2, 7)
    """
    return _adaptive_avg_pool(2, x, output_size)


@method
def adaptive_avg_pool3d(x: Any, output_size: Any) -> Tensor:
    """Return the means of windows that cover the last three axes.

    `output_size` is the number of windows along each axis; None keeps the axis as it is.

    >>> porism.adaptive_avg_pool3d(porism.ones(3, 4, 4, 4), 2).shape
    (3, 2, 2, 2)
    """
    return _adaptive_avg_pool(3, x, output_size)


@method
def adaptive_max_pool1d(x: Any, output_size: Any) -> Tensor:
    """Return the maxima of `output_size` windows that cover the last axis.

    Window i has the elements from floor(i·n/m) to ceil((i+1)·n/m) of n elements for m windows.

    >>> porism.adaptive_max_pool1d([[1, 3, 2, 6]], 2).tolist()
    [[3, 6]]
    """
    return _adaptive_max_pool(1, x, output_size)


@method
def adaptive_max_pool2d(x: Any, output_size: Any) -> Tensor:
    """Return the maxima of windows that cover the last two axes.

    `output_size` is the number of windows along each axis; None keeps the axis as it is.

    >>> porism.adaptive_max_pool2d(porism.ones(3, 7, 7), (2, None)).shape
    (3, 2, 7)
    """
    return _adaptive_max_pool(2, x, output_size)


@method
def adaptive_max_pool3d(x: Any, output_size: Any) -> Tensor:
    """Return the maxima of windows that cover the last three axes.

    `output_size` is the number of windows along each axis; None keeps the axis as it is.

    >>> porism.adaptive_max_pool3d(porism.ones(3, 4, 4, 4), 2).shape
    (3, 2, 2, 2)
    """
    return _adaptive_max_pool(3, x, output_size)
