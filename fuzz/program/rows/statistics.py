"""Rows of statistics, of stacked tensors, and of matrices and sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.program.maker import Maker, Ref
from fuzz.program.rows.row import keep, row
from fuzz.program.values import PARTS, RefusedError
from porism.ir.facts.semantics import Array

# -- statistics ------------------------------------------------------------------------------------


def _with_nan(m: Maker, shape: tuple[int, ...]) -> Ref:
    """Small floats of which some are NaN."""
    before, m.special = m.special, True
    try:
        x = m.new(m.choice("float32", "float64", "float16"), shape)
    finally:
        m.special = before
    return m.call("clip", x, -4, 4)


@row("nansum nanprod nanmax nanmin nanmean nanvar nanstd", "near", weight=0.15)
def without_nan(m: Maker, name: str) -> Any:
    if name == "nanprod":  # of few numbers, so that nothing overflows on the way
        x = _with_nan(m, (m.random.randint(1, 4), m.random.randint(1, 3)))
    elif m.chance(0.7):
        x = _with_nan(m, m.shape(m.choice(1, 2, 3)))
    else:
        x = m.pick("f", where=lambda v: v.array.size > 0)
    if not m[x].array.size:
        raise RefusedError
    m.call(name, x, axis=m.axes(x), **keep(m))


@row("nanquantile nanpercentile nanmedian", "near", weight=0.15)
def quantile_without_nan(m: Maker, name: str) -> Any:
    x = _with_nan(m, m.shape(m.choice(1, 2, 3)))
    if not 0 < m[x].array.size < 300:
        raise RefusedError
    axis = None if m.chance(0.3) else m.axis(x)
    fraction = {"nanmedian": (), "nanquantile": (m.choice(0, 0.25, 0.5, 0.9, 1),)}
    m.call(name, x, *fraction.get(name, (m.choice(10, 50, 75.0),)), axis=axis, **keep(m))


@row("gradient", "near", weight=0.2)
def sloped(m: Maker, name: str) -> Any:
    x = m.pick("f", where=lambda v: v.array.ndim > 0)
    axis = m.axis(x)
    size = m[x].array.shape[axis]
    if size < 3:
        raise RefusedError
    spacing: tuple[Any, ...] = (m.choice(0.5, 2, 4.0),) if m.chance(0.4) else ()
    if m.chance(0.3):
        dtype = PARTS.get(m[x].dtype, m[x].dtype)
        spacing = (m.call("cumulative_sum", m.new(dtype, (size,), 1, 4)),)
    m.call(name, x, *spacing, axis=axis, **m.options(edge_order=(0.4, lambda: 2)))


@row("ptp", "rounded", weight=0.2)
def spread(m: Maker, name: str) -> Any:
    x = m.pick("fi", where=lambda v: v.array.size > 0)
    m.call(name, x, axis=m.axes(x), **keep(m))


@row("average", "near", weight=0.2)
def weighted(m: Maker, name: str) -> Any:
    x = m.pick("f", where=lambda v: v.array.ndim > 0 and v.array.size > 0)
    axis = m.axis(x)
    shape = m[x].array.shape
    weights = m.new(m[x].dtype, (shape[axis],) if m.chance(0.5) else shape, 1, 5)
    m.call(name, x, axis=axis, weights=weights if m.chance(0.8) else None, **keep(m))


def _varies(array: Array) -> bool:
    """Whether no row and no column is constant: its correlation would be rounding alone."""
    least = 1e-3 * np.abs(array).max()
    return all(bool(np.all(array.std(axis) > least)) for axis in range(array.ndim))


@row("cov corrcoef", "near", weight=0.2)
def covariance(m: Maker, name: str) -> Any:
    steady = name == "cov"
    x = m.pick("f", rank=(1, 2), where=lambda v: v.array.size > 0 and (steady or _varies(v.array)))
    options = m.options(rowvar=(0.4, lambda: False))
    if name == "cov":
        options |= m.options(correction=(0.4, lambda: 0))
    m.call(name, x, **options)


@row("percentile", "near", jumps=True, weight=0.15)
def percent(m: Maker, name: str) -> Any:
    x = m.pick("f", exact=True, where=lambda v: 0 < v.array.size < 300)
    axis = None if not m[x].array.ndim or m.chance(0.3) else m.axis(x)
    m.call(name, x, m.choice(25, 50, 90.0), axis=axis, **keep(m))


@row("digitize bucketize", "moved", jumps=True, weight=0.2)
def binned(m: Maker, name: str) -> Any:
    x = m.pick("fi", exact=True)
    edges = m.call("sort", m.new(m[x].dtype, (m.random.randint(1, 9),)))
    m.call(name, x, edges, **m.options(right=(0.5, lambda: True)))


@row("histogram", "moved", jumps=True, weight=0.2)
def counted(m: Maker, name: str) -> Any:
    x = m.pick("f", exact=True, where=lambda v: bool(np.isfinite(v.array).all()))
    bins = m.choice(1, 2, 4, 8, 16)
    m.call(name, x, bins, m.choice((-8, 8), (0, 4), (-2, 2)), part=m.choice(0, 1))


# -- stacked, split and turned ---------------------------------------------------------------------


@row("vstack hstack dstack column_stack", "moved", weight=0.3)
def stacked(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    m.call(name, [x, x if m.chance(0.3) else m.new(m[x].dtype, m[x].array.shape)])


@row("atleast_1d atleast_2d atleast_3d", "moved", weight=0.1)
def ranked(m: Maker, name: str) -> Any:
    m.call(name, m.pick())


@row("flipud fliplr", "moved", weight=0.15)
def mirrored(m: Maker, name: str) -> Any:
    m.call(name, m.pick(rank=(2, 3)))


@row("rot90", "moved", weight=0.2)
def turned(m: Maker, name: str) -> Any:
    x = m.pick(rank=(2, 3, 4))
    axes = tuple(m.random.sample(range(m[x].array.ndim), 2))
    m.call(name, x, m.random.randint(-4, 4), axes)


@row("array_split", "moved", weight=0.2)
def split_in(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    axis = m.axis(x)
    size = m[x].array.shape[axis]
    parts: Any = m.random.randint(1, 5)
    if m.chance(0.4):
        parts = sorted(m.random.randint(0, size) for _ in range(m.random.randint(1, 3)))
    count = parts if isinstance(parts, int) else len(parts) + 1
    m.call(name, x, parts, axis=axis, part=m.random.randrange(count))


@row("hsplit vsplit", "moved", weight=0.15)
def split_evenly(m: Maker, name: str) -> Any:
    x = m.pick(rank=(1, 2, 3))
    shape = m[x].array.shape
    size = shape[0 if name == "vsplit" or len(shape) == 1 else 1]
    count = m.choice(*(d for d in (1, 2, 3, 4) if size % d == 0))
    m.call(name, x, count, part=m.random.randrange(count))


@row("narrow", "moved", weight=0.2)
def narrowed(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    axis = m.axis(x)
    size = m[x].array.shape[axis]
    start = m.random.randint(0, size)
    m.call(name, x, axis, start, m.random.randint(0, size - start))


# -- matrices and sequences ------------------------------------------------------------------------


@row("logspace geomspace", "near", weight=0.1)
def spaced(m: Maker, name: str) -> Any:
    num = m.random.randint(1, 12)
    ends = (m.choice(0, 1), m.choice(2, 2.5)) if name == "logspace" else (m.choice(1, 2), 64)
    m.call(name, *ends, num, **m.options(endpoint=(0.4, lambda: m.chance(0.5))))


@row("diag diagflat diag_embed", "moved", weight=0.2)
def diagonal(m: Maker, name: str) -> Any:
    ranks = {"diag": (1, 2), "diagflat": (1, 2), "diag_embed": (1, 2, 3)}[name]
    x = m.pick(rank=ranks, where=lambda v: v.array.size < 100)
    m.call(name, x, *((m.random.randint(-3, 3),) if m.chance(0.6) else ()))


@row("tri", "made", weight=0.15)
def triangle(m: Maker, name: str) -> Any:
    x = m.pick("fi", rank=2)
    rows, columns = m[x].array.shape
    m.call("multiply", x, m.call(name, rows, columns, m.random.randint(-2, 2), dtype=m[x].dtype))


@row("vander", "near", weight=0.15)
def powers(m: Maker, name: str) -> Any:
    x = m.pick("fi", rank=1, where=lambda v: v.array.size < 30)
    m.call(name, x, m.random.randint(1, 4), **m.options(increasing=(0.5, lambda: True)))


@row("inner", "summed", weight=0.3)
def inner(m: Maker, name: str) -> Any:
    x = m.pick("fi", rank=(1, 2, 3))
    shape = m.shape(m.choice(0, 1)) + m[x].array.shape[-1:]
    m.call(name, x, m.new(m[x].dtype, shape))


@row("vdot", "summed", weight=0.2)
def flat_dot(m: Maker, name: str) -> Any:
    x = m.pick("fi")
    m.call(name, x, m.new(m[x].dtype, m[x].array.shape))


@row("kron", "rounded", weight=0.2)
def blocks(m: Maker, name: str) -> Any:
    x = m.pick("fi", rank=(1, 2, 3), where=lambda v: v.array.size < 200)
    m.call(name, x, m.new(m[x].dtype, tuple(m.random.randint(1, 4) for _ in range(m.choice(1, 2)))))


@row("cross", "summed", weight=0.2)
def cross(m: Maker, name: str) -> Any:
    x = m.new(m.of_kind("fi"), (*m.shape(m.choice(0, 1, 2)), 3))
    m.call(name, x, m.new(m[x].dtype, m[x].array.shape if m.chance(0.7) else (3,)))


@row("addmm", "summed", weight=0.3)
def sum_and_product(m: Maker, name: str) -> Any:
    x = m.pick("fi", rank=2)
    columns = m.size(20)
    y = m.new(m[x].dtype, (m[x].array.shape[1], columns))
    start = m.new(m[x].dtype, (columns,) if m.chance(0.5) else (m[x].array.shape[0], columns))
    m.call(
        name, start, x, y, **m.options(alpha=(0.3, lambda: 2), beta=(0.3, lambda: m.choice(0, 3)))
    )


@row("convolve correlate", "summed", weight=0.25)
def convolved(m: Maker, name: str) -> Any:
    x = m.pick("fi", rank=1, where=lambda v: 0 < v.array.size < 200)
    y = m.new(m[x].dtype, (m.random.randint(1, 9),))
    m.call(name, x, y, **m.options(mode=(0.7, lambda: m.choice("full", "same", "valid"))))


@row("trapezoid", "near", weight=0.2)
def integral(m: Maker, name: str) -> Any:
    y = m.pick("f", where=lambda v: v.array.ndim > 0 and v.array.size > 0)
    axis = m.axis(y)
    if m.chance(0.5):
        m.call(name, y, axis=axis, **m.options(dx=(0.5, lambda: 0.5)))
    else:
        m.call(name, y, m.new(m[y].dtype, (m[y].array.shape[axis],)), axis=axis)


@row("polyval", "near", weight=0.2)
def polynomial(m: Maker, name: str) -> Any:
    x = m.pick("fi")
    m.call(name, m.new(m[x].dtype, (m.random.randint(1, 4),)), x)


@row("interp", "near", weight=0.2)
def interpolated(m: Maker, name: str) -> Any:
    x = m.pick("f", exact=True, where=lambda v: bool(np.isfinite(v.array).all()))
    count = m.random.randint(1, 6)
    known = m.call("cumulative_sum", m.new(m[x].dtype, (count,), 1, 3))
    m.call(name, x, known, m.new(m[x].dtype, (count,)))
