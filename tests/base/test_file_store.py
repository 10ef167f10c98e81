"""What is read from the store is what was written, or nothing, whatever happens to its files."""

from __future__ import annotations

import builtins
import errno
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from porism.base import file_store as module
from porism.base.errors import SettingsError
from porism.base.file_store import Store, cache_folder, name_of, store
from porism.base.settings import settings
from tests.patience import PATIENCE

MEGABYTE = 1 << 20
NAME = name_of("a name")
CONTENT = bytes(range(256)) * 3


@pytest.fixture
def kept(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache", MEGABYTE)


@pytest.fixture(autouse=True)
def _notes() -> Iterator[None]:
    """Each test hears all notes."""
    module._logged.clear()
    with settings.override(debug=1):
        yield


def file_of(kept: Store, kind: str = "kernels", name: str = NAME) -> Path:
    return kept.folder / kind / name


def test_an_entry_is_read_back(kept: Store) -> None:
    assert kept.get("kernels", NAME) is None
    assert kept.put("kernels", NAME, CONTENT)
    assert kept.put("modules", NAME, b"")
    assert kept.get("kernels", NAME) == CONTENT
    assert kept.get("modules", NAME) == b""
    assert kept.get("schedules", NAME) is None
    assert Store(kept.folder, MEGABYTE).get("kernels", NAME) == CONTENT


def test_an_entry_is_replaced(kept: Store) -> None:
    kept.put("kernels", NAME, b"old")
    kept.put("kernels", NAME, b"new")
    assert kept.get("kernels", NAME) == b"new"
    assert len(list(kept.entries())) == 1


def test_names_of_parts_differ() -> None:
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), (b"ab", b"d")]
    assert len({name_of(*each) for each in parts}) == len(parts)
    assert name_of("é") == name_of("é".encode())


@pytest.mark.parametrize(("kind", "name"), [("kernels", "../x"), ("kernels", ""), ("other", NAME)])
def test_other_names_are_refused(kept: Store, kind: str, name: str) -> None:
    with pytest.raises(ValueError, match="no name of an entry"):
        kept.get(kind, name)


def test_only_the_user_can_read_it(kept: Store) -> None:
    kept.put("kernels", NAME, CONTENT)
    for path in (kept.folder, kept.folder / "kernels", file_of(kept)):
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)


# -- damage ----------------------------------------------------------------------------------------


def test_every_length_but_the_right_one_is_refused(kept: Store) -> None:
    kept.put("kernels", NAME, CONTENT)
    data = file_of(kept).read_bytes()
    for length in range(len(data)):
        file_of(kept).write_bytes(data[:length])
        assert kept.get("kernels", NAME) is None, length
    file_of(kept).write_bytes(data + b"\0")
    assert kept.get("kernels", NAME) is None
    file_of(kept).write_bytes(data)
    assert kept.get("kernels", NAME) == CONTENT


def test_a_flipped_bit_is_detected(kept: Store) -> None:
    kept.put("kernels", NAME, CONTENT)
    data = file_of(kept).read_bytes()
    chance = random.Random(7)
    for _ in range(200):
        bit = chance.randrange(8 * len(data))
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        file_of(kept).write_bytes(damaged)
        assert kept.get("kernels", NAME) is None, bit


def _foreign_mark(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"store 1", b"store 2"))


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("x")


def _link(path: Path) -> None:
    path.rename(path.with_name("target"))
    path.symlink_to(path.with_name("target"))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(b"\0" * path.stat().st_size),
    "text": lambda path: path.write_text("hello\n"),
    "foreign mark": _foreign_mark,
    "folder": _folder,
    "link": _link,
    "pipe": _pipe,
    "open to others": lambda path: path.chmod(0o666),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_ignored_and_rewritten(
    kept: Store, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.put("kernels", NAME, CONTENT)
    DAMAGES[damage](file_of(kept))
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert kept.get("kernels", NAME) is None
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after == before, "a file stays open"
    assert "is not used" in capsys.readouterr().err
    assert kept.put("kernels", NAME, CONTENT)
    assert kept.get("kernels", NAME) == CONTENT


def test_a_renamed_entry_is_refused(kept: Store) -> None:
    other = name_of("another name")
    kept.put("kernels", NAME, CONTENT)
    shutil.copy(file_of(kept), file_of(kept, name=other))
    assert kept.get("kernels", other) is None
    (kept.folder / "modules").mkdir()
    shutil.copy(file_of(kept), file_of(kept, "modules"))
    assert kept.get("modules", NAME) is None


def test_an_entry_of_someone_else_is_refused(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.put("kernels", NAME, CONTENT)
    real = os.fstat

    def of_another(number: int) -> os.stat_result:
        values = list(real(number))
        values[4] = os.geteuid() + 1
        return os.stat_result(values)

    monkeypatch.setattr(os, "fstat", of_another)
    assert kept.get("kernels", NAME) is None


# -- folders that cannot be used -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "function"),
    [
        (errno.ENOSPC, "write"),
        (errno.EDQUOT, "write"),
        (errno.EIO, "replace"),
        (errno.EROFS, "mkstemp"),
        (errno.EACCES, "mkdir"),
    ],
)
def test_a_failing_disk_is_no_error(
    kept: Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    function: str,
) -> None:
    def failing(*arguments: Any, **options: Any) -> Any:
        raise OSError(number, os.strerror(number))

    def open_full(*arguments: Any, **options: Any) -> Any:
        file = builtins.open(*arguments, **options)  # noqa: SIM115 - the user closes it
        file.write(b"a part")  # as much as there was room for
        return _Full(file, number)

    with monkeypatch.context() as patch:
        if function == "write":
            patch.setattr(module, "open", open_full, raising=False)
        else:
            owner = {"replace": os, "mkstemp": tempfile, "mkdir": Path}[function]
            patch.setattr(owner, function, failing)
        assert not kept.put("kernels", NAME, CONTENT)
        assert not kept.put("kernels", NAME, CONTENT)
    said = capsys.readouterr().err
    assert said.count("\n") == 1, "it is said once"
    assert os.strerror(number) in said
    assert list(kept.entries()) == [], "a part of a file is left"
    assert kept.put("kernels", NAME, CONTENT)
    assert kept.get("kernels", NAME) == CONTENT


class _Full:
    """A file on a disk that is full."""

    def __init__(self, file: Any, number: int) -> None:
        self.file = file
        self.number = number

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def write(self, data: bytes) -> None:
        raise OSError(self.number, os.strerror(self.number))


def test_an_interrupt_leaves_nothing(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kept.put("kernels", NAME, CONTENT)
    assert list(kept.entries()) == []


def test_a_file_where_the_folder_should_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with settings.override(cache=True, cache_dir=str(file)):
        assert store() is None
    with settings.override(cache=True, cache_dir=str(file / "below")):
        assert store() is None
    assert not Store(file, MEGABYTE).put("kernels", NAME, CONTENT)
    assert file.read_text() == "mine"
    assert "is no folder" in capsys.readouterr().err


def test_a_folder_that_others_can_write_to_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with settings.override(cache=True, cache_dir=str(tmp_path)):
        assert store() is not None
        for mode in (0o777, 0o770, 0o1777):
            tmp_path.chmod(mode)
            assert store() is None
            assert not Store(tmp_path, MEGABYTE).put("kernels", NAME, CONTENT)
    assert f"others can write to {tmp_path}" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder that takes no files")
def test_a_home_that_is_read_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/proc")
    with settings.override(cache=True):
        kept = store()
        assert kept is not None
        assert kept.get("kernels", NAME) is None
        assert not kept.put("kernels", NAME, CONTENT)
    assert "nothing is kept in /proc/.cache/porism" in capsys.readouterr().err


def test_a_home_that_is_not_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with settings.override(cache=True):
        assert cache_folder() is None
        assert store() is None
    assert "the home folder of the user is not known" in capsys.readouterr().err


def test_nothing_is_logged_without_debug(capsys: pytest.CaptureFixture[str]) -> None:
    with settings.override(debug=0, cache=True, cache_dir="/dev/null"):
        assert store() is None
    assert capsys.readouterr().err == ""


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_the_folder_of_the_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache/porism"
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/porism")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == tmp_path / ".cache/porism"
    with settings.override(cache_dir="~/kernels"):
        assert cache_folder() == tmp_path / "kernels"
    with settings.override(cache_dir="default"):
        assert cache_folder() == tmp_path / ".cache/porism"


@pytest.mark.parametrize("text", ["relative", "./x", "~other/x", "/a\0b"])
def test_other_texts_are_no_folder(text: str) -> None:
    with pytest.raises(SettingsError, match="allowed is the full path of a folder"):
        settings.override(cache_dir=text).__enter__()


def test_the_store_can_be_turned_off(tmp_path: Path) -> None:
    with settings.override(cache=False, cache_dir=str(tmp_path)):
        assert store() is None
    with settings.override(cache=True, cache_dir=str(tmp_path), cache_mb=3):
        actual = store()
        assert actual is not None
        assert (actual.folder, actual.limit) == (tmp_path, 3 * MEGABYTE)
        assert store() is actual


# -- the limit -------------------------------------------------------------------------------------


def test_least_recently_used_entries_are_removed_first(kept: Store) -> None:
    names = [name_of(str(k)) for k in range(12)]
    now = time.time()
    for k, name in enumerate(names[:10]):
        assert kept.put("modules", name, bytes(100_000))
        os.utime(file_of(kept, "modules", name), (now - 1000 + k, now - 1000 + k))
    assert kept.get("modules", names[0]) is not None, "from now on it is the one used last"
    assert kept.put("modules", names[10], bytes(100_000))
    left = {entry.path.name for entry in kept.entries()}
    assert sum(entry.bytes for entry in kept.entries()) <= kept.limit
    assert {names[0], names[10]} <= left
    gone = [name for name in names[:11] if name not in left]
    assert gone == names[1 : 1 + len(gone)]
    assert gone


def test_the_limit_holds_for_what_earlier_processes_left(kept: Store) -> None:
    for k in range(10):
        kept.put("modules", name_of(str(k)), bytes(100_000))
    smaller = Store(kept.folder, 300_000)
    assert smaller.put("kernels", NAME, CONTENT)
    assert sum(entry.bytes for entry in smaller.entries()) <= smaller.limit
    assert smaller.get("kernels", NAME) == CONTENT


def test_an_entry_larger_than_the_limit_is_not_written(kept: Store) -> None:
    kept.put("kernels", NAME, CONTENT)
    assert not kept.put("modules", NAME, bytes(kept.limit))
    assert kept.get("kernels", NAME) == CONTENT


def test_abandoned_temporary_files_are_removed(kept: Store) -> None:
    kept.put("kernels", NAME, CONTENT)
    old, young = (kept.folder / "kernels" / f".new-{word}" for word in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"a part")
    hours_ago = time.time() - 2 * module.ABANDONED_SECONDS
    os.utime(old, (hours_ago, hours_ago))
    kept.trim()
    assert not old.exists()
    assert young.exists()
    assert kept.get("kernels", NAME) == CONTENT


def test_clear_removes_only_entries(kept: Store) -> None:
    for kind in ("kernels", "modules"):
        kept.put(kind, NAME, CONTENT)
    (kept.folder / "kernels" / ".new-part").write_bytes(b"a part")
    mine = [kept.folder / "mine.txt", kept.folder / "kernels" / "notes.txt"]
    for path in mine:
        path.write_text("keep me")
    assert len(kept.clear()) == 3
    assert list(kept.entries()) == []
    assert all(path.read_text() == "keep me" for path in mine)
    for path in mine:
        path.unlink()
    kept.clear()
    assert not kept.folder.exists()
    assert kept.put("kernels", NAME, CONTENT), "the folder is made again"


# -- several at once -------------------------------------------------------------------------------

WRITER = """
import random, sys
from pathlib import Path
from porism.base.file_store import Store, name_of

kept = Store(Path(sys.argv[1]), 200_000)
random.seed(int(sys.argv[2]))
found = 0
for _ in range(400):
    number = random.randrange(8)
    if random.random() < 0.5:
        # no assert: another may clear the folder at this moment
        kept.put("modules", name_of(str(number)), bytes([number]) * random.randrange(60_000))
    content = kept.peek("modules", name_of(str(number)))
    assert content is None or content == bytes([number]) * len(content)
    found += content is not None
    if random.random() < 0.02:
        kept.trim()
    if random.random() < 0.005:
        kept.clear()
print(found)
"""


def test_processes_that_write_and_remove_the_same_entries(kept: Store) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(kept.folder), str(seed)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for seed in range(4)
    ]  # fmt: skip
    for worker in workers:
        said, errors = worker.communicate(timeout=PATIENCE)
        assert worker.returncode == 0, errors
        assert int(said) > 50
    damaged = [e for e in kept.entries() if kept.peek(e.kind, e.path.name) is None]
    assert damaged == []


def test_threads_that_write_the_same_entry(kept: Store) -> None:
    faults: list[str] = []

    def work(number: int) -> None:
        for k in range(50):
            if not kept.put("kernels", NAME, bytes([number]) * (k + 1)):
                faults.append("not kept")
            content = kept.get("kernels", NAME)
            if not content or len(set(content)) != 1:
                faults.append(f"found {content!r}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
