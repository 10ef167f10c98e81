"""Runners: a schedule run on data by the backend that the settings name."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from porism.backends.table import Backend, chosen
from porism.base.forking import held_while_forking
from porism.engine import reference
from porism.engine.memory import address_of
from porism.engine.program import Program
from porism.engine.storage import Held
from porism.schedule.schedule import Schedule

MOST_PROGRAMS: Final = 1000
"""Programs that are kept; the oldest goes first."""

_programs: dict[tuple[int, str], Program] = {}
_lock = held_while_forking(threading.Lock())


def run(schedule: Schedule, inputs: Sequence[Held], variables: Mapping[str, int]) -> list[Held]:
    """The arrays of the outputs, each in one dimension, and their addresses."""
    return runner(schedule)(inputs, variables)


Runner = Callable[[Sequence[Held], Mapping[str, int]], list[Held]]


def runner(schedule: Schedule) -> Runner:
    """A schedule as something to call, on the backend that the settings name."""
    backend = chosen()
    if backend.load is None:
        return functools.partial(_evaluated, schedule)
    return program_of(schedule, backend).call


def renewed(schedule: Schedule) -> Runner:
    """The same, compiled anew: its kernels were tuned."""
    backend = chosen()
    if backend.load is None:
        return runner(schedule)
    program = Program(schedule, backend)
    with _lock:
        _programs[id(schedule), backend.name] = program
    return program.call


def _evaluated(
    schedule: Schedule, inputs: Sequence[Held], variables: Mapping[str, int]
) -> list[Held]:
    arrays = reference.run(schedule, [array for array, _ in inputs], variables)
    return [(array, address_of(array)) for array in arrays]


def program_of(schedule: Schedule, backend: Backend) -> Program:
    """A schedule in machine code; one that was run before, as it is."""
    key = (id(schedule), backend.name)
    found = _programs.get(key)
    if found is None or found.schedule is not schedule:
        found = Program(schedule, backend)
        with _lock:
            while len(_programs) >= MOST_PROGRAMS:
                del _programs[next(iter(_programs))]
            _programs[key] = found
    return found
