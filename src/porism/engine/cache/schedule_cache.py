"""Schedule cache: schedules on disk as JSON, shared by processes.

The key is a digest of the graph, the target, the settings and the sources of Porism. Nodes are
written by `porism.ir.text.serialization`; since nodes are unique, parsing them gives the identical
nodes, not copies. A kernel is parsed when something asks for it: a program whose functions are on
disk as well (`program_cache`) runs without it, and the compiler is not loaded.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from porism.base import debug
from porism.base.dtypes import dtype, index
from porism.base.file_store import Store, log_once, name_of, store
from porism.base.target import Target
from porism.engine.cache import cache_counts
from porism.engine.cache.kernel_cache import UNREADABLE, compile_environment
from porism.engine.profile import compile_progress
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.serialization import parse, to_text
from porism.schedule.memory_plan import Plan
from porism.schedule.schedule import Buffer, Replaced, Role, Schedule, deferred_step


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
    schedule = load(name, disk)
    if schedule is not None:
        cache_counts.process_counts(disk.folder).schedule_hits += 1
        return schedule
    schedule = _schedule(graph, target, replaced)
    cache_counts.process_counts(disk.folder).schedule_misses += 1
    kept = disk.put("schedules", name, serialize(schedule).encode())
    return dataclasses.replace(schedule, key=name) if kept else schedule


def load(name: str, disk: Store) -> Schedule | None:
    """Return the schedule of an entry on disk; None if there is none, or it is damaged."""
    content = disk.get("schedules", name)
    if content is None:
        return None
    try:
        with debug.timed_step("a schedule found on disk and read"):
            return dataclasses.replace(deserialize(content.decode()), key=name)
    except UNREADABLE as error:
        log_once(f"a kept schedule is not used: {error}")
        return None


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
                [b.role.value, b.number, b.dtype.name, [_write_size(dim) for dim in b.dims]]
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


def _write_size(dim: UOp) -> int | str:
    """Return a size as JSON: a number, or the text of a symbolic size."""
    return int(dim.arg) if dim.op is ops.CONST and dim.dtype is index else to_text(dim)


def _read_size(size: int | str) -> UOp:
    return parse(size) if isinstance(size, str) else UOp.const(index, size)


class _Kernels:
    """The kernels of a schedule on disk, each parsed at its first use: replays need none."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._parsed: dict[int, UOp] = {}

    def read(self, number: int) -> UOp:
        """Return a kernel by its number."""
        kernel = self._parsed.get(number)
        if kernel is None:
            kernel = self._parsed[number] = parse(self._texts[number])
        return kernel


def deserialize(text: str) -> Schedule:
    """Return the schedule of a JSON text: `deserialize(serialize(s)) == s`."""
    table: dict[str, Any] = json.loads(text)
    kernels = _Kernels(table["kernels"])
    sizes: dict[int | str, UOp] = {}  # buffers have the same few sizes
    for _, _, _, dims in table["buffers"]:
        for dim in dims:
            if dim not in sizes:
                sizes[dim] = _read_size(dim)
    if not all(isinstance(text, str) for text in table["kernels"]):
        raise TypeError("a kernel is a text")
    offsets, peak, total, waits, slots = table["arena"]
    pairs = tuple([(later, earlier) for later, earlier in waits])
    return Schedule(
        tuple(
            [
                Buffer(Role(role), number, dtype(name), tuple([sizes[dim] for dim in dims]))
                for role, number, name, dims in table["buffers"]
            ]
        ),
        tuple(
            [
                deferred_step(partial(kernels.read, kernel), *fields)
                for kernel, *fields in table["steps"]
            ]
        ),
        tuple(table["outputs"]),
        Plan(tuple(offsets), peak, total, pairs, tuple(slots)),
        tuple((new, old) for new, old in table["in_place"]),
    )
