"""What the programs of the survey need besides, on Porism."""

from __future__ import annotations

from collections.abc import Sequence

import porism
from benchmarks.cpu_operations import Array

CONVOLUTIONS = (porism.conv1d, porism.conv2d, porism.conv3d)
TRANSPOSED = (porism.conv_transpose1d, porism.conv_transpose2d, porism.conv_transpose3d)
MAX_POOLS = (porism.max_pool1d, porism.max_pool2d, porism.max_pool3d)
MEAN_POOLS = (porism.avg_pool1d, porism.avg_pool2d, porism.avg_pool3d)


class SurveyOnPorism:
    """Each has a function of its own in Porism."""

    log = staticmethod(porism.log)
    log1p = staticmethod(porism.log1p)
    sqrt = staticmethod(porism.sqrt)
    sin = staticmethod(porism.sin)
    cos = staticmethod(porism.cos)
    abs = staticmethod(porism.abs)
    sign = staticmethod(porism.sign)
    floor = staticmethod(porism.floor)
    round = staticmethod(porism.round)
    where = staticmethod(porism.where)
    maximum = staticmethod(porism.maximum)
    minimum = staticmethod(porism.minimum)
    einsum = staticmethod(porism.einsum)
    clip = staticmethod(porism.clip)
    tril = staticmethod(porism.tril)
    outer = staticmethod(porism.outer)
    kron = staticmethod(porism.kron)
    sigmoid = staticmethod(porism.sigmoid)
    logaddexp = staticmethod(porism.logaddexp)
    silu = staticmethod(porism.silu)
    softplus = staticmethod(porism.softplus)
    log_softmax = staticmethod(porism.log_softmax)
    cross_entropy = staticmethod(porism.cross_entropy)
    group_norm = staticmethod(porism.group_norm)
    attend = staticmethod(porism.scaled_dot_product_attention)
    concat = staticmethod(porism.concat)
    stack = staticmethod(porism.stack)
    flip = staticmethod(porism.flip)
    roll = staticmethod(porism.roll)
    tile = staticmethod(porism.tile)
    sort = staticmethod(porism.sort)
    argsort = staticmethod(porism.argsort)
    search = staticmethod(porism.searchsorted)
    running_sum = staticmethod(porism.cumsum)
    running_product = staticmethod(porism.cumprod)
    running_max = staticmethod(porism.cummax)
    fft = staticmethod(porism.fft.fft)
    fft2 = staticmethod(porism.fft.fft2)
    rfft = staticmethod(porism.fft.rfft)
    irfft = staticmethod(porism.fft.irfft)

    def cast(self, x: Array, dtype: str) -> Array:
        return x.astype(dtype)

    def largest(self, x: Array, axis: int | tuple[int, ...], keepdims: bool = False) -> Array:
        return porism.max(x, axis, keepdims=keepdims)

    def smallest(self, x: Array, axis: int | tuple[int, ...], keepdims: bool = False) -> Array:
        return porism.min(x, axis, keepdims=keepdims)

    def position_of_largest(self, x: Array, axis: int) -> Array:
        return porism.argmax(x, axis)

    def position_of_smallest(self, x: Array, axis: int) -> Array:
        return porism.argmin(x, axis)

    def log_sum_exp(self, x: Array) -> Array:
        return porism.logsumexp(x, -1)

    def numbers(self, x: Array, count: int, dtype: str = "int32") -> Array:
        return porism.arange(count, dtype=dtype)

    # -- products ------------------------------------------------------------------------------

    def whole_product(self, a: Array, b: Array) -> Array:
        return a.astype("int32") @ b.astype("int32")

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
        return CONVOLUTIONS[x.ndim - 3](x, weight, bias, stride, padding, dilation, groups)

    def transposed(
        self, x: Array, weight: Array, stride: int, padding: int = 0, beyond: int = 0
    ) -> Array:
        return TRANSPOSED[x.ndim - 3](x, weight, None, stride, padding, beyond)

    def grouped_attend(self, q: Array, k: Array, v: Array) -> Array:
        batch, heads, length, width = q.shape
        q = q.reshape(batch, k.shape[1], heads // k.shape[1], length, width)
        result = porism.scaled_dot_product_attention(q, k[:, :, None], v[:, :, None])
        return result.reshape(batch, heads, length, width)

    # -- layers --------------------------------------------------------------------------------

    def pool_max(self, x: Array, size: int, stride: int, padding: int = 0) -> Array:
        return MAX_POOLS[x.ndim - 3](x, size, stride, padding)

    def pool_mean(self, x: Array, size: int, stride: int) -> Array:
        return MEAN_POOLS[x.ndim - 3](x, size, stride)

    def resize(self, x: Array, size: tuple[int, int], mode: str) -> Array:
        return porism.interpolate(x, size, mode=mode)

    # -- movement ------------------------------------------------------------------------------

    def pad(
        self, x: Array, around: Sequence[tuple[int, int]], mode: str = "constant", value: float = 0
    ) -> Array:
        widths = [(0, 0)] * (x.ndim - len(around)) + list(around)
        return porism.pad(x, widths, mode, value)

    def select(self, x: Array, rows: Array, axis: int) -> Array:
        return porism.take(x, rows, axis=axis)

    def take_along(self, x: Array, positions: Array, axis: int) -> Array:
        return porism.take_along_axis(x, positions, axis)

    def add_rows(self, x: Array, rows: Array, values: Array) -> Array:
        return porism.index_add(x, 0, rows, values)

    def set_rows(self, x: Array, rows: Array, values: Array) -> Array:
        result = x.clone()
        result[rows] = values
        return result

    # -- order, frequencies ----------------------------------------------------------------------

    def top(self, x: Array, count: int) -> Array:
        return porism.topk(x, count).values

    def median(self, x: Array) -> Array:
        return porism.median(x, -1)

    def counts(self, x: Array, length: int) -> Array:
        return porism.bincount(x, length=length)
