"""Tuning cache: the fastest actions that were measured for a kernel on this machine.

It is in memory, keyed by backend, threads and kernel, and on disk, keyed by a digest of the
kernel's structure and of its *environment*: target, number of threads, compiler, settings, and the
sources of Porism. So timings from another machine or other code are never used. An entry is a line
of JSON, with times in seconds before (the heuristic's actions) and after (these actions):

    {"kernel": …, "for": …, "made by": …, "actions": [["Upcast", {…}], …], "before": …, "after": …}

An exported file has the same lines, each with a checksum. It is untrusted: a line is used only if
all its parts are well formed, and its actions must be legal for the kernel they are applied to.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from porism.backends.backend_table import Backend
from porism.base.errors import ActionError, PorismError
from porism.base.file_store import Store, cache_folder, name_of, why_unusable
from porism.base.fork_locks import held_while_forking
from porism.base.settings import settings
from porism.engine.cache.kernel_cache import compile_environment, version_text
from porism.ir.node import UOp

if TYPE_CHECKING:
    from porism.optimize.actions.action import Actions

FORMAT: Final = "porism tuning 1"
"""The first line of an exported file."""

ENTRY_KIND: Final = "tuned"
MAX_LINE_BYTES: Final = 1 << 16
MAX_LINES: Final = 1 << 18

_HEX: Final = re.compile(r"[0-9a-f]{32,64}")
_VERSION: Final = re.compile(r"[\w.,:+ ()/-]{0,200}")


@dataclass(frozen=True, slots=True)
class TunedKernel:
    """The fastest actions that were measured for a kernel, and their times."""

    kernel: str
    """The digest of the kernel's structure."""
    environment: str
    """The digest of what the speed of a kernel depends on beside its structure."""
    version: str
    actions: Actions
    before: float
    """Seconds with the actions of the heuristic."""
    after: float

    @property
    def name(self) -> str:
        """The name of the entry's file."""
        return name_of(self.kernel, self.environment)

    def line(self) -> str:
        """Return the entry as a line of JSON; equal entries give equal lines."""
        from porism.optimize.actions.action_serialization import write_actions

        return json.dumps(
            {
                "kernel": self.kernel,
                "for": self.environment,
                "made by": self.version,
                "actions": write_actions(self.actions),
                "before": self.before,
                "after": self.after,
            },
            sort_keys=True,
        )


_in_memory: dict[tuple[str, int, UOp], TunedKernel] = {}
"""Entries of this process by backend, threads and kernel, also if the disk is not used."""
_lock = held_while_forking(threading.Lock())


def thread_count() -> int:
    """Return the number of threads that run a kernel."""
    return settings.threads or os.cpu_count() or 1


class TuningCache:
    """The entries for one backend under the current settings."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._threads = thread_count()
        self._disk: Store | None = _store() if backend.objects is not None else None
        self._environment: str | None = None
        if self._disk is not None and not (self._disk.folder / ENTRY_KIND).is_dir():
            self._disk = None  # nothing was ever tuned here

    def __bool__(self) -> bool:
        """Return whether there may be entries, without reading the disk."""
        return bool(_in_memory) or self._disk is not None

    def get(self, kernel: UOp) -> TunedKernel | None:
        """Return the entry of a kernel, or None if it was not tuned."""
        entry = _in_memory.get((self.backend.name, self._threads, kernel))
        if entry is not None or self._disk is None:
            return entry
        if self._environment is None:
            self._environment = _tuning_environment(self.backend) or ""
        if not self._environment:
            return None
        name = name_of(kernel.key.hex(), _digest(self._environment))
        content = self._disk.get(ENTRY_KIND, name)
        entry = None if content is None else _parse_entry(content.decode("utf-8", "replace"))
        if entry is None or entry.name != name:
            return None
        return entry


def known_actions(kernels: Sequence[UOp], backend: Backend) -> dict[UOp, Actions]:
    """Return the tuned actions of those kernels that tuning has made faster.

    The other kernels are left to the heuristic, which may know more about the program.
    """
    cache = TuningCache(backend)
    if not cache:
        return {}
    entries_of = {kernel: cache.get(kernel) for kernel in dict.fromkeys(kernels)}
    return {
        k: entry.actions for k, entry in entries_of.items() if entry and entry.after < entry.before
    }


def tuned_actions(kernel: UOp, backend: Backend) -> Actions | None:
    """Return the tuned actions of a kernel if they are legal; None: use the heuristic."""
    actions = known_actions([kernel], backend).get(kernel)
    if actions is None:
        return None
    from porism.pipeline import optimize_kernel

    try:
        optimize_kernel(kernel, backend.target(), actions=actions)
    except ActionError:  # imported actions may not fit the kernel
        return None
    return actions


def record(
    kernel: UOp,
    backend: Backend,
    actions: Actions,
    before: float,
    after: float,
    *,
    on_disk: bool = True,
) -> TunedKernel:
    """Record the actions and times of a kernel in memory, and also on disk if `on_disk`."""
    environment = _tuning_environment(backend)
    digest, version = (
        (_digest(environment), _version(environment)) if environment else ("0" * 40, "")
    )
    entry = TunedKernel(kernel.key.hex(), digest, version, actions, before, after)
    with _lock:
        _in_memory[backend.name, thread_count(), kernel] = entry
    disk = _store() if on_disk else None
    if disk is not None and environment is not None:
        disk.put(ENTRY_KIND, entry.name, entry.line().encode())
    return entry


def forget_in_memory() -> None:
    """Clear the entries in memory; those on disk stay."""
    with _lock:
        _in_memory.clear()


def _tuning_environment(backend: Backend) -> str | None:
    base = compile_environment(backend.target(), backend)
    return None if base is None else json.dumps([base, thread_count()])


def _digest(base: str) -> str:
    return hashlib.blake2b(base.encode(), digest_size=20).hexdigest()


def _version(base: str) -> str:
    return version_text(json.loads(base)[0])


def _store() -> Store | None:
    """Return the store on disk; None if the settings turn it off or it cannot be used."""
    folder = cache_folder() if settings.cache else None
    if folder is None or why_unusable(folder):
        return None
    folder = folder / "tuning"
    return None if why_unusable(folder) else Store(folder, settings.cache_mb << 20, (ENTRY_KIND,))


# -- untrusted lines -------------------------------------------------------------------------------


def _parse_entry(line: str) -> TunedKernel | None:
    """Return the entry of a line of JSON; None if any part is malformed."""
    from porism.optimize.actions.action_serialization import read_actions

    try:
        row = json.loads(line)
        entry = TunedKernel(
            _checked_text(row.pop("kernel"), _HEX),
            _checked_text(row.pop("for"), _HEX),
            _checked_text(row.pop("made by"), _VERSION),
            read_actions(row.pop("actions")),
            _checked_seconds(row.pop("before")),
            _checked_seconds(row.pop("after")),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, ActionError):
        return None
    return None if row or entry.after > entry.before else entry


def _checked_text(value: Any, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError
    return value


def _checked_seconds(value: Any) -> float:
    if not isinstance(value, float) or not math.isfinite(value) or value <= 0:
        raise ValueError
    return value


def _checksum(line: str) -> str:
    return hashlib.blake2b(line.encode(), digest_size=16).hexdigest()


# -- exporting and importing -----------------------------------------------------------------------


@dataclass(slots=True)
class ImportCounts:
    """How many lines of an imported file were taken and left out."""

    taken: int = 0
    slower: int = 0
    """Not faster than the entry that was there."""
    refused: int = 0
    """Malformed, or with a wrong checksum."""


def entries() -> list[TunedKernel]:
    """Return all well-formed entries on disk, sorted by name."""
    disk = _required_store()
    names = sorted(entry.path.name for entry in disk.entries() if entry.finished)
    lines = (disk.peek(ENTRY_KIND, name) for name in names)
    parsed = [_parse_entry(line.decode("utf-8", "replace")) for line in lines if line is not None]
    return [entry for entry in parsed if entry is not None]


def own_environment() -> str:
    """Return the environment digest of this process; entries of others are not used."""
    from porism.backends.backend_table import native_backend

    base = _tuning_environment(native_backend())
    return "" if base is None else _digest(base)


def export_file(path: Path) -> int:
    """Write all entries to a file; return how many."""
    exported = entries()
    lines = [entry.line() for entry in exported]
    text = "\n".join([FORMAT, *(f"{_checksum(line)} {line}" for line in lines)]) + "\n"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _file_error("written", path, error) from None
    return len(exported)


def import_file(path: Path) -> ImportCounts:
    """Import the entries of a file; for each kernel the faster entry is kept."""
    disk = _required_store()
    merged = ImportCounts()
    for line in _lines(path):
        entry = _parse_entry(line[33:]) if _checksum(line[33:]) == line[:32] else None
        if entry is None:
            merged.refused += 1
            continue
        content = disk.peek(ENTRY_KIND, entry.name)
        known = None if content is None else _parse_entry(content.decode("utf-8", "replace"))
        if known is not None and known.name == entry.name and known.after <= entry.after:
            merged.slower += 1
        elif disk.put(ENTRY_KIND, entry.name, entry.line().encode()):
            merged.taken += 1
        else:
            raise PorismError(
                "an entry cannot be kept",
                where=str(disk.folder),
                why="the folder cannot be written to, or the disk is full",
                fix="free some space, or name another folder in PORISM_CACHE_DIR",
            )
    if merged.taken:
        forget_in_memory()
    return merged


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            first = file.readline(MAX_LINE_BYTES)
            if first.rstrip(b"\r\n") != FORMAT.encode():
                raise PorismError(
                    "this is no file of tunings",
                    where=str(path),
                    why=f"such a file begins with the line {FORMAT!r}",
                    fix="give a file that 'porism tune export' has written",
                )
            for _ in range(MAX_LINES):
                data = file.readline(MAX_LINE_BYTES)
                if not data:
                    return
                yield data.rstrip(b"\r\n").decode("utf-8", "replace")
    except OSError as error:
        raise _file_error("read", path, error) from None


def _file_error(action: str, path: Path, error: OSError) -> PorismError:
    return PorismError(
        f"the file cannot be {action}",
        where=str(path),
        why=error.strerror or str(error),
        fix="give another file",
    )


def _required_store() -> Store:
    disk = _store()
    if disk is None:
        raise PorismError(
            "there is no tuning cache",
            why="PORISM_CACHE is off, or the folder of the cache cannot be used",
            fix="look at what 'porism cache info' says",
        )
    return disk


def folder() -> Path:
    """Return the folder of the entries."""
    return _required_store().folder


def clear() -> int:
    """Remove all entries; return how many."""
    forget_in_memory()
    return len(_required_store().clear())
