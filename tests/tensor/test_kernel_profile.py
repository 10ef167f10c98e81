"""A profile has every kernel that was run inside, and only those."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError
from porism.base.settings import settings
from tests.tensor.threads import in_threads


def data(size: int) -> Any:
    return porism.asarray(np.ones(size, np.float32))


def test_rows_for_programs() -> None:
    with porism.profile(show=False) as seen:
        for _ in range(3):
            (data(1000) * 2 + 1).realize()
        (data(500) + 3).realize()
    rows = {row.name.partition(" #")[0]: row for row in seen.rows}
    assert {name: row.runs for name, row in rows.items()} == {"map 1000": 3, "map 500": 1}
    assert rows["map 1000"].work.flops == 3 * 2000
    assert rows["map 1000"].work.bytes == 3 * 8000
    assert sum(row.share for row in rows.values()) == pytest.approx(1)
    assert sum(row.seconds for row in rows.values()) == pytest.approx(seen.seconds)
    assert seen.rows == sorted(seen.rows, key=lambda row: -row.seconds)
    for row in rows.values():
        assert row.gflops == pytest.approx(row.work.flops / row.seconds / 1e9)
        assert row.gigabytes == pytest.approx(row.work.bytes / row.seconds / 1e9)
        assert row.backend == "llvm"
    (kernel,) = porism.kernels(data(500) + 3)
    assert rows["map 500"].kernel is kernel.node
    assert rows["map 500"].name == kernel.name


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    with porism.profile() as seen:
        (data(1000) * 2 + 1).realize()
    out, errors = capsys.readouterr()
    assert errors == ""
    assert out == f"{seen}\n"
    head, _, row, last = out.splitlines()
    assert head.split() == ["kernel", "runs", "total", "ms", "share", "GFLOP/s", "GB/s"]
    assert row.strip().startswith("map 1000 #")
    assert "100.0%" in row
    assert last.startswith("1 runs of 1 kernels took ")


def test_nothing_ran(capsys: pytest.CaptureFixture[str]) -> None:
    with porism.profile() as seen:
        pass
    assert capsys.readouterr().out.startswith("no kernel was run in ")
    assert seen.rows == []
    assert seen.seconds == 0


def test_jitted_functions_and_threads() -> None:
    @porism.jit
    def step(x: Any) -> Any:
        return x * 2 - 1

    x = data(640)
    step(x)
    with porism.profile(show=False) as seen:
        in_threads(8, lambda _: step(x).numpy())
    assert [row.runs for row in seen.rows] == [8]
    step(x)
    assert [row.runs for row in seen.rows] == [8]


def test_other_threads_come_and_go() -> None:
    started, over = threading.Event(), threading.Event()

    def outside() -> None:
        with porism.profile(show=False):
            started.set()
            over.wait(60)

    thread = threading.Thread(target=outside)
    thread.start()
    started.wait(60)
    with porism.profile(show=False) as seen:
        (data(321) + 1).realize()
    over.set()
    thread.join()
    assert [row.runs for row in seen.rows] == [1]


def test_inside_of_each_other() -> None:
    with porism.profile(show=False) as outer:
        (data(11) + 1).realize()
        with porism.profile(show=False) as inner:
            (data(12) + 1).realize()
        (data(13) + 1).realize()
    assert sum(row.runs for row in outer.rows) == 3
    assert [row.name.partition(" #")[0] for row in inner.rows] == ["map 12"]
    assert outer.wall >= inner.wall


def test_once_more_adds_up() -> None:
    seen = porism.profile(show=False)
    for _ in range(2):
        with seen:
            (data(14) + 1).realize()
    assert [row.runs for row in seen.rows] == [2]
    with seen, pytest.raises(PorismError, match="begun while it is on"), seen:
        pass


def test_an_error_goes_through_and_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        (data(15) + 1).realize()
        raise ZeroDivisionError

    seen = porism.profile()
    with pytest.raises(ZeroDivisionError), seen:
        fail()
    assert capsys.readouterr().out == ""
    assert len(seen.rows) == 1
    (data(15) + 1).realize()
    assert [row.runs for row in seen.rows] == [1]


def test_the_evaluator_has_rows_of_its_own() -> None:
    with porism.profile(show=False) as seen:
        (data(16) + 1).realize()
        with settings.override(backend="reference"):
            (data(16) + 1).realize()
    assert sorted(row.backend for row in seen.rows) == ["llvm", "reference"]
    assert "(reference)" in str(seen)


def test_symbolic_sizes() -> None:
    n = porism.Variable("n", 1, 100)
    double = porism.jit(lambda x: x * 2)
    with porism.profile(show=False) as seen:
        for size in (10, 100):
            double(data(100)[: n.bind(size)]).numpy()
    assert sum(row.work.flops for row in seen.rows) == 110
