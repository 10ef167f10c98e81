"""A profile as a page and as trace events."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import porism
from porism.base.settings import settings
from porism.tensor.inspect.kernel_profile import Profile


def profiled() -> Profile:
    x = porism.asarray(np.random.default_rng(1).normal(size=(200, 300)).astype(np.float32))
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
    stages = {e["name"] for e in trace["traceEvents"] if e.get("cat") == "compile"}
    assert {"rangeify", "schedule loops", "linearize"} <= stages
    assert any(event["ph"] == "C" for event in trace["traceEvents"])


def test_the_page_has_the_kernels(tmp_path: Path) -> None:
    profile = profiled()
    page = profile.html(tmp_path / "page.html")
    assert page == (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(row.name in page for row in profile.rows)


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
