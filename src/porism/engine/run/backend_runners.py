"""Backend runners: schedules run on a device, by the backend that compiles for it.

Programs, which are schedules in machine code, are cached in memory by schedule (its identity),
device, backend and the numbers of the inputs that are constants.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from porism.backends.backend_table import Backend, selected_backend
from porism.base.device_use import HOST
from porism.base.fork_locks import held_while_forking
from porism.base.settings import settings
from porism.engine.cache.program_cache import ConstantCopy
from porism.engine.run.array_allocator import address_of
from porism.engine.run.buffer_storage import Storage
from porism.engine.run.program import NOTHING_FIXED, FixedInputs, Program
from porism.ir.node_collector import drop_unreferenced
from porism.schedule.schedule import Schedule

if TYPE_CHECKING:
    from porism.engine.device.device_program import DeviceProgram

MAX_PROGRAMS: Final = 1000
"""Programs in memory, chosen by hand; the oldest is evicted first."""

_programs: dict[tuple[int, str, frozenset[int]], Program] = {}
_device_programs: dict[tuple[int, str, str], DeviceProgram] = {}
"""Programs of other devices than the processor, by schedule, backend and device."""
_lock = held_while_forking(threading.Lock())


def backend_of(device: str) -> Backend:
    """Return the backend that compiles for a device."""
    if device == HOST:
        return selected_backend()
    from porism.engine.device.device_table import find_device

    return find_device(device).backend()


def run(
    schedule: Schedule,
    inputs: Sequence[Storage],
    variables: Mapping[str, int],
    device: str = HOST,
) -> list[Storage]:
    """Run a schedule on inputs; return the one-dimensional outputs and their addresses."""
    return runner(schedule, device)(inputs, variables)


class Runner(Protocol):
    """A callable that runs one schedule: inputs, variables, what is fixed of them → outputs."""

    def __call__(
        self,
        inputs: Sequence[Storage],
        variables: Mapping[str, int],
        fixed: FixedInputs = NOTHING_FIXED,
        overwritten: Collection[int] = (),
    ) -> list[Storage]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A schedule with constant inputs, which are prepacked for its kernels once."""

    run: Runner
    pack: Callable[[Sequence[Storage]], list[Storage]]
    """Return the prepacked constants for `run`, given the inputs."""
    constants: frozenset[int]
    """The numbers of the inputs that are constants."""
    copies: Sequence[ConstantCopy]
    """The prepacked copies, in the order of the packs."""
    in_place: Mapping[int, int]
    """Outputs by number, and the numbers of the inputs that they may overwrite."""
    read_inputs: frozenset[int] = frozenset()
    """The numbers of the inputs that kernels read, not only packed copies of them."""

    @property
    def packed(self) -> frozenset[int]:
        """The numbers of the inputs that have a prepacked copy."""
        return frozenset(copy.source for copy in self.copies)


def runner(schedule: Schedule, device: str = HOST) -> Runner:
    """Return a callable that runs a schedule on a device."""
    if device != HOST:
        return device_runner(schedule, device)[0]
    backend = selected_backend()
    if backend.load is None:
        return functools.partial(_run_reference, schedule)
    return program_of(schedule, backend).call


def device_runner(schedule: Schedule, device: str) -> tuple[Runner, Mapping[int, int]]:
    """Return what runs a schedule on another device than the processor, and its `in_place`."""
    from porism.engine.device.device_program import DeviceProgram
    from porism.engine.device.device_table import find_device

    place = find_device(device)
    backend = place.backend()
    if backend.load is None:
        from porism.engine.device.evaluated_program import EvaluatedProgram

        return EvaluatedProgram(schedule, place).call, {}
    key = (id(schedule), backend.name, device)
    program = _device_programs.get(key)
    if program is None or program.schedule is not schedule or program.device is not place:
        program = DeviceProgram(schedule, place, backend)
        with _lock:
            while len(_device_programs) >= MAX_PROGRAMS:
                del _device_programs[next(iter(_device_programs))]
            _device_programs[key] = program
    program.is_recent = True
    return program.call, program.in_place


def prepare(
    schedule: Schedule,
    constants: frozenset[int] = frozenset(),
    *,
    recompile: bool = False,
    device: str = HOST,
) -> Prepared:
    """Return a schedule with constant inputs, ready to run; `recompile` after tuning."""
    if device != HOST:
        call, in_place = device_runner(schedule, device)
        return Prepared(call, lambda _: [], constants, (), in_place)
    backend = selected_backend()
    if backend.load is None:
        run = functools.partial(_run_reference, schedule)
        return Prepared(run, lambda _: [], constants, (), {})
    packable = frozenset() if settings.verify else constants  # prepacked copies are not verified
    program = program_of(schedule, backend, packable, recompile=recompile)
    program.is_recent = False  # the caller keeps it alive
    copies = program.compiled.copies
    read = frozenset(number for number, _ in program.inputs)
    return Prepared(program.call, program.pack, constants, copies, program.in_place, read)


def _run_reference(
    schedule: Schedule,
    inputs: Sequence[Storage],
    variables: Mapping[str, int],
    fixed: FixedInputs = NOTHING_FIXED,
    overwritten: Collection[int] = (),
) -> list[Storage]:
    from porism.engine.run import reference_runner

    arrays = reference_runner.run(schedule, [array for array, _ in inputs], variables)
    return [(array, address_of(array)) for array in arrays]


def program_of(
    schedule: Schedule,
    backend: Backend,
    constants: frozenset[int] = frozenset(),
    *,
    recompile: bool = False,
) -> Program:
    """Return the program of a schedule, from the cache unless `recompile`."""
    key = (id(schedule), backend.name, constants)
    program = None if recompile else _programs.get(key)
    if program is None or program.schedule is not schedule:
        program = Program(schedule, backend, constants)
        if settings.verify:
            from porism.engine.run.compile_verification import verify_tuned_kernels

            verify_tuned_kernels(schedule, backend)
        with _lock:
            while len(_programs) >= MAX_PROGRAMS:
                del _programs[next(iter(_programs))]
            _programs[key] = program
    program.is_recent = True
    return program


def forget_programs() -> None:
    """Evict programs that nothing refers to and that were not used since the last call."""
    if _lock.acquire(blocking=False):
        try:
            drop_unreferenced(_programs, lambda program: program.is_recent)
            drop_unreferenced(_device_programs, lambda program: program.is_recent)
            programs: list[Program | DeviceProgram] = [*_programs.values()]
            for program in (*programs, *_device_programs.values()):
                program.is_recent = False
        finally:
            _lock.release()
