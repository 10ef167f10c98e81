"""Program recorder: the programs that run inside of a block, when they ran and were compiled."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final

from porism.base.fork_locks import held_while_forking
from porism.engine.profile import compile_progress, kernel_observer, program_observer
from porism.engine.profile.kernel_observer import KernelRun
from porism.engine.profile.thread_shares import Share
from porism.engine.profile.work_counts import Work
from porism.ir.levels import Level
from porism.ir.node import UOp
from porism.pipeline import watched
from porism.schedule.schedule import Role, Schedule
from porism.viewer.tensor_origins import Origin, Origins

MAX_EVENTS: Final = 20_000
"""Runs of kernels whose times are kept one by one; later ones are only added up."""

MAX_SPANS: Final = 20_000
"""Stages of compiling whose times are kept; later ones are not."""
FIRST_STAGES: Final = ("build", "local memory")
"""Stages that something else may have come before: they have no time of their own."""

_lock = held_while_forking(threading.Lock())


@dataclass(frozen=True, slots=True)
class Event:
    """One run of a kernel, at its time."""

    program: int
    step: int
    begin: float
    """Seconds of `time.perf_counter`."""
    seconds: float
    thread: int
    shares: tuple[Share, ...] = ()
    """What each thread ran of it."""


@dataclass(frozen=True, slots=True)
class CompileSpan:
    """One stage of the pipeline, or a task of several of them, at its time."""

    name: str
    begin: float
    """Seconds of `time.perf_counter`."""
    seconds: float
    thread: int
    is_task: bool = False
    """Whether stages are parts of it: finding kernels, or compiling them."""


@dataclass(slots=True, eq=False)
class RecordedProgram:
    """A schedule that ran, and the time of its kernels."""

    schedule: Schedule
    graph: UOp | None = None
    """The tensor graph; None if it was scheduled before the recording began."""
    asked: Origin | None = None
    """The line of the user that first asked for its values."""
    backend: str = ""
    runs: list[int] = field(default_factory=list)
    """How often each kernel ran."""
    seconds: list[float] = field(default_factory=list)
    """The time of all runs of each kernel."""
    best: list[float] = field(default_factory=list)
    """The time of the fastest run of each kernel."""
    work: list[Work | None] = field(default_factory=list)
    """The work of each kernel in one run."""

    def __post_init__(self) -> None:
        count = len(self.schedule.steps)
        self.runs = [0] * count
        self.seconds = [0.0] * count
        self.best = [0.0] * count
        self.work = [None] * count

    def add(self, run: KernelRun) -> None:
        """Add one run of a kernel."""
        step, seconds = run.step, run.speed.seconds
        self.best[step] = min(self.best[step], seconds) if self.runs[step] else seconds
        self.runs[step] += 1
        self.seconds[step] += seconds
        self.work[step] = run.speed.work
        self.backend = run.backend


class Recorder:
    """Records every program that is scheduled or run inside of a `with` block."""

    def __init__(self, origins: Origins | None = None) -> None:
        self.origins = origins
        self.programs: list[RecordedProgram] = []
        self.events: list[Event] = []
        self.spans: list[CompileSpan] = []
        """What was compiled: stages in the thread that records, tasks in all threads."""
        self._numbers: dict[int, int] = {}  # of programs, by the identity of their schedules
        self._stack = ExitStack()

    def __enter__(self) -> Recorder:
        self._stack.enter_context(program_observer.observing(self.add_graph))
        self._stack.enter_context(kernel_observer.observing(self.add_run))
        self._stack.enter_context(compile_progress.observing(self.add_task))
        self._stack.enter_context(self._watching_stages())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def add_graph(self, graph: UOp, schedule: Schedule) -> None:
        """Note the graph of a schedule."""
        asked = None if self.origins is None else self.origins.here()
        with _lock:
            program = self.programs[self._number(schedule)]
            program.graph = graph
            program.asked = program.asked or asked

    def add_run(self, run: KernelRun) -> None:
        """Note one run of a kernel."""
        with _lock:
            number = self._number(run.schedule)
            self.programs[number].add(run)
            if len(self.events) < MAX_EVENTS:
                thread = threading.get_ident()
                times = run.begin, run.speed.seconds
                self.events.append(Event(number, run.step, *times, thread, run.shares))

    def add_task(self, text: str, begin: float, seconds: float) -> None:
        """Note that kernels were found or compiled."""
        self._add_span(CompileSpan(text, begin, seconds, threading.get_ident(), is_task=True))

    @contextmanager
    def _watching_stages(self) -> Iterator[None]:
        """Note every stage of compiling in this thread."""
        last = time.perf_counter()

        def add(stage: str) -> None:
            nonlocal last
            now = time.perf_counter()
            if stage not in FIRST_STAGES:
                self._add_span(CompileSpan(stage, last, now - last, threading.get_ident()))
            last = now

        def watch(stage: str, level: Level, graph: UOp) -> None:
            add(stage)

        def watch_instructions(stage: str, instructions: Sequence[UOp]) -> None:
            add(stage)

        with watched(watch, instructions=watch_instructions):
            yield

    def _add_span(self, span: CompileSpan) -> None:
        with _lock:
            if len(self.spans) < MAX_SPANS:
                self.spans.append(span)

    def _number(self, schedule: Schedule) -> int:
        number = self._numbers.get(id(schedule))
        if number is None:
            number = self._numbers[id(schedule)] = len(self.programs)
            self.programs.append(RecordedProgram(schedule))  # which keeps the schedule alive
        return number


@dataclass(slots=True)
class Recording:
    """Programs that ran, and when their kernels ran and were compiled."""

    programs: list[RecordedProgram] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    spans: list[CompileSpan] = field(default_factory=list)

    def calls(self) -> list[list[Event]]:
        """Return the events of each run of a program: they are in order in each thread."""
        calls: list[list[Event]] = []
        current: dict[int, list[Event]] = {}
        for event in self.events:
            call = current.get(event.thread)
            goes_on = call is not None and call[-1].program == event.program
            if call is not None and goes_on and call[-1].step < event.step:
                call.append(event)
            else:
                current[event.thread] = [event]
                calls.append(current[event.thread])
        return calls


def joined(recorders: Iterable[Recorder]) -> Recording:
    """Return what several recorders have recorded as one recording."""
    whole = Recording()
    for recorder in recorders:
        first = len(whole.programs)
        whole.programs += recorder.programs
        whole.events += [replace(e, program=e.program + first) for e in recorder.events]
        whole.spans += recorder.spans
    return whole


def alive_bytes(schedule: Schedule) -> list[int]:
    """Return the bytes of the temporaries that are alive while each step runs."""
    used: dict[int, list[int]] = {}
    for k, step in enumerate(schedule.steps):
        for b in step.buffers:
            used.setdefault(b, []).append(k)
    alive = [0] * len(schedule.steps)
    for b, steps in used.items():
        if schedule.buffers[b].role is Role.TEMPORARY:
            for k in range(min(steps), max(steps) + 1):
                alive[k] += schedule.buffers[b].bytes
    return alive
