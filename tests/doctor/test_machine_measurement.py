"""The measurement of the machine: its kernels compile, and its rates are plausible numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from porism import cli
from porism.base.machines.host_machine import host_machine
from porism.base.machines.machine import Machine
from porism.base.settings import settings
from porism.doctor import machine_measurement


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine_measurement, "SECONDS", 1e-3)
    monkeypatch.setattr(machine_measurement, "ROUNDS", 1)
    monkeypatch.setattr(machine_measurement, "MAX_BYTES", 1 << 20)


def test_measured_quantities_describe_a_machine() -> None:
    """A kernel that LLVM folds away, or one that does not loop, would give rates out of range."""
    values = machine_measurement.measure()
    machine = Machine().updated(values)
    assert 0.1 < machine.fma_units < 16
    assert 1 <= machine.fma_latency < 100
    assert 0.05 < machine.load_units < 16
    assert values.keys() >= {"l2_bandwidth", "memory_bandwidth", "fork_join"}


def test_the_doctor_measures_and_stores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with settings.override(cache=True, cache_dir=str(tmp_path / "cache")):
        assert cli.main(["doctor", "--measure"]) == 0
        assert "bytes a cycle, of this machine" in capsys.readouterr().out
        assert host_machine().l2_bandwidth != Machine().l2_bandwidth
