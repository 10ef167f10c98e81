"""How large kernels become: counted in what a machine does, and not in the ops of a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import porism
from porism.base.target import GENERIC_CPU
from porism.engine.run import realize
from porism.pipeline import lower_kernel


def lines(function: Any, times: int) -> list[int]:
    """The lines of each kernel of a function that is applied so many times in a row."""
    x = porism.asarray(np.ones(8, np.float32))
    for _ in range(times):
        x = function(x)
    steps = realize.schedule_of(realize.request([x.node]).graph).steps
    return [len(lower_kernel(step.kernel, GENERIC_CPU, actions=[])) for step in steps]


@pytest.mark.parametrize("function", ["sin", "log2", "exp2", "tanh"])
def test_a_chain_is_cut_into_kernels_of_a_size(function: str) -> None:
    """The time of a compiler grows faster than a kernel, so a kernel must not grow with a chain."""
    actual = lines(getattr(porism, function), 400)
    assert max(actual) < 12_000
    assert len(actual) <= 400 // 5


def test_a_few_functions_are_one_kernel() -> None:
    assert len(lines(porism.sin, 10)) == 1
    assert len(lines(lambda x: porism.tanh(x) * 2 + 1, 30)) == 1
