"""A program is run with its tuned kernels and without, and is not slower in the end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import porism
from porism.backends.backend_table import BACKENDS, Backend
from porism.base.settings import settings
from porism.engine.cache import schedule_cache
from porism.engine.run.prepacked_constants import Prepacking
from porism.engine.run.program import Program
from porism.engine.run.realize import request, schedule_of
from porism.engine.tune import program_comparison, tuning, tuning_cache, tuning_worker
from porism.ir.node import UOp
from porism.optimize.actions.action import Actions
from porism.optimize.actions.action_serialization import write_actions
from porism.optimize.strategy import heuristic
from porism.pipeline import unscheduled_kernel
from porism.schedule.schedule import Schedule

pytestmark = pytest.mark.usefixtures("nothing_tuned")

LLVM = BACKENDS["llvm"]
COLUMNS = (40, 56, 32)


def products() -> Schedule:
    """A program of three kernels."""
    x = porism.asarray(np.ones((16, 24), np.float32))
    weights = [porism.asarray(np.ones((24, columns), np.float32)) for columns in COLUMNS]
    schedule = schedule_of(request([(x @ weight).node for weight in weights]).graph)
    assert len(schedule.steps) == 3
    return schedule


def kernels_of(schedule: Schedule) -> list[UOp]:
    return [step.kernel for step in schedule.steps]


def by_heuristic(kernel: UOp) -> Actions:
    target = LLVM.target()
    return heuristic.choose_actions(unscheduled_kernel(kernel, target), target)


def all_faster(new: Sequence[UOp], backend: Backend, part: float) -> list[UOp]:
    """As if all kernels were tuned, and are faster now."""
    assert 0.5 < part < 1
    return list(new)


def settled(
    schedule: Schedule,
    slower: Sequence[UOp],
    monkeypatch: pytest.MonkeyPatch,
    seconds: float | None = None,
) -> list[UOp]:
    """Which kernels are as they were tuned, if some are slow in a program after that."""
    kernels = kernels_of(schedule)
    for kernel in kernels:
        tuning_cache.record(kernel, LLVM, (), 2.0, 1.0)

    def ratio(self: Any, before: Sequence[UOp], after: Sequence[UOp], inputs: Any) -> float:
        def seconds(plain: Sequence[UOp]) -> float:
            found = [k for k in kernels if k not in plain]
            return 10.0 + sum(2.0 if k in slower else -1.0 for k in found)

        return seconds(after) / seconds(before)

    monkeypatch.setattr(tuning, "tune_new_kernels", all_faster)
    monkeypatch.setattr(
        program_comparison._ProgramComparison, "_program", lambda self, plain: list(plain)
    )
    monkeypatch.setattr(program_comparison._ProgramComparison, "_ratio", ratio)
    if seconds is None:
        program_comparison.tune_program_kernels(schedule, LLVM, frozenset())
    else:
        program_comparison.keep_faster_kernels(schedule, LLVM, frozenset(), kernels, seconds)
    found = tuning_cache.known_actions(kernels, LLVM)
    assert set(found.values()) <= {()}
    for kernel in set(kernels) - set(found):
        kept = tuning_cache.TuningCache(LLVM).get(kernel)
        assert kept is not None
        assert kept.actions == by_heuristic(kernel)
        assert kept.before == kept.after
    return [k for k in kernels if k in found]


def test_kernels_that_make_it_faster_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = products()
    kernels = kernels_of(schedule)
    assert settled(schedule, [], monkeypatch) == kernels


def test_a_kernel_that_makes_it_slower_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = products()
    kernels = kernels_of(schedule)
    assert settled(schedule, kernels[1:], monkeypatch) == kernels[:1]
    assert settled(schedule, kernels, monkeypatch) == []


def test_programs_are_timed_with_the_actions_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = products()
    kernels = kernels_of(schedule)
    for kernel in kernels:
        tuning_cache.record(kernel, LLVM, (), 2.0, 1.0)
    seen: list[Program] = []
    timed = program_comparison._ProgramComparison._ratio

    def ratio(self: Any, before: Program, after: Program, inputs: Any) -> float:
        seen.extend([before, after])
        found = timed(self, before, after, inputs)
        assert 0 < found < float("inf")
        return 1.0

    monkeypatch.setattr(tuning, "tune_new_kernels", all_faster)
    monkeypatch.setattr(program_comparison._ProgramComparison, "_ratio", ratio)
    program_comparison.tune_program_kernels(schedule, LLVM, frozenset())
    before, after = seen
    assert not {f.address for f in before.functions} & {f.address for f in after.functions}
    assert tuning_cache.known_actions(kernels, LLVM) == dict.fromkeys(kernels, ())


def test_if_there_is_no_time_to_look_at_each_all_go(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = products()
    kernels = kernels_of(schedule)
    assert settled(schedule, kernels[1:], monkeypatch, seconds=-1) == []
    assert settled(schedule, [], monkeypatch, seconds=-1) == kernels


def test_a_program_of_one_kernel_is_run_too(monkeypatch: pytest.MonkeyPatch) -> None:
    x = porism.asarray(np.ones((16, 24), np.float32))
    schedule = schedule_of(request([(x + 1).node]).graph)
    kernels = kernels_of(schedule)
    assert settled(schedule, [], monkeypatch) == kernels
    assert settled(schedule, kernels, monkeypatch) == []


def test_what_is_not_faster_is_as_the_heuristic_says_with_constants() -> None:
    """That it lays out constants beforehand is lost if its actions are given without them."""
    x, weight = (porism.asarray(np.ones(s, np.float32)) for s in ((8, 256), (256, 1024)))
    schedule = schedule_of(request([(x @ weight).node]).graph)
    (kernel,) = kernels_of(schedule)
    plain = Prepacking(schedule, LLVM, frozenset({1}))
    assert plain.copies
    tuning_cache.record(kernel, LLVM, by_heuristic(kernel), 2.0, 1.0)
    assert Prepacking(schedule, LLVM, frozenset({1})).kernels != plain.kernels
    tuning_cache.record(kernel, LLVM, by_heuristic(kernel), 2.0, 2.0)
    assert Prepacking(schedule, LLVM, frozenset({1})).kernels == plain.kernels


def test_a_tuner_in_the_background_runs_the_program_both_ways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schedule = products()
    kernels = kernels_of(schedule)
    seen: list[list[UOp]] = []

    def tune(new: Sequence[UOp], backend: Backend, **options: object) -> None:
        seen.append(list(new))
        for kernel in new:
            tuning_cache.record(kernel, backend, (), 2.0, 1.0)

    def ratio(self: Any, before: Program, after: Program, inputs: Any) -> float:
        return 1.5

    monkeypatch.setattr(tuning, "tune", tune)
    monkeypatch.setattr(program_comparison._ProgramComparison, "_ratio", ratio)
    known = [0, write_actions(by_heuristic(kernels[0])), 3.0, 2.0]
    text = schedule_cache.serialize(schedule)
    job = {
        "schedule": text, "constants": [], "known": [known], "width": 2, "seconds": 1.0,
        "parent": os.getppid(),
    }  # fmt: skip
    found = tuning_worker.tune_program(job)["tuned"]
    assert seen == [kernels[1:]]  # the first is known
    assert [row[0] for row in found] == [1, 2]
    for place, actions, before, after in found:  # none of them pays in the program
        assert actions == write_actions(by_heuristic(kernels[place]))
        assert (before, after) == (2.0, 2.0)
    tuning_cache.forget_in_memory()
    monkeypatch.setattr(program_comparison._ProgramComparison, "_ratio", lambda *_: 0.9)
    found = tuning_worker.tune_program({**job, "known": []})["tuned"]
    assert found == [[place, [], 2.0, 1.0] for place in range(3)]


@pytest.mark.slow
def test_a_program_is_tuned_and_right() -> None:
    generator = np.random.default_rng(0)
    shapes = [(16, 24), *((24, columns) for columns in COLUMNS)]
    x, *weights = (generator.normal(size=shape).astype(np.float32) for shape in shapes)
    tensor, *others = map(porism.asarray, (x, *weights))
    with settings.override(beam_seconds=1):
        found = porism.jit(lambda x: [x @ weight for weight in others], beam=2)(tensor)
    for result, weight in zip(found, weights, strict=True):
        np.testing.assert_allclose(result.numpy(), x @ weight, rtol=1e-4, atol=1e-4)


def test_a_worker_whose_parent_is_gone_tunes_nothing() -> None:
    """Also if the parent has ended before the job begins."""
    text = schedule_cache.serialize(products())
    job = {
        "schedule": text, "constants": [], "known": [], "width": 2, "seconds": 60.0, "parent": -1,
    }  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        tuning_worker.tune_program(job)
