"""The page about schedules: its examples run, and its figures are those of the code."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from porism.base.settings import TABLE
from porism.base.target import StorageModel
from porism.ir import ops
from porism.schedule.rangeify import placement

STORAGE = StorageModel()
PAGE = Path(__file__).parents[2] / "docs" / "schedule.md"


def test_the_examples_run() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert result.attempted > 12
    assert result.failed == 0


@pytest.mark.parametrize(
    "words",
    [
        f"`n·(c + {STORAGE.store_local:.0f}) + t·{STORAGE.load_local:.0f}`",
        f"`n·(c + {STORAGE.store_global:.0f}) + t·{STORAGE.load_global:.0f}`",
        f"`exp2` {ops.EXP2.cost:.0f}, a division {ops.FDIV.cost:.0f}",
        f"costs at least {placement.MIN_LOCAL_COST:.0f} an element",
        f"{placement.MAX_LOCAL_COST:.0f} or more an element",
        f"no more than {STORAGE.local_bytes >> 10} KiB",
        f"no more than 2^{STORAGE.local_elements.bit_length() - 1} elements",
        f"must have {STORAGE.parallel_iterations} iterations or more",
    ],
)
def test_the_figures_are_those_of_the_code(words: str) -> None:
    assert words in " ".join(PAGE.read_text(encoding="utf-8").split())


def test_every_setting_of_kernels_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for setting in TABLE:
        if setting.name.startswith(("kernel_", "buffer_")):
            assert f"`{setting.variable}`" in text, setting.variable
