"""Runners: a schedule run on data by the backend that the settings name."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from porism.backends.backend_table import Backend, chosen
from porism.base.fork_locks import held_while_forking
from porism.base.settings import settings
from porism.engine.run import reference_runner
from porism.engine.run.array_allocator import address_of
from porism.engine.run.buffer_storage import Held
from porism.engine.run.compile_verification import check_tuned
from porism.engine.run.program import Program
from porism.ir.node_collector import forget_unused
from porism.optimize.strategy.prepacked_weights import PackedConstant
from porism.schedule.schedule import Schedule

MOST_PROGRAMS: Final = 1000
"""Programs that are kept; the oldest goes first."""

_programs: dict[tuple[int, str, frozenset[int]], Program] = {}
_lock = held_while_forking(threading.Lock())


def run(schedule: Schedule, inputs: Sequence[Held], variables: Mapping[str, int]) -> list[Held]:
    """The arrays of the outputs, each in one dimension, and their addresses."""
    return runner(schedule)(inputs, variables)


class Runner(Protocol):
    """A schedule as something to call."""

    def __call__(
        self, inputs: Sequence[Held], variables: Mapping[str, int], packs: Sequence[Held] = ()
    ) -> list[Held]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A schedule some of whose inputs are constants, which are laid out for its kernels once."""

    run: Runner
    pack: Callable[[Sequence[Held]], list[Held]]
    """From the inputs what `run` takes as its packs."""
    constants: frozenset[int]
    """The inputs that are constants."""
    copies: Sequence[PackedConstant]
    """What is laid out, in the order of the packs."""

    @property
    def packed(self) -> frozenset[int]:
        """The inputs that there are packs of."""
        return frozenset(copy.source for copy in self.copies)


def runner(schedule: Schedule) -> Runner:
    """A schedule as something to call, on the backend that the settings name."""
    backend = chosen()
    if backend.load is None:
        return functools.partial(_evaluated, schedule)
    return program_of(schedule, backend).call


def prepared(
    schedule: Schedule, constants: frozenset[int] = frozenset(), *, anew: bool = False
) -> Prepared:
    """The same with constants among the inputs; compiled anew if its kernels were tuned."""
    backend = chosen()
    if backend.load is None:
        run = functools.partial(_evaluated, schedule)
        return Prepared(run, lambda _: [], constants, ())
    movable = frozenset() if settings.verify else constants  # copies are not verified
    program = program_of(schedule, backend, movable, anew=anew)
    program.is_recent = False  # whoever asks keeps it
    return Prepared(program.call, program.pack, constants, program.packing.copies)


def _evaluated(
    schedule: Schedule,
    inputs: Sequence[Held],
    variables: Mapping[str, int],
    packs: Sequence[Held] = (),
) -> list[Held]:
    arrays = reference_runner.run(schedule, [array for array, _ in inputs], variables)
    return [(array, address_of(array)) for array in arrays]


def program_of(
    schedule: Schedule,
    backend: Backend,
    constants: frozenset[int] = frozenset(),
    *,
    anew: bool = False,
) -> Program:
    """A schedule in machine code; one that was run before, as it is."""
    key = (id(schedule), backend.name, constants)
    found = None if anew else _programs.get(key)
    if found is None or found.schedule is not schedule:
        found = Program(schedule, backend, constants)
        if settings.verify:
            check_tuned(schedule, backend)
        with _lock:
            while len(_programs) >= MOST_PROGRAMS:
                del _programs[next(iter(_programs))]
            _programs[key] = found
    found.is_recent = True
    return found


def forget_programs() -> None:
    """Let go of programs that nothing uses, and that nobody asked for since the last time."""
    if _lock.acquire(blocking=False):
        try:
            forget_unused(_programs, lambda program: program.is_recent)
            for program in _programs.values():
                program.is_recent = False
        finally:
            _lock.release()
