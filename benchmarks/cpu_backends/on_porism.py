"""Programs on Porism, jitted; by the heuristic, or by what the settings ask for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import porism
from benchmarks.cpu_backends.survey_on_porism import SurveyOnPorism
from benchmarks.cpu_operations import EPSILON, Array, Arrays, Call, Program, Read, as_one
from porism import Tensor
from porism.backends.llvm import llvm_library
from porism.ir.node import UOp


class PorismOperations(SurveyOnPorism):
    """Each has a function of its own in Porism."""

    exp = staticmethod(porism.exp)
    tanh = staticmethod(porism.tanh)
    relu = staticmethod(porism.relu)
    reshape = staticmethod(porism.reshape)
    permute = staticmethod(porism.permute)
    softmax = staticmethod(porism.softmax)

    def gelu(self, x: Array, by_tanh: bool = False) -> Array:
        return porism.gelu(x, approximate="tanh" if by_tanh else "none")

    def stored(self, x: Array) -> Array:
        return x  # results of a jitted function are in row order

    def halves(self, x: Array) -> Sequence[Array]:
        return list(porism.chunk(x, 2, axis=-1))

    def thirds(self, x: Array) -> Sequence[Array]:
        return list(porism.chunk(x, 3, axis=-1))

    def joined(self, parts: Sequence[Array]) -> Array:
        return porism.concat(parts, axis=-1)

    def take(self, table: Array, rows: Array) -> Array:
        return porism.take(table, rows, axis=0)

    def sum(self, x: Array, axis: int | None) -> Array:
        return porism.sum(x, axis)

    def cumsum(self, x: Array) -> Array:
        return porism.cumsum(x, -1)

    def argmax(self, x: Array) -> Array:
        return porism.argmax(x, -1)

    def layer_norm(self, x: Array, weight: Array, bias: Array) -> Array:
        return porism.layer_norm(x, weight, bias, eps=EPSILON)

    def rms_norm(self, x: Array, weight: Array) -> Array:
        return porism.rms_norm(x, weight, eps=EPSILON)

    def linear(self, x: Array, weight: Array, bias: Array) -> Array:
        return x @ weight + bias

    def attention(self, q: Array, k: Array, v: Array, causal: bool = False) -> Array:
        return porism.scaled_dot_product_attention(q, k, v, causal=causal)

    def conv(self, x: Array, weight: Array, stride: int, padding: int, groups: int = 1) -> Array:
        return porism.conv2d(x, weight, stride=stride, padding=padding, groups=groups)

    def batch_norm(self, x: Array, statistics: Sequence[Array]) -> Array:
        scale, offset, mean, variance = statistics
        return porism.batch_norm(x, mean, variance, scale, offset, eps=EPSILON)

    def max_pool(self, x: Array) -> Array:
        return porism.max_pool2d(x, 3, stride=2, padding=1)

    def mean_of_image(self, x: Array) -> Array:
        return porism.mean(x, axis=(2, 3))


class Porism:
    """Weights are tensors that the function finds outside, and not among its arguments."""

    version = porism.__version__

    def __init__(self, threads: int) -> None:
        self.operations = PorismOperations()
        self.code = ""
        """A digest of the code of the program that was prepared last."""

    def prepare(
        self, program: Program, arrays: Arrays, constants: frozenset[str]
    ) -> tuple[Call, Read]:
        tensors = {name: porism.asarray(array).realize() for name, array in arrays.items()}
        weights = {name: tensors[name] for name in constants}
        others = {name: tensor for name, tensor in tensors.items() if name not in constants}

        @porism.jit
        def jitted(**inputs: Tensor) -> Any:
            return program(self.operations, **inputs, **weights)

        texts = self._watched()

        def call() -> Any:
            outcome = jitted(**others)
            for each in outcome if isinstance(outcome, tuple) else (outcome,):
                each.realize()
            return outcome

        def read(result: Any) -> Any:
            self.code = hashlib.sha256("".join(sorted(texts)).encode()).hexdigest()
            if isinstance(result, tuple):
                return as_one([read(part) for part in result])
            return np.asarray(result.numpy())

        return call, read

    def _watched(self) -> list[str]:
        """The text of each module that is compiled from now on."""
        texts: list[str] = []

        def module_text(named: Mapping[str, Sequence[UOp]]) -> str:
            text = written(named)
            texts.append(text)
            return text

        written = getattr(llvm_library.module_text, "written", llvm_library.module_text)
        module_text.written = written  # type: ignore[attr-defined]
        llvm_library.module_text = module_text
        return texts
