"""Optimizers and schedules, step for step beside PyTorch's (`tools/record_optimizers.py`)."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Final

import numpy as np
import pytest

import porism
from porism import nn, optim
from porism.base.errors import PorismError
from tests.optim.optimizer_cases import (
    OPTIMIZERS,
    SCHEDULE_STEPS,
    SCHEDULES,
    STEPS,
    case_name,
    shapes_for,
    values,
)

RECORDED: Final[dict[str, Any]] = json.loads(
    (pathlib.Path(__file__).parent / "optimizer_results.json").read_text()
)


def one() -> nn.Parameter:
    """Return a parameter of one element, with a gradient."""
    p = nn.Parameter([1.0])
    p.grad = porism.ones(1)
    return p


def parameters_for(name: str) -> list[nn.Parameter]:
    """Return the parameters of a case."""
    return [nn.Parameter(values(sizes, k)) for k, sizes in enumerate(shapes_for(name))]


def gradients(name: str, step: int) -> list[porism.Tensor]:
    """Return the gradients of a step."""
    return [
        porism.asarray(values(sizes, 10 * step + k + 20))
        for k, sizes in enumerate(shapes_for(name))
    ]


def flat(params: list[Any]) -> Any:
    """Return all elements of all parameters."""
    return np.concatenate([p.numpy().reshape(-1) for p in params])


def flat_gradients(params: list[nn.Parameter]) -> Any:
    """Return all elements of all gradients."""
    grads = [p.grad for p in params]
    return np.concatenate([grad.numpy().reshape(-1) for grad in grads if grad is not None])


def tolerance(name: str) -> float:
    """Return the allowed difference: Muon's iterations are in bfloat16 there, in float32 here."""
    return 0.05 if name == "Muon" else 3e-6


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=str)
@pytest.mark.parametrize("jitted", [False, True])
def test_steps_are_those_of_pytorch(name: str, options: dict[str, Any], jitted: bool) -> None:
    params = parameters_for(name)
    optimizer = getattr(optim, name)(params, **options)

    def step(*grads: Any) -> None:
        for p, grad in zip(params, grads, strict=True):
            p.grad = grad
        optimizer.step()
        optimizer.zero_grad()

    run = porism.jit(step) if jitted else step
    for k in range(STEPS):
        run(*gradients(name, k))
        expected = RECORDED["optimizers"][case_name(name, options)][k]
        np.testing.assert_allclose(flat(params), expected, rtol=2e-5, atol=tolerance(name))


@pytest.mark.parametrize(("name", "options"), SCHEDULES, ids=str)
def test_rates_are_those_of_pytorch(name: str, options: dict[str, Any]) -> None:
    optimizer = optim.SGD([nn.Parameter([1.0])], lr=0.3)
    schedule = getattr(optim.lr_scheduler, name)(optimizer, **options)
    rates = [optimizer.param_groups[0]["lr"]]
    for _ in range(SCHEDULE_STEPS):
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    expected = RECORDED["schedules"][case_name(name, options)]
    np.testing.assert_allclose(rates, expected, rtol=1e-6, atol=1e-9)


def test_schedules_follow_one_another() -> None:
    optimizer = optim.SGD([nn.Parameter([1.0])], lr=0.1)
    warm_up = optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2)
    decay = optim.lr_scheduler.ExponentialLR(optimizer, 0.1)
    schedule = optim.lr_scheduler.SequentialLR(optimizer, [warm_up, decay], [2])
    rates = [optimizer.param_groups[0]["lr"]]
    for _ in range(4):
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    np.testing.assert_allclose(rates, [0.05, 0.075, 0.1, 0.01, 0.001])


def test_a_plateau_lowers_the_rate() -> None:
    optimizer = optim.SGD([nn.Parameter([1.0])], lr=1.0)
    schedule = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    rates = []
    for metric in (3.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0):
        schedule.step(porism.full((), metric))
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5]


def test_a_schedule_changes_the_rate_of_a_jitted_step() -> None:
    w = nn.Parameter([10.0])
    optimizer = optim.SGD([w], lr=1.0)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    @porism.jit
    def step(grad: Any) -> None:
        w.grad = grad
        optimizer.step()

    for _ in range(3):
        step(porism.ones(1))
        schedule.step()
    assert w.tolist() == [10 - 1 - 0.5 - 0.25]
    assert step.traces == 1


def test_groups_have_options_of_their_own() -> None:
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    optimizer = optim.SGD([{"params": [a], "lr": 0.5}, {"params": b}], lr=0.25)
    a.grad = b.grad = porism.ones(1)
    optimizer.step()
    assert (a.tolist(), b.tolist()) == ([0.5], [0.75])


def test_parameters_without_gradients_stay() -> None:
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    optimizer = optim.AdamW([a, b], lr=0.5)
    a.grad = porism.ones(1)
    optimizer.step()
    assert b.tolist() == [1.0]
    assert a.tolist() != [1.0]


def test_state_is_saved_and_goes_on(tmp_path: pathlib.Path) -> None:
    name, options = "AdamW", {"lr": 0.1}
    params, path = parameters_for(name), tmp_path / "state.safetensors"
    optimizer = optim.AdamW(params, lr=0.1)
    for k in range(STEPS):
        if k == 3:
            saved = {str(i): p for i, p in enumerate(params)}
            porism.save({"params": saved, "optimizer": optimizer.state_dict()}, path)
            state = porism.load(path)
            params = [nn.Parameter(state["params"][str(i)].numpy()) for i in range(len(params))]
            optimizer = optim.AdamW(params, lr=0.7)
            optimizer.load_state_dict(state["optimizer"])
        for p, grad in zip(params, gradients(name, k), strict=True):
            p.grad = grad
        optimizer.step()
    expected = RECORDED["optimizers"][case_name(name, options)][-1]
    np.testing.assert_allclose(flat(params), expected, rtol=2e-5, atol=3e-6)


def test_narrow_weights_have_a_master_copy() -> None:
    rate, steps = 2.0**-12, 64
    plain = nn.Parameter(porism.ones(1, dtype="bfloat16"))
    with_master = nn.Parameter(porism.ones(1, dtype="bfloat16"))
    optimizers = [optim.SGD([plain], rate), optim.SGD([with_master], rate, master_weights=True)]
    for _ in range(steps):
        for p, optimizer in zip((plain, with_master), optimizers, strict=True):
            p.grad = porism.ones(1, dtype="bfloat16")
            optimizer.step()
    assert plain.tolist() == [1.0], "each step is lost in rounding"
    assert with_master.tolist() == [1 - rate * steps]
    assert with_master.dtype == porism.bfloat16


def test_clipping_by_norm_and_by_value() -> None:
    params = parameters_for("SGD")
    for p, grad in zip(params, gradients("SGD", 0), strict=True):
        p.grad = grad
    before = flat_gradients(params)
    norm = optim.clip_grad_norm_(params, 1.0)
    np.testing.assert_allclose(norm.item(), np.linalg.norm(before), rtol=1e-6)
    after = flat_gradients(params)
    np.testing.assert_allclose(after, before / np.linalg.norm(before), rtol=1e-5)
    assert optim.clip_grad_norm_(params, 5.0).item() == pytest.approx(1.0, rel=1e-5)
    again = flat_gradients(params)
    np.testing.assert_array_equal(again, after)
    largest = optim.get_total_norm(params, float("inf")).item()
    assert largest == pytest.approx(np.abs(after).max())
    optim.clip_grad_value_(params, 0.1)
    clipped = flat_gradients(params)
    np.testing.assert_array_equal(clipped, np.clip(after, -np.float32(0.1), np.float32(0.1)))


@pytest.mark.parametrize("jitted", [False, True])
def test_a_scaler_skips_what_overflows(jitted: bool) -> None:
    w = nn.Parameter([2.0])
    optimizer = optim.SGD([w], lr=0.25)
    scaler = optim.GradScaler(init_scale=8.0, growth_interval=2)

    def step(factor: Any) -> None:
        scaler.scale((w * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    run = porism.jit(step) if jitted else step
    scales, weights = [], []
    for factor in (1.0, float("inf"), 1.0, 1.0, 1.0):
        run(porism.full((1,), factor))
        scales.append(scaler.get_scale())
        weights.append(w.item())
    assert scales == [8.0, 4.0, 4.0, 8.0, 8.0]
    assert weights == [1.75, 1.75, 1.5, 1.25, 1.0]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: optim.SGD([]), "of no parameters"),
        (lambda: optim.SGD([porism.arange(3)]), "a parameter of int64"),
        (lambda: optim.SGD([1.0]), "a parameter of float"),
        (lambda: optim.SGD([nn.Parameter([1.0])], lr=-1.0), "lr=-1.0"),
        (lambda: optim.Adam([nn.Parameter([1.0])], betas=(1.0, 0.9)), "betas"),
        (lambda: optim.SGD([nn.Parameter([1.0])], nesterov=True), "momentum=0.0"),
        (lambda: optim.Muon([nn.Parameter([1.0])]), "Muon of a parameter"),
        (lambda: optim.SGD([{"params": [nn.Parameter([1.0])], "rate": 1.0}]), "rate"),
        (lambda: optim.SGD([one()] * 2), "given twice"),
        (lambda: optim.SGD([one()]).load_state_dict({}), "does not fit SGD"),
        (lambda: optim.get_total_norm([one()], -1.0), "norm_type"),
        (lambda: optim.lr_scheduler.SequentialLR(optim.SGD([one()]), [], [1]), "milestones"),
        (lambda: optim.lr_scheduler.OneCycleLR(optim.SGD([one()]), 1.0, 9, 0.3, "no"), "anneal"),
        (lambda: optim.lr_scheduler.ReduceLROnPlateau(optim.SGD([one()]), "best"), "mode"),
    ],
)
def test_what_makes_no_sense_is_refused(build: Any, words: str) -> None:
    with pytest.raises(PorismError, match=words):
        build()
