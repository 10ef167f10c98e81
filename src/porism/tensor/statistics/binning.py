"""Binning: the bin of each number, and how many numbers are in each."""

from __future__ import annotations

from typing import Any

import numpy as np

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api import reductions
from porism.tensor.api.arithmetic import divide, subtract
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.reshape import flatten
from porism.tensor.movement.scatter import bincount
from porism.tensor.movement.sorting import searchsorted
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method


@method
def digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    """Return the index of the bin of each number, where `bins` are increasing edges.

    Bin k is from edge k - 1 to edge k, without the latter; with `right` without the former.

    >>> porism.digitize([0.5, 1.0, 9.0], [1.0, 2.0]).tolist()
    [0, 1, 2]
    """
    return searchsorted(bins, x, side="left" if right else "right")


@method
def bucketize(x: Any, boundaries: Any, *, right: bool = False) -> Tensor:
    """Return the index of the bucket of each number, where `boundaries` are increasing.

    Bucket k is from boundary k - 1 to boundary k, without the former; with `right` without the
    latter: the opposite of NumPy's `digitize`.

    >>> porism.bucketize([0.5, 1.0, 9.0], [1.0, 2.0]).tolist()
    [0, 0, 2]
    """
    return searchsorted(boundaries, x, side="right" if right else "left")


@method
def histogram(
    x: Any,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    density: bool = False,
    weights: Any = None,
) -> tuple[Tensor, Tensor]:
    """Return how many numbers are in each bin, and the edges of the bins.

    `bins` is the number of equal bins over `range` (by default from the smallest to the largest
    number), or increasing edges. The last bin has both its edges. With `density` counts are divided
    by their sum and the width of each bin.

    >>> counts, edges = porism.histogram([1.0, 2.0, 2.5, 4.0], bins=3)
    >>> counts.tolist(), edges.tolist()
    ([1, 2, 1], [1.0, 2.0, 3.0, 4.0])
    """
    values = flatten(x)
    edges = _edges(values, bins, range)
    count = static_size(edges.shape[0], "histogram") - 1
    # As many as there are edges up to a number; the last edge belongs to the last bin.
    index = subtract(searchsorted(edges, values, side="right"), 1).node
    last = UOp.const(edges.node.dtype, 0) if count < 0 else _element(edges, count)
    number = primitive.cast(values.node, promotion.result_type(values.node.dtype, edges.node.dtype))
    at_end = number.eq(primitive.expand(primitive.cast(last, number.dtype), values.shape))
    index = at_end.where(index.lift(count - 1), index)
    hits = bincount(Tensor(index), None if weights is None else flatten(weights), length=count)
    if not density:
        return hits, edges
    node = edges.node
    widths = Tensor(primitive.shrink(node, [(1, count + 1)]) - primitive.shrink(node, [(0, count)]))
    return divide(divide(hits, widths), reductions.sum(hits)), edges


def _element(x: Tensor, k: int) -> UOp:
    """Return an element of a vector, as a vector of one."""
    return primitive.shrink(x.node, [(k, k + 1)])


def _edges(x: Tensor, bins: Any, range: tuple[float, float] | None) -> Tensor:
    """Return the edges of the bins."""
    if isinstance(bins, str):
        raise shapes.shape_error(
            f"histogram with bins={bins!r}",
            "a rule for the number of bins depends on the values, and shapes do not",
            "pass a number of bins, or numpy.histogram_bin_edges(x.numpy(), bins)",
        )
    if not isinstance(bins, (int, np.integer)):
        edges = as_tensor(bins)
        if edges.ndim != 1 or shapes.sizes_equal(edges.shape[0], 0):
            raise shapes.shape_error(
                f"histogram with edges of shape {shapes.to_text(edges.shape)}",
                "edges are a vector of increasing numbers",
                "pass a vector, or a number of bins",
            )
        return edges
    count = shapes.as_int(bins, "bins")
    if count < 1:
        raise shapes.shape_error(f"{count} bins", "there is at least one", "give 1 or more")
    dtype = promotion.float_type(x.node.dtype)
    low, high = _ends(x, range)
    # Without elements or width the bins are around 0 or around the number, as in NumPy.
    same = low.eq(high)
    low, high = same.where(low - 0.5, low), same.where(high + 0.5, high)
    position = primitive.iota((count + 1,), 0)
    fraction = primitive.cast(position, dtypes.f64) * (1 / count)
    node = primitive.expand(low, (count + 1,))
    top = primitive.expand(high, (count + 1,))
    spaced = ops.MULACC(fraction, top - node, node)
    return Tensor(primitive.cast(position.eq(count).where(top, spaced), dtype))


def _ends(x: Tensor, range: tuple[float, float] | None) -> tuple[UOp, UOp]:
    """Return the ends of the range in f64, as vectors of one."""
    if range is None and shapes.sizes_equal(shapes.product(x.shape), 0):
        range = (0.0, 1.0)
    if range is not None:
        first, last = (shapes.as_number(end, "an end of the range") for end in range)
        if first > last:
            raise shapes.shape_error(
                f"histogram over the range {range!r}", "it ends before it begins", "swap the ends"
            )
        ends = (UOp.const(dtypes.f64, float(first)), UOp.const(dtypes.f64, float(last)))
    else:
        wide = Tensor(primitive.cast(x.node, dtypes.f64))
        ends = (reductions.min(wide).node, reductions.max(wide).node)
    return primitive.reshape(ends[0], [1]), primitive.reshape(ends[1], [1])
