"""Data: the arrays that the rows of the table are about, and what NumPy has no function for."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from porism.ir.semantics import Array
from tests.tensor.oracle import draw, numpy_type


def arrays(name: str, rows: int = 3, columns: int = 4) -> dict[str, Array]:
    """Arrays of a type by the name that they have in the table."""
    kind = numpy_type(name)
    x = draw(name, (rows, columns), 1)
    y = draw(name, (rows, columns), 2)
    found = {
        "x": x,
        "y": np.where(y == 0, np.ones(1, kind), y).astype(kind) if name != "bool" else y,
        "row": draw(name, (columns,), 3),
        "image": draw(name, (1, 2, 6, 6), 4),
        "taps": draw(name, (3, 2, 2, 2), 5),
        "places": np.array([1, 0, 2]),
        "order": np.stack([np.random.default_rng(k).permutation(columns) for k in range(rows)]),
    }
    if name != "bool":
        found["positive_"] = np.abs(found["x"]) + np.ones(1, kind)
        found["small"] = np.abs(found["x"]) % np.array(4, kind)
    if kind.kind not in "biu":
        found["unit"] = np.tanh(found["x"].astype(np.float64) * 0.3).astype(kind)
    return found


def windows(x: Array, size: tuple[int, ...]) -> Array:
    axes = tuple(range(x.ndim - len(size), x.ndim))
    return np.lib.stride_tricks.sliding_window_view(x, size, axes)


def convolved(x: Array, taps: Array) -> Array:
    """A convolution without padding."""
    spatial = taps.ndim - 2
    batch = x if x.ndim == taps.ndim else x[None]
    seen = windows(batch, taps.shape[2:])
    over = list(range(2 + spatial, 2 + 2 * spatial))
    found = np.tensordot(seen, taps, axes=([1, *over], [1, *range(2, 2 + spatial)]))
    found = np.moveaxis(found, -1, 1)
    return found if x.ndim == taps.ndim else found[0]


def transposed(x: Array, taps: Array) -> Array:
    """What each element of x spreads over its window."""
    batch = x if x.ndim == taps.ndim else x[None]
    sizes = [n + k - 1 for n, k in zip(batch.shape[2:], taps.shape[2:], strict=True)]
    found = np.zeros((len(batch), taps.shape[1], *sizes), batch.dtype)
    for place in itertools.product(*(range(k) for k in taps.shape[2:])):
        part = tuple(slice(p, p + n) for p, n in zip(place, batch.shape[2:], strict=True))
        tap: Any = (slice(None), slice(None), *place)
        whole: Any = (slice(None), slice(None), *part)
        spread = np.tensordot(batch, taps[tap], axes=([1], [0]))
        found[whole] += np.moveaxis(spread, -1, 1)
    return found if x.ndim == taps.ndim else found[0]


def pooled(x: Array, axes: int, how: str) -> Array:
    """Windows of two, side by side, along the last axes."""
    outer, inner = x.shape[: x.ndim - axes], x.shape[x.ndim - axes :]
    parts = [(n // 2, 2) for n in inner]
    shape = (*outer, *itertools.chain(*parts))
    over = tuple(len(outer) + 2 * k + 1 for k in range(axes))
    result: Array = getattr(np, how)(x.reshape(shape), axis=over)
    return result


def scattered(x: Array, order: Array, y: Array, how: str) -> Array:
    found = x.copy()
    merge: dict[str, Any] = {"add": np.add, "min": np.minimum, "max": np.maximum}
    for place in np.ndindex(*order.shape):
        at = (place[0], order[place])
        found[at] = y[place] if how == "set" else merge[how](found[at], y[place])
    return found


def index_added(x: Array, places: Array) -> Array:
    found = x.copy()
    np.add.at(found, places, x[places])
    return found


erf_ = np.vectorize(math.erf)
