"""Run plans: a computation that ran before is found by its structure, and runs again at once.

    graph  →  structure, inputs  →  plan  →  run

The *structure* of a computation lists its nodes, sources first, as (op, dtype, argument, sources):
a source is the number of a node in the list, -1 - n for realized input n, or a CONST itself. An
input is (number of its buffer, dtype, shape). So the structure has all that the request has: two
computations share a plan only if they differ in nothing but the memory that they read. That of
another device than the processor begins with the name of the device.

Plans are valid for one reading of the settings; while a setting is overridden there are none.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from porism.backends.backend_table import Backend
from porism.base import device_use
from porism.base.device_use import HOST
from porism.base.dtypes import DType
from porism.base.fork_locks import held_while_forking
from porism.base.settings import unoverridden
from porism.engine.run.backend_runners import device_runner, program_of
from porism.engine.run.buffer_storage import Storage, node_storage, realized_buffer, realized_on
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.text import argument_text
from porism.schedule.schedule import Schedule

MAX_PLANS: Final = 1000
"""Plans in memory, chosen by hand; the oldest is evicted first."""

MAX_NODES: Final = 1000
"""Nodes of a structure, chosen by hand: larger computations take longer than finding them does."""

BUFFER, CONST, PULLBACK = ops.BUFFER, ops.CONST, ops.PULLBACK

MAX_SOURCES: Final = 64
"""Sources of a node in a structure, chosen by hand: they are scanned again for each new one."""

Structure = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """A result of a plan."""

    dtype: DType
    dims: tuple[UOp, ...]
    is_constant: bool
    """Whether all its elements are one constant; see `realize`."""


@dataclass(frozen=True, slots=True, eq=False)
class RunPlan:
    """A schedule with what it takes beside the inputs of the structure."""

    schedule: Schedule
    backend: Backend
    order: tuple[int, ...]
    """The number in the structure of each input of the schedule."""
    constants: tuple[Storage, ...]
    """Constants that became arguments: the inputs after those."""
    variables: Mapping[str, int]
    outputs: tuple[Output, ...]
    device: str = HOST

    def run(self, buffers: Sequence[UOp]) -> list[Storage]:
        """Run on the inputs of a structure; return the outputs."""
        inputs = [node_storage(buffers[number]) for number in self.order]
        if self.device != HOST:
            run, _ = device_runner(self.schedule, self.device)
            return run([*inputs, *self.constants], self.variables)
        program = program_of(self.schedule, self.backend)
        return program.call([*inputs, *self.constants], self.variables)


_plans: dict[Structure, RunPlan] = {}
_settings: Any = None
"""The reading of the settings that the plans are for."""


_lock: Final = held_while_forking(threading.Lock())
"""Held while a plan is added: another thread may evict the oldest one."""


def find_plan(structure: Structure) -> RunPlan | None:
    """Return the plan of a structure under the settings in force."""
    return _plans.get(structure) if _settings is unoverridden() else None


def keep_plan(structure: Structure, plan: RunPlan) -> None:
    """Keep a plan for the settings in force, unless one is overridden."""
    global _settings
    values = unoverridden()
    if values is None:
        return
    with _lock:
        if _settings is not values:
            _plans.clear()
            _settings = values
        while len(_plans) >= MAX_PLANS:
            del _plans[next(iter(_plans))]
        _plans[structure] = plan


def forget_plans() -> None:
    """Forget all plans."""
    _plans.clear()


def structure_of(roots: Sequence[UOp], device: str = HOST) -> tuple[Structure, list[UOp]] | None:
    """Return the structure of a computation and its buffers; None if it is too large."""
    others_are_used = device_use.others_are_used
    numbers: dict[UOp, int] = {}
    entries: list[tuple[Any, ...]] = []
    inputs: list[tuple[Any, ...]] = []
    buffers: dict[UOp, int] = {}
    stack = list(roots)
    while stack:
        node = stack[-1]
        if node in numbers:
            stack.pop()
            continue
        if len(node.src) > MAX_SOURCES:
            return None
        arg = node.arg
        key = arg if arg is None else argument_text.key(arg)
        entry: list[Any] = [node.op, node.dtype, key]
        for source in node.src:
            op = source.op
            if op is CONST:
                entry.append(source)
                continue
            while op is PULLBACK:  # it only says how its source is differentiated
                source = source.src[0]
                op = source.op
            number = numbers.get(source)
            if number is None:
                buffer = source if op is BUFFER else realized_buffer(source)
                if others_are_used and buffer is not None:
                    buffer = realized_on(source, device)
                if buffer is None:
                    stack.append(source)
                    break
                numbers[source] = number = -1 - len(inputs)
                dims = source.src if op is BUFFER else shape(source)
                inputs.append((buffers.setdefault(buffer, len(buffers)), buffer.dtype, dims))
            entry.append(number)
        else:
            stack.pop()
            numbers[node] = len(entries)
            entries.append(tuple(entry))
            if len(entries) > MAX_NODES:
                return None
    structure = (*entries, tuple(inputs), tuple([numbers[root] for root in roots]))
    if device != HOST:
        structure = ((device,), *structure)
    return structure, list(buffers)
