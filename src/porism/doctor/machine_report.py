"""Machine report: CPU, caches, memory, backends, devices and the cache on disk.

What a system does not report is left out: nothing here raises an error.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from porism.backends.backend_table import BACKENDS, selected_backend
from porism.base.errors import PorismError
from porism.base.file_store import KINDS, Store, cache_folder, why_unusable
from porism.base.machines.machine import fields
from porism.base.settings import settings
from porism.engine.cache import cache_counts
from porism.engine.cache.cache_command import size_text

VECTOR_FEATURES: Final = re.compile(
    r"sse[234].*|avx.*|fma|f16c|bmi2?|vnni|amx.*|neon|sve.*|bf16|fullfp16|i8mm"
)
"""The CPU features, as LLVM names them, that decide how kernels are compiled."""

Facts = dict[str, Any]
"""Numbers, texts, lists and dicts by name, as in JSON."""


def facts(version: str) -> dict[str, Facts]:
    """Return the whole report by topic; the version is that of Porism."""
    return {
        "versions": versions(version),
        "cpu": cpu(),
        "memory": memory(),
        "machine": machine(),
        "backends": backends(),
        "devices": devices(),
        "cache": cache(),
    }


def versions(version: str) -> Facts:
    """Return the versions of Porism, Python, the system, NumPy and llvmlite."""
    import llvmlite
    import numpy as np

    return {
        "porism": version,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "numpy": np.__version__,
        "llvmlite": llvmlite.__version__,
    }


def cpu() -> Facts:
    """Return the processor, its caches, and how many threads Porism uses."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    report: Facts = {
        "model": _model() or platform.processor() or platform.machine(),
        "called by LLVM": llvm.get_host_cpu_name(),
        "features": sorted(
            name for name, on in features.items() if on and VECTOR_FEATURES.fullmatch(name)
        ),
        "vector bits": max(BACKENDS["llvm"].target().vector_bits),
        "cores": os.cpu_count() or 1,
    }
    with contextlib.suppress(AttributeError, OSError):
        report["cores for this process"] = len(os.sched_getaffinity(0))
    report["threads used"] = settings.threads or os.cpu_count() or 1
    report["caches"] = dict(_caches(Path("/sys/devices/system/cpu/cpu0/cache")))
    return report


def machine() -> Facts:
    """Return the quantities that loop schedules are chosen by, with units and sources."""
    known = BACKENDS["llvm"].target().machine
    return {name: known.describe(name) for name in fields()}


def memory() -> Facts:
    """Return the memory of the machine, and how much of it Porism keeps for reuse."""
    report: Facts = {}
    kilobytes = _kilobytes("/proc/meminfo")
    if "MemTotal" in kilobytes:
        report["in all"] = size_text(kilobytes["MemTotal"] << 10)
    if "MemAvailable" in kilobytes:
        report["available"] = size_text(kilobytes["MemAvailable"] << 10)
    enabled = re.search(r"\[(\w+)\]", _text("/sys/kernel/mm/transparent_hugepage/enabled"))
    report["huge pages"] = _HUGE[enabled[1]] if enabled and enabled[1] in _HUGE else "not known"
    report["kept at most"] = size_text(settings.pool_megabytes << 20)
    return report


_HUGE: Final = {
    "always": "always",
    "madvise": "where asked for",
    "never": "never; large tensors are slower to touch for the first time",
}
"""The modes of transparent huge pages, in words."""


def backends() -> Facts:
    """Return the compiler of each backend, or why the backend cannot be used."""
    report: Facts = {}
    for name, backend in BACKENDS.items():
        try:
            backend.target()
            version = backend.objects.version().split(",")[0] if backend.objects else ""
            report[name] = (_compiler() if name == "c" else version) or backend.doc
        except (PorismError, OSError) as error:
            why = error.why if isinstance(error, PorismError) else str(error)
            report[name] = f"not there: {why}"
    report["used"] = selected_backend().name
    return report


def devices() -> Facts:
    """Return what there is to say of each device beside the processor, or why there is none."""
    from porism.engine.cuda import cuda_driver
    from porism.engine.device.device_table import device_names, find_device

    report: Facts = {"default": settings.device}
    for name in device_names()[1:]:
        try:
            report[name] = find_device(name).describe()
        except PorismError as error:
            report[name] = f"cannot be used: {error.what}" + (f": {error.why}" * bool(error.why))
    if len(report) == 1:
        report["cuda"] = f"not there: {cuda_driver.why_none()}"
    return report


def _compiler() -> str:
    """Return the command of the C compiler, and the first line of its version."""
    import subprocess

    from porism.backends.c.c_compiler import compiler

    command = compiler().command
    done = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, check=False, timeout=5
    )
    first = done.stdout.splitlines()[:1] or [""]
    return f"{' '.join(command)}: {first[0].strip()}" if first[0] else " ".join(command)


def cache() -> Facts:
    """Return the folder, the state and the size of the cache on disk."""
    folder = cache_folder()
    if folder is None:
        return {"state": "not used: the home folder of the user is not known"}
    kept = Store(folder, settings.cache_mb << 20)
    entries = [entry for entry in kept.entries() if entry.finished]
    total = sum(entry.bytes for entry in entries)
    counts = cache_counts.total_counts(folder)
    return {
        "folder": str(folder),
        "state": _state(folder),
        "size": f"{size_text(total)} of {size_text(kept.limit)} at most",
        "entries": {kind: sum(entry.kind == kind for entry in entries) for kind in KINDS},
        "kernels found": counts.kernel_hits,
        "kernels compiled": counts.kernel_misses,
    }


def _state(folder: Path) -> str:
    """Return whether the cache on disk is used, in words."""
    if not settings.cache:
        return "off, by PORISM_CACHE"
    fault = why_unusable(folder)
    if fault:
        return f"not used: {fault}"
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    return "on" if os.access(existing, os.W_OK) else f"read only: {existing} cannot be written to"


# -- files of the system ---------------------------------------------------------------------------


def _text(path: str | Path) -> str:
    """Return the content of a file; nothing if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _model() -> str:
    """Return the model name of the CPU; nothing if it is not known."""
    match = re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return match[1].strip() if match else ""


def _kilobytes(path: str) -> Mapping[str, int]:
    """Return the rows `name: number kB` of a file, in KiB."""
    rows = re.findall(r"^(\w+):\s*(\d+) kB$", _text(path), re.MULTILINE)
    return {name: int(number) for name, number in rows}


def _caches(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the data caches of a core as the system reports them: level, and size with sharing."""
    for index in sorted(folder.glob("index*")):
        level, kind, capacity = (_text(index / name).strip() for name in ("level", "type", "size"))
        if level and capacity and kind != "Instruction":
            cores = _text(index / "shared_cpu_list").strip()
            shared = f", shared by cores {cores}" if "," in cores or "-" in cores else ""
            yield f"L{level}", f"{capacity}{shared}"
