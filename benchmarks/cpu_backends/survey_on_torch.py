"""What the programs of the survey need besides, on torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as functional  # type: ignore[import-not-found, unused-ignore]

from benchmarks.cpu_operations import Array

CONVOLUTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)
TRANSPOSED = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)
MAX_POOLS = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)
MEAN_POOLS = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)
DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
    "int8": torch.int8,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
}


class SurveyOnTorch:
    """Those of torch and of torch.nn.functional."""

    log = staticmethod(torch.log)
    log1p = staticmethod(torch.log1p)
    sqrt = staticmethod(torch.sqrt)
    sin = staticmethod(torch.sin)
    cos = staticmethod(torch.cos)
    abs = staticmethod(torch.abs)
    sign = staticmethod(torch.sign)
    floor = staticmethod(torch.floor)
    round = staticmethod(torch.round)
    where = staticmethod(torch.where)
    maximum = staticmethod(torch.maximum)
    minimum = staticmethod(torch.minimum)
    einsum = staticmethod(torch.einsum)
    clip = staticmethod(torch.clip)
    tril = staticmethod(torch.tril)
    outer = staticmethod(torch.outer)
    kron = staticmethod(torch.kron)
    sigmoid = staticmethod(torch.sigmoid)
    logaddexp = staticmethod(torch.logaddexp)
    silu = staticmethod(functional.silu)
    softplus = staticmethod(functional.softplus)

    def cast(self, x: Array, dtype: str) -> Array:
        return x.to(DTYPES[dtype])

    def largest(self, x: Array, axis: int | tuple[int, ...], keepdims: bool = False) -> Array:
        return torch.amax(x, axis, keepdims)

    def smallest(self, x: Array, axis: int | tuple[int, ...], keepdims: bool = False) -> Array:
        return torch.amin(x, axis, keepdims)

    def position_of_largest(self, x: Array, axis: int) -> Array:
        return x.argmax(axis)

    def position_of_smallest(self, x: Array, axis: int) -> Array:
        return x.argmin(axis)

    def log_softmax(self, x: Array) -> Array:
        return functional.log_softmax(x, -1)

    def log_sum_exp(self, x: Array) -> Array:
        return torch.logsumexp(x, -1)

    def cross_entropy(self, x: Array, classes: Array) -> Array:
        return functional.cross_entropy(x, classes)

    def numbers(self, x: Array, count: int, dtype: str = "int32") -> Array:
        """0 to count - 1, where x is."""
        return torch.arange(count, dtype=DTYPES[dtype])

    # -- products ------------------------------------------------------------------------------

    def whole_product(self, a: Array, b: Array) -> Array:
        """Of small integers, into 32 bits."""
        return torch._int_mm(a, b) if a.dtype == torch.int8 else a @ b

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
        """A transposed convolution; weight is (inputs, outputs, rows, columns)."""
        return TRANSPOSED[x.ndim - 3](x, weight, None, stride, padding, beyond)

    def attend(
        self, q: Array, k: Array, v: Array, mask: Array | None = None, causal: bool = False
    ) -> Array:
        return functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)

    def grouped_attend(self, q: Array, k: Array, v: Array) -> Array:
        """With fewer heads of keys and values."""
        return functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    # -- layers --------------------------------------------------------------------------------

    def group_norm(self, x: Array, groups: int, weight: Array, bias: Array) -> Array:
        return functional.group_norm(x, groups, weight, bias)

    def pool_max(self, x: Array, size: int, stride: int, padding: int = 0) -> Array:
        return MAX_POOLS[x.ndim - 3](x, size, stride, padding)

    def pool_mean(self, x: Array, size: int, stride: int) -> Array:
        return MEAN_POOLS[x.ndim - 3](x, size, stride)

    def resize(self, x: Array, size: tuple[int, int], mode: str) -> Array:
        """By `nearest` or `bilinear` interpolation of the last two axes."""
        return functional.interpolate(x, size, mode=mode)

    # -- movement ------------------------------------------------------------------------------

    def concat(self, parts: Sequence[Array], axis: int) -> Array:
        return torch.cat(list(parts), axis)

    def stack(self, parts: Sequence[Array], axis: int) -> Array:
        return torch.stack(list(parts), axis)

    def pad(
        self, x: Array, around: Sequence[tuple[int, int]], mode: str = "constant", value: float = 0
    ) -> Array:
        """`around` is for the last axes; the mode is constant, reflect or edge."""
        sizes = [size for pair in reversed(around) for size in pair]
        mode = "replicate" if mode == "edge" else mode
        return functional.pad(x, sizes, mode, value if mode == "constant" else None)

    def flip(self, x: Array, axis: int) -> Array:
        return torch.flip(x, (axis,))

    def roll(self, x: Array, shift: int, axis: int) -> Array:
        return torch.roll(x, shift, axis)

    def tile(self, x: Array, counts: tuple[int, ...]) -> Array:
        return torch.tile(x, counts)

    def select(self, x: Array, rows: Array, axis: int) -> Array:
        return torch.index_select(x, axis, rows)

    def take_along(self, x: Array, positions: Array, axis: int) -> Array:
        return torch.gather(x, axis, positions.long())

    def add_rows(self, x: Array, rows: Array, values: Array) -> Array:
        """x with each row of values added to that which `rows` names."""
        return x.index_add(0, rows, values)

    def set_rows(self, x: Array, rows: Array, values: Array) -> Array:
        return x.index_copy(0, rows, values)

    # -- order, sums along an axis, frequencies --------------------------------------------------

    def sort(self, x: Array) -> Array:
        return torch.sort(x, -1).values

    def argsort(self, x: Array) -> Array:
        return torch.argsort(x, dim=-1, stable=True)

    def top(self, x: Array, count: int) -> Array:
        return torch.topk(x, count, -1).values

    def median(self, x: Array) -> Array:
        """Of rows of an odd number of elements."""
        return torch.median(x, -1).values

    def counts(self, x: Array, length: int) -> Array:
        return torch.bincount(x, minlength=length)

    def search(self, edges: Array, values: Array) -> Array:
        return torch.searchsorted(edges, values)

    def running_sum(self, x: Array, axis: int) -> Array:
        return torch.cumsum(x, axis)

    def running_product(self, x: Array, axis: int) -> Array:
        return torch.cumprod(x, axis)

    def running_max(self, x: Array, axis: int) -> Array:
        return torch.cummax(x, axis).values

    def fft(self, x: Array) -> Array:
        return torch.fft.fft(x)

    def fft2(self, x: Array) -> Array:
        return torch.fft.fft2(x)

    def rfft(self, x: Array) -> Array:
        return torch.fft.rfft(x)

    def irfft(self, x: Array) -> Array:
        return torch.fft.irfft(x)
