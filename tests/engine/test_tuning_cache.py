"""The tuning cache: what was found is used where it was measured, and nowhere else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import porism
from porism import cli
from porism.backends.backend_table import BACKENDS
from porism.base import source_digest
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.engine.cache import kernel_cache
from porism.engine.run import program
from porism.engine.tune import tune_command, tuning_cache
from porism.engine.tune.tuning_cache import ImportCounts
from porism.ir.node import UOp
from porism.optimize.actions.action import Actions
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.upcast_unroll import Upcast

LLVM = BACKENDS["llvm"]
ACTIONS: Actions = (Upcast("r1", 12), Thread("r0"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(source_digest, "digest", lambda: "the sources of this test")
    new_process()
    with settings.override(cache=True, cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"
    new_process()


def new_process() -> None:
    """What a new process does not have."""
    tuning_cache.forget_in_memory()
    kernel_cache._modules.clear()
    program._functions.clear()


def product(rows: int = 6, columns: int = 24) -> UOp:
    a, b = (porism.asarray(np.ones(s, np.float32)) for s in ((rows, 16), (16, columns)))
    (kernel,) = porism.kernels(a @ b)
    node: UOp = kernel.node
    return node


def known(kernel: UOp) -> Actions | None:
    return tuning_cache.known_actions([kernel], LLVM).get(kernel)


def keep(kernel: UOp, after: float = 0.5, actions: Actions = ACTIONS) -> None:
    tuning_cache.record(kernel, LLVM, actions, 1.0, after)


# -- using it --------------------------------------------------------------------------------------


def test_entries_are_known_in_this_and_later_processes() -> None:
    assert known(product()) is None
    keep(product())
    assert known(product()) == ACTIONS
    new_process()
    assert known(product()) == ACTIONS
    assert known(product(8)) is None


def test_without_a_cache_it_is_known_in_this_process() -> None:
    with settings.override(cache=False):
        keep(product())
        assert known(product()) == ACTIONS
        new_process()
        assert known(product()) is None


def test_kernels_are_compiled_with_their_tuned_actions() -> None:
    a, b = (porism.asarray(np.full(s, 2, np.float32)) for s in ((6, 16), (16, 24)))
    (kernel,) = porism.kernels(a @ b)
    plain = kernel.scheduled
    heuristics = program.compile_kernels([kernel.node])
    assert "for r1_1 < 12:  # upcast" not in plain
    keep(kernel.node)
    assert "for r1_1 < 12:  # upcast" in kernel.scheduled
    assert kernel.actions == ACTIONS
    assert program.compile_kernels([kernel.node]) != heuristics
    assert (a @ b).numpy().tolist() == [[64.0] * 24] * 6


def test_compiled_kernels_are_keyed_by_their_actions() -> None:
    names = []
    for actions in (None, ACTIONS, ACTIONS[:1]):
        new_process()
        before = kernel_cache.counts.compiled
        if actions is not None:
            keep(product(), actions=actions)
        program.compile_kernels([product()])
        names.append(kernel_cache.counts.compiled - before)
    assert names == [1, 1, 1]
    new_process()
    before = kernel_cache.counts.compiled
    program.compile_kernels([product()])
    assert kernel_cache.counts.compiled == before  # on disk, with the actions of the last


def test_actions_that_do_not_fit_are_not_used() -> None:
    keep(product(), actions=(Upcast("r7", 5),))
    (kernel,) = porism.kernels(porism.ones(6, 16).realize() @ porism.ones(16, 24).realize())
    assert kernel.scheduled
    keep(kernel.node, actions=(Upcast("r7", 5),))
    assert "r7" not in kernel.scheduled
    (function,) = program.compile_kernels([kernel.node])
    assert function.address


@pytest.mark.parametrize(
    "changed",
    ["sources", "threads", "settings", "machine"],
)
def test_entries_of_another_environment_are_not_used(
    changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(product())
    new_process()
    if changed == "sources":
        monkeypatch.setattr(source_digest, "digest", lambda: "other sources")
    if changed == "machine":
        monkeypatch.setattr(kernel_cache, "target_text", lambda target: "another machine")
    values = {"threads": {"threads": 7}, "settings": {"kernel_nodes": 77}}.get(changed, {})
    with settings.override(**values):
        assert known(product()) is None


def test_if_the_sources_were_edited_nothing_is_read_or_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keep(product())
    new_process()
    monkeypatch.setattr(source_digest, "digest", lambda: None)
    assert known(product()) is None
    keep(product(8))
    new_process()
    monkeypatch.setattr(source_digest, "digest", lambda: "the sources of this test")
    assert known(product(8)) is None


def test_a_damaged_entry_counts_as_missing(folder: Path) -> None:
    keep(product())
    (path,) = (folder / "tuning" / "tuned").iterdir()
    content = path.read_bytes()
    for wrong in (b"", content[:-1], content.replace(b"Upcast", b"Unroll"), content + b" "):
        path.write_bytes(wrong)
        new_process()
        assert known(product()) is None


def test_an_entry_under_the_name_of_another_is_not_used(folder: Path) -> None:
    keep(product())
    (path,) = (folder / "tuning" / "tuned").iterdir()
    keep(product(8))
    (other,) = [p for p in (folder / "tuning" / "tuned").iterdir() if p != path]
    other.write_bytes(path.read_bytes())
    new_process()
    assert known(product(8)) is None


def test_without_tuned_kernels_the_disk_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(tuning_cache, "_tuning_environment", fail)
    assert tuning_cache.known_actions([product()], LLVM) == {}


# -- exporting and importing -----------------------------------------------------------------------


def exported(path: Path) -> list[str]:
    assert tuning_cache.export_file(path) > 0
    return path.read_text().splitlines()


def test_it_can_be_exported_and_imported(tmp_path: Path) -> None:
    keep(product())
    keep(product(8), 0.25)
    lines = exported(tmp_path / "file")
    assert lines[0] == "porism tuning 1"
    assert tuning_cache.clear() == 2
    assert known(product()) is None
    assert tuning_cache.import_file(tmp_path / "file") == ImportCounts(taken=2)
    assert known(product()) == ACTIONS
    assert exported(tmp_path / "again") == lines


def test_of_two_entries_the_faster_one_is_kept(tmp_path: Path) -> None:
    faster: Actions = (Upcast("r1", 8),)
    keep(product(), 0.3, faster)
    exported(tmp_path / "fast")
    keep(product(), 0.5)
    exported(tmp_path / "slow")
    assert tuning_cache.import_file(tmp_path / "slow") == ImportCounts(slower=1)
    assert tuning_cache.import_file(tmp_path / "fast") == ImportCounts(taken=1)
    assert tuning_cache.import_file(tmp_path / "slow") == ImportCounts(slower=1)
    new_process()
    assert known(product()) == faster


def test_lines_for_another_version_are_never_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(product())
    exported(tmp_path / "file")
    tuning_cache.clear()
    monkeypatch.setattr(source_digest, "digest", lambda: "other sources")
    assert tuning_cache.import_file(tmp_path / "file") == ImportCounts(taken=1)
    assert known(product()) is None
    assert "1, of which 0 for this machine" in tune_command.info()


CHANGES: dict[str, Any] = {
    "kernel": ["", "xyz", 3, "../../../../../../../../../../../../etc/passwd"],
    "for": ["", None, "a" * 100],
    "made by": [3, "\n", "x" * 300],
    "actions": [None, {}, [["Upcast", {"axis": "r0"}]], [["exec", {"code": "1"}]]],
    "before": [0.0, -1.0, math.nan, math.inf, "1", 1, True],
    "after": [0.0, -1.0, math.nan, math.inf, None, 2.0],
    "more": [1],
}


def test_every_line_is_checked(tmp_path: Path) -> None:
    keep(product())
    head, line = exported(tmp_path / "file")
    tuning_cache.clear()
    row = json.loads(line[33:])
    wrong = [
        json.dumps({**row, name: value}, sort_keys=True)
        for name, values in CHANGES.items()
        for value in values
    ]
    wrong += ["", "null", "[]", "[" * 60_000, "{" * 1000, '{"kernel":', "x" * 70_000]
    lines = [f"{tuning_cache._checksum(text)} {text}" for text in wrong]
    lines += ["", line[:-1], line.replace("Upcast", "Unroll"), "0" * 32 + line[32:], "\x00\x01"]
    (tmp_path / "file").write_text("\n".join([head, *lines]) + "\n")
    merged = tuning_cache.import_file(tmp_path / "file")
    assert merged.taken == merged.slower == 0
    assert merged.refused >= len(lines)
    assert tuning_cache.entries() == []


def test_a_sound_line_among_damaged_ones_is_taken(tmp_path: Path) -> None:
    keep(product())
    head, line = exported(tmp_path / "file")
    tuning_cache.clear()
    (tmp_path / "file").write_bytes(f"{head}\r\n\xff\n{line}\n{line[:50]}".encode("latin-1"))
    assert tuning_cache.import_file(tmp_path / "file") == ImportCounts(taken=1, refused=2)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\x7fELF" * 100)
    with pytest.raises(PorismError, match="this is no file of tunings"):
        tuning_cache.import_file(tmp_path / "file")
    with pytest.raises(PorismError, match="the file cannot be read"):
        tuning_cache.import_file(tmp_path / "nothing")
    with pytest.raises(PorismError, match="the file cannot be written"):
        tuning_cache.export_file(tmp_path / "nothing" / "file")
    with settings.override(cache=False), pytest.raises(PorismError, match="no tuning cache"):
        tuning_cache.import_file(tmp_path / "file")


# -- the command -----------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "file")
    keep(product())
    assert cli.main(["tune", "export", path]) == 0
    assert cli.main(["tune", "info"]) == 0
    assert cli.main(["tune", "import", path]) == 0
    assert cli.main(["tune", "clear"]) == 0
    assert cli.main(["tune", "import", path]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"wrote 1 tuned kernels to {path}"
    assert out[2] == "kernels  1, of which 1 for this machine, version and settings"
    assert out[3] == "faster   1 of these, 2.00 times in all"
    assert out[4:] == [
        "took 0 tuned kernels; 1 were not faster than those here, 0 lines were refused",
        "removed 1 tuned kernels",
        "took 1 tuned kernels; 0 were not faster than those here, 0 lines were refused",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "there is nothing to tune"),
        (["export"], "says too much or too little"),
        (["info", "more"], "says too much or too little"),
        (["missing.py"], "there is no such program"),
    ],
)
def test_mistakes(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tune", *words]) == cli.USER_ERROR
    assert message in capsys.readouterr().err
