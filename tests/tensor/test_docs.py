"""What users read about tensors: the examples of the page run, and every function has one."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from porism.tensor import namespace

PAGE = Path(__file__).parents[2] / "docs" / "tensors.md"

FOLDERS = ("api.", "network.", "movement.")
FUNCTIONS = [name for name, module in namespace.MODULE_OF.items() if module.startswith(FOLDERS)]
"""The public functions that return tensors or facts about types."""


def test_the_examples_of_the_page_run() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert result.attempted > 20
    assert result.failed == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_returns(name: str) -> None:
    assert namespace.find(name).__doc__.startswith(("Return ", "Set the seed"))


@pytest.mark.parametrize("name", namespace.MODULE_OF)
def test_a_public_name_has_an_example(name: str) -> None:
    assert doctest.DocTestParser().get_examples(namespace.find(name).__doc__)
