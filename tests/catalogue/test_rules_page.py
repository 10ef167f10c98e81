"""The page of rules is in step with the rules, and its examples run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from porism.catalogue import rule_listing as catalogue
from porism.catalogue.rules_page import page
from porism.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rules.md"


def test_the_page_is_in_step_with_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--page"]) == 0
    assert PAGE.read_text(encoding="utf-8") == capsys.readouterr().out, (
        "run: python -m porism rules --page > docs/rules.md"
    )


def test_the_examples_run() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert result.attempted == 3 + len(catalogue.topics())
    assert result.failed == 0


def test_every_rule_is_on_the_page_once() -> None:
    text = page()
    for row in catalogue.rows():
        assert text.count(f"| `{row['name']}`") == 1
        for seed in row["seeds"]:
            assert seed in text
    assert "not recorded" not in text


def test_every_topic_has_a_section() -> None:
    text = page()
    for topic in catalogue.topics():
        assert f"\n## {topic.title}\n" in text
        assert f'>>> examples("{topic.name}")' in text
