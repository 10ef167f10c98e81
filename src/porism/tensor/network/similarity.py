"""Similarity: vectors scaled to length 1, angles and distances between vectors."""

from __future__ import annotations

from typing import Any

from porism.tensor import primitive
from porism.tensor.api.arithmetic import abs as absolute
from porism.tensor.api.arithmetic import add, divide, maximum, multiply, subtract
from porism.tensor.api.operands import float_node, float_pair
from porism.tensor.api.reductions import Axes, accumulation_dtype, norm, sum
from porism.tensor.conversion import as_tensor
from porism.tensor.tensor import Tensor, method


def _wide(x: Any) -> Tensor:
    """Return a float tensor in the type in which it is accumulated."""
    return Tensor(primitive.cast(x, accumulation_dtype(x.dtype)))


@method
def normalize(x: Any, ord: float = 2, axis: Axes = 1, eps: float = 1e-12) -> Tensor:
    """Return x divided by its norm along an axis, or by `eps` where the norm is less.

    >>> porism.normalize([[3.0, 4.0]]).tolist()
    [[0.6000..., 0.8000...]]
    """
    node = float_node(as_tensor(x))
    wide = _wide(node)
    length = maximum(norm(wide, ord, axis, keepdims=True), eps)
    return Tensor(primitive.cast(divide(wide, length).node, node.dtype))


@method
def cosine_similarity(x1: Any, x2: Any, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along an axis; lengths are at least `eps`.

    >>> porism.cosine_similarity([[3.0, 4.0]], [[3.0, 0.0]]).tolist()
    [0.6000...]
    """
    a, b = float_pair(x1, x2)
    left, right = _wide(a), _wide(b)
    lengths = [maximum(norm(x, 2, axis, keepdims=True), eps) for x in (left, right)]
    product = multiply(divide(left, lengths[0]), divide(right, lengths[1]))
    return Tensor(primitive.cast(sum(product, axis).node, a.dtype))


@method
def pairwise_distance(
    x1: Any, x2: Any, ord: float = 2, eps: float = 1e-6, *, keepdims: bool = False
) -> Tensor:
    """Return the norm of x1 - x2 + eps along the last axis.

    >>> porism.pairwise_distance([[3.0, 4.0]], [[0.0, 0.0]], eps=0).tolist()
    [5.0]
    """
    a, b = float_pair(x1, x2)
    distance = absolute(add(subtract(_wide(a), _wide(b)), eps))
    return Tensor(primitive.cast(norm(distance, ord, -1, keepdims=keepdims).node, a.dtype))
