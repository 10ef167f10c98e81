"""What the programs of the survey need besides, on jax."""

from __future__ import annotations

from collections.abc import Sequence

import jax  # type: ignore[import-not-found, unused-ignore]
import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]
from jax import lax  # type: ignore[import-not-found, unused-ignore]

from benchmarks.cpu_operations import EPSILON, Array


class SurveyOnJax:
    """In jax.numpy, jax.nn and lax."""

    log = staticmethod(jnp.log)
    log1p = staticmethod(jnp.log1p)
    sqrt = staticmethod(jnp.sqrt)
    sin = staticmethod(jnp.sin)
    cos = staticmethod(jnp.cos)
    abs = staticmethod(jnp.abs)
    sign = staticmethod(jnp.sign)
    floor = staticmethod(jnp.floor)
    round = staticmethod(jnp.round)
    where = staticmethod(jnp.where)
    maximum = staticmethod(jnp.maximum)
    minimum = staticmethod(jnp.minimum)
    einsum = staticmethod(jnp.einsum)
    clip = staticmethod(jnp.clip)
    tril = staticmethod(jnp.tril)
    outer = staticmethod(jnp.outer)
    kron = staticmethod(jnp.kron)
    sigmoid = staticmethod(jax.nn.sigmoid)
    logaddexp = staticmethod(jnp.logaddexp)
    silu = staticmethod(jax.nn.silu)
    softplus = staticmethod(jax.nn.softplus)

    def cast(self, x: Array, dtype: str) -> Array:
        return x.astype("int32" if dtype == "int64" else dtype)

    def largest(self, x: Array, axis: int | tuple[int, ...], keepdims: bool = False) -> Array:
        return x.max(axis, keepdims=keepdims)

    def smallest(self, x: Array, axis: int | tuple[int, ...], keepdims: bool = False) -> Array:
        return x.min(axis, keepdims=keepdims)

    def position_of_largest(self, x: Array, axis: int) -> Array:
        return x.argmax(axis)

    def position_of_smallest(self, x: Array, axis: int) -> Array:
        return x.argmin(axis)

    def log_softmax(self, x: Array) -> Array:
        return jax.nn.log_softmax(x)

    def log_sum_exp(self, x: Array) -> Array:
        return jax.nn.logsumexp(x, -1)

    def cross_entropy(self, x: Array, classes: Array) -> Array:
        chosen = jnp.take_along_axis(x, classes[:, None], 1)[:, 0]
        return (jax.nn.logsumexp(x, -1) - chosen).mean()

    def numbers(self, x: Array, count: int, dtype: str = "int32") -> Array:
        return jnp.arange(count, dtype=dtype)

    # -- products ------------------------------------------------------------------------------

    def whole_product(self, a: Array, b: Array) -> Array:
        return lax.dot(a, b, preferred_element_type=jnp.int32)

    def convolve(
        self,
        x: Array,
        weight: Array,
        bias: Array | None = None,
        stride: int = 1,
        padding: int | tuple[int, ...] = 0,
        dilation: int = 1,
        groups: int = 1,
    ) -> Array:
        axes = x.ndim - 2
        sizes = (padding,) * axes if isinstance(padding, int) else padding
        y = lax.conv_general_dilated(
            x, weight, (stride,) * axes, [(size, size) for size in sizes],
            rhs_dilation=(dilation,) * axes, feature_group_count=groups,
        )  # fmt: skip
        return y if bias is None else y + bias.reshape(-1, *(1,) * axes)

    def transposed(
        self, x: Array, weight: Array, stride: int, padding: int = 0, beyond: int = 0
    ) -> Array:
        axes = x.ndim - 2
        flipped = jnp.flip(weight, tuple(range(2, 2 + axes))).swapaxes(0, 1)
        around = [(size - 1 - padding, size - 1 - padding + beyond) for size in weight.shape[2:]]
        return lax.conv_general_dilated(
            x, flipped, (1,) * axes, around, lhs_dilation=(stride,) * axes
        )

    def attend(
        self, q: Array, k: Array, v: Array, mask: Array | None = None, causal: bool = False
    ) -> Array:
        scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
        if causal:
            mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        if mask is not None and mask.dtype == bool:
            scores = jnp.where(mask, scores, -jnp.inf)
        elif mask is not None:
            scores = scores + mask
        return jax.nn.softmax(scores) @ v

    def grouped_attend(self, q: Array, k: Array, v: Array) -> Array:
        batch, heads, length, width = q.shape
        q = q.reshape(batch, k.shape[1], heads // k.shape[1], length, width)
        result = self.attend(q, k[:, :, None], v[:, :, None])
        return result.reshape(batch, heads, length, width)

    # -- layers --------------------------------------------------------------------------------

    def group_norm(self, x: Array, groups: int, weight: Array, bias: Array) -> Array:
        parts = x.reshape(x.shape[0], groups, -1)
        centred = parts - parts.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        y = (centred * lax.rsqrt(variance + EPSILON)).reshape(x.shape)
        shape = (-1, *(1,) * (x.ndim - 2))
        return y * weight.reshape(shape) + bias.reshape(shape)

    def pool_max(self, x: Array, size: int, stride: int, padding: int = 0) -> Array:
        axes = x.ndim - 2
        around = ((0, 0), (0, 0), *((padding, padding),) * axes)
        return lax.reduce_window(
            x, -jnp.inf, lax.max, (1, 1, *(size,) * axes), (1, 1, *(stride,) * axes), around
        )

    def pool_mean(self, x: Array, size: int, stride: int) -> Array:
        axes = x.ndim - 2
        window = (1, 1, *(size,) * axes)
        total = lax.reduce_window(x, 0.0, lax.add, window, (1, 1, *(stride,) * axes), "VALID")
        return total / size**axes

    def resize(self, x: Array, size: tuple[int, int], mode: str) -> Array:
        return jax.image.resize(x, (*x.shape[:2], *size), mode, antialias=False)

    # -- movement ------------------------------------------------------------------------------

    def concat(self, parts: Sequence[Array], axis: int) -> Array:
        return jnp.concatenate(parts, axis)

    def stack(self, parts: Sequence[Array], axis: int) -> Array:
        return jnp.stack(parts, axis)

    def pad(
        self, x: Array, around: Sequence[tuple[int, int]], mode: str = "constant", value: float = 0
    ) -> Array:
        widths = [(0, 0)] * (x.ndim - len(around)) + list(around)
        if mode == "constant":
            return jnp.pad(x, widths, constant_values=value)
        return jnp.pad(x, widths, mode)

    def flip(self, x: Array, axis: int) -> Array:
        return jnp.flip(x, axis)

    def roll(self, x: Array, shift: int, axis: int) -> Array:
        return jnp.roll(x, shift, axis)

    def tile(self, x: Array, counts: tuple[int, ...]) -> Array:
        return jnp.tile(x, counts)

    def select(self, x: Array, rows: Array, axis: int) -> Array:
        return jnp.take(x, rows, axis)

    def take_along(self, x: Array, positions: Array, axis: int) -> Array:
        return jnp.take_along_axis(x, positions, axis)

    def add_rows(self, x: Array, rows: Array, values: Array) -> Array:
        return x.at[rows].add(values)

    def set_rows(self, x: Array, rows: Array, values: Array) -> Array:
        return x.at[rows].set(values)

    # -- order, sums along an axis, frequencies --------------------------------------------------

    def sort(self, x: Array) -> Array:
        return jnp.sort(x)

    def argsort(self, x: Array) -> Array:
        return jnp.argsort(x)

    def top(self, x: Array, count: int) -> Array:
        return lax.top_k(x, count)[0]

    def median(self, x: Array) -> Array:
        return jnp.median(x, -1)

    def counts(self, x: Array, length: int) -> Array:
        return jnp.bincount(x, length=length)

    def search(self, edges: Array, values: Array) -> Array:
        return jnp.searchsorted(edges, values)

    def running_sum(self, x: Array, axis: int) -> Array:
        return jnp.cumsum(x, axis)

    def running_product(self, x: Array, axis: int) -> Array:
        return jnp.cumprod(x, axis)

    def running_max(self, x: Array, axis: int) -> Array:
        return lax.cummax(x, axis)

    def fft(self, x: Array) -> Array:
        return jnp.fft.fft(x)

    def fft2(self, x: Array) -> Array:
        return jnp.fft.fft2(x)

    def rfft(self, x: Array) -> Array:
        return jnp.fft.rfft(x)

    def irfft(self, x: Array) -> Array:
        return jnp.fft.irfft(x)
