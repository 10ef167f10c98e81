"""Kernels of an earlier process are used again, and only where they are what would be compiled."""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import porism
from porism import cli, pipeline
from porism.backends.backend_table import BACKENDS, Backend, ObjectCode
from porism.backends.kernel_function import KernelFunction
from porism.backends.llvm.llvm_compiler import object_code
from porism.backends.llvm.object_linking import compile_and_link
from porism.base import source_digest
from porism.base.file_store import Store
from porism.base.settings import settings
from porism.base.target import GENERIC_CPU, StorageModel, Target
from porism.engine.cache import kernel_cache, schedule_cache
from porism.engine.run import realize
from porism.engine.run.realize import request
from porism.ir.node import UOp
from porism.pipeline import lower_kernel, schedule_graph
from porism.schedule.schedule import Schedule
from tests.backends.running import NATIVE, call, works
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
LLVM = BACKENDS["llvm"]
SIZE = 24


class Lowered:
    """How often a kernel was lowered, and what as."""

    def __init__(self) -> None:
        self.kernels: list[UOp] = []

    def __call__(self, kernel: UOp, target: Any) -> Any:
        self.kernels.append(kernel)
        return lower_kernel(kernel, target)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache for this test alone; the sources count as unchanged, even if someone edits them."""
    monkeypatch.setattr(source_digest, "digest", lambda: "the sources of this test")
    forget()
    with settings.override(cache=True, cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"
    forget()


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> Lowered:
    found = Lowered()
    monkeypatch.setattr(pipeline, "lower_kernel", found)
    return found


def forget() -> None:
    """What a new process does not have."""
    kernel_cache._modules.clear()


def schedule(number: int) -> Schedule:
    x = porism.asarray(np.zeros((4, 6), np.int32))
    return schedule_graph(request([((x * (number + 2)).sum(1) * 3 - number).node]).graph)


def kernels(*numbers: int) -> list[UOp]:
    return [schedule(number).steps[0].kernel for number in numbers]


def check(function: KernelFunction, number: int) -> None:
    """The function computes what the kernel of this number says."""
    data = np.arange(SIZE, dtype=np.int32)
    result = np.full(4, -1, np.int64)
    call(function, [result, data])
    expected = (data.reshape(4, 6) * (number + 2)).sum(1) * 3 - number
    assert result.tolist() == expected.tolist()


def compiled(*numbers: int, backend: Backend = LLVM) -> None:
    """As a new process compiles: all is right."""
    forget()
    wanted = kernels(*numbers)
    found = kernel_cache.load_or_compile(wanted, backend)
    for kernel, number in zip(wanted, numbers, strict=True):
        check(found[kernel], number)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*/*") if path.is_file())


@pytest.mark.parametrize("backend", NATIVE)
def test_a_kernel_is_lowered_once(lowered: Lowered, backend: Backend) -> None:
    compiled(1, 2, 3, backend=backend)
    assert lowered.kernels == kernels(1, 2, 3)
    compiled(1, 2, 3, backend=backend)
    compiled(2, backend=backend)
    assert len(lowered.kernels) == 3


@pytest.mark.skipif(not works("c"), reason="no compiler")
def test_backends_do_not_share_code(lowered: Lowered) -> None:
    for name in ("llvm", "c", "llvm", "c"):
        compiled(1, backend=BACKENDS[name])
    assert len(lowered.kernels) == 2


def test_code_that_cannot_be_linked_is_compiled_again(lowered: Lowered, folder: Path) -> None:
    compiled(1)
    assert LLVM.objects is not None
    calls, plain = [], LLVM.objects.link

    def compile_and_link(code: bytes, names: Any) -> Any:
        calls.append(names)
        if len(calls) == 1:
            raise RuntimeError("this object file is no good")
        return plain(code, names)

    objects = dataclasses.replace(LLVM.objects, link=compile_and_link)
    compiled(1, backend=dataclasses.replace(LLVM, objects=objects))
    assert (len(lowered.kernels), len(calls)) == (2, 2)


def test_kernels_are_shared_by_programs(lowered: Lowered) -> None:
    compiled(1, 2)
    compiled(2, 3)
    compiled(3, 4, 1)
    assert lowered.kernels == kernels(1, 2, 3, 4)
    compiled(1, 2, 3, 4)
    assert len(lowered.kernels) == 4


def test_one_module_is_read_and_linked_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(1, 2, 3)
    forget()
    assert LLVM.objects is not None
    plain, linked = LLVM.objects.link, []

    def compile_and_link(code: bytes, names: Any) -> Any:
        linked.append(names)
        return plain(code, names)

    objects = dataclasses.replace(LLVM.objects, link=compile_and_link)
    backend = dataclasses.replace(LLVM, objects=objects)
    for number in (2, 1, 3):
        (kernel,) = kernels(number)
        check(kernel_cache.load_or_compile([kernel], backend)[kernel], number)
    assert len(linked) == 1
    assert [path.parent.name for path in files(folder)] == ["kernels"] * 3 + ["modules"]


def test_a_symbolic_size_comes_back() -> None:
    x = porism.asarray(np.zeros(64, np.float32))
    kernel = schedule_graph(request([(x + 1).node]).graph).steps[0].kernel
    n = UOp.variable("n", 1, 64)
    with_sizes = KernelFunction(0, (1, 0), ("n",), n * 2 + 1, None)
    kept = Store(Path(settings.cache_dir), 1 << 20)
    kernel_cache._store_module(
        b"code", {kernel.key.hex() + 8 * "0": ("kernel0", with_sizes)}, kept, '["a", "b"]'
    )
    forget()
    objects = ObjectCode(
        lambda: "", lambda named, amount: b"", lambda code, names: ({"kernel0": 7}, code)
    )
    backend = dataclasses.replace(LLVM, objects=objects)
    entry = kept.get("kernels", kernel.key.hex() + 8 * "0")
    assert entry is not None
    module = kernel_cache._load_module(entry, kept, backend)
    assert module is not None
    (found,) = module.functions.values()
    assert found == KernelFunction(7, (1, 0), ("n",), n * 2 + 1, b"code")
    assert found.parallel is n * 2 + 1


# -- what the code depends on ----------------------------------------------------------------------


def test_other_sources_are_another_entry(lowered: Lowered, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(1)
    monkeypatch.setattr(source_digest, "digest", lambda: "other sources")
    compiled(1)
    compiled(1)
    assert len(lowered.kernels) == 2


def test_while_the_sources_are_edited_nothing_is_kept(
    lowered: Lowered, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(source_digest, "digest", lambda: None)
    compiled(1)
    compiled(1)
    assert len(lowered.kernels) == 2
    assert not folder.exists()


def test_another_compiler_is_another_entry(lowered: Lowered) -> None:
    compiled(1)
    assert LLVM.objects is not None
    objects = dataclasses.replace(LLVM.objects, version=lambda: "LLVM 1, for another machine")
    compiled(1, backend=dataclasses.replace(LLVM, objects=objects))
    assert len(lowered.kernels) == 2


def test_another_target_is_another_entry(lowered: Lowered) -> None:
    compiled(1)
    target = dataclasses.replace(LLVM.target(), vector_bits=(128,), cores=1)
    compiled(1, backend=dataclasses.replace(LLVM, target=lambda: target))
    assert len(lowered.kernels) == 2


def test_another_setting_is_another_entry(lowered: Lowered) -> None:
    compiled(1)
    for name in kernel_cache.IRRELEVANT_SETTINGS - {
        "backend",
        "cache",
        "cache_dir",
        "device",
        "trace",
    }:
        with settings.override(**{name: 3 if name == "debug" else 1}):
            compiled(1)
    assert len(lowered.kernels) == 1
    with settings.override(kernel_nodes=599):
        compiled(1)
    assert len(lowered.kernels) == 2
    with settings.override(check=False):  # without checks is not good enough for one with checks
        compiled(1)
    assert len(lowered.kernels) == 3


@pytest.mark.slow
def test_a_target_is_the_same_text_in_every_process() -> None:
    code = "from porism.backends.backend_table import BACKENDS; "
    code += "from porism.engine.cache import kernel_cache; "
    code += "print(kernel_cache.target_text(BACKENDS['llvm'].target()))"
    told = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            timeout=PATIENCE,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert told == {kernel_cache.target_text(LLVM.target()) + "\n"}


def test_without_the_cache_nothing_is_written(lowered: Lowered, folder: Path) -> None:
    with settings.override(cache=False):
        compiled(1)
        compiled(1)
    assert len(lowered.kernels) == 2
    assert not folder.exists()


# -- damage ----------------------------------------------------------------------------------------


def test_200_flipped_bits_never_reach_the_linker(lowered: Lowered, folder: Path) -> None:
    compiled(1, 2)
    kept = Store(folder, 1 << 20)
    places = random.Random(3)
    paths = files(folder)
    for _ in range(200):
        path = places.choice(paths)
        sound = path.read_bytes()
        damaged = bytearray(sound)
        damaged[places.randrange(len(sound))] ^= 1 << places.randrange(8)
        path.write_bytes(damaged)
        assert kept.get(path.parent.name, path.name) is None
        path.write_bytes(sound)
    compiled(1, 2)
    assert len(lowered.kernels) == 2


@pytest.mark.parametrize("kind", ["kernels", "modules"])
@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "gone", "folder", "other"])
def test_a_damaged_entry_is_compiled_again_and_rewritten(
    lowered: Lowered, folder: Path, kind: str, damage: str
) -> None:
    compiled(1)
    (path,) = (folder / kind).iterdir()
    sound = path.read_bytes()
    if damage == "cut":
        path.write_bytes(sound[: len(sound) // 2])
    elif damage == "flip":
        path.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "gone":
        path.unlink()
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        shutil.copy("/bin/true" if os.path.exists("/bin/true") else sys.executable, path)
    compiled(1)
    assert len(lowered.kernels) == 2
    assert path.read_bytes() == sound
    compiled(1)
    assert len(lowered.kernels) == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b"{}", b'{"module": 1}', b'{"module": []}', b'{"module": "../x"}'],
)
def test_an_entry_of_another_form_is_not_used(
    lowered: Lowered, folder: Path, content: bytes
) -> None:
    compiled(1)
    kept = Store(folder, 1 << 20)
    (path,) = (folder / "kernels").iterdir()
    kept.put("kernels", path.name, content)  # with the right digest
    compiled(1)
    assert len(lowered.kernels) == 2


@pytest.mark.parametrize(
    "head",
    [b"", b"[]", b'{"functions": 3}', b'{"functions": [{"kernel": "x"}]}', b"\xff\xfe"],
)
def test_a_module_of_another_form_is_not_used(lowered: Lowered, folder: Path, head: bytes) -> None:
    compiled(1)
    kept = Store(folder, 1 << 20)
    (path,) = (folder / "modules").iterdir()
    kept.put("modules", path.name, head + b"\n")
    compiled(1)
    assert len(lowered.kernels) == 2


def test_code_of_our_own_is_kept_as_well(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(text: str) -> bytes:
        made.append(text)
        return object_code(text)

    monkeypatch.setattr("porism.backends.llvm.object_linking.object_code", counted)
    text = "define i64 @seven() { ret i64 7 }"
    for damage in (False, False, True, False):
        if damage:
            (path,) = (folder / "objects").iterdir()
            path.write_bytes(path.read_bytes()[:-1])
        code = compile_and_link(text, ["seven"])
        assert ctypes.CFUNCTYPE(ctypes.c_int64)(code.addresses["seven"])() == 7
    assert made == [text, text]
    with settings.override(cache=False):
        compile_and_link(text, ["seven"])
    assert len(made) == 3


# -- schedules -------------------------------------------------------------------------------------


def test_a_schedule_is_the_same_after_reading() -> None:
    x = porism.asarray(np.zeros((8, 12), np.float32))
    graphs = [(x @ x.T).softmax(1) + 1, x.sum(0).cumsum(0), (x > 0).any(1)]
    for tensor in graphs:
        made = schedule_graph(request([tensor.node]).graph)
        text = schedule_cache.serialize(made)
        assert schedule_cache.deserialize(text) == made
        assert all(
            a.kernel is b.kernel
            for a, b in zip(schedule_cache.deserialize(text).steps, made.steps, strict=True)
        )


@pytest.mark.parametrize("damage", ["none", "bits", "form"])
def test_a_schedule_is_made_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    graph = request([porism.asarray(np.zeros(5, np.float32)).exp().node]).graph
    made = []

    def counted(graph: UOp, target: Target, replaced: Any = ()) -> Schedule:
        made.append(graph)
        return schedule_graph(graph, target=target)

    monkeypatch.setattr(pipeline, "schedule_graph", counted)
    first = schedule_cache.load_or_schedule(graph, GENERIC_CPU)
    (path,) = (folder / "schedules").iterdir()
    sound = path.read_bytes()
    if damage == "bits":
        path.write_bytes(sound[:-1] + b"?")
    elif damage == "form":
        Store(folder, 1 << 20).put("schedules", path.name, b'{"kernels": ["%0 = WHAT"]}')
    assert schedule_cache.load_or_schedule(graph, GENERIC_CPU) == first
    assert len(made) == (1 if damage == "none" else 2)
    assert path.read_bytes() == sound


def test_schedules_are_kept_by_target(folder: Path) -> None:
    x = porism.asarray(np.zeros((50, 60), np.float32)).realize()
    graph = request([porism.softmax(x).node]).graph
    free = dataclasses.replace(
        GENERIC_CPU, storage=StorageModel(store_global=0.0, load_global=0.0, local_bytes=0)
    )
    counts = [len(schedule_cache.load_or_schedule(graph, t).steps) for t in (GENERIC_CPU, free)]
    assert counts[0] == 1 < counts[1], "where memory costs nothing, the exponentials are stored"
    assert len(list((folder / "schedules").iterdir())) == 2


def test_the_engine_schedules_for_the_target_of_its_backend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = BACKENDS["llvm"]
    free = dataclasses.replace(
        backend.target(), storage=StorageModel(store_global=0.0, load_global=0.0, local_bytes=0)
    )
    x = porism.asarray(np.zeros((51, 60), np.float32)).realize()
    graph = request([porism.softmax(x).node]).graph
    with monkeypatch.context() as patch:
        patch.setattr(realize, "_schedules", {})
        patch.setattr(
            realize, "backend_of", lambda _: dataclasses.replace(backend, target=lambda: free)
        )
        assert len(realize.schedule_of(graph).steps) > 1
    with settings.override(backend="llvm"):
        assert len(realize.schedule_of(graph).steps) == 1


# -- disks and processes ---------------------------------------------------------------------------


def test_a_full_disk(lowered: Lowered, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def full(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkstemp", full)
        compiled(1)
        assert files(folder) == []
    compiled(1)
    compiled(1)
    assert len(lowered.kernels) == 2


def test_a_disk_that_fills_up_between_two_files(
    lowered: Lowered, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    plain, left = os.replace, [1]

    def fills(*arguments: Any) -> None:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= 1
        plain(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fills)
        compiled(1, 2)
    assert [path.parent.name for path in files(folder)] == ["modules"]
    compiled(1, 2)
    compiled(1, 2)
    assert len(lowered.kernels) == 4


def test_a_folder_that_cannot_be_made(lowered: Lowered, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for path in (file, file / "below", Path("/proc/porism")):
        with settings.override(cache_dir=str(path)):
            compiled(1)
    assert len(lowered.kernels) == 3
    assert file.read_text() == "mine"


def test_the_limit_is_kept(lowered: Lowered, folder: Path) -> None:
    with settings.override(cache_mb=1):
        for number in range(3):
            compiled(number)
        kept = Store(folder, 20_000)
        kept.trim()
        assert sum(entry.bytes for entry in kept.entries()) <= 20_000
        compiled(0, 1, 2)
    assert 3 < len(lowered.kernels) <= 6


def worker(folder: Path, first: int, last: int, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engine.cache_worker", str(first), str(last)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={
            **os.environ,
            "PORISM_CACHE": "1",
            "PORISM_CACHE_DIR": str(folder),
            "PORISM_VERIFY": "0",
            **environment,
        },  # which schedules and compiles more
    )


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    found: dict[str, Any] = json.loads(said)
    return {**found, "errors": errors}


@pytest.mark.slow
def test_a_new_process_neither_schedules_nor_compiles(folder: Path) -> None:
    first = told(worker(folder, 0, 3))
    assert (first["right"], first["found"], first["compiled"]) == (True, 0, 3)
    assert first["scheduled"] == 3
    second = told(worker(folder, 0, 3, PYTHONHASHSEED="5"))
    assert (second["right"], second["found"], second["compiled"]) == (True, 3, 0)
    assert second["scheduled"] == 0


@pytest.mark.slow
def test_processes_at_the_same_time(folder: Path) -> None:
    for process in [worker(folder, start, start + 4) for start in (0, 0, 2, 2)]:
        assert told(process)["right"]
    after = told(worker(folder, 0, 6))
    assert (after["right"], after["found"], after["compiled"]) == (True, 6, 0)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder that takes no files")
def test_a_home_that_is_read_only() -> None:
    plain = {"PORISM_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": "/proc"}
    quiet = told(worker(Path("/"), 0, 1, **plain))
    assert (quiet["right"], quiet["compiled"], quiet["errors"]) == (True, 1, "")
    loud = told(worker(Path("/"), 0, 1, **plain, PORISM_DEBUG="1"))
    assert "nothing is kept in /proc/.cache/porism" in loud["errors"]


@pytest.mark.slow
def test_ten_killed_processes() -> None:
    """`./dev fuzz cache --kills 200` is the long run."""
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.cache", "--kills", "10", "--minutes", "10"],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the next run was always right" in done.stdout


# -- the command -----------------------------------------------------------------------------------


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cache", "info"]) == 0
    empty = capsys.readouterr().out
    assert f"{'folder':<28}{folder}\n" in empty
    assert "0 kernels, 0 modules" in empty
    compiled(1, 2)
    assert cli.main(["cache", "info"]) == 0
    full = capsys.readouterr().out
    assert "2 kernels, 1 modules" in full
    assert "of 512 MB at most" in full
    assert f"{'this version':<28}sources the sour, LLVM" in full
    assert f"{'modules of this version':<28}1\n" in full
    assert cli.main(["cache", "clear"]) == 0
    assert "removed 3 entries" in capsys.readouterr().out
    assert not folder.exists()


def test_the_command_tells_why_the_cache_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o777)
    with settings.override(cache_dir=str(tmp_path)):
        cli.main(["cache", "info"])
    assert f"not used: others can write to {tmp_path}" in capsys.readouterr().out
    with settings.override(cache=False):
        cli.main(["cache", "info"])
    assert "off, by PORISM_CACHE" in capsys.readouterr().out


def test_the_command_says_when_something_is_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled(1)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    assert cli.main(["cache", "clear"]) == cli.USER_ERROR
    assert "2 of 2 entries are still there" in capsys.readouterr().err


def test_the_command_counts_damaged_modules(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled(1)
    (path,) = (folder / "modules").iterdir()
    path.write_bytes(b"")
    cli.main(["cache", "info"])
    assert f"{'modules of another version':<28}1, damaged" in capsys.readouterr().out
