"""The catalogue of rules: what is recorded, as data, by topic, with examples that are right."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from porism.base.dtypes import Theory
from porism.base.errors import PorismError
from porism.catalogue import rule_listing as catalogue
from porism.catalogue.rule_listing import KNOWN
from porism.cli import main
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rewrite.construction import COMMUTE
from porism.rewrite.rule import Procedure, Rewrite, Rule, RuleSet, rule
from porism.rewrite.terms import c0, x
from porism.rules import proof_record
from porism.rules.algebra.commutativity import (
    BITWISE_COMMUTATIVITY,
    BOOLEAN_COMMUTATIVITY,
    COMMUTATIVITY,
)
from porism.rules.algebra.division import DIVMOD
from porism.rules.seed_rows import ROWS
from tests.examples.catalogue_examples import before_and_after, example_line, is_current
from tests.examples.rule_examples import rule_example

ROOT = Path(__file__).resolve().parents[2]


# -- the record ------------------------------------------------------------------------------------


def test_the_record_is_in_step_with_the_rules() -> None:
    stale = [item.name for item in KNOWN if not is_current(item)]
    assert stale == [], proof_record.HOW_TO_UPDATE
    assert set(proof_record.entries()) == {item.name for item in KNOWN}, proof_record.HOW_TO_UPDATE


def test_names_are_unique() -> None:
    names = [item.name for item in KNOWN]
    assert len(names) == len(set(names))


def test_another_statement_has_another_digest() -> None:
    stated = DIVMOD["mod-small"]
    assert isinstance(stated, Rule)
    others = [
        replace(stated, after=c0),
        replace(stated, when=None),
        replace(stated, theories=(Theory.FIXED_WIDTH,)),
        replace(stated, lemma=True),
        replace(stated, grows=True),
        replace(stated, fast_math="everything"),
    ]
    digests = {proof_record.digest(each) for each in [stated, *others]}
    assert len(digests) == 7
    assert proof_record.digest(replace(stated, seeds=("000.0.0",))) == proof_record.digest(stated)
    assert all(proof_record.current_entry(each) is None for each in others)


def test_a_procedure_is_recorded_with_all_the_text_it_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "LIMIT = 3\n"
        "def _below(node):\n    return node < LIMIT\n"
        "def other(node):\n    return node\n"
        "def run(node):\n    return _below(node)\n"
    )
    actual = []
    monkeypatch.syspath_prepend(tmp_path)
    changes = [("", ""), ("= 3", "= 4"), ("node <", "node >"), ("return node\n", "return 1\n")]
    for number, change in enumerate(changes):
        (tmp_path / f"stated_{number}.py").write_text(text.replace(*change), encoding="utf-8")
        actual.append(proof_record.source_texts(f"stated_{number}", "run"))
    assert len(actual[0]) == 3
    assert actual[0] != actual[1]
    assert actual[0] != actual[2]
    assert actual[0] == actual[3]


def test_every_procedure_has_text_to_be_recorded() -> None:
    for item in KNOWN:
        if isinstance(item, Procedure):
            assert proof_record.source_texts(item.function.__module__, item.function.__name__), (
                item.name
            )


def test_digests_are_the_same_in_every_process() -> None:
    code = (
        "from porism.catalogue import rule_listing as catalogue\n"
        "from porism.rules import proof_record as record\n"
        "print([record.digest(item) for item in catalogue.KNOWN])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs == {f"{[proof_record.digest(item) for item in KNOWN]}\n".encode()}


def test_the_record_is_written_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "established.json"
    monkeypatch.setattr(proof_record, "FILE", file)
    assert proof_record.entries() == {}
    entry = proof_record.Entry("00", "proved", "x + 0  =>  x")
    proof_record.write({"b": entry, "a": entry})
    assert list(proof_record.entries()) == ["a", "b"]
    assert proof_record.entries()["b"] == entry
    other = tmp_path / "other.json"
    other.write_text("[1]", encoding="utf-8")
    monkeypatch.setattr(proof_record, "FILE", other)
    with pytest.raises(PorismError, match="the record of proofs cannot be read"):
        proof_record.entries()
    monkeypatch.setattr(proof_record, "FILE", tmp_path)
    with pytest.raises(PorismError, match="the record of proofs cannot be written"):
        proof_record.write({})


def test_the_record_is_part_of_the_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    data = settings["tool"]["setuptools"]["package-data"]
    assert proof_record.FILE.name in data["porism.rules"]


# -- as data ---------------------------------------------------------------------------------------


def test_every_row_of_the_seeds_is_covered_by_the_rows() -> None:
    rows = catalogue.rows()
    covered = {seed for row in rows for seed in row["seeds"]}
    assert set(ROWS) - covered == set()
    fields = ["name", "kind", "before", "after", "when", "theory", "fast_math", "seeds"]
    fields += ["established", "example", "tried", "fired", "idle"]
    for row in rows:
        assert list(row) == fields
        assert row["kind"] in ("rule", "lemma", "procedure", "pass", "step")
        assert row["established"] in catalogue.STRENGTH
        assert row["example"] or row["kind"] == "step"
        lemma = row["kind"] == "lemma"
        assert not (lemma and row["tried"])


def test_rows_tell_how_each_kind_is_established() -> None:
    by_name = {row["name"]: row for row in catalogue.rows()}
    assert by_name["add-zero"]["established"] == "proved"
    assert by_name["fold"]["established"] == "evaluated"
    assert by_name["fast-add-zero"]["established"] == "proved"
    assert by_name["fast-add-zero"]["fast_math"] == "-0 + 0 is -0, not 0"
    assert by_name[COMMUTE]["established"] == "proved"
    assert by_name[COMMUTE]["seeds"] == ["000.6.1", "002.18.1"]


def test_a_rule_that_is_not_recorded_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = DIVMOD["mod-small"]
    assert isinstance(stated, Rule)
    changed = replace(stated, when=None)
    assert catalogue.row(changed)["established"] is None
    assert catalogue.row(changed)["example"] is None
    monkeypatch.setattr(catalogue, "KNOWN", (changed,))
    assert catalogue.established("mod-small") == "not recorded"
    assert main(["rules", "mod-small"]) == 0
    assert "not recorded on integers" in capsys.readouterr().out
    monkeypatch.setattr(catalogue, "ORDER_LEMMAS", (changed,))
    assert catalogue.step_row()["established"] is None


def test_the_step_that_orders_operands_rests_on_a_lemma_for_every_commutative_op() -> None:
    lemmas = [*COMMUTATIVITY, *BITWISE_COMMUTATIVITY, *BOOLEAN_COMMUTATIVITY]
    stated = {item.op for item in lemmas if isinstance(item, Rule)}
    assert stated == {op for op in ops.table() if op.commutative}
    assert [row["name"] for row in catalogue.rows(["commute-add", COMMUTE])][-1] == COMMUTE


# -- topics and examples ---------------------------------------------------------------------------


def test_every_rule_has_one_topic() -> None:
    actual = [item.name for topic in catalogue.topics() for item in topic.items]
    assert sorted(actual) == sorted(item.name for item in KNOWN)
    of = {item.name: topic.name for topic in catalogue.topics() for item in topic.items}
    assert of["not-not"] == "booleans"
    assert of["form-double"] == "index_lemmas"
    assert of["invalid-load"] == "validity"  # which other files import
    assert of["commute-add"] == "commutativity"


def test_a_topic_that_is_not_there_is_told() -> None:
    with pytest.raises(PorismError, match="there is no topic 'nonsense'"):
        catalogue.examples("nonsense")


@pytest.mark.slow
@pytest.mark.parametrize("item", KNOWN, ids=lambda item: item.name)
def test_every_rule_has_an_example_with_the_same_value(item: Rewrite) -> None:
    actual = before_and_after(item)
    assert actual is not None
    before, after = actual
    assert before is not after
    if isinstance(item, Rule) and not item.fast_math:  # procedures are tried on all their examples
        points = list(_points(before))
        assert points
        compared = 0
        for inputs, variables in points:
            try:
                old = evaluate(before, inputs, variables)
            except PorismError:  # a division by zero
                continue
            new = evaluate(after, inputs, variables)
            assert np.array_equal(old[0], new[0], equal_nan=np.asarray(old[0]).dtype.kind == "f")
            compared += 1
        assert compared


def _points(graph: UOp) -> Any:
    """Values for the leaves of a graph, within their bounds."""
    leaves = [node for node in toposort(graph) if node.op in (ops.VARIABLE, ops.PARAM)]
    values: list[list[Any]] = []
    for leaf in leaves:
        if leaf.op is ops.VARIABLE:
            _, low, high = leaf.arg
            values.append([n for n in (-7, -5, -1, 0, 1, 2, 3, 5, 9) if _within(n, low, high)])
        elif leaf.dtype.is_float:
            values.append([np.float32(n) for n in (-1.5, 0.0, 2.0)])
        else:
            values.append([np.bool_(n) for n in (False, True)])
    for chosen in itertools.product(*values):
        pairs = list(zip(leaves, chosen, strict=True))
        inputs = {leaf.arg: value for leaf, value in pairs if leaf.op is ops.PARAM}
        yield inputs, {leaf.arg[0]: value for leaf, value in pairs if leaf.op is ops.VARIABLE}


def _within(n: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= n) and (high is None or n <= high)


def test_a_rule_that_can_not_fire_has_no_example() -> None:
    never = RuleSet("never", theory=Theory.INTEGERS, rules=[rule("never", x % c0, x, c0 < c0)])
    assert rule_example(never["never"]) is None
    assert catalogue.example(never["never"]) == example_line(never["never"]) == ""


# -- the command -----------------------------------------------------------------------------------


def test_all_of_it_is_written_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == catalogue.rows()
