"""Sums of products are accumulated by MULACC where the target has a fused multiply-add."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import porism
from porism.base.target import GENERIC_CPU
from porism.ir import ops
from porism.pipeline import lower_kernel


@pytest.mark.parametrize("has", [False, True])
def test_a_target_without_fma_gets_none(has: bool) -> None:
    assert "MULACC" not in GENERIC_CPU.ops
    more = GENERIC_CPU.ops | {"MULACC"}
    target = dataclasses.replace(GENERIC_CPU, ops=more) if has else GENERIC_CPU
    x = porism.asarray(np.ones((24, 24), np.float32))
    (kernel,) = porism.kernels(x @ x)
    assert any(node.op is ops.MULACC for node in lower_kernel(kernel.node, target)) == has
