"""The store: what is kept on disk for later processes, in files that are checked before use.

An entry is one file, `<kind>/<name>`; the name is a digest of all that the content depends on:

    porism store 1        a mark
    32 bytes              a digest of kind, name and content
    ...                   the content

A file is written under another name and then renamed, so others see all of it or nothing, wherever
a process is killed. A file that is cut off, changed, or was put in another's place has the wrong
digest and counts as missing; so does one that others could have written. Nothing here raises an
error when a folder cannot be used: the work is done once more, and `PORISM_DEBUG=1` says why.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from porism.base.fork_locks import held_while_forking
from porism.base.settings import settings

KINDS: Final = ("kernels", "modules", "objects", "schedules")
"""The folders of the store."""

MARK: Final = b"porism store 1\n"
DIGEST_BYTES: Final = 32
NAME_BYTES: Final = 20

TRIMMED_SHARE: Final = 0.8
"""Of the limit, what is left after the entries that were not used for longest are removed."""

ABANDONED_SECONDS: Final = 3600.0
"""Seconds after which a file that was never renamed is taken for that of a killed process."""

MOST_BYTES: Final = 1 << 30
"""A file that is larger is none of ours."""

_DISK_BLOCK: Final = 4096
"""What a file takes is a multiple of this on most disks."""

_NAME: Final = re.compile(f"[0-9a-f]{{{2 * NAME_BYTES}}}")
_TEMPORARY: Final = ".new-"
_READ: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a pipe in the place of a file would wait for its other end
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the store."""

    kind: str
    path: Path
    bytes: int
    """What it takes on the disk."""
    used: float
    """When it was last used."""

    @property
    def finished(self) -> bool:
        """Whether it has its name; if not, it is being written, or was when a process ended."""
        return not self.path.name.startswith(_TEMPORARY)


def name_of(*parts: str | bytes) -> str:
    """The name of what depends on some parts.

    >>> name_of("ab", "c") == name_of("a", "bc")
    False
    """
    state = hashlib.blake2b(digest_size=NAME_BYTES)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


_size_lock = held_while_forking(threading.Lock())
"""Held while entries are counted, and some are removed."""


class Store:
    """A folder with entries. Several processes and threads may use it at the same time."""

    def __init__(self, folder: Path, limit: int, kinds: Sequence[str] = KINDS) -> None:
        self.folder = folder
        self.limit = limit
        self.kinds = kinds
        self._taken: int | None = None
        """What all entries took when they were last counted, and what was added since."""

    def get(self, kind: str, name: str) -> bytes | None:
        """The content of an entry, if it is there and sound; from now on it counts as used."""
        content = self.peek(kind, name)
        if content is not None:
            self.touch(kind, [name])
        return content

    def peek(self, kind: str, name: str) -> bytes | None:
        """The content of an entry, if it is there and sound."""
        path = self._path(kind, name)
        try:
            data = _read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            log_once(f"{path} is not used: {error.strerror}")
            return None
        content = None if data is None else _content(data, kind, name)
        if content is None:
            log_once(f"{path} is not used: it is damaged, or not ours")
        return content

    def put(self, kind: str, name: str, content: bytes) -> bool:
        """Keep an entry; whether that was possible."""
        size = len(MARK) + DIGEST_BYTES + len(content)
        if size > min(self.limit, MOST_BYTES):
            log_once(f"an entry of {size} bytes is not kept: the limit is {self.limit}")
            return False
        try:
            self._write(self._path(kind, name), [MARK, _digest(kind, name, content), content])
            self._count(-(-size // _DISK_BLOCK) * _DISK_BLOCK)
        except OSError as error:
            log_once(f"nothing is kept in {self.folder}: {error.strerror or error}")
            return False
        return True

    def touch(self, kind: str, names: Iterable[str]) -> None:
        """Entries are in use: what was not used for longest is removed first."""
        for name in names:
            with contextlib.suppress(OSError):
                os.utime(self._path(kind, name), follow_symlinks=False)

    def entries(self) -> Iterator[Entry]:
        """All files that are ours, in no order; also those of writers that did not finish."""
        for kind in self.kinds:
            try:
                files = list(os.scandir(self.folder / kind))
            except OSError:
                continue
            for file in files:
                if _NAME.fullmatch(file.name) or file.name.startswith(_TEMPORARY):
                    with contextlib.suppress(OSError):
                        status = file.stat(follow_symlinks=False)
                        taken = max(status.st_size, 512 * getattr(status, "st_blocks", 0))
                        yield Entry(kind, Path(file.path), taken, status.st_mtime)

    def trim(self) -> int:
        """Remove entries until the rest is within the limit; what the rest takes."""
        now = time.time()
        entries = sorted(self.entries(), key=lambda entry: entry.used)
        taken = sum(entry.bytes for entry in entries)
        wanted = self.limit if taken <= self.limit else int(self.limit * TRIMMED_SHARE)
        for entry in entries:
            abandoned = not entry.finished and now - entry.used > ABANDONED_SECONDS
            if abandoned or (taken > wanted and entry.finished):
                _remove(entry.path)
                taken -= entry.bytes
        return taken

    def clear(self) -> list[Entry]:
        """Remove all entries; those that were there."""
        found = list(self.entries())
        for entry in found:
            _remove(entry.path)
        for folder in (*(self.folder / kind for kind in self.kinds), self.folder):
            with contextlib.suppress(OSError):
                folder.rmdir()
        self._taken = None
        return found

    def _path(self, kind: str, name: str) -> Path:
        if kind not in self.kinds or not _NAME.fullmatch(name):
            raise ValueError(f"{kind}/{name} is no name of an entry")
        return self.folder / kind / name

    def _write(self, path: Path, parts: Iterable[bytes]) -> None:
        self.folder.mkdir(0o700, parents=True, exist_ok=True)
        if not is_trusted(self.folder.stat()):
            raise PermissionError(errno.EPERM, "others can write to it")
        path.parent.mkdir(0o700, exist_ok=True)
        number, new = tempfile.mkstemp(prefix=_TEMPORARY, dir=path.parent)
        try:
            with open(number, "wb") as file:
                for part in parts:
                    file.write(part)
            try:
                os.replace(new, path)
            except (IsADirectoryError, PermissionError):
                _remove(path)  # there is a folder in its place
                os.replace(new, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise

    def _count(self, added: int) -> None:
        """Remember what was added; see that the limit is kept."""
        with _size_lock:
            if self._taken is not None:
                self._taken += added
            if self._taken is None or self._taken > self.limit:
                self._taken = self.trim()


def cache_folder() -> Path | None:
    """The folder of the store: that of the setting, or `porism` among the user's caches."""
    if settings.cache_dir:
        return Path(settings.cache_dir).expanduser()
    if sys.platform == "win32":
        caches = Path(os.environ.get("LOCALAPPDATA", ""))
    elif sys.platform == "darwin":
        caches = Path(os.path.expanduser("~/Library/Caches"))
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
        if not caches.is_absolute():
            caches = Path(os.path.expanduser("~/.cache"))
    return caches / "porism" if caches.is_absolute() else None


def store() -> Store | None:
    """The store that the settings ask for; None if there is to be none, or it cannot be used."""
    if not settings.cache:
        return None
    folder = cache_folder()
    fault = "the home folder of the user is not known" if folder is None else why_unusable(folder)
    if folder is None or fault:
        log_once(f"nothing is kept on disk: {fault}")
        return None
    return _store(folder, settings.cache_mb << 20)


def why_unusable(folder: Path) -> str:
    """Why a folder cannot be used; nothing if it can, or can perhaps be made."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is no folder"
    return "" if is_trusted(status) else f"others can write to {folder}"


def is_trusted(status: os.stat_result) -> bool:
    """Whether only this user, or the superuser, can have written something."""
    if not hasattr(os, "geteuid"):
        return True
    others = stat.S_IWGRP | stat.S_IWOTH
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & others


def log_once(text: str) -> None:
    """Tell those who want to know why something was not kept or not used; each thing once."""
    if settings.debug >= 1 and text not in _logged:
        if len(_logged) >= _MOST_LOGGED:
            _logged.clear()
        _logged.add(text)
        print(f"porism: {text}", file=sys.stderr)


_MOST_LOGGED: Final = 1000
_logged: set[str] = set()
_stores: dict[tuple[Path, int], Store] = {}


def _store(folder: Path, limit: int) -> Store:
    """One object for one folder, so that what it takes is counted once."""
    return _stores.setdefault((folder, limit), Store(folder, limit))


def _read(path: Path) -> bytes | None:
    """What is in a file; None if it is no plain file of this user."""
    number = os.open(path, _READ)
    try:
        status = os.fstat(number)
        plain = stat.S_ISREG(status.st_mode) and status.st_size <= MOST_BYTES
        if not plain or not is_trusted(status):
            return None
        with open(number, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(number)


def _digest(kind: str, name: str, content: bytes) -> bytes:
    state = hashlib.blake2b(f"{kind}/{name}\n".encode(), digest_size=DIGEST_BYTES)
    state.update(content)
    return state.digest()


def _content(data: bytes, kind: str, name: str) -> bytes | None:
    """The content of a file, if all of it is as it was written."""
    begin = len(MARK) + DIGEST_BYTES
    if len(data) < begin or not data.startswith(MARK):
        return None
    content = data[begin:]
    return content if data[len(MARK) : begin] == _digest(kind, name, content) else None


def _remove(path: Path) -> None:
    """Remove a file, or a folder that lies where a file should be."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
