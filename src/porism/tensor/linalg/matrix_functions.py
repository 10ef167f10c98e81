"""Matrix functions: norms and powers, compiled as other functions on tensors.

The norms that need singular values, and negative powers, are host calls.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from porism.base.dtypes import Kind
from porism.tensor.api.arithmetic import abs
from porism.tensor.api.creation import asarray, eye
from porism.tensor.api.linear_algebra import matmul
from porism.tensor.api.reductions import max, min, sum, vector_norm
from porism.tensor.linalg.factorizations import inv, svdvals
from porism.tensor.linalg.host_calls import matrices
from porism.tensor.movement.reshape import broadcast_to, expand_dims, moveaxis
from porism.tensor.promotion import result_type, type_error
from porism.tensor.shapes import as_int, normalize_axes, shape_error
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor


def matrix_norm(
    x: Any, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro"
) -> Tensor:
    """Return the norm of matrices: 'fro' (Frobenius), 'nuc', 1, -1, 2, -2, inf or -inf.

    >>> porism.linalg.matrix_norm([[3.0, 0.0], [0.0, 4.0]]).item()
    5.0
    """
    (a,) = matrices("matrix_norm", x)
    if ord == "fro" or ord is None:
        result = vector_norm(a, axis=(-2, -1), keepdims=True)
    elif ord in (1, -1, math.inf, -math.inf):
        summed, other = (-2, -1) if ord in (1, -1) else (-1, -2)
        sums = sum(abs(a), axis=summed, keepdims=True)
        result = (max if ord > 0 else min)(sums, axis=other, keepdims=True)
    elif ord in ("nuc", 2, -2):
        values = svdvals(a)
        reduced = {"nuc": sum, 2: max, -2: min}[ord](values, axis=-1)
        result = expand_dims(expand_dims(reduced, -1), -1)
    else:
        raise type_error(
            f"a matrix norm of order {ord!r}",
            "the orders are 'fro', 'nuc', 1, -1, 2, -2, inf and -inf",
            "pass one of them",
        )
    return result if keepdims else result.reshape(result.shape[:-2])


def matrix_power(x: Any, n: int, /) -> Tensor:
    """Return the product of n equal square matrices; of their inverses if n is negative.

    >>> porism.linalg.matrix_power([[1, 1], [0, 1]], 5).tolist()
    [[1, 5], [0, 1]]
    """
    exponent = as_int(n, "the exponent of matrix_power")
    matrix = asarray(x)
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        matrices("matrix_power", matrix, square=True)  # raises the error
    if exponent < 0:
        matrix, exponent = inv(matrix), -exponent
    if exponent == 0:
        return broadcast_to(
            eye(static_size(matrix.shape[-1], "matrix_power"), dtype=_number(matrix)), matrix.shape
        )
    result: Tensor | None = None
    while exponent:
        if exponent % 2:
            result = matrix if result is None else matmul(result, matrix)
        exponent //= 2
        matrix = matmul(matrix, matrix) if exponent else matrix
    assert result is not None
    return result


def _number(x: Tensor) -> Any:
    """Return the type of a tensor, which must not be bool."""
    return result_type(x, 1) if x.dtype.base.kind is Kind.BOOL else x.dtype


def norm(x: Any, /, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return a norm as NumPy's: of a vector, of a matrix, or without `ord` of all elements.

    With an `axis` it is that of vectors along it, and with two axes that of matrices.

    >>> porism.linalg.norm([[3.0, 0.0], [0.0, 4.0]]).item()
    5.0
    >>> porism.linalg.norm([[3.0, 4.0], [6.0, 8.0]], axis=1).tolist()
    [5.0, 10.0]
    """
    tensor = asarray(x)
    axes = normalize_axes(axis, tensor.ndim)
    if ord is None:
        return vector_norm(tensor, axis=axes, keepdims=keepdims)
    if len(axes) == 1:
        return vector_norm(tensor, axis=axes, keepdims=keepdims, ord=ord)
    if len(axes) != 2:
        raise shape_error(
            f"a norm of order {ord!r} over {len(axes)} axes",
            "vectors have one axis and matrices two",
            "name the axes: axis=-1 or axis=(-2, -1)",
        )
    result = matrix_norm(moveaxis(tensor, axes, (-2, -1)), ord=ord)
    return expand_dims(result, tuple(sorted(axes))) if keepdims else result
