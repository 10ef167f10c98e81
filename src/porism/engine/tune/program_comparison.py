"""Whole: a program with its tuned kernels beside the same program without them.

A kernel is tuned on its own, and finds there what it reads in a cache. In a program it may find
less, what it takes away is missed by others, and constants are laid out for it beforehand. So a
program is run both ways, by turns, and a kernel that makes it slower is as the heuristic says
again.
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
from porism.engine.run.program import Program
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
FEWEST_ROUNDS: Final = 3
ENOUGH_SECONDS: Final = 2.0
"""After so many, fewer rounds have to do."""

SAMPLE_SECONDS: Final = 1e-3
"""What one sample takes, at least."""

PART: Final = 0.1
"""Of the time for a program, to run it both ways at the end."""

NO_WORSE: Final = 1.005
"""A program that takes no more than this part of the time before is not slower."""

MOST: Final = 12
"""Kernels that are looked at one by one, if all together make a program slower."""


def tune_whole(schedule: Schedule, backend: Backend, constants: frozenset[int]) -> None:
    """Tune the new kernels of a program as the settings ask for, and see that it is no slower."""
    faster = tuning.tune_new_kernels([step.kernel for step in schedule.steps], backend, 1 - PART)
    if faster:
        settle(schedule, backend, constants, faster, PART * settings.beam_seconds)


def settle(
    schedule: Schedule,
    backend: Backend,
    constants: frozenset[int],
    faster: Sequence[UOp],
    seconds: float,
) -> None:
    """Keep those of the tuned kernels with which a program is not slower, in about some seconds."""
    _Whole(schedule, backend, constants).settle(faster, time.monotonic() + seconds)


class _Whole:
    """A program, and data to run it on."""

    def __init__(self, schedule: Schedule, backend: Backend, constants: frozenset[int]) -> None:
        self.schedule = schedule
        self.backend = backend
        self.constants = constants
        sizes = [dim for buffer in schedule.buffers for dim in buffer.dims]
        roots = [*(step.kernel for step in schedule.steps), *sizes]
        variables = [n for n in toposort(*roots) if n.op is ops.VARIABLE]
        self.variables = {str(n.arg[0]): int(n.vmax) for n in variables}

    def settle(self, faster: Sequence[UOp], until: float) -> None:
        """Keep those of the tuned kernels with which the program is not slower.

        Those for which there is no time to see are as before.
        """
        inputs = self._inputs()
        with settings.override(beam=0):
            after = self._program(())
            if self._ratio(self._program(faster), after, inputs) <= NO_WORSE:
                return
            known = tuning_cache.TuningCache(self.backend)
            found = {kernel: known.get(kernel) for kernel in faster}
            gains = {k: each.before - each.after for k, each in found.items() if each is not None}
            order = sorted(gains, key=lambda kernel: -gains[kernel])
            left = list(faster)
            for kernel in order[:MOST] if len(left) > 1 else ():
                if time.monotonic() > until:
                    break
                rest = [other for other in left if other is not kernel]
                if self._ratio(self._program(left), self._program(rest), inputs) < 1.0:
                    left = rest
            for kernel in left:
                seconds = known.get(kernel)
                assert seconds is not None, "it was tuned"
                start = _heuristics(kernel, self.backend)
                tuning_cache.record(kernel, self.backend, start, seconds.before, seconds.before)

    def _program(self, plain: Sequence[UOp]) -> Program:
        """The program with some of its kernels as the heuristic says."""
        with _as_before(plain, self.backend):
            return Program(self.schedule, self.backend, self.constants)

    def _inputs(self) -> list[Storage]:
        generator = np.random.default_rng(0)
        buffers = {b.number: b for b in self.schedule.buffers if b.role is Role.INPUT}
        found: list[Storage] = []
        for number in range(max(buffers, default=-1) + 1):
            buffer = buffers.get(number)
            if buffer is None:
                found.append(array_allocator.new_array(0, np.dtype(np.float32)))  # nobody reads it
                continue
            array, address = array_allocator.new_array(
                element_count(buffer, self.variables), buffer.dtype.numpy
            )
            array[...] = 0
            if buffer.dtype.is_float:
                period = random_values(generator, buffer.dtype, min(array.size, RANDOM_PERIOD))
                for begin in range(0, array.size, RANDOM_PERIOD):
                    array[begin : begin + RANDOM_PERIOD] = period[: array.size - begin]
            found.append((array, address))
        return found

    def _ratio(self, before: Program, after: Program, inputs: Sequence[Storage]) -> float:
        """The time of one program in times of another, run by turns."""
        both = [(program, program.pack(inputs)) for program in (before, after)]
        once = [self._sample(*each, inputs, 1) for each in both]
        times = max(int(SAMPLE_SECONDS / max(*once, 1e-7)), 1)
        ratios = []
        begin = time.perf_counter()
        for n in range(ROUNDS):
            seconds = [0.0, 0.0]
            for k in (0, 1) if n % 2 else (1, 0):
                seconds[k] = self._sample(*both[k], inputs, times)
            ratios.append(seconds[1] / seconds[0])
            if time.perf_counter() - begin > ENOUGH_SECONDS and n + 1 >= FEWEST_ROUNDS:
                break
        return statistics.median(ratios)

    def _sample(
        self, program: Program, packs: Sequence[Storage], inputs: Sequence[Storage], times: int
    ) -> float:
        """The seconds of some runs, after one that leaves the caches as its own."""
        program.call(inputs, self.variables, packs)
        begin = time.perf_counter()
        for _ in range(times):
            program.call(inputs, self.variables, packs)
        return time.perf_counter() - begin


def _heuristics(kernel: UOp, backend: Backend) -> Actions:
    target = backend.target()
    return heuristic.choose_actions(unscheduled_kernel(kernel, target), target)


@contextmanager
def _as_before(kernels: Sequence[UOp], backend: Backend) -> Iterator[None]:
    """Some kernels as the heuristic says, whatever was found for them."""
    known = tuning_cache.TuningCache(backend)
    found = [(kernel, known.get(kernel)) for kernel in kernels]
    for kernel, _ in found:
        tuning_cache.record(kernel, backend, _heuristics(kernel, backend), 1.0, 1.0, on_disk=False)
    try:
        yield
    finally:
        for kernel, each in found:
            if each is not None:
                tuning_cache.record(
                    kernel, backend, each.actions, each.before, each.after, on_disk=False
                )
