"""What LLVM is told of the rounds of loops, and what it makes of it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import porism


@pytest.fixture
def kernel() -> porism.Kernel:
    """A product, and something long that follows it."""
    a, b = (porism.asarray(np.zeros((1024, 1024), np.float32)) for _ in range(2))
    (kernel,) = porism.kernels(porism.exp(a @ b + porism.asarray(np.zeros(1024, np.float32))))
    return kernel


def test_llvm_is_told_how_many_rounds_a_loop_has(kernel: porism.Kernel) -> None:
    assert '!prof !{!"branch_weights", i32 1023, i32 1}' in kernel.source("llvm")


def test_what_follows_the_sums_of_a_product_takes_none_of_their_registers(
    kernel: porism.Kernel,
) -> None:
    blocks = re.split(r"^\.LBB\w+:.*$", kernel.source("assembly"), flags=re.M)
    sums = max(blocks, key=lambda block: block.count("fmadd231")).splitlines()
    end = next((k for k, line in enumerate(sums) if line.startswith("\tj")), None)
    assert not any(re.search(r"%[xyz]mm\d+, \d*\(%rsp\)", line) for line in sums[:end])
