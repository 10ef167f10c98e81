"""Program report: programs that ran as plain data, which JSON can hold.

    {"programs": […], "kernels": […], "rules": {…}, "machine": {…}, "events": […], "spans": […]}

A program lists its steps: which kernel each runs, for which line of the user, what it reads and
writes, and its time. Kernels that several steps share are described once. The slowest are described
in full, as long as the report stays small enough to open at once; of others the loops are shown.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from porism.backends.backend_table import native_backend
from porism.engine.profile.work_counts import Work, kernel_name, work_of
from porism.engine.tune.search_history import searched
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.pipeline import schedule_graph, watched
from porism.rewrite.construction import record_rewrites
from porism.rewrite.rewrite_trace import Trace
from porism.schedule.loop_listing import listing
from porism.schedule.rangeify.store_reason import StoreReason
from porism.schedule.schedule import Buffer, Role, Schedule
from porism.viewer.column_packing import packed_report
from porism.viewer.kernel_report import Text, kernel_row, stage_rows
from porism.viewer.machine_limits import Limits, measured_limits
from porism.viewer.program_recorder import CompileSpan, Event, RecordedProgram, Recording
from porism.viewer.report_page import embedded_json
from porism.viewer.rule_report import rule_rows
from porism.viewer.stage_diffs import Snapshot, by_kernel, recorder
from porism.viewer.tensor_origins import Origin, Origins

Row = dict[str, Any]

VERSION: Final = 1
"""The version of the form of the data."""
MAX_FULL_KERNELS: Final = 96
"""Kernels that are described in full, the slowest first; chosen by hand."""
MAX_BYTES: Final = 4_700_000
"""Characters of a report, which is to stay below five megabytes with the page around it."""
LEAST_FULL_BYTES: Final = 500_000
"""Characters for the kernels in full, however long the program is."""
MAX_TRACED_STEPS: Final = 400
"""Programs of more kernels are not scheduled again to show the stages of their graph."""


@dataclass(slots=True)
class _Stages:
    """What the pipeline did to a graph."""

    graph: list[Snapshot] = field(default_factory=list)
    kernels: dict[UOp, list[Snapshot]] = field(default_factory=dict)
    tensors: list[UOp | None] = field(default_factory=list)
    """The node of the tensor graph that each step stores."""


def report(
    recording: Recording,
    origins: Origins | None = None,
    *,
    title: str = "program",
    limits: Limits | None = None,
    first_tab: str = "Graph",
) -> Row:
    """Return recorded programs as data; `limits` are measured if there are times.

    `first_tab` is the tab about the program that is shown first.
    """
    programs = recording.programs
    if limits is None and any(any(program.runs) for program in programs):
        limits = _at_least(measured_limits(), programs)
    kernels = _Kernels()
    with record_rewrites(Trace()) as trace:
        stages = [_stages(program, trace) for program in programs]
        rows = [
            _program_row(program, seen, kernels, origins, limits)
            for program, seen in zip(programs, stages, strict=True)
        ]
        by_node = {kernel: seen for each in stages for kernel, seen in each.kernels.items()}
        times = _times(recording)
        size = len(embedded_json(packed_report({"programs": rows, **times})))
        kernel_rows = kernels.rows(by_node, trace, MAX_BYTES - size)
    fired = [rule for row in (*rows, *kernel_rows) for s in row["stages"] for rule, _ in s["rules"]]
    return {
        "version": VERSION,
        "title": title,
        "machine": _machine(limits),
        "programs": rows,
        "kernels": kernel_rows,
        "rules": rule_rows(fired),
        "first_tab": first_tab,
        **times,
    }


def _at_least(limits: Limits, programs: Iterable[RecordedProgram]) -> Limits:
    """Return limits of arithmetic that no kernel exceeds: a measurement may be disturbed."""
    speeds = [
        work.flops / seconds * 1e-9
        for program in programs
        for work, seconds in zip(program.work, program.best, strict=True)
        if work is not None and seconds
    ]
    return Limits(max(limits.gflops, *speeds, 0.0), limits.gigabytes)


def _machine(limits: Limits | None) -> Row:
    target = native_backend().target()
    return {
        "target": target.name,
        "system": platform.machine(),
        "cores": os.cpu_count() or 1,
        "vector_bits": max(target.vector_bits, default=0),
        "gflops": limits and round(limits.gflops, 1),
        "gigabytes": limits and round(limits.gigabytes, 1),
    }


def _times(recording: Recording) -> Row:
    """Return when kernels ran, when programs were called, and when they were compiled.

    Each row ends with its begin and length in microseconds and the number of its thread. Before
    that an event has its program and step, a call its program, a span the number of its name and
    whether it is a task.
    """
    events, spans = recording.events, recording.spans
    timed: list[Event | CompileSpan] = [*events, *spans]
    start = min((each.begin for each in timed), default=0.0)
    numbers = dict.fromkeys(each.thread for each in timed)
    threads = {thread: k for k, thread in enumerate(numbers)}
    names = {name: k for k, name in enumerate(dict.fromkeys(span.name for span in spans))}

    def times(begin: float, seconds: float, thread: int) -> list[Any]:
        return [round(1e6 * (begin - start), 1), round(1e6 * seconds, 1), threads[thread]]

    return {
        "events": [[e.program, e.step, *times(e.begin, e.seconds, e.thread)] for e in events],
        "calls": [
            [call[0].program,
             *times(call[0].begin, call[-1].begin + call[-1].seconds - call[0].begin,
                    call[0].thread)]
            for call in recording.calls()
        ],
        "spans": [
            [names[s.name], int(s.is_task), *times(s.begin, s.seconds, s.thread)]
            for s in sorted(spans, key=lambda span: span.begin)
        ],
        "stage_names": list(names),
    }  # fmt: skip


def _stages(program: RecordedProgram, trace: Trace) -> _Stages:
    """Schedule the graph of a program again, and return what each stage left."""
    if program.graph is None or len(program.schedule.steps) > MAX_TRACED_STEPS:
        return _Stages(tensors=_tensors(program.schedule, program.schedule))
    snapshots: list[Snapshot] = []
    with watched(recorder(snapshots, trace)):
        again = schedule_graph(program.graph, cached=False, target=native_backend().target())
    first = next((k for k, s in enumerate(snapshots) if s.stage == "kernels"), len(snapshots))
    by_node = {group[-1].nodes[0]: group for group in by_kernel(snapshots[first:])}
    return _Stages(snapshots[:first], by_node, _tensors(program.schedule, again))


def _tensors(schedule: Schedule, again: Schedule) -> list[UOp | None]:
    """Return the node of the tensor graph of each step, where the two schedules agree."""
    found: list[UOp | None] = [None] * len(schedule.steps)
    for k, (step, other) in enumerate(zip(schedule.steps, again.steps, strict=False)):
        if step.kernel is other.kernel and isinstance(other.reason, StoreReason):
            found[k] = other.reason.tensor
    return found


class _Kernels:
    """The kernels of all programs, each once."""

    def __init__(self) -> None:
        self.numbers: dict[UOp, int] = {}
        self.names: list[Mapping[int, str]] = []
        self.seconds: list[float] = []

    def add(self, kernel: UOp, names: Mapping[int, str], seconds: float) -> int:
        """Return the number of a kernel, with the seconds of one more step added."""
        if kernel not in self.numbers:
            self.numbers[kernel] = len(self.numbers)
            self.names.append(names)
            self.seconds.append(0.0)
        number = self.numbers[kernel]
        self.seconds[number] += seconds
        return number

    def rows(self, stages: Mapping[UOp, Sequence[Snapshot]], trace: Trace, size: int) -> list[Row]:
        """Return the kernels as data, the slowest ones in full, in at most `size` characters."""
        nodes = list(self.numbers)
        rows = [_short_row(node, names) for node, names in zip(nodes, self.names, strict=True)]
        left = max(size - len(embedded_json(rows)), LEAST_FULL_BYTES)
        slowest = sorted(range(len(nodes)), key=lambda k: -self.seconds[k])
        for k in slowest[:MAX_FULL_KERNELS]:
            full = kernel_row(nodes[k], self.names[k], stages.get(nodes[k], ()), trace)
            left -= len(embedded_json(full))
            if left < 0:
                break
            rows[k] = full
        for node, row in zip(nodes, rows, strict=True):
            row["search"] = [list(pair) for pair in searched(node)]
        return rows


def _short_row(kernel: UOp, names: Mapping[int, str]) -> Row:
    """Return a kernel with its loops alone."""
    return {
        "name": kernel_name(kernel),
        "actions": None,
        "tuned": False,
        "loops": [],
        "texts": {"loops": Text(listing(kernel, names).split("\n")).row()},
        "stages": [],
        "unchanged": [],
    }


# -- programs --------------------------------------------------------------------------------------


def _program_row(
    program: RecordedProgram,
    stages: _Stages,
    kernels: _Kernels,
    origins: Origins | None,
    limits: Limits | None,
) -> Row:
    schedule = program.schedule
    known = _origins_of_steps(program, stages, origins)
    steps = []
    for k, step in enumerate(schedule.steps):
        names = {n: schedule.buffers[b].name for n, b in enumerate(step.buffers)}
        work = program.work[k] or _work(step.kernel)
        seconds = _rounded(program.best[k]) if program.runs[k] else None
        least = limits.seconds(work) if limits is not None else None
        origin = known[k] or program.asked
        steps.append(
            {
                "kernel": kernels.add(step.kernel, names, program.seconds[k]),
                "buffers": list(step.buffers),
                "writes": step.writes,
                "after": list(step.after),
                "why": str(step.reason),
                "runs": program.runs[k],
                "seconds": seconds,
                "total": _rounded(program.seconds[k]),
                "flops": work.flops,
                "bytes": work.bytes,
                "roofline": _rounded(least / seconds) if least is not None and seconds else None,
                "line": None if origin is None else _line(origin) | {"asked": known[k] is None},
                "path": [] if origin is None else list(origin.path),
            }
        )
    rows, unchanged = stage_rows(stages.graph, {}) if stages.graph else ([], [])
    arena = schedule.arena
    return {
        "runs": max(program.runs, default=0),
        "backend": program.backend,
        "steps": steps,
        "buffers": _buffers(schedule),
        "arena": {"peak": arena.peak, "sum": arena.sum},
        "stages": rows,
        "unchanged": unchanged,
    }


def _rounded(value: float) -> float:
    """Return a measured value with five digits, which is more than a measurement has.

    >>> _rounded(0.000123456789)
    0.00012346
    """
    return float(f"{value:.5g}")


def _work(kernel: UOp) -> Work:
    """Return the work of a kernel that did not run; 0 if it depends on variables."""
    if any(node.op is ops.VARIABLE for node in toposort(kernel)):
        return Work(0, 0)
    return work_of(kernel, {})


def _line(origin: Origin) -> Row:
    return {
        "file": os.path.basename(origin.file),
        "line": origin.line,
        "function": origin.function,
        "text": origin.text,
    }


def _origins_of_steps(
    program: RecordedProgram, stages: _Stages, origins: Origins | None
) -> list[Origin | None]:
    """Return for each step where its result, or else the nearest value below it, was made."""
    if origins is None or program.graph is None:
        return [None] * len(program.schedule.steps)
    known = origins.of_graph(program.graph)
    return [None if tensor is None else _nearest(tensor, known) for tensor in stages.tensors]


def _nearest(tensor: UOp, known: Mapping[UOp, Origin]) -> Origin | None:
    level: Iterable[UOp] = (tensor,)
    for _ in range(8):
        for node in level:
            if node in known:
                return known[node]
        level = dict.fromkeys(s for node in level for s in node.src)
    return None


def _buffers(schedule: Schedule) -> list[Row]:
    """Return the buffers, with their offsets in the arena and the steps that they live in."""
    used: dict[int, list[int]] = {}
    for k, step in enumerate(schedule.steps):
        for b in step.buffers:
            used.setdefault(b, []).append(k)
    return [
        {
            "name": buffer.name,
            "role": buffer.role.value,
            "type": buffer.dtype.name,
            "shape": [_size(dim) for dim in buffer.dims],
            "bytes": buffer.bytes,
            "offset": _offset(schedule, buffer),
            "first": min(used.get(b, [0])),
            "last": max(used.get(b, [0])),
        }
        for b, buffer in enumerate(schedule.buffers)
    ]


def _size(dim: UOp) -> int | str:
    return int(dim.arg) if dim.op is ops.CONST else show(dim, limit=40)


def _offset(schedule: Schedule, buffer: Buffer) -> int | None:
    return schedule.arena.offsets[buffer.number] if buffer.role is Role.TEMPORARY else None
