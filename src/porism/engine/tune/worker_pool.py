"""Worker pool: processes that run jobs, and are replaced when they crash or hang.

A worker is a new Python process that runs `porism.engine.tune.tuning_worker`. It does not import
the user's program, so a pool works from any script, thread or notebook. Jobs and answers are lines
of JSON on standard input and output. A worker is killed when its job exceeds its time limit and
when its pool is closed; if the process of the pool dies, the worker reads the end of its input and
exits.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from porism.base.errors import PorismError
from porism.base.settings import TABLE, settings
from porism.base.source_digest import PACKAGE

Job = Mapping[str, Any]
Answer = dict[str, Any]

START_SECONDS: Final = 60.0
"""Seconds that a worker may take to start on a busy machine; chosen by hand."""

GRACE_SECONDS: Final = 1.0
"""Seconds after the time limit of a job, at which the worker exits, until it is killed."""

WORKER_SETTINGS: Final = {"beam": 0, "cache": 0, "debug": 0, "trace": 0, "verify": 0, "progress": 0}
"""Settings whose value in workers differs from this process."""


@dataclass(frozen=True, slots=True)
class WorkerFault:
    """Why a worker gave no answer."""

    what: str


class Worker:
    """A worker process, and a thread that reads its answers."""

    def __init__(self, answers: queue.SimpleQueue[tuple[Worker, str]], command: str, nice: int):
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", command, str(nice)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if settings.debug >= 2 else subprocess.DEVNULL,
            env=_environment(),
            text=True,
            encoding="utf-8",
            **_own_process_group(),
        )
        self.job: int | None = None
        """The number of the job that it runs, -1 for the opening job; None while idle."""
        self.deadline = 0.0
        self.fresh = True
        self._answers = answers
        threading.Thread(target=self._read, name="porism-worker-pool", daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError, OSError), self.process.stdout as answers:
            for line in answers:
                self._answers.put((self, line))
        self._answers.put((self, ""))

    def send(self, number: int, job: Job, limit: float) -> None:
        self.job = number
        self.deadline = time.monotonic() + limit + GRACE_SECONDS + START_SECONDS * self.fresh
        self.fresh = False
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # if the process is gone, its reader reports that
            self.process.stdin.write(json.dumps({**job, "limit": limit}) + "\n")
            self.process.stdin.flush()

    def kill(self) -> None:
        """Kill the process; its reader finds the end of the answers."""
        with contextlib.suppress(OSError):
            self.process.kill()
        with contextlib.suppress(OSError, ValueError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS)


class WorkerPool:
    """Worker processes that share jobs; used by one thread at a time."""

    def __init__(
        self, size: int, *, command: str = "porism.engine.tune.tuning_worker", nice: int = 0
    ) -> None:
        if not sys.executable:
            raise PorismError(
                "kernels cannot be tuned here",
                why="candidates run in processes of their own, and it is not known which program "
                "this Python is",
                fix="run the program with a Python interpreter",
            )
        self.size = size
        self.replaced = 0
        """How many workers crashed or were killed, and were replaced."""
        self._command = command
        self._nice = nice
        self._answers: queue.SimpleQueue[tuple[Worker, str]] = queue.SimpleQueue()
        self._workers: list[Worker] = []
        self._opening: tuple[Job, float] | None = None
        self._stopped = False

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all workers."""
        while self._workers:
            self._workers.pop().kill()

    def stop(self) -> None:
        """Kill all workers from another thread than the one that uses the pool."""
        self._stopped = True
        for worker in list(self._workers):
            worker.kill()

    def run_opening_job(self, job: Job, limit: float) -> Answer | WorkerFault:
        """Run a job on the only worker now, and on each later replacement before other jobs."""
        assert self.size == 1, "the other workers would not run it"
        self._opening = None
        (answer,) = [result for _, result in self.run_jobs([job], limit)]
        self._opening = (job, limit)
        return answer

    def run_jobs(
        self, jobs: Sequence[Job], limit: float
    ) -> Iterator[tuple[int, Answer | WorkerFault]]:
        """Yield the number and answer of each job, in order of completion."""
        waiting = list(range(len(jobs)))[::-1]
        busy: list[Worker] = []
        try:
            while waiting or busy:
                for worker in self._idle(busy, len(waiting)):
                    number = waiting.pop()
                    worker.send(number, jobs[number], limit)
                    busy.append(worker)
                for worker, answer in self._next_answers(busy):
                    busy.remove(worker)
                    assert worker.job is not None
                    number, worker.job = worker.job, None
                    if isinstance(answer, WorkerFault):
                        self._workers.remove(worker)
                        worker.kill()
                        self.replaced += 1
                    yield number, answer
        finally:
            for worker in busy:  # their answers are not wanted any more
                self._workers.remove(worker)
                worker.kill()

    def _idle(self, busy: Sequence[Worker], wanted: int) -> list[Worker]:
        if self._stopped:
            raise PorismError(
                "the workers were stopped", why="their results are not needed any more"
            )
        idle = [worker for worker in self._workers if worker not in busy]
        while len(idle) < wanted and len(self._workers) < self.size:
            worker = Worker(self._answers, self._command, self._nice)
            self._workers.append(worker)
            if self._opening is None or self._run_opening_job(worker):
                idle.append(worker)
        return idle[:wanted]

    def _run_opening_job(self, worker: Worker) -> bool:
        """Run the opening job on a new worker."""
        assert self._opening is not None
        worker.send(-1, *self._opening)
        while True:
            for answering, answer in self._next_answers([worker], alone=True):
                if answering is worker:
                    worker.job = None
                    if isinstance(answer, WorkerFault):
                        raise PorismError(
                            "a worker process cannot be started again",
                            why=answer.what,
                            fix="try again when the machine is less busy",
                        )
                    return True

    def _next_answers(
        self, busy: Sequence[Worker], *, alone: bool = False
    ) -> list[tuple[Worker, Answer | WorkerFault]]:
        """Return the next answer, or a fault for each worker past its time limit."""
        now = time.monotonic()
        try:
            first = min(worker.deadline for worker in busy)
            worker, line = self._answers.get(timeout=max(first - now, 0.0))
        except queue.Empty:
            now = time.monotonic()
            return [(w, WorkerFault("hung")) for w in busy if w.deadline <= now]
        if worker not in busy:
            if alone and line and worker.job is not None:
                self._answers.put((worker, line))  # of another busy worker, read later
            return []
        if not line:
            return [(worker, WorkerFault(_exit_reason(worker.process)))]
        try:
            answer = json.loads(line)
        except ValueError:
            return [(worker, WorkerFault("answered nonsense"))]
        return [(worker, answer if isinstance(answer, dict) else WorkerFault("answered nonsense"))]


def _exit_reason(process: subprocess.Popen[str]) -> str:
    """Return how a process ended, in words.

    A worker whose job exceeds its limit ends itself by SIGALRM.
    """
    try:
        code = process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        return "closed its output"
    if code >= 0:
        return f"ended with status {code}"
    if code == -getattr(signal, "SIGALRM", 0):
        return "hung"
    try:
        return f"crashed, {signal.Signals(-code).name}"
    except ValueError:
        return f"crashed, signal {-code}"


def _environment() -> dict[str, str]:
    """Return the environment of this process, with the current settings."""
    values = {s.variable: s.text(WORKER_SETTINGS.get(s.name, s.value())) for s in TABLE}
    paths = [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, **values, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _own_process_group() -> dict[str, Any]:
    """Return `Popen` arguments so that Ctrl-C in a terminal reaches only this process."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"process_group": 0}
