"""Operations: what the programs of the processor benchmark are written in, for all backends alike.

A backend gives each of these by the best means it has, and its arrays have Python's operators. So
every program is written once, and no backend gets another one than the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = Any
"""A tensor of some backend; for onnxruntime a value of the graph that is being written."""
Arrays = Mapping[str, NDArray[Any]]
"""The inputs of a program, by name."""
EPSILON = 1e-5
"""What is added to a variance."""


class Operations(Protocol):
    """Functions of arrays. What is named for an axis works on the last one."""

    def exp(self, x: Array) -> Array: ...
    def tanh(self, x: Array) -> Array: ...
    def relu(self, x: Array) -> Array: ...
    def gelu(self, x: Array, by_tanh: bool = False) -> Array: ...

    def reshape(self, x: Array, shape: Sequence[int]) -> Array: ...
    def permute(self, x: Array, order: Sequence[int]) -> Array: ...
    def stored(self, x: Array) -> Array:
        """The same in row order, not as a view of other memory."""

    def halves(self, x: Array) -> Sequence[Array]: ...
    def thirds(self, x: Array) -> Sequence[Array]: ...
    def joined(self, parts: Sequence[Array]) -> Array: ...
    def take(self, table: Array, rows: Array) -> Array: ...

    def sum(self, x: Array, axis: int | None) -> Array: ...
    def cumsum(self, x: Array) -> Array: ...
    def argmax(self, x: Array) -> Array: ...
    def softmax(self, x: Array) -> Array: ...
    def layer_norm(self, x: Array, weight: Array, bias: Array) -> Array: ...
    def rms_norm(self, x: Array, weight: Array) -> Array: ...

    def linear(self, x: Array, weight: Array, bias: Array) -> Array:
        """x @ weight + bias."""

    def attention(self, q: Array, k: Array, v: Array, causal: bool = False) -> Array:
        """Of (…, heads, length, 64), with a scale of 1/8."""

    def conv(self, x: Array, weight: Array, stride: int, padding: int, groups: int = 1) -> Array:
        """Two-dimensional; weight is (outputs, inputs of a group, rows, columns)."""

    def batch_norm(self, x: Array, statistics: Sequence[Array]) -> Array:
        """By scale, offset, mean and variance of each channel."""

    def max_pool(self, x: Array) -> Array:
        """Windows of 3 × 3, every second one, with a border of 1."""

    def mean_of_image(self, x: Array) -> Array:
        """From (batch, channels, rows, columns) to (batch, channels)."""


Program = Callable[..., Array]
"""Called with operations, and the inputs by name."""
Call = Callable[[], Array]
"""Runs a program to its end."""
Read = Callable[[Array], NDArray[Any]]
"""Its result as an array of numpy."""


class Backend(Protocol):
    """A library that runs programs, in a process of its own."""

    version: str

    def __init__(self, threads: int) -> None: ...

    def prepare(
        self, program: Program, arrays: Arrays, constants: frozenset[str]
    ) -> tuple[Call, Read]:
        """A program on some inputs; constants are weights, which never change."""


# -- programs --------------------------------------------------------------------------------------


def chain(o: Operations, x: Array) -> Array:
    return o.tanh(x * 2 + 1) * x + o.exp(-x * x)


def rotated(o: Operations, x: Array, weight: Array, cosines: Array, sines: Array) -> Array:
    """An RMS norm, then each pair of features of a head rotated by an angle (RoPE)."""
    length, width = x.shape
    features = cosines.shape[-1]
    y = o.reshape(o.rms_norm(x, weight), (length, width // features, features))
    first, second = o.halves(y)
    rotated = o.joined([-second, first])
    angles = (length, 1, features)
    mixed = y * o.reshape(cosines, angles) + rotated * o.reshape(sines, angles)
    return o.reshape(mixed, (length, width))


HEADS = 12


def gpt2_block(o: Operations, x: Array, **w: Array) -> Array:
    """Attention to what came before, then two dense layers, each added."""
    length, width = x.shape

    def heads(part: Array) -> Array:
        return o.permute(o.reshape(part, (length, HEADS, width // HEADS)), (1, 0, 2))

    joint = o.linear(o.layer_norm(x, w["norm1"], w["shift1"]), w["joint"], w["joint_bias"])
    q, k, v = (heads(part) for part in o.thirds(joint))
    merged = o.reshape(o.permute(o.attention(q, k, v, causal=True), (1, 0, 2)), (length, width))
    x = x + o.linear(merged, w["output"], w["output_bias"])
    wider = o.linear(o.layer_norm(x, w["norm2"], w["shift2"]), w["wider"], w["wider_bias"])
    return x + o.linear(o.gelu(wider, by_tanh=True), w["narrower"], w["narrower_bias"])


RESNET_50 = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Channels inside, blocks and stride of each part."""
STATISTICS = ("scale", "offset", "mean", "variance")


def resnet_50(o: Operations, x: Array, **w: Array) -> Array:
    def layer(x: Array, name: str, stride: int = 1, padding: int = 0) -> Array:
        y = o.conv(x, w[name], stride, padding)
        return o.batch_norm(y, [w[f"{name}_{key}"] for key in STATISTICS])

    x = o.max_pool(o.relu(layer(x, "stem", 2, 3)))
    for part, (_, blocks, first_stride) in enumerate(RESNET_50):
        for block in range(blocks):
            name, stride = f"part{part}_{block}", 1 if block else first_stride
            beside = x if block else layer(x, f"{name}_beside", stride)
            y = o.relu(layer(x, f"{name}_reduce"))
            y = o.relu(layer(y, f"{name}_middle", stride, 1))
            x = o.relu(layer(y, f"{name}_widen") + beside)
    return o.linear(o.mean_of_image(x), w["classes"], w["classes_bias"])


def perceptron(o: Operations, x: Array, **w: Array) -> Array:
    """Three dense layers."""
    for k in (1, 2):
        x = o.relu(o.linear(x, w[f"weight{k}"], w[f"bias{k}"]))
    return o.linear(x, w["weight3"], w["bias3"])


EXACT = {
    "float32": np.float64, "float16": np.float64, "bfloat16": np.float64,
    "complex64": np.complex128,
}  # fmt: skip
"""By the name of a type, that of which a reference is computed."""


def as_float64(arrays: Arrays) -> dict[str, NDArray[Any]]:
    """For a reference: floats with all the digits that there are."""
    return {
        name: array.astype(EXACT.get(array.dtype.name, array.dtype))
        for name, array in arrays.items()
    }


def as_one(results: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Several results as one array of numbers."""
    return np.concatenate([np.ravel(result).astype(np.float64) for result in results])


def in_pairs(array: NDArray[Any]) -> NDArray[Any]:
    """Complex numbers as pairs of floats; others as they are."""
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], -1)
