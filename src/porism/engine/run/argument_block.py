"""Argument block: the arguments of all kernels of a program, and the jobs of the thread pool.

Kernels that are launched together are one job, whose argument is a table of theirs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from porism.backends.kernel_function import KernelFunction
from porism.backends.llvm.thread_pool import BATCH_JOB_WORDS, ORDER_WORDS, batch_function
from porism.engine.cache.program_cache import CompiledSchedule
from porism.ir import ops
from porism.schedule.schedule import Schedule, launches

UNIT_BYTES: Final = 1 << 16
"""Bytes that a unit of work in a batch reads and writes, chosen by hand: few microseconds."""

OutputSlots = tuple[int, np.dtype[Any], list[int]]
"""The bytes of an output, its dtype, and the argument words that hold its address."""


@dataclass(frozen=True, slots=True)
class RunSizes:
    """The sizes of a run, for some values of the variables."""

    variables: tuple[int, ...]
    outputs: tuple[OutputSlots, ...]
    shared: tuple[int, ...]
    """The iterations of the parallel loop of each kernel; 1 if it has none."""
    units: tuple[int, ...]
    """The parts that threads may share these iterations in: 1 where a kernel has little work."""
    temporaries: tuple[tuple[int, int], ...]
    """Offsets in the arena, and the argument words that hold the addresses."""
    arena: int
    """Bytes of the arena."""
    is_long: bool
    """Whether a run leaves the main thread, so that Ctrl-C is answered meanwhile."""


@dataclass(frozen=True, slots=True)
class ArgumentLayout:
    """The words of an argument block: those of a kernel after those of the kernels before it."""

    begins: list[int]
    """The first word of each kernel."""
    buffers: list[list[int]]
    """The words that hold the address of each buffer of the schedule."""
    packed: list[list[int]]
    """The words that hold the address of each prepacked constant."""
    variables: list[tuple[int, str]]
    """The words that hold values of variables, with their names."""
    word_count: int
    """Words of 8 bytes in an argument block."""


def lay_out_arguments(schedule: Schedule, compiled: CompiledSchedule) -> ArgumentLayout:
    """Return the layout of the arguments of a compiled schedule."""
    begins: list[int] = []
    buffers: list[list[int]] = [[] for _ in schedule.buffers]
    packed: list[list[int]] = [[] for _ in compiled.copies]
    variables: list[tuple[int, str]] = []
    word = 0
    for k, (step, function) in enumerate(zip(schedule.steps, compiled.functions, strict=True)):
        begins.append(word)
        for number in function.buffers:
            copy = compiled.copy_of_parameter.get((k, number))
            words = buffers[step.buffers[number]] if copy is None else packed[copy]
            words.append(word)
            word += 1
        variables += enumerate(function.variables, word)
        word += len(function.variables)
    return ArgumentLayout(begins, buffers, packed, variables, word)


class ArgumentBlock:
    """The arguments of all kernels of a program, and the job lists; used by one run at a time.

    `order` has a job for each launch, and `jobs` one for each kernel, for runs that are observed. A
    launch of several kernels is a job whose arguments are in `batches`.
    """

    __slots__ = (
        "address", "arena", "batches", "counts", "fixed", "jobs", "order", "pool", "sizes",
        "units", "varying", "words",
    )  # fmt: skip

    def __init__(
        self, layout: ArgumentLayout, functions: Sequence[KernelFunction], schedule: Schedule
    ) -> None:
        groups = launches(schedule.steps)
        self.words = (ctypes.c_int64 * max(layout.word_count, 1))()
        self.jobs = (ctypes.c_int64 * max(3 * len(functions), 1))()
        self.order = (ctypes.c_int64 * (ORDER_WORDS + 3 * len(groups)))()
        self.order[1] = len(groups)
        self.address = ctypes.addressof(self.order)
        self.pool = 0
        self.sizes: RunSizes | None = None
        self.arena = 0
        self.fixed: object = None
        self.varying: Sequence[tuple[int, int]] = ()
        start = ctypes.addressof(self.words)
        for k, function in enumerate(functions):
            self.jobs[3 * k] = function.address
            self.jobs[3 * k + 1] = start + 8 * layout.begins[k]
        self.counts: list[tuple[Any, int]] = []
        """Where the iterations of each kernel are written for its launch."""
        self.units: list[tuple[int, Any, int]] = []
        """Kernels whose units differ between runs: its table, and its word in the order."""
        self.batches: list[Any] = []
        for number, members in enumerate(groups):
            slot = ORDER_WORDS + 3 * number
            extent = functions[members[0]].parallel
            if len(members) > 1:
                self._add_batch(schedule, members, slot)
            elif extent is not None and extent.op is not ops.CONST:
                self._add_alone(members[0], slot)
            else:
                self.order[slot], self.order[slot + 1] = self._job(members[0])
                self.counts.append((self.order, slot + 2))

    def _add_batch(self, schedule: Schedule, members: Sequence[int], slot: int) -> None:
        """Write a job that runs several kernels, and the table that is its argument."""
        table = (ctypes.c_int64 * (1 + BATCH_JOB_WORDS * len(members)))(len(members))
        first = 0
        for n, k in enumerate(members):
            word = 1 + BATCH_JOB_WORDS * n
            table[word], table[word + 1] = self._job(k)
            units = _work_units(schedule, k)
            table[word + 3], table[word + 4] = first, units
            self.counts.append((table, word + 2))
            first += units
        self.batches.append(table)
        job = batch_function(), ctypes.addressof(table), first
        self.order[slot], self.order[slot + 1], self.order[slot + 2] = job

    def _add_alone(self, number: int, slot: int) -> None:
        """Write a job that runs one kernel, in as many units as the work of a run is worth."""
        table = (ctypes.c_int64 * (1 + BATCH_JOB_WORDS))(1)
        table[1], table[2] = self._job(number)
        self.counts.append((table, 3))
        self.units.append((number, table, slot + 2))
        self.batches.append(table)
        self.order[slot], self.order[slot + 1] = batch_function(), ctypes.addressof(table)

    def set_units(self, units: Sequence[int]) -> None:
        """Write the units of the kernels that have other ones in each run."""
        for number, table, word in self.units:
            table[5] = self.order[word] = units[number]

    def _job(self, number: int) -> tuple[int, int]:
        """Return the addresses of a kernel and of its arguments."""
        return self.jobs[3 * number], self.jobs[3 * number + 1]


def _work_units(schedule: Schedule, number: int) -> int:
    """Return the work of a step in units of memory traffic, at most."""
    touched = sum(schedule.buffers[b].bytes for b in set(schedule.steps[number].buffers))
    return 1 + min(touched, 1 << 46) // UNIT_BYTES
