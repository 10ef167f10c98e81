"""The examples of training run in a short form, and learn something."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


def example(name: str) -> Any:
    """Return an example as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_digits_are_learned_and_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.safetensors"
    accuracy = example("train_digits").main(epochs=3, save=str(path))
    assert accuracy > 0.95
    assert re.search(r"epoch  3  loss 0\.\d+  held out 9", capsys.readouterr().out)
    assert path.stat().st_size > 40_000


@pytest.mark.slow
def test_a_gpt_learns_and_writes(capsys: pytest.CaptureFixture[str]) -> None:
    losses = example("train_gpt").main(steps=25, sample=5, batch=4, length=16)
    assert losses[0] > 4
    assert np.mean(losses[-5:]) < losses[0] - 0.7
    assert "loss" in capsys.readouterr().out


@pytest.mark.slow
def test_an_oscillator_is_fitted_by_second_derivatives() -> None:
    fitted = example("fit_oscillator").main(steps=8)
    np.testing.assert_allclose(fitted, [2.0, 0.3, 4.0, 0.5], atol=0.02)


@pytest.mark.slow
def test_digits_are_drawn_by_diffusion(tmp_path: Path) -> None:
    path = tmp_path / "digits.png"
    module = example("diffuse_digits")
    module.BATCH, module.LEVELS = 16, 20
    loss = module.main(steps=20, out=str(path))
    assert loss < 1.5
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
