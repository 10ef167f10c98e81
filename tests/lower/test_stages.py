"""Every stage keeps what a kernel computes: random programs, evaluated after each of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.base.target import GENERIC_CPU, Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.pipeline import TARGET_STAGES, to_lines, to_schedule, watched
from tests.tensors import tensor_graphs
from tests.watching import Kernels

SCALAR = dataclasses.replace(GENERIC_CPU, name="scalar", vector_bits=())
WIDE = dataclasses.replace(GENERIC_CPU, name="wide", vector_bits=(128, 256, 512))


@settings(max_examples=150, deadline=None)
@given(tensor_graphs(), st.integers(0, 1000))
def test_kernel_stages(root: UOp, seed: int) -> None:
    kernels = Kernels(seed, "kernels")
    with np.errstate(all="ignore"), watched(kernels.see):
        to_schedule(ops.SINK(root), cached=False)


@pytest.mark.parametrize("target", [GENERIC_CPU, SCALAR, WIDE], ids=lambda t: t.name)
@settings(max_examples=40, deadline=None)
@given(root=tensor_graphs(), seed=st.integers(0, 1000))
def test_target_stages(target: Target, root: UOp, seed: int) -> None:
    with np.errstate(all="ignore"):
        for step in to_schedule(ops.SINK(root)).steps:
            kernels = Kernels(seed, TARGET_STAGES[0].name)
            with watched(kernels.see):
                lines = to_lines(step.kernel, target)
            assert kernels.stages == len(TARGET_STAGES) - 1
            kernels.check_lines(lines)
