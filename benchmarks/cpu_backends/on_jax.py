"""Programs on jax, jitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax  # type: ignore[import-not-found, unused-ignore]
import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]
import numpy as np
from jax import lax  # type: ignore[import-not-found, unused-ignore]

from benchmarks.cpu_backends.survey_on_jax import SurveyOnJax
from benchmarks.cpu_operations import EPSILON, Array, Arrays, Call, Program, Read, as_one


class JaxOperations(SurveyOnJax):
    """In jax.numpy, jax.nn and lax."""

    exp = staticmethod(jnp.exp)
    tanh = staticmethod(jnp.tanh)
    relu = staticmethod(jax.nn.relu)
    softmax = staticmethod(jax.nn.softmax)
    reshape = staticmethod(jnp.reshape)
    permute = staticmethod(jnp.transpose)

    def gelu(self, x: Array, by_tanh: bool = False) -> Array:
        return jax.nn.gelu(x, approximate=by_tanh)

    def stored(self, x: Array) -> Array:
        return x  # results of a jitted function are in row order

    def halves(self, x: Array) -> Sequence[Array]:
        result: Sequence[Array] = jnp.split(x, 2, -1)
        return result

    def thirds(self, x: Array) -> Sequence[Array]:
        result: Sequence[Array] = jnp.split(x, 3, -1)
        return result

    def joined(self, parts: Sequence[Array]) -> Array:
        return jnp.concatenate(parts, -1)

    def take(self, table: Array, rows: Array) -> Array:
        return table[rows]

    def sum(self, x: Array, axis: int | None) -> Array:
        return x.sum(axis)

    def cumsum(self, x: Array) -> Array:
        return x.cumsum(-1)

    def argmax(self, x: Array) -> Array:
        return x.argmax(-1)

    def layer_norm(self, x: Array, weight: Array, bias: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        return centred * lax.rsqrt(variance + EPSILON) * weight + bias

    def rms_norm(self, x: Array, weight: Array) -> Array:
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight

    def linear(self, x: Array, weight: Array, bias: Array) -> Array:
        return x @ weight + bias

    def attention(self, q: Array, k: Array, v: Array, causal: bool = False) -> Array:
        scores = q @ k.swapaxes(-1, -2) * 0.125
        if causal:
            seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
            scores = jnp.where(seen, scores, -1e9)
        return jax.nn.softmax(scores) @ v

    def conv(self, x: Array, weight: Array, stride: int, padding: int, groups: int = 1) -> Array:
        around = ((padding, padding), (padding, padding))
        return lax.conv_general_dilated(
            x, weight, (stride, stride), around, feature_group_count=groups
        )

    def batch_norm(self, x: Array, statistics: Sequence[Array]) -> Array:
        scale, offset, mean, variance = (each[:, None, None] for each in statistics)
        return (x - mean) * (scale * lax.rsqrt(variance + EPSILON)) + offset

    def max_pool(self, x: Array) -> Array:
        around = ((0, 0), (0, 0), (1, 1), (1, 1))
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), around)

    def mean_of_image(self, x: Array) -> Array:
        return x.mean((2, 3))


class Jax:
    """All inputs are arguments, as is usual in jax; indices have 32 bits, where floats have."""

    version = jax.__version__

    def __init__(self, threads: int) -> None:
        self.operations = JaxOperations()

    def prepare(
        self, program: Program, arrays: Arrays, constants: frozenset[str]
    ) -> tuple[Call, Read]:
        jax.config.update("jax_enable_x64", any(a.dtype == np.float64 for a in arrays.values()))
        jitted = jax.jit(lambda inputs: program(self.operations, **inputs))
        inputs = {
            name: jax.device_put(array.astype(np.int32) if array.dtype == np.int64 else array)
            for name, array in arrays.items()
        }
        return lambda: jax.block_until_ready(jitted(inputs)), read


def read(result: Array) -> Any:
    if isinstance(result, tuple):
        return as_one([read(part) for part in result])
    return np.asarray(result)
