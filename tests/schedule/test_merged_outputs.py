"""Merged outputs: which kernels become one, and that they compute the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import porism
from porism import Tensor
from porism.base.settings import settings
from porism.engine.cache.schedule_cache import deserialize, serialize
from porism.engine.run.realize import request
from porism.pipeline import schedule_graph
from porism.schedule.schedule import Schedule


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def scheduled(*tensors: Tensor) -> Schedule:
    return schedule_graph(request([t.node for t in tensors]).graph)


def data(*dims: int) -> Any:
    return porism.asarray(rng(7).standard_normal(dims).astype("f"))


def written(*tensors: Tensor) -> list[int]:
    """How many results each kernel stores, sorted."""
    return sorted(step.writes for step in scheduled(*tensors).steps)


def adam(p: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
    m = m * 0.9 + g * 0.1
    v = v * 0.99 + g * g * 0.01
    return p - m / (abs(v) ** 0.5 + 0.1), m, v


def test_the_step_of_an_optimizer_is_one_kernel() -> None:
    for dims in ((3, 5), (1, 7), (64, 96), (0, 4), (11,)):
        arrays = [rng(k).standard_normal(dims).astype("f") for k in range(4)]
        results = adam(*map(porism.asarray, arrays))
        if 0 not in dims:
            assert written(*results) == [3], dims
        porism.realize(*results)
        for result, expected in zip(results, adam(*arrays), strict=True):
            np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_gradient_that_is_reduced_is_computed_once() -> None:
    x, y, p, m, v = (data(8, 8) for _ in range(5))
    schedule = scheduled(*adam(p, x @ y, m, v))
    assert [step.writes for step in schedule.steps] == [1, 3]
    assert schedule.steps[1].after == (0,)


def test_what_another_kernel_reads_is_not_merged() -> None:
    x = data(6, 6)
    double = x * 2 + x.sin()
    assert written(double, x + 1, double.sum(0)) == [1, 1, 1]
    assert written(double, x + 1) == [2]


def test_what_is_read_at_another_element_is_not_merged() -> None:
    x = data(6, 6)
    with settings.override(kernel_uses=1):
        double = (x.sin() * 2 + x.cos()).exp()
        assert written(double, x + double.T) == [1, 1]
        porism.realize(other := x + double.T, double)
        expected = np.exp(np.sin(x.numpy()) * 2 + np.cos(x.numpy()))
        np.testing.assert_allclose(other.numpy(), x.numpy() + expected.T, rtol=1e-5)


def test_what_shares_nothing_or_has_other_loops_is_not_merged() -> None:
    x, y = data(6, 6), data(5, 5) + 1
    assert written(x + 1, y * 2) == [1, 1]
    a = porism.asarray(np.ones((6, 6), "f"))
    assert written(x + 1, a * 2) == [1, 1]


def test_the_buffers_of_a_kernel_stay_few() -> None:
    x = data(4, 4)
    many = [x + porism.asarray(np.full((4, 4), k, "f")) for k in range(40)]
    with settings.override(kernel_buffers=8):
        assert all(len(step.buffers) <= 8 for step in scheduled(*many).steps)
    porism.realize(*many)
    for k, result in enumerate(many):
        np.testing.assert_array_equal(result.numpy(), x.numpy() + k)


def test_a_merged_kernel_is_written_and_read() -> None:
    schedule = scheduled(*adam(data(3), data(3), data(3), data(3)))
    assert deserialize(serialize(schedule)) == schedule


def test_a_merged_kernel_is_explained() -> None:
    (kernel,) = porism.kernels(*adam(data(3), data(3), data(3), data(3)))
    results = sorted(kernel.writes.split(", "))
    assert [text.split()[0] for text in results if text.startswith("output")] == [
        "output0",
        "output1",
        "output2",
    ]
    assert kernel.bytes_written == 36
    assert len(kernel.reads) == 4


def random_programs(seed: int) -> tuple[list[Any], list[Any]]:
    """Random elementwise results that read each other, on tensors and on arrays."""
    drawn = random.Random(seed)
    dims = drawn.choice([(4, 4), (3, 3), (16, 16)])
    arrays: list[Any] = [rng(seed + k).standard_normal(dims).astype("f") for k in range(3)]
    tensors: list[Any] = [porism.asarray(a) for a in arrays]
    for _ in range(drawn.randrange(2, 7)):
        a, b = drawn.randrange(len(arrays)), drawn.randrange(len(arrays))
        kind = drawn.randrange(6)
        for values in (arrays, tensors):
            x, y = values[a], values[b]
            values.append(
                [
                    lambda x=x, y=y: x * 0.5 + y,
                    lambda x=x, y=y: x * y,
                    lambda x=x, y=y: x.T - y,
                    lambda x=x, y=y: x - y[::-1],
                    lambda x=x, y=y: x + y.sum(0),
                    lambda x=x, y=y: (x * 0.3) @ y * 0.2,
                ][kind]()
            )
    chosen = drawn.sample(range(3, len(arrays)), drawn.randrange(1, len(arrays) - 2))
    return [tensors[k] for k in chosen], [arrays[k] for k in chosen]


def test_random_programs_compute_what_numpy_does() -> None:
    merged = 0
    for seed in range(60):
        tensors, expected = random_programs(seed)
        merged += any(step.writes > 1 for step in scheduled(*tensors).steps)
        with settings.override(check=True, kernel_uses=1 if seed % 2 else settings.kernel_uses):
            porism.realize(*tensors)
        for tensor, array in zip(tensors, expected, strict=True):
            np.testing.assert_allclose(tensor.numpy(), array, rtol=1e-4, atol=1e-4)
    assert merged > 10


def test_a_training_step_is_verified() -> None:
    w = porism.nn.Parameter(rng(0).standard_normal((5, 3)).astype("f"))
    optimizer = porism.optim.AdamW([w], lr=0.1)
    x = data(4, 3)

    @porism.jit
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = ((x @ w.T) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    with settings.override(verify=3, check=True):
        losses = [step(x).item() for _ in range(3)]
    assert losses[2] < losses[0]
