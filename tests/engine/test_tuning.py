"""Kernels are tuned in processes of their own, whatever candidates do there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import porism
from porism.backends.backend_table import BACKENDS
from porism.base.settings import settings
from porism.engine.run import program
from porism.engine.tune import tuning, tuning_cache
from porism.engine.tune.kernel_trial import (
    CompiledTrial,
    largest_difference,
    parameters,
    random_values,
    reference_result,
    tolerance,
)
from porism.engine.tune.worker_pool import Job, WorkerFault, WorkerPool
from porism.ir.node import UOp
from porism.ir.text.serialization import to_text
from porism.optimize.actions.action_serialization import write_actions
from porism.optimize.search.alternative_plans import alternatives
from porism.optimize.search.beam_search import beam_search
from porism.optimize.strategy import heuristic
from porism.pipeline import optimize_kernel, unscheduled_kernel
from tests.engine import faulty_worker
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
LLVM = BACKENDS["llvm"]
FAULTY = "tests.engine.faulty_worker"

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no alarms")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(tuning, "_considered", set())
    tuning_cache.forget_in_memory()
    with settings.override(cache=False, check=False):
        yield
    tuning_cache.forget_in_memory()


def product(rows: int = 24, terms: int = 32, columns: int = 48) -> UOp:
    shapes = ((rows, terms), (terms, columns))
    a, b = (porism.asarray(np.ones(s, np.float32)) for s in shapes)
    (kernel,) = porism.kernels(a @ b)
    node: UOp = kernel.node
    return node


def is_right(kernel: UOp, actions: Any) -> bool:
    """Whether a kernel computes what the evaluator does, after some actions."""
    generator = np.random.default_rng(3)
    data = {
        number: random_values(generator, pointer.dtype.element, pointer.dtype.size)
        for number, pointer in parameters(kernel).items()
    }
    wanted = reference_result(kernel, data, {})
    CompiledTrial(optimize_kernel(kernel, LLVM.target(), actions=actions), LLVM).run(data, {})
    return largest_difference(wanted, data[0])[0] <= tolerance(wanted)


def compiling(text: str, actions: list[object] | None = None) -> Job:
    return {"job": "compile", "kernel": text, "actions": actions}


# -- the worker pool -------------------------------------------------------------------------------


def test_a_worker_pool_answers_every_job() -> None:
    texts = [to_text(product(8, 8, 4)), to_text(product(8, 8, 8)), "none"]
    with WorkerPool(2) as pool:
        answers = dict(pool.run_jobs([compiling(text) for text in texts], 20))
    for number in (0, 1):
        answer = answers[number]
        assert isinstance(answer, dict)
        assert sorted(answer) == ["buffers", "code", "parallel", "variables"]
    assert answers[2] == {"error": "expected a node's number such as %0, found 'n'"}
    assert pool.replaced == 0


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_the_others_go_on() -> None:
    every: list[list[object]] = [[["Thread", {"axis": f"r{n}"}]] for n in range(200)]
    bad = [each for each in every if faulty_worker.fault_of(each) in ("compiler", "leave")]
    lists = [*bad[:2], *every[:20]]
    jobs = [compiling(to_text(product()), actions) for actions in lists]
    dying = [n for n, each in enumerate(lists) if faulty_worker.fault_of(each) == "compiler"]
    assert dying
    with WorkerPool(2, command=FAULTY) as pool:
        answers = dict(pool.run_jobs(jobs, 20))
    assert [answers[n] for n in dying] == [WorkerFault("crashed, SIGSEGV")] * len(dying)
    left = [n for n, each in enumerate(lists) if faulty_worker.fault_of(each) == "leave"]
    assert [answers[n] for n in left] == [WorkerFault("ended with status 3")] * len(left)
    assert pool.replaced == len(dying) + len(left)
    assert len(answers) == len(jobs)


def test_a_job_past_its_limit_is_killed() -> None:
    kernel = product()
    texts = [to_text(faulty_worker.spoiled(kernel, "hang")), to_text(kernel)]
    with WorkerPool(1) as compilers, WorkerPool(1) as timers:
        (_, made), (_, sound) = compilers.run_jobs([compiling(text, []) for text in texts], 20)
        assert isinstance(
            timers.run_opening_job({"job": "open", "kernel": texts[1], "binary": sound}, 20), dict
        )
        ((_, answer),) = timers.run_jobs([{"job": "time", "binary": made, "bar": 1.0}], 0.3)
        assert answer == WorkerFault("hung")
        ((_, answer),) = timers.run_jobs([{"job": "time", "binary": sound, "bar": 1.0}], 5)
        assert isinstance(answer, dict)
        assert answer["ratio"] > 0


def test_workers_exit_when_their_pool_is_gone() -> None:
    pool = WorkerPool(1)
    list(pool.run_jobs([compiling("")], 20))
    (worker,) = pool._workers
    assert worker.process.stdin is not None
    worker.process.stdin.close()  # as when this process ends
    assert worker.process.wait(PATIENCE) == 0
    pool.close()


# -- a search over candidates of which some are bad ------------------------------------------------


FOUND = {
    "crashed, SIGSEGV while it was compiled",
    "ended with status 3 while it was compiled",
    "could not be compiled",
    "crashed, SIGSEGV while it was run",
    "hung while it was run",
    "gave a wrong result",
}


@pytest.mark.slow
def test_200_candidates_of_which_some_crash_hang_or_are_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuning, "RUN_SECONDS", 0.25)
    kernel = product()
    target = LLVM.target()
    base = unscheduled_kernel(kernel, target)
    start = heuristic.choose_actions(base, target)
    with WorkerPool(2, command=FAULTY) as compilers, WorkerPool(1, command=FAULTY) as timers:
        tuner = tuning._KernelTuner(kernel, LLVM, compilers, timers)
        tuning._compile_baselines([tuner], compilers)
        tuner.open()
        assert not tuner.error
        result = beam_search(
            base, target, start, tuner.before, tuner.measure,
            width=6, go_on=lambda result: result.measured < 200 or not set(result.faults) >= FOUND,
            plans=alternatives(base, target, start), restarts=[()],
        )  # fmt: skip
        actions, before, after = tuner.pick_fastest(result, start)
    assert result.measured >= 200
    assert set(result.faults) >= FOUND
    assert compilers.replaced + timers.replaced > 5
    assert after <= before
    for _, kept in result.best:
        assert faulty_worker.fault_of(write_actions(kept)) is None or kept == start
    assert is_right(kernel, actions)


@pytest.mark.slow
def test_the_heuristics_kernel_is_kept_if_nothing_is_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuning, "KEEP_RATIO", 0.0)
    kernel = product()
    (report,) = tuning.tune([kernel], LLVM, width=2, seconds=2)
    target = LLVM.target()
    assert report.actions == heuristic.choose_actions(unscheduled_kernel(kernel, target), target)
    assert report.before == report.after


def test_a_kernel_that_cannot_be_run_is_left_alone() -> None:
    kernel = faulty_worker.spoiled(product(), "crash")
    (report,) = tuning.tune([kernel], LLVM, width=2, seconds=2)
    assert report.error == "crashed, SIGSEGV"
    assert not tuning_cache.known_actions([kernel], LLVM)


@pytest.mark.slow
def test_several_kernels_share_the_time_and_small_ones_are_left() -> None:
    large, small = product(96, 256, 96), product(2, 2, 2)
    begin = time.monotonic()
    made = tuning.tune([large, small, large], LLVM, width=2, seconds=2)
    assert [report.flops for report in made] == [2 * 96 * 256 * 96]
    assert time.monotonic() - begin < 60
    assert tuning.tune([large], LLVM, width=2, seconds=100) == []  # it is known


@pytest.mark.slow
def test_what_comes_before_the_search_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []
    compiled = tuning._compile_baselines

    def slowly(*arguments: Any) -> None:
        time.sleep(1.0)
        compiled(*arguments)

    def listen(state: tuning.TuningState) -> None:
        left.append(state.left)
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "_compile_baselines", slowly)
    for seconds, most in ((60.0, 59.0), (1.0, 0.5)):
        with pytest.raises(KeyboardInterrupt):
            tuning.tune([product()], LLVM, width=2, seconds=seconds, listener=listen)
        tuning_cache.forget_in_memory()
        assert left[-1] <= most


@pytest.mark.slow
def test_symbolic_kernels_and_other_types_are_tuned() -> None:
    n = porism.Variable("n", 1, 40)
    x = porism.asarray(np.ones((40, 16), np.float16))[: n.bind(7)]
    for kernel in porism.kernels(x.sum(0), porism.asarray(np.arange(300) % 7).cumsum(0)):
        (report,) = tuning.tune([kernel.node], LLVM, width=2, seconds=1.5)
        assert not report.error
        assert "gave a wrong result" not in report.faults


# -- interrupts ------------------------------------------------------------------------------------


def test_an_interrupt_keeps_the_best_so_far() -> None:
    def listen(state: tuning.TuningState) -> None:
        if state.tried >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuning.tune([product()], LLVM, width=2, seconds=60, listener=listen)
    assert tuning.reports[-1].tried >= 4
    assert tuning_cache.TuningCache(LLVM).get(product()) is not None
    (function,) = program.compile_kernels([product()])
    assert function.address


SCRIPT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from contextlib import contextmanager
import numpy as np
import porism
from porism.engine.tune import tuning_progress

@contextmanager
def progress_bar():
    yield lambda state: state.tried and print("some are tried", flush=True)

tuning_progress.progress_bar = progress_bar
x = porism.asarray(np.ones((64, 64), np.float32))
(x @ x).realize()
"""


@pytest.mark.slow
def test_control_c_ends_a_program_that_is_being_tuned(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, "-m", "porism", "tune", "--seconds", "100", str(script)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PORISM_CACHE": "1", "PORISM_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "some are tried\n"
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    assert "candidates" in out, errors
    assert not errors


# -- the settings ----------------------------------------------------------------------------------


def test_new_kernels_are_tuned_when_the_setting_asks_for_it() -> None:
    x = porism.asarray(np.ones((40, 40), np.float32))
    before = len(tuning.reports)
    with settings.override(beam_seconds=1):
        result = (x @ x + 1).realize(beam=2)
    assert len(tuning.reports) == before + 1
    assert (result.numpy() == 41).all()
    assert (x @ x + 1).realize(beam=2).shape == (40, 40)
    assert len(tuning.reports) == before + 1  # it is known


@pytest.mark.slow
def test_nobody_waits_for_a_tuning_in_another_thread() -> None:
    done: list[float] = []

    def other() -> None:
        done.append((porism.asarray(np.ones(1000, np.float32)) * 3.5).sum().item())

    def listen(state: tuning.TuningState) -> None:
        if not done:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join(PATIENCE)

    tuning.tune([product()], LLVM, width=2, seconds=1, listener=listen)
    assert done == [3500.0]


@pytest.mark.parametrize(
    ("end", "status", "message"),
    [
        ("sys.exit('a message')", 1, "a message\n"),
        pytest.param("sys.exit(3)", 3, "", marks=pytest.mark.slow),
        pytest.param("pass", 0, "", marks=pytest.mark.slow),
    ],
)
def test_a_tuned_program_ends_as_it_would_without(
    tmp_path: Path, end: str, status: int, message: str
) -> None:
    script = tmp_path / "program.py"
    script.write_text(f"import sys\n{end}\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "porism", "tune", str(script)],
        capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (status, message)
