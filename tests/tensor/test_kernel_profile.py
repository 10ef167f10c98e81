"""Profile: every kernel that ran inside the block has a row, and no other kernel has."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError
from porism.base.settings import settings
from tests.patience import PATIENCE
from tests.tensor.threads import in_threads


def data(size: int) -> Any:
    return porism.asarray(np.ones(size, np.float32))


def test_rows_add_up_runs_work_and_time() -> None:
    with porism.profile(show=False) as profile:
        for _ in range(3):
            (data(1000) * 2 + 1).realize()
        (data(500) + 3).realize()
    rows = {row.name.partition(" #")[0]: row for row in profile.rows}
    assert {name: row.runs for name, row in rows.items()} == {"map 1000": 3, "map 500": 1}
    assert rows["map 1000"].work.flops == 3 * 2000
    assert rows["map 1000"].work.bytes == 3 * 8000
    assert sum(row.share for row in rows.values()) == pytest.approx(1)
    assert sum(row.seconds for row in rows.values()) == pytest.approx(profile.seconds)
    assert profile.rows == sorted(profile.rows, key=lambda row: -row.seconds)
    for row in rows.values():
        assert row.gflops == pytest.approx(row.work.flops / row.seconds / 1e9)
        assert row.gigabytes == pytest.approx(row.work.bytes / row.seconds / 1e9)
        assert row.backend == "llvm"
    (kernel,) = porism.kernels(data(500) + 3)
    assert rows["map 500"].kernel is kernel.node
    assert rows["map 500"].name == kernel.name


def test_the_printed_table(capsys: pytest.CaptureFixture[str]) -> None:
    with porism.profile() as profile:
        (data(1000) * 2 + 1).realize()
    out, errors = capsys.readouterr()
    assert errors == ""
    assert out == f"{profile}\n"
    head, _, row, last = out.splitlines()
    assert head.split() == ["kernel", "runs", "total", "ms", "share", "GFLOP/s", "GB/s"]
    assert row.strip().startswith("map 1000 #")
    assert "100.0%" in row
    assert last.startswith("1 runs of 1 kernels took ")


def test_a_block_without_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    with porism.profile() as profile:
        pass
    assert capsys.readouterr().out.startswith("no kernel was run in ")
    assert profile.rows == []
    assert profile.seconds == 0


def test_jitted_functions_and_threads() -> None:
    @porism.jit
    def step(x: Any) -> Any:
        return x * 2 - 1

    x = data(640)
    step(x)
    with porism.profile(show=False) as profile:
        in_threads(8, lambda _: step(x).numpy())
    assert [row.runs for row in profile.rows] == [8]
    step(x)
    assert [row.runs for row in profile.rows] == [8]


def test_profiles_in_other_threads_are_separate() -> None:
    started, over = threading.Event(), threading.Event()

    def outside() -> None:
        with porism.profile(show=False):
            started.set()
            over.wait(PATIENCE)

    thread = threading.Thread(target=outside)
    thread.start()
    started.wait(PATIENCE)
    with porism.profile(show=False) as profile:
        (data(321) + 1).realize()
    over.set()
    thread.join()
    assert [row.runs for row in profile.rows] == [1]


def test_nested_profiles() -> None:
    with porism.profile(show=False) as outer:
        (data(11) + 1).realize()
        with porism.profile(show=False) as inner:
            (data(12) + 1).realize()
        (data(13) + 1).realize()
    assert sum(row.runs for row in outer.rows) == 3
    assert [row.name.partition(" #")[0] for row in inner.rows] == ["map 12"]
    assert outer.wall >= inner.wall


def test_a_profile_that_is_used_again_adds_up() -> None:
    profile = porism.profile(show=False)
    for _ in range(2):
        with profile:
            (data(14) + 1).realize()
    assert [row.runs for row in profile.rows] == [2]
    with profile, pytest.raises(PorismError, match="is running already"), profile:
        pass


def test_after_an_error_no_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        (data(15) + 1).realize()
        raise ZeroDivisionError

    profile = porism.profile()
    with pytest.raises(ZeroDivisionError), profile:
        fail()
    assert capsys.readouterr().out == ""
    assert len(profile.rows) == 1
    (data(15) + 1).realize()
    assert [row.runs for row in profile.rows] == [1]


def test_the_evaluator_has_rows_of_its_own() -> None:
    with porism.profile(show=False) as profile:
        (data(16) + 1).realize()
        with settings.override(backend="reference"):
            (data(16) + 1).realize()
    assert sorted(row.backend for row in profile.rows) == ["llvm", "reference"]
    assert "(reference)" in str(profile)


def test_symbolic_sizes() -> None:
    n = porism.Variable("n", 1, 100)
    double = porism.jit(lambda x: x * 2)
    with porism.profile(show=False) as profile:
        for size in (10, 100):
            double(data(100)[: n.bind(size)]).numpy()
    assert sum(row.work.flops for row in profile.rows) == 110
