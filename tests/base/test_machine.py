"""The machine as data: overridden by name, detected, and read from a stored measurement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from porism.base.errors import SettingsError, TargetError
from porism.base.file_store import Store, name_of
from porism.base.machines import host_machine
from porism.base.machines.machine import Machine, fields
from porism.base.settings import settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    with settings.override(cache=True, cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"


def test_every_quantity_has_a_unit_and_a_source() -> None:
    for name, row in fields().items():
        assert row.metadata["unit"], name
        assert row.metadata["source"], name
        assert row.metadata["unit"] in Machine().describe(name)


def test_quantities_are_overridden_by_name() -> None:
    machine = Machine().override("l2_bandwidth=48.5, page=16384")
    assert (machine.l2_bandwidth, machine.page) == (48.5, 16384)
    assert machine.override("") == machine
    with settings.override(machine="miss=99"):
        assert host_machine.host_machine(miss=3).miss == 99
    assert host_machine.host_machine(miss=3).miss == 3


@pytest.mark.parametrize("text", ["speed=3", "miss", "miss=-1", "miss=0", "miss=1e99", "miss=nan"])
def test_other_texts_are_refused(text: str) -> None:
    with (
        pytest.raises(SettingsError, match="the setting machine is"),
        settings.override(machine=text),
    ):
        pass


def test_impossible_values_are_refused() -> None:
    with pytest.raises(TargetError, match="l1_ways is 0"):
        Machine(l1_ways=0)
    with pytest.raises(TargetError, match="miss is inf"):
        Machine(miss=float("inf"))


def test_a_stored_measurement_is_used_by_later_processes() -> None:
    assert host_machine.store_measurement({"l2_bandwidth": 41.0, "l1_ways": 4})
    machine = host_machine.host_machine(l2_bandwidth=7)
    assert (machine.l2_bandwidth, machine.l1_ways) == (41.0, 4)
    with settings.override(cache=False):
        assert host_machine.host_machine(l2_bandwidth=7).l2_bandwidth == 7
        assert not host_machine.store_measurement({"l2_bandwidth": 1.0})


@pytest.mark.parametrize("text", ["", "[]", "{", '{"miss": "x"}', '{"miss": -1}', '{"miss": null}'])
def test_a_malformed_measurement_is_not_used(folder: Path, text: str) -> None:
    before = host_machine.host_machine()
    name = name_of(host_machine.processor_identity())
    Store(folder, 1 << 16, (host_machine.KIND,)).put(host_machine.KIND, name, text.encode())
    assert host_machine.stored_measurement(folder) in (None, {})
    assert host_machine.host_machine() == before


def test_detected_caches(tmp_path: Path) -> None:
    for number, (level, kind, size) in enumerate([(1, "Data", "48K"), (3, "Unified", "300M")]):
        index = tmp_path / f"index{number}"
        index.mkdir()
        (index / "level").write_text(f"{level}\n")
        (index / "type").write_text(kind)
        (index / "size").write_text(size)
    (tmp_path / "index0" / "ways_of_associativity").write_text("12\n")
    (tmp_path / "index2").mkdir()  # nothing can be read there
    caches = host_machine.detected_caches(tmp_path)
    assert caches[1, "size"] == 48 << 10
    assert caches[1, "ways_of_associativity"] == 12
    assert caches[3, "size"] == 300 << 20
    assert (3, "ways_of_associativity") not in caches
