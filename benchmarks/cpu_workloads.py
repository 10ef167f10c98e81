"""Workloads: the programs and inputs that are measured on the processor, with what each costs.

Floating-point operations are counted as written, an exponential as 12 of them and a hyperbolic
tangent as 16; bytes are those that have to be read and written once at least. The roofline follows
from these (`cpu_limits`). To add a workload, write a line.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks import cpu_operations as programs
from benchmarks.cpu_operations import Array, Operations, Program

Inputs = dict[str, NDArray[Any]]
MI = 1 << 20


@dataclass(frozen=True)
class Workload:
    """A program on inputs of some sizes."""

    program: Program
    make: Callable[[Generator], Inputs]
    flops: float
    read: float
    """Bytes."""
    written: float
    tolerance: float = 1e-5
    """The largest error of a right result, relative to its norm."""
    weights: bool = False
    """Whether all inputs but x are weights of a model, which never change."""
    model: bool = False
    """Whether it is a model, or a large part of one."""

    def inputs(self, name: str) -> Inputs:
        """The same numbers in every process."""
        return self.make(np.random.default_rng(zlib.crc32(name.encode())))

    def constants(self, inputs: Inputs) -> frozenset[str]:
        return frozenset(inputs) - {"x"} if self.weights else frozenset()


def normal(rng: Generator, *shape: int, scale: float = 1.0) -> NDArray[Any]:
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)


def on_x(
    program: Program,
    shape: tuple[int, ...],
    written: int,
    flops: float = 1,
    tolerance: float = 1e-5,
) -> Workload:
    """Of one input; `written` counts elements of four bytes, `flops` is for each element of x."""
    size = math.prod(shape)
    make = lambda rng: {"x": normal(rng, *shape)}  # noqa: E731
    return Workload(program, make, flops * size, 4 * size, 4 * written, tolerance)


def total(size: int) -> Workload:
    """Of numbers above 0, so that the error is beside a large sum."""
    make = lambda rng: {"x": rng.random(size, dtype=np.float32)}  # noqa: E731
    return Workload(lambda o, x: o.sum(x, None), make, size, 4 * size, 4)


def addition(rows: int) -> Workload:
    size = rows * rows
    return Workload(
        lambda o, a, b: a + b,
        lambda rng: {"a": normal(rng, rows, rows), "b": normal(rng, rows, rows)},
        size, 8 * size, 4 * size,
    )  # fmt: skip


def product(*sizes: int) -> Workload:
    """Matrices of m × k and k × n, or as many of them as a first size says."""
    *batch, m, k, n = sizes
    count = math.prod(batch)
    return Workload(
        lambda o, a, b: a @ b,
        lambda rng: {"a": normal(rng, *batch, m, k), "b": normal(rng, *batch, k, n)},
        2 * count * m * k * n, 4 * count * (m * k + k * n), 4 * count * m * n,
    )  # fmt: skip


def vector_product(rows: int, columns: int) -> Workload:
    return Workload(
        lambda o, a, b: a @ b,
        lambda rng: {"a": normal(rng, rows, columns), "b": normal(rng, columns)},
        2 * rows * columns, 4 * (rows * columns + columns), 4 * rows,
    )  # fmt: skip


def dense(size: int) -> Workload:
    def make(rng: Generator) -> Inputs:
        weight = normal(rng, size, size, scale=1 / math.sqrt(size))
        return {"a": normal(rng, size, size), "b": weight, "c": normal(rng, size)}

    cells = size * size
    program = lambda o, a, b, c: o.gelu(o.linear(a, b, c))  # noqa: E731
    return Workload(program, make, 2 * size**3 + 20 * cells, 8 * cells, 4 * cells)


def convolution(
    batch: int, inputs: int, image: int, outputs: int, size: int, stride: int = 1, groups: int = 1
) -> Workload:
    """With a border that keeps the image, but for the stride."""
    after, inside = image // stride, inputs // groups

    def program(o: Operations, x: Array, weight: Array) -> Array:
        return o.conv(x, weight, stride, size // 2, groups)

    def make(rng: Generator) -> Inputs:
        weight = normal(rng, outputs, inside, size, size, scale=1 / math.sqrt(inside * size**2))
        return {"x": normal(rng, batch, inputs, image, image), "weight": weight}

    cells, taps = batch * outputs * after**2, inside * size**2
    read = 4 * (batch * inputs * image**2 + outputs * taps)
    return Workload(program, make, 2 * cells * taps, read, 4 * cells)


def layer_norm(rows: int, width: int) -> Workload:
    def make(rng: Generator) -> Inputs:
        weights = {name: normal(rng, width) for name in ("weight", "bias")}
        return {"x": normal(rng, rows, width), **weights}

    size = rows * width
    program = lambda o, x, weight, bias: o.layer_norm(x, weight, bias)  # noqa: E731
    return Workload(program, make, 8 * size, 4 * size, 4 * size)


def rotated(length: int, width: int, features: int) -> Workload:
    def make(rng: Generator) -> Inputs:
        speeds = 1 / 10_000 ** (np.arange(0, features, 2) / features)
        angles = np.tile(np.arange(length)[:, None] * speeds, 2)
        return {
            "x": normal(rng, length, width),
            "weight": normal(rng, width),
            "cosines": np.cos(angles).astype(np.float32),
            "sines": np.sin(angles).astype(np.float32),
        }

    size = length * width
    read = 4 * size + 8 * length * features
    return Workload(programs.rotated, make, 8 * size, read, 4 * size)


def embedding(words: int, width: int, count: int) -> Workload:
    def make(rng: Generator) -> Inputs:
        return {"table": normal(rng, words, width), "rows": rng.integers(0, words, count)}

    size = 4 * count * width
    program = lambda o, table, rows: o.take(table, rows)  # noqa: E731
    return Workload(program, make, 0, size + 8 * count, size, 0)


def attention(heads: int, length: int) -> Workload:
    def make(rng: Generator) -> Inputs:
        return {name: normal(rng, 1, heads, length, 64) for name in "qkv"}

    scores, size = heads * length**2, 4 * heads * length * 64
    program = lambda o, q, k, v: o.attention(q, k, v)  # noqa: E731
    return Workload(program, make, 4 * 64 * scores + 15 * scores, 3 * size, size, model=True)


# -- models ----------------------------------------------------------------------------------------


def gpt2_block(length: int, width: int = 768) -> Workload:
    def make(rng: Generator) -> Inputs:
        result = {"x": normal(rng, length, width)}
        for k in ("1", "2"):
            result[f"norm{k}"] = 1 + normal(rng, width, scale=0.1)
            result[f"shift{k}"] = normal(rng, width, scale=0.1)
        shapes = {"joint": (1, 3), "output": (1, 1), "wider": (1, 4), "narrower": (4, 1)}
        for name, (before, after) in shapes.items():
            result[name] = normal(rng, before * width, after * width, scale=0.02)
            result[f"{name}_bias"] = normal(rng, after * width, scale=0.02)
        return result

    weights, size = 12 * width**2, length * width
    flops = 2 * length * weights + 4 * length * size
    read = 4 * (weights + size)
    return Workload(programs.gpt2_block, make, flops, read, 4 * size, weights=True, model=True)


def resnet_layers() -> Iterator[tuple[str, int, int, int, int]]:
    """Of every convolution the name, channels after and before, size, and rows of its result."""
    yield "stem", 64, 3, 7, 112
    channels, image = 64, 56
    for part, (inside, blocks, stride) in enumerate(programs.RESNET_50):
        for block in range(blocks):
            name = f"part{part}_{block}"
            yield f"{name}_reduce", inside, channels, 1, image
            image = image if block else image // stride
            yield f"{name}_middle", inside, inside, 3, image
            yield f"{name}_widen", 4 * inside, inside, 1, image
            if not block:
                yield f"{name}_beside", 4 * inside, channels, 1, image
            channels = 4 * inside


def resnet_50(batch: int) -> Workload:
    def make(rng: Generator) -> Inputs:
        result = {"x": normal(rng, batch, 3, 224, 224)}
        for name, after, before, size, _ in resnet_layers():
            scale = math.sqrt(2 / (before * size**2))
            result[name] = normal(rng, after, before, size, size, scale=scale)
            result[f"{name}_scale"] = 0.5 + normal(rng, after, scale=0.1)
            result[f"{name}_offset"] = normal(rng, after, scale=0.1)
            result[f"{name}_mean"] = normal(rng, after, scale=0.1)
            result[f"{name}_variance"] = 1 + rng.random(after, dtype=np.float32) / 10
        result["classes"] = normal(rng, 2048, 1000, scale=0.02)
        result["classes_bias"] = normal(rng, 1000, scale=0.02)
        return result

    layers = list(resnet_layers())
    taps = [after * before * size**2 for _, after, before, size, _ in layers]
    flops = 2 * sum(t * rows**2 for t, (*_, rows) in zip(taps, layers, strict=True)) + 2 * 2048e3
    read = 4 * (sum(taps) + 2048e3 + batch * 3 * 224**2)
    return Workload(
        programs.resnet_50, make, batch * flops, read, 4000 * batch, 1e-4, weights=True, model=True
    )


def perceptron(batch: int) -> Workload:
    sizes = (784, 512, 512, 10)
    pairs = list(pairwise(sizes))

    def make(rng: Generator) -> Inputs:
        result = {"x": normal(rng, batch, sizes[0])}
        for k, (before, after) in enumerate(pairs, start=1):
            result[f"weight{k}"] = normal(rng, before, after, scale=math.sqrt(2 / before))
            result[f"bias{k}"] = normal(rng, after, scale=0.1)
        return result

    weights = sum(before * after for before, after in pairs)
    read = 4 * (weights + batch * sizes[0])
    return Workload(
        programs.perceptron, make, 2 * batch * weights, read, 40 * batch, weights=True, model=True
    )


# -- the table -------------------------------------------------------------------------------------

SQUARE = (4096, 4096)
CUBE = (256, 256, 256)

WORKLOADS: dict[str, Workload] = {
    "ew_chain_16M": on_x(programs.chain, (16 * MI,), 16 * MI, 34),
    "add_1024": addition(1024),
    "add_4096": addition(4096),
    "sum_64M": total(64 * MI),
    "rowsum_4096": on_x(lambda o, x: o.sum(x, 1), SQUARE, 4096, tolerance=1e-4),
    "colsum_4096": on_x(lambda o, x: o.sum(x, 0), SQUARE, 4096, tolerance=1e-4),
    "sum_256x256x256_axis0": on_x(lambda o, x: o.sum(x, 0), CUBE, 1 << 16, tolerance=1e-4),
    "sum_256x256x256_axis1": on_x(lambda o, x: o.sum(x, 1), CUBE, 1 << 16, tolerance=1e-4),
    "sum_256x256x256_axis2": on_x(lambda o, x: o.sum(x, 2), CUBE, 1 << 16, tolerance=1e-4),
    "argmax_4096": on_x(lambda o, x: o.argmax(x), SQUARE, 2 * 4096, tolerance=0),
    "cumsum_4096": on_x(lambda o, x: o.cumsum(x), SQUARE, 16 * MI, tolerance=1e-4),
    "softmax_4096": on_x(lambda o, x: o.softmax(x), SQUARE, 16 * MI, 15),
    "layernorm_4096": layer_norm(4096, 4096),
    "rmsnorm_rope": rotated(512, 4096, 128),
    "transpose_4096": on_x(lambda o, x: o.stored(o.permute(x, (1, 0))), SQUARE, 16 * MI, 0),
    "embed_32000x768": embedding(32_000, 768, 4096),
    "maxpool3x3s2": on_x(lambda o, x: o.max_pool(x), (8, 64, 112, 112), 8 * 64 * 56 * 56, 9 / 4),
    "mm_127": product(127, 127, 127),
    "mm_256": product(256, 256, 256),
    "mm_257": product(257, 257, 257),
    "mm_511": product(511, 511, 511),
    "mm_512": product(512, 512, 512),
    "mm_1009": product(1009, 1009, 1009),
    "mm_1024": product(1024, 1024, 1024),
    "mm_2048": product(2048, 2048, 2048),
    "mm_4096x64x64": product(4096, 64, 64),
    "mm_64x4096x64": product(64, 4096, 64),
    "mm_64x64x4096": product(64, 64, 4096),
    "gemv_4096": product(1, 4096, 4096),
    "gemv_4096_right": vector_product(4096, 4096),
    "bmm_32x128x64x128": product(32, 128, 64, 128),
    "bmm_256x16x16x16": product(256, 16, 16, 16),
    "xtx_2048x512": on_x(lambda o, x: o.permute(x, (1, 0)) @ x, (2048, 512), 512**2, 2 * 512),
    "mm_bias_gelu_1024": dense(1024),
    "conv3x3": convolution(8, 64, 56, 64, 3),
    "conv1x1": convolution(8, 64, 56, 256, 1),
    "conv3x3_stride2": convolution(8, 64, 56, 128, 3, stride=2),
    "conv3x3_groups32": convolution(8, 128, 28, 128, 3, groups=32),
    "dwconv3x3": convolution(8, 64, 56, 64, 3, groups=64),
    "attention_12x512x64": attention(12, 512),
    "gpt2_block_128": gpt2_block(128),
    "resnet50_b1": resnet_50(1),
}

QUICK = {
    "add_512": addition(512),
    "softmax_512": on_x(lambda o, x: o.softmax(x), (512, 512), 512**2, 15),
    "mm_128": product(128, 128, 128),
}
"""A few small ones, to see that the benchmark works."""

SIZES = (
    64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 288, 320, 384, 448, 500, 512, 576, 640, 768,
    896, 1000, 1024, 1152, 1280, 1536, 1792, 2048, 2560, 3072, 4096,
)  # fmt: skip
BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)

GROWING: dict[str, dict[int, Workload]] = {
    "matmul": {size: product(size, size, size) for size in SIZES},
    "perceptron": {batch: perceptron(batch) for batch in BATCHES},
    "convolution": {batch: convolution(batch, 32, 28, 32, 3) for batch in BATCHES},
}
"""The same program on ever larger inputs; all are measured as `NAME/SIZE`."""


def named(name: str) -> Workload:
    """A workload by its name, also one of those that grow, or of the survey."""
    family, _, size = name.partition("/")
    if family == "survey":
        from benchmarks.survey_programs import SURVEY  # which needs this module

        program: Workload = SURVEY[size]
        return program
    return GROWING[family][int(size)] if size else {**WORKLOADS, **QUICK}[name]
