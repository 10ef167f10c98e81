"""What a kernel does is counted from its loops, and its name says it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import porism
from porism.engine.profile.work_counts import Speed, Work, kernel_name, work_of
from porism.ir.node import UOp


def data(*shape: int, dtype: Any = np.float32) -> Any:
    return porism.asarray(np.ones(shape, dtype))


def kernel(tensor: Any) -> UOp:
    (found,) = porism.kernels(tensor)
    node: UOp = found.node
    return node


@pytest.mark.parametrize(
    ("tensor", "flops", "count"),
    [
        (lambda: data(24, 30) @ data(30, 40), 2 * 24 * 30 * 40, 24 * 30 + 30 * 40 + 24 * 40),
        (lambda: data(100) * 2 + 1, 200, 200),
        (lambda: data(8, 50).sum(1), 400, 408),
    ],
)
def test_floats_and_bytes(tensor: Any, flops: int, count: int) -> None:
    assert work_of(kernel(tensor()), {}) == Work(flops, 4 * count)


def test_windows_overlap_and_are_read_once() -> None:
    node = kernel(porism.conv2d(data(1, 3, 8, 8), data(4, 3, 3, 3), padding=1))
    assert work_of(node, {}) == Work(2 * 4 * 64 * 27, 4 * (3 * 64 + 4 * 27 + 4 * 64))


def test_of_a_table_only_the_rows_that_are_read_count() -> None:
    node = kernel(data(1000, 64)[porism.asarray(np.array([3, 5]))])
    assert work_of(node, {}).bytes == 4 * 2 * 64 * 2 + 8 * 2


def test_integers_are_no_floats() -> None:
    assert work_of(kernel(data(10, dtype=np.int32) * 3 + 1), {}) == Work(0, 80)


def test_symbolic_sizes_count_as_they_are_in_a_run() -> None:
    n = porism.Variable("n", 1, 100).bind(7)
    node = kernel(data(100)[:n] * 2)
    assert work_of(node, {"n": 7}) == Work(7, 56)
    assert work_of(node, {"n": 100}) == Work(100, 800)


@pytest.mark.parametrize(
    ("tensor", "name"),
    [
        (lambda: data(24, 30) @ data(30, 40), "sum 24x40 over 30"),
        (lambda: data(100) + 1, "map 100"),
        (lambda: data(9, 7).T.reshape(63).flip(), "copy"),
        (lambda: data(1000, 64)[porism.asarray(np.array([3, 5]))], "copy 2x64"),
        (lambda: data(64, 100).softmax(), "max+sum 64x100 over 100"),
        (lambda: data(300).max(), "max over 300"),
    ],
)
def test_names(tensor: Any, name: str) -> None:
    found = kernel_name(kernel(tensor()))
    assert found.startswith(f"{name} ")
    assert len(found.partition("#")[2]) == 4
    assert found == kernel_name(kernel(tensor()))


def test_a_run_that_took_no_time_has_no_speed() -> None:
    assert Speed(0.0, Work(1, 1)).gflops == Speed(0.0, Work(1, 1)).gigabytes == 0
    assert Speed(2.0, Work(4_000_000_000, 6_000_000_000)).gflops == pytest.approx(2)
    assert Speed(2.0, Work(4_000_000_000, 6_000_000_000)).gigabytes == pytest.approx(3)
