"""Verify mode checks kernels as they were tuned, before they run."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import porism
from porism.backends.backend_table import BACKENDS
from porism.base.errors import VerifyError
from porism.base.settings import settings
from porism.base.target import Target
from porism.engine.run.backend_runners import prepare
from porism.engine.tune import tuning_cache
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.action import Action
from porism.optimize.actions.loops.upcast_unroll import Upcast

pytestmark = pytest.mark.usefixtures("nothing_tuned")

LLVM = BACKENDS["llvm"]


@dataclass(frozen=True)
class Shifted(Action):
    """Reads another element than before."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        (load,) = (n for n in toposort(kernel) if n.op is ops.INDEX and n.src[0].arg == 1)
        other = load.replace((load.src[0], (load.src[1] + 1) % 40))
        return substitute(kernel, {load: other})


def doubled(action: Action) -> Any:
    """A computation whose kernel is tuned to an action."""
    x = porism.asarray(np.arange(40, dtype=np.float32)) * 2
    (kernel,) = porism.kernels(x)
    tuning_cache.record(kernel.node, LLVM, (action,), 2.0, 1.0)
    return x


def test_a_tuned_kernel_is_verified_as_it_runs() -> None:
    with settings.override(verify=1), pytest.raises(VerifyError) as error:
        doubled(Shifted()).realize()
    assert "schedule loops" in str(error.value)
    with settings.override(verify=1):
        assert doubled(Upcast("r0", 8)).tolist()[:3] == [0.0, 2.0, 4.0]


def test_nothing_is_swapped_in_that_is_not_verified() -> None:
    x = porism.asarray(np.arange(40, dtype=np.float32))
    jitted = porism.jit(lambda x: x * 2)
    with settings.override(verify=1):
        jitted(x)
        (kernel,) = porism.kernels(x * 2)
        tuning_cache.record(kernel.node, LLVM, (Shifted(),), 2.0, 1.0)
        (replay,) = jitted.programs
        assert replay.schedule is not None
        with pytest.raises(VerifyError):
            prepare(replay.schedule, recompile=True)
        assert jitted(x).tolist()[:3] == [0.0, 2.0, 4.0]


def test_verified_values_are_not_kept_for_ever() -> None:
    gc.collect()
    before = porism.memory().in_use
    with settings.override(verify=1):
        for k in range(3):
            (porism.ones((1 << 16) + k) * 5).realize()
    for _ in range(2):
        gc.collect()
    assert porism.memory().in_use - before < 1 << 18
