"""Cache counts: how often something was found on disk, and how often it had to be made.

A process counts in memory, and adds one line to the file `counts` of the cache when it ends, so
that finding an entry costs no more than an addition. A process that is killed is not counted.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE: Final = "counts"

MOST_BYTES: Final = 1 << 16
"""A file that is longer is replaced by one with the sums."""

_FIELDS: Final = 4
_FLAGS: Final = os.O_APPEND | os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)


@dataclass(slots=True)
class Counts:
    """Hits and misses."""

    kernels_found: int = 0
    kernels_made: int = 0
    schedules_found: int = 0
    schedules_made: int = 0

    @property
    def line(self) -> str:
        return (
            f"{self.kernels_found} {self.kernels_made} "
            f"{self.schedules_found} {self.schedules_made}\n"
        )

    def add(self, line: str) -> None:
        """Count a line of the file; one that is damaged counts as nothing."""
        words = line.split()
        if len(words) == _FIELDS and all(
            w.isascii() and w.isdigit() and len(w) < 16 for w in words
        ):
            found, made, schedules_found, schedules_made = map(int, words)
            self.kernels_found += found
            self.kernels_made += made
            self.schedules_found += schedules_found
            self.schedules_made += schedules_made


_counts: dict[Path, Counts] = {}


def of(folder: Path) -> Counts:
    """The counts of this process for a cache, to be added to."""
    found = _counts.get(folder)
    if found is None:
        if not _counts:
            atexit.register(write)
        found = _counts.setdefault(folder, Counts())
    return found


def total(folder: Path) -> Counts:
    """What all processes have counted, this one too."""
    found = Counts()
    for line in _lines(folder / FILE):
        found.add(line)
    if folder in _counts:
        found.add(_counts[folder].line)
    return found


def write() -> None:
    """Add what this process has counted to the files, and begin anew."""
    for folder, counts in list(_counts.items()):
        del _counts[folder]
        if counts != Counts() and folder.is_dir():
            with contextlib.suppress(OSError):  # figures are not worth an error
                _append(folder / FILE, counts.line)
                if (folder / FILE).stat().st_size > MOST_BYTES:
                    _shorten(folder)


def forget(folder: Path) -> None:
    """Begin anew, for all processes that have ended."""
    _counts.pop(folder, None)
    with contextlib.suppress(OSError):
        (folder / FILE).unlink(missing_ok=True)


def _append(path: Path, line: str) -> None:
    number = os.open(path, _FLAGS, 0o600)
    try:
        os.write(number, line.encode())  # one write: lines of several processes stay whole
    finally:
        os.close(number)


def _lines(path: Path) -> list[str]:
    try:
        status = path.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_size > 16 * MOST_BYTES:
            return []
        return path.read_text(encoding="latin-1").splitlines()
    except OSError:
        return []


def _shorten(folder: Path) -> None:
    """Sum up the file; it has another name meanwhile, so that two processes do not do it twice."""
    aside = folder / f"{FILE}.{os.getpid()}"
    os.rename(folder / FILE, aside)
    counts = Counts()
    for line in _lines(aside):
        counts.add(line)
    aside.unlink()
    _append(folder / FILE, counts.line)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_counts.clear)  # the first process writes what it counted
