"""The suites opinfo and zoo as far as they need no torch: workers, logs, what is printed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.suite import opinfo, zoo
from tools.torch_workers.worker_pool import Row, WorkerError, interpreter_with_torch, run_all

WORKER = """
import os, time
from tools.torch_workers.worker_pool import answer_names
def answer(name):
    if name == "dies":
        os._exit(3)
    if name == "hangs":
        time.sleep(60)
    if name == "raises":
        raise ValueError("no")
    print("what a library prints")
    return {"status": "pass", "length": len(name)}
answer_names(answer)
"""


def _run(names: list[str], log: Path | None = None, seconds: float = 30) -> list[Row]:
    command = [sys.executable, "-c", WORKER]
    return run_all(names, command, log=log, jobs=1, seconds=seconds, show=lambda *_: None)


def test_a_worker_that_dies_or_raises_costs_one_row() -> None:
    rows = _run(["one", "dies", "three", "raises"])
    assert [row["name"] for row in rows] == ["one", "dies", "three", "raises"]
    assert [row["status"] for row in rows] == ["pass", "crash", "pass", "error"]
    assert rows[2]["length"] == 5
    assert rows[1]["why"] == "the process ended with 3"
    assert rows[3]["why"] == "ValueError: no"


@pytest.mark.slow
def test_a_worker_that_is_silent_is_ended() -> None:
    rows = _run(["one", "hangs", "three"], seconds=3)
    assert [row["status"] for row in rows] == ["pass", "timeout", "pass"]


def test_workers_that_never_answer_end_the_run() -> None:
    with pytest.raises(WorkerError, match="before its first answer"):
        run_all(
            ["a", "b"],
            [sys.executable, "-c", "raise SystemExit(2)"],
            log=None,
            jobs=2,
            seconds=30,
            show=lambda *_: None,
        )


def test_a_log_is_resumed(tmp_path: Path) -> None:
    log = tmp_path / "rows.jsonl"
    log.write_text('{"name": "dies", "status": "known"}\n{"name": "thr')
    rows = _run(["dies", "three"], log)
    assert [row["status"] for row in rows] == ["known", "pass"], "a cut line does not count"
    assert [row["status"] for row in _run(["dies", "three"], log)] == ["known", "pass"]


def test_the_summary_counts_calls_that_were_left_to_torch() -> None:
    good = {"name": "a", "status": "pass", "samples": 3, "compiled": 9, "fallbacks": {}}
    good |= {"whole": 2, "uncompiled": 1, "costs": {}}
    bad = {
        "name": "b",
        "status": "wrong",
        "why": "7 for 8",
        "samples": 1,
        "failed": 1,
        "compiled": 0,
        "fallbacks": {"aten.geqrf.default": 1},
        "costs": {"aten.geqrf.default": 1},
        "reasons": {"aten.geqrf.default": "it is not in the table"},
    }
    assert opinfo.summary([good, bad]) == [
        "2 operators, 4 samples: 1 pass, 1 wrong",
        "  wrong    b: 7 for 8",
        "3 samples gave the backend a graph: 2 agree with eager torch, 2 (66.7 %) of them without"
        " a call of torch",
        "9 of 10 calls of ATen operators were compiled: 90.0 %",
        "       1 samples, aten.geqrf.default: it is not in the table",
    ]


def test_an_interpreter_without_torch_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="has no torch"):
        interpreter_with_torch("/bin/false")


def test_the_zoo_prints_ratios_of_what_both_backends_ran() -> None:
    ours = [{"name": "a", "ms": 1.0, "compile_s": 1.0}, {"name": "b", "ms": 4.0, "compile_s": 1.0}]
    theirs = [{"name": "a", "ms": 2.0, "compile_s": 4.0}, {"name": "b", "status": "timeout"}]
    assert zoo.comparison(ours, theirs, "inductor") == [
        "run time over that of inductor, geometric mean of 1: 0.50",
        "compile time over that of inductor, geometric mean of 1: 0.25",
    ]
    row = {"name": "a", "status": "wrong", "error": 0.5, "graphs": 1, "breaks": 0}
    row |= {"fallbacks": {"aten.x": 2}, "compile_s": 1.0, "ms": 2.0, "eager_ms": 3.0}
    assert " ".join(zoo.line(row).split()) == "a 5.0e-01 1 0 2 1.00 2.000 3.000 WRONG"
    assert zoo.line({"name": "a", "status": "crash", "why": "it died"}).endswith("crash: it died")
