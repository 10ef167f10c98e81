"""Matrix products beside `matmul`: inner, Kronecker and cross products, and sums of products."""

from __future__ import annotations

from typing import Any

from porism.ir import ops
from porism.tensor import primitive, shapes
from porism.tensor.api.arithmetic import add, multiply, subtract
from porism.tensor.api.linear_algebra import matmul, tensordot
from porism.tensor.api.operands import promoted_operands
from porism.tensor.api.reductions import accumulation_dtype
from porism.tensor.complex.complex_parts import conj
from porism.tensor.movement.joining import roll
from porism.tensor.movement.reshape import flatten
from porism.tensor.tensor import Tensor, method


@method
def inner(x1: Any, x2: Any) -> Tensor:
    """Return the products of x1 and x2 summed over the last axis of both.

    >>> porism.inner([[1, 2], [3, 4]], [10, 1]).tolist()
    [12, 34]
    """
    a, b = promoted_operands("inner", x1, x2)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    return tensordot(a, b, axes=([-1], [-1]))


@method
def vdot(x1: Any, x2: Any) -> Tensor:
    """Return the dot product of all elements of x1 and x2, which are flattened.

    Of complex tensors, x1 is conjugated.

    >>> porism.vdot([[1, 2], [3, 4]], [[1, 1], [1, 1]]).item()
    10
    """
    return tensordot(conj(flatten(x1)), flatten(x2), axes=1)


@method
def kron(x1: Any, x2: Any) -> Tensor:
    """Return the Kronecker product: x1 with each element replaced by that element times x2.

    >>> porism.kron([1, 10], [[1, 2], [3, 4]]).tolist()
    [[1, 2, 10, 20], [3, 4, 30, 40]]
    """
    a, b = promoted_operands("kron", x1, x2)
    rank = max(a.ndim, b.ndim)
    outer, block = ((1,) * (rank - t.ndim) + t.shape for t in (a, b))
    pairs = list(zip(outer, block, strict=True))
    product_sizes = [n for pair in pairs for n in pair]
    left = primitive.reshape(a.node, [n for size in outer for n in (size, 1)])
    right = primitive.reshape(b.node, [n for size in block for n in (1, size)])
    product = primitive.expand(left, product_sizes) * primitive.expand(right, product_sizes)
    return Tensor(primitive.reshape(product, [shapes.product(pair) for pair in pairs]))


@method
def cross(x1: Any, x2: Any, axis: int = -1) -> Tensor:
    """Return the cross product of vectors of three elements along an axis.

    >>> porism.cross([1, 0, 0], [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    a, b = promoted_operands("cross", x1, x2)
    for tensor in (a, b):
        vector_axis = shapes.normalize_axis(axis, tensor.ndim)
        if not shapes.sizes_equal(tensor.shape[vector_axis], 3):
            raise shapes.shape_error(
                f"cross of tensors of shapes {shapes.to_text(a.shape)} and "
                f"{shapes.to_text(b.shape)} along axis {axis}",
                "a vector in space has three elements",
                "name the axis of three elements",
            )
    wide = accumulation_dtype(a.node.dtype)
    left, right = (Tensor(primitive.cast(t.node, wide)) for t in (a, b))
    # Element k is a[k+1]·b[k+2] - a[k+2]·b[k+1].
    ahead = multiply(roll(left, -1, axis), roll(right, -2, axis))
    behind = multiply(roll(left, -2, axis), roll(right, -1, axis))
    return Tensor(primitive.cast(subtract(ahead, behind).node, a.node.dtype))


@method
def addmm(x: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta · x + alpha · (mat1 @ mat2).

    >>> porism.addmm([1.0, 2.0], [[1.0, 0.0]], [[3.0, 4.0], [5.0, 6.0]], alpha=2).tolist()
    [[7.0, 10.0]]
    """
    start, left, right = promoted_operands("addmm", x, mat1, mat2)
    dtype = left.node.dtype
    wide = accumulation_dtype(dtype)
    start, left, right = (Tensor(primitive.cast(t.node, wide)) for t in (start, left, right))
    product = _scaled(matmul(left, right), alpha)
    result = product if beta == 0 else add(_scaled(start, beta), product)
    return Tensor(primitive.cast(result.node, dtype))


def _scaled(x: Tensor, factor: float) -> Tensor:
    """Return x times a number."""
    return x if factor == 1 else Tensor(ops.MUL(x.node, x.node.lift(factor)))
