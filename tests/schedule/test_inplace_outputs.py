"""Results that take the place of what they are computed from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.engine.run.realize import request, schedule_of
from porism.ir import ops
from porism.ir.traversal import toposort
from porism.schedule.inplace_outputs import overwritable_parameter


def normal(*shape: int) -> Any:
    return porism.asarray(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def read_by(kernel: Any) -> list[int]:
    """The numbers of the parameters that a kernel reads."""
    return sorted(n.arg for n in toposort(kernel.node) if n.op is ops.PARAM and n.arg)


IN_PLACE: dict[str, Callable[[], Any]] = {
    "each element on its own": lambda: normal(8, 12) * 2 + 1,
    "several inputs": lambda: normal(8, 12) * normal(12) + normal(8, 1),
    "a residual": lambda: (normal(8, 16) @ normal(16, 12) + normal(8, 12)).relu(),
    "read twice at one place": lambda: (lambda x: x * porism.exp(x))(normal(8, 12)),
}

ELSEWHERE: dict[str, Callable[[], Any]] = {
    "transposed": lambda: normal(8, 8).T + 1,
    "a product": lambda: normal(8, 8) @ normal(8, 8),
    "in another place too": lambda: (lambda x: x + porism.flip(x, 0))(normal(8, 12)),
    "added up too": lambda: (lambda x: x / x.sum(-1, keepdims=True))(normal(8, 12)),
    "of another dtype": lambda: normal(8, 12).astype(porism.float64) * 2,
    "smaller": lambda: porism.expand(normal(8, 1), (8, 12)) * 2,
    "larger": lambda: normal(8, 12)[:4] * 2,
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_can_be_replaced(name: str) -> None:
    (kernel,) = porism.kernels(IN_PLACE[name]())
    number = overwritable_parameter(kernel.node, read_by(kernel))
    assert number is not None
    others = [n for n in read_by(kernel) if n != number]
    assert overwritable_parameter(kernel.node, others) is None


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_cannot_be_replaced(name: str) -> None:
    (kernel,) = porism.kernels(ELSEWHERE[name]())
    assert overwritable_parameter(kernel.node, read_by(kernel)) is None


def blocks(x: Any, weights: list[Any]) -> Any:
    """Layers whose result is added to what they read."""
    for weight in weights:
        x = (porism.relu(x @ weight) @ weight + x).relu()
    return x


def test_residuals_are_replaced() -> None:
    x, weights = normal(128, 256), [normal(256, 256) for _ in range(6)]
    arena = schedule_of(request([blocks(x, weights).node]).graph).arena
    size = 128 * 256 * 4
    assert arena.sum >= 10 * size
    assert arena.peak == 2 * size


def test_results_in_place_are_right() -> None:
    x = normal(133, 250)
    fixed = [(normal(250, 250) * 0.05).realize() for _ in range(5)]
    wanted = x.numpy()
    for weight in fixed:
        w = weight.numpy()
        wanted = np.maximum(np.maximum(wanted @ w, 0) @ w + wanted, 0)
    jitted = porism.jit(lambda x: blocks(x, fixed))
    for result in (blocks(x, fixed), jitted(x), jitted(x)):
        np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-4, atol=1e-4)
