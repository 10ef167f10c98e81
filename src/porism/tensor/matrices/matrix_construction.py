"""Matrix construction: diagonals, triangles of ones, and powers of a vector."""

from __future__ import annotations

from typing import Any

from porism.ir import ops
from porism.tensor import primitive
from porism.tensor.api.arithmetic import pow as power
from porism.tensor.api.creation import arange
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.reshape import diagonal, expand_dims, flatten, moveaxis
from porism.tensor.promotion import DEFAULT_FLOAT, as_dtype
from porism.tensor.shapes import as_int, as_sizes, normalize_axes, shape_error, to_text
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method


@method
def diag(x: Any, k: int = 0) -> Tensor:
    """Return a matrix with a vector on its k-th diagonal, or the k-th diagonal of a matrix.

    >>> porism.diag([1, 2]).tolist(), porism.diag([[1, 2], [3, 4]]).tolist()
    ([[1, 0], [0, 2]], [1, 4])
    """
    tensor = as_tensor(x)
    if tensor.ndim == 2:
        return diagonal(tensor, as_int(k, "k"))
    if tensor.ndim != 1:
        raise shape_error(
            f"diag of a tensor of shape {to_text(tensor.shape)}",
            "it takes a vector or a matrix",
            "use diagonal for the diagonals of several matrices, and diagflat for all elements",
        )
    return diag_embed(tensor, k)


@method
def diagflat(x: Any, k: int = 0) -> Tensor:
    """Return a matrix with all elements of x, flattened, on its k-th diagonal.

    >>> porism.diagflat([[1, 2]]).tolist()
    [[1, 0], [0, 2]]
    """
    return diag_embed(flatten(x), k)


@method
def diag_embed(x: Any, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Return matrices with the vectors along the last axis of x on a diagonal; 0 elsewhere.

    The rows and columns of the matrices are the axes `axis1` and `axis2` of the result.

    >>> porism.diag_embed([[1, 2], [3, 4]]).tolist()
    [[[1, 0], [0, 2]], [[3, 0], [0, 4]]]
    """
    tensor = as_tensor(x)
    if not tensor.ndim:
        raise shape_error(
            "diag_embed of a scalar", "a diagonal has an axis", "reshape it to one axis"
        )
    shift = as_int(offset, "offset")
    axes = normalize_axes((axis1, axis2), tensor.ndim + 1)
    size = static_size(tensor.shape[-1], "diag_embed")
    width = size + abs(shift)
    # Element j of the vector is at row j + max(-shift, 0) and column j + max(shift, 0).
    front = max(shift, 0)
    padding = [(0, 0)] * (tensor.ndim - 1)
    row = primitive.pad(tensor.node, [*padding, (front, width - size - front)])
    sizes = (*tensor.shape[:-1], width, width)
    values = primitive.expand(expand_dims(Tensor(row), -2).node, sizes)
    rows, columns = (primitive.iota(sizes, len(sizes) - k) for k in (2, 1))
    inside = (columns - rows).eq(shift)
    matrices = Tensor(ops.WHERE(inside, values, values.lift(0)))
    return moveaxis(matrices, (-2, -1), axes)


def tri(n_rows: int, n_cols: int | None = None, k: int = 0, *, dtype: Any = None) -> Tensor:
    """Return a matrix with ones on and below the k-th diagonal, and zeros above; float32.

    >>> porism.tri(2, 3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    sizes = as_sizes((n_rows, n_rows if n_cols is None else n_cols))
    element_type = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    row, column = primitive.iota(sizes, 0), primitive.iota(sizes, 1)
    return Tensor(primitive.cast((column - row) <= as_int(k, "k"), element_type))


@method
def vander(x: Any, n_cols: int | None = None, increasing: bool = False) -> Tensor:
    """Return the matrix of powers of a vector, from the highest down unless `increasing`.

    >>> porism.vander([2, 3], 3).tolist()
    [[4, 2, 1], [9, 3, 1]]
    """
    tensor = as_tensor(x)
    if tensor.ndim != 1:
        raise shape_error(
            f"vander of a tensor of shape {to_text(tensor.shape)}",
            "it takes a vector",
            "flatten it first",
        )
    count = static_size(tensor.shape[0], "vander") if n_cols is None else as_int(n_cols, "n_cols")
    exponents = arange(count) if increasing else arange(count - 1, -1, -1)
    powers = Tensor(primitive.cast(exponents.node, tensor.node.dtype))
    return power(expand_dims(tensor, 1), powers)
