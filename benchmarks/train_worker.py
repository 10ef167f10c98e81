"""One compiler's part of the training benchmark: trains a model, and prints the figures as JSON."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.train_models import MODELS, Model

Step = Callable[[], float]
"""Make one step on the batch; return the loss before it."""

DECAY = 0.01


class Porism:
    """The operations of Porism."""

    def __init__(self) -> None:
        import porism

        self.porism = porism
        self.relu, self.linear, self.embedding = porism.relu, porism.linear, porism.embedding
        self.cross_entropy, self.layer_norm = porism.cross_entropy, porism.layer_norm

    def conv2d(self, x: Any, w: Any, stride: int, padding: int) -> Any:
        return self.porism.conv2d(x, w, stride=stride, padding=padding)

    def batch_norm(self, x: Any, scale: Any, shift: Any) -> Any:
        return self.porism.batch_norm(x, weight=scale, bias=shift, training=True)

    def mean(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.mean(axes)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.permute_dims(*axes)

    def gelu(self, x: Any) -> Any:
        return self.porism.gelu(x, approximate="tanh")

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        return self.porism.scaled_dot_product_attention(q, k, v, causal=True)

    def step(self, model: Model) -> Step:
        porism = self.porism
        weights = {name: porism.nn.Parameter(a) for name, a in model.weights().items()}
        optimizer = porism.optim.AdamW(weights.values(), lr=model.rate, weight_decay=DECAY)
        x, y = map(porism.asarray, model.batch())

        @porism.jit
        def train(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = model.loss(self, weights, x, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        return lambda: float(train(x, y).item())

    def kernels(self) -> int | None:
        import gc

        from porism.schedule.schedule import launches
        from porism.tensor.jit.replay import Replay

        found = [r.schedule for r in gc.get_objects() if isinstance(r, Replay)]
        return max((len(launches(s.steps)) for s in found if s is not None), default=0)


class Torch:
    """The operations of torch.compile."""

    def __init__(self) -> None:
        import torch
        import torch.nn.functional as f

        self.torch, self.f = torch, f
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.relu, self.linear, self.embedding = f.relu, f.linear, f.embedding
        self.cross_entropy = f.cross_entropy

    def layer_norm(self, x: Any, w: Any, b: Any) -> Any:
        return self.f.layer_norm(x, x.shape[-1:], w, b)

    def conv2d(self, x: Any, w: Any, stride: int, padding: int) -> Any:
        return self.f.conv2d(x, w, stride=stride, padding=padding)

    def batch_norm(self, x: Any, scale: Any, shift: Any) -> Any:
        return self.f.batch_norm(x, None, None, scale, shift, training=True)

    def mean(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.mean(axes)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.permute(*axes)

    def gelu(self, x: Any) -> Any:
        return self.f.gelu(x, approximate="tanh")

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        return self.f.scaled_dot_product_attention(q, k, v, is_causal=True)

    def compiled(self, function: Any) -> Any:
        return self.torch.compile(function)

    def step(self, model: Model) -> Step:
        torch = self.torch
        weights = {n: torch.nn.Parameter(torch.tensor(a)) for n, a in model.weights().items()}
        optimizer = torch.optim.AdamW(weights.values(), lr=model.rate, weight_decay=DECAY)
        x, y = map(torch.tensor, model.batch())
        loss_of = self.compiled(lambda: model.loss(self, weights, x, y))
        update = self.compiled(optimizer.step)

        def train() -> float:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of()
            loss.backward()
            update()
            return float(loss.item())

        return train

    def kernels(self) -> int | None:
        metrics = sys.modules.get("torch._inductor.metrics")
        return None if metrics is None else int(metrics.generated_kernel_count)


class TorchEager(Torch):
    """The operations of torch, not compiled."""

    def compiled(self, function: Any) -> Any:
        return function

    def kernels(self) -> int | None:
        return None


class Jax:
    """The operations of jax.jit."""

    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp

        self.jax, self.jnp = jax, jnp
        self.relu = jax.nn.relu

    def linear(self, x: Any, w: Any, b: Any) -> Any:
        return x @ w.T if b is None else x @ w.T + b

    def embedding(self, x: Any, w: Any) -> Any:
        return w[x]

    def cross_entropy(self, logits: Any, y: Any) -> Any:
        chosen = self.jnp.take_along_axis(self.jax.nn.log_softmax(logits), y[:, None], 1)
        return -chosen.mean()

    def layer_norm(self, x: Any, w: Any, b: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * self.jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b

    def conv2d(self, x: Any, w: Any, stride: int, padding: int) -> Any:
        return (
            self.jax.lax.conv(x, w, (stride, stride), "SAME")
            if (stride == 1)
            else self.jax.lax.conv_general_dilated(x, w, (stride,) * 2, [(padding, padding)] * 2)
        )

    def batch_norm(self, x: Any, scale: Any, shift: Any) -> Any:
        centred = x - x.mean((0, 2, 3), keepdims=True)
        inverse = self.jax.lax.rsqrt((centred**2).mean((0, 2, 3), keepdims=True) + 1e-5)
        return centred * inverse * scale[:, None, None] + shift[:, None, None]

    def mean(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.mean(axes)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.transpose(axes)

    def gelu(self, x: Any) -> Any:
        return self.jax.nn.gelu(x, approximate=True)

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        jnp = self.jnp
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
        causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        return self.jax.nn.softmax(jnp.where(causal, scores, -jnp.inf)) @ v

    def step(self, model: Model) -> Step:
        jax, jnp = self.jax, self.jnp
        tree_map = jax.tree_util.tree_map
        x, y = map(jnp.asarray, model.batch())
        rate, (beta1, beta2), eps = model.rate, (0.9, 0.999), 1e-8

        def update(p: Any, g: Any, m: Any, v: Any, count: Any) -> tuple[Any, Any, Any]:
            m, v = m * beta1 + g * (1 - beta1), v * beta2 + g * g * (1 - beta2)
            root = jnp.sqrt(v) / jnp.sqrt(1 - beta2**count) + eps
            return p * (1 - rate * DECAY) - rate / (1 - beta1**count) * m / root, m, v

        def train(state: Any, x: Any, y: Any) -> Any:
            weights, first, second, count = state
            loss, grads = jax.value_and_grad(lambda w: model.loss(self, w, x, y))(weights)
            count = count + 1
            new = {n: update(weights[n], grads[n], first[n], second[n], count) for n in weights}
            parts = [{n: row[k] for n, row in new.items()} for k in range(3)]
            return loss, (*parts, count)

        jitted = jax.jit(train, donate_argnums=0)
        weights = tree_map(jnp.asarray, model.weights())
        zeros = [tree_map(jnp.zeros_like, weights) for _ in range(2)]
        state = [(weights, *zeros, jnp.zeros((), jnp.float32))]

        def step() -> float:
            loss, state[0] = jitted(state[0], x, y)
            return float(loss)

        return step

    def kernels(self) -> int | None:
        return None


class Tinygrad:
    """The operations of tinygrad."""

    def __init__(self) -> None:
        from benchmarks.cpu_backends.on_tinygrad import find_compiler

        find_compiler()
        from tinygrad import (  # type: ignore[import-not-found, unused-ignore]
            Context,
            Tensor,
            TinyJit,
            nn,
        )

        self.tensor, self.jit, self.nn, self.context = Tensor, TinyJit, nn, Context
        self.graph: Any = None

    def relu(self, x: Any) -> Any:
        return x.relu()

    def linear(self, x: Any, w: Any, b: Any) -> Any:
        return x.linear(w.transpose(), b)

    def embedding(self, x: Any, w: Any) -> Any:
        return w[x]

    def cross_entropy(self, logits: Any, y: Any) -> Any:
        return logits.sparse_categorical_crossentropy(y)

    def layer_norm(self, x: Any, w: Any, b: Any) -> Any:
        return x.layernorm() * w + b

    def conv2d(self, x: Any, w: Any, stride: int, padding: int) -> Any:
        return x.conv2d(w, stride=stride, padding=padding)

    def batch_norm(self, x: Any, scale: Any, shift: Any) -> Any:
        mean = x.mean((0, 2, 3))
        variance = ((x - mean.reshape(1, -1, 1, 1)) ** 2).mean((0, 2, 3))
        return x.batchnorm(scale, shift, mean, (variance + 1e-5).rsqrt())

    def mean(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.mean(axes)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.permute(*axes)

    def gelu(self, x: Any) -> Any:
        return x.gelu()

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        return q.scaled_dot_product_attention(k, v, is_causal=True)

    def step(self, model: Model) -> Step:
        tensor = self.tensor
        weights = {n: tensor(a) for n, a in model.weights().items()}
        optimizer = self.nn.optim.AdamW(list(weights.values()), lr=model.rate, weight_decay=DECAY)
        x, y = (tensor(a if a.dtype.kind == "f" else a.astype(np.int32)) for a in model.batch())

        @self.jit
        def train(x: Any, y: Any) -> Any:
            with self.context(TRAINING=1):
                optimizer.zero_grad()
                loss = model.loss(self, weights, x, y)
                loss.backward()
                return loss.realize(*optimizer.schedule_step())

        self.graph = train
        return lambda: float(train(x.realize(), y.realize()).item())

    def kernels(self) -> int | None:
        captured = getattr(self.graph, "captured", None)
        calls = getattr(captured, "jit_cache", None)
        return None if calls is None else len(calls)


COMPILERS: dict[str, Any] = {
    "porism": Porism,
    "torch.compile": Torch,
    "torch": TorchEager,
    "jax": Jax,
    "tinygrad": Tinygrad,
}


def resident(key: str = "VmRSS") -> int:
    """Bytes of this process now (VmRSS), at most so far (VmHWM), or of files now (RssFile)."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def forget_peak() -> None:
    """Let the most memory so far be what is in memory now."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def measure(compiler: str, name: str, steps: int, seconds: float) -> dict[str, Any]:
    """Train for some steps, or some seconds if these are more; return the figures."""
    model = MODELS[name]
    begin = time.perf_counter()
    made = COMPILERS[compiler]()
    imported = time.perf_counter() - begin
    before, code_before = resident(), resident("RssFile")
    step = made.step(model)
    begin = time.perf_counter()
    losses = [step(), step()]
    compiled = time.perf_counter() - begin
    losses.append(step())  # tinygrad captures in the second call, and replays from the third on
    forget_peak()
    times: list[float] = []
    begin = time.perf_counter()
    while len(losses) < steps or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        losses.append(step())
        times.append(time.perf_counter() - start)
    code = resident("RssFile") - code_before  # of libraries that were loaded later
    peak = resident("VmHWM") - before - max(code, 0)
    best, middle = min(times), sorted(times)[len(times) // 2]
    return {
        "import": imported,
        "compile": max(compiled - 2 * best, 0.0),
        "milliseconds": 1e3 * middle,
        "best": 1e3 * best,
        "peak": peak,
        "kernels": made.kernels(),
        "losses": losses[:steps],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("compiler", choices=list(COMPILERS))
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    print(json.dumps(measure(given.compiler, given.model, given.steps, given.seconds)))
