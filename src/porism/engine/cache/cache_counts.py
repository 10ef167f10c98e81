"""Cache counts: hits and misses of the caches on disk.

A process counts in memory, and appends one line to the file `counts` of the cache when it exits, so
that a hit costs no more than an addition. The counts of a process that is killed are lost.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE_NAME: Final = "counts"

MAX_FILE_BYTES: Final = 1 << 16
"""Bytes from which on the file is replaced by one line with the sums; chosen by hand."""

_COUNTS_PER_LINE: Final = 4
_OPEN_FLAGS: Final = os.O_APPEND | os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)


@dataclass(slots=True)
class Counts:
    """Hits and misses of kernels and schedules."""

    kernel_hits: int = 0
    kernel_misses: int = 0
    schedule_hits: int = 0
    schedule_misses: int = 0

    @property
    def line(self) -> str:
        return (
            f"{self.kernel_hits} {self.kernel_misses} {self.schedule_hits} {self.schedule_misses}\n"
        )

    def add(self, line: str) -> None:
        """Add the counts of a line of the file; a damaged line is ignored."""
        words = line.split()
        if len(words) == _COUNTS_PER_LINE and all(
            w.isascii() and w.isdigit() and len(w) < 16 for w in words
        ):
            hits, misses, schedule_hits, schedule_misses = map(int, words)
            self.kernel_hits += hits
            self.kernel_misses += misses
            self.schedule_hits += schedule_hits
            self.schedule_misses += schedule_misses


_counts: dict[Path, Counts] = {}


def process_counts(folder: Path) -> Counts:
    """Return the counts of this process for a cache folder, for the caller to add to."""
    counts = _counts.get(folder)
    if counts is None:
        if not _counts:
            atexit.register(flush)
        counts = _counts.setdefault(folder, Counts())
    return counts


def total_counts(folder: Path) -> Counts:
    """Return the counts of all processes that have ended, and of this one."""
    counts = Counts()
    for line in _lines(folder / FILE_NAME):
        counts.add(line)
    if folder in _counts:
        counts.add(_counts[folder].line)
    return counts


def flush() -> None:
    """Append the counts of this process to the files, and reset them."""
    for folder, counts in list(_counts.items()):
        del _counts[folder]
        if counts != Counts() and folder.is_dir():
            with contextlib.suppress(OSError):  # counts are not worth an error
                _append(folder / FILE_NAME, counts.line)
                if (folder / FILE_NAME).stat().st_size > MAX_FILE_BYTES:
                    _compact(folder)


def reset(folder: Path) -> None:
    """Reset the counts of this process and of those that have ended."""
    _counts.pop(folder, None)
    with contextlib.suppress(OSError):
        (folder / FILE_NAME).unlink(missing_ok=True)


def _append(path: Path, line: str) -> None:
    descriptor = os.open(path, _OPEN_FLAGS, 0o600)
    try:
        os.write(descriptor, line.encode())  # one write: lines of several processes do not mix
    finally:
        os.close(descriptor)


def _lines(path: Path) -> list[str]:
    try:
        status = path.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_size > 16 * MAX_FILE_BYTES:
            return []
        return path.read_text(encoding="latin-1").splitlines()
    except OSError:
        return []


def _compact(folder: Path) -> None:
    """Replace the file by one line; renamed meanwhile, so that no other process sums it too."""
    renamed = folder / f"{FILE_NAME}.{os.getpid()}"
    os.rename(folder / FILE_NAME, renamed)
    counts = Counts()
    for line in _lines(renamed):
        counts.add(line)
    renamed.unlink()
    _append(folder / FILE_NAME, counts.line)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_counts.clear)  # the parent writes what it counted
