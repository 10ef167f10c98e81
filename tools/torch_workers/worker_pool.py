"""Worker pool: processes that take names, one a line, and answer each with one line of JSON.

A process that dies or is silent for too long costs the row of one name; another takes its place.
Rows are appended to a log as they come, and a later run with the same log leaves out its names.
This module needs no torch: the interpreter of the workers may be that of another environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]

Row = dict[str, Any]


class WorkerError(Exception):
    """A worker that does not work at all."""


class Worker:
    """One process, started at its first name."""

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        self.command, self.seconds = list(command), seconds
        self.process: subprocess.Popen[str] | None = None
        self.answered = False

    def ask(self, name: str) -> Row:
        """Return the answer to a name; what became of the process if there is none."""
        if self.process is None or self.process.poll() is not None:
            self.process = start(self.command)
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        silent = threading.Event()

        def stop() -> None:
            silent.set()
            process.kill()

        timer = threading.Timer(self.seconds, stop)
        timer.start()
        try:
            process.stdin.write(name + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        finally:
            timer.cancel()
        if line:
            self.answered = True
            answer: Row = json.loads(line)
            return answer
        code = process.wait()
        self._close_pipes(process)
        if silent.is_set():
            return {"status": "timeout", "why": f"no answer in {self.seconds:.0f} s"}
        if not self.answered:
            raise WorkerError(f"a worker ended with {code} before its first answer")
        return {"status": "crash", "why": f"the process ended with {code}"}

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self._close_pipes(self.process)
            self.process.wait()

    def _close_pipes(self, process: subprocess.Popen[str]) -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not read any more is dropped
                    pipe.close()


def start(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a worker in the root of the tree, with its sources first."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        list(command),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def rows_of(log: Path | None) -> dict[str, Row]:
    """Return the rows of a log by name; a last line that was cut off does not count."""
    rows: dict[str, Row] = {}
    if log is not None and log.exists():
        for line in log.read_text().splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            rows[row["name"]] = row
    return rows


def run_all(
    names: Sequence[str],
    command: Sequence[str],
    *,
    log: Path | None,
    jobs: int,
    seconds: float,
    show: Callable[[Row, int, int], None],
) -> list[Row]:
    """Return a row for each name, in order; those of the log first, and each as it comes shown."""
    rows = rows_of(log)
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    missing = [name for name in names if name not in rows]
    for name in missing:
        waiting.put(name)
    lock = threading.Lock()
    broken: list[WorkerError] = []
    done = 0

    def work() -> None:
        nonlocal done
        worker = Worker(command, seconds)
        while True:
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                break
            try:
                row = {"name": name, **worker.ask(name)}
            except WorkerError as error:
                broken.append(error)
                break
            with lock:
                rows[name] = row
                done += 1
                if log is not None:
                    with log.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                show(row, done, len(missing))
        worker.close()

    threads = [threading.Thread(target=work) for _ in range(max(1, jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if broken:
        raise broken[0]
    return [rows[name] for name in names if name in rows]


def answer_names(answer: Callable[[str], Row]) -> None:
    """Answer names from standard input until it ends: the other side of `Worker.ask`.

    Standard output is kept for the answers: what libraries print goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name = line.strip()
        try:
            row = answer(name)
        except Exception as error:
            row = {"status": "error", "why": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(row) + "\n")
        answers.flush()


def interpreter_with_torch(path: str | None) -> str:
    """Return an interpreter that has torch, or end the program with what to do."""
    python = path or sys.executable
    found = subprocess.run(
        [python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True
    )
    if found.returncode == 0:
        print(f"torch {found.stdout.strip()} of {python}", flush=True)
        return python
    raise SystemExit(
        f"{python} has no torch.\n"
        "Make an environment with `pip install torch==2.13.0 expecttest` and Porism's "
        "dependencies,\nand name its interpreter: --python PATH"
    )
