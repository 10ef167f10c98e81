"""The digest of the sources changes with them, and there is none while they are being edited."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from porism.base import source_digest
from tests.patience import PATIENCE


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package that was not edited since this test began, but for its clock."""
    for name in ("pipeline.py", "rules/rule_sets.py", "tensor/tensor.py", "cli.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {name}\n")
    return tmp_path


def later() -> float:
    return time.time() + 60


@pytest.mark.parametrize("name", ["pipeline.py", "rules/rule_sets.py", "rules/added.py"])
def test_an_edit_is_seen(package: Path, name: str) -> None:
    before = source_digest.package_digest(package, later())
    assert before is not None
    assert before == source_digest.package_digest(package, later())
    file = package / name
    with file.open("a") as text:
        text.write("x = 1\n")
    os.utime(file, (1, 1))  # the time of the file is not what decides
    assert source_digest.package_digest(package, later()) != before


def test_a_file_that_is_renamed_or_removed_is_seen(package: Path) -> None:
    digests = {source_digest.package_digest(package, later())}
    (package / "pipeline.py").rename(package / "other.py")
    digests.add(source_digest.package_digest(package, later()))
    (package / "other.py").unlink()
    digests.add(source_digest.package_digest(package, later()))
    assert len(digests) == 3


@pytest.mark.parametrize(
    "name", sorted(source_digest.NOT_IMPORTED_BY_ENGINE - {"__main__.py", "viz", "nn", "frontends"})
)
def test_what_does_not_matter_is_there(name: str) -> None:
    assert (source_digest.PACKAGE / name).exists()


def test_what_the_engine_never_imports_does_not_matter(package: Path) -> None:
    before = source_digest.package_digest(package, later())
    (package / "tensor/tensor.py").write_text("changed")
    (package / "cli.py").unlink()
    assert source_digest.package_digest(package, later()) == before


def test_there_is_none_after_an_edit_while_the_process_runs(package: Path) -> None:
    assert source_digest.package_digest(package, time.time() - 3600) is None


def test_a_time_in_the_future_is_no_edit(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time() - 3600
    monkeypatch.setattr(time, "time", lambda: now)
    assert source_digest.package_digest(package, now - 3600) is not None


def test_there_is_none_without_sources(tmp_path: Path) -> None:
    assert source_digest.package_digest(tmp_path / "missing", later()) is None
    (tmp_path / "broken.py").symlink_to(tmp_path / "nowhere")
    assert source_digest.package_digest(tmp_path, later()) is None


def test_a_process_begins_when_it_does() -> None:
    before = time.time()
    code = "from porism.base import source_digest; print(source_digest._START)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert before - 0.1 <= float(done.stdout) <= time.time()
