"""Source digest: a digest of the compiler's own code, so that results of older code are not used.

All modules that affect machine code are read, which takes a few milliseconds once per process. A
process that has loaded code which was edited since has no digest: it would store results of the old
code under the digest of the new code.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[1]

NOT_IMPORTED_BY_ENGINE: Final = frozenset(
    (
        "__main__.py",
        "cli.py",
        "nn",
        "frontends",
        "simplifier",
        "viewer",
        "doctor",
        "tensor",
        "prove",
    )
)
"""Modules and packages that the engine never imports, so that they cannot affect its results."""

TRACED: Final = ("frontends/", "tensor/")
"""The packages that turn models into graphs, which the engine takes as they are."""


def process_start() -> float:
    """Return when this process began, in seconds since the epoch; where that is unknown, now."""
    try:
        words = Path("/proc/self/stat").read_text(encoding="latin-1").rpartition(")")[2].split()
        ticks = int(words[19])  # the 22nd word of all: clock ticks since the machine was started
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        age = 0.0
    return time.time() - max(age, 0.0)


_START: Final = process_start()
"""Taken when this module is loaded: after a fork the code is still that of the first process."""


@functools.cache
def digest() -> str | None:
    """Return the digest of the code that this process runs; None if that is not known."""
    return package_digest(PACKAGE, _START)


@functools.cache
def tracing_digest() -> str | None:
    """Return the digest of the code that builds graphs of models; None if that is not known."""
    return package_digest(PACKAGE, _START, TRACED)


def package_digest(package: Path, start: float, folders: Sequence[str] = ("",)) -> str | None:
    """Return the digest of a package or some of its folders; None if edited since `start`."""
    state = hashlib.blake2b(digest_size=20)
    now = time.time()
    try:
        names = sorted(name for folder in folders for name in _sources(str(package), folder))
        for name in names:
            file = os.open(package / name, os.O_RDONLY)
            try:
                status = os.fstat(file)
                text = os.read(file, status.st_size + 1)
            finally:
                os.close(file)
            changed = max(status.st_mtime, status.st_ctime)
            if start < changed <= now:  # times in the future are those of a wrong clock
                return None
            if len(text) != status.st_size:  # it is being written
                return None
            state.update(f"{name}\0{len(text)}\0".encode())
            state.update(text)
    except OSError:
        return None
    return state.hexdigest() if names else None


def _sources(package: str, folder: str) -> Iterator[str]:
    """Yield the paths of modules in a folder of a package; in "" those that the engine imports."""
    folders = [folder]
    while folders:
        folder = folders.pop()
        with os.scandir(os.path.join(package, folder)) as entries:
            for entry in entries:
                name = folder + entry.name
                if name in NOT_IMPORTED_BY_ENGINE:
                    continue
                if entry.name.endswith(".py"):
                    yield name
                elif entry.name != "__pycache__" and entry.is_dir():
                    folders.append(f"{name}/")
