"""Jitted functions that are tuned: at once, or in the background while they are used."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.engine.run import program
from porism.engine.tune import background_tuning, tuning, tuning_cache
from porism.engine.tune.worker_pool import Job, WorkerFault
from porism.optimize.actions.action_serialization import write_actions
from porism.optimize.actions.loops.upcast_unroll import Upcast
from tests.patience import PATIENCE
from tests.tensor.oracle import refuses

PAGE = Path(__file__).parents[2] / "docs" / "tuning.md"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tuning, "_considered", set())
    tuning_cache.forget_in_memory()
    with settings.override(cache=False, check=False):
        yield
    background_tuning.stop_all()
    tuning_cache.forget_in_memory()


def ones(*shape: int) -> Any:
    return porism.asarray(np.ones(shape, np.float32))


class FakeWorkerPool:
    """Gives an answer at once, when the test lets it."""

    answer: ClassVar[dict[str, Any] | WorkerFault]
    go = threading.Event()

    def __init__(self, size: int, *, nice: int) -> None:
        assert (size, nice) == (1, background_tuning.NICE_INCREMENT)

    def __enter__(self) -> FakeWorkerPool:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        FakeWorkerPool.go.set()

    def run_jobs(self, jobs: Sequence[Job], limit: float) -> list[tuple[int, Any]]:
        FakeWorkerPool.go.wait()
        return [(0, FakeWorkerPool.answer)]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeWorkerPool]:
    monkeypatch.setattr(background_tuning, "WorkerPool", FakeWorkerPool)
    FakeWorkerPool.go = threading.Event()
    FakeWorkerPool.answer = {"tuned": [[0, write_actions([Upcast("r1", 5)]), 1.0, 0.5]]}
    return FakeWorkerPool


def kernels_of(jitted: Any) -> list[Any]:
    (replay,) = jitted._replays.values()
    return list(replay.run_program.__self__.functions)


def test_a_function_runs_at_once_and_better_kernels_are_swapped_in(
    fake: type[FakeWorkerPool],
) -> None:
    jitted = porism.jit(lambda x, y: x @ y, budget=100)
    assert (jitted(ones(10, 20), ones(20, 30)).numpy() == 20).all()
    before = kernels_of(jitted)
    assert not jitted.wait_tuned(0)
    fake.go.set()
    assert jitted.wait_tuned()
    assert kernels_of(jitted) != before
    assert (jitted(ones(10, 20), ones(20, 30)).numpy() == 20).all()
    assert jitted.traces == 1
    (kernel,) = porism.kernels(ones(10, 20) @ ones(20, 30))
    assert kernel.actions == (Upcast("r1", 5),)


@pytest.mark.parametrize(
    "answer",
    [
        WorkerFault("crashed"),
        {"error": "nothing works"},
        {"tuned": []},
        {"tuned": [[0, [["exec", {}]], 1.0, 0.5]]},
    ],
)
def test_a_tuning_that_fails_leaves_all_as_it_was(
    fake: type[FakeWorkerPool], answer: dict[str, Any] | WorkerFault
) -> None:
    fake.answer = answer
    fake.go.set()
    jitted = porism.jit(lambda x: x * 2 + 1, budget=100)
    jitted(ones(7))
    before = kernels_of(jitted)
    assert jitted.wait_tuned()
    assert kernels_of(jitted) == before
    assert jitted(ones(7)).tolist() == [3.0] * 7


def test_calls_from_several_threads_go_on_while_kernels_are_swapped(
    fake: type[FakeWorkerPool],
) -> None:
    jitted = porism.jit(lambda x, y: x @ y, budget=100)
    x, y = ones(10, 20), ones(20, 30)
    wrong: list[Any] = []
    over = threading.Event()

    def call() -> None:
        while not over.is_set():
            result = jitted(x, y).numpy()
            if not (result == 20).all():
                wrong.append(result)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 60
    while not jitted.traces and time.monotonic() < end:
        time.sleep(0.01)
    assert jitted.traces
    fake.go.set()
    assert jitted.wait_tuned()
    time.sleep(0.05)
    over.set()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.slow
def test_it_really_is_tuned_in_the_background() -> None:
    jitted = porism.jit(lambda x, y: (x @ y).sum(0), budget=1)
    x, y = (np.random.default_rng(0).normal(size=(48, 48)).astype(np.float32) for _ in range(2))
    first = jitted(x, y).numpy()
    assert jitted.wait_tuned(120)
    assert tuning_cache._in_memory
    np.testing.assert_allclose(jitted(x, y).numpy(), first, rtol=1e-4, atol=1e-2)


def test_a_beam_tunes_when_the_function_is_traced() -> None:
    before = len(tuning.reports)
    jitted = porism.jit(lambda x, y: x @ y, beam=2)
    with settings.override(beam_seconds=1):
        assert (jitted(ones(11, 20), ones(20, 30)).numpy() == 20).all()
    assert len(tuning.reports) == before + 1
    assert settings.beam == 0


@pytest.mark.slow
def test_what_is_computed_once_is_not_tuned() -> None:
    before = len(tuning.reports)
    weight = ones(20, 20)
    jitted = porism.jit(lambda x: x @ (weight @ weight), beam=2)
    with settings.override(beam_seconds=1):
        assert (jitted(ones(11, 20)).numpy() == 400).all()
    assert len(tuning.reports) == before + 1


def test_the_evaluator_is_not_tuned() -> None:
    with settings.override(backend="reference"):
        jitted = porism.jit(lambda x: x + 1, budget=100)
        assert jitted(ones(3)).tolist() == [2.0] * 3
        assert jitted.wait_tuned(0)


def test_what_is_refused() -> None:
    with refuses(PorismError, "jit with beam=-1"):
        porism.jit(lambda x: x, beam=-1)
    for budget in (0, -2.5, float("inf"), float("nan")):
        with refuses(PorismError, f"jit with budget={budget}"):
            porism.jit(lambda x: x, budget=budget)


SCRIPT = """
import os, sys, time
import numpy as np
import porism

@porism.jit(budget=300)
def f(x, y):
    return x @ y

x = porism.asarray(np.ones((64, 64), np.float32))
assert (f(x, x).numpy() == 64).all()
time.sleep(float(sys.argv[2]))
if sys.argv[1] == "fork":
    child = os.fork()
    assert (f(x, x).numpy() == 64).all()
    assert (porism.jit(lambda a: a @ a + 1, budget=0.1)(x).numpy() == 65).all()
    if child == 0:
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
if sys.argv[1] == "kill":
    os.kill(os.getpid(), 9)
if sys.argv[1] == "error":
    raise SystemExit("an error")
print("done")
"""


def relatives(mark: str) -> list[str]:
    """Processes that were started with a mark in their environment."""
    actual = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"TEST_MARK={mark}".encode() in (folder / "environ").read_bytes():
                actual.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return actual


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
@pytest.mark.parametrize(
    ("how", "after", "status"),
    [("end", 0, 0), ("end", 2, 0), ("fork", 1, 0), ("error", 1, 1), ("kill", 2, -9)],
)
def test_nothing_is_left_behind_when_a_program_ends(
    how: str, after: int, status: int, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    mark = f"{tmp_path}-{how}-{after}"
    run = subprocess.run(
        [sys.executable, str(script), how, str(after)],
        env={**os.environ, "TEST_MARK": mark, "PORISM_CACHE": "0"},
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert run.returncode == status, run.stderr
    assert run.stderr == ("an error\n" if how == "error" else "")
    end = time.monotonic() + 40
    while (left := relatives(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left


@pytest.mark.slow
def test_the_examples_run() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert result.attempted > 8
    assert result.failed == 0


def test_the_functions_that_were_swapped_out_are_still_there() -> None:
    x = ones(9, 9)
    (kernel,) = porism.kernels(x @ x)
    (before,) = program.compile_kernels([kernel.node])
    tuning_cache.record(kernel.node, porism_backend(), (Upcast("r1", 3),), 1.0, 0.5)
    (after,) = program.compile_kernels([kernel.node])
    assert before.address != after.address


def porism_backend() -> Any:
    from porism.backends.backend_table import native_backend

    return native_backend()
