"""Random differentiable programs for a short time; `./dev fuzz gradient` is the long run."""

from __future__ import annotations

import pytest

from fuzz import gradient
from porism.gradient import elementwise_derivatives
from porism.gradient.derivative_terms import derivative, g, y
from porism.ir import ops

PROGRAMS = 25
SEED = 1


def test_gradients_of_random_programs_are_finite_differences() -> None:
    compared = 0
    for seed in range(SEED, SEED + PROGRAMS):
        program = gradient.generate(seed)
        if program.steps:
            found = gradient.outcome(program, with_torch=False)
            compared += found != gradient.SKIPPED
            assert found in (None, gradient.SKIPPED), f"{found}\n{program.text()}"
    assert compared > PROGRAMS // 2


def test_a_wrong_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = derivative("TANH", g * y)
    monkeypatch.setitem(elementwise_derivatives.OPS, ops.TANH, wrong)
    found = []
    for seed in range(60):
        program = gradient.generate(seed)
        if program.steps and gradient.fault(program, with_torch=False):
            found.append(gradient.shrink(program, with_torch=False))
            break
    assert found
    assert "tanh" in found[0].text() or "gelu" in found[0].text()
