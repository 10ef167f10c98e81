"""Beam search: what is measured, what is kept, and when it ends; nothing is compiled here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU, Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.action import Action, Actions, apply_all
from porism.optimize.actions.action_registry import ACTIONS
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.actions.memory.packed_panels import Pack
from porism.optimize.model.loop_cost import estimate_cost
from porism.optimize.search.beam_search import Measurement, SearchResult, beam_search
from porism.optimize.search.candidates import (
    CPU_PROPOSALS,
    GPU_PROPOSALS,
    legal_actions,
    neighbours,
)
from porism.optimize.strategy import heuristic
from porism.pipeline import unscheduled_kernel

CPU = GENERIC_CPU


def product(rows: int = 24, k: int = 32, columns: int = 48, target: Target = CPU) -> UOp:
    shapes = ((rows, k), (k, columns))
    a, b = (porism.asarray(np.ones(s, np.float32)) for s in shapes)
    (kernel,) = porism.kernels(a @ b)
    return unscheduled_kernel(kernel.node, target)


def measure_with(
    times: Callable[[Actions], Measurement],
) -> Callable[..., Iterator[tuple[int, Measurement]]]:
    def measure(candidates: Sequence[Actions], bar: float) -> Iterator[tuple[int, Measurement]]:
        for number, actions in enumerate(candidates):
            yield number, times(actions)

    return measure


def search_with(
    times: Callable[[Actions], Measurement], *, width: int = 3, most: int = 300
) -> SearchResult:
    kernel = product()
    start = heuristic.choose_actions(kernel, CPU)
    return beam_search(
        kernel,
        CPU,
        start,
        1.0,
        measure_with(times),
        width=width,
        go_on=lambda result: result.measured < most,
    )


def model(actions: Actions) -> Measurement:
    """Return the time on a machine that is fast with m = 6, one thread, and k unrolled by 4."""
    seconds = 1.0
    seconds *= 0.6 if any(isinstance(a, Upcast) and a.amount == 6 for a in actions) else 1.0
    seconds *= 0.7 if not any(isinstance(a, Thread) for a in actions) else 1.0
    seconds *= 0.5 if any(isinstance(a, Unroll) and a.amount == 4 for a in actions) else 1.0
    return Measurement(seconds)


# -- steps -----------------------------------------------------------------------------------------


def test_every_neighbour_is_legal_and_yields_the_kernel_of_its_actions() -> None:
    kernel = product()
    start = heuristic.choose_actions(kernel, CPU)
    around = list(neighbours(kernel, start, CPU))
    assert len(around) > 30
    for actions, after in around:
        assert apply_all(kernel, actions, CPU) is after
    assert any(len(actions) < len(start) for actions, _ in around)  # without one
    changed = [a for a, _ in around if len(a) == len(start)]
    assert any(sum(x != y for x, y in zip(a, start, strict=True)) == 1 for a in changed)
    assert any(len(actions) == len(start) + 1 for actions, _ in around)


def test_neighbours_are_the_same_every_time() -> None:
    kernel = product()
    start = heuristic.choose_actions(kernel, CPU)
    first, second = ([a for a, _ in neighbours(kernel, start, CPU)] for _ in range(2))
    assert first == second


def test_every_action_is_proposed_where_it_is_legal() -> None:
    assert {**CPU_PROPOSALS, **GPU_PROPOSALS}.keys() == set(ACTIONS.values())
    lanes = Upcast("r1", 16)
    squared = substitute(product(), {n: n * n for n in toposort(product()) if n.op is ops.REDUCE})
    (scan,) = porism.kernels(porism.asarray(np.ones((16, 32), np.float32)).cumsum(-1))
    kernels = [product(20, 32, 46), lanes.apply(product(), CPU), lanes.apply(squared, CPU)]
    kernels.append(unscheduled_kernel(scan.node, CPU))
    assert {type(a) for kernel in kernels for a, _ in legal_actions(kernel, CPU)} == set(
        CPU_PROPOSALS
    )
    gpu = {type(action) for action, _ in legal_actions(product(20, 32, 48, H200), H200)}
    assert gpu >= {Upcast, Unroll, *(ACTIONS[n] for n in ("Local", "Group", "GroupTop"))}
    local: Any = ACTIONS["Local"]
    tiled = local("r1", 16).apply(product(20, 32, 48, H200), H200)
    assert ACTIONS["Stage"] in {type(action) for action, _ in legal_actions(tiled, H200)}


# -- the cost model --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ([Upcast("r1", 4)], []),  # contiguous lanes
        ([Upcast("r1", 4)], [Upcast("r1", 4, top=True)]),
        ([Upcast("r1", 4), Upcast("r0", 4)], [Upcast("r1", 4)]),  # loads are shared
        ([Upcast("r1", 4), Upcast("r0", 4)], [Upcast("r1", 16), Upcast("r0", 12)]),  # registers
    ],
)
def test_the_cost_model_ranks_good_schedules_first(
    better: list[Action], worse: list[Action]
) -> None:
    cheap, expensive = (estimate_cost(apply_all(product(), a, CPU), CPU) for a in (better, worse))
    assert cheap.operations < expensive.operations


def test_large_code_and_large_local_buffers_are_not_feasible() -> None:
    kernel = product(64, 64, 64)
    assert estimate_cost(kernel, CPU).is_feasible(CPU)
    pack = Pack(2, ("r2", "r1"))
    packed = apply_all(product(512, 512, 512), [pack], CPU)
    assert not estimate_cost(packed, CPU).is_feasible(CPU)


# -- searching -------------------------------------------------------------------------------------


def test_the_best_is_found_and_counted() -> None:
    result = search_with(model, most=10_000)
    assert result.seconds == pytest.approx(0.6 * 0.7 * 0.5)
    assert model(result.actions).seconds == result.seconds
    assert result.start_seconds == 1.0
    assert result.best[0] == (result.seconds, result.actions)
    assert result.rounds > 2
    assert result.pruned > 0


def test_a_search_is_the_same_every_time() -> None:
    assert search_with(model).actions == search_with(model).actions


def test_a_wider_beam_is_never_worse_here() -> None:
    narrow, wide = (search_with(model, width=width, most=10_000).seconds for width in (1, 4))
    assert wide <= narrow


def test_if_all_candidates_fail_the_start_is_kept() -> None:
    faults = itertools.cycle(["crashed", "hung"])
    result = search_with(lambda actions: Measurement(None, next(faults)), most=20)
    assert result.seconds == result.start_seconds == 1.0
    assert result.actions == heuristic.choose_actions(product(), CPU)
    assert sum(result.faults.values()) == result.measured
    assert set(result.faults) == {"crashed", "hung"}


def test_nothing_slower_replaces_the_start() -> None:
    result = search_with(lambda actions: Measurement(1.5), most=1000)
    assert result.actions == heuristic.choose_actions(product(), CPU)
    assert not result.interrupted


@pytest.mark.slow
def test_it_restarts_where_the_start_leads_nowhere() -> None:
    """On this machine the heuristic's first action is wrong, and those after it are needed."""
    kernel = product()
    start = heuristic.choose_actions(kernel, CPU)
    assert isinstance(start[0], Upcast)

    def times(actions: Actions) -> Measurement:
        if start[0] in actions:
            return Measurement(1.0 if actions[: len(start)] == start else 3.0)
        return Measurement(0.5 ** len(actions) + 0.9)

    def go_on(result: SearchResult) -> bool:
        return result.measured < 2000

    without = beam_search(
        kernel, CPU, start, 1.0, measure_with(lambda a: Measurement(1.0)), width=1, go_on=go_on
    )
    restarted = beam_search(
        kernel, CPU, start, 1.0, measure_with(times), width=1, go_on=go_on, restarts=[()]
    )
    assert without.actions == start
    assert start[0] not in restarted.actions
    assert restarted.seconds < 0.96


def test_it_ends_when_go_on_returns_false() -> None:
    assert search_with(model, most=1).measured <= 8


def test_an_interrupt_keeps_the_best_so_far() -> None:
    count = itertools.count()

    def times(actions: Actions) -> Measurement:
        number = next(count)
        if number == 30:
            raise KeyboardInterrupt
        return Measurement(1.0 - number / 100)

    result = search_with(times)
    assert result.interrupted
    assert result.measured == 30
    assert result.seconds == pytest.approx(0.71)
