"""Machine limits: the speed of arithmetic and of memory that a roofline compares kernels with.

Both are measured with NumPy, in about half a second: the arithmetic by a product of matrices,
the memory by copies of arrays that no cache holds, in as many threads as there are cores.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from porism.engine.profile.work_counts import Work

SIZE: Final = 768
"""Rows of the matrices: the product takes some milliseconds, and its operands fit into a cache."""
COPIED_BYTES: Final = 1 << 25
"""Bytes that each thread copies: more than its share of most last-level caches."""
ROUNDS: Final = 12
"""The fastest of so many counts: other processes may take the processor meanwhile."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the machine can do at most."""

    gflops: float
    """10⁹ operations on f32 a second."""
    gigabytes: float
    """10⁹ bytes a second, read and written."""

    def seconds(self, work: Work) -> float:
        """Return the least time of some work: that of its arithmetic or of its memory.

        >>> Limits(100.0, 10.0).seconds(Work(flops=1_000_000_000, bytes=1_000_000_000))
        0.1
        """
        return max(work.flops / self.gflops, work.bytes / self.gigabytes) * 1e-9


@functools.cache
def measured_limits() -> Limits:
    """Return the limits of this machine, measured once in a process."""
    a = np.ones((SIZE, SIZE), np.float32)
    out = np.empty_like(a)
    flops = 2 * SIZE**3 / _fastest(lambda: np.matmul(a, a, out))
    cores = os.cpu_count() or 1
    arrays = [np.zeros((2, COPIED_BYTES // 4), np.float32) for _ in range(cores)]
    for pair in arrays:
        pair[...] = 1
    with ThreadPoolExecutor(cores) as pool:
        seconds = _fastest(lambda: list(pool.map(lambda pair: np.copyto(pair[0], pair[1]), arrays)))
    return Limits(flops * 1e-9, 2 * COPIED_BYTES * cores / seconds * 1e-9)


def _fastest(run: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return max(min(times), 1e-9)
