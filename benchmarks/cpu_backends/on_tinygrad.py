"""Programs on tinygrad, jitted by its TinyJit."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tinygrad import Device, Tensor, TinyJit  # type: ignore[import-not-found, unused-ignore]

from benchmarks.cpu_operations import EPSILON, Array, Arrays, Call, Program, Read


def find_compiler() -> None:
    """Have tinygrad use the clang inside of ziglang, if the system has none."""
    if shutil.which(os.environ.get("CC", "clang")) or not importlib.util.find_spec("ziglang"):
        return
    script = Path(tempfile.gettempdir()) / "clang"
    script.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m ziglang clang "$@"\n', encoding="utf-8"
    )
    script.chmod(0o700)
    os.environ["CC"] = str(script)


class TinygradOperations:
    """Methods of its tensors."""

    def exp(self, x: Array) -> Array:
        return x.exp()

    def tanh(self, x: Array) -> Array:
        return x.tanh()

    def relu(self, x: Array) -> Array:
        return x.relu()

    def gelu(self, x: Array, by_tanh: bool = False) -> Array:
        return x.gelu() if by_tanh else 0.5 * x * (1 + (x * 0.5**0.5).erf())

    def reshape(self, x: Array, shape: Sequence[int]) -> Array:
        return x.reshape(*shape)

    def permute(self, x: Array, order: Sequence[int]) -> Array:
        return x.permute(*order)

    def stored(self, x: Array) -> Array:
        return x.contiguous()

    def halves(self, x: Array) -> Sequence[Array]:
        outcome: Sequence[Array] = x.chunk(2, -1)
        return outcome

    def thirds(self, x: Array) -> Sequence[Array]:
        outcome: Sequence[Array] = x.chunk(3, -1)
        return outcome

    def joined(self, parts: Sequence[Array]) -> Array:
        return parts[0].cat(*parts[1:], dim=-1)

    def take(self, table: Array, rows: Array) -> Array:
        return table[rows]

    def sum(self, x: Array, axis: int | None) -> Array:
        return x.sum() if axis is None else x.sum(axis)

    def cumsum(self, x: Array) -> Array:
        return x.cumsum(-1)

    def argmax(self, x: Array) -> Array:
        return x.argmax(-1)

    def softmax(self, x: Array) -> Array:
        return x.softmax(-1)

    def layer_norm(self, x: Array, weight: Array, bias: Array) -> Array:
        return x.layernorm(eps=EPSILON) * weight + bias

    def rms_norm(self, x: Array, weight: Array) -> Array:
        return x * ((x * x).mean(-1, keepdim=True) + EPSILON).rsqrt() * weight

    def linear(self, x: Array, weight: Array, bias: Array) -> Array:
        return x.linear(weight, bias)

    def attention(self, q: Array, k: Array, v: Array, causal: bool = False) -> Array:
        return q.scaled_dot_product_attention(k, v, is_causal=causal)

    def conv(self, x: Array, weight: Array, stride: int, padding: int, groups: int = 1) -> Array:
        return x.conv2d(weight, None, groups, stride, 1, padding)

    def batch_norm(self, x: Array, statistics: Sequence[Array]) -> Array:
        scale, offset, mean, variance = statistics
        return x.batchnorm(scale, offset, mean, (variance + EPSILON).rsqrt())

    def max_pool(self, x: Array) -> Array:
        return x.max_pool2d(3, 2, 1, 1)

    def mean_of_image(self, x: Array) -> Array:
        return x.mean((2, 3))


class Tinygrad:
    """Weights are tensors that the function finds outside; it needs clang to run."""

    version = version("tinygrad")

    def __init__(self, threads: int) -> None:
        find_compiler()
        self.operations = TinygradOperations()
        (Tensor.ones(4).contiguous() + 1).realize()  # fails at once where there is no compiler

    def prepare(
        self, program: Program, arrays: Arrays, constants: frozenset[str]
    ) -> tuple[Call, Read]:
        tensors = {name: Tensor(array).contiguous().realize() for name, array in arrays.items()}
        weights = {name: tensors.pop(name) for name in constants}

        @TinyJit  # type: ignore[untyped-decorator, unused-ignore]
        def jitted(**inputs: Array) -> Array:
            return program(self.operations, **inputs, **weights).realize()

        def call() -> Array:
            result = jitted(**tensors)
            Device[Device.DEFAULT].synchronize()
            return result

        def read(result: Array) -> Any:
            return result.numpy()

        for _ in range(3):
            call()
        return call, read
