"""A profile as a page and as trace events."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

import porism
from porism.base.settings import settings
from porism.tensor.inspect.kernel_profile import Profile


def profiled(rows: int = 200) -> Profile:
    x = porism.asarray(np.random.default_rng(1).normal(size=(rows, 300)).astype(np.float32))
    step = porism.jit(lambda a: (a @ a.T + 1.25).softmax())
    with settings.override(cache=0), porism.profile(show=False) as profile:
        for _ in range(3):
            step(x).realize()
    return profile


def test_trace_events_are_nested_and_in_time(tmp_path: Path) -> None:
    profile = profiled()
    path = tmp_path / "trace.json"
    trace = profile.chrome_trace(path)
    assert json.loads(path.read_text()) == trace
    by_kind: dict[str, list[tuple[float, float]]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            by_kind.setdefault(event["cat"], []).append((event["ts"], event["ts"] + event["dur"]))
    assert len(by_kind["program"]) == 3
    assert len(by_kind["kernel"]) == sum(row.runs for row in profile.rows)
    for begin, end in by_kind["kernel"]:
        assert any(b <= begin and end <= e + 1e-3 for b, e in by_kind["program"])
    for begin, end in by_kind["share"]:
        assert any(b <= begin and end <= e + 1e-3 for b, e in by_kind["kernel"])
    stages = {e["name"] for e in trace["traceEvents"] if e.get("cat") == "compile"}
    assert {"rangeify", "schedule loops", "linearize"} <= stages
    assert {"finding kernels", "compiling kernels"} <= stages
    assert any(event["ph"] == "C" for event in trace["traceEvents"])


def test_slices_of_a_thread_are_nested() -> None:
    """Perfetto drops a slice that begins in another one of its thread and ends after it."""
    by_thread: dict[int, list[tuple[float, float]]] = {}
    events = profiled(rows=160).chrome_trace()["traceEvents"]
    for event in events:
        assert event["ph"] in "XCM"
        if event["ph"] == "X":
            by_thread.setdefault(event["tid"], []).append((event["ts"], -event["dur"]))
    named = {event["tid"] for event in events if event["name"] == "thread_name"}
    assert set(by_thread) == named
    for slices in by_thread.values():
        ends: list[float] = []
        for begin, less in sorted(slices):
            while ends and ends[-1] <= begin + 1e-3:  # times of nanoseconds, as floats
                ends.pop()
            assert not ends or begin - less <= ends[-1] + 1e-3
            ends.append(begin - less)


def test_the_page_has_the_kernels(tmp_path: Path) -> None:
    profile = profiled()
    page = profile.html(tmp_path / "page.html")
    assert page == (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(row.name in page for row in profile.rows)


def test_stages_are_parts_of_tasks_and_kernels_of_calls() -> None:
    data = profiled(rows=170)._view().data  # a size that was not compiled before
    assert data["first_tab"] == "Trace"
    slack = 0.3  # microseconds: times are rounded
    tasks = [(begin, begin + length) for _, is_task, begin, length, _ in data["spans"] if is_task]
    stages = [
        (begin, begin + length) for _, is_task, begin, length, _ in data["spans"] if not is_task
    ]
    calls = [(begin, begin + length) for _, begin, length, _ in data["calls"]]
    kernels = [(begin, begin + length) for _, _, begin, length, _ in data["events"]]
    assert len(calls) == 3
    for parts, wholes in ((stages, tasks), (kernels, calls)):
        assert parts
        for begin, end in parts:
            assert any(b - slack <= begin and end <= e + slack for b, e in wholes)
    assert sorted(stages) == stages


def test_every_thread_has_a_number() -> None:
    x = porism.asarray(np.ones((20, 30), np.float32))
    with porism.profile(show=False) as profile:
        threads = [threading.Thread(target=lambda k=k: (x * k).sum().item()) for k in (5, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    data = profile._view().data
    assert {event[-1] for event in data["events"]} == {call[-1] for call in data["calls"]}
    assert len({event[-1] for event in data["events"]}) == 2


def test_a_notebook_shows_a_profile() -> None:
    assert profiled()._repr_html_().startswith("<iframe sandbox")


def test_show_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    profile = profiled()
    assert capsys.readouterr().out == ""
    profile.show()
    assert profile.rows[0].name in capsys.readouterr().out


def test_a_profile_of_nothing(tmp_path: Path) -> None:
    with porism.profile(show=False) as profile:
        pass
    assert profile.chrome_trace()["traceEvents"] == []
    assert "nothing was computed" in profile.html()
