"""Kernels are seen one by one by those who ask for it, and cost nothing to others."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest

import porism
from porism.backends.llvm.thread_pool import ThreadPool
from porism.base.settings import settings
from porism.engine.profile import kernel_observer
from porism.engine.run import program
from porism.engine.run.bound_sizes import evaluate_size
from tests.backends.running import works

NEEDS_C = pytest.mark.skipif(not works("c"), reason="there is no C compiler")
LINE = re.compile(r"porism: +[\d.]+ ms +[\d.]+ GFLOP/s +[\d.]+ GB/s  (.+) #[0-9a-f]{4}")


def two_kernels(seed: int) -> Any:
    """A product, of which all columns are used in another."""
    a, b, c = (
        porism.asarray(np.full(shape, 0.5, np.float32))
        for shape in ((256, 300 + seed), (300 + seed, 512), (512, 64))
    )
    return a @ b @ c


@pytest.fixture
def native_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many kernels each native call ran."""
    found: list[int] = []
    run = ThreadPool.run

    def counted(self: ThreadPool, jobs: int, many: int) -> None:
        found.append(many)
        run(self, jobs, many)

    monkeypatch.setattr(ThreadPool, "run", counted)
    # Without a latest pool the next run does not take the fast path, which calls no Python.
    monkeypatch.setattr(program, "_latest_pool", program._NO_POOL)
    return found


def test_without_observers_a_graph_is_one_native_call(
    native_calls: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    two_kernels(0).realize()
    assert native_calls == [2]
    assert capsys.readouterr() == ("", "")


def test_every_kernel_is_printed_with_its_speed(
    native_calls: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    expected = two_kernels(1).numpy()
    native_calls.clear()
    with settings.override(debug=1):
        found = two_kernels(1).numpy()
    assert native_calls == [1, 1]
    lines = [line for line in capsys.readouterr().err.splitlines() if LINE.fullmatch(line)]
    assert [LINE.fullmatch(line)[1] for line in lines] == [  # type: ignore[index]
        "sum 256x512 over 301",
        "sum 256x64 over 512",
    ]
    np.testing.assert_array_equal(found, expected)
    two_kernels(1).realize()
    assert native_calls[2:] == [2]
    assert capsys.readouterr().err == ""


def test_loops_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with settings.override(debug=2):
        two_kernels(2).realize()
        first = capsys.readouterr().err
        two_kernels(2).realize()
        second = capsys.readouterr().err
    assert first.count("the loops of") == 2
    assert "  # thread" in first
    assert "temporary0[" in first
    assert len(second.splitlines()) == 2
    assert "scheduled" not in first


def test_the_steps_of_compiling(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from porism.base import source_digest
    from porism.engine.run import program

    monkeypatch.setattr(source_digest, "digest", lambda: "the sources of this test")
    monkeypatch.setattr(program, "_functions", {})
    folder = str(tmp_path / "cache")
    with settings.override(debug=3, cache=True, cache_dir=folder):
        two_kernels(3).realize()
        first = capsys.readouterr().err
        monkeypatch.setattr(program, "_functions", {})  # as in a new process
        program.compile_kernels([k.node for k in porism.kernels(two_kernels(3))])
        second = capsys.readouterr().err
    assert re.search(r"a graph scheduled, kernels: 2, in [\d.]+ ms", first)
    assert "kernels found on disk: 0 of 2" in first
    assert re.search(r"kernel 1 of 2 lowered in [\d.]+ ms", first)
    assert re.search(r"kernels lowered and compiled: 2, in [\d.]+ ms", first)
    assert "the source of" not in first
    assert "kernels found on disk: 2 of 2" in second
    assert "lowered" not in second


@pytest.mark.parametrize("backend", ["llvm", pytest.param("c", marks=NEEDS_C)])
def test_the_source(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    with settings.override(debug=4, backend=backend):
        (porism.asarray(np.ones(50 + len(backend), np.float32)) * 3).realize()
    told = capsys.readouterr().err
    assert "the source of map" in told
    assert ("define void @kernel" if backend == "llvm" else "void kernel(") in told


def test_the_evaluator_too(capsys: pytest.CaptureFixture[str]) -> None:
    with settings.override(debug=4, backend="reference"):
        assert (porism.asarray([1, 2, 3]) + 4).tolist() == [5, 6, 7]
    told = capsys.readouterr().err
    assert "map 3 #" in told
    assert "output0[r0] = input0[r0] + 4" in told


def test_a_jitted_function_is_observed_by_a_later_observer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    double = porism.jit(lambda x: x * 2)
    x = porism.asarray(np.ones(77, np.float32))
    double(x)
    assert capsys.readouterr().err == ""
    with settings.override(debug=1):
        double(x)
    assert "map 77 #" in capsys.readouterr().err
    double(x)
    assert capsys.readouterr().err == ""


def test_a_removed_observer_is_not_called() -> None:
    heard: list[kernel_observer.KernelRun] = []
    with kernel_observer.observing(heard.append):
        two_kernels(4).realize()
    two_kernels(4).realize()
    assert len(heard) == 2
    assert kernel_observer.observers == ()


def test_an_error_of_an_observer_removes_it() -> None:
    def fail(run: kernel_observer.KernelRun) -> None:
        raise KeyError(run.name)

    with pytest.raises(KeyError), kernel_observer.observing(fail):
        two_kernels(5).realize()
    assert kernel_observer.observers == ()
    assert two_kernels(5).numpy().shape == (256, 64)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_shares_of_threads_are_all_of_a_kernel(threads: int) -> None:
    runs: list[kernel_observer.KernelRun] = []
    with settings.override(threads=threads), kernel_observer.observing(runs.append):
        two_kernels(7).realize()
        porism.asarray(np.ones(3, "f")).add(1).realize()
    assert len(runs) == 3
    assert len(runs[-1].shares) == 1
    for run in runs:
        function = program._functions[run.backend, run.kernel, None]
        size = 1 if function.parallel is None else evaluate_size(function.parallel, {})
        assert sum(share.iterations for share in run.shares) == size
        assert len({share.thread for share in run.shares}) <= threads
        for share in run.shares:
            assert run.begin <= share.begin
            assert share.begin + share.seconds <= run.begin + run.speed.seconds + 1e-6
    if threads == 1:
        assert {share.thread for run in runs for share in run.shares} == {threading.get_ident()}
