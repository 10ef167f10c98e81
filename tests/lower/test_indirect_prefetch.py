"""Indirect prefetch: gathered rows of later iterations are prefetched, and results stay."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import porism
from porism.backends.backend_table import BACKENDS, native_backend
from porism.base.errors import ActionError
from porism.base.target import GENERIC_CPU, Target
from porism.engine.tune.kernel_trial import CompiledTrial
from porism.ir import levels, ops
from porism.ir.node import UOp
from porism.optimize.actions.action import apply_all
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.actions.memory.software_prefetch import Prefetch
from porism.optimize.strategy import heuristic
from porism.pipeline import lower_kernel, unscheduled_kernel


def gather_kernel(rows: int, width: int, count: int) -> Any:
    """Return the kernel that gathers `count` rows of a table."""
    table = porism.asarray(np.ones((rows, width), np.float32))
    (kernel,) = porism.kernels(porism.take(table, porism.asarray(np.zeros(count, int)), axis=0))
    return kernel


def lowered(kernel: Any, ahead: int) -> list[UOp]:
    """Return the instructions with a prefetch of so many iterations ahead."""
    actions = [Upcast("r1", 32), Prefetch(2, "r0", ahead)]
    target = native_backend().target()
    scheduled_kernel = apply_all(unscheduled_kernel(kernel.node, target), actions, target)
    return lower_kernel(scheduled_kernel, target, scheduled=True)


def test_the_index_computation_is_repeated_for_a_later_iteration() -> None:
    instructions = lowered(gather_kernel(100, 64, 40), 3)
    levels.check_linear(instructions)
    prefetches = [n for n in instructions if n.op is ops.NOOP]
    assert len(prefetches) == 2  # cache lines
    loads = [n for n in instructions if n.op is ops.LOAD and n.dtype.count == 1]
    assert len(loads) == 2  # the index of this iteration, and of a later one
    later = loads[1].src[0].src[1]
    assert later.op is ops.MIN
    assert (int(later.vmin), int(later.vmax)) == (3, 39)


def test_backends_render_prefetch_instructions() -> None:
    instructions = lowered(gather_kernel(100, 64, 40), 3)
    for name, text in (("llvm", "call void @llvm.prefetch"), ("c", "__builtin_prefetch(&")):
        assert BACKENDS[name].source(instructions, "kernel").count(text) == 2  # type: ignore[misc]


@pytest.mark.parametrize("ahead", [1, 5, 39, 40, 1000])
def test_prefetching_does_not_change_results(ahead: int) -> None:
    """Not in the last iterations, where the distance is clamped, nor with indices out of bounds."""
    target = native_backend().target()
    loops = unscheduled_kernel(gather_kernel(100, 64, 40).node, target)
    kernel = apply_all(loops, [Upcast("r1", 32), Prefetch(2, "r0", ahead)], target)
    table = np.arange(6400, dtype=np.float32)
    indices = np.arange(40) * 5 - 100
    data: dict[int, Any] = {0: np.zeros(40 * 64, np.float32), 1: indices, 2: table}
    CompiledTrial(kernel, native_backend()).run(data, {})
    wanted = table.reshape(100, 64)[indices % 100]
    wanted[indices >= 100] = 0
    np.testing.assert_array_equal(data[0].reshape(40, 64), wanted)


def test_the_listing_shows_the_prefetch() -> None:
    changed = porism.opt(gather_kernel(100, 64, 40), [porism.Prefetch(2, "r0", 3)])
    assert "# prefetch input1, 3 iterations of r0 ahead" in changed.text
    assert changed.check() == 0
    changed.verify()


def target_with_l3(size: int) -> Target:
    """Return a CPU whose L3 cache has so many bytes."""
    return dataclasses.replace(
        GENERIC_CPU, memory=dataclasses.replace(GENERIC_CPU.memory, l2=1 << 14, l3=size), cores=2
    )


def chosen_prefetches(kernel: Any, target: Target) -> list[Prefetch]:
    """Return the prefetches that the heuristic chooses."""
    chosen = heuristic.choose_actions(unscheduled_kernel(kernel.node, target), target)
    return [action for action in chosen if isinstance(action, Prefetch)]


def test_the_heuristic_prefetches_rows_of_a_large_table() -> None:
    (action,) = chosen_prefetches(gather_kernel(1000, 768, 64), target_with_l3(1 << 16))
    assert (action.buffer, action.ahead) == (2, 2)
    (action,) = chosen_prefetches(gather_kernel(8000, 64, 64), target_with_l3(1 << 16))
    assert action.ahead == 16  # as many bytes of shorter rows
    assert not chosen_prefetches(gather_kernel(1000, 768, 64), target_with_l3(1 << 22))
    assert not chosen_prefetches(
        gather_kernel(100_000, 8, 64), target_with_l3(1 << 16)
    )  # less than a cache line


def test_an_indirect_prefetch_has_no_list_of_loops() -> None:
    with pytest.raises(ActionError, match="the accesses to the buffer are indirect"):
        porism.opt(gather_kernel(100, 64, 40), [porism.Prefetch(2, "r0", 3, ("r1",))])


def test_the_index_must_depend_on_the_loop() -> None:
    table = porism.asarray(np.ones((100, 64), np.float32))
    x = porism.asarray(np.ones((40, 64), np.float32))
    (kernel,) = porism.kernels(x + porism.take(table, porism.asarray(np.zeros(1, int)), axis=0))
    with pytest.raises(ActionError, match="the addresses of later iterations of r0 are not known"):
        porism.opt(kernel, [porism.Prefetch(3, "r0", 1)])
