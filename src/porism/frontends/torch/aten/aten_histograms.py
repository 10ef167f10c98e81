"""Histograms of ATen: how many elements, or how much weight, is in each bin.

A bin has its left edge, and the last one its right edge too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten.aten_table import UncoveredFormError, aten


@aten("histc.default")
def histc(x: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    """Return how many elements are in each of some bins of equal width."""
    if x.dtype.kind != "f":
        raise UncoveredFormError("histc of integers")
    if not x.size:
        return xp.zeros(bins, dtype=x.dtype)
    flat = xp.reshape(x, (-1,))
    low, high = (xp.full((), v, dtype=x.dtype) for v in (min, max))
    if min == max:
        low, high = xp.min(flat), xp.max(flat)
        low, high = xp.where(low == high, low - 1, low), xp.where(low == high, high + 1, high)
    inside = (flat >= low) & (flat <= high)
    index = xp.where(inside, (flat - low) * bins / (high - low), 0)  # rounded as torch does
    index = xp.minimum(index.astype("int64"), bins - 1)
    return xp.scatter_add(xp.zeros(bins, dtype=x.dtype), 0, index, inside.astype(x.dtype))


# -- bins of one or several axes -------------------------------------------------------------------


def _even_edges(points: Any, bins: Sequence[int], limits: Any) -> list[Any]:
    """Return the edges of bins of equal width along each axis of points.

    They are between given limits, or the least and the largest point; 0 and 1 without points.
    """
    edges = []
    for axis, count in enumerate(bins):
        if limits:
            low, high = (xp.full((), v, dtype=points.dtype) for v in limits[2 * axis :][:2])
        elif points.shape[0]:
            low, high = xp.min(points[:, axis]), xp.max(points[:, axis])
        else:
            low, high = (xp.full((), v, dtype=points.dtype) for v in (0, 1))
        low, high = xp.where(low == high, low - 0.5, low), xp.where(low == high, high + 0.5, high)
        step = (high - low) / count
        rank = xp.arange(count + 1)
        lower, upper = (r.astype(points.dtype) for r in (rank, count - rank))
        edges.append(xp.where(rank < (count + 1) // 2, low + step * lower, high - step * upper))
    return edges


def _weights(points: Any, edges: Sequence[Any], weight: Any, density: bool) -> Any:
    """Return the weight of the points in each bin; its density where that is asked for."""
    shape = tuple(e.shape[0] - 1 for e in edges)
    inside: Any = True
    index: Any = 0
    for axis, bounds in enumerate(edges):
        values = points[:, axis]
        inside = (values >= bounds[0]) & (values <= bounds[-1]) & inside
        rank = xp.searchsorted(bounds, values, side="right") - 1
        index = index * shape[axis] + xp.minimum(rank, shape[axis] - 1)
    flat = xp.ones(points.shape[0], dtype=points.dtype)
    flat = flat if weight is None else xp.reshape(weight, (-1,)).astype(points.dtype)
    total = xp.zeros(_product(shape), dtype=points.dtype)
    if points.shape[0]:
        added = xp.where(inside, flat, 0)
        total = xp.scatter_add(total, 0, xp.where(inside, index, 0), added)
    result = xp.reshape(total, shape)
    if density:
        result = result / xp.sum(total)
        for axis, bounds in enumerate(edges):
            outline = tuple(-1 if k == axis else 1 for k in range(len(shape)))
            result = result / xp.reshape(bounds[1:] - bounds[:-1], outline)
    return result


def _product(shape: Sequence[int]) -> int:
    """Return the number of elements of a shape."""
    count = 1
    for size in shape:
        count *= size
    return count


def _rows(x: Any) -> Any:
    """Return points as rows: the coordinates are the last axis."""
    return xp.reshape(x, (_product(x.shape[:-1]), x.shape[-1]))


def _column(x: Any) -> Any:
    """Return all elements as points with one coordinate."""
    return xp.reshape(x, (_product(x.shape), 1))


@aten("histogram.bin_ct")
def histogram(
    x: Any, bins: int = 100, range: Any = None, weight: Any = None, density: bool = False
) -> tuple[Any, Any]:
    """Return the weight in bins of equal width, and their edges."""
    points = _column(x)
    edges = _even_edges(points, [bins], range)
    return _weights(points, edges, weight, density), edges[0]


@aten("histogram.bins_tensor")
def histogram_of_bins(
    x: Any, bins: Any, weight: Any = None, density: bool = False
) -> tuple[Any, Any]:
    """Return the weight in bins between given edges, and these."""
    return _weights(_column(x), [bins], weight, density), bins


@aten("_histogramdd_bin_edges.default")
def histogramdd_bin_edges(
    x: Any, bins: Sequence[int], range: Any = None, weight: Any = None, density: bool = False
) -> list[Any]:
    """Return the edges of bins of equal width along each axis of points."""
    return _even_edges(_rows(x), bins, range)


@aten("_histogramdd_from_bin_cts.default")
def histogramdd(
    x: Any, bins: Sequence[int], range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    """Return the weight in bins of equal width along each axis of points."""
    points = _rows(x)
    return _weights(points, _even_edges(points, bins, range), weight, density)


@aten("_histogramdd_from_bin_tensors.default")
def histogramdd_of_bins(
    x: Any, bins: Sequence[Any], weight: Any = None, density: bool = False
) -> Any:
    """Return the weight in bins between given edges along each axis of points."""
    return _weights(_rows(x), bins, weight, density)
