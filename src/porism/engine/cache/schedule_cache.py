"""Schedule cache: schedules on disk as JSON, shared by processes.

The key is a digest of the graph, the target, the settings and the sources of Porism. Nodes are
written by `porism.ir.text.serialization`; since nodes are unique, parsing them gives the identical
nodes, not copies. Where all schedules and kernels of a program are on disk, the
compiler is not loaded.
"""

from __future__ import annotations

import json
import time
from typing import Any

from porism.base import debug
from porism.base.dtypes import dtype
from porism.base.file_store import log_once, name_of, store
from porism.base.target import Target
from porism.engine.cache import cache_counts
from porism.engine.cache.kernel_cache import UNREADABLE, compile_environment
from porism.engine.profile import compile_progress
from porism.ir.node import UOp
from porism.ir.text.serialization import parse, to_text
from porism.schedule.memory_plan import Plan
from porism.schedule.schedule import Buffer, Replaced, Role, Schedule, Step


def load_or_schedule(graph: UOp, target: Target, replaced: Replaced = ()) -> Schedule:
    """Return the schedule of a graph for a target, loaded from disk or made.

    Outputs may overwrite the inputs that they have `replaced`.
    """
    disk = store()
    environment = compile_environment(target) if disk is not None else None
    if disk is None or environment is None:
        return _schedule(graph, target, replaced)
    key = (graph.key, repr(replaced).encode()) if replaced else (graph.key,)
    name = name_of(environment, *key)
    content = disk.get("schedules", name)
    if content is not None:
        try:
            with debug.timed_step("a schedule found on disk and read"):
                schedule = deserialize(content.decode())
            cache_counts.process_counts(disk.folder).schedule_hits += 1
            return schedule
        except UNREADABLE as error:
            log_once(f"a kept schedule is not used: {error}")
    schedule = _schedule(graph, target, replaced)
    cache_counts.process_counts(disk.folder).schedule_misses += 1
    disk.put("schedules", name, serialize(schedule).encode())
    return schedule


def _schedule(graph: UOp, target: Target, replaced: Replaced) -> Schedule:
    from porism.pipeline import schedule_graph  # not loaded where schedules come from disk

    begin = time.perf_counter()
    with compile_progress.progress_bar("finding kernels"):
        schedule = schedule_graph(graph, target=target, replaced=replaced)
    if debug.level() >= debug.COMPILING:
        milliseconds = 1e3 * (time.perf_counter() - begin)
        debug.log(f"a graph scheduled, kernels: {len(schedule.steps)}, in {milliseconds:.1f} ms")
    return schedule


def serialize(schedule: Schedule) -> str:
    """Return a schedule as JSON; steps refer to kernels by number, so that each is written once."""
    kernels = list(dict.fromkeys(step.kernel for step in schedule.steps))
    kernel_numbers = {kernel: k for k, kernel in enumerate(kernels)}
    plan = schedule.arena
    return json.dumps(
        {
            "kernels": [to_text(kernel) for kernel in kernels],
            "buffers": [
                [b.role.value, b.number, b.dtype.name, [to_text(dim) for dim in b.dims]]
                for b in schedule.buffers
            ],
            "steps": [
                [kernel_numbers[s.kernel], s.buffers, s.after, s.reason, s.writes, s.batch]
                for s in schedule.steps
            ],
            "outputs": schedule.outputs,
            "arena": [plan.offsets, plan.peak, plan.sum, plan.waits, plan.slots],
            "in_place": schedule.in_place,
        }
    )


def deserialize(text: str) -> Schedule:
    """Return the schedule of a JSON text: `deserialize(serialize(s)) == s`."""
    table: dict[str, Any] = json.loads(text)
    parsed: dict[str, UOp] = {}

    def parse_size(text: str) -> UOp:
        if text not in parsed:  # buffers have the same few sizes
            parsed[text] = parse(text)
        return parsed[text]

    kernels = [parse(kernel) for kernel in table["kernels"]]
    offsets, peak, total, waits, slots = table["arena"]
    pairs = tuple((later, earlier) for later, earlier in waits)
    return Schedule(
        tuple(
            Buffer(Role(role), number, dtype(name), tuple(parse_size(dim) for dim in dims))
            for role, number, name, dims in table["buffers"]
        ),
        tuple(
            Step(kernels[kernel], tuple(used), tuple(after), why, writes, batch)
            for kernel, used, after, why, writes, batch in table["steps"]
        ),
        tuple(table["outputs"]),
        Plan(tuple(offsets), peak, total, pairs, tuple(slots)),
        tuple((new, old) for new, old in table["in_place"]),
    )
