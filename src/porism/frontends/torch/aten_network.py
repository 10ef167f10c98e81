"""Network operators of ATen: convolution, resizing, attention, and their derivatives.

Derivatives of operators that Porism has itself are those that Porism takes (`porism.vjp`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten_normalization import in_float32, native_layer_norm
from porism.frontends.torch.aten_pooling import fill
from porism.frontends.torch.aten_table import UncoveredFormError, aten

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


# -- resizing --------------------------------------------------------------------------------------


@aten("upsample_nearest2d.vec")
def upsample_nearest2d_vec(x: Any, output_size: Any, scale_factors: Any) -> Any:
    """Return x resized by the nearest element."""
    sizes = output_size or [int(n * f) for n, f in zip(x.shape[2:], scale_factors, strict=True)]
    scales = scale_factors or (None, None)
    return upsample_nearest2d(x, sizes, *scales)


@aten("upsample_nearest2d.default")
def upsample_nearest2d(
    x: Any, output_size: Sequence[int], scales_h: Any = None, scales_w: Any = None
) -> Any:
    """Return x resized by the nearest element."""
    for axis, size, scale in ((2, output_size[0], scales_h), (3, output_size[1], scales_w)):
        before = x.shape[axis]
        step = 1 / scale if scale else before / size
        index = [min(math.floor(k * step), before - 1) for k in range(size)]
        x = xp.take(x, xp.asarray(index, dtype="int64"), axis=axis)
    return x


@aten("grid_sampler_2d.default")
def grid_sampler_2d(
    x: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """Return x sampled at positions from -1 to 1: bilinearly or at the nearest element."""
    if interpolation_mode == 2 or padding_mode == 2:
        raise UncoveredFormError("bicubic samples, or padding by reflection")
    batch, channels, height, width = x.shape
    column, row = (
        (grid[..., k] + 1) / 2 * (size - 1)
        if align_corners
        else ((grid[..., k] + 1) * size - 1) / 2
        for k, size in enumerate((width, height))
    )
    if padding_mode == 1:
        column = xp.clip(column, 0, width - 1)
        row = xp.clip(row, 0, height - 1)
    flat = xp.reshape(x, (batch, channels, height * width))

    def at(r: Any, c: Any) -> Any:
        """Return the elements at whole positions; 0 outside."""
        inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
        index = xp.where(inside, r * width + c, 0).astype("int64")
        index = xp.reshape(index, (batch, 1, -1))
        index = xp.broadcast_to(index, (batch, channels, index.shape[-1]))
        taken = xp.reshape(xp.gather(flat, 2, index), (batch, channels, *grid.shape[1:3]))
        return xp.where(inside[:, None], taken, 0)

    if interpolation_mode == 1:
        return at(xp.round(row), xp.round(column))
    top, left = xp.floor(row), xp.floor(column)
    down, right = (row - top)[:, None], (column - left)[:, None]
    upper = at(top, left) * (1 - right) + at(top, left + 1) * right
    lower = at(top + 1, left) * (1 - right) + at(top + 1, left + 1) * right
    return upper * (1 - down) + lower * down


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
