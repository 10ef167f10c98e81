"""The order of kernels: those that free memory run as soon as they can, the others stay."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import porism
from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp
from porism.schedule import kernel_order

Values = list[tuple[UOp, ...]]


def value(number: int, size: int = 100) -> UOp:
    """A value of some size; values are told apart by number."""
    return ops.PARAM(UOp.const(dtypes.index, size), dtype=dtypes.f32, arg=number)


def order_by_memory(kernels: Values, outputs: set[UOp]) -> list[int]:
    """The order of kernels that compute one value each, the first."""
    return kernel_order.order_by_memory([((k[0],), k[1:]) for k in kernels], outputs)


def test_gradients_of_weights_do_not_wait_for_the_end() -> None:
    x, f1, f2, g2, g1 = map(value, range(5))
    w1, w2 = value(5), value(6)
    kernels: Values = [(f1, x), (f2, f1), (g2, f2), (g1, g2), (w1, g1, x), (w2, g2, f1)]
    # once g2 is there, f1 is only kept for w2
    assert order_by_memory(kernels, {w1, w2}) == [0, 1, 2, 5, 3, 4]


def test_what_frees_nothing_stays() -> None:
    x, a, b, c = map(value, range(4))
    assert order_by_memory([(a, x), (b, x), (c, a, b)], {c}) == [0, 1, 2]
    assert order_by_memory([], set()) == []


def test_every_kernel_runs_once_and_after_what_it_reads() -> None:
    drawn = random.Random(3)
    for _ in range(200):
        count = drawn.randrange(1, 12)
        values = [value(k, drawn.choice((1, 10, 1000))) for k in range(count)]
        kernels: Values = []
        for k in range(count):
            inputs = drawn.sample(values[:k], min(k, drawn.randrange(3)))
            kernels.append((values[k], *inputs))
        outputs = set(drawn.sample(values, drawn.randrange(1, count + 1)))
        order = order_by_memory(kernels, outputs)
        assert sorted(order) == list(range(count))
        position = {values[k]: n for n, k in enumerate(order)}
        for k in range(count):
            assert all(position[v] < position[values[k]] for v in kernels[k][1:])


def peak(segment: Any) -> int:
    """The bytes of the arena of the gradient of a network of six segments."""
    rng = np.random.default_rng(0)
    weights = [porism.asarray(rng.standard_normal((256, 256)).astype("f")) for _ in range(12)]

    def loss(weights: Any, x: Any) -> Any:
        for k in range(0, 12, 2):
            x = segment(x, weights[k], weights[k + 1])
        return x.sum()

    gradient = porism.jit(porism.grad(loss))
    gradient(weights, porism.asarray(rng.standard_normal((256, 256)).astype("f")))
    (replay,) = gradient.programs
    assert replay.schedule is not None
    return replay.schedule.arena.peak


def test_a_checkpoint_needs_less_memory() -> None:
    def segment(x: Any, a: Any, b: Any) -> Any:
        return porism.tanh(porism.tanh(x @ a) @ b)

    assert peak(porism.checkpoint(segment)) < 0.75 * peak(segment)
