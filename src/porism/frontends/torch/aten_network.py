"""Network operators of ATen: convolution, pooling, norms, attention, and their derivatives.

Derivatives of operators that Porism has itself are those that Porism takes (`porism.vjp`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten_normalization import in_float32
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
    stride, padding, dilation = (_fill(v, spatial) for v in (stride, padding, dilation))
    if transposed:
        function = getattr(xp, f"conv_transpose{spatial}d")
        extra = _fill(output_padding, spatial)
        result = function(x, weight, bias, stride, padding, extra, groups, dilation)
    else:
        function = getattr(xp, f"conv{spatial}d")
        result = function(x, weight, bias, stride, padding, dilation, groups)
    return result if batched else result[0]


def _fill(numbers: Sequence[int], count: int) -> tuple[int, ...]:
    """Return a number for each axis, where one may stand for all."""
    return tuple(numbers) if len(numbers) == count else (numbers[0],) * count


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


# -- pooling ---------------------------------------------------------------------------------------


def _batched(x: Any, spatial: int) -> tuple[Any, bool]:
    """Return x with a batch, and whether it had one."""
    batched = x.ndim == spatial + 2
    return (x if batched else xp.expand_dims(x, axis=0)), batched


def _avg_pool(spatial: int) -> Any:
    """Return the operator avg_pool1d, 2d or 3d."""

    def avg_pool(
        x: Any,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        """Return means of windows."""
        if divisor_override is not None:
            raise UncoveredFormError("divisor_override")
        kernel = _fill(kernel_size, spatial)
        steps = _fill(stride, spatial) if stride else kernel
        pads = _fill([padding] if isinstance(padding, int) else padding, spatial)
        x, batched = _batched(x, spatial)
        function = getattr(xp, f"avg_pool{spatial}d")
        result = function(x, kernel, steps, pads, ceil_mode, count_include_pad)
        return result if batched else result[0]

    return avg_pool


avg_pools = {spatial: _avg_pool(spatial) for spatial in (1, 2, 3)}
for _spatial, _pool in avg_pools.items():
    aten(f"avg_pool{_spatial}d.default")(_pool)


@aten("avg_pool2d_backward.default")
def avg_pool2d_backward(grad: Any, x: Any, *options: Any) -> Any:
    """Return the gradient of avg_pool2d."""
    return xp.vjp(lambda v: avg_pools[2](v, *options), x)[1](grad)[0]


@aten("avg_pool3d_backward.default")
def avg_pool3d_backward(grad: Any, x: Any, *options: Any) -> Any:
    """Return the gradient of avg_pool3d."""
    return xp.vjp(lambda v: avg_pools[3](v, *options), x)[1](grad)[0]


@aten("_adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(x: Any, output_size: Sequence[int]) -> Any:
    """Return means of a given number of windows."""
    x, batched = _batched(x, 2)
    result = xp.adaptive_avg_pool2d(x, tuple(output_size))
    return result if batched else result[0]


@aten("_adaptive_avg_pool3d.default")
def adaptive_avg_pool3d(x: Any, output_size: Sequence[int]) -> Any:
    """Return means of a given number of windows."""
    x, batched = _batched(x, 3)
    result = xp.adaptive_avg_pool3d(x, tuple(output_size))
    return result if batched else result[0]


@aten("_adaptive_avg_pool2d_backward.default")
def adaptive_avg_pool2d_backward(grad: Any, x: Any) -> Any:
    """Return the gradient of adaptive_avg_pool2d."""
    sizes = grad.shape[-2:]
    return xp.vjp(lambda v: adaptive_avg_pool2d(v, sizes), x)[1](grad)[0]


def _window_positions(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    counts: Sequence[int],
) -> list[Any]:
    """Return, for each spatial axis, the position of each tap: (windows, taps)."""
    return [
        xp.arange(counts[k])[:, None] * stride[k]
        - padding[k]
        + xp.arange(kernel[k])[None, :] * dilation[k]
        for k in range(len(sizes))
    ]


@aten("max_pool2d_with_indices.default")
def max_pool2d_with_indices(
    x: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Any, Any]:
    """Return maxima of windows, and where they are in the plane; of equal ones the first."""
    kernel = _fill(kernel_size, 2)
    steps = _fill(stride, 2) if stride else kernel
    pads = _fill([padding] if isinstance(padding, int) else padding, 2)
    gaps = _fill([dilation] if isinstance(dilation, int) else dilation, 2)
    x, batched = _batched(x, 2)
    values = xp.max_pool2d(x, kernel, steps, pads, gaps, ceil_mode)
    height, width = x.shape[-2:]
    counts = values.shape[-2:]
    rows, columns = _window_positions((height, width), kernel, steps, pads, gaps, counts)
    best = xp.full(values.shape, -1, dtype="int64")
    for i in reversed(range(kernel[0])):
        for j in reversed(range(kernel[1])):
            r, c = rows[:, i][:, None], columns[:, j][None, :]
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            at = xp.where(inside, r * width + c, 0)
            flat = xp.reshape(x, (*x.shape[:-2], height * width))
            tap = xp.take(flat, xp.reshape(at, (-1,)), axis=-1)
            tap = xp.reshape(tap, values.shape)
            same = (tap == values) | xp.isnan(tap)
            best = xp.where(same & inside, at, best)
    return (values, best) if batched else (values[0], best[0])


@aten("max_pool2d_with_indices_backward.default")
def max_pool2d_with_indices_backward(
    grad: Any,
    x: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Any,
) -> Any:
    """Return the gradient of maxima of windows: each goes to where its maximum is."""
    planes = math.prod(x.shape[:-2])
    flat = xp.zeros(planes, x.shape[-2] * x.shape[-1], dtype=grad.dtype)
    index = xp.reshape(indices, (planes, -1))
    added = xp.scatter_add(flat, 1, index, xp.reshape(grad, (planes, -1)))
    return xp.reshape(added, x.shape)


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
