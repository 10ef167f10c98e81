"""Data-dependent shapes: results whose size depends on values are computed eagerly.

Inside of a jitted function there are no values, so such a function is an error there; `nonzero` can
be given the size of its result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from porism.base import dtypes
from porism.base.errors import PorismError
from porism.tensor import primitive
from porism.tensor.api.comparison import logical_not, where
from porism.tensor.api.creation import arange, asarray, full
from porism.tensor.api.reductions import count_nonzero
from porism.tensor.conversion import host_result
from porism.tensor.jit.tracing import current
from porism.tensor.movement.joining import concat, stack
from porism.tensor.movement.reshape import flatten
from porism.tensor.movement.sorting import argsort
from porism.tensor.promotion import DEFAULT_INT
from porism.tensor.shapes import as_int, shape_error
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method
from porism.tensor.user_line import users_line


def require_values(what: str, fix: str) -> None:
    """Refuse a function whose result has a data-dependent shape while a function is traced."""
    if current.get() is not None:
        raise PorismError(
            f"{what} inside of a jitted function",
            where=users_line(),
            why="the size of its result depends on values, and a function that is traced has none",
            fix=fix,
        )


@method
def nonzero(x: Any, *, size: int | None = None, fill_value: int = 0) -> tuple[Tensor, ...]:
    """Return the indices of the nonzero elements, a tensor for each axis, in row-major order.

    How many there are depends on the values, so they are computed at once. With `size` the result
    has that many, the last ones `fill_value` if there are fewer, and it is lazy, also inside of a
    jitted function.

    >>> [indices.tolist() for indices in porism.nonzero([[0, 7], [8, 0]])]
    [[0, 1], [1, 0]]
    >>> porism.nonzero([0, 7, 8], size=3, fill_value=-1)[0].tolist()
    [1, 2, -1]
    """
    tensor = asarray(x)
    if not tensor.ndim:
        raise shape_error(
            "nonzero of a scalar", "a scalar has no axes", "reshape it to one axis first"
        )
    if size is None:
        require_values("nonzero", "pass size=, or use porism.where")
        return tuple(host_result(indices, tensor) for indices in np.nonzero(tensor.numpy()))
    count = as_int(size, "size of nonzero")
    sizes = [static_size(n, "nonzero with size=") for n in tensor.shape]
    flags = flatten(logical_not(tensor))
    first = argsort(Tensor(primitive.cast(flags.node, dtypes.u8)))[:count]
    if (missing := count - len(first)) > 0:
        first = concat([first, full((missing,), 0, dtype=DEFAULT_INT)])
    known = arange(count) < count_nonzero(tensor)
    results = []
    stride = 1
    for length in reversed(sizes):
        results.append(where(known, first // stride % max(length, 1), fill_value))
        stride *= max(length, 1)
    return tuple(reversed(results))


@method
def argwhere(x: Any, *, size: int | None = None, fill_value: int = 0) -> Tensor:
    """Return the indices of the nonzero elements, a row for each; `size` as for `nonzero`.

    >>> porism.argwhere([[0, 7], [8, 0]]).tolist()
    [[0, 1], [1, 0]]
    """
    return stack(nonzero(x, size=size, fill_value=fill_value), 1)
