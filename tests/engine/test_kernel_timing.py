"""Kernel timing: the data that kernels are timed on, and times relative to the baseline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import porism
from porism.backends.backend_table import BACKENDS
from porism.engine.run import program
from porism.engine.tune import kernel_timing
from porism.engine.tune.kernel_timing import Benchmark
from porism.ir.node import UOp

LLVM = BACKENDS["llvm"]


def kernel_of(tensor: Any) -> UOp:
    (kernel,) = porism.kernels(tensor)
    node: UOp = kernel.node
    return node


def bench_of(kernel: UOp) -> Benchmark:
    return Benchmark(kernel, program.compile_kernels([kernel])[0])


def test_places_to_read_are_random_and_inside() -> None:
    table = porism.asarray(np.ones((500, 3), np.float32))
    rows = porism.asarray(np.zeros(400, np.int64))
    data = bench_of(kernel_of(porism.take(table, rows, axis=0))).data
    (places,) = [array for array in data.values() if array.dtype == np.int64]
    assert 0 <= places.min() < 50
    assert 450 < places.max() < 500


def test_other_whole_numbers_are_any() -> None:
    numbers = porism.asarray(np.zeros(400, np.int64))
    data = bench_of(kernel_of(numbers * 2)).data
    assert data[1].min() < 0


class Scripted:
    """Times of two versions as if they had been measured."""

    def __init__(self, bench: Benchmark, candidate: object, seconds: list[float]) -> None:
        self.candidate = candidate
        self.seconds = iter(seconds)
        self.machine = 1.0
        bench._run = self.run  # type: ignore[method-assign]

    def run(self, function: object, runs: int = 1) -> float:
        if function is not self.candidate:
            self.machine = next(self.seconds)  # how slow the machine is now
            return self.machine
        return 0.5 * self.machine


def test_a_time_is_in_proportion_whatever_the_machine_does() -> None:
    bench = bench_of(kernel_of(porism.asarray(np.ones(300, np.float32)) * 2))
    candidate: Any = object()
    Scripted(bench, candidate, [1.0, 1.0, 2.0, 3.0, 2.0, 1.0] * 4)
    assert bench.ratio(candidate, 1.0) == pytest.approx(0.5)


def test_one_that_was_lucky_is_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_of(kernel_of(porism.asarray(np.ones(300, np.float32)) * 2))
    found = iter([0.4, 1.1, 1.2])
    monkeypatch.setattr(kernel_timing.Benchmark, "_ratio", lambda self, candidate, bar: next(found))
    candidate: Any = object()
    assert bench.ratio(candidate, 1.0) == 1.1
    assert bench.ratio(candidate, 1.0) == 1.2  # and one that was not is not
    assert list(found) == []
