"""Timing: one kernel in several versions, on the same data, checked and timed.

The result of the first version is what the others must give. Every sample of another version comes
right after one of the first, and it is their proportion that counts: memory and clocks are not as
fast at all times, least of all on machines that are shared. It is that of the smallest of a few
samples, since whatever else disturbs only adds, but at least that of most; short kernels run many
times in a sample. Who is clearly slower than the best so far is not timed to the end.
"""

from __future__ import annotations

import ctypes
import math
import statistics
import time
from collections.abc import Mapping
from typing import Final

import numpy as np

from porism.backends.kernel_function import Function
from porism.engine.run import array_allocator
from porism.engine.run.bound_sizes import number_of
from porism.engine.run.program import pool
from porism.engine.tune.kernel_trial import difference, parameters, tolerance, values_of
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort

SAMPLES: Final = 5
SAMPLE_SECONDS: Final = 3e-4
"""What one sample takes, at least."""

OPEN_SECONDS: Final = 0.05
"""What the first version is timed for, at least."""

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

    def seconds(self) -> float:
        """The time of one run of the first version."""
        begin = time.perf_counter()
        samples = [self._run(self.wanted_by)]
        times = _times(samples[0])
        while len(samples) <= SAMPLES or time.perf_counter() - begin < OPEN_SECONDS:
            samples.append(self._run(self.wanted_by, times))
            if time.perf_counter() - begin > ENOUGH_SECONDS:
                break
        return statistics.median(samples[1:])

    def ratio(self, candidate: Function, bar: float) -> float:
        """The time of a candidate in times of the first version; well above the bar only about.

        One that seems to be below the bar is timed again, and the larger of both counts: among many
        candidates there are some that were lucky.
        """
        found = self._ratio(candidate, bar)
        return max(found, self._ratio(candidate, bar)) if found < bar else found

    def _ratio(self, candidate: Function, bar: float) -> float:
        begin = time.perf_counter()
        once = [self._run(each) for each in (self.wanted_by, candidate)]
        best = [math.inf, math.inf]
        pairs = []
        for _ in range(SAMPLES):
            pair = [
                self._sample(each, _times(once[k]))
                for k, each in enumerate((self.wanted_by, candidate))
            ]
            best = [min(both) for both in zip(best, pair, strict=True)]
            pairs.append(pair[1] / pair[0])
            late = time.perf_counter() - begin > ENOUGH_SECONDS
            if late or best[1] > HOPELESS * bar * best[0]:
                break
        return max(best[1] / best[0], statistics.median(pairs))

    def duel(self, candidate: Function) -> tuple[float, float]:
        """The seconds of the first version and of a candidate, timed by turns."""
        times = _times(min(self._run(self.wanted_by) for _ in range(2)))
        pairs = []
        begin = time.perf_counter()
        for n in range(ROUNDS):
            order = [self.wanted_by, candidate][:: 1 if n % 2 else -1]
            found = {id(each): self._sample(each, times) for each in order}
            pairs.append((found[id(self.wanted_by)], found[id(candidate)]))
            if time.perf_counter() - begin > 4 * ENOUGH_SECONDS and n >= 2:
                break
        before, after = zip(*pairs, strict=True)
        return statistics.median(before), statistics.median(after)

    def _sample(self, function: Function, times: int) -> float:
        """The seconds of one run, with the caches as the one before it has left them."""
        self._run(function)
        return self._run(function, times)

    def _run(self, function: Function, times: int = 1) -> float:
        """Run it some times on all threads; the seconds of one run."""
        words = [array_allocator.address_of(self.data[number]) for number in function.buffers]
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


def _times(seconds: float) -> int:
    """Runs of one sample."""
    return max(int(SAMPLE_SECONDS / max(seconds, 1e-7)), 1)


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
    places = _places(kernel)
    found = {}
    for number, pointer in sorted(parameters(kernel).items()):
        dtype, size = pointer.dtype.element, pointer.dtype.size
        array, _ = array_allocator.new_array(size, dtype.numpy)
        if number in places:
            array[...] = generator.integers(0, places[number], size).astype(dtype.numpy)
            found[number] = array
            continue
        period = values_of(generator, dtype, min(size, PERIOD))
        for begin in range(0, size, PERIOD):
            array[begin : begin + PERIOD] = period[: size - begin]
        found[number] = array
    return found


def _places(kernel: UOp) -> dict[int, int]:
    """Of parameters that say where to read in others how many places there are.

    That is the least that they are compared with on the way: an index of a row is less than the
    number of rows.
    """
    found: dict[int, int] = {}
    for access in toposort(kernel):
        if access.op is not ops.INDEX:
            continue
        inside = toposort(access.src[1])
        loads = [n for n in inside if n.op is ops.INDEX and not n.dtype.is_float]
        numbers = {int(n.arg) for load in loads for n in toposort(load) if n.op is ops.PARAM}
        bounds = [n.src[1].arg for n in inside if n.op is ops.LT and n.src[1].op is ops.CONST]
        most = min((int(n) for n in bounds if n > 1), default=0)
        if most:
            found.update({number: min(found.get(number, most), most) for number in numbers})
    return found
