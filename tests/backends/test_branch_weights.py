"""Branch weights: LLVM is told the trip counts of loops, and allocates registers by them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import porism
from porism.tensor.inspect.explain import Kernel


@pytest.fixture
def kernel() -> Kernel:
    """A product, and something long that follows it."""
    a, b = (porism.asarray(np.zeros((1024, 1024), np.float32)) for _ in range(2))
    (kernel,) = porism.kernels(porism.exp(a @ b + porism.asarray(np.zeros(1024, np.float32))))
    return kernel


def test_latches_have_the_trip_count_as_branch_weight(kernel: Kernel) -> None:
    assert '!prof !{!"branch_weights", i32 1023, i32 1}' in kernel.source("llvm")


def test_an_epilogue_takes_no_registers_of_the_accumulators(
    kernel: Kernel,
) -> None:
    blocks = re.split(r"^\.LBB\w+:.*$", kernel.source("assembly"), flags=re.M)
    sums = max(blocks, key=lambda block: block.count("fmadd231")).splitlines()
    end = next((k for k, line in enumerate(sums) if line.startswith("\tj")), None)
    assert not any(re.search(r"%[xyz]mm\d+, \d*\(%rsp\)", line) for line in sums[:end])
