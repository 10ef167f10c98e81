"""Programs on numpy; in float64 also the reference that all results are compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from benchmarks.cpu_operations import EPSILON, Array, Arrays, Call, Program, Read


def error_function(x: Array) -> Array:
    """By scipy, or one by one where there is none."""
    try:
        from scipy.special import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
            erf,
        )
    except ImportError:
        return np.vectorize(math.erf, otypes=[x.dtype])(x)
    return erf(x)


class NumPyOperations:
    """As one would write them in numpy, in the type of their arguments."""

    exp = staticmethod(np.exp)
    tanh = staticmethod(np.tanh)
    reshape = staticmethod(np.reshape)
    permute = staticmethod(np.transpose)
    stored = staticmethod(np.ascontiguousarray)

    def relu(self, x: Array) -> Array:
        return np.maximum(x, 0)

    def gelu(self, x: Array, by_tanh: bool = False) -> Array:
        if by_tanh:
            return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
        return 0.5 * x * (1 + error_function(x * (1 / math.sqrt(2))))

    def halves(self, x: Array) -> Sequence[Array]:
        return np.split(x, 2, -1)

    def thirds(self, x: Array) -> Sequence[Array]:
        return np.split(x, 3, -1)

    def joined(self, parts: Sequence[Array]) -> Array:
        return np.concatenate(parts, -1)

    def take(self, table: Array, rows: Array) -> Array:
        return table[rows]

    def sum(self, x: Array, axis: int | None) -> Array:
        return x.sum(axis)

    def cumsum(self, x: Array) -> Array:
        return x.cumsum(-1)

    def argmax(self, x: Array) -> Array:
        return x.argmax(-1)

    def softmax(self, x: Array) -> Array:
        powers = np.exp(x - x.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    def layer_norm(self, x: Array, weight: Array, bias: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        return centred / np.sqrt(variance + EPSILON) * weight + bias

    def rms_norm(self, x: Array, weight: Array) -> Array:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight

    def linear(self, x: Array, weight: Array, bias: Array) -> Array:
        return x @ weight + bias

    def attention(self, q: Array, k: Array, v: Array, causal: bool = False) -> Array:
        scores = q @ k.swapaxes(-1, -2) * 0.125
        if causal:
            length = scores.shape[-1]
            scores = scores + np.triu(np.full((length, length), -1e9, q.dtype), 1)
        return self.softmax(scores) @ v

    def conv(self, x: Array, weight: Array, stride: int, padding: int, groups: int = 1) -> Array:
        """Windows as columns of a matrix, times the weights, group by group."""
        outputs, inside, rows, columns = weight.shape
        windows = self._windows(x, rows, stride, padding, 0)
        batch, _, height, width = windows.shape[:4]
        if inside == 1:
            return np.einsum("nchwij,cij->nchw", windows, weight[:, 0])
        grouped = windows.reshape(batch, groups, inside, height, width, rows, columns)
        matrix = grouped.transpose(0, 1, 2, 5, 6, 3, 4).reshape(batch, groups, -1, height * width)
        result = weight.reshape(groups, outputs // groups, -1) @ matrix
        return result.reshape(batch, outputs, height, width)

    def batch_norm(self, x: Array, statistics: Sequence[Array]) -> Array:
        scale, offset, mean, variance = (each[:, None, None] for each in statistics)
        return (x - mean) * (scale / np.sqrt(variance + EPSILON)) + offset

    def max_pool(self, x: Array) -> Array:
        return self._windows(x, 3, 2, 1, -np.inf).max((-1, -2))

    def mean_of_image(self, x: Array) -> Array:
        return x.mean((2, 3))

    def _windows(self, x: Array, size: int, stride: int, padding: int, border: float) -> Array:
        around = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        padded = np.pad(x, around, constant_values=border) if padding else x
        return sliding_window_view(padded, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]


class NumPy:
    """numpy, with the linear algebra that it was built with; the process says how many threads."""

    version = np.__version__

    def __init__(self, threads: int) -> None:
        self.operations: Any = NumPyOperations()

    def prepare(
        self, program: Program, arrays: Arrays, constants: frozenset[str]
    ) -> tuple[Call, Read]:
        return lambda: program(self.operations, **arrays), np.asarray
