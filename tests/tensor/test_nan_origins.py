"""The setting `nan`: the first operation that makes a NaN is named, with the user's line."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import porism
from porism import Tensor
from porism.engine.run.array_allocator import memory_usage
from porism.tensor.inspect.nan_origins import NanError, naming_nans

HERE = Path(__file__).name


@pytest.fixture(autouse=True)
def _named() -> Iterator[None]:
    with naming_nans():
        yield


def data(*numbers: float) -> Any:
    return Tensor(np.array(numbers, "f"))


def line_of(text: str) -> int:
    """The number of the line of this file that ends with a comment."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(k for k, line in enumerate(lines, 1) if line.endswith(f"# {text}"))


def test_the_function_and_the_line_are_named() -> None:
    x = data(1.0, -1.0)
    y = x + 1
    z = porism.log(y - 1)  # a logarithm
    with pytest.raises(NanError) as caught:
        (z * 2).sum().item()
    assert "log" in str(caught.value)
    assert "made the first NaN" in str(caught.value)
    assert f"{HERE}, line {line_of('a logarithm')}" in str(caught.value)


def test_what_has_no_nan_is_computed() -> None:
    assert porism.log(data(1.0)).tolist() == [0.0]
    assert porism.sqrt(data(0.0)).sum().item() == 0.0


def test_an_input_with_a_nan_is_named() -> None:
    with pytest.raises(NanError, match=r"a tensor of shape \(2,\) has NaNs"):
        (data(1.0, float("nan")) + 1).sum().item()


def test_in_a_jitted_function() -> None:
    w = data(2.0, 4.0)

    @porism.jit
    def loss(x: Any) -> Any:
        hidden = x * w
        root = porism.sqrt(hidden)  # a root
        return root.mean()

    assert loss(data(2.0, 4.0)).item() == 3.0
    with pytest.raises(NanError) as caught:
        loss(data(2.0, -4.0))
    assert f"{HERE}, line {line_of('a root')}" in str(caught.value)
    assert "sqrt" in str(caught.value)


def test_in_a_training_step() -> None:
    w = porism.nn.Parameter(np.array([1.0, 2.0], "f"))
    optimizer = porism.optim.SGD([w], lr=1.0)

    @porism.jit
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        inner = w * x
        loss = inner.log().sum()  # the logarithm of a loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    step(data(1.0, 1.0))
    before = w.numpy().copy()
    with pytest.raises(NanError) as caught:
        step(data(1.0, -10.0))
    assert f"{HERE}, line {line_of('the logarithm of a loss')}" in str(caught.value)
    np.testing.assert_array_equal(w.numpy(), before)  # nothing was assigned


def test_a_gradient_of_a_sound_value() -> None:
    w = porism.nn.Parameter(np.array([0.0, 2.0], "f"))
    loss = (porism.sqrt(w) * data(0.0, 1.0)).sum()  # a root at 0
    loss.backward()
    assert w.grad is not None
    with pytest.raises(NanError, match="backward made the first NaN") as caught:
        w.grad.numpy()
    assert f"{HERE}, line {line_of('a root at 0')}" in str(caught.value)


def test_a_gradient_whose_loss_is_gone() -> None:
    w = porism.nn.Parameter(np.array([1.0, -2.0], "f"))

    def differentiate() -> None:
        loss = porism.log(w).sum()  # a logarithm that is gone
        (loss * loss).backward()

    differentiate()
    assert w.grad is not None
    with pytest.raises(NanError) as caught:
        w.grad.numpy()
    assert f"{HERE}, line {line_of('a logarithm that is gone')}" in str(caught.value)


@pytest.mark.usefixtures("frozen_heap")
def test_no_value_is_kept_alive() -> None:
    used = []
    for k in range(20):
        y = (data(*[1.0] * 1000) * k + 1).realize()
        (y + 1).sum().item()
        gc.collect()
        used.append(memory_usage().in_use)
    assert used[-1] == used[10]


def test_the_setting_is_read_from_the_environment() -> None:
    code = "import porism\nx = porism.Tensor([-1.0])\nporism.log(x).item()\n"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "PORISM_NAN": "1"},
    )  # fmt: skip
    assert ran.returncode == 1
    assert "log made the first NaN" in ran.stderr
    assert "<string>, line 3" in ran.stderr
