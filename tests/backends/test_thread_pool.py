"""The pool: every iteration of a loop is done once, by whichever thread."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator

import pytest

from porism.backends.llvm.thread_pool import (
    BATCH_JOB_WORDS,
    MIN_CHUNK_DIVISOR,
    ORDER_WORDS,
    ThreadPool,
    batch_function,
)

Part = tuple[int, int]


@pytest.fixture(scope="module", params=[1, 2, 3, 5])
def pool(request: pytest.FixtureRequest) -> Iterator[ThreadPool]:
    actual = ThreadPool(request.param)
    yield actual
    actual.stop()


def parts_of(pool: ThreadPool, count: int, seconds: float = 0.0) -> list[Part]:
    """The parts in which a loop is done, each of which takes some time."""
    actual: list[Part] = []

    def body(_arguments: int, begin: int, end: int) -> None:
        actual.append((begin, end))
        time.sleep(seconds)

    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    function = kind(body)
    job = (ctypes.c_int64 * 3)(ctypes.cast(function, ctypes.c_void_p).value or 0, 0, count)
    pool.run(ctypes.addressof(job), 1)
    return sorted(actual)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 10, 14, 33, 100, 1000, 4097])
def test_every_iteration_runs_once(pool: ThreadPool, count: int) -> None:
    parts = parts_of(pool, count)
    assert [begin for begin, _ in parts] == [0, *(end for _, end in parts[:-1])]
    assert parts[-1][1] == count
    assert all(begin < end for begin, end in parts)


def test_an_order_is_run_job_by_job(pool: ThreadPool) -> None:
    actual: list[int] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    bodies = [kind(lambda _arguments, _begin, _end, k=k: actual.append(k)) for k in range(3)]
    jobs = [(ctypes.cast(body, ctypes.c_void_p).value or 0, 0, 1) for body in bodies]
    order = (ctypes.c_int64 * (ORDER_WORDS + 9))(
        pool.address, 3, *(word for job in jobs for word in job)
    )
    pool.go(ctypes.addressof(order))
    assert actual == [0, 1, 2]


@pytest.mark.parametrize("units", [(1, 1), (1, 7, 2), (40, 1, 1, 300), (5,)])
@pytest.mark.parametrize("counts", [(1, 1, 1, 1), (3, 100, 1, 17), (4097, 2, 0, 8)])
def test_a_batch_runs_every_iteration_of_each_job_once(
    pool: ThreadPool, units: tuple[int, ...], counts: tuple[int, ...]
) -> None:
    parts: dict[int, list[Part]] = {k: [] for k in range(len(units))}

    def body(job: int | None, begin: int, end: int) -> None:
        parts[job or 0].append((begin, end))

    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    function = kind(body)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    words, first = [len(units)], 0
    for k, (size, count) in enumerate(zip(units, counts, strict=False)):
        words += [address, k, count, first, size]
        first += size
    assert len(words) == 1 + BATCH_JOB_WORDS * len(units)
    table = (ctypes.c_int64 * len(words))(*words)
    job = (ctypes.c_int64 * 3)(batch_function(), ctypes.addressof(table), first)
    pool.run(ctypes.addressof(job), 1)
    for k, count in enumerate(counts[: len(units)]):
        done = sorted(parts[k])
        assert [i for begin, end in done for i in range(begin, end)] == list(range(count))


@pytest.mark.parametrize("count", [10, 28, 64, 1000])
def test_the_last_chunks_are_small(pool: ThreadPool, count: int) -> None:
    threads = len(pool.threads) + 1
    sizes = [end - begin for begin, end in parts_of(pool, count, 0.001)]
    if threads == 1:
        assert sizes == [count]
        return
    smallest = max(1, count // (MIN_CHUNK_DIVISOR * threads))
    own = -(-count // threads)
    assert max(sizes) <= -(-own // 2)
    assert sizes[-1] <= smallest
    assert len(sizes) <= (MIN_CHUNK_DIVISOR + 1) * threads or smallest == 1


def test_a_thread_begins_with_the_same_part_in_each_loop(pool: ThreadPool) -> None:
    threads = len(pool.threads) + 1
    starts = {k * 4 for k in range(threads)}
    firsts: dict[int, int] = {}

    def body(_arguments: int, begin: int, _end: int) -> None:
        actual.setdefault(threading.get_ident(), begin)
        time.sleep(0.03)

    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    function = kind(body)
    job = (ctypes.c_int64 * 3)(ctypes.cast(function, ctypes.c_void_p).value or 0, 0, 4 * threads)
    for _ in range(3):
        actual: dict[int, int] = {}
        pool.run(ctypes.addressof(job), 1)
        assert set(actual.values()) <= starts
        for thread, begin in actual.items():
            assert firsts.setdefault(thread, begin) == begin
    assert firsts[threading.get_ident()] == 0


def test_a_second_caller_runs_its_loop_alone(pool: ThreadPool) -> None:
    others: list[list[Part]] = []

    def second() -> None:
        others.append(parts_of(pool, 20))

    inside = threading.Thread(target=second)

    def body(_arguments: int, begin: int, _end: int) -> None:
        if begin == 0:
            inside.start()
            inside.join()

    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    function = kind(body)
    job = (ctypes.c_int64 * 3)(ctypes.cast(function, ctypes.c_void_p).value or 0, 0, 4)
    pool.run(ctypes.addressof(job), 1)
    assert others == [[(0, 20)]]
