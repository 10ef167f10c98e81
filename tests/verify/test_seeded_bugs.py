"""Seeded bugs: each is found at the level that it names, and the programs pass without them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import porism
from porism import pipeline
from porism.base.errors import VerifyError
from porism.base.settings import settings
from porism.engine.run import compile_verification
from tests.verify.seeded_bugs import BUGS, PROGRAMS, Bug

PAGE = Path(__file__).parents[2] / "docs" / "verify.md"


@pytest.fixture(autouse=True)
def _empty_caches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clear the caches of reports and simplified kernels around each test."""
    monkeypatch.setattr(compile_verification, "_reports", {})
    pipeline._simplified.clear()
    yield
    pipeline._simplified.clear()


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_without_a_bug_pass(name: str) -> None:
    report = porism.verify(PROGRAMS[name](), level=3)
    assert report.rows


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    program = PROGRAMS[bug.program]()
    bug.plant(monkeypatch)
    with settings.override(check=False), pytest.raises(VerifyError):
        porism.verify(program, level=bug.level)


def test_there_are_bugs_of_all_kinds() -> None:
    assert len(BUGS) >= 40
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    levels_of: dict[str, set[int]] = {}
    for bug in BUGS:
        levels_of.setdefault(bug.kind, set()).add(bug.level)
    rows = re.findall(r"^\| ([^|]+) \| ([\d, ]+) \| (\d+) \|$", PAGE.read_text("utf-8"), re.M)
    documented = {kind: {int(n) for n in levels.split(",")} for kind, levels, _ in rows}
    assert documented == levels_of
    counts = {kind: int(count) for kind, _, count in rows}
    assert counts == {kind: sum(bug.kind == kind for bug in BUGS) for kind in levels_of}
