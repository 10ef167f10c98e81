"""Batches: elementwise kernels that do not wait for each other run as one launch."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

import porism
from porism import nn, optim
from porism.base.errors import VerifyError
from porism.base.settings import settings
from porism.engine.cache.schedule_cache import deserialize, serialize
from porism.schedule.kernel_batches import is_elementwise
from porism.schedule.schedule import Role, Schedule, launches
from porism.tensor.jit.replay import Replay
from porism.verification.verify_memory_plan import check_memory_plan


class Chain:
    """A net of layers of several sizes, and a step of AdamW on all of its parameters."""

    def __init__(self, layers: int) -> None:
        porism.seed(3)
        self.layers = [nn.Linear(8 + k % 3, 8 + (k + 1) % 3) for k in range(layers)]
        self.parameters = [p for layer in self.layers for p in layer.parameters()]
        self.optimizer = optim.AdamW(self.parameters, lr=0.01)

    def step(self, x: porism.Tensor) -> porism.Tensor:
        hidden = x
        for layer in self.layers:
            hidden = porism.tanh(layer(hidden))
        loss = (hidden**2).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


def training_schedule(layers: int) -> Schedule:
    """The schedule of a jitted step."""
    net = Chain(layers)
    before = {id(r) for r in gc.get_objects() if isinstance(r, Replay)}
    step = porism.jit(net.step)
    step(porism.ones((4, 8)))
    (found,) = (
        r.schedule
        for r in gc.get_objects()
        if isinstance(r, Replay) and id(r) not in before and r.schedule is not None
    )
    return found


def update_launches(schedule: Schedule) -> list[list[int]]:
    """The launches of elementwise kernels that compute outputs: those of the optimizer."""
    return [
        group
        for group in launches(schedule.steps)
        if is_elementwise(schedule.steps[group[0]].kernel)
        and all(schedule.buffers[b].role is Role.OUTPUT for b in schedule.steps[group[0]].written)
    ]


def test_launches_of_an_optimizer_do_not_grow_with_its_parameters() -> None:
    few, many = training_schedule(6), training_schedule(18)
    assert sum(len(group) for group in update_launches(many)) == 37  # and the count of steps
    assert len(update_launches(many)) <= len(update_launches(few)) <= 8
    assert check_memory_plan(many) > 0


def test_a_batched_step_computes_what_single_launches_compute() -> None:
    x = porism.asarray(np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32))
    results = []
    for jitted in (True, False):
        net = Chain(9)
        step = porism.jit(net.step) if jitted else net.step
        losses = [step(x).item() for _ in range(6)]
        results.append((losses, [p.numpy().copy() for p in net.parameters]))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5)
    for actual, expected in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)


def test_many_outputs_of_all_sizes_are_one_launch() -> None:
    sizes = [1, 2, 3, 17, 1000, 70_001, 300_000]
    arrays = [np.arange(n, dtype=np.float32) for n in sizes]

    @porism.jit
    def shifted(tensors: list[porism.Tensor]) -> list[porism.Tensor]:
        return [x * 2 + k for k, x in enumerate(tensors)]

    for _ in range(3):
        actual = shifted([porism.asarray(a) for a in arrays])
        for k, (a, result) in enumerate(zip(arrays, actual, strict=True)):
            np.testing.assert_array_equal(result.numpy(), a * 2 + k)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_batches_run_on_any_number_of_threads(threads: int) -> None:
    with settings.override(threads=threads):
        sizes = (5, 100_000, 7, 250_001)
        following = porism.jit(lambda xs: [x + 1 for x in xs])
        for result, n in zip(following([porism.arange(n) for n in sizes]), sizes, strict=True):
            np.testing.assert_array_equal(result.numpy(), np.arange(n) + 1)


def test_verify_mode_refuses_a_launch_of_kernels_that_wait_for_each_other() -> None:
    schedule = training_schedule(3)
    k = next(k for k, step in enumerate(schedule.steps) if k - 1 in step.after)
    steps = list(schedule.steps)
    steps[k - 1], steps[k] = replace(steps[k - 1], batch=999), replace(steps[k], batch=999)
    with pytest.raises(VerifyError, match=f"step {k} is launched together with step {k - 1}"):
        check_memory_plan(replace(schedule, steps=tuple(steps)))


def test_batches_are_kept_in_the_cache_of_schedules() -> None:
    schedule = training_schedule(3)
    assert any(step.batch >= 0 for step in schedule.steps)
    assert deserialize(serialize(schedule)) == schedule
