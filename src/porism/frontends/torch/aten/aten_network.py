"""Network operators of ATen: convolution, attention, and their derivatives.

Derivatives of operators that Porism has itself are those that Porism takes (`porism.vjp`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten.aten_normalization import in_float32, native_layer_norm
from porism.frontends.torch.aten.aten_pooling import fill
from porism.frontends.torch.aten.aten_table import UncoveredFormError, aten

# -- convolution -----------------------------------------------------------------------------------


@aten("convolution.default")
def convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """Return a convolution or a transposed one, over one to three axes."""
    spatial = weight.ndim - 2
    batched = x.ndim == spatial + 2
    x = x if batched else xp.expand_dims(x, axis=0)
    stride, padding, dilation = (fill(v, spatial) for v in (stride, padding, dilation))
    if transposed:
        function = getattr(xp, f"conv_transpose{spatial}d")
        extra = fill(output_padding, spatial)
        result = function(x, weight, bias, stride, padding, extra, groups, dilation)
    else:
        function = getattr(xp, f"conv{spatial}d")
        result = function(x, weight, bias, stride, padding, dilation, groups)
    return result if batched else result[0]


@aten("convolution_backward.default")
def convolution_backward(
    grad: Any,
    x: Any,
    weight: Any,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Any, Any, Any]:
    """Return the gradients of a convolution that are asked for: of input, weight and bias."""
    options = (stride, padding, dilation, transposed, output_padding, groups)
    by_input = by_weight = by_bias = None
    if output_mask[0]:
        by_input = xp.vjp(lambda v: convolution(v, weight, None, *options), x)[1](grad)[0]
    if output_mask[1]:
        by_weight = xp.vjp(lambda v: convolution(x, v, None, *options), weight)[1](grad)[0]
    if output_mask[2]:
        channel = grad.ndim - (weight.ndim - 2) - 1
        by_bias = xp.sum(grad, axis=tuple(k for k in range(grad.ndim) if k != channel))
    return by_input, by_weight, by_bias


@aten("_trilinear.default")
def trilinear(
    a: Any,
    b: Any,
    c: Any,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Any:
    """Return sums over axes of products of three tensors, each with some axes more."""
    product: Any = 1
    for x, axes in ((a, expand1), (b, expand2), (c, expand3)):
        for axis in sorted(axes):
            x = xp.expand_dims(x, axis=axis)
        product = x * product
    return xp.sum(product, axis=tuple(sumdim)) if sumdim else product


# -- attention -------------------------------------------------------------------------------------


def _scores(query: Any, key: Any, is_causal: bool, attn_mask: Any, scale: Any) -> Any:
    """Return the scores of attention, masked."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = xp.matmul(query, key.mT) * factor
    if is_causal:
        rows, columns = xp.arange(scores.shape[-2]), xp.arange(scores.shape[-1])
        scores = xp.where(columns[None, :] <= rows[:, None], scores, -math.inf)
    return scores if attn_mask is None else scores + attn_mask


@aten("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Any = None,
    scale: Any = None,
) -> tuple[Any, Any]:
    """Return attention, and the logarithm of the sum of exponentials of each row of scores."""
    if dropout_p:
        raise UncoveredFormError("dropout inside of attention")
    result = xp.scaled_dot_product_attention(
        query, key, value, mask=attn_mask, causal=is_causal, scale=scale
    )
    scores = _scores(in_float32(query), in_float32(key), is_causal, attn_mask, scale)
    return result, xp.logsumexp(scores, axis=-1)


@aten("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_backward(
    grad: Any,
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    logsumexp: Any,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Any = None,
    scale: Any = None,
) -> tuple[Any, Any, Any]:
    """Return the gradients of attention by query, key and value."""
    if dropout_p:
        raise UncoveredFormError("dropout inside of attention")
    q, k, v, g, o = (in_float32(x) for x in (query, key, value, grad, out))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    weights = xp.exp(_scores(q, k, is_causal, attn_mask, scale) - logsumexp[..., None])
    by_value = xp.matmul(weights.mT, g)
    by_weights = xp.matmul(g, v.mT)
    rows = xp.sum(g * o, axis=-1, keepdims=True)
    by_scores = weights * (by_weights - rows) * factor
    return xp.matmul(by_scores, k), xp.matmul(by_scores.mT, q), by_value


@aten("_transformer_encoder_layer_fwd.default")
def transformer_encoder_layer(
    src: Any,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    ffn_weight_1: Any,
    ffn_bias_1: Any,
    ffn_weight_2: Any,
    ffn_bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """Return a layer of an encoder: attention and a perceptron, each with a norm and a skip."""
    if mask is not None:
        raise UncoveredFormError("a masked layer of an encoder")
    batch, length = src.shape[:2]

    def attention(x: Any) -> Any:
        heads = (batch, length, 3, num_heads, embed_dim // num_heads)
        qkv = xp.reshape(xp.matmul(x, qkv_weight.mT) + qkv_bias, heads)
        query, key, value = (xp.moveaxis(qkv[:, :, k], 1, 2) for k in range(3))
        mixed = xp.moveaxis(xp.scaled_dot_product_attention(query, key, value), 1, 2)
        return xp.matmul(xp.reshape(mixed, x.shape), proj_weight.mT) + proj_bias

    def perceptron(x: Any) -> Any:
        hidden = xp.matmul(x, ffn_weight_1.mT) + ffn_bias_1
        hidden = xp.gelu(hidden) if use_gelu else xp.relu(hidden)
        return xp.matmul(hidden, ffn_weight_2.mT) + ffn_bias_2

    def first(x: Any) -> Any:
        return native_layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)[0]

    def second(x: Any) -> Any:
        return native_layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)[0]

    if norm_first:
        x = src + attention(first(src))
        return x + perceptron(second(x))
    x = first(src + attention(src))
    return second(x + perceptron(x))


# -- experts ---------------------------------------------------------------------------------------

MAX_GROUPED_PRODUCTS = 1 << 27
"""Products of a grouped matrix product, chosen by hand: in a larger one, tiles of rows that share
the weights of an expert are worth a product of torch for each of them."""


@aten("transformers.grouped_mm_fallback.default")
def grouped_mm(x: Any, weight: Any, offsets: Any) -> Any:
    """Return rows times the matrix of the group that each is in; rows behind all groups are 0.

    A group ends before the row at its offset, where the next one begins.
    """
    rows, inner, columns = x.shape[0], x.shape[1], weight.shape[2]
    sizes = (rows, inner, columns)
    if not all(isinstance(n, int) for n in sizes) or math.prod(sizes) > MAX_GROUPED_PRODUCTS:
        raise UncoveredFormError("a large grouped matrix product")
    row = xp.arange(rows)[:, None]
    group = xp.sum((row >= offsets.astype("int64")[None, :]).astype("int64"), axis=1)
    inside = group < weight.shape[0]
    own = xp.take(weight, xp.where(inside, group, 0), axis=0)
    product = xp.matmul(x[:, None, :], own)[:, 0, :]
    return xp.where(inside[:, None], product, 0)
