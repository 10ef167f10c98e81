"""Cached schedules: those that took long to make, kept on disk as text.

A schedule depends on the graph, the settings and the source code of Porism alone. Its nodes are
written as `porism.ir.text.serialization` writes them, and reading them gives the same nodes.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final

from porism.base import debug
from porism.base.dtypes import dtype
from porism.base.file_store import name_of, note, store
from porism.engine.cache import cache_counts
from porism.engine.cache.kernel_cache import UNREADABLE, surroundings
from porism.engine.profile import compile_progress
from porism.ir.node import UOp
from porism.ir.text.serialization import parse, to_text
from porism.pipeline import schedule_graph
from porism.schedule.memory_plan import Plan
from porism.schedule.schedule import Buffer, Role, Schedule, Step

SLOW: Final = 0.02
"""Seconds; what was made faster than this is made again."""


def schedule_for(graph: UOp) -> Schedule:
    """The schedule of a graph, found on disk or made."""
    kept = store()
    base = surroundings() if kept is not None else None
    if kept is None or base is None:
        return _made(graph)
    name = name_of(base, graph.key)
    content = kept.get("schedules", name)
    if content is not None:
        try:
            with debug.step("a schedule found on disk and read"):
                found = read(content.decode())
            cache_counts.of(kept.folder).schedules_found += 1
            return found
        except UNREADABLE as error:
            note(f"a kept schedule is not used: {error}")
    begin = time.perf_counter()
    made = _made(graph)
    if time.perf_counter() - begin >= SLOW:
        cache_counts.of(kept.folder).schedules_made += 1
        kept.put("schedules", name, write(made).encode())
    return made


def _made(graph: UOp) -> Schedule:
    begin = time.perf_counter()
    with compile_progress.bar("finding kernels"):
        made = schedule_graph(graph)
    if debug.level() >= debug.COMPILING:
        milliseconds = 1e3 * (time.perf_counter() - begin)
        debug.say(f"a graph scheduled, kernels: {len(made.steps)}, in {milliseconds:.1f} ms")
    return made


def write(schedule: Schedule) -> str:
    """A schedule as text; each kernel once."""
    kernels = list(dict.fromkeys(step.kernel for step in schedule.steps))
    places = {kernel: k for k, kernel in enumerate(kernels)}
    plan = schedule.arena
    return json.dumps(
        {
            "kernels": [to_text(kernel) for kernel in kernels],
            "buffers": [
                [b.role.value, b.number, b.dtype.name, [to_text(dim) for dim in b.dims]]
                for b in schedule.buffers
            ],
            "steps": [[places[s.kernel], s.buffers, s.after, s.reason] for s in schedule.steps],
            "outputs": schedule.outputs,
            "arena": [plan.offsets, plan.peak, plan.sum, plan.waits],
        }
    )


def read(text: str) -> Schedule:
    """The schedule that a text describes, `read(write(s)) == s`."""
    table: dict[str, Any] = json.loads(text)
    nodes: dict[str, UOp] = {}

    def node(words: str) -> UOp:
        if words not in nodes:  # sizes are the same few over and over
            nodes[words] = parse(words)
        return nodes[words]

    kernels = [parse(kernel) for kernel in table["kernels"]]
    offsets, peak, total, waits = table["arena"]
    return Schedule(
        tuple(
            Buffer(Role(role), number, dtype(name), tuple(node(dim) for dim in dims))
            for role, number, name, dims in table["buffers"]
        ),
        tuple(
            Step(kernels[kernel], tuple(used), tuple(after), why)
            for kernel, used, after, why in table["steps"]
        ),
        tuple(table["outputs"]),
        Plan(tuple(offsets), peak, total, tuple((later, earlier) for later, earlier in waits)),
    )
