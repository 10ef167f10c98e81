"""Scans: loop-carried reductions of prefixes, by hand and as the heuristic schedules them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import porism
from porism.base.dtypes import f32, i32
from porism.base.errors import ActionError
from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.action_serialization import read_actions, write_actions
from porism.optimize.actions.loops.loop_interchange import Move, Swap
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.loop_tiling import OverlapTail, Split
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.scan_loop import Scan
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.strategy import heuristic
from porism.pipeline import lower_kernel, unscheduled_kernel
from porism.verification.verification_report import How
from tests.optimize.programs import kernel_of, values
from tests.watching import Kernels, same

CONTIGUOUS: list[list[Action]] = [
    [Scan("r1")],
    [Scan("r1", 8)],
    [Scan("r1", 24)],
    [Scan("r1", 8), Upcast("r1_1", 8), Unroll("r2_1", 8), Thread("r0")],
    [Scan("r1", 16), Upcast("r1_1", 16), Unroll("r2_1", 16)],
    [Scan("r1", 32), Upcast("r1_1", 32), Unroll("r2_1", 32)],
    [Scan("r1", 8), Unroll("r2_1", 8)],
    [Scan("r1", 8), Upcast("r1_1", 8)],
    [Scan("r1"), Upcast("r0", 4)],
    [Scan("r1"), OverlapTail("r0", 5), Upcast("r0_1", 5)],
    [Upcast("r0", 4), Scan("r1", 8), Upcast("r1_1", 8), Unroll("r2_1", 8), Thread("r0_0")],
    [PadTo("r1", 40), PadTo("r2", 40), Scan("r1", 8), Upcast("r1_1", 8), Unroll("r2_1", 8)],
]

STRIDED: list[list[Action]] = [
    [Scan("r0")],
    [Scan("r0", 8)],
    [Scan("r0"), Upcast("r1", 8)],
    [Scan("r0", 4), Upcast("r1", 8), Unroll("r2_1", 4)],
    [Split("r1", 16), Move("r1_0", "r0"), Scan("r0"), Upcast("r1_1", 8), Thread("r1_0")],
]


@pytest.mark.slow
@pytest.mark.parametrize("actions", CONTIGUOUS, ids=str)
@pytest.mark.parametrize("function", [porism.cumsum, porism.cumprod, porism.cummax, porism.cummin])
def test_scans_along_the_contiguous_axis(function: Any, actions: list[Action]) -> None:
    kernel = kernel_of(function(values(12, 96), axis=1))
    changed = porism.opt(kernel, actions)
    assert "# ordered" in changed.text
    assert changed.check() < 1e-6
    assert changed.verify().share(How.OPEN) == 0


@pytest.mark.parametrize("actions", STRIDED, ids=str)
def test_scans_along_a_strided_axis(actions: list[Action]) -> None:
    kernel = kernel_of(porism.cumsum(values(96, 32), axis=0))
    changed = porism.opt(kernel, actions)
    assert changed.check() < 1e-6
    assert changed.verify().share(How.OPEN) == 0


def test_lanes_are_exchanged_a_few_times() -> None:
    kernel = kernel_of(porism.cumsum(values(12, 96), axis=1))
    actions = [Scan("r1", 8), Upcast("r1_1", 8), Unroll("r2_1", 8)]
    lines = lower_kernel(porism.opt(kernel, actions).node, GENERIC_CPU, scheduled=True)
    additions = [n for n in lines if n.op is ops.ADD and n.dtype is f32.vec(8)]
    assert len(additions) == 3 + 2  # log 8, what came before, and what comes before the next


def test_the_heuristic_vectorizes_scans() -> None:
    text = kernel_of(porism.cumsum(values(64, 1000), axis=1)).scheduled
    assert "# ordered" in text
    assert "for r1_1_1 < 8:  # upcast" in text
    (kernel,) = porism.kernels(porism.cumsum(values(1000, 64), axis=0))
    assert [type(action) for action in kernel.actions if isinstance(action, Scan)] == [Scan]


def test_a_gpu_has_no_scans() -> None:
    kernel = kernel_of(porism.cumsum(values(64, 1000), axis=1))
    plain = unscheduled_kernel(kernel.node, GENERIC_CPU)
    with pytest.raises(ActionError, match="the target is a GPU"):
        Scan("r1").apply(plain, H200)
    assert not any(isinstance(action, Scan) for action in heuristic.choose_actions(plain, H200))


REFUSED: list[tuple[list[Action], str]] = [
    ([Scan("r0")], "nothing is a prefix reduction along r0"),
    ([Scan("r1", 7)], "it is not several times 7"),
    ([Scan("r1", 96)], "it is not several times 96"),
    ([Scan("r2")], "r2 is a loop of the kind reduce"),
    ([Scan("r1"), Scan("r1_0")], "r1_0 is a loop of the kind ordered"),
    ([Scan("r1"), Swap("r0", "r1_0")], "carries values from iteration to iteration"),
    ([Scan("r1"), Move("r1_0", "r0")], "r1_0 is a loop of the kind ordered"),
]


@pytest.mark.parametrize(("actions", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_illegal_scans_are_refused(actions: list[Action], why: str) -> None:
    kernel = kernel_of(porism.cumsum(values(12, 96), axis=1))
    with pytest.raises(ActionError, match=why):
        porism.opt(kernel, actions)


def test_other_reductions_are_no_scans() -> None:
    kernel = kernel_of(values(12, 96).sum(axis=1))
    with pytest.raises(ActionError, match="nothing is a prefix reduction along r0"):
        porism.opt(kernel, [Scan("r0")])


def test_a_scan_loop_is_not_parallelized() -> None:
    kernel = kernel_of(porism.cumsum(values(96), axis=0))
    with pytest.raises(ActionError, match="ordered"):
        porism.opt(kernel, [Scan("r0"), Thread("r0_0")])


def test_scans_are_serialized() -> None:
    actions = (Scan("r1", 8), Scan("r0"))
    assert read_actions(write_actions(actions)) == actions


def test_a_long_prefix_sum_is_scanned() -> None:
    x = values(4, 1 << 15)
    *_, last = porism.kernels(porism.cumsum(x, axis=1))
    assert any(isinstance(action, Scan) for action in last.actions)
    actual = np.asarray(porism.cumsum(x, axis=1))
    assert np.allclose(actual, np.cumsum(np.asarray(x), axis=1, dtype=np.float64), rtol=1e-5)


@pytest.mark.parametrize("actions", [
    [Move("r1", "r0"), Scan("r1")],
    [Move("r1", "r0"), Scan("r1", 4)],
    [Move("r1", "r0"), Upcast("r0", 2), Scan("r1")],
], ids=str)  # fmt: skip
def test_a_loop_inside_in_which_the_scan_is_invariant(actions: list[Action]) -> None:
    """Each of its iterations updates its own carried value, and not that of the others."""
    copies, row, place = UOp.range(6, 0), UOp.range(3, 2), UOp.range(8, 1)
    term = UOp.range(8, 3, Axis.REDUCE)
    output, values = (UOp(ops.PARAM, i32.pointer(size=n), (), k) for k, n in enumerate((144, 24)))
    total = (term <= place).where(values.index(row * 8 + term), 0).reduce(ops.ADD, term)
    stored = output.index((copies * 3 + row) * 8 + place).store(total)
    kernel = ops.SINK(stored.end(copies, place, row))
    seen = Kernels(1, "")
    seen.begin(kernel)
    same(str(actions), seen.wanted, seen.result(apply_all(kernel, actions, GENERIC_CPU)))
