"""Chrome trace: recorded runs as trace events, which Perfetto and chrome://tracing open.

A run of a program is a slice, with its kernels inside; compile stages are slices of their own, and
the memory of temporary buffers that are alive is a counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from porism.engine.profile.work_counts import Speed, kernel_name
from porism.schedule.schedule import Role, Schedule
from porism.viewer.program_recorder import Event, RecordedProgram

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CompileSpan:
    """One stage of the pipeline, at its time."""

    stage: str
    begin: float
    """Seconds of `time.perf_counter`."""
    seconds: float
    thread: int


def chrome_trace(
    programs: Sequence[RecordedProgram], events: Sequence[Event], spans: Sequence[CompileSpan] = ()
) -> Row:
    """Return the runs of kernels and the stages of compiling as trace events."""
    times = [e.begin for e in events] + [s.begin for s in spans]
    start = min(times, default=0.0)
    names = [[kernel_name(step.kernel) for step in p.schedule.steps] for p in programs]
    alive = [_alive_bytes(p.schedule) for p in programs]
    rows: list[Row] = []
    threads = dict.fromkeys([e.thread for e in events] + [s.thread for s in spans])
    numbers = {thread: k for k, thread in enumerate(threads)}

    def add(name: str, kind: str, begin: float, seconds: float, thread: int, **more: Any) -> None:
        rows.append(
            {"name": name, "cat": kind, "ph": "X", "pid": 0, "tid": numbers[thread],
             "ts": 1e6 * (begin - start), "dur": 1e6 * seconds, "args": more}
        )  # fmt: skip

    for span in spans:
        add(span.stage, "compile", span.begin, span.seconds, span.thread)
    for run in _runs(events):
        first, last = run[0], run[-1]
        seconds = last.begin + last.seconds - first.begin
        add(f"program {first.program}", "program", first.begin, seconds, first.thread)
    for event in events:
        program = programs[event.program]
        work = program.work[event.step]
        speed = Speed(event.seconds, work) if work is not None else None
        figures = {} if speed is None else {"GFLOP/s": speed.gflops, "GB/s": speed.gigabytes}
        name = names[event.program][event.step]
        add(name, "kernel", event.begin, event.seconds, event.thread, step=event.step, **figures)
        rows.append(
            {"name": "temporary buffers", "ph": "C", "pid": 0, "ts": 1e6 * (event.begin - start),
             "args": {"bytes": alive[event.program][event.step]}}
        )  # fmt: skip
    for thread, number in numbers.items():
        rows.append(
            {"name": "thread_name", "ph": "M", "pid": 0, "tid": number,
             "args": {"name": f"thread {number} ({thread})"}}
        )  # fmt: skip
    return {"traceEvents": rows, "displayTimeUnit": "ns"}


def _runs(events: Sequence[Event]) -> list[list[Event]]:
    """Return the events of each run of a program: they are in order in each thread."""
    runs: list[list[Event]] = []
    current: dict[int, list[Event]] = {}
    for event in events:
        run = current.get(event.thread)
        goes_on = run is not None and run[-1].program == event.program
        if run is not None and goes_on and run[-1].step < event.step:
            run.append(event)
        else:
            current[event.thread] = [event]
            runs.append(current[event.thread])
    return runs


def _alive_bytes(schedule: Schedule) -> list[int]:
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
