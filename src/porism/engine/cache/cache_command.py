"""The command `porism cache`: what the cache on disk holds, and what was cleared, as text.

A module is the machine code of kernels that were compiled together (`kernel_cache`). It is used by
the version of Porism and of the compiler that wrote it only; modules are counted by version.
"""

from __future__ import annotations

import time
from typing import Final

from porism.backends.backend_table import selected_backend
from porism.base.errors import PorismError
from porism.base.file_store import KINDS, Store, cache_folder, why_unusable
from porism.base.settings import settings
from porism.engine.cache import cache_counts
from porism.engine.cache.kernel_cache import compile_environment, modules_by_version, version_text

_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")


def info() -> str:
    """Return a description of the cache: folder, state, entries, sizes, hits and misses."""
    disk = _store()
    entries = [entry for entry in disk.entries() if entry.finished]
    counts = {kind: sum(entry.kind == kind for entry in entries) for kind in KINDS}
    total = sum(entry.bytes for entry in entries)
    rows = [
        ("folder", str(disk.folder)),
        ("state", _state(disk)),
        ("entries", ", ".join(f"{count} {kind}" for kind, count in counts.items())),
        ("size", f"{size_text(total)} of {size_text(disk.limit)} at most"),
    ]
    if entries:
        ages = [time.time() - entry.used for entry in entries]
        rows.append(("last used", f"from {_age_text(max(ages))} to {_age_text(min(ages))}"))
    rows.append(("lookups", _hits_and_misses(disk)))
    own = _own_version()
    rows.append(("this version", own))
    for version, count in sorted(modules_by_version(disk).items()):
        label = "modules of this version" if version == own else "modules of another version"
        rows.append((label, f"{count}" if version == own else f"{count}, {version}"))
    return "\n".join(f"{name:<28}{text}" for name, text in rows)


def clear() -> str:
    """Remove all entries, and return a sentence about them."""
    disk = _store()
    cache_counts.reset(disk.folder)
    removed = disk.clear()
    left = list(disk.entries())
    if left:
        raise PorismError(
            f"{len(left)} of {len(removed)} entries are still there",
            where=str(disk.folder),
            why="they could not be removed, or were written again by another process",
            fix="look at the permissions of the folder, or end the other process",
        )
    total = size_text(sum(entry.bytes for entry in removed))
    return f"removed {len(removed)} entries, {total}, from {disk.folder}"


def size_text(number: int) -> str:
    """Return a number of bytes as text with three digits and a unit; a kB is 1024 bytes.

    >>> size_text(700), size_text(404 << 10), size_text(512 << 20)
    ('700 bytes', '404 kB', '512 MB')
    """
    value, unit = float(number), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.3g} {_UNITS[unit]}"


def _store() -> Store:
    folder = cache_folder()
    if folder is None:
        raise PorismError(
            "there is no folder for the cache",
            why="the home folder of the user is not known",
            fix="name a folder in PORISM_CACHE_DIR",
        )
    return Store(folder, settings.cache_mb << 20)


def _state(disk: Store) -> str:
    if not settings.cache:
        return "off, by PORISM_CACHE"
    fault = why_unusable(disk.folder)
    return f"not used: {fault}" if fault else "on"


def _hits_and_misses(disk: Store) -> str:
    counts = cache_counts.total_counts(disk.folder)
    return (
        f"{counts.kernel_hits} kernels found and {counts.kernel_misses} compiled, "
        f"{counts.schedule_hits} schedules found and {counts.schedule_misses} made"
    )


def _own_version() -> str:
    """Return the version of this Porism and its compiler as `modules_by_version` names it.

    If there is none, return the reason.
    """
    backend = selected_backend()
    if backend.objects is None:
        return f"the backend {backend.name}, whose code is not kept"
    environment = compile_environment(backend.target(), backend)
    if environment is None:
        return "not known: the sources are being edited"
    return version_text(environment)


def _age_text(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} seconds ago"
