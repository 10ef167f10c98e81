"""Linear algebra: products of vectors and matrices, built as sums of elementwise products.

A matrix product broadcasts both operands to the shape (…, m, n, k), multiplies them and sums over
k; the scheduler makes a tiled loop nest of it, and no tensor of that shape is materialized. Floats
narrower than 32 bits are multiplied and summed in f32; integers in their own type, where they wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.tensor import primitive, shapes
from porism.tensor.api.arithmetic import add, multiply
from porism.tensor.api.operands import promoted_operands
from porism.tensor.api.reductions import drop_axes, sum, sum_of_products
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.reshape import diagonal
from porism.tensor.primitive import Dim
from porism.tensor.tensor import Tensor, method, operator


def _require_rank(x: Tensor, least: int, what: str) -> None:
    """Refuse a tensor with fewer than `least` axes."""
    if x.ndim < least:
        raise shapes.shape_error(
            f"{what} of a tensor of shape {shapes.to_text(x.shape)}",
            f"it has {x.ndim} axes, and {least} are needed",
            "multiply scalars with *; add axes with reshape or expand_dims",
        )


def _require_equal_sizes(what: str, a: Tensor, i: int, b: Tensor, j: int) -> None:
    """Refuse operands whose contracted axes i and j have different sizes."""
    if not shapes.sizes_equal(a.shape[i], b.shape[j]):
        raise shapes.shape_error(
            f"{what} of tensors of shapes {shapes.to_text(a.shape)} and {shapes.to_text(b.shape)}",
            f"axis {i} of the first and axis {j} of the second are summed together, and their "
            f"sizes are {shapes.size_text(a.shape[i])} and {shapes.size_text(b.shape[j])}",
            "transpose or slice one of them, so that these sizes are equal",
        )


# -- products --------------------------------------------------------------------------------------


@operator("matmul", reflected=True)
@method
def matmul(x1: Any, x2: Any) -> Tensor:
    """Return the matrix product (`@`) over the last axis of x1 and the second to last of x2.

    As in NumPy, a tensor of one axis is a row vector on the left and a column vector on the right,
    and that axis is dropped from the result; leading axes are broadcast.

    >>> porism.matmul([[1, 2], [3, 4]], [10, 1]).tolist()
    [12, 34]
    """
    a, b = promoted_operands("matmul", x1, x2)
    _require_rank(a, 1, "matmul")
    _require_rank(b, 1, "matmul")
    _require_equal_sizes("matmul", a, -1, b, -2 if b.ndim > 1 else -1)
    left = a.node if a.ndim > 1 else primitive.reshape(a.node, [1, *a.shape])
    right = b.node if b.ndim > 1 else primitive.reshape(b.node, [*b.shape, 1])
    batch = shapes.broadcast_shapes(shapes.sizes_of(left)[:-2], shapes.sizes_of(right)[:-2])
    result = row_products(left, transpose_last(right), batch)
    dropped = [*[-2] * (a.ndim == 1), *[-1] * (b.ndim == 1)]
    result = drop_axes(result, [len(batch) + 2 + axis for axis in dropped])
    return Tensor(primitive.cast(result, a.node.dtype))


def row_products(a: UOp, b: UOp, batch: Sequence[Dim]) -> UOp:
    """Return the dot products of all rows of a (…, m, k) with all rows of b (…, n, k).

    The result is (batch…, m, n), in the accumulation type; `batch` is the common shape of the
    leading axes.
    """
    m, k = shapes.sizes_of(a)[-2:]
    n = shapes.sizes_of(b)[-2]
    sizes = [*batch, m, n, k]
    return sum_of_products(
        primitive.broadcast(_insert_axis(a, -2), sizes),
        primitive.broadcast(_insert_axis(b, -3), sizes),
        [len(sizes) - 1],
    )


def _insert_axis(x: UOp, axis_from_end: int) -> UOp:
    """Return x with a new axis of size 1 at a position counted from the end of the result."""
    sizes = list(shapes.sizes_of(x))
    sizes.insert(len(sizes) + 1 + axis_from_end, 1)
    return primitive.reshape(x, sizes)


def transpose_last(x: UOp) -> UOp:
    """Return x with its last two axes swapped."""
    rank = len(shape(x))
    return primitive.permute(x, [*range(rank - 2), rank - 1, rank - 2])


@method
def vecdot(x1: Any, x2: Any, *, axis: int = -1) -> Tensor:
    """Return the dot product along one axis, a negative number; the other axes are broadcast.

    >>> porism.vecdot([[1, 2], [3, 4]], [10, 1]).tolist()
    [12, 34]
    """
    a, b = promoted_operands("vecdot", x1, x2)
    _require_rank(a, 1, "vecdot")
    _require_rank(b, 1, "vecdot")
    axis_from_end = shapes.as_int(axis, "axis")
    least = min(a.ndim, b.ndim)
    if not -least <= axis_from_end < 0:
        raise shapes.shape_error(
            f"vecdot of tensors of shapes {shapes.to_text(a.shape)} and {shapes.to_text(b.shape)} "
            f"along axis {axis_from_end}",
            f"the axis is counted from the end, from -{least} to -1, since shapes are broadcast",
            "pass a negative axis that both tensors have",
        )
    _require_equal_sizes("vecdot", a, axis_from_end, b, axis_from_end)
    product_sizes = shapes.broadcast_shapes(a.shape, b.shape)
    left, right = (
        primitive.broadcast(a.node, product_sizes),
        primitive.broadcast(b.node, product_sizes),
    )
    result = sum_of_products(left, right, [len(product_sizes) + axis_from_end])
    return Tensor(primitive.cast(result, a.node.dtype))


@method
def dot(x1: Any, x2: Any) -> Tensor:
    """Return NumPy's dot: products summed over the last axis of x1 and the second to last of x2.

    A vector x2 is summed over its only axis; a scalar is multiplied with each element.

    >>> porism.dot([1, 2, 3], [4, 5, 6]).item()
    32
    """
    a, b = promoted_operands("dot", x1, x2)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    return tensordot(a, b, axes=([a.ndim - 1], [max(b.ndim - 2, 0)]))


@method
def outer(x1: Any, x2: Any) -> Tensor:
    """Return the matrix of products of each element of x1 with each of x2, both flattened.

    >>> porism.outer([1, 2], [3, 4]).tolist()
    [[3, 4], [6, 8]]
    """
    a, b = promoted_operands("outer", x1, x2)
    sizes = (shapes.product(a.shape), shapes.product(b.shape))
    left = primitive.expand(primitive.reshape(a.node, [sizes[0], 1]), sizes)
    right = primitive.expand(primitive.reshape(b.node, [1, sizes[1]]), sizes)
    return Tensor(left * right)


@method
def tensordot(x1: Any, x2: Any, *, axes: Any = 2) -> Tensor:
    """Return the sum of products over pairs of axes of x1 and x2.

    `axes` is the number n of contracted axes (the last n of x1 with the first n of x2), or a pair
    of lists of axes.

    >>> porism.tensordot([[1, 2], [3, 4]], [[1, 0], [0, 1]], axes=2).item()
    5
    """
    a, b = promoted_operands("tensordot", x1, x2)
    left, right = _contracted_axes(a, b, axes)
    for i, j in zip(left, right, strict=True):
        _require_equal_sizes("tensordot", a, i, b, j)
    kept_a = [k for k in range(a.ndim) if k not in left]
    kept_b = [k for k in range(b.ndim) if k not in right]
    summed = [a.shape[k] for k in left]
    sizes_a, sizes_b = [a.shape[k] for k in kept_a], [b.shape[k] for k in kept_b]
    product_sizes = [*sizes_a, *sizes_b, *summed]
    first = primitive.permute(a.node, [*kept_a, *left])
    first = primitive.reshape(first, [*sizes_a, *[1] * len(sizes_b), *summed])
    second = primitive.permute(b.node, [*kept_b, *right])
    result = sum_of_products(
        primitive.expand(first, product_sizes),
        primitive.broadcast(second, product_sizes),
        range(len(sizes_a) + len(sizes_b), len(product_sizes)),
    )
    return Tensor(primitive.cast(result, a.node.dtype))


def _contracted_axes(a: Tensor, b: Tensor, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes of each operand that are contracted, in pairs."""
    if not isinstance(axes, (tuple, list)):
        count = shapes.as_int(axes, "axes")
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise shapes.shape_error(
                f"tensordot over {count} axes of tensors of shapes {shapes.to_text(a.shape)} and "
                f"{shapes.to_text(b.shape)}",
                "the last axes of the first and the first axes of the second are summed, and one "
                "of the tensors has fewer",
                "pass a smaller number, or two lists of axes",
            )
        return tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    if len(axes) == 2:
        left = shapes.normalize_axes(axes[0], a.ndim)
        right = shapes.normalize_axes(axes[1], b.ndim)
        if len(left) == len(right):
            return left, right
    raise shapes.shape_error(
        f"tensordot with axes {axes!r}",
        "the axes of the first tensor are paired with those of the second, one with one",
        "pass a number, or two lists of the same length",
    )


@method
def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """Return `x @ weight.T + bias`, with a weight of shape (features out, features in).

    >>> porism.linear([1, 2], [[1, 0], [0, 1], [1, 1]], bias=[10, 20, 30]).tolist()
    [11, 22, 33]
    """
    matrix = as_tensor(weight)
    if matrix.ndim not in (1, 2):
        raise shapes.shape_error(
            f"linear with a weight of shape {shapes.to_text(matrix.shape)}",
            "a weight is (features out, features in), or (features in,)",
            "reshape the weight",
        )
    order = range(matrix.ndim - 1, -1, -1)
    result = matmul(x, Tensor(primitive.permute(matrix.node, list(order))))
    return result if bias is None else add(result, bias)


@method
def trace(x: Any, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Return the sum of the diagonal of the last two axes, `offset` above the main one.

    >>> porism.trace([[1, 2], [3, 4]]).item()
    5
    """
    return sum(diagonal(x, offset), axis=-1, dtype=dtype)
