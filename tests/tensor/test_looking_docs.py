"""The page about looking at kernels: its examples run, and it has every level."""

from __future__ import annotations

import doctest
from pathlib import Path

from porism.base import debug

PAGE = Path(__file__).parents[2] / "docs" / "looking.md"


def test_the_examples_run() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert result.attempted > 6
    assert result.failed == 0


def test_every_level_has_a_row() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for level in (debug.KERNELS, debug.LOOPS, debug.COMPILING, debug.SOURCE):
        assert f"\n| {level} | " in text
