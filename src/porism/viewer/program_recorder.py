"""Program recorder: the programs that run inside of a block, with the time of each kernel."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final

from porism.base.fork_locks import held_while_forking
from porism.engine.profile import kernel_observer, program_observer
from porism.engine.profile.kernel_observer import KernelRun
from porism.engine.profile.work_counts import Work
from porism.ir.node import UOp
from porism.schedule.schedule import Schedule
from porism.viewer.tensor_origins import Origin, Origins

MAX_EVENTS: Final = 20_000
"""Runs of kernels whose times are kept one by one; later ones are only added up."""

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
        self._numbers: dict[int, int] = {}  # of programs, by the identity of their schedules
        self._stack = ExitStack()

    def __enter__(self) -> Recorder:
        self._stack.enter_context(program_observer.observing(self.add_graph))
        self._stack.enter_context(kernel_observer.observing(self.add_run))
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
                event = Event(number, run.step, run.begin, run.speed.seconds, thread)
                self.events.append(event)

    def _number(self, schedule: Schedule) -> int:
        number = self._numbers.get(id(schedule))
        if number is None:
            number = self._numbers[id(schedule)] = len(self.programs)
            self.programs.append(RecordedProgram(schedule))  # which keeps the schedule alive
        return number


def joined(recorders: Iterable[Recorder]) -> tuple[list[RecordedProgram], list[Event]]:
    """Return the programs and events of several recordings as those of one."""
    programs: list[RecordedProgram] = []
    events: list[Event] = []
    for recorder in recorders:
        first = len(programs)
        programs += recorder.programs
        events += [replace(event, program=event.program + first) for event in recorder.events]
    return programs, events
