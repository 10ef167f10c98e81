"""Tuning: loop schedules of kernels, found by compiling and timing candidates on this machine.

Candidates are compiled by a pool of processes, one for each core, and then timed one by one in
another process while the pool is idle. A candidate that crashes, hangs or computes a wrong result
is dropped. At the end the fastest candidates are timed alternately with the heuristic's version,
and only a candidate that is clearly faster is recorded in the tuning cache.

All constants here were chosen by hand.
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
from porism.engine.profile.compile_progress import observed_task
from porism.engine.profile.work_counts import kernel_name, work_of
from porism.engine.tune import tuning_cache
from porism.engine.tune.search_history import keep_candidates
from porism.engine.tune.worker_pool import Answer, Job, WorkerFault, WorkerPool
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.serialization import to_text
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Actions
from porism.optimize.actions.action_serialization import write_actions
from porism.optimize.search.alternative_plans import alternatives
from porism.optimize.search.beam_search import Measurement, SearchResult, beam_search
from porism.optimize.strategy import heuristic
from porism.pipeline import unscheduled_kernel

COMPILE_SECONDS: Final = 10.0
"""Time limit of compiling one candidate."""

RUN_SECONDS: Final = 2.0
"""Time limit of checking and timing a candidate, beside `RUNS_PER_CANDIDATE` baseline runs."""

RUNS_PER_CANDIDATE: Final = 40
"""Runs of the baseline's length that timing a candidate may take in addition."""

OPEN_SECONDS: Final = 60.0
"""Time limit of making data for a kernel."""

KEEP_RATIO: Final = 0.985
"""The largest time of a candidate, as a part of the heuristic's, that is recorded."""

FINAL_SECONDS: Final = 6.0
"""The most seconds reserved for the final comparison of the fastest candidates."""

MIN_SEARCH_SHARE: Final = 0.5
"""The part of the time reserved for searching, however long the start takes."""

MIN_KERNEL_SHARE: Final = 0.01
"""The part of a program's time below which a kernel is not tuned."""


@dataclass(frozen=True, slots=True)
class TuningReport:
    """The outcome of tuning a kernel: times in seconds, and candidates tried and pruned."""

    name: str
    flops: int
    before: float
    after: float
    actions: Actions
    tried: int = 0
    pruned: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)
    """How many candidates were dropped, by reason."""
    error: str = ""
    """Why the kernel could not be tuned at all."""

    @property
    def gflops(self) -> float:
        return self.flops / self.after * 1e-9 if self.after else 0.0


@dataclass(slots=True)
class TuningState:
    """The progress of tuning, for listeners."""

    name: str
    number: int
    """The position of the kernel among `count` kernels."""
    count: int
    flops: int
    tried: int
    best: float
    left: float
    """Seconds that are left for this kernel."""


Listener = Callable[[TuningState], None]

reports: Final[list[TuningReport]] = []
"""The reports of all kernels that were tuned in this process, in order."""


def tune(
    kernels: Sequence[UOp],
    backend: Backend,
    *,
    width: int,
    seconds: float,
    nice: int = 0,
    listener: Listener | None = None,
) -> list[TuningReport]:
    """Tune kernels that are not in the tuning cache, within some seconds for all of them.

    The time is divided by the share of each kernel in the program's time; `kernels` may repeat a
    kernel. On KeyboardInterrupt the results so far are kept.
    """
    cache = tuning_cache.TuningCache(backend)
    counts = Counter(k for k in kernels if not (cache and cache.get(k)))
    if not counts or backend.objects is None:
        return []
    begin = time.monotonic()
    cores = os.cpu_count() or 1
    finished: list[TuningReport] = []
    with WorkerPool(cores, nice=nice) as compilers, WorkerPool(1, nice=nice) as timers:
        tuners = [_KernelTuner(kernel, backend, compilers, timers) for kernel in counts]
        try:
            _compile_baselines(tuners, compilers)
            for tuner in tuners:
                tuner.open()
            is_only_kernel = len(tuners) == 1  # then its benchmark is open already
            weights = {
                id(t): 1.0 if is_only_kernel else t.before * counts[t.kernel] for t in tuners
            }
            total = sum(weights.values())
            tuners = [t for t in tuners if weights[id(t)] >= MIN_KERNEL_SHARE * total]
            tuners.sort(key=lambda t: -weights[id(t)])
            end_time = max(begin + seconds, time.monotonic() + seconds * MIN_SEARCH_SHARE)
            for number, tuner in enumerate(tuners):
                seconds_left = end_time - time.monotonic()
                if seconds_left <= 0:
                    break
                remaining_weight = sum(weights[id(t)] for t in tuners[number:]) or 1.0
                deadline = time.monotonic() + seconds_left * weights[id(tuner)] / remaining_weight
                show_progress = _progress_callback(tuner, number, len(tuners), deadline, listener)
                if not is_only_kernel:
                    tuner.open()
                report, interrupted = tuner.run(width, deadline, show_progress)
                finished.append(report)
                if interrupted:
                    raise KeyboardInterrupt
        finally:
            reports.extend(finished)
    return finished


def _progress_callback(
    tuner: _KernelTuner, number: int, count: int, until: float, listener: Listener | None
) -> Callable[[SearchResult], None]:
    def show_progress(result: SearchResult) -> None:
        if listener is not None:
            left = until - time.monotonic()
            listener(
                TuningState(
                    tuner.name, number, count, tuner.flops, result.measured, result.seconds, left
                )
            )

    return show_progress


class _KernelTuner:
    """A kernel, and the worker pools that compile and time its candidates."""

    def __init__(
        self, kernel: UOp, backend: Backend, compilers: WorkerPool, timers: WorkerPool
    ) -> None:
        self.kernel = kernel
        self.backend = backend
        self.target = backend.target()
        self.compilers = compilers
        self.timers = timers
        self.text = to_text(kernel)
        self.name = kernel_name(kernel)
        variables = {str(n.arg[0]): int(n.vmax) for n in toposort(kernel) if n.op is ops.VARIABLE}
        self.flops = work_of(kernel, variables).flops
        self.before = 0.0
        """Seconds of the heuristic's version; 0 if it could not be timed."""
        self.error = ""
        self.baseline: Answer = {}
        """The heuristic's version in machine code."""

    def open(self) -> None:
        """Time the heuristic's version as the baseline, once it is compiled."""
        if not self.error:
            job = {"job": "open", "kernel": self.text, "binary": self.baseline}
            answer = self.timers.run_opening_job(job, OPEN_SECONDS)
            self.error = _error_text(answer)
            if isinstance(answer, dict) and not self.error:
                self.before = float(answer["seconds"])

    def run(
        self, width: int, deadline: float, show_progress: Callable[[SearchResult], None]
    ) -> tuple[TuningReport, bool]:
        """Search and record the result; return a report, and whether the user interrupted."""
        if self.error:
            return TuningReport(self.name, self.flops, 0.0, 0.0, (), error=self.error), False
        base = unscheduled_kernel(self.kernel, self.target)
        start = heuristic.choose_actions(base, self.target)

        search_deadline = deadline - min(FINAL_SECONDS, (deadline - time.monotonic()) / 5)

        def go_on(result: SearchResult) -> bool:
            show_progress(result)
            return time.monotonic() < search_deadline

        result = beam_search(
            base,
            self.target,
            start,
            self.before,
            self.measure,
            width=width,
            go_on=go_on,
            plans=alternatives(base, self.target, start),
            restarts=[()],
        )
        keep_candidates(self.kernel, [(self.before, start), *result.history])
        interrupted, in_time = result.interrupted, time.monotonic() < search_deadline
        try:
            actions, before, after = self.pick_fastest(result, start)
        except KeyboardInterrupt:  # then the measurements of the search count
            interrupted = True
            actions, before, after = result.actions, result.start_seconds, result.seconds
        # A search that ran out of time without a result may have more time in another process.
        on_disk = after < before or in_time
        tuning_cache.record(self.kernel, self.backend, actions, before, after, on_disk=on_disk)
        report = TuningReport(
            self.name,
            self.flops,
            before,
            after,
            actions,
            result.measured,
            result.pruned,
            result.faults,
        )
        if settings.debug >= 1:
            for fault, count in sorted(result.faults.items()):
                text = f"{self.name}: {count} candidates were dropped: {fault}"
                print(f"porism: {text}", file=sys.stderr)
        return report, interrupted

    def measure(
        self, candidates: Sequence[Actions], bar: float
    ) -> Iterator[tuple[int, Measurement]]:
        """Compile candidates in parallel, then time them one by one; yield number and result."""
        jobs = [self._compile_job(actions) for actions in candidates]
        binaries: dict[int, Answer] = {}
        for number, answer in self.compilers.run_jobs(jobs, COMPILE_SECONDS):
            if isinstance(answer, WorkerFault):
                yield number, Measurement(None, f"{answer.what} while it was compiled")
            elif "error" in answer:
                yield number, Measurement(None, "could not be compiled")
            else:
                binaries[number] = answer
        for number in sorted(binaries):
            job = {"job": "time", "binary": binaries[number], "bar": bar / self.before}
            ((_, answer),) = self.timers.run_jobs([job], self.limit)
            if isinstance(answer, WorkerFault):
                yield number, Measurement(None, f"{answer.what} while it was run")
            elif "wrong" in answer:
                yield number, Measurement(None, "gave a wrong result")
            elif "error" in answer:
                yield number, Measurement(None, "could not be run")
            else:
                seconds = self.before * float(answer["ratio"])
                bar = min(bar, seconds)
                yield number, Measurement(seconds)

    @property
    def limit(self) -> float:
        """The time limit of a candidate, in seconds."""
        return RUN_SECONDS + RUNS_PER_CANDIDATE * self.before

    def pick_fastest(self, result: SearchResult, start: Actions) -> tuple[Actions, float, float]:
        """Return the fastest actions in alternate timing with the baseline, and both times.

        The winner is timed twice: the best of several candidates was also lucky.
        """
        bar = KEEP_RATIO * self.before
        promising = [
            actions for seconds, actions in result.best if actions != start and seconds < bar
        ]
        jobs = [self._compile_job(actions) for actions in promising]
        binaries = dict(self.compilers.run_jobs(jobs, COMPILE_SECONDS))
        timings = [(self._compare(binaries[n]), n) for n in sorted(binaries)]
        for ratio, n in sorted((after / before, n) for (before, after), n in timings):
            if ratio < KEEP_RATIO:
                before, after = self._compare(binaries[n])
                if after < KEEP_RATIO * before:
                    return promising[n], before, after
        return start, self.before, self.before

    def _compare(self, binary: Answer | WorkerFault) -> tuple[float, float]:
        """Return the seconds of the baseline and of a candidate; infinite if it failed."""
        if not isinstance(binary, WorkerFault) and "error" not in binary:
            ((_, answer),) = self.timers.run_jobs(
                [{"job": "compare", "binary": binary}], 2 * self.limit
            )
            if not isinstance(answer, WorkerFault) and "error" not in answer:
                return float(answer["before"]), float(answer["after"])
        return self.before, math.inf

    def _compile_job(self, actions: Actions) -> Job:
        return {"job": "compile", "kernel": self.text, "actions": write_actions(actions)}


def _compile_baselines(tuners: Sequence[_KernelTuner], compilers: WorkerPool) -> None:
    """Compile the heuristic's versions in parallel."""
    jobs = [{"job": "compile", "kernel": tuner.text, "actions": None} for tuner in tuners]
    for number, answer in compilers.run_jobs(jobs, COMPILE_SECONDS):
        tuners[number].error = _error_text(answer)
        tuners[number].baseline = {} if isinstance(answer, WorkerFault) else answer


def _error_text(answer: Answer | WorkerFault) -> str:
    return answer.what if isinstance(answer, WorkerFault) else str(answer.get("error", ""))


_considered: set[tuple[str, UOp]] = set()
"""Backends and kernels that were tuned, or not worth it, in this process."""


def tune_new_kernels(kernels: Sequence[UOp], backend: Backend, part: float = 1.0) -> list[UOp]:
    """Tune kernels before they are first compiled; return those that are faster now.

    It takes at most `part` of the seconds that the setting `beam_seconds` allows.
    """
    new = [kernel for kernel in kernels if (backend.name, kernel) not in _considered]
    if not new or not settings.beam or backend.objects is None:
        return []
    _considered.update((backend.name, kernel) for kernel in new)
    from porism.engine.tune.tuning_progress import progress_bar

    try:
        with observed_task("tuning kernels"), progress_bar() as listener:
            tune(
                new,
                backend,
                width=settings.beam,
                seconds=part * settings.beam_seconds,
                listener=listener,
            )
    except PorismError as error:
        print(f"porism: kernels are not tuned: {error.what}", file=sys.stderr)
    cache = tuning_cache.TuningCache(backend)
    entries = {kernel: cache.get(kernel) for kernel in new}
    return [kernel for kernel, entry in entries.items() if entry and entry.after < entry.before]
