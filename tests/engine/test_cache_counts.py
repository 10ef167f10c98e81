"""Hits and misses of all processes are counted, at no cost and with no harm."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from porism import cli
from porism.base.settings import settings
from porism.engine.cache import cache_counts
from porism.engine.cache.cache_counts import FILE_NAME, Counts
from tests.patience import PATIENCE

PROGRAM = """
import os, sys
import numpy as np
import porism
from porism.base import source_digest
source_digest.digest = lambda: "the sources of this test"
x = porism.asarray(np.ones(int(sys.argv[1]), np.float32))
(x + 1).realize()
if len(sys.argv) > 2:
    os._exit(0)
"""


def run(folder: Path, *arguments: str) -> None:
    environment = {**os.environ, "PORISM_CACHE": "1", "PORISM_CACHE_DIR": str(folder)}
    subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], check=True, env=environment, timeout=PATIENCE
    )


@pytest.mark.slow
def test_processes_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "cache"
    for size in ("100", "100", "200"):
        run(folder, size)
    run(folder, "100", "killed")
    counts = Counts(kernel_hits=1, kernel_misses=2, schedule_hits=1, schedule_misses=2)
    assert cache_counts.total_counts(folder) == counts
    with settings.override(cache_dir=str(folder)):
        assert cli.main(["cache", "info"]) == 0
        assert f"{'lookups':<28}1 kernels found and 2 compiled, " in capsys.readouterr().out
        assert cli.main(["cache", "clear"]) == 0
    assert not folder.exists()


def test_this_process_counts_before_it_ends(tmp_path: Path) -> None:
    cache_counts.process_counts(tmp_path).kernel_hits += 3
    assert cache_counts.total_counts(tmp_path).kernel_hits == 3
    cache_counts.flush()
    assert (tmp_path / FILE_NAME).read_text() == "3 0 0 0\n"
    assert cache_counts.total_counts(tmp_path).kernel_hits == 3
    cache_counts.flush()
    assert (tmp_path / FILE_NAME).read_text() == "3 0 0 0\n"
    cache_counts.process_counts(tmp_path).schedule_misses += 1
    cache_counts.reset(tmp_path)
    assert cache_counts.total_counts(tmp_path) == Counts()


def test_damaged_lines_count_as_nothing(tmp_path: Path) -> None:
    lines = b"1 2 3 4\n\xff\xfe\n1 2\n-1 2 3 4\n" + b"9" * 40 + b" 1 1 1\n5 6 7 8"
    (tmp_path / FILE_NAME).write_bytes(lines)
    assert cache_counts.total_counts(tmp_path) == Counts(6, 8, 10, 12)


def test_something_else_in_its_place(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    cache_counts.process_counts(tmp_path).kernel_hits += 1
    cache_counts.flush()
    assert cache_counts.total_counts(tmp_path) == Counts()
    link = tmp_path / "linked"
    link.mkdir()
    target = tmp_path / "target"
    target.write_text("7 7 7 7\n")
    (link / FILE_NAME).symlink_to(target)
    cache_counts.process_counts(link).kernel_hits += 1
    cache_counts.flush()
    assert target.read_text() == "7 7 7 7\n"


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    cache_counts.process_counts(tmp_path / "none").kernel_hits += 1
    cache_counts.flush()
    assert not (tmp_path / "none").exists()


def test_a_long_file_is_summed_up(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("1 2 3 4\n" * (cache_counts.MAX_FILE_BYTES // 8))
    many = cache_counts.MAX_FILE_BYTES // 8
    cache_counts.process_counts(tmp_path).kernel_misses += 5
    cache_counts.flush()
    assert (tmp_path / FILE_NAME).read_text() == f"{many} {2 * many + 5} {3 * many} {4 * many}\n"
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_does_not_count_twice(tmp_path: Path) -> None:
    cache_counts.process_counts(tmp_path).kernel_hits += 2
    child = multiprocessing.get_context("fork").Process(target=cache_counts.flush)
    child.start()
    child.join(PATIENCE)
    assert child.exitcode == 0
    cache_counts.flush()
    assert (tmp_path / FILE_NAME).read_text() == "2 0 0 0\n"
