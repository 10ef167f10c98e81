"""The cache for people: where it is, what is in it, and how to empty it; `porism cache`."""

from __future__ import annotations

import time
from typing import Final

from porism.backends.backend_table import chosen
from porism.base.errors import PorismError
from porism.base.file_store import KINDS, Store, fault_of, location
from porism.base.settings import settings
from porism.engine.cache import cache_counts
from porism.engine.cache.kernel_cache import made_by, makers, surroundings

_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")


def info() -> str:
    """What there is, a line for each thing."""
    kept = _store()
    entries = [entry for entry in kept.entries() if entry.finished]
    numbers = {kind: sum(entry.kind == kind for entry in entries) for kind in KINDS}
    rows = [
        ("folder", str(kept.folder)),
        ("state", _state(kept)),
        ("entries", ", ".join(f"{many} {kind}" for kind, many in numbers.items())),
        ("size", f"{size(sum(entry.bytes for entry in entries))} of {size(kept.limit)} at most"),
    ]
    if entries:
        ages = [time.time() - entry.used for entry in entries]
        rows.append(("last used", f"from {_ago(max(ages))} to {_ago(min(ages))}"))
    rows.append(("used", _used(kept)))
    own = _own()
    rows.append(("this is", own))
    for maker, many in sorted(makers(kept).items()):
        rows.append(("modules of" if maker != own else "of this", f"{maker}: {many}"))
    return "\n".join(f"{name:<12}{text}" for name, text in rows)


def clear() -> str:
    """Remove all that is kept, and say what it was."""
    kept = _store()
    cache_counts.forget(kept.folder)
    removed = kept.clear()
    left = list(kept.entries())
    if left:
        raise PorismError(
            f"{len(left)} of {len(removed)} entries are still there",
            where=str(kept.folder),
            why="they could not be removed, or were written again by another process",
            fix="look at the permissions of the folder, or end the other process",
        )
    total = size(sum(entry.bytes for entry in removed))
    return f"removed {len(removed)} entries, {total}, from {kept.folder}"


def size(number: int) -> str:
    """A number of bytes as people read it.

    >>> size(700), size(404 << 10), size(512 << 20)
    ('700 bytes', '404 kB', '512 MB')
    """
    rest, unit = float(number), 0
    while rest >= 1000 and unit < len(_UNITS) - 1:
        rest, unit = rest / 1024, unit + 1
    return f"{rest:.3g} {_UNITS[unit]}"


def _store() -> Store:
    folder = location()
    if folder is None:
        raise PorismError(
            "there is no folder for the cache",
            why="the home folder of the user is not known",
            fix="name a folder in PORISM_CACHE_DIR",
        )
    return Store(folder, settings.cache_mb << 20)


def _state(kept: Store) -> str:
    if not settings.cache:
        return "off, by PORISM_CACHE"
    fault = fault_of(kept.folder)
    return f"not used: {fault}" if fault else "on"


def _used(kept: Store) -> str:
    counts = cache_counts.total(kept.folder)
    return (
        f"{counts.kernels_found} kernels found and {counts.kernels_made} compiled, "
        f"{counts.schedules_found} schedules found and {counts.schedules_made} made"
    )


def _own() -> str:
    backend = chosen()
    if backend.objects is None:
        return f"the backend {backend.name}, whose code is not kept"
    base = surroundings(backend.target(), backend)
    return "not known: the sources are being edited" if base is None else made_by(base)


def _ago(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} seconds ago"
