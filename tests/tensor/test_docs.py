"""What users read about tensors: the examples of the page run, and every function has one."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import porism
from porism.tensor import namespace

PAGE = Path(__file__).parents[2] / "docs" / "tensors.md"

FOLDERS = ("api.", "network.", "movement.")
FUNCTIONS = [name for name, module in namespace.MODULE_OF.items() if module.startswith(FOLDERS)]


def test_the_examples_of_the_page_run() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert result.attempted > 20
    assert result.failed == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_returns_and_has_an_example(name: str) -> None:
    text = getattr(porism, name).__doc__
    assert text.startswith(("Return ", "Set the seed"))
    assert doctest.DocTestParser().get_examples(text)
