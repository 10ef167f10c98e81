"""The cache survives: processes are killed while they compile and write, and the next is right.

Each round forks a process that computes some programs and is killed: after a random time, or at a
step of its work with files, such as between the two halves of a write. A second process computes
the same and is let live. It must be right, and every entry it leaves must be sound.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import porism
import porism.backends.llvm.llvm_library
import porism.engine.run.program
import porism.pipeline
from fuzz.search import fresh_seed
from porism.base import file_store as store_module
from porism.base import source_digest
from porism.base.file_store import Store
from porism.base.settings import settings
from porism.tensor.jit.jit import Jitted
from porism.tensor.jit.stored_replay import Content

PROGRAMS: Final = 3
"""That one process computes."""

ROOM: Final = 150_000
"""Bytes of the cache: what ten processes keep, about."""

STEPS: Final = ("mkdir", "mkstemp", "write", "replace", "utime", "unlink", "scandir")
"""Where a process works with files."""

Array = Any


def program(number: int) -> tuple[Array, Array]:
    """A small computation of whole numbers, and what it must give; all numbers differ in kind."""
    rows, columns = 3 + number % 5, 4 + number // 5 % 7
    data = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns) - number
    x = porism.asarray(data)
    found = ((x * (number + 2)).sum(1) + x.max(1) * x[:, 1]) * 3 - number
    expected = ((data * (number + 2)).sum(1) + data.max(1) * data[:, 1]) * 3 - number
    return found.numpy(), expected


def stored_function(number: int) -> tuple[Array, Array]:
    """What a jitted function gives that is found on disk by its content, and what it must give."""
    rows = 2 + number % 6
    data = np.arange(rows * 64, dtype=np.float32).reshape(rows, 64) % (7 + number % 3)
    weights = (np.arange(64 * 32, dtype=np.float32).reshape(64, 32) + number) % 5
    held = porism.asarray(weights)
    content = Content(f"fuzz {number}", lambda: "a note", lambda note: None)
    function = Jitted(lambda x: (x @ (held * 2) - number,), content=content)
    return function(porism.asarray(data))[0].numpy(), data @ (2 * weights) - number


def work(first: int) -> bool:
    """Compute some programs; whether all are right."""
    numbers = range(first, first + PROGRAMS)
    return all(np.array_equal(*kind(n)) for n in numbers for kind in (program, stored_function))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


class _Halves:
    """A file of which a write is cut in two."""

    def __init__(self, file: Any, step: Callable[[], None]) -> None:
        self.file = file
        self.step = step

    def __enter__(self) -> _Halves:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def write(self, data: bytes) -> None:
        half = len(data) // 2
        self.file.write(data[:half])
        self.file.flush()
        self.step()
        self.file.write(data[half:])


def dies_at(wanted: str, count: int) -> None:
    """From now on, this process ends at the `count`-th step of a kind."""
    left = [count]

    def step() -> None:
        left[0] -= 1
        if left[0] <= 0:
            die()

    def around(function: Any) -> Any:
        def stepping(*arguments: Any, **options: Any) -> Any:
            step()
            result = function(*arguments, **options)
            step()
            return result

        return stepping

    if wanted == "write":

        def open_in_halves(*arguments: Any, **options: Any) -> Any:
            file = builtins.open(*arguments, **options)  # noqa: SIM115 - the user closes it
            return _Halves(file, step) if "wb" in arguments else file

        store_module.open = open_in_halves  # type: ignore[attr-defined]
    else:
        owner: Any = tempfile if wanted == "mkstemp" else os
        setattr(owner, wanted, around(getattr(owner, wanted)))


def forked(action: Callable[[], bool]) -> int:
    """A process of its own that does something and ends; its number."""
    number = os.fork()
    if number == 0:
        status = 2
        try:
            status = 0 if action() else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return number


def ended(number: int) -> int:
    """How a process has ended: its status, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


class Trial:
    """Rounds in one folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.first = 0
        """The first program of the last round, which is likely to be there."""
        self.seconds = 1.0
        """What a process needs that nobody kills."""
        self.kills = {"at a time": 0, **dict.fromkeys(STEPS, 0)}

    def measure(self) -> None:
        begin = time.perf_counter()
        assert ended(forked(lambda: work(10_000))) == 0, "it is wrong even when nobody kills it"
        self.seconds = time.perf_counter() - begin

    def round(self) -> None:
        if self.random.random() < 0.2:
            shutil.rmtree(self.folder, ignore_errors=True)
        known = self.random.random() < 0.4
        first = self.first if known else self.random.randrange(5000)
        self.first = first
        victim = self.killed_at_a_step if self.random.random() < 0.5 else self.killed_at_a_time
        how = victim(first)
        assert all(self.whole()), f"an entry is damaged after a process was killed {how}"
        status = ended(forked(lambda: work(first)))
        assert status == 0, f"status {status} after a process was killed {how}"
        assert self.whole(), "nothing was kept"
        assert all(self.whole()), f"an entry is damaged in the run after one was killed {how}"

    def killed_at_a_time(self, first: int) -> str:
        number = forked(lambda: work(first))
        delay = self.random.uniform(0, 1.1 * self.seconds)
        time.sleep(delay)
        os.kill(number, signal.SIGKILL)
        if ended(number) < 0:
            self.kills["at a time"] += 1
        return f"after {delay:.3f} s, programs from {first}"

    def killed_at_a_step(self, first: int) -> str:
        step, count = self.random.choice(STEPS), self.random.randrange(1, 12)

        def victim() -> bool:
            dies_at(step, count)
            return work(first)

        status = ended(forked(victim))
        assert status in (0, -signal.SIGKILL), f"status {status} before step {count} of {step}"
        self.kills[step] += status < 0
        return f"at step {count} of {step}, programs from {first}"

    def whole(self) -> list[bool]:
        """For each entry, whether it is as it was written."""
        kept = Store(self.folder, ROOM)
        entries = [entry for entry in kept.entries() if entry.finished]
        return [kept.peek(entry.kind, entry.path.name) is not None for entry in entries]


@contextlib.contextmanager
def trial(seed: int) -> Iterator[Trial]:
    """A folder of its own, where there is so little room that entries are removed as well."""
    assert porism.asarray  # which is loaded now, not in each process
    with tempfile.TemporaryDirectory(prefix="porism-") as name:
        folder = Path(name, "cache")
        code = source_digest.digest() or "edited while this runs"
        source_digest.digest = lambda: code  # type: ignore[assignment]
        source_digest.tracing_digest = lambda: code  # type: ignore[assignment]
        store_module._stores[folder, 1 << 20] = Store(folder, ROOM)
        with settings.override(cache=True, cache_dir=str(folder), cache_mb=1, threads=1):
            found = Trial(folder, seed)
            found.measure()
            yield found


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev fuzz cache", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long at most (default 1)")
    parser.add_argument("--kills", type=int, default=10**9, help="end after so many kills")
    parser.add_argument("--seed", type=int, help="where to begin, to repeat an earlier run")
    options = parser.parse_args()
    seed = fresh_seed() if options.seed is None else options.seed
    end = time.monotonic() + 60 * options.minutes
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    # no thread that draws: a process that forks has only one
    progress = Progress(*columns, console=Console(stderr=True), auto_refresh=False)
    with trial(seed) as found, progress:
        bar = progress.add_task("cache", total=60 * options.minutes)
        while time.monotonic() < end and sum(found.kills.values()) < options.kills:
            found.round()
            done = 60 * options.minutes - max(end - time.monotonic(), 0)
            shown = f"cache: {sum(found.kills.values())} kills, seed {seed}"
            progress.update(bar, completed=done, description=shown, refresh=True)
    total = sum(found.kills.values())
    print(f"cache: {total} kills from seed {seed}, the next run was always right: {found.kills}")


if __name__ == "__main__":
    main()
