"""The programs of `models.COMPILED`, in the functions of jax.numpy, under the same names.

jax compiles functions, and what they close over becomes part of the code; so inputs and weights are
arguments here. A program notes their sizes while it is put together, and is called with all of them
in a list: its parts know their places there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import jax  # type: ignore[import-not-found, unused-ignore]
import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]

WIDTH: Final = 768
HEADS: Final = 12
LENGTH: Final = 512
RESNET_50: Final = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))

Arrays = list[Any]
Function = Callable[[Arrays], Any]
Layer = Callable[[Any, Arrays], Any]


class Program:
    """A function of a list of arrays, and what these are like."""

    def __init__(self) -> None:
        self.arrays: Arrays = []
        self.function: Function

    def data(self, *sizes: int) -> int:
        """The place of an input or a weight; there is no memory behind it."""
        self.arrays.append(jax.ShapeDtypeStruct(sizes, jnp.float32))
        return len(self.arrays) - 1


def linear(x: Any, weight: Any, bias: Any) -> Any:
    return x @ weight.T + bias


def normal(x: Any, weight: Any, bias: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * weight + bias


# -- single operations -----------------------------------------------------------------------------


def elementwise(p: Program) -> Function:
    x, y, z = (p.data(1024, 1024) for _ in range(3))
    return lambda a: jax.nn.sigmoid(a[x] * a[y]) + a[z]


def softmax(p: Program) -> Function:
    x = p.data(1024, 1024)
    return lambda a: jax.nn.softmax(a[x])


def layer_norm(p: Program) -> Function:
    x, weight, bias = p.data(1024, WIDTH), p.data(WIDTH), p.data(WIDTH)
    return lambda a: normal(a[x], a[weight], a[bias])


def product(p: Program) -> Function:
    x, y = p.data(512, WIDTH), p.data(WIDTH, 4 * WIDTH)
    return lambda a: a[x] @ a[y]


def convolved(x: Any, weight: Any, stride: int, padding: int) -> Any:
    around = ((padding, padding), (padding, padding))
    return jax.lax.conv_general_dilated(
        x, weight, (stride, stride), around, dimension_numbers=("NCHW", "OIHW", "NCHW")
    )


def convolution(p: Program) -> Function:
    x, weight, bias = p.data(8, 64, 56, 56), p.data(64, 64, 3, 3), p.data(64)
    return lambda a: convolved(a[x], a[weight], 1, 1) + a[bias][:, None, None]


# -- a block of GPT-2 ------------------------------------------------------------------------------


def heads(x: Any) -> Any:
    return x.reshape(1, LENGTH, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)


def attention(q: Any, k: Any, v: Any) -> Any:
    """To what came before."""
    scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(jnp.float32(WIDTH // HEADS))
    before = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    return jax.nn.softmax(jnp.where(before, scores, -jnp.inf)) @ v


def block(p: Program) -> Function:
    x = p.data(1, LENGTH, WIDTH)
    first, second = ((p.data(WIDTH), p.data(WIDTH)) for _ in range(2))
    joint = p.data(3 * WIDTH, WIDTH), p.data(3 * WIDTH)
    projection = p.data(WIDTH, WIDTH), p.data(WIDTH)
    wider = p.data(4 * WIDTH, WIDTH), p.data(4 * WIDTH)
    narrower = p.data(WIDTH, 4 * WIDTH), p.data(WIDTH)

    def function(a: Arrays) -> Any:
        def by(what: Callable[..., Any], value: Any, places: tuple[int, int]) -> Any:
            return what(value, a[places[0]], a[places[1]])

        parts = jnp.split(by(linear, by(normal, a[x], first), joint), 3, axis=-1)
        mixed = attention(*(heads(part) for part in parts))
        merged = mixed.transpose(0, 2, 1, 3).reshape(1, LENGTH, WIDTH)
        y = a[x] + by(linear, merged, projection)
        hidden = jax.nn.gelu(by(linear, by(normal, y, second), wider), approximate=True)
        return y + by(linear, hidden, narrower)

    return function


# -- ResNet-50 -------------------------------------------------------------------------------------


def normalized(p: Program, inputs: int, outputs: int, size: int, stride: int = 1) -> Layer:
    """A convolution without bias, and a batch norm with given statistics."""
    kernel = p.data(outputs, inputs, size, size)
    statistics = [p.data(outputs) for _ in range(4)]

    def layer(x: Any, a: Arrays) -> Any:
        y = convolved(x, a[kernel], stride, size // 2)
        mean, variance, weight, bias = (a[k][:, None, None] for k in statistics)
        return (y - mean) * jax.lax.rsqrt(variance + 1e-5) * weight + bias

    return layer


def bottleneck(p: Program, inputs: int, inside: int, stride: int) -> Layer:
    """Three convolutions beside a short cut."""
    outputs = 4 * inside
    reduce = normalized(p, inputs, inside, 1)
    middle = normalized(p, inside, inside, 3, stride)
    widen = normalized(p, inside, outputs, 1)
    short_cut = None
    if stride != 1 or inputs != outputs:
        short_cut = normalized(p, inputs, outputs, 1, stride)

    def layer(x: Any, a: Arrays) -> Any:
        y = jax.nn.relu(middle(jax.nn.relu(reduce(x, a)), a))
        return jax.nn.relu(widen(y, a) + (x if short_cut is None else short_cut(x, a)))

    return layer


def pooled(x: Any) -> Any:
    """The largest of 3×3 elements, at every second place."""
    around = ((0, 0), (0, 0), (1, 1), (1, 1))
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), around)


def resnet_50(p: Program) -> Function:
    x = p.data(1, 3, 224, 224)
    stem = normalized(p, 3, 64, 7, 2)
    layers, channels = [], 64
    for inside, count, stride in RESNET_50:
        for k in range(count):
            layers.append(bottleneck(p, channels, inside, 1 if k else stride))
            channels = 4 * inside
    weight, bias = p.data(1000, channels), p.data(1000)

    def function(a: Arrays) -> Any:
        y = pooled(jax.nn.relu(stem(a[x], a)))
        for layer in layers:
            y = layer(y, a)
        return linear(y.mean((2, 3)), a[weight], a[bias])

    return function


COMPILED: Final[Mapping[str, Callable[[Program], Function]]] = {
    "elementwise": elementwise,
    "softmax": softmax,
    "layer norm": layer_norm,
    "matmul": product,
    "convolution 3×3": convolution,
    "GPT-2 block": block,
    "ResNet-50": resnet_50,
}


def program(name: str) -> Program:
    """A program by its name."""
    made = Program()
    made.function = COMPILED[name](made)
    return made
