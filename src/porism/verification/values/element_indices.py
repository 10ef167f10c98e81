"""Element indices: the elements of a tensor that are asked for, as arrays of indices by axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from porism.ir.facts.semantics import Array
from porism.verification.values.rounding_bounds import Bound

Indices = tuple[Array, ...]
"""For each axis of a tensor the indices of elements; arrays that NumPy broadcasts together."""

ZERO: Final = np.asarray(0)


def renumbered(places: Indices, new: Sequence[int], old: Sequence[int]) -> list[Array]:
    """The places of elements of a tensor under other sizes of its axes."""
    if len(new) == 1 == len(old):
        return list(places)
    flat: Array = ZERO
    for place, size in zip(places, new, strict=True):
        if size != 1:
            flat = flat * size + place if flat is not ZERO else place
    at: list[Array] = []
    for size in reversed(old[1:]):
        at.append(flat % max(size, 1) if size != 1 else ZERO)
        flat = flat // max(size, 1) if size != 1 else flat
    at.append(flat if old[0] != 1 else ZERO)
    return at[::-1]


def any_of(conditions: Sequence[Array]) -> Array:
    """Where at least one condition holds."""
    found = conditions[0]
    for condition in conditions[1:]:
        found = found | condition
    return np.asarray(found, np.bool_)


def addressable(index: Array, missing: Array | None) -> Array:
    """Indices as numbers that memory can be asked for; 0 where there is no element."""
    chosen = index if missing is None else np.where(missing, 0, index)
    return np.asarray(chosen).astype(np.int64)


def with_unknown(bound: Bound, indices: Sequence[Bound]) -> Bound:
    """The bound of elements whose indices may be others."""
    for own in indices:
        if own is not None:
            unknown = np.where(own > 0, np.inf, 0.0)
            bound = unknown if bound is None else bound + unknown
    return bound
