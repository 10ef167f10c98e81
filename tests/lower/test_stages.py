"""Every stage preserves what a kernel computes: random programs, evaluated after each stage."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU, Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.lower.local_memory import local_memory
from porism.pipeline import TARGET_STAGES, lower_kernel, schedule_graph, watched
from tests.block_kernels import row_sums
from tests.tensors import tensor_graphs
from tests.watching import Kernels

SCALAR = dataclasses.replace(GENERIC_CPU, name="scalar", vector_bits=())
WIDE = dataclasses.replace(GENERIC_CPU, name="wide", vector_bits=(128, 256, 512))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(tensor_graphs(), st.integers(0, 1000))
def test_kernel_stages(root: UOp, seed: int) -> None:
    kernels = Kernels(seed, "kernels")
    with np.errstate(all="ignore"), watched(kernels.see):
        schedule_graph(ops.SINK(root), cached=False)


@pytest.mark.parametrize("target", [GENERIC_CPU, SCALAR, WIDE], ids=lambda t: t.name)
@settings(max_examples=40, deadline=None)
@given(root=tensor_graphs(), seed=st.integers(0, 1000))
def test_target_stages(target: Target, root: UOp, seed: int) -> None:
    with np.errstate(all="ignore"):
        for step in schedule_graph(ops.SINK(root)).steps:
            kernels = Kernels(seed, TARGET_STAGES[0].name)
            with watched(kernels.see):
                lines = lower_kernel(step.kernel, target)
            assert kernels.stages == sum(stage.only(target) for stage in TARGET_STAGES) - 1
            kernels.check_lines(lines)


@pytest.mark.parametrize("target", [GENERIC_CPU, H200], ids=lambda t: t.name)
def test_stages_for_blocks_run_on_targets_with_blocks_only(target: Target) -> None:
    seen: list[str] = []
    kernel = local_memory(row_sums(6, 8))
    with watched(lambda name, level, graph: seen.append(name)):
        lower_kernel(kernel, target, scheduled=True)
    after = [stage for stage in TARGET_STAGES[2:] if stage.only(target)]
    assert seen == [stage.name for stage in after]
    blocks = {"to blocks", "tensor cores", "block memory", "group reduce", "gpu dims"}
    assert blocks & set(seen) == (blocks if target.grid else set())
