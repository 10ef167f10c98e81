"""Kernel timing: candidates for one kernel, checked against a baseline and timed beside it.

The baseline is the heuristic's version; its result is what candidates must compute. Each sample of
a candidate follows a sample of the baseline, and only their ratio counts: clocks and memory change
speed over time, most of all on shared machines. The ratio is that of the fastest samples, since
disturbances only add time, but at least the median of the pairs. Short kernels run many times in a
sample. A candidate that is clearly slower than the best so far is not timed to the end.

All constants here were chosen by hand.
"""

from __future__ import annotations

import ctypes
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from porism.backends.kernel_function import KernelFunction
from porism.engine.run import array_allocator
from porism.engine.run.bound_sizes import evaluate_size
from porism.engine.run.program import thread_pool
from porism.engine.tune.kernel_trial import largest_difference, parameters, random_values, tolerance
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort

SAMPLES: Final = 5
"""Samples of a candidate, and at least of the baseline."""

SAMPLE_SECONDS: Final = 3e-4
"""The least seconds of one sample."""

BASELINE_SECONDS: Final = 0.05
"""The least seconds for which the baseline is timed alone."""

MAX_SECONDS: Final = 0.3
"""Seconds after which no more samples are taken."""

GIVE_UP_RATIO: Final = 1.25
"""The ratio to the best time so far from which on a candidate is given up after a sample."""

COMPARE_ROUNDS: Final = 11
"""Pairs of samples in a final comparison."""

COMPARE_CHUNK: Final = 1 << 16
"""Elements that are compared at a time, so that they stay in the cache."""

RANDOM_PERIOD: Final = 65521
"""Elements after which random data repeats, since making more takes long; a prime, so that rows
are different."""


class Benchmark:
    """A kernel with random data, a baseline, and the expected result."""

    def __init__(self, kernel: UOp, baseline: KernelFunction) -> None:
        self.baseline = baseline
        self.data = random_buffers(kernel)
        self.variables = largest_variables(kernel)
        self._initial = self.data[0].copy()
        self._run(baseline)
        self.expected = self.data[0].copy()

    def mismatch(self, candidate: KernelFunction) -> str | None:
        """Run a candidate; return how its result differs, or None if it is right."""
        self.data[0][...] = self._initial
        self._run(candidate)
        if _is_within_tolerance(self.expected, self.data[0]):
            return None
        error, position = largest_difference(self.expected, self.data[0])
        if error <= tolerance(self.expected):
            return None
        return f"element {position} is {self.data[0][position]} and not {self.expected[position]}"

    def seconds(self) -> float:
        """Return the seconds of one run of the baseline."""
        begin = time.perf_counter()
        samples = [self._run(self.baseline)]
        runs = _runs_per_sample(samples[0])
        while len(samples) <= SAMPLES or time.perf_counter() - begin < BASELINE_SECONDS:
            samples.append(self._run(self.baseline, runs))
            if time.perf_counter() - begin > MAX_SECONDS:
                break
        return statistics.median(samples[1:])

    def ratio(self, candidate: KernelFunction, bar: float) -> float:
        """Return the time of a candidate divided by that of the baseline; rough if far above `bar`.

        A candidate below `bar` is timed twice, and the larger ratio counts: among many candidates
        some are lucky.
        """
        ratio = self._ratio(candidate, bar)
        return max(ratio, self._ratio(candidate, bar)) if ratio < bar else ratio

    def _ratio(self, candidate: KernelFunction, bar: float) -> float:
        begin = time.perf_counter()
        once = [self._run(function) for function in (self.baseline, candidate)]
        best = [math.inf, math.inf]
        pairs = []
        for _ in range(SAMPLES):
            pair = [
                self._sample(function, _runs_per_sample(once[k]))
                for k, function in enumerate((self.baseline, candidate))
            ]
            best = [min(both) for both in zip(best, pair, strict=True)]
            pairs.append(pair[1] / pair[0])
            late = time.perf_counter() - begin > MAX_SECONDS
            if late or best[1] > GIVE_UP_RATIO * bar * best[0]:
                break
        return max(best[1] / best[0], statistics.median(pairs))

    def compare(self, candidate: KernelFunction) -> tuple[float, float]:
        """Return the seconds of the baseline and of a candidate, timed alternately."""
        runs = _runs_per_sample(min(self._run(self.baseline) for _ in range(2)))
        pairs = []
        begin = time.perf_counter()
        for n in range(COMPARE_ROUNDS):
            order = [self.baseline, candidate][:: 1 if n % 2 else -1]
            samples = {id(function): self._sample(function, runs) for function in order}
            pairs.append((samples[id(self.baseline)], samples[id(candidate)]))
            if time.perf_counter() - begin > 4 * MAX_SECONDS and n >= 2:
                break
        before, after = zip(*pairs, strict=True)
        return statistics.median(before), statistics.median(after)

    def _sample(self, function: KernelFunction, runs: int) -> float:
        """Return the seconds of one run, after a run that warms the caches."""
        self._run(function)
        return self._run(function, runs)

    def _run(self, function: KernelFunction, runs: int = 1) -> float:
        """Run a function some times on all threads; return the seconds of one run."""
        words = [array_allocator.address_of(self.data[number]) for number in function.buffers]
        words += [self.variables[name] for name in function.variables]
        arguments = (ctypes.c_int64 * max(len(words), 1))(*words)
        size = function.parallel
        iterations = 1 if size is None else evaluate_size(size, self.variables)
        job = (function.address, ctypes.addressof(arguments), iterations)
        jobs = (ctypes.c_int64 * (3 * runs))(*(job * runs))
        threads = thread_pool()
        begin = time.perf_counter()
        threads.run(ctypes.addressof(jobs), runs)
        return (time.perf_counter() - begin) / runs


def _runs_per_sample(seconds: float) -> int:
    """Return the runs per sample for a kernel that takes some seconds."""
    return max(int(SAMPLE_SECONDS / max(seconds, 1e-7)), 1)


def _is_within_tolerance(expected: Array, actual: Array) -> bool:
    """Return whether all values are finite and within the tolerance: the quick, usual check."""
    if expected.dtype not in (np.float32, np.float64):
        return bool(np.array_equal(expected, actual))
    scale = 1.0
    worst = 0.0
    for begin in range(0, expected.size, COMPARE_CHUNK):
        expected_chunk, actual_chunk = (
            expected[begin : begin + COMPARE_CHUNK],
            actual[begin : begin + COMPARE_CHUNK],
        )
        scale = max(scale, float(np.abs(expected_chunk).max()))
        worst = max(worst, float(np.abs(expected_chunk - actual_chunk).max()))
        if not np.isfinite(worst + scale):
            return False
    return worst <= tolerance(expected) * scale


def largest_variables(kernel: UOp) -> Mapping[str, int]:
    """Return the largest value of each variable of a kernel."""
    return {str(n.arg[0]): int(n.vmax) for n in toposort(kernel) if n.op is ops.VARIABLE}


def random_buffers(kernel: UOp) -> dict[int, Array]:
    """Return random arrays for the PARAMs, also for the output, which must be overwritten."""
    generator = np.random.default_rng(0)
    index_limits = _index_limits(kernel)
    buffers = {}
    for number, pointer in sorted(parameters(kernel).items()):
        dtype, size = pointer.dtype.element, pointer.dtype.size
        array, _ = array_allocator.new_array(size, dtype.numpy)
        if number in index_limits:
            array[...] = generator.integers(0, index_limits[number], size).astype(dtype.numpy)
            buffers[number] = array
            continue
        period = random_values(generator, dtype, min(size, RANDOM_PERIOD))
        for begin in range(0, size, RANDOM_PERIOD):
            array[begin : begin + RANDOM_PERIOD] = period[: size - begin]
        buffers[number] = array
    return buffers


def _index_limits(kernel: UOp) -> dict[int, int]:
    """Return, by PARAM number, the exclusive limit of the values of gathered indices.

    It is the least bound that the indices are compared with: a row index is below the row count.
    """
    limits: dict[int, int] = {}
    for access in toposort(kernel):
        if access.op is not ops.INDEX:
            continue
        inside = toposort(access.src[1])
        limit = _least_bound(inside)
        if limit:
            for number in _gathered_from(inside):
                limits[number] = min(limits.get(number, limit), limit)
    return limits


def _least_bound(index: Sequence[UOp]) -> int:
    """Return the least constant above 1 that something in an index is compared with; or 0."""
    bounds = (n.src[1].arg for n in index if n.op is ops.LT and n.src[1].op is ops.CONST)
    return min((int(n) for n in bounds if n > 1), default=0)


def _gathered_from(index: Sequence[UOp]) -> set[int]:
    """Return the numbers of the PARAMs that integers in an index are loaded from."""
    loads = (n for n in index if n.op is ops.INDEX and not n.dtype.is_float)
    return {int(n.arg) for load in loads for n in toposort(load) if n.op is ops.PARAM}
