"""Tuned: the tuning cache, which actions were found to be best for a kernel on this machine.

An entry is found under a digest of the kernel's structure and of all that its speed depends on: the
machine, the number of threads, the compiler, the settings, and the source code of Porism. So what
was measured elsewhere or with other code is never used. An entry is a line of JSON:

    {"kernel": …, "for": …, "made by": …, "actions": [["Upcast", {…}], …], "before": …, "after": …}

Entries are files of a store, which checks them when they are read. An exported file has the same
lines, each with a checksum. It may come from anywhere: a line is used only if it is well formed in
all its parts, and the actions in it still have to be legal for the kernel that they are applied to.
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
from typing import Any, Final

from porism.backends.backend_table import Backend
from porism.base.errors import ActionError, PorismError
from porism.base.file_store import Store, fault_of, location, name_of
from porism.base.fork_locks import held_while_forking
from porism.base.settings import settings
from porism.engine.cache.kernel_cache import made_by, surroundings
from porism.ir.node import UOp
from porism.optimize.actions.action import Actions
from porism.optimize.actions.action_serialization import read_actions, write_actions
from porism.pipeline import optimize_kernel

FORMAT: Final = "porism tuning 1"
"""The first line of an exported file."""

KIND: Final = "tuned"
LONGEST_LINE: Final = 1 << 16
MOST_LINES: Final = 1 << 18

_HEX: Final = re.compile(r"[0-9a-f]{32,64}")
_MAKER: Final = re.compile(r"[\w.,:+ ()/-]{0,200}")


@dataclass(frozen=True, slots=True)
class Tuned:
    """The best actions that were found for a kernel."""

    kernel: str
    """The digest of its structure."""
    surroundings: str
    """The digest of what its speed depends on beside itself."""
    made_by: str
    actions: Actions
    before: float
    """Seconds with the actions of the heuristic."""
    after: float

    @property
    def name(self) -> str:
        """That of its file."""
        return name_of(self.kernel, self.surroundings)

    def line(self) -> str:
        """It as a line of JSON, the same every time."""
        return json.dumps(
            {
                "kernel": self.kernel,
                "for": self.surroundings,
                "made by": self.made_by,
                "actions": write_actions(self.actions),
                "before": self.before,
                "after": self.after,
            },
            sort_keys=True,
        )


_memory: dict[tuple[str, int, UOp], Tuned] = {}
"""What was found in this process, also where nothing is kept on disk."""
_lock = held_while_forking(threading.Lock())


def thread_count() -> int:
    """Threads that share a kernel."""
    return settings.threads or os.cpu_count() or 1


class Tunings:
    """What is known for one backend under the settings of the moment."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._threads = thread_count()
        self._kept = _store() if backend.objects is not None else None
        self._base: str | None = None
        if self._kept is not None and not (self._kept.folder / KIND).is_dir():
            self._kept = None  # nothing was ever tuned

    def __bool__(self) -> bool:
        """Whether there may be anything; if not, that was cheap to know."""
        return bool(_memory) or self._kept is not None

    def get(self, kernel: UOp) -> Tuned | None:
        """The best actions for a kernel, if it was tuned."""
        found = _memory.get((self.backend.name, self._threads, kernel))
        if found is not None or self._kept is None:
            return found
        if self._base is None:
            self._base = _surroundings(self.backend) or ""
        if not self._base:
            return None
        name = name_of(kernel.key.hex(), _digest(self._base))
        content = self._kept.get(KIND, name)
        found = None if content is None else _entry(content.decode("utf-8", "replace"))
        if found is None or found.name != name:
            return None
        return found


def known_actions(kernels: Sequence[UOp], backend: Backend) -> dict[UOp, Actions]:
    """Of some kernels those that are faster since they were tuned, and their actions.

    Where nothing better was found the heuristic decides, which may know more of the program. Cheap
    where nothing was ever tuned.
    """
    known = Tunings(backend)
    if not known:
        return {}
    found = {kernel: known.get(kernel) for kernel in dict.fromkeys(kernels)}
    return {k: each.actions for k, each in found.items() if each and each.after < each.before}


def tuned_actions(kernel: UOp, backend: Backend) -> Actions | None:
    """The actions that a kernel is compiled with in place of the heuristic's, if any."""
    actions = known_actions([kernel], backend).get(kernel)
    if actions is None:
        return None
    try:
        optimize_kernel(kernel, backend.target(), actions=actions)
    except ActionError:  # those of an imported file may be any
        return None
    return actions


def keep(
    kernel: UOp,
    backend: Backend,
    actions: Actions,
    before: float,
    after: float,
    *,
    lasting: bool = True,
) -> Tuned:
    """Remember what was found, in this process and, if it is to last, on disk."""
    base = _surroundings(backend)
    digest, maker = (_digest(base), _made_by(base)) if base else ("0" * 40, "")
    found = Tuned(kernel.key.hex(), digest, maker, actions, before, after)
    with _lock:
        _memory[backend.name, thread_count(), kernel] = found
    kept = _store() if lasting else None
    if kept is not None and base is not None:
        kept.put(KIND, found.name, found.line().encode())
    return found


def forget() -> None:
    """Forget what was found in this process; what is on disk stays there."""
    with _lock:
        _memory.clear()


def _surroundings(backend: Backend) -> str | None:
    base = surroundings(backend.target(), backend)
    return None if base is None else json.dumps([base, thread_count()])


def _digest(base: str) -> str:
    return hashlib.blake2b(base.encode(), digest_size=20).hexdigest()


def _made_by(base: str) -> str:
    return made_by(json.loads(base)[0])


def _store() -> Store | None:
    """The store, if the settings ask for one and it can be used."""
    folder = location() if settings.cache else None
    if folder is None or fault_of(folder):
        return None
    folder = folder / "tuning"
    return None if fault_of(folder) else Store(folder, settings.cache_mb << 20, (KIND,))


# -- lines from anywhere ---------------------------------------------------------------------------


def _entry(line: str) -> Tuned | None:
    """The entry that a line says, if it says one."""
    try:
        row = json.loads(line)
        found = Tuned(
            _text(row.pop("kernel"), _HEX),
            _text(row.pop("for"), _HEX),
            _text(row.pop("made by"), _MAKER),
            read_actions(row.pop("actions")),
            _seconds(row.pop("before")),
            _seconds(row.pop("after")),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, ActionError):
        return None
    return None if row or found.after > found.before else found


def _text(value: Any, form: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, float) or not math.isfinite(value) or value <= 0:
        raise ValueError
    return value


def _sum(line: str) -> str:
    return hashlib.blake2b(line.encode(), digest_size=16).hexdigest()


# -- exporting and importing -----------------------------------------------------------------------


@dataclass(slots=True)
class Merged:
    """What has become of the lines of a file."""

    taken: int = 0
    slower: int = 0
    """There was an entry at least as good."""
    refused: int = 0
    """Lines that are damaged, or were never ours."""


def entries() -> list[Tuned]:
    """All that is on disk and sound, in order of their names."""
    kept = _folder()
    names = sorted(entry.path.name for entry in kept.entries() if entry.finished)
    lines = (kept.peek(KIND, name) for name in names)
    found = [_entry(line.decode("utf-8", "replace")) for line in lines if line is not None]
    return [each for each in found if each is not None]


def own() -> str:
    """The digest of what speed depends on here and now; of entries that would be used."""
    from porism.backends.backend_table import native

    base = _surroundings(native())
    return "" if base is None else _digest(base)


def write_file(path: Path) -> int:
    """Export all entries; how many they are."""
    found = entries()
    lines = [each.line() for each in found]
    text = "\n".join([FORMAT, *(f"{_sum(line)} {line}" for line in lines)]) + "\n"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unusable("written", path, error) from None
    return len(found)


def read_file(path: Path) -> Merged:
    """Import the entries of a file; of two for the same kernel the faster one stays."""
    kept = _folder()
    merged = Merged()
    for line in _lines(path):
        found = _entry(line[33:]) if _sum(line[33:]) == line[:32] else None
        if found is None:
            merged.refused += 1
            continue
        there = kept.peek(KIND, found.name)
        known = None if there is None else _entry(there.decode("utf-8", "replace"))
        if known is not None and known.name == found.name and known.after <= found.after:
            merged.slower += 1
        elif kept.put(KIND, found.name, found.line().encode()):
            merged.taken += 1
        else:
            raise PorismError(
                "an entry cannot be kept",
                where=str(kept.folder),
                why="the folder cannot be written to, or the disk is full",
                fix="free some space, or name another folder in PORISM_CACHE_DIR",
            )
    if merged.taken:
        forget()
    return merged


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            first = file.readline(LONGEST_LINE)
            if first.rstrip(b"\r\n") != FORMAT.encode():
                raise PorismError(
                    "this is no file of tunings",
                    where=str(path),
                    why=f"such a file begins with the line {FORMAT!r}",
                    fix="give a file that 'porism tune export' has written",
                )
            for _ in range(MOST_LINES):
                data = file.readline(LONGEST_LINE)
                if not data:
                    return
                yield data.rstrip(b"\r\n").decode("utf-8", "replace")
    except OSError as error:
        raise _unusable("read", path, error) from None


def _unusable(done: str, path: Path, error: OSError) -> PorismError:
    return PorismError(
        f"the file cannot be {done}",
        where=str(path),
        why=error.strerror or str(error),
        fix="give another file",
    )


def _folder() -> Store:
    kept = _store()
    if kept is None:
        raise PorismError(
            "there is no tuning cache",
            why="PORISM_CACHE is off, or the folder of the cache cannot be used",
            fix="look at what 'porism cache info' says",
        )
    return kept


def folder() -> Path:
    """Where the entries are."""
    return _folder().folder


def clear() -> int:
    """Remove all entries; how many they were."""
    forget()
    return len(_folder().clear())
