"""Workers: processes that run programs, so that one that crashes or hangs is a finding.

The parent gives each worker the number of a block of programs; a worker says which program it
begins, what it found, and when the block is done. Programs follow from the seed and their number.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from random import Random
from typing import Any, Final

from fuzz.program.generate import Program, program
from fuzz.program.run import WAYS, Finding, How, check, chosen
from fuzz.program.shrink import script, shrunk
from fuzz.program.steps import Input

BLOCK: Final = 25
"""Programs that are given to a worker at once."""
LIFE: Final = 1500
"""Programs after which a worker is replaced: what a process keeps of each kernel adds up."""
COLLECTED: Final = (200_000, 20, 20)
"""Objects after which garbage is collected: less often than usual, as little of it is left."""
HANG: Final = 600.0
"""Seconds after which a program hangs; the slowest ones take some, more on a busy machine."""
SHRINK: Final = 20.0
"""Seconds for shrinking a finding."""
SHRUNK: Final = 6
"""Findings of one kind that a worker shrinks; the next ones are only counted."""

_context = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True)
class Run:
    """Which programs are run, until when, and in which way, if not in all."""

    seed: int
    first: int
    count: int | None
    end: float
    way: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A program that fails."""

    number: int
    kind: str
    group: str
    script: str


@dataclass
class Findings:
    """What a run has found so far."""

    count: int = 0
    """Programs that were run."""
    all: dict[int, Case] = field(default_factory=dict)
    """The cases by the number of their program."""

    def groups(self) -> dict[str, list[Case]]:
        """The cases with the same kind of fault and the same functions."""
        found = defaultdict(list)
        for _, case in sorted(self.all.items()):
            found[case.group].append(case)
        return dict(found)


def made(seed: int, number: int, way: str | None = None) -> tuple[Program, How]:
    """The program of this number, and how it is run: at random, but for what `way` says."""
    random = Random(f"{seed}/{number}")
    found = program(random)
    how = chosen(random, found)
    return found, replace(how, **WAYS[way]) if way else how


def case_of(number: int, found: Program, how: How, finding: Finding, group: str = "") -> Case:
    """A case, as it is reported."""
    names = sorted({step.name for step in found.steps if not isinstance(step, Input)})
    ways = [name for name in ("jit", "verify", "fast_math") if getattr(how, name)]
    ways += ["actions"] if how.actions is not None else []
    ways += [how.backend] if how.backend != "llvm" else []
    group = group or f"{finding.kind} in {' '.join([*ways, *names])}"
    return Case(number, finding.kind, group, script(found, how, finding))


# -- a worker --------------------------------------------------------------------------------------


def _work(pipe: Connection, run: Run) -> None:
    """Run blocks of programs until there are no more."""
    gc.set_threshold(*COLLECTED)
    kinds: Counter[str] = Counter()
    with contextlib.suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while True:
            numbers = pipe.recv()
            for number in numbers:
                pipe.send(("begin", number))
                _try(pipe, run, number, kinds)
            pipe.send(("done", len(numbers)))


def _try(pipe: Connection, run: Run, number: int, kinds: Counter[str]) -> None:
    try:
        found, how = made(run.seed, number, run.way)
    except Exception as error:  # a fault of the generator, or of its oracle
        kind = f"no program: {type(error).__name__}"
        pipe.send(("found", Case(number, kind, kind, f"# {error!r} while it is generated")))
        return
    finding = check(found, how)
    if finding is None:
        return
    kinds[finding.kind] += 1
    later = f"{finding.kind}, not shrunk"
    pipe.send(("found", case_of(number, found, how, finding, later)))
    seconds = min(SHRINK, (run.end - time.monotonic()) / 2)
    if kinds[finding.kind] <= SHRUNK and seconds > 0:
        small = shrunk(found, how, finding, check, seconds)
        pipe.send(("found", case_of(number, *small)))


def _in_a_child(found: Program, how: How) -> Finding | None:
    """What is wrong with a program that may end the process that runs it."""
    receiver, sender = _context.Pipe(duplex=False)
    child = _context.Process(target=lambda: sender.send(check(found, how)))
    child.start()
    sender.close()
    try:
        if not receiver.poll(HANG):
            child.kill()
            return Finding("hang", f"it does not end within {HANG:.0f} s")
        result: Finding | None = receiver.recv()
        return result
    except EOFError:
        child.join()
        return Finding("crash", f"the process ends with status {child.exitcode}")
    finally:
        child.join()


def _shrink_crash(pipe: Connection, run: Run, number: int, kind: str) -> None:
    """Shrink a program that ended its worker, each candidate in a process of its own."""
    found, how = made(run.seed, number, run.way)
    finding = Finding(kind, f"a worker: {kind}")
    pipe.send(("found", case_of(number, found, how, finding)))
    seconds = min(3 * SHRINK, (run.end - time.monotonic()) / 2)
    if kind == "crash" and seconds > 0 and _in_a_child(found, how) is not None:
        small = shrunk(found, how, finding, _in_a_child, seconds)
        pipe.send(("found", case_of(number, *small)))


# -- the parent ------------------------------------------------------------------------------------


@dataclass
class Worker:
    """A process, the block that it works on, and since when it works on a program."""

    process: BaseProcess
    pipe: Connection
    life: int = 0
    number: int | None = None
    since: float = 0.0
    left: list[int] = field(default_factory=list)
    shrinking: bool = False

    @property
    def busy(self) -> bool:
        """Whether there is something to wait for."""
        return bool(self.left) or self.number is not None or self.shrinking

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _started(target: Any, *args: Any) -> Worker:
    ours, theirs = _context.Pipe()
    process = _context.Process(target=target, args=(theirs, *args), daemon=False)
    process.start()
    theirs.close()
    return Worker(process, ours, since=time.monotonic())


def search(run: Run, jobs: int = 0) -> Findings:
    """Run programs until the time is over or all are run; what was found."""
    found = Findings()
    blocks = _blocks(run.first, run.count)
    pool: list[Worker] = []
    told = time.monotonic()
    try:
        for _ in range(jobs or os.cpu_count() or 1):
            worker = _started(_work, run)
            pool.append(worker)
            _give(worker, blocks)
        while time.monotonic() < run.end and any(worker.busy for worker in pool):
            ready = connection.wait([w.pipe for w in pool], 0.5)
            for worker in list(pool):
                if worker.pipe in ready:
                    _hear(worker, pool, found, blocks, run)
                elif worker.number is not None and time.monotonic() - worker.since > HANG:
                    _lost(worker, pool, "hang", blocks, run)
            if time.monotonic() - told > 30:
                told = time.monotonic()
                print(f"programs: {found.count}, findings: {len(found.all)}", file=sys.stderr)
    except KeyboardInterrupt:
        pass
    finally:
        for worker in pool:
            worker.stop()
    return found


def _blocks(first: int, count: int | None) -> Iterator[list[int]]:
    """The numbers of programs, in blocks."""
    number = first
    while count is None or number < first + count:
        last = number + BLOCK if count is None else min(number + BLOCK, first + count)
        yield list(range(number, last))
        number = last


def _give(worker: Worker, blocks: Iterator[list[int]]) -> None:
    worker.left = next(blocks, [])
    if worker.left:
        worker.pipe.send(worker.left)


def _hear(worker: Worker, pool: list[Worker], found: Findings, blocks: Iterator[list[int]],
          run: Run) -> None:  # fmt: skip
    """Take the next message of a worker."""
    try:
        what, content = worker.pipe.recv()
    except (EOFError, ConnectionResetError):
        _lost(worker, pool, "crash", blocks, run)
        return
    if what == "begin":
        worker.number, worker.since = content, time.monotonic()
        worker.left = [n for n in worker.left if n > content]
        found.count += 1
    elif what == "found":
        if content.number not in found.all:
            print(f"programs: program {content.number}: {content.kind}", file=sys.stderr)
        found.all[content.number] = content
        worker.since = time.monotonic()
    else:
        worker.number, worker.life = None, worker.life + content
        if worker.life >= LIFE:
            worker.stop()
            pool.remove(worker)
            worker = _started(_work, run)
            pool.append(worker)
        _give(worker, blocks)


def _lost(worker: Worker, pool: list[Worker], kind: str, blocks: Iterator[list[int]],
          run: Run) -> None:  # fmt: skip
    """A worker has ended, or does not answer: its program is a finding, the rest is run again."""
    number, left = worker.number, worker.left
    worker.stop()
    pool.remove(worker)
    if number is None:  # one that shrank a crash is done
        return
    shrinker = _started(_shrink_crash, run, number, kind)
    shrinker.shrinking = True
    pool.append(shrinker)
    successor = _started(_work, run)
    pool.append(successor)
    successor.left = left
    if left:
        successor.pipe.send(left)
    else:
        _give(successor, blocks)
