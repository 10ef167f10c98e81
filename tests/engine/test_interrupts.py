"""Interrupts: they end a program wherever they come, and leave every table whole."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from porism.base.interrupts import PENDING_INTERRUPT, run_off_main_thread
from tests.patience import PATIENCE

WORKER = Path(__file__).with_name("interrupted_worker.py")
ROOT = Path(__file__).parents[2]


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, WORKER, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "programs"])
def test_no_interrupt_is_lost_and_tables_stay_whole(mode: str) -> None:
    """Also those that come while the collector runs, or memory is given back."""
    with started(mode, "end") as process:
        output, errors = process.communicate()
        assert process.returncode == 0, errors
    assert json.loads(output) == {"lost": 0, "not interned": 0}


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("mode", ["kernel", "compiler"])
def test_native_code_does_not_keep_a_program_from_ending(
    mode: str, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORISM_THREADS", threads)
    with started(mode, "end") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == "ready"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)  # it is inside by then, or the interrupt comes before
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGINT, errors


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["kernel", "compiler"])
def test_a_program_goes_on_after_an_interrupt_of_native_code(mode: str) -> None:
    with started(mode, "continue") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == "ready"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
    assert json.loads(output) == [2, 2, 2]


# -- in this process -------------------------------------------------------------------------------


def test_what_is_done_apart_gives_its_result_or_its_fault() -> None:
    main = threading.get_ident()
    assert run_off_main_thread(threading.get_ident) != main
    with pytest.raises(ZeroDivisionError):
        run_off_main_thread(lambda: 1 // 0)
    assert run_off_main_thread(lambda: run_off_main_thread(threading.get_ident)) != main


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_comes_behind_the_one_who_asks_for_it() -> None:
    caught = []

    def asks() -> object:
        try:
            return PENDING_INTERRUPT.again
        except KeyboardInterrupt:
            caught.append("inside")
            raise

    with pytest.raises(KeyboardInterrupt):
        print([asks() for _ in range(2)])
    assert not caught
