"""Models: the programs that compiling is measured on, in Porism's own functions.

Each entry makes its inputs and weights first, and gives a function that builds the program on them,
so that the two can be timed apart. The arrays are mapped but never touched: nothing here is run.
`tinygrad_models` has the same programs under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

import porism
from porism import Tensor

Build = Callable[[], Tensor]
Layer = Callable[[Tensor], Tensor]

WIDTH: Final = 768
HEADS: Final = 12
LENGTH: Final = 512
BLOCKS: Final = 12

RESNET_50: Final = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Channels inside, blocks and stride of each part."""


def data(*sizes: int) -> Tensor:
    """An input or a weight; its memory is not touched."""
    return porism.asarray(np.zeros(sizes, np.float32), copy=False)


# -- single operations -----------------------------------------------------------------------------


def elementwise() -> Build:
    x, y, z = (data(1024, 1024) for _ in range(3))
    return lambda: porism.sigmoid(x * y) + z


def softmax() -> Build:
    x = data(1024, 1024)
    return lambda: porism.softmax(x)


def layer_norm() -> Build:
    x, weight, bias = data(1024, WIDTH), data(WIDTH), data(WIDTH)
    return lambda: porism.layer_norm(x, weight, bias)


def rms_norm() -> Build:
    x, weight = data(1024, WIDTH), data(WIDTH)
    return lambda: porism.rms_norm(x, weight)


def product() -> Build:
    a, b = data(512, WIDTH), data(WIDTH, 4 * WIDTH)
    return lambda: porism.matmul(a, b)


def dense() -> Build:
    x, weight, bias = data(512, WIDTH), data(WIDTH, 4 * WIDTH), data(4 * WIDTH)
    return lambda: porism.gelu(porism.matmul(x, weight) + bias, approximate="tanh")


def convolution() -> Build:
    x, weight, bias = data(8, 64, 56, 56), data(64, 64, 3, 3), data(64)
    return lambda: porism.conv2d(x, weight, bias, padding=1)


def attention() -> Build:
    q, k, v = (data(HEADS, LENGTH, 64) for _ in range(3))
    return lambda: porism.scaled_dot_product_attention(q, k, v)


# -- transformers ----------------------------------------------------------------------------------


def block() -> Layer:
    """A block of GPT-2: attention to what came before, then two dense layers, each added."""
    first, second = (data(WIDTH), data(WIDTH)), (data(WIDTH), data(WIDTH))
    joint = data(3 * WIDTH, WIDTH), data(3 * WIDTH)
    projection = data(WIDTH, WIDTH), data(WIDTH)
    wider, narrower = (
        (data(4 * WIDTH, WIDTH), data(4 * WIDTH)),
        (data(WIDTH, 4 * WIDTH), data(WIDTH)),
    )

    def heads(x: Tensor) -> Tensor:
        return x.reshape(1, LENGTH, HEADS, WIDTH // HEADS).permute(0, 2, 1, 3)

    def layer(x: Tensor) -> Tensor:
        parts = porism.split(porism.linear(porism.layer_norm(x, *first), *joint), WIDTH, axis=-1)
        q, k, v = (heads(part) for part in parts)
        mixed = porism.scaled_dot_product_attention(q, k, v, causal=True)
        merged = mixed.permute(0, 2, 1, 3).reshape(1, LENGTH, WIDTH)
        x = x + porism.linear(merged, *projection)
        hidden = porism.linear(porism.layer_norm(x, *second), *wider)
        return x + porism.linear(porism.gelu(hidden, approximate="tanh"), *narrower)

    return layer


def blocks(count: int) -> Build:
    x = data(1, LENGTH, WIDTH)
    layers = [block() for _ in range(count)]
    return lambda: through(x, layers)


def through(x: Tensor, layers: list[Layer]) -> Tensor:
    for layer in layers:
        x = layer(x)
    return x


# -- networks --------------------------------------------------------------------------------------


def dense_layers(count: int) -> Build:
    """As many dense layers, each with a relu, and too wide to be kept in a cache."""
    x = data(128, 512)
    weights = [(data(512, 512), data(512)) for _ in range(count)]

    def build() -> Tensor:
        y = x
        for weight, bias in weights:
            y = porism.relu(porism.linear(y, weight, bias))
        return y

    return build


def normalized(inputs: int, outputs: int, size: int, stride: int = 1) -> Layer:
    """A convolution without bias, and a batch norm with given statistics."""
    weight = data(outputs, inputs, size, size)
    mean, variance, scale, shift = (data(outputs) for _ in range(4))

    def layer(x: Tensor) -> Tensor:
        y = porism.conv2d(x, weight, stride=stride, padding=size // 2)
        return porism.batch_norm(y, mean, variance, scale, shift)

    return layer


def bottleneck(inputs: int, inside: int, stride: int) -> Layer:
    """Three convolutions beside a short cut."""
    outputs = 4 * inside
    reduce = normalized(inputs, inside, 1)
    middle = normalized(inside, inside, 3, stride)
    widen = normalized(inside, outputs, 1)
    short_cut = None
    if stride != 1 or inputs != outputs:
        short_cut = normalized(inputs, outputs, 1, stride)

    def layer(x: Tensor) -> Tensor:
        y = widen(porism.relu(middle(porism.relu(reduce(x)))))
        return porism.relu(y + (x if short_cut is None else short_cut(x)))

    return layer


def resnet_50() -> Build:
    x = data(1, 3, 224, 224)
    stem = normalized(3, 64, 7, 2)
    layers, channels = [], 64
    for inside, count, stride in RESNET_50:
        for k in range(count):
            layers.append(bottleneck(channels, inside, 1 if k else stride))
            channels = 4 * inside
    weight, bias = data(1000, channels), data(1000)

    def build() -> Tensor:
        y = porism.max_pool2d(porism.relu(stem(x)), 3, stride=2, padding=1)
        y = porism.mean(through(y, layers), axis=(2, 3))
        return porism.linear(y, weight, bias)

    return build


MODELS: Final[Mapping[str, Callable[[], Build]]] = {
    "softmax": softmax,
    "layer norm": layer_norm,
    "matmul + bias + gelu": dense,
    "convolution 3×3": convolution,
    "attention": attention,
    "GPT-2 block": lambda: blocks(1),
    "ResNet-50": resnet_50,
    "12 GPT-2 blocks": lambda: blocks(BLOCKS),
}

GROWING: Final[Mapping[str, Callable[[int], Build]]] = {
    "dense layers": dense_layers,
    "GPT-2 blocks": blocks,
}

COMPILED: Final[Mapping[str, Callable[[], Build]]] = {
    "elementwise": elementwise,
    "softmax": softmax,
    "layer norm": layer_norm,
    "matmul": product,
    "convolution 3×3": convolution,
    "GPT-2 block": lambda: blocks(1),
    "ResNet-50": resnet_50,
}
"""What is compiled to machine code, and timed on the way; `jax_models` has these too."""

# -- programs that only move data ------------------------------------------------------------------


def moved(*sizes: int, by: Layer) -> Callable[[], Build]:
    """What a function of views makes of a tensor; an addition, so that everyone has a kernel."""

    def make() -> Build:
        x = data(*sizes)
        return lambda: by(x) + 1

    return make


def shuffled(x: Tensor) -> Tensor:
    return porism.pixel_shuffle(x, 2)


def columns() -> Build:
    """A convolution by its windows: im2col, then a product."""
    x, weight = data(2, 16, 14, 14), data(32, 16 * 9)

    def build() -> Tensor:
        product = porism.matmul(weight, porism.unfold(x, 3))
        return porism.reshape(product, (2, 32, 12, 12))

    return build


MOVEMENTS: Final[Mapping[str, Callable[[], Build]]] = {
    "permute, merge axes": moved(8, 12, 16, by=lambda x: x.permute(2, 0, 1).reshape(128, 12)),
    "split, permute, merge": moved(
        24, 32, by=lambda x: x.reshape(4, 6, 8, 4).permute(2, 0, 3, 1).reshape(32, 24)
    ),
    "transpose, flatten": moved(12, 20, by=lambda x: x.permute(1, 0).reshape(240)),
    "pad, merge axes": moved(10, 12, by=lambda x: porism.pad(x, ((1, 1), (2, 2))).reshape(192)),
    "slice, merge axes": moved(20, 16, by=lambda x: x[2:18, 4:12].reshape(128)),
    "flip of a transpose": moved(
        12, 20, by=lambda x: porism.flip(x.permute(1, 0).reshape(240), axis=0)
    ),
    "head split": moved(2, 64, 96, by=lambda x: x.reshape(2, 64, 12, 8).permute(0, 2, 1, 3)),
    "head merge": moved(2, 12, 64, 8, by=lambda x: x.permute(0, 2, 1, 3).reshape(2, 64, 96)),
    "pixel shuffle": moved(2, 16, 12, 12, by=shuffled),
    "roll": moved(24, 40, by=lambda x: porism.roll(x, (5, 7), axis=(0, 1))),
    "tile": moved(12, 20, by=lambda x: porism.tile(x, (3, 2))),
    "repeat": moved(12, 20, by=lambda x: porism.repeat(x, 3, axis=1)),
    "im2col convolution": columns,
    "convolution 3×3": convolution,
}
