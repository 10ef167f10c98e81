"""A bar is drawn only for those who wait at a terminal."""

from __future__ import annotations

import io
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from porism.base.settings import settings
from porism.engine.profile import compile_progress


class Terminal(io.StringIO):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    # pytest puts its own in the place of sys.stderr when the test begins
    monkeypatch.setattr(compile_progress, "sys", SimpleNamespace(stderr=found))
    monkeypatch.setenv("TERM", "xterm")
    return found


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_progress, "SHOW_AFTER_SECONDS", 0.0)


def wait_for(bar: compile_progress.ProgressBar) -> None:
    for _ in range(1000):
        if bar._progress is not None:
            return
        time.sleep(0.01)
    raise AssertionError("no bar was shown")


def test_a_bar_on_a_terminal(terminal: Terminal, impatient: None) -> None:
    with compile_progress.progress_bar("compiling kernels", 3) as bar:
        bar.step()
        wait_for(bar)
        bar.step()
        bar.step()
        shown = bar._progress
        assert shown is not None
        assert shown.tasks[0].completed == 3
        assert shown.tasks[0].total == 3
    assert shown.finished
    assert not shown.live.is_started
    assert "compiling kernels" in terminal.getvalue()


def test_a_task_without_a_total_has_no_count(terminal: Terminal, impatient: None) -> None:
    with compile_progress.progress_bar("finding kernels") as bar:
        wait_for(bar)
    assert "finding kernels" in terminal.getvalue()


def test_a_short_task_shows_no_bar(terminal: Terminal) -> None:
    with compile_progress.progress_bar("compiling kernels", 3) as bar:
        bar.step()
    assert bar._progress is None
    assert terminal.getvalue() == ""


def test_a_bar_of_an_ended_task_is_not_shown(terminal: Terminal) -> None:
    with compile_progress.progress_bar("compiling kernels", 3) as bar:
        pass
    bar.show()
    assert bar._progress is None
    assert terminal.getvalue() == ""


def test_it_can_be_switched_off(terminal: Terminal, impatient: None) -> None:
    before = threading.active_count()
    with (
        settings.override(progress=False),
        compile_progress.progress_bar("compiling kernels", 3) as bar,
    ):
        assert threading.active_count() == before
        bar.step()
    assert terminal.getvalue() == ""


def test_there_is_none_without_a_terminal(
    impatient: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = threading.active_count()
    with compile_progress.progress_bar("compiling kernels", 3):
        assert threading.active_count() == before
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", None)
    with compile_progress.progress_bar("compiling kernels", 3) as bar:
        bar.step()


def test_an_error_removes_the_bar(terminal: Terminal, impatient: None) -> None:
    seen: list[compile_progress.ProgressBar] = []

    def fail(bar: compile_progress.ProgressBar) -> None:
        wait_for(bar)
        seen.append(bar)
        raise KeyError

    with pytest.raises(KeyError), compile_progress.progress_bar("compiling kernels", 3) as bar:
        fail(bar)
    shown = seen[0]._progress
    assert shown is not None
    assert not shown.live.is_started


def test_one_wait_of_two_tasks_counts_as_one(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    class Timer(threading.Timer):
        def __init__(self, interval: float, function: object) -> None:
            waits.append(interval)
            super().__init__(1e6, lambda: None)

    now = [100.0]
    monkeypatch.setattr(compile_progress, "_last_wait", compile_progress._LastWait())
    monkeypatch.setattr(threading, "Timer", Timer)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with compile_progress.progress_bar("finding kernels"):
        now[0] += 0.75
    with compile_progress.progress_bar("compiling kernels", 3):
        now[0] += 0.5
    with compile_progress.progress_bar("compiling kernels", 3):
        pass
    now[0] += 60.0
    with compile_progress.progress_bar("finding kernels"):
        pass
    assert waits == [1.0, 0.25, 0.0, 1.0]


def test_observers_are_told_of_tasks_with_their_times() -> None:
    told: list[tuple[str, float]] = []
    begin = time.perf_counter()
    with compile_progress.observing(lambda text, _, seconds: told.append((text, seconds))):
        tuning = compile_progress.observed_task("tuning kernels")
        with tuning, compile_progress.progress_bar("compiling kernels", 2) as bar:
            bar.step()
        finding = compile_progress.progress_bar("finding kernels")
        with pytest.raises(ValueError, match="fails"), finding:
            raise ValueError("fails")
    with compile_progress.progress_bar("finding kernels"):
        pass
    assert [text for text, _ in told] == ["compiling kernels", "tuning kernels", "finding kernels"]
    assert all(0 <= seconds <= time.perf_counter() - begin for _, seconds in told)
    assert told[0][1] <= told[1][1]
