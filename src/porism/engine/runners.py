"""Runners: a schedule run on data by the backend that the settings name."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

from porism.backends.table import Backend, chosen
from porism.engine import reference
from porism.engine.program import Program
from porism.ir.semantics import Array
from porism.schedule.schedule import Schedule

MOST_PROGRAMS: Final = 1000
"""Programs that are kept; the oldest goes first."""

_programs: dict[tuple[int, str], Program] = {}
_lock = threading.Lock()


def run(schedule: Schedule, inputs: Sequence[Array], variables: Mapping[str, int]) -> list[Array]:
    """The arrays of the outputs, each in one dimension."""
    backend = chosen()
    if backend.load is None:
        return reference.run(schedule, inputs, variables)
    return program_of(schedule, backend).run(inputs, variables)


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
