"""Tuning: better loops for kernels, found by compiling and timing candidates on this machine.

Candidates are compiled by several processes at once, and then timed one by one in a process of its
own while the others wait: so one that crashes, hangs or computes something else is only dropped. At
the end the best ones meet the heuristic's kernel by turns, and only what is clearly faster is kept.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.backends.backend_table import Backend
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.engine.profile.work_counts import name_of, work_of
from porism.engine.tune import tuning_cache
from porism.engine.tune.worker_pool import Answer, Crew, Fault, Job
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.serialization import to_text
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Actions
from porism.optimize.actions.action_serialization import write_actions
from porism.optimize.search.alternative_plans import alternatives
from porism.optimize.search.beam_search import Found, Result, search
from porism.optimize.strategy import heuristic
from porism.pipeline import unscheduled_kernel

COMPILE_SECONDS: Final = 10.0
"""What compiling one candidate may take."""

RUN_SECONDS: Final = 2.0
"""What checking and timing a candidate may take, beside some runs as long as the heuristic's."""

RUNS: Final = 40

OPEN_SECONDS: Final = 60.0
"""What making data for a kernel may take."""

CLEARLY: Final = 0.985
"""The part of the heuristic's time that a candidate takes, at most, to be kept."""

LAST_SECONDS: Final = 6.0
"""What is left of the time for the best ones to meet, at most."""

LEAST: Final = 0.5
"""The part of the time that is for searching, however long it takes to begin."""

SHARE: Final = 0.01
"""A kernel that takes less than this part of a program is left as it is."""


@dataclass(frozen=True, slots=True)
class Report:
    """What tuning a kernel has come to."""

    name: str
    flops: int
    before: float
    after: float
    actions: Actions
    tried: int = 0
    pruned: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)
    """Why candidates were dropped, and how many."""
    trouble: str = ""
    """Why the kernel could not be tuned at all."""

    @property
    def gflops(self) -> float:
        return self.flops / self.after * 1e-9 if self.after else 0.0


@dataclass(slots=True)
class State:
    """How far tuning has come, for those who watch."""

    name: str
    number: int
    """Of the kernel."""
    count: int
    flops: int
    tried: int
    best: float
    left: float
    """Seconds that are left for this kernel."""


Listener = Callable[[State], None]

reports: Final[list[Report]] = []
"""Of all kernels that were tuned in this process, in order."""


def tune(
    kernels: Sequence[UOp],
    backend: Backend,
    *,
    width: int,
    seconds: float,
    nice: int = 0,
    listener: Listener | None = None,
) -> list[Report]:
    """Tune kernels that are not in the tuning cache, within some seconds for all together.

    One that is there several times counts as often. Whoever interrupts keeps what was found.
    """
    known = tuning_cache.Tunings(backend)
    counts = Counter(k for k in kernels if not (known and known.get(k)))
    if not counts or backend.objects is None:
        return []
    begin = time.monotonic()
    cores = os.cpu_count() or 1
    made: list[Report] = []
    with Crew(cores, nice=nice) as compilers, Crew(1, nice=nice) as timers:
        tuners = [_Tuner(kernel, backend, compilers, timers) for kernel in counts]
        try:
            _compile_all(tuners, compilers)
            for tuner in tuners:
                tuner.open()
            alone = len(tuners) == 1  # then it is open already
            weights = {id(t): 1.0 if alone else t.before * counts[t.kernel] for t in tuners}
            total = sum(weights.values())
            tuners = [t for t in tuners if weights[id(t)] >= SHARE * total]
            tuners.sort(key=lambda t: -weights[id(t)])
            end = max(begin + seconds, time.monotonic() + seconds * LEAST)
            for number, tuner in enumerate(tuners):
                left = end - time.monotonic()
                if left <= 0:
                    break
                rest = sum(weights[id(t)] for t in tuners[number:]) or 1.0
                until = time.monotonic() + left * weights[id(tuner)] / rest
                watch = _watcher(tuner, number, len(tuners), until, listener)
                if not alone:
                    tuner.open()
                report, interrupted = tuner.run(width, until, watch)
                made.append(report)
                if interrupted:
                    raise KeyboardInterrupt
        finally:
            reports.extend(made)
    return made


def _watcher(
    tuner: _Tuner, number: int, count: int, until: float, listener: Listener | None
) -> Callable[[Found], None]:
    def watch(found: Found) -> None:
        if listener is not None:
            left = until - time.monotonic()
            listener(
                State(tuner.name, number, count, tuner.flops, found.tried, found.seconds, left)
            )

    return watch


class _Tuner:
    """One kernel, and the processes that compile and time its candidates."""

    def __init__(self, kernel: UOp, backend: Backend, compilers: Crew, timers: Crew) -> None:
        self.kernel = kernel
        self.backend = backend
        self.target = backend.target()
        self.compilers = compilers
        self.timers = timers
        self.text = to_text(kernel)
        self.name = name_of(kernel)
        variables = {str(n.arg[0]): int(n.vmax) for n in toposort(kernel) if n.op is ops.VARIABLE}
        self.flops = work_of(kernel, variables).flops
        self.before = 0.0
        """Seconds of the heuristic's kernel; 0 if it could not be timed."""
        self.trouble = ""
        self.made: Answer = {}
        """The heuristic's kernel in machine code."""

    def open(self) -> None:
        """Have the heuristic's kernel run on data, once it is compiled."""
        if not self.trouble:
            job = {"job": "open", "kernel": self.text, "made": self.made}
            answer = self.timers.open(job, OPEN_SECONDS)
            self.trouble = _trouble(answer)
            if isinstance(answer, dict) and not self.trouble:
                self.before = float(answer["seconds"])

    def run(self, width: int, until: float, watch: Callable[[Found], None]) -> tuple[Report, bool]:
        """Search, and keep what was found; whether somebody interrupted."""
        if self.trouble:
            return Report(self.name, self.flops, 0.0, 0.0, (), trouble=self.trouble), False
        base = unscheduled_kernel(self.kernel, self.target)
        start = heuristic.choose_actions(base, self.target)

        last = until - min(LAST_SECONDS, (until - time.monotonic()) / 5)

        def go_on(found: Found) -> bool:
            watch(found)
            return time.monotonic() < last

        found = search(
            base,
            self.target,
            start,
            self.before,
            self.measure,
            width=width,
            go_on=go_on,
            plans=alternatives(base, self.target, start),
            others=[()],
        )
        interrupted, in_time = found.interrupted, time.monotonic() < last
        try:
            actions, before, after = self.decided(found, start)
        except KeyboardInterrupt:  # then what was measured before has to do
            interrupted = True
            actions, before, after = found.actions, found.before, found.seconds
        # If there was no time to find something, there may be more of it another day.
        lasting = after < before or in_time
        tuning_cache.keep(self.kernel, self.backend, actions, before, after, lasting=lasting)
        report = Report(
            self.name, self.flops, before, after, actions, found.tried, found.pruned, found.faults
        )
        if settings.debug >= 1:
            for fault, many in sorted(found.faults.items()):
                text = f"{self.name}: {many} candidates were dropped: {fault}"
                print(f"porism: {text}", file=sys.stderr)
        return report, interrupted

    def measure(self, candidates: Sequence[Actions], bar: float) -> Iterator[tuple[int, Result]]:
        """Compile candidates side by side, then time them one after the other."""
        jobs = [self._compiling(actions) for actions in candidates]
        made: dict[int, Answer] = {}
        for number, answer in self.compilers.each(jobs, COMPILE_SECONDS):
            if isinstance(answer, Fault):
                yield number, Result(None, f"{answer.what} while it was compiled")
            elif "error" in answer:
                yield number, Result(None, "could not be compiled")
            else:
                made[number] = answer
        for number in sorted(made):
            job = {"job": "time", "made": made[number], "bar": bar / self.before}
            ((_, answer),) = self.timers.each([job], self.limit)
            if isinstance(answer, Fault):
                yield number, Result(None, f"{answer.what} while it was run")
            elif "wrong" in answer:
                yield number, Result(None, "gave a wrong result")
            elif "error" in answer:
                yield number, Result(None, "could not be run")
            else:
                seconds = self.before * float(answer["ratio"])
                bar = min(bar, seconds)
                yield number, Result(seconds)

    @property
    def limit(self) -> float:
        """Seconds that a candidate may take in all."""
        return RUN_SECONDS + RUNS * self.before

    def decided(self, found: Found, start: Actions) -> tuple[Actions, float, float]:
        """The best of those that are still ahead when they meet the heuristic's kernel by turns.

        It meets it twice: the best of several was also lucky.
        """
        bar = CLEARLY * self.before
        good = [actions for seconds, actions in found.good if actions != start and seconds < bar]
        jobs = [self._compiling(actions) for actions in good]
        made = dict(self.compilers.each(jobs, COMPILE_SECONDS))
        met = [(self._meet(made[n]), n) for n in sorted(made)]
        for ratio, n in sorted((after / before, n) for (before, after), n in met):
            if ratio < CLEARLY:
                before, after = self._meet(made[n])
                if after < CLEARLY * before:
                    return good[n], before, after
        return start, self.before, self.before

    def _meet(self, made: Answer | Fault) -> tuple[float, float]:
        """The seconds of the heuristic's kernel and of a candidate; without end if it has none."""
        if not isinstance(made, Fault) and "error" not in made:
            ((_, answer),) = self.timers.each([{"job": "duel", "made": made}], 2 * self.limit)
            if not isinstance(answer, Fault) and "error" not in answer:
                return float(answer["before"]), float(answer["after"])
        return self.before, math.inf

    def _compiling(self, actions: Actions) -> Job:
        return {"job": "compile", "kernel": self.text, "actions": write_actions(actions)}


def _compile_all(tuners: Sequence[_Tuner], compilers: Crew) -> None:
    """Compile the kernels of the heuristic side by side."""
    jobs = [{"job": "compile", "kernel": tuner.text, "actions": None} for tuner in tuners]
    for number, answer in compilers.each(jobs, COMPILE_SECONDS):
        tuners[number].trouble = _trouble(answer)
        tuners[number].made = {} if isinstance(answer, Fault) else answer


def _trouble(answer: Answer | Fault) -> str:
    return answer.what if isinstance(answer, Fault) else str(answer.get("error", ""))


_considered: set[tuple[str, UOp]] = set()
"""Kernels that were tuned in this process, or found not to be worth it."""


def tune_new(kernels: Sequence[UOp], backend: Backend, part: float = 1.0) -> list[UOp]:
    """Tune kernels as the settings ask for, before they are first compiled; those now faster.

    It takes a part of the time that the settings allow.
    """
    new = [kernel for kernel in kernels if (backend.name, kernel) not in _considered]
    if not new or not settings.beam or backend.objects is None:
        return []
    _considered.update((backend.name, kernel) for kernel in new)
    from porism.engine.tune.tuning_progress import shown

    try:
        with shown() as listener:
            tune(
                new,
                backend,
                width=settings.beam,
                seconds=part * settings.beam_seconds,
                listener=listener,
            )
    except PorismError as error:
        print(f"porism: kernels are not tuned: {error.what}", file=sys.stderr)
    known = tuning_cache.Tunings(backend)
    found = {kernel: known.get(kernel) for kernel in new}
    return [kernel for kernel, each in found.items() if each and each.after < each.before]
