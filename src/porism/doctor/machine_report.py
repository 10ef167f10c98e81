"""Machine: what this one is like, as far as Porism makes use of it.

What a system does not tell is left out: nothing here raises an error.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from porism.backends.backend_table import BACKENDS, chosen
from porism.base.errors import PorismError
from porism.base.file_store import KINDS, Store, fault_of, location
from porism.base.settings import settings
from porism.engine.cache import cache_counts
from porism.engine.cache.cache_report import size_text

VECTORS: Final = re.compile(
    r"sse[234].*|avx.*|fma|f16c|bmi2?|vnni|amx.*|neon|sve.*|bf16|fullfp16|i8mm"
)
"""The features of a CPU that decide how kernels are compiled."""

Facts = dict[str, Any]
"""Numbers and texts by name, as JSON has them."""


def facts(version: str) -> dict[str, Facts]:
    """All of it, by topic; the version is that of Porism."""
    return {
        "versions": versions(version),
        "cpu": cpu(),
        "memory": memory(),
        "backends": backends(),
        "cache": cache(),
    }


def versions(version: str) -> Facts:
    """Of Porism, and of what it stands on."""
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
    """The processor, its caches, and how many threads Porism uses."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    found: Facts = {
        "model": _model() or platform.processor() or platform.machine(),
        "called by LLVM": llvm.get_host_cpu_name(),
        "features": sorted(name for name, on in features.items() if on and VECTORS.fullmatch(name)),
        "vector bits": max(BACKENDS["llvm"].target().vector_bits),
        "cores": os.cpu_count() or 1,
    }
    with contextlib.suppress(AttributeError, OSError):
        found["cores for this process"] = len(os.sched_getaffinity(0))
    found["threads used"] = settings.threads or os.cpu_count() or 1
    found["caches"] = dict(_caches(Path("/sys/devices/system/cpu/cpu0/cache")))
    return found


def memory() -> Facts:
    """Of the machine, and what Porism may keep."""
    found: Facts = {}
    told = _numbers("/proc/meminfo")
    if "MemTotal" in told:
        found["in all"] = size_text(told["MemTotal"] << 10)
    if "MemAvailable" in told:
        found["available"] = size_text(told["MemAvailable"] << 10)
    enabled = re.search(r"\[(\w+)\]", _text("/sys/kernel/mm/transparent_hugepage/enabled"))
    found["huge pages"] = _HUGE[enabled[1]] if enabled and enabled[1] in _HUGE else "not known"
    found["kept at most"] = size_text(settings.pool_megabytes << 20)
    return found


_HUGE: Final = {
    "always": "always",
    "madvise": "where asked for",
    "never": "never; large tensors are slower to touch for the first time",
}


def backends() -> Facts:
    """What each needs, or why it cannot be used."""
    found: Facts = {}
    for name, backend in BACKENDS.items():
        try:
            backend.target()
            version = backend.objects.version().split(",")[0] if backend.objects else ""
            found[name] = (_compiler() if name == "c" else version) or backend.doc
        except (PorismError, OSError) as error:
            why = error.why if isinstance(error, PorismError) else str(error)
            found[name] = f"not there: {why}"
    found["used"] = chosen().name
    return found


def _compiler() -> str:
    """The first line that the C compiler says of itself."""
    import subprocess

    from porism.backends.c.c_compiler import compiler

    command = compiler().command
    done = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, check=False, timeout=5
    )
    first = done.stdout.splitlines()[:1] or [""]
    return f"{' '.join(command)}: {first[0].strip()}" if first[0] else " ".join(command)


def cache() -> Facts:
    """Where compiled kernels are kept, and whether they are."""
    folder = location()
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
    if not settings.cache:
        return "off, by PORISM_CACHE"
    fault = fault_of(folder)
    if fault:
        return f"not used: {fault}"
    above = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    return "on" if os.access(above, os.W_OK) else f"read only: {above} cannot be written to"


# -- what the system tells -------------------------------------------------------------------------


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _model() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return found[1].strip() if found else ""


def _numbers(path: str) -> Mapping[str, int]:
    rows = re.findall(r"^(\w+):\s*(\d+) kB$", _text(path), re.MULTILINE)
    return {name: int(number) for name, number in rows}


def _caches(folder: Path) -> Iterator[tuple[str, str]]:
    """The caches of a core as the system tells them."""
    for index in sorted(folder.glob("index*")):
        level, kind, room = (_text(index / name).strip() for name in ("level", "type", "size"))
        if level and room and kind != "Instruction":
            cores = _text(index / "shared_cpu_list").strip()
            shared = f", shared by cores {cores}" if "," in cores or "-" in cores else ""
            yield f"L{level}", f"{room}{shared}"
