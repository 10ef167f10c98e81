"""Training models: three networks, written once for every compiler.

A network is a dict of weights, NumPy arrays that are the same for all, and a loss: a function of
an `Ops`, which has the operations of one compiler, the weights as its tensors, and a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Weights = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """A network, its batch, and what is learned from it."""

    weights: Callable[[], Weights]
    batch: Callable[[], tuple[Any, Any]]
    loss: Callable[[Any, Weights, Any, Any], Any]
    rate: float
    """The learning rate of AdamW."""


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _matrix(rng: np.random.Generator, *dims: int, gain: float = 1.0) -> Any:
    fan_in = math.prod(dims[1:])
    return (rng.standard_normal(dims) * gain / math.sqrt(fan_in)).astype(np.float32)


def _zeros(*dims: int) -> Any:
    return np.zeros(dims, np.float32)


def _ones(*dims: int) -> Any:
    return np.ones(dims, np.float32)


# -- MLP -------------------------------------------------------------------------------------------


def mlp_weights() -> Weights:
    rng = _generator(0)
    return {
        "up": _matrix(rng, 512, 784, gain=1.4),
        "up.bias": _zeros(512),
        "down": _matrix(rng, 10, 512),
        "down.bias": _zeros(10),
    }


def mlp_batch() -> tuple[Any, Any]:
    rng = _generator(1)
    return rng.standard_normal((128, 784)).astype(np.float32), rng.integers(0, 10, 128)


def mlp_loss(o: Any, w: Weights, x: Any, y: Any) -> Any:
    hidden = o.relu(o.linear(x, w["up"], w["up.bias"]))
    return o.cross_entropy(o.linear(hidden, w["down"], w["down.bias"]), y)


# -- ResNet-18 at 32 × 32 --------------------------------------------------------------------------

CHANNELS = (64, 128, 256, 512)


def resnet_weights() -> Weights:
    rng = _generator(0)
    weights: Weights = {}

    def convolution(name: str, out: int, channels: int, size: int) -> None:
        weights[name] = _matrix(rng, out, channels, size, size, gain=1.4)
        weights[name + ".scale"], weights[name + ".shift"] = _ones(out), _zeros(out)

    convolution("stem", 64, 3, 3)
    channels = 64
    for stage, out in enumerate(CHANNELS):
        for block in range(2):
            name = f"{stage}.{block}"
            convolution(name + ".a", out, channels, 3)
            convolution(name + ".b", out, out, 3)
            if channels != out:
                convolution(name + ".skip", out, channels, 1)
            channels = out
    weights["head"], weights["head.bias"] = _matrix(rng, 10, 512), _zeros(10)
    return weights


def resnet_batch() -> tuple[Any, Any]:
    rng = _generator(1)
    return rng.standard_normal((32, 3, 32, 32)).astype(np.float32), rng.integers(0, 10, 32)


def resnet_loss(o: Any, w: Weights, x: Any, y: Any) -> Any:
    def normed(name: str, x: Any, stride: int, padding: int) -> Any:
        x = o.conv2d(x, w[name], stride, padding)
        return o.batch_norm(x, w[name + ".scale"], w[name + ".shift"])

    x = o.relu(normed("stem", x, 1, 1))
    for stage in range(len(CHANNELS)):
        for block in range(2):
            name = f"{stage}.{block}"
            stride = 2 if stage and not block else 1
            inner = o.relu(normed(name + ".a", x, stride, 1))
            inner = normed(name + ".b", inner, 1, 1)
            skip = normed(name + ".skip", x, stride, 0) if name + ".skip" in w else x
            x = o.relu(inner + skip)
    return o.cross_entropy(o.linear(o.mean(x, (2, 3)), w["head"], w["head.bias"]), y)


# -- GPT-2 -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gpt:
    """The sizes of a GPT-2."""

    layers: int
    features: int = 768
    heads: int = 12
    symbols: int = 1024
    batch_size: int = 4
    length: int = 128

    def weights(self) -> Weights:
        rng, n = _generator(0), self.features
        weights: Weights = {
            "symbols": (rng.standard_normal((self.symbols, n)) * 0.02).astype(np.float32),
            "positions": (rng.standard_normal((self.length, n)) * 0.02).astype(np.float32),
        }
        for layer in range(self.layers):
            for name, out, inner in (
                ("qkv", 3 * n, n), ("out", n, n), ("up", 4 * n, n), ("down", n, 4 * n),
            ):  # fmt: skip
                weights[f"{layer}.{name}"] = _matrix(rng, out, inner, gain=0.5)
                weights[f"{layer}.{name}.bias"] = _zeros(out)
            for name in ("norm1", "norm2"):
                weights[f"{layer}.{name}"] = _ones(n)
                weights[f"{layer}.{name}.bias"] = _zeros(n)
        weights["norm"], weights["norm.bias"] = _ones(n), _zeros(n)
        return weights

    def batch(self) -> tuple[Any, Any]:
        rng = _generator(1)
        tokens = rng.integers(0, self.symbols, (self.batch_size, self.length + 1))
        return np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])

    def loss(self, o: Any, w: Weights, x: Any, y: Any) -> Any:
        batch, length, n = self.batch_size, self.length, self.features

        def linear(name: str, x: Any) -> Any:
            return o.linear(x, w[name], w[name + ".bias"])

        def norm(name: str, x: Any) -> Any:
            return o.layer_norm(x, w[name], w[name + ".bias"])

        def heads(x: Any) -> Any:
            x = x.reshape(batch, length, self.heads, n // self.heads)
            return o.permute(x, (0, 2, 1, 3))

        hidden = o.embedding(x, w["symbols"]) + w["positions"]
        for layer in range(self.layers):
            projected = linear(f"{layer}.qkv", norm(f"{layer}.norm1", hidden))
            q, k, v = (heads(projected[:, :, part * n : (part + 1) * n]) for part in range(3))
            attended = o.permute(o.attention(q, k, v), (0, 2, 1, 3)).reshape(batch, length, n)
            hidden = hidden + linear(f"{layer}.out", attended)
            inner = o.gelu(linear(f"{layer}.up", norm(f"{layer}.norm2", hidden)))
            hidden = hidden + linear(f"{layer}.down", inner)
        logits = o.linear(norm("norm", hidden), w["symbols"], None)
        return o.cross_entropy(logits.reshape(batch * length, self.symbols), y.reshape(-1))


def _gpt(layers: int, **sizes: int) -> Model:
    gpt = Gpt(layers, **sizes)
    return Model(gpt.weights, gpt.batch, gpt.loss, 1e-4)


MODELS = {
    "MLP 784-512-10, batch 128": Model(mlp_weights, mlp_batch, mlp_loss, 1e-3),
    "ResNet-18 32x32, batch 32": Model(resnet_weights, resnet_batch, resnet_loss, 1e-3),
    "GPT-2, 4 layers, 4 x 128": _gpt(4),
    "GPT-2 small, 1 x 128": _gpt(12, symbols=50257, batch_size=1),
    "GPT-2, 1 layer, 4 x 128": _gpt(1),
    "GPT-2, 2 layers, 4 x 128": _gpt(2),
    "GPT-2, 8 layers, 4 x 128": _gpt(8),
    "GPT tiny": _gpt(2, features=64, heads=4, symbols=64, batch_size=4, length=32),
}
