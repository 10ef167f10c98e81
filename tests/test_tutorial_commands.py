"""The commands of the tutorial print what it says, and its way to a rule of one's own works."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LESSONS = sorted((ROOT / "docs" / "tutorial").glob("0*.md"))
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
FILE = re.compile(r'^```python title="([\w.]+)"\n(.*?)^```', re.M | re.S)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.M)
SERVES = "porism serve"


def commands() -> list[tuple[Path, str, str]]:
    """Return each lesson with its commands and what they print."""
    return [
        (lesson, command, expected)
        for lesson in LESSONS
        for block in CONSOLE.findall(lesson.read_text(encoding="utf-8"))
        for command, expected in COMMAND.findall(block)
    ]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which `porism` and `python` are those of the tests."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, words in (("porism", "-m porism "), ("python", "")):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n')
        script.chmod(0o755)
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "COLUMNS": "100", "PYTHONUTF8": "1"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lesson", "command", "expected"),
    [row for row in commands() if row[1] != SERVES],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "",
)
def test_commands_print_what_the_lesson_says(
    lesson: Path, command: str, expected: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    for name, text in FILE.findall(lesson.read_text(encoding="utf-8")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
        encoding="utf-8",
    )
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(expected, done.stdout, flags), done.stdout
    assert done.returncode in (0, 1)


def test_the_server_starts_as_the_lesson_says(environment: dict[str, str]) -> None:
    ((_, command, expected),) = [row for row in commands() if row[1] == SERVES]
    with subprocess.Popen(
        [*command.replace("porism", f"{sys.executable} -m porism").split(), "--port", "0"],
        stdout=subprocess.PIPE,
        env={**environment, "PYTHONUNBUFFERED": "1"},
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
    assert re.sub(r"\d+/$", "", line) == re.sub(r"\d+/$", "", expected)


@pytest.mark.slow
def test_a_rule_is_added_as_contributing_says(tmp_path: Path) -> None:
    for name in ("src", "tests", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(r'^ *(rule\("lt-multiple".*\),)$', text, re.M)
    assert found is not None
    file = tmp_path / "src" / "porism" / "rules" / "algebra" / "comparisons.py"
    before, head, rest = file.read_text(encoding="utf-8").partition("INDEX_COMPARISONS = RuleSet(")
    before = before.replace("c0, c1, hi", "c0, c1, divides, hi")
    rest = rest.replace("rules=(\n", f"rules=(\n        {found[1]}\n", 1)
    file.write_text(before + head + rest, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tools.prove", "lt-multiple"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(tmp_path)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^lt-multiple +integers +proved", done.stdout, re.M), done.stdout
