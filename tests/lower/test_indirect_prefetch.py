"""What is read later at places that are looked up, fetched beside what is read now."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import porism
from porism.backends.backend_table import BACKENDS, native
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


def taken(rows: int, width: int, count: int) -> Any:
    table = porism.asarray(np.ones((rows, width), np.float32))
    (kernel,) = porism.kernels(porism.take(table, porism.asarray(np.zeros(count, int)), axis=0))
    return kernel


def lines_of(kernel: Any, ahead: int) -> list[UOp]:
    actions = [Upcast("r1", 32), Prefetch(2, "r0", ahead)]
    arranged = apply_all(unscheduled_kernel(kernel.node, native().target()), actions,
                         native().target())  # fmt: skip
    return lower_kernel(arranged, native().target(), scheduled=True)


def test_what_leads_to_a_place_is_done_once_more() -> None:
    lines = lines_of(taken(100, 64, 40), 3)
    levels.check_linear(lines)
    fetched = [n for n in lines if n.op is ops.NOOP]
    assert len(fetched) == 2  # lines of the cache
    loads = [n for n in lines if n.op is ops.LOAD and n.dtype.count == 1]
    assert len(loads) == 2  # a place for now, and one for later
    later = loads[1].src[0].src[1]
    assert later.op is ops.MIN
    assert (int(later.vmin), int(later.vmax)) == (3, 39)


def test_it_is_said_to_the_machine() -> None:
    lines = lines_of(taken(100, 64, 40), 3)
    for name, text in (("llvm", "call void @llvm.prefetch"), ("c", "__builtin_prefetch(&")):
        assert BACKENDS[name].source(lines, "kernel").count(text) == 2  # type: ignore[misc]


@pytest.mark.parametrize("ahead", [1, 5, 39, 40, 1000])
def test_the_same_is_computed(ahead: int) -> None:
    """Also in the last iterations, where nothing comes later; and where an index is none."""
    target = native().target()
    loops = unscheduled_kernel(taken(100, 64, 40).node, target)
    kernel = apply_all(loops, [Upcast("r1", 32), Prefetch(2, "r0", ahead)], target)
    table = np.arange(6400, dtype=np.float32)
    places = np.arange(40) * 5 - 100
    data: dict[int, Any] = {0: np.zeros(40 * 64, np.float32), 1: places, 2: table}
    CompiledTrial(kernel, native()).run(data, {})
    wanted = table.reshape(100, 64)[places % 100]
    wanted[places >= 100] = 0
    np.testing.assert_array_equal(data[0].reshape(40, 64), wanted)


def test_the_listing_says_it() -> None:
    changed = porism.opt(taken(100, 64, 40), [porism.Prefetch(2, "r0", 3)])
    assert "# prefetch input1, 3 iterations of r0 ahead" in changed.text
    assert changed.check() == 0
    changed.verify()


def cached(size: int) -> Target:
    return dataclasses.replace(
        GENERIC_CPU, memory=dataclasses.replace(GENERIC_CPU.memory, l2=1 << 14, l3=size), cores=2
    )


def fetched(kernel: Any, target: Target) -> list[Prefetch]:
    chosen = heuristic.choose_actions(unscheduled_kernel(kernel.node, target), target)
    return [action for action in chosen if isinstance(action, Prefetch)]


def test_the_heuristic_fetches_rows_of_a_large_table() -> None:
    (action,) = fetched(taken(1000, 768, 64), cached(1 << 16))
    assert (action.buffer, action.ahead) == (2, 2)
    (action,) = fetched(taken(8000, 64, 64), cached(1 << 16))
    assert action.ahead == 16  # as many bytes of shorter rows
    assert not fetched(taken(1000, 768, 64), cached(1 << 22))
    assert not fetched(taken(100_000, 8, 64), cached(1 << 16))  # less than a line


def test_it_is_done_in_all_loops() -> None:
    with pytest.raises(ActionError, match="it is looked up where the buffer is read"):
        porism.opt(taken(100, 64, 40), [porism.Prefetch(2, "r0", 3, ("r1",))])


def test_places_must_be_looked_up_along_the_loop() -> None:
    table = porism.asarray(np.ones((100, 64), np.float32))
    x = porism.asarray(np.ones((40, 64), np.float32))
    (kernel,) = porism.kernels(x + porism.take(table, porism.asarray(np.zeros(1, int)), axis=0))
    with pytest.raises(ActionError, match="not known where it will be read"):
        porism.opt(kernel, [porism.Prefetch(3, "r0", 1)])
