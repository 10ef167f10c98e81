"""Chrome trace: a recording as trace events, which Perfetto and chrome://tracing open.

A run of a program is a slice, with its kernels inside, and in them what each thread ran of their
parallel loops; finding and compiling kernels are slices, with their stages inside; the memory of
temporary buffers that are alive is a counter.
"""

from __future__ import annotations

import threading
from typing import Any

from porism.engine.profile.work_counts import Speed, kernel_name
from porism.viewer.program_recorder import Recording, alive_bytes

Row = dict[str, Any]


def chrome_trace(recording: Recording) -> Row:
    """Return the runs of kernels and the stages of compiling as trace events."""
    programs, events, spans = recording.programs, recording.events, recording.spans
    times = [e.begin for e in events] + [s.begin for s in spans]
    start = min(times, default=0.0)
    names = [[kernel_name(step.kernel) for step in p.schedule.steps] for p in programs]
    alive = [alive_bytes(p.schedule) for p in programs]
    rows: list[Row] = []
    callers = [e.thread for e in events] + [s.thread for s in spans]
    workers = [share.thread for e in events for share in e.shares]
    numbers = {thread: k for k, thread in enumerate(dict.fromkeys(callers + workers))}

    def add(name: str, kind: str, begin: float, seconds: float, thread: int, **more: Any) -> None:
        rows.append(
            {"name": name, "cat": kind, "ph": "X", "pid": 0, "tid": numbers[thread],
             "ts": 1e6 * (begin - start), "dur": 1e6 * seconds, "args": more}
        )  # fmt: skip

    def count(bytes: int, time: float) -> None:
        rows.append(
            {"name": "temporary buffers", "ph": "C", "pid": 0, "ts": 1e6 * (time - start),
             "args": {"bytes": bytes}}
        )  # fmt: skip

    for span in sorted(spans, key=lambda s: (s.begin, -s.seconds)):
        add(span.name, "compile", span.begin, span.seconds, span.thread)
    for call in recording.calls():
        first, last = call[0], call[-1]
        end = last.begin + last.seconds
        add(f"program {first.program}", "program", first.begin, end - first.begin, first.thread)
        count(0, end)
    for event in events:
        program = programs[event.program]
        work = program.work[event.step]
        speed = Speed(event.seconds, work) if work is not None else None
        figures = {} if speed is None else {"GFLOP/s": speed.gflops, "GB/s": speed.gigabytes}
        name = names[event.program][event.step]
        add(name, "kernel", event.begin, event.seconds, event.thread, step=event.step, **figures)
        count(alive[event.program][event.step], event.begin)
        for share in event.shares:
            where = share.begin, share.seconds, share.thread
            add(name, "share", *where, step=event.step, iterations=share.iterations)
    thread_names = {thread.ident: thread.name for thread in threading.enumerate()}
    for thread, number in numbers.items():
        name = thread_names.get(thread, f"thread {thread}")
        rows.append(
            {"name": "thread_name", "ph": "M", "pid": 0, "tid": number, "args": {"name": name}}
        )
    return {"traceEvents": rows, "displayTimeUnit": "ns"}
