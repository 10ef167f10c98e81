"""The programs of `models`, in tinygrad's functions, under the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tinygrad import Tensor  # type: ignore[import-not-found]

WIDTH: Final = 768
HEADS: Final = 12
LENGTH: Final = 512
BLOCKS: Final = 12
RESNET_50: Final = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))

Build = Callable[[], Any]
Layer = Callable[[Any], Any]


def data(*sizes: int) -> Any:
    return Tensor.empty(*sizes)


def linear(x: Any, weight: Any, bias: Any) -> Any:
    return x.linear(weight.T, bias)


def normal(x: Any, weight: Any, bias: Any) -> Any:
    return x.layernorm() * weight + bias


# -- single operations -----------------------------------------------------------------------------


def elementwise() -> Build:
    x, y, z = (data(1024, 1024) for _ in range(3))
    return lambda: (x * y).sigmoid() + z


def softmax() -> Build:
    x = data(1024, 1024)
    return lambda: x.softmax()


def layer_norm() -> Build:
    x, weight, bias = data(1024, WIDTH), data(WIDTH), data(WIDTH)
    return lambda: normal(x, weight, bias)


def product() -> Build:
    a, b = data(512, WIDTH), data(WIDTH, 4 * WIDTH)
    return lambda: a @ b


def dense() -> Build:
    x, weight, bias = data(512, WIDTH), data(WIDTH, 4 * WIDTH), data(4 * WIDTH)
    return lambda: (x @ weight + bias).gelu()


def convolution() -> Build:
    x, weight, bias = data(8, 64, 56, 56), data(64, 64, 3, 3), data(64)
    return lambda: x.conv2d(weight, bias, padding=1)


def attention() -> Build:
    q, k, v = (data(HEADS, LENGTH, 64) for _ in range(3))
    return lambda: q.scaled_dot_product_attention(k, v)


# -- transformers ----------------------------------------------------------------------------------


def block() -> Layer:
    first, second = (data(WIDTH), data(WIDTH)), (data(WIDTH), data(WIDTH))
    joint = data(3 * WIDTH, WIDTH), data(3 * WIDTH)
    projection = data(WIDTH, WIDTH), data(WIDTH)
    wider, narrower = (
        (data(4 * WIDTH, WIDTH), data(4 * WIDTH)),
        (data(WIDTH, 4 * WIDTH), data(WIDTH)),
    )

    def heads(x: Any) -> Any:
        return x.reshape(1, LENGTH, HEADS, WIDTH // HEADS).permute(0, 2, 1, 3)

    def layer(x: Any) -> Any:
        parts = linear(normal(x, *first), *joint).split(WIDTH, dim=-1)
        q, k, v = (heads(part) for part in parts)
        mixed = q.scaled_dot_product_attention(k, v, is_causal=True)
        x = x + linear(mixed.permute(0, 2, 1, 3).reshape(1, LENGTH, WIDTH), *projection)
        return x + linear(linear(normal(x, *second), *wider).gelu(), *narrower)

    return layer


def blocks(count: int) -> Build:
    x = data(1, LENGTH, WIDTH)
    layers = [block() for _ in range(count)]
    return lambda: through(x, layers)


def through(x: Any, layers: list[Layer]) -> Any:
    for layer in layers:
        x = layer(x)
    return x


# -- networks --------------------------------------------------------------------------------------


def dense_layers(count: int) -> Build:
    x = data(128, 512)
    weights = [(data(512, 512), data(512)) for _ in range(count)]

    def build() -> Any:
        y = x
        for weight, bias in weights:
            y = linear(y, weight, bias).relu()
        return y

    return build


def normalized(inputs: int, outputs: int, size: int, stride: int = 1) -> Layer:
    kernel = data(outputs, inputs, size, size)
    mean, variance, weight, bias = (data(outputs) for _ in range(4))

    def layer(x: Any) -> Any:
        y = x.conv2d(kernel, stride=stride, padding=size // 2)
        return y.batchnorm(weight, bias, mean, (variance + 1e-5).rsqrt())

    return layer


def bottleneck(inputs: int, inside: int, stride: int) -> Layer:
    outputs = 4 * inside
    reduce = normalized(inputs, inside, 1)
    middle = normalized(inside, inside, 3, stride)
    widen = normalized(inside, outputs, 1)
    short_cut = None
    if stride != 1 or inputs != outputs:
        short_cut = normalized(inputs, outputs, 1, stride)

    def layer(x: Any) -> Any:
        y = widen(middle(reduce(x).relu()).relu())
        return (y + (x if short_cut is None else short_cut(x))).relu()

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

    def build() -> Any:
        y = stem(x).relu().max_pool2d((3, 3), stride=2, padding=1)
        return linear(through(y, layers).mean((2, 3)), weight, bias)

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

# -- programs that only move data ------------------------------------------------------------------


def moved(*sizes: int, by: Layer) -> Callable[[], Build]:
    def make() -> Build:
        x = data(*sizes)
        return lambda: by(x) + 1

    return make


def shuffled(x: Any) -> Any:
    x = x.reshape(2, 4, 2, 2, 12, 12).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(2, 4, 24, 24)


def columns() -> Build:
    x, weight = data(2, 16, 14, 14), data(32, 16 * 9)

    def build() -> Any:
        windows = x.unfold(2, 3, 1).unfold(3, 3, 1)  # 2, 16, 12, 12, 3, 3
        unfolded = windows.permute(0, 1, 4, 5, 2, 3).reshape(2, 16 * 9, 144)
        return (weight @ unfolded).reshape(2, 32, 12, 12)

    return build


MOVEMENTS: Final[Mapping[str, Callable[[], Build]]] = {
    "permute, merge axes": moved(8, 12, 16, by=lambda x: x.permute(2, 0, 1).reshape(128, 12)),
    "split, permute, merge": moved(
        24, 32, by=lambda x: x.reshape(4, 6, 8, 4).permute(2, 0, 3, 1).reshape(32, 24)
    ),
    "transpose, flatten": moved(12, 20, by=lambda x: x.permute(1, 0).reshape(240)),
    "pad, merge axes": moved(10, 12, by=lambda x: x.pad(((1, 1), (2, 2))).reshape(192)),
    "slice, merge axes": moved(20, 16, by=lambda x: x[2:18, 4:12].reshape(128)),
    "flip of a transpose": moved(12, 20, by=lambda x: x.permute(1, 0).reshape(240).flip(0)),
    "head split": moved(2, 64, 96, by=lambda x: x.reshape(2, 64, 12, 8).permute(0, 2, 1, 3)),
    "head merge": moved(2, 12, 64, 8, by=lambda x: x.permute(0, 2, 1, 3).reshape(2, 64, 96)),
    "pixel shuffle": moved(2, 16, 12, 12, by=shuffled),
    "roll": moved(24, 40, by=lambda x: x.roll((5, 7), (0, 1))),
    "tile": moved(12, 20, by=lambda x: x.repeat(3, 2)),
    "repeat": moved(12, 20, by=lambda x: x.repeat_interleave(3, 1)),
    "im2col convolution": columns,
    "convolution 3×3": convolution,
}
