"""Attention: for each query the mean of all values, weighted by a softmax of query-key products.

Scores and weights are one graph of products, a softmax and a sum. Floats narrower than 32 bits are
scored in f32; the weights are then rounded to the values' type, which tensor cores take as input.
"""

from __future__ import annotations

import math
from typing import Any

from porism.base.dtypes import Kind
from porism.ir.node import UOp
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api.linear_algebra import row_products, transpose_last
from porism.tensor.api.operands import promoted_operands
from porism.tensor.conversion import as_tensor
from porism.tensor.network.normalization import softmax_node
from porism.tensor.primitive import Dim
from porism.tensor.tensor import Tensor, method


@method
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return softmax(query · keyᵀ · scale + mask) · value over axes (…, heads, length, features).

    `mask` is bool (true for the keys that a query attends to) or float (added to the scores);
    `causal` hides the keys after the query's own position. `scale` is 1/sqrt(features) by default.
    If the query has a multiple of the heads of key and value (grouped-query attention), each of
    theirs is used for as many consecutive heads of the query.

    >>> q = porism.ones(1, 2, 4)
    >>> porism.scaled_dot_product_attention(q, q, porism.arange(6.0).reshape(1, 2, 3)).tolist()
    [[[1.5, 2.5, 3.5], [1.5, 2.5, 3.5]]]
    """
    q, k, v = promoted_operands("scaled_dot_product_attention", query, key, value)
    promotion.require_dtype(
        q.node.dtype, promotion.FLOATS, "scaled_dot_product_attention", "convert them, with astype"
    )
    _check(q, k, v)
    repeats = _queries_per_key_head(q, k, v)
    if repeats > 1:
        k, v = _repeat_heads(k, repeats), _repeat_heads(v, repeats)
    return _attend(q, k, v, _check_mask(q, k, mask), causal, scale)


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Refuse operands whose features or lengths do not match."""
    fits = min(q.ndim, k.ndim, v.ndim) >= 2
    if not (
        fits
        and shapes.sizes_equal(q.shape[-1], k.shape[-1])
        and shapes.sizes_equal(k.shape[-2], v.shape[-2])
    ):
        shown = ", ".join(shapes.to_text(x.shape) for x in (q, k, v))
        raise shapes.shape_error(
            f"attention with query, key and value of shapes {shown}",
            "they are (…, length, features): query and key have the same features, key and value "
            "the same length",
            "transpose or slice them, so that these sizes are equal",
        )


def _queries_per_key_head(q: Tensor, k: Tensor, v: Tensor) -> int:
    """Return how many heads of the query share one head of key and value."""
    if min(q.ndim, k.ndim, v.ndim) < 3:
        return 1
    query_heads, key_heads, value_heads = q.shape[-3], k.shape[-3], v.shape[-3]
    if shapes.sizes_equal(key_heads, value_heads):
        if shapes.sizes_equal(query_heads, key_heads) or shapes.is_one(key_heads):
            return 1
        if (
            isinstance(query_heads, int)
            and isinstance(key_heads, int)
            and key_heads
            and not query_heads % key_heads
        ):
            return query_heads // key_heads
    raise shapes.shape_error(
        f"attention with {shapes.size_text(query_heads)} heads of queries, "
        f"{shapes.size_text(key_heads)} of keys and {shapes.size_text(value_heads)} of values",
        "key and value have equal heads, and the heads of the query are a multiple of them",
        "repeat the heads of key and value, or project to another number",
    )


def _repeat_heads(x: Tensor, times: int) -> Tensor:
    """Return a view in which each head occurs several times in a row."""
    *batch, heads, length, features = x.shape
    node = primitive.reshape(x.node, [*batch, heads, 1, length, features])
    node = primitive.expand(node, [*batch, heads, times, length, features])
    return Tensor(primitive.reshape(node, [*batch, heads * times, length, features]))


def _check_mask(q: Tensor, k: Tensor, mask: Any) -> Tensor | None:
    """Return the mask as a tensor of at least two axes; refuse one that does not fit."""
    if mask is None:
        return None
    mask_tensor = as_tensor(mask)
    if mask_tensor.node.dtype.kind is not Kind.BOOL and not mask_tensor.node.dtype.is_float:
        raise promotion.type_error(
            f"an attention mask of {promotion.name_of(mask_tensor.node.dtype)}",
            "a bool mask says which keys are seen, a float mask is added to the scores; integers "
            "could mean either",
            "convert it with astype",
        )
    batch = shapes.broadcast_shapes(q.shape[:-2], [1] * (k.ndim - 2))
    score_sizes = (*batch, q.shape[-2], k.shape[-2])
    if mask_tensor.ndim < 2:
        mask_tensor = Tensor(primitive.broadcast(mask_tensor.node, score_sizes[-2:]))
    shapes.broadcast_shapes(mask_tensor.shape, score_sizes)  # raises if the mask does not fit
    return mask_tensor


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float | None
) -> Tensor:
    """Return the attention of operands that have equal heads."""
    batches = [x.shape[:-2] for x in (q, k, v)]
    if mask is not None:
        batches.append(mask.shape[:-2])
    batch = shapes.broadcast_shapes(*batches)
    rank = len(batch)
    scores = row_products(q.node, k.node, batch) * _scale(q.shape[-1], scale)
    if mask is not None:
        scores = _apply_mask(scores, mask)
    if causal:
        sizes = [*batch, q.shape[-2], k.shape[-2]]
        attended = primitive.iota(sizes, rank + 1) <= primitive.iota(sizes, rank)
        scores = attended.where(scores, scores.lift(-math.inf))
    weights = primitive.cast(softmax_node(scores, [rank + 1]), v.node.dtype)
    return Tensor(
        primitive.cast(row_products(weights, transpose_last(v.node), batch), v.node.dtype)
    )


def _scale(features: Dim, scale: float | None) -> float:
    """Return the given scale, or 1/sqrt(features)."""
    if scale is not None:
        return scale
    if not isinstance(features, int):
        raise shapes.shape_error(
            f"attention over the symbolic number {shapes.size_text(features)} of features",
            "the scale is one over its root",
            "pass scale=",
        )
    return 1 / math.sqrt(features) if features else 1.0


def _apply_mask(scores: UOp, mask: Tensor) -> UOp:
    """Return the scores with a bool mask as -inf where false, or a float mask added."""
    score_sizes = shapes.sizes_of(scores)
    node = primitive.broadcast(mask.node, score_sizes)
    if mask.node.dtype.kind is Kind.BOOL:
        return node.where(scores, scores.lift(-math.inf))
    return scores + primitive.cast(node, scores.dtype)
