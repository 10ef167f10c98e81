"""Which rules fire: each on the corpus, or kept for a stated reason; and how that is told."""

from __future__ import annotations

import random
import subprocess
from typing import Any

import pytest

from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.catalogue import rule_counts, rule_listing
from porism.cli import main
from porism.rewrite.construction import record_rewrites
from porism.rewrite.rule import Rule
from tools import fired

RULES = [item for item in rule_listing.KNOWN if not (isinstance(item, Rule) and item.lemma)]


def test_every_rule_fires_on_the_corpus_or_has_a_reason() -> None:
    idle = [item.name for item in RULES if not rule_counts.of(item.name).count]
    unexplained = [name for name in idle if name not in rule_counts.REASONS]
    assert unexplained == [], rule_counts.HOW_TO_UPDATE


def test_reasons_are_about_rules_that_there_are() -> None:
    assert set(rule_counts.REASONS) <= {item.name for item in RULES}
    assert all(rule_counts.REASONS.values())


def test_what_fires_is_tried_by_a_stage() -> None:
    for item in RULES:
        actual = rule_counts.of(item.name)
        assert actual.stages or not actual.count, item.name
    known = {item.name for item in rule_listing.KNOWN} | {"index-normal-form"}
    assert set(rule_counts.recorded()) <= known, rule_counts.HOW_TO_UPDATE


def test_the_record_has_what_a_part_of_the_corpus_fires() -> None:
    trace = fired.Counted()
    chance = random.Random(0)
    with settings.override(cache=False), record_rewrites(trace):
        for tensors in (*fired.written(fired.WRITTEN[::9]), *list(fired.rare())[2:4]):
            fired.compile_only(tensors, chance)
    assert trace.by_rule
    for name in trace.by_rule:
        assert rule_counts.of(name).count, f"{name} fires: {rule_counts.HOW_TO_UPDATE}"


def test_a_lemma_is_tried_by_no_pass() -> None:
    lemmas = {item.name for item in rule_listing.KNOWN} - {item.name for item in RULES}
    assert lemmas
    assert not [name for name in lemmas if rule_counts.of(name).stages]


def test_rows_say_where_a_rule_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "mul-one", "form-double", "cast-inside"]) == 0
    out = capsys.readouterr().out
    assert "tried by: every node" in out
    assert "a lemma: no pass tries it" in out
    assert "never fired: for machines that need it" in out


def test_the_corpus_is_counted_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        called.append(command[1:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert main(["rules", "--fired", "--record"]) == 0
    assert called == [["-m", "tools.fired", "--record"]]


def test_without_the_sources_there_is_no_corpus(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    monkeypatch.setattr("porism.cli.__file__", str(tmp_path / "a" / "b" / "cli.py"))
    assert main(["rules", "--fired"]) == 2
    assert "the corpus is not here" in capsys.readouterr().err
    assert issubclass(PorismError, Exception)
