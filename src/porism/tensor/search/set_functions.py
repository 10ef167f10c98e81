"""Set functions: distinct values, and membership.

The number of distinct values depends on the values, so they are computed at once, by NumPy, and in
ascending order. Membership has the shape of its operand, and is compiled: by comparing with every
element of a short list, or by a binary search in the sorted list.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from porism.base.dtypes import Kind
from porism.tensor.api.comparison import equal, logical_not
from porism.tensor.api.creation import asarray, zeros
from porism.tensor.api.reductions import any
from porism.tensor.movement.indexing import take
from porism.tensor.movement.reshape import expand_dims, flatten
from porism.tensor.movement.sorting import searchsorted, sort
from porism.tensor.promotion import result_type
from porism.tensor.search.nonzero_indices import require_values
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method

MAX_COMPARED: Final = 32
"""Up to this many elements are compared one by one; a binary search of 32 takes 6 loads, each of
which waits for the one before. Chosen by hand."""

_FIX: Final = "call it outside, and pass the result to the jitted function"


class UniqueAllResult(NamedTuple):
    """Distinct values, the first index and the count of each, and the value of each element."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCountsResult(NamedTuple):
    """Distinct values, and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverseResult(NamedTuple):
    """Distinct values, and for each element the index of its value."""

    values: Tensor
    inverse_indices: Tensor


def _unique(x: Any, what: str, **options: bool) -> Any:
    """Return NumPy's unique of the values of a tensor: each NaN is a value of its own."""
    require_values(what, _FIX)
    tensor = asarray(x)
    values = np.unique(tensor.numpy(), equal_nan=False, **options)  # type: ignore[call-overload]
    if not options:
        return asarray(values, device=tensor.device)
    shape = tuple(static_size(size, what) for size in tensor.shape)
    results = list(values)
    if options.get("return_inverse"):
        position = 1 + bool(options.get("return_index"))
        results[position] = results[position].reshape(shape)
    return tuple(asarray(array, device=tensor.device) for array in results)


@method
def unique_all(x: Any) -> UniqueAllResult:
    """Return the distinct values, the first index, and count of each, and the inverse indices.

    Indices are those of the flattened x. Inverse indices have the shape of x: at each element the
    index of its value.

    >>> porism.unique_all([3, 1, 3]).inverse_indices.tolist()
    [1, 0, 1]
    """
    options = {"return_index": True, "return_inverse": True, "return_counts": True}
    return UniqueAllResult(*_unique(x, "unique_all", **options))


@method
def unique_counts(x: Any) -> UniqueCountsResult:
    """Return the distinct values, and how often each occurs.

    >>> values, counts = porism.unique_counts([3, 1, 3])
    >>> values.tolist(), counts.tolist()
    ([1, 3], [1, 2])
    """
    return UniqueCountsResult(*_unique(x, "unique_counts", return_counts=True))


@method
def unique_inverse(x: Any) -> UniqueInverseResult:
    """Return the distinct values, and for each element of x the index of its value.

    >>> porism.unique_inverse([3, 1, 3]).inverse_indices.tolist()
    [1, 0, 1]
    """
    return UniqueInverseResult(*_unique(x, "unique_inverse", return_inverse=True))


@method
def unique_values(x: Any) -> Tensor:
    """Return the distinct values of x in ascending order; each NaN is a value of its own.

    >>> porism.unique_values([3, 1, 3]).tolist()
    [1, 3]
    """
    return _unique(x, "unique_values")  # type: ignore[no-any-return]


@method
def isin(x1: Any, x2: Any, *, invert: bool = False) -> Tensor:
    """Return for each element of x1 whether it is among the elements of x2; NaN never is.

    With `invert`, whether it is not.

    >>> porism.isin([1, 2, 3], [3, 1]).tolist()
    [True, False, True]
    """
    common = result_type(*(v if isinstance(v, (bool, int, float, complex)) else asarray(v)
                           for v in (x1, x2)))  # fmt: skip
    element, table = asarray(x1, dtype=common), flatten(asarray(x2, dtype=common))
    count = static_size(table.shape[0], "isin")
    if count == 0:
        found = zeros(element.shape, dtype="bool")
    elif count <= MAX_COMPARED or common.kind in (Kind.COMPLEX, Kind.BOOL):
        found = any(equal(expand_dims(element, -1), table), axis=-1)
    else:
        ordered = sort(table)
        place = searchsorted(ordered, flatten(element)).clip(0, count - 1)
        found = equal(take(ordered, place), flatten(element)).reshape(element.shape)
    return logical_not(found) if invert else found
