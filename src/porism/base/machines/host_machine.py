"""Host machine: the caches and rates of the CPU that this process runs on, for all backends.

What the system tells (sysfs) replaces the defaults of `Machine`; what `porism doctor --measure` has
measured and stored replaces that; and the setting `machine` has the last word. Nothing is measured
here.
"""

from __future__ import annotations

import functools
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from porism.base.errors import PorismError
from porism.base.file_store import Store, cache_folder, log_once, name_of, why_unusable
from porism.base.machines.machine import Machine, fields
from porism.base.settings import renew_values, settings
from porism.base.target import Memory

KIND: Final = "machine"
"""The folder of stored measurements."""

RECORD_BYTES: Final = 1 << 16
"""Limit of that folder."""

_CPU: Final = Path("/sys/devices/system/cpu/cpu0/cache")


def host_cores() -> int:
    """Return how many threads run a kernel: those of the setting, or as many as there are cores."""
    return settings.threads or os.cpu_count() or 1


def host_memory(registers: int) -> Memory:
    """Return the sizes of the caches, with the number of vector registers."""
    caches = detected_caches(_CPU)
    return Memory(
        l1=caches.get((1, "size"), 32 << 10),
        l2=caches.get((2, "size"), 1 << 20),
        l3=caches.get((3, "size"), 0),
        registers=registers,
    )


def host_machine(**detected: float) -> Machine:
    """Return the machine: what a backend and the system know, then measured, then overridden."""
    return _host_machine(tuple(sorted(detected.items())), settings.machine, _folder())


def _folder() -> Path | None:
    return cache_folder() if settings.cache else None


@functools.lru_cache(maxsize=16)
def _host_machine(
    detected: tuple[tuple[str, float], ...], overrides: str, folder: Path | None
) -> Machine:
    caches = detected_caches(_CPU)
    found = {
        "l1_ways": caches.get((1, "ways_of_associativity")),
        "l2_ways": caches.get((2, "ways_of_associativity")),
        "page": os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else None,
    }
    known: dict[str, float] = {name: value for name, value in found.items() if value}
    machine = Machine().updated({**known, **dict(detected), **(stored_measurement(folder) or {})})
    return machine.override(overrides)


@functools.lru_cache(maxsize=4)
def detected_caches(folder: Path) -> Mapping[tuple[int, str], int]:
    """Return the quantities of the caches of a core by level: sizes in bytes, and ways."""
    quantities = {}
    for index in sorted(folder.glob("index*")):
        level, kind = _text(index / "level"), _text(index / "type")
        if not level.isdigit() or kind not in ("Data", "Unified"):
            continue
        for name in ("size", "ways_of_associativity"):
            text = _text(index / name)
            unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
            digits = text.rstrip("KM")
            if digits.isdigit():
                quantities[int(level), name] = int(digits) * unit
    return quantities


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


# -- measurements on disk --------------------------------------------------------------------------


def processor_identity() -> str:
    """Return what a measurement depends on: the processor, as the system calls it, and its size."""
    lines = [line for line in _first_processor().splitlines() if line.startswith(_MODEL_LINES)]
    return "\n".join((platform.machine(), str(os.cpu_count()), *sorted(set(lines))))


_MODEL_LINES: Final = ("model", "cpu family", "CPU implementer", "CPU part", "stepping")


def _first_processor() -> str:
    """Return what the system says of the first processor, as far as it is in a page of text."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return file.read(4096).partition("\n\n")[0]
    except OSError:
        return ""


def _record_store(folder: Path | None) -> Store | None:
    if folder is None or why_unusable(folder) or why_unusable(folder / KIND):
        return None
    return Store(folder, RECORD_BYTES, (KIND,))


def stored_measurement(folder: Path | None) -> dict[str, float] | None:
    """Return the values that were measured on this processor; None if there are none."""
    records = _record_store(folder)
    if folder is None or records is None or not (folder / KIND).exists():
        return None
    data = records.get(KIND, name_of(processor_identity()))
    if data is None:
        return None
    try:
        row: Any = json.loads(data)
        values = {name: float(row[name]) for name in row if name in fields()}
        Machine().updated(values)
    except (ValueError, TypeError, KeyError, PorismError):
        log_once("the stored measurement of the machine is not used: it is not well formed")
        return None
    return values


def store_measurement(values: Mapping[str, float]) -> bool:
    """Store measured values for later processes; return whether that was possible."""
    records = _record_store(_folder())
    if records is None:
        return False
    records.put(KIND, name_of(processor_identity()), json.dumps(dict(values)).encode())
    _host_machine.cache_clear()
    renew_values()
    return True
