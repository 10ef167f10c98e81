"""File store: a cache on disk for later processes, in files that are checked before use.

An entry is one file, `<kind>/<name>`; the name is a digest of all that the content depends on:

    porism store 1        a magic number
    32 bytes              a digest of kind, name and content
    ...                   the content

A file is written under a temporary name and then renamed, so others see all of it or nothing,
wherever a process is killed. A file that is truncated, changed, or renamed has the wrong digest and
counts as missing; so does one that another user could have written. Nothing here raises an error
when a folder cannot be used: the work is done again, and `PORISM_DEBUG=1` shows why.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from porism.base.fork_locks import held_while_forking
from porism.base.settings import settings

KINDS: Final = ("constants", "functions", "kernels", "modules", "objects", "programs", "schedules")
"""The folders of the store."""

MARK: Final = b"porism store 1\n"
DIGEST_BYTES: Final = 32
NAME_BYTES: Final = 20

TRIMMED_SHARE: Final = 0.8
"""The share of the limit to which the store is trimmed, least recently used entries first."""

ABANDONED_SECONDS: Final = 3600.0
"""Seconds after which a temporary file counts as that of a killed process; chosen by hand."""

MOST_BYTES: Final = 1 << 30
"""A larger file is not an entry of the store."""

_DISK_BLOCK: Final = 4096
"""Bytes of a block on most file systems: the space of a file is a multiple of it."""

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
    """Its space on the disk."""
    used: float
    """When it was last used, in seconds since the epoch."""

    @property
    def finished(self) -> bool:
        """Return whether it has its final name; if not, it is being written, or was abandoned."""
        return not self.path.name.startswith(_TEMPORARY)


def name_of(*parts: str | bytes) -> str:
    """Return the name of an entry: the digest of the parts that its content depends on.

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
"""Held while the size of the store is updated, and entries are removed."""


class Store:
    """A folder of entries; several processes and threads may use it at the same time."""

    def __init__(self, folder: Path, limit: int, kinds: Sequence[str] = KINDS) -> None:
        self.folder = folder
        self.limit = limit
        self.kinds = kinds
        self._bytes_used: int | None = None
        """Bytes of all entries when they were last counted, plus what was added since."""

    def get(self, kind: str, name: str) -> bytes | None:
        """Return the content of an entry if it exists and is intact, and mark it as used."""
        content = self.peek(kind, name)
        if content is not None:
            self.touch(kind, [name])
        return content

    def peek(self, kind: str, name: str) -> bytes | None:
        """Return the content of an entry if it exists and is intact."""
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
        """Write an entry; return whether that was possible."""
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
        """Mark entries as used now: the least recently used ones are removed first."""
        for name in names:
            with contextlib.suppress(OSError):
                os.utime(self._path(kind, name), follow_symlinks=False)

    def entries(self) -> Iterator[Entry]:
        """Yield all files of the store, in no order, temporary ones included."""
        for kind in self.kinds:
            try:
                files = list(os.scandir(self.folder / kind))
            except OSError:
                continue
            for file in files:
                if _NAME.fullmatch(file.name) or file.name.startswith(_TEMPORARY):
                    with contextlib.suppress(OSError):
                        status = file.stat(follow_symlinks=False)
                        size = max(status.st_size, 512 * getattr(status, "st_blocks", 0))
                        yield Entry(kind, Path(file.path), size, status.st_mtime)

    def trim(self) -> int:
        """Remove entries until the rest is within the limit; return the bytes of the rest."""
        now = time.time()
        entries = sorted(self.entries(), key=lambda entry: entry.used)
        total = sum(entry.bytes for entry in entries)
        wanted = self.limit if total <= self.limit else int(self.limit * TRIMMED_SHARE)
        for entry in entries:
            abandoned = not entry.finished and now - entry.used > ABANDONED_SECONDS
            if abandoned or (total > wanted and entry.finished):
                _remove(entry.path)
                total -= entry.bytes
        return total

    def clear(self) -> list[Entry]:
        """Remove all entries; return those that existed."""
        removed = list(self.entries())
        for entry in removed:
            _remove(entry.path)
        for folder in (*(self.folder / kind for kind in self.kinds), self.folder):
            with contextlib.suppress(OSError):
                folder.rmdir()
        self._bytes_used = None
        return removed

    def _path(self, kind: str, name: str) -> Path:
        if kind not in self.kinds or not _NAME.fullmatch(name):
            raise ValueError(f"{kind}/{name} is no name of an entry")
        return self.folder / kind / name

    def _write(self, path: Path, parts: Iterable[bytes]) -> None:
        self.folder.mkdir(0o700, parents=True, exist_ok=True)
        if not is_trusted(self.folder.stat()):
            raise PermissionError(errno.EPERM, "others can write to it")
        path.parent.mkdir(0o700, exist_ok=True)
        import tempfile

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
        """Add bytes to the size of the store, and trim it if it is over the limit."""
        with _size_lock:
            if self._bytes_used is not None:
                self._bytes_used += added
            if self._bytes_used is None or self._bytes_used > self.limit:
                self._bytes_used = self.trim()


def cache_folder() -> Path | None:
    """Return the folder of the store: that of the setting, or `porism` in the user's cache folder.

    None where that is not known.
    """
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
    """Return the store of the settings; None if it is turned off or cannot be used."""
    if not settings.cache:
        return None
    folder = cache_folder()
    fault = "the home folder of the user is not known" if folder is None else why_unusable(folder)
    if folder is None or fault:
        log_once(f"nothing is kept on disk: {fault}")
        return None
    return _store(folder, settings.cache_mb << 20)


def why_unusable(folder: Path) -> str:
    """Return why a folder cannot be used; "" if it can, or does not exist yet."""
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
    """Return whether only this user, or the superuser, can have written a file."""
    if not hasattr(os, "geteuid"):
        return True
    others = stat.S_IWGRP | stat.S_IWOTH
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & others


def log_once(text: str) -> None:
    """Write why something was not kept or not used, each text once; only at debug level 1."""
    if settings.debug >= 1 and text not in _logged:
        if len(_logged) >= _MOST_LOGGED:
            _logged.clear()
        _logged.add(text)
        print(f"porism: {text}", file=sys.stderr)


_MOST_LOGGED: Final = 1000
_logged: set[str] = set()
_stores: dict[tuple[Path, int], Store] = {}


def _store(folder: Path, limit: int) -> Store:
    """Return the one object for a folder and limit, so that its size is counted once."""
    return _stores.setdefault((folder, limit), Store(folder, limit))


def _read(path: Path) -> bytes | None:
    """Return the bytes of a file; None if it is no regular file of this user."""
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
    """Return the content of a file if its digest is right, else None."""
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
        import shutil

        shutil.rmtree(path, ignore_errors=True)
