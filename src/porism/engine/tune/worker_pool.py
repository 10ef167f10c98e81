"""A crew: worker processes that do jobs, and are replaced when they crash or hang.

A worker is a new Python process that runs `porism.engine.tune.tuning_worker`: nothing of the
program that asks is loaded or run in it again, so this works from any script, thread or notebook.
Jobs and answers are lines of JSON on its input and output. A worker whose job takes too long is
killed, and so is every one when its crew is closed; one whose crew is gone finds the end of its
input and leaves.
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
"""What a worker may take to start, on a machine that is busy."""

GRACE_SECONDS: Final = 1.0
"""A worker ends itself when its job takes too long; if it has not by then, it is killed."""

PLAIN: Final = {"beam": 0, "cache": 0, "debug": 0, "trace": 0, "verify": 0, "progress": 0}
"""Settings that workers have a value of their own for."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no answer."""

    what: str


class Worker:
    """One process, and a thread that reads its answers."""

    def __init__(self, answers: queue.SimpleQueue[tuple[Worker, str]], command: str, nice: int):
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", command, str(nice)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if settings.debug >= 2 else subprocess.DEVNULL,
            env=_environment(),
            text=True,
            encoding="utf-8",
            **_apart(),
        )
        self.job: int | None = None
        """Which job it does; the opening job has the number -1."""
        self.until = 0.0
        self.fresh = True
        self._answers = answers
        threading.Thread(target=self._read, name="porism-crew", daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError, OSError), self.process.stdout as answers:
            for line in answers:
                self._answers.put((self, line))
        self._answers.put((self, ""))

    def ask(self, number: int, job: Job, limit: float) -> None:
        self.job = number
        self.until = time.monotonic() + limit + GRACE_SECONDS + START_SECONDS * self.fresh
        self.fresh = False
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # if it is gone, the end of its answers says so
            self.process.stdin.write(json.dumps({**job, "limit": limit}) + "\n")
            self.process.stdin.flush()

    def end(self) -> None:
        """Kill it; its reader finds the end of the answers."""
        with contextlib.suppress(OSError):
            self.process.kill()
        with contextlib.suppress(OSError, ValueError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS)


class Crew:
    """Workers that share jobs. One thread at a time uses a crew."""

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
        """Workers that crashed or were killed."""
        self._command = command
        self._nice = nice
        self._answers: queue.SimpleQueue[tuple[Worker, str]] = queue.SimpleQueue()
        self._workers: list[Worker] = []
        self._opening: tuple[Job, float] | None = None
        self._stopped = False

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all workers."""
        while self._workers:
            self._workers.pop().end()

    def stop(self) -> None:
        """End all workers, from another thread than that which uses the crew."""
        self._stopped = True
        for worker in list(self._workers):
            worker.end()

    def open(self, job: Job, limit: float) -> Answer | Fault:
        """A job that the one worker does now, and one that replaces it before others."""
        assert self.size == 1, "the others would not do it"
        self._opening = None
        (answer,) = [found for _, found in self.each([job], limit)]
        self._opening = (job, limit)
        return answer

    def each(self, jobs: Sequence[Job], limit: float) -> Iterator[tuple[int, Answer | Fault]]:
        """The answers to some jobs with their numbers, in the order in which they come."""
        waiting = list(range(len(jobs)))[::-1]
        busy: list[Worker] = []
        try:
            while waiting or busy:
                for worker in self._idle(busy, len(waiting)):
                    number = waiting.pop()
                    worker.ask(number, jobs[number], limit)
                    busy.append(worker)
                for worker, answer in self._next(busy):
                    busy.remove(worker)
                    assert worker.job is not None
                    number, worker.job = worker.job, None
                    if isinstance(answer, Fault):
                        self._workers.remove(worker)
                        worker.end()
                        self.replaced += 1
                    yield number, answer
        finally:
            for worker in busy:  # what they would answer is not wanted any more
                self._workers.remove(worker)
                worker.end()

    def _idle(self, busy: Sequence[Worker], wanted: int) -> list[Worker]:
        if self._stopped:
            raise PorismError("the workers were stopped", why="nobody waits for what they do")
        idle = [worker for worker in self._workers if worker not in busy]
        while len(idle) < wanted and len(self._workers) < self.size:
            worker = Worker(self._answers, self._command, self._nice)
            self._workers.append(worker)
            if self._opening is None or self._opened(worker):
                idle.append(worker)
        return idle[:wanted]

    def _opened(self, worker: Worker) -> bool:
        """Have a new worker do the opening job."""
        assert self._opening is not None
        worker.ask(-1, *self._opening)
        while True:
            for found, answer in self._next([worker], alone=True):
                if found is worker:
                    worker.job = None
                    if isinstance(answer, Fault):
                        raise PorismError(
                            "a worker process cannot be started again",
                            why=answer.what,
                            fix="try again when the machine is less busy",
                        )
                    return True

    def _next(
        self, busy: Sequence[Worker], *, alone: bool = False
    ) -> list[tuple[Worker, Answer | Fault]]:
        """The next answer, or those that are late."""
        now = time.monotonic()
        try:
            first = min(worker.until for worker in busy)
            worker, line = self._answers.get(timeout=max(first - now, 0.0))
        except queue.Empty:
            now = time.monotonic()
            return [(w, Fault("hung")) for w in busy if w.until <= now]
        if worker not in busy:
            if alone and line and worker.job is not None:
                self._answers.put((worker, line))  # of another, who is asked for later
            return []
        if not line:
            return [(worker, Fault(_ended(worker.process)))]
        try:
            answer = json.loads(line)
        except ValueError:
            return [(worker, Fault("answered nonsense"))]
        return [(worker, answer if isinstance(answer, dict) else Fault("answered nonsense"))]


def _ended(process: subprocess.Popen[str]) -> str:
    """How a process ended, in words.

    A worker whose job takes too long ends itself by its alarm.
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
    """That of this process, with the settings in force here."""
    values = {s.variable: s.text(PLAIN.get(s.name, s.value())) for s in TABLE}
    paths = [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, **values, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _apart() -> dict[str, Any]:
    """So that Ctrl-C in a terminal reaches this process alone."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"process_group": 0}
