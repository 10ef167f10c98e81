"""Timing: one kernel in several versions, on the same data, checked and timed.

The result of the first version is what the others must give. A time is the smallest of a few
samples, since whatever disturbs only adds; short kernels run many times in a sample. Who is clearly
slower than the best so far is not timed to the end.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Mapping
from typing import Final

import numpy as np

from porism.backends.function import Function
from porism.engine import memory
from porism.engine.program import pool
from porism.engine.sizes import number_of
from porism.engine.trial import difference, parameters, tolerance, values_of
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.semantics import Array
from porism.ir.walk import toposort

SAMPLES: Final = 5
SAMPLE_SECONDS: Final = 3e-4
"""What one sample takes, at least."""

ENOUGH_SECONDS: Final = 0.3
"""After this long, what is known has to do."""

HOPELESS: Final = 1.25
"""How much slower than the best so far one is, after a sample, to be given up."""

ROUNDS: Final = 11
"""Of a duel."""

CHUNK: Final = 1 << 16
"""Elements that are compared at a time, so that they stay in a cache."""

PERIOD: Final = 65521
"""After so many elements random data repeats: making more takes long, and this is a prime, so that
rows are different."""


class Bench:
    """A kernel, data for it, and the result that is wanted."""

    def __init__(self, kernel: UOp, wanted_by: Function) -> None:
        self.wanted_by = wanted_by
        self.data = _data(kernel)
        self.variables = largest_variables(kernel)
        self._initial = self.data[0].copy()
        self._run(wanted_by)
        self.wanted = self.data[0].copy()

    def fault(self, candidate: Function) -> str | None:
        """What is wrong with the result of a candidate, if something is."""
        self.data[0][...] = self._initial
        self._run(candidate)
        if _is_near(self.wanted, self.data[0]):
            return None
        worst, place = difference(self.wanted, self.data[0])
        if worst <= tolerance(self.wanted):
            return None
        return f"element {place} is {self.data[0][place]} and not {self.wanted[place]}"

    def time(self, candidate: Function, bar: float | None) -> float:
        """The seconds of one run; if that is well above the bar, only about."""
        begin = time.perf_counter()
        best = self._run(candidate)
        times = max(int(SAMPLE_SECONDS / max(best, 1e-7)), 1)
        for _ in range(SAMPLES):
            best = min(best, self._run(candidate, times))
            late = time.perf_counter() - begin > ENOUGH_SECONDS
            if late or (bar is not None and best > HOPELESS * bar):
                break
        return best

    def duel(self, candidate: Function) -> tuple[float, float]:
        """The seconds of the first version and of a candidate, timed by turns."""
        once = min(self._run(self.wanted_by) for _ in range(2))
        times = max(int(SAMPLE_SECONDS / max(once, 1e-7)), 1)
        pairs = []
        begin = time.perf_counter()
        for n in range(ROUNDS):
            order = [self.wanted_by, candidate][:: 1 if n % 2 else -1]
            found = {id(each): self._run(each, times) for each in order}
            pairs.append((found[id(self.wanted_by)], found[id(candidate)]))
            if time.perf_counter() - begin > 4 * ENOUGH_SECONDS and n >= 2:
                break
        before, after = zip(*pairs, strict=True)
        return statistics.median(before), statistics.median(after)

    def _run(self, function: Function, times: int = 1) -> float:
        """Run it some times on all threads; the seconds of one run."""
        words = [memory.address_of(self.data[number]) for number in function.buffers]
        words += [self.variables[name] for name in function.variables]
        block = (ctypes.c_int64 * max(len(words), 1))(*words)
        size = function.parallel
        shared = 1 if size is None else number_of(size, self.variables)
        job = (function.address, ctypes.addressof(block), shared)
        jobs = (ctypes.c_int64 * (3 * times))(*(job * times))
        threads = pool()
        begin = time.perf_counter()
        threads.run(ctypes.addressof(jobs), times)
        return (time.perf_counter() - begin) / times


def _is_near(wanted: Array, found: Array) -> bool:
    """Whether all is finite and within the tolerance: the usual case, told quickly."""
    if wanted.dtype not in (np.float32, np.float64):
        return bool(np.array_equal(wanted, found))
    scale = 1.0
    worst = 0.0
    for begin in range(0, wanted.size, CHUNK):
        one, other = wanted[begin : begin + CHUNK], found[begin : begin + CHUNK]
        scale = max(scale, float(np.abs(one).max()))
        worst = max(worst, float(np.abs(one - other).max()))
        if not np.isfinite(worst + scale):
            return False
    return worst <= tolerance(wanted) * scale


def largest_variables(kernel: UOp) -> Mapping[str, int]:
    """Symbolic sizes as large as they can be."""
    return {str(n.arg[0]): int(n.vmax) for n in toposort(kernel) if n.op is ops.VARIABLE}


def _data(kernel: UOp) -> dict[int, Array]:
    """Random arrays for the parameters, also for that which is written: all of it must be."""
    generator = np.random.default_rng(0)
    found = {}
    for number, pointer in sorted(parameters(kernel).items()):
        dtype, size = pointer.dtype.element, pointer.dtype.size
        array, _ = memory.new_array(size, dtype.numpy)
        period = values_of(generator, dtype, min(size, PERIOD))
        for begin in range(0, size, PERIOD):
            array[begin : begin + PERIOD] = period[: size - begin]
        found[number] = array
    return found
