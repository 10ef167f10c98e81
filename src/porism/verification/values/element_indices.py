"""Element indices: the elements of a tensor that are asked for, as arrays of indices by axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from porism.ir.facts.semantics import Array
from porism.verification.values.rounding_bounds import Bound

Indices = tuple[Array, ...]
"""For each axis of a tensor the indices of elements; arrays that NumPy broadcasts together."""

ZERO: Final = np.asarray(0)
"""The index along an axis of size 1."""

MAX_COMPARED: Final = 1 << 10
"""Elements up to which index arrays are compared by contents, so that a chain of values that each
read two of the one before, as the stages of a sort do, takes linear time. Chosen by hand."""


def array_key(array: Array) -> Any:
    """Return what tells index arrays apart: the contents of small ones, else the object."""
    if array.size > MAX_COMPARED:
        return id(array)
    return array.shape, array.tobytes()


def reshape_indices(indices: Indices, new: Sequence[int], old: Sequence[int]) -> Indices:
    """Return the indices before a reshape from `old` to `new` sizes, of elements after it.

    Groups of axes of equal size are reindexed; an axis that does not change keeps its array.
    """
    source_indices: list[Array] = []
    i = j = 0
    while j < len(old):
        begin, first = i, j
        j += 1
        new_size, old_size = math.prod(new[begin:i]), old[first]
        while new_size != old_size:
            if new_size < old_size and i < len(new):
                new_size *= new[i]
                i += 1
            elif j < len(old):
                old_size *= old[j]
                j += 1
            else:  # an axis of size 0
                i, j = len(new), len(old)
                break
        source_indices += _reindex_axes(indices[begin:i], new[begin:i], old[first:j])
    return tuple(source_indices)


def _reindex_axes(indices: Indices, new: Sequence[int], old: Sequence[int]) -> list[Array]:
    """Return the indices of elements of axes of `new` sizes, along axes of `old` sizes."""
    if len(new) == 1 == len(old):
        return list(indices)
    flat: Array = ZERO
    for index, size in zip(indices, new, strict=True):
        if size != 1:
            flat = flat * size + index if flat is not ZERO else index
    reindexed: list[Array] = []
    for size in reversed(old[1:]):
        reindexed.append(flat % max(size, 1) if size != 1 else ZERO)
        flat = flat // max(size, 1) if size != 1 else flat
    reindexed.append(flat if old[0] != 1 else ZERO)
    return reindexed[::-1]


def any_of(conditions: Sequence[Array]) -> Array:
    """Return where at least one condition holds."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = result | condition
    return np.asarray(result, np.bool_)


def addressable(index: Array, missing: Array | None) -> Array:
    """Return indices as i64; 0 where an element is missing."""
    chosen = index if missing is None else np.where(missing, 0, index)
    return np.asarray(chosen).astype(np.int64)


def with_unknown(bound: Bound, indices: Sequence[Bound]) -> Bound:
    """Return the bound of elements; infinite where the rounding of an index may change it."""
    for own in indices:
        if own is not None:
            unknown = np.where(own > 0, np.inf, 0.0)
            bound = unknown if bound is None else bound + unknown
    return bound
