"""Convolutions as networks have them."""

from __future__ import annotations

import math

from benchmarks.cpu_operations import Array
from benchmarks.cpu_workloads import Workload
from benchmarks.survey_programs.entry import Draw, Operations, entry, normal, positive


def filters(outputs: int, inputs: int, *sizes: int) -> Draw:
    return normal(outputs, inputs, *sizes, scale=1 / math.sqrt(inputs * math.prod(sizes)))


def convolution(
    image: tuple[int, ...],
    outputs: int,
    sizes: tuple[int, ...],
    padding: int | tuple[int, ...] = 0,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
) -> Workload:
    def run(o: Operations, x: Array, w: Array) -> Array:
        return o.convolve(x, w, None, stride, padding, dilation, groups)

    return entry(run, x=normal(*image), w=filters(outputs, image[1] // groups, *sizes))


def transposed(
    image: tuple[int, ...], outputs: int, sizes: tuple[int, ...], stride: int, *border: int
) -> Workload:
    def run(o: Operations, x: Array, w: Array) -> Array:
        return o.transposed(x, w, stride, *border)

    return entry(run, x=normal(*image), w=filters(image[1], outputs, *sizes))


def block(o: Operations, x: Array, w: Array, s: Array, t: Array, m: Array, v: Array) -> Array:
    return o.relu(o.batch_norm(o.convolve(x, w, padding=1), [s, t, m, v]))


def residual(o: Operations, x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> Array:
    y = o.relu(o.convolve(x, w1, b1, padding=1))
    return o.relu(o.convolve(y, w2, b2, padding=1) + x)


def separable(o: Operations, x: Array, deep: Array, wide: Array) -> Array:
    return o.relu(o.convolve(o.relu(o.convolve(x, deep, padding=1, groups=x.shape[1])), wide))


def inverted(o: Operations, x: Array, w1: Array, w2: Array, w3: Array) -> Array:
    y = o.clip(o.convolve(x, w1), 0, 6)
    y = o.clip(o.convolve(y, w2, padding=1, groups=w2.shape[0]), 0, 6)
    return x + o.convolve(y, w3)


def excited(o: Operations, x: Array, w1: Array, w2: Array) -> Array:
    """Channels weighted by two dense layers of their means."""
    mean = o.mean_of_image(x)
    weights = o.sigmoid(o.relu(mean @ w1) @ w2)
    return x * weights[:, :, None, None]


def lenet(o: Operations, x: Array, w1: Array, b1: Array, w2: Array, b2: Array, w3: Array) -> Array:
    x = o.pool_max(o.relu(o.convolve(x, w1, b1)), 2, 2)
    x = o.pool_max(o.relu(o.convolve(x, w2, b2)), 2, 2)
    return o.reshape(x, (x.shape[0], -1)) @ w3


def factors(o: Operations, x: Array, w1: Array, w2: Array) -> Array:
    return o.convolve(o.relu(o.convolve(x, w1, padding=(0, 3))), w2, padding=(3, 0))


def finer(o: Operations, x: Array, w: Array) -> Array:
    """A convolution, then channels moved into 2 × 2 pixels."""
    y = o.convolve(x, w, padding=1)
    batch, channels, rows, columns = y.shape
    y = o.reshape(y, (batch, channels // 4, 2, 2, rows, columns))
    y = o.permute(y, (0, 1, 4, 2, 5, 3))
    return o.reshape(y, (batch, channels // 4, 2 * rows, 2 * columns))


def gated(o: Operations, x: Array, w: Array, v: Array) -> Array:
    """A layer of WaveNet: dilated, causal, gated."""
    x = o.pad(x, [(8, 0)])
    return o.tanh(o.convolve(x, w, dilation=8)) * o.sigmoid(o.convolve(x, v, dilation=8))


PROGRAMS: dict[str, Workload] = {
    "conv_transpose_k4s2": transposed((4, 64, 28, 28), 64, (4, 4), 2, 1),
    "conv_transpose_k2s2": transposed((4, 128, 32, 32), 64, (2, 2), 2),
    "conv_transpose_k3s2": transposed((4, 64, 28, 28), 32, (3, 3), 2, 1, 1),
    "conv_transpose_1d_k16s8": transposed((1, 128, 256), 64, (16,), 8, 4),
    "conv_dilated_2": convolution((4, 64, 56, 56), 64, (3, 3), 2, dilation=2),
    "conv_dilated_12": convolution((1, 256, 33, 33), 256, (3, 3), 12, dilation=12),
    "conv1d_k3": convolution((16, 128, 512), 128, (3,), 1),
    "conv1d_k7s2": convolution((8, 64, 2048), 128, (7,), 3, stride=2),
    "conv1d_wavenet": entry(
        gated, x=normal(4, 64, 2048), w=filters(64, 64, 2), v=filters(64, 64, 2)
    ),
    "conv1d_depthwise": convolution((4, 512, 1024), 512, (4,), 3, groups=512),
    "conv3d_k3": convolution((1, 16, 16, 56, 56), 32, (3, 3, 3), 1),
    "conv3d_1x3x3": convolution((1, 32, 16, 56, 56), 32, (1, 3, 3), (0, 1, 1)),
    "conv3d_3x1x1": convolution((1, 32, 16, 56, 56), 32, (3, 1, 1), (1, 0, 0)),
    "conv_groups_8": convolution((8, 128, 28, 28), 128, (3, 3), 1, groups=8),
    "conv_groups_32_wide": convolution((2, 256, 28, 28), 256, (3, 3), 1, groups=32),
    "conv_depthwise_5x5s2": convolution((4, 96, 56, 56), 96, (5, 5), 2, stride=2, groups=96),
    "conv_depthwise_7x7": convolution((1, 96, 56, 56), 96, (7, 7), 3, groups=96),
    "conv1x1_small_image": convolution((1, 512, 7, 7), 2048, (1, 1)),
    "conv3x3_small_image": convolution((1, 512, 7, 7), 512, (3, 3), 1),
    "conv5x5": convolution((8, 32, 28, 28), 64, (5, 5), 2),
    "conv7x7_stem": convolution((1, 3, 224, 224), 64, (7, 7), 3, stride=2),
    "conv11x11_stem": convolution((4, 3, 224, 224), 64, (11, 11), 2, stride=4),
    "conv_patches_16": convolution((1, 3, 224, 224), 768, (16, 16), stride=16),
    "conv_odd_sizes": convolution((1, 33, 71, 71), 65, (3, 3)),
    "conv_bn_relu": entry(
        block, x=normal(4, 64, 56, 56), w=filters(64, 64, 3, 3), s=positive(64), t=normal(64),
        m=normal(64), v=positive(64), weights=True,
    ),
    "residual_block": entry(
        residual, x=normal(2, 64, 28, 28), w1=filters(64, 64, 3, 3), b1=normal(64),
        w2=filters(64, 64, 3, 3), b2=normal(64), weights=True,
    ),
    "separable_conv": entry(
        separable, x=normal(4, 64, 56, 56), deep=filters(64, 1, 3, 3), wide=filters(128, 64, 1, 1)
    ),
    "inverted_residual": entry(
        inverted, x=normal(2, 24, 56, 56), w1=filters(144, 24, 1, 1), w2=filters(144, 1, 3, 3),
        w3=filters(24, 144, 1, 1), weights=True,
    ),
    "squeeze_excite": entry(
        excited, x=normal(8, 128, 28, 28), w1=normal(128, 8, scale=0.1),
        w2=normal(8, 128, scale=0.1),
    ),
    "lenet": entry(
        lenet, x=normal(32, 1, 28, 28), w1=filters(6, 1, 5, 5), b1=normal(6),
        w2=filters(16, 6, 5, 5), b2=normal(16), w3=normal(256, 10, scale=0.1), weights=True,
    ),
    "conv_1x7_7x1": entry(
        factors, x=normal(2, 128, 17, 17), w1=filters(128, 128, 1, 7), w2=filters(128, 128, 7, 1)
    ),
    "conv_pixel_shuffle": entry(finer, x=normal(1, 64, 64, 64), w=filters(12, 64, 3, 3)),
}  # fmt: skip
