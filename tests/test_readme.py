"""The examples in the README and in the guides do what they say."""

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", ["README.md"])
def test_examples(name: str) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testfile(str(ROOT / name), module_relative=False, optionflags=flags)
    assert result.attempted > 5
    assert result.failed == 0
