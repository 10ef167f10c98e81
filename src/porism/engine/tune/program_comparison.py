"""Program comparison: a whole program timed with its tuned kernels and without them.

A kernel is tuned alone, with its inputs in the cache. In a program fewer of its inputs are cached,
the data it evicts is missed by other kernels, and constants may be prepacked for it. So the whole
program is timed both ways, alternately, and tuned kernels that make it slower are reverted to the
actions of the heuristic.

All constants here were chosen by hand.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from porism.backends.backend_table import Backend
from porism.base.settings import settings
from porism.engine.run import array_allocator
from porism.engine.run.bound_sizes import element_count
from porism.engine.run.buffer_storage import Storage
from porism.engine.run.program import FixedInputs, Program
from porism.engine.tune import tuning, tuning_cache
from porism.engine.tune.kernel_timing import RANDOM_PERIOD
from porism.engine.tune.kernel_trial import random_values
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Actions
from porism.optimize.strategy import heuristic
from porism.pipeline import unscheduled_kernel
from porism.schedule.schedule import Role, Schedule

ROUNDS: Final = 11
"""Pairs of samples of the two programs."""

MIN_ROUNDS: Final = 3
MAX_SECONDS: Final = 2.0
"""Seconds after which `MIN_ROUNDS` rounds are enough."""

SAMPLE_SECONDS: Final = 1e-3
"""The least seconds of one sample."""

COMPARISON_SHARE: Final = 0.1
"""The part of the tuning time of a program that is reserved for the comparison."""

MAX_SLOWDOWN: Final = 1.005
"""The ratio of times up to which a program does not count as slower."""

MAX_SINGLE_KERNELS: Final = 12
"""Kernels that are compared one by one if all together make a program slower."""


def tune_program_kernels(schedule: Schedule, backend: Backend, constants: frozenset[int]) -> None:
    """Tune the new kernels of a program, and revert those that make the program slower."""
    faster = tuning.tune_new_kernels(
        [step.kernel for step in schedule.steps], backend, 1 - COMPARISON_SHARE
    )
    if faster:
        keep_faster_kernels(
            schedule, backend, constants, faster, COMPARISON_SHARE * settings.beam_seconds
        )


def keep_faster_kernels(
    schedule: Schedule,
    backend: Backend,
    constants: frozenset[int],
    faster: Sequence[UOp],
    seconds: float,
) -> None:
    """Revert tuned kernels that make a program slower, within about `seconds`."""
    _ProgramComparison(schedule, backend, constants).revert_slower(
        faster, time.monotonic() + seconds
    )


class _ProgramComparison:
    """A schedule with the largest values of its variables, compiled and timed in versions."""

    def __init__(self, schedule: Schedule, backend: Backend, constants: frozenset[int]) -> None:
        self.schedule = schedule
        self.backend = backend
        self.constants = constants
        sizes = [dim for buffer in schedule.buffers for dim in buffer.dims]
        roots = [*(step.kernel for step in schedule.steps), *sizes]
        variables = [n for n in toposort(*roots) if n.op is ops.VARIABLE]
        self.variables = {str(n.arg[0]): int(n.vmax) for n in variables}

    def revert_slower(self, faster: Sequence[UOp], deadline: float) -> None:
        """Revert those of the kernels in `faster` with which the whole program is slower.

        If all together make it slower, each is compared alone; without time, it is reverted.
        """
        inputs = self._inputs()
        with settings.override(beam=0):
            after = self._program(())
            if self._ratio(self._program(faster), after, inputs) <= MAX_SLOWDOWN:
                return
            cache = tuning_cache.TuningCache(self.backend)
            entries = {kernel: cache.get(kernel) for kernel in faster}
            gains = {
                k: entry.before - entry.after for k, entry in entries.items() if entry is not None
            }
            order = sorted(gains, key=lambda kernel: -gains[kernel])
            slower = list(faster)
            for kernel in order[:MAX_SINGLE_KERNELS] if len(slower) > 1 else ():
                if time.monotonic() > deadline:
                    break
                others = [other for other in slower if other is not kernel]
                if self._ratio(self._program(slower), self._program(others), inputs) < 1.0:
                    slower = others
            for kernel in slower:
                times = cache.get(kernel)
                assert times is not None, "it was tuned"
                actions = _heuristic_actions(kernel, self.backend)
                tuning_cache.record(kernel, self.backend, actions, times.before, times.before)

    def _program(self, heuristic_kernels: Sequence[UOp]) -> Program:
        """Return the program with some of its kernels scheduled by the heuristic."""
        with _with_heuristic_actions(heuristic_kernels, self.backend):
            return Program(self.schedule, self.backend, self.constants)

    def _inputs(self) -> list[Storage]:
        generator = np.random.default_rng(0)
        buffers = {b.number: b for b in self.schedule.buffers if b.role is Role.INPUT}
        inputs: list[Storage] = []
        for number in range(max(buffers, default=-1) + 1):
            buffer = buffers.get(number)
            if buffer is None:
                inputs.append(
                    array_allocator.new_array(0, np.dtype(np.float32))
                )  # no kernel reads it
                continue
            array, address = array_allocator.new_array(
                element_count(buffer, self.variables), buffer.dtype.numpy
            )
            array[...] = 0
            if buffer.dtype.is_float:
                period = random_values(generator, buffer.dtype, min(array.size, RANDOM_PERIOD))
                for begin in range(0, array.size, RANDOM_PERIOD):
                    array[begin : begin + RANDOM_PERIOD] = period[: array.size - begin]
            inputs.append((array, address))
        return inputs

    def _ratio(self, before: Program, after: Program, inputs: Sequence[Storage]) -> float:
        """Return the time of program `after` divided by that of `before`, timed alternately."""
        programs = [(program, program.pack(inputs)) for program in (before, after)]
        once = [self._sample(*program_and_packs, inputs, 1) for program_and_packs in programs]
        runs = max(int(SAMPLE_SECONDS / max(*once, 1e-7)), 1)
        ratios = []
        begin = time.perf_counter()
        for n in range(ROUNDS):
            seconds = [0.0, 0.0]
            for k in (0, 1) if n % 2 else (1, 0):
                seconds[k] = self._sample(*programs[k], inputs, runs)
            ratios.append(seconds[1] / seconds[0])
            if time.perf_counter() - begin > MAX_SECONDS and n + 1 >= MIN_ROUNDS:
                break
        return statistics.median(ratios)

    def _sample(
        self, program: Program, packs: Sequence[Storage], inputs: Sequence[Storage], runs: int
    ) -> float:
        """Return the seconds of some runs, after a run that warms the caches."""
        fixed = FixedInputs(packs)
        program.call(inputs, self.variables, fixed)
        begin = time.perf_counter()
        for _ in range(runs):
            program.call(inputs, self.variables, fixed)
        return time.perf_counter() - begin


def _heuristic_actions(kernel: UOp, backend: Backend) -> Actions:
    target = backend.target()
    return heuristic.choose_actions(unscheduled_kernel(kernel, target), target)


@contextmanager
def _with_heuristic_actions(kernels: Sequence[UOp], backend: Backend) -> Iterator[None]:
    """Schedule some kernels by the heuristic inside the block, whatever the tuning cache says."""
    cache = tuning_cache.TuningCache(backend)
    entries = [(kernel, cache.get(kernel)) for kernel in kernels]
    for kernel, _ in entries:
        tuning_cache.record(
            kernel, backend, _heuristic_actions(kernel, backend), 1.0, 1.0, on_disk=False
        )
    try:
        yield
    finally:
        for kernel, entry in entries:
            if entry is not None:
                tuning_cache.record(
                    kernel, backend, entry.actions, entry.before, entry.after, on_disk=False
                )
