"""`porism doctor` tells what there is, tries it, and says by its exit status whether that works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from porism import cli
from porism.base.settings import settings
from porism.doctor import doctor_report, machine_report, self_test
from porism.doctor.self_test import Program, Result


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Any:
    with settings.override(cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"


def test_the_report_as_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    for topic in ("versions", "cpu", "memory", "backends", "cache", "self-test"):
        assert f"\n{topic}\n" in f"\n{out}"
    assert str(folder) in out
    assert "6 of 6 programs agree with NumPy" in out
    assert out.endswith("all is well\n")
    assert max(map(len, out.splitlines())) <= doctor_report.WIDTH


def test_the_report_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    assert report["backends"]["llvm"].startswith("LLVM ")
    assert report["cpu"]["threads used"] >= 1
    backends = {result["backend"] for result in report["self-test"]["results"]}
    assert {"llvm", "reference"} <= backends
    assert all(result["ok"] for result in report["self-test"]["results"])


def test_a_wrong_result_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Program("doubling", lambda x: x * 2, lambda x: x * 2.01, ((4, 4),))
    broken = Program("breaking", lambda x: x.reshape(5), lambda x: x, ((4, 4),))
    bent = Program("bending", lambda x: x + 1, lambda x: (x + 1).T[:2], ((4, 4),))
    lost = Program("losing", lambda x: x / 0, lambda x: np.ones_like(x), ((4, 4),))
    monkeypatch.setattr(self_test, "programs", lambda: (wrong, broken, bent, lost))
    monkeypatch.setattr(self_test, "usable", lambda: ["llvm"])
    assert cli.main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "0 of 4 programs agree with NumPy" in out
    assert "doubling: off by" in out
    assert "breaking: ShapeError: " in out
    assert "bending: the shape is (4, 4) and not (2, 4)" in " ".join(out.split())
    assert "losing: off by inf" in " ".join(out.split())
    assert "4 of 4 programs went wrong" in out
    assert cli.main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_a_machine_without_a_c_compiler_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "there-is-no-such-compiler")
    assert cli.main(["doctor"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "c not there: there-is-no-such-compiler was not found" in out
    assert "all is well" in out


def test_the_time_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]

    def slow(program: Program, backend: str) -> Result:
        now[0] += 1.5
        return Result(backend, program.name, True, 1.5, "")

    monkeypatch.setattr(self_test, "_run", slow)
    monkeypatch.setattr("porism.doctor.self_test.time.perf_counter", lambda: now[0])
    assert len(list(self_test.run())) == 3
    assert now[0] < self_test.SECONDS
    now[0] = 0.0
    assert doctor_report.run("1.2.3") == 0
    assert "not tried: the time limit was reached" in capsys.readouterr().out


def test_no_usable_backend(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(self_test, "usable", list)
    assert doctor_report.run("1.2.3") == 1
    assert capsys.readouterr().out.endswith("nothing could be tried\n")


def test_the_state_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with settings.override(cache=True):
        assert machine_report.cache()["state"] == "on"
        assert machine_report.cache()["entries"]["kernels"] == 0
    with settings.override(cache=False):
        assert machine_report.cache()["state"] == "off, by PORISM_CACHE"
    tmp_path.chmod(0o777)
    with settings.override(cache=True, cache_dir=str(tmp_path)):
        assert machine_report.cache()["state"] == f"not used: others can write to {tmp_path}"
    monkeypatch.setattr(machine_report, "cache_folder", lambda: None)
    assert "not known" in machine_report.cache()["state"]


def test_a_system_without_information(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_report, "_text", lambda path: "")
    assert machine_report.memory()["huge pages"] == "not known"
    assert machine_report.cpu()["caches"] == {}
    assert machine_report.cpu()["model"]
