"""The commands `porism rules`, `porism prove` and `./dev prove`, and the checks of procedures."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from porism.base.errors import PorismError
from porism.catalogue import rule_listing, rules_page
from porism.cli import main
from porism.ir import ops
from porism.ir.node import UOp
from porism.prove import interval_checks, procedure_checks, proof_report
from porism.rewrite.rule import Procedure, procedure
from porism.rewrite.terms import c0, c1, x
from porism.rules import proof_record
from porism.rules.index.index_lemmas import LEMMAS
from porism.rules.rule_sets import ALGEBRA, EVERYTHING
from tests.absent_solver import hide_solver
from tests.examples.catalogue_examples import EXAMPLES
from tests.prove.stated import INTEGERS, stated
from tools import prove

PROCEDURES = [item for item in ALGEBRA if isinstance(item, Procedure)]


@pytest.mark.parametrize("item", PROCEDURES, ids=lambda item: item.name)
def test_every_procedure_is_established(item: Procedure) -> None:
    tried = procedure_checks.check(item, EXAMPLES)
    assert tried.ok, tried.fault
    assert tried.cases > 0


def test_a_procedure_that_is_not_listed_fails() -> None:
    @procedure("unheard-of", [ops.ADD])
    def unheard_of(node: UOp) -> UOp | None:
        """Do nothing."""
        return None

    tried = procedure_checks.check(unheard_of)
    assert tried.fault == "it has no examples in tests/examples"


def test_a_wrong_folding_is_found() -> None:
    @procedure("fold", [ops.ADD], on_sources=True)
    def fold(op: Any, dtype: Any, src: tuple[UOp, ...], arg: Any) -> UOp | None:
        """Forget the second operand."""
        return src[0]

    tried = procedure_checks.check(fold)
    assert tried.fault.startswith("NEG of (-7,) as index is 7, and was folded to -7")


def test_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "mod-small"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "mod-small               x % c0 -> x",
        "                        when (lo(x) >= 0) & (hi(x) < c0)",
        "                        proved on integers  (seeds: 000.2.1, 002.19.1)",
        lines[-1],
    ]
    assert lines[-1].startswith("                        tried by: every node; fired ")


def test_rules_are_listed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    listed = [item.name for item in (*EVERYTHING, *LEMMAS)]
    assert [row["name"] for row in rows][: len(listed)] == listed
    by_name = {row["name"]: row for row in rows}
    assert by_name["add-zero"].pop("fired") > 0
    assert "every node" in by_name["add-zero"].pop("tried")
    assert by_name["add-zero"] == {
        "name": "add-zero",
        "kind": "rule",
        "before": "x + 0",
        "after": "x",
        "when": None,
        "theory": ["integers", "fixed width"],
        "fast_math": None,
        "seeds": ["002.2.1"],
        "established": "proved",
        "example": "x + 0  =>  x",
        "idle": None,
    }
    assert by_name["fold"]["after"].startswith("Compute an elementwise op on constants")
    assert {row["kind"] for row in rows} == {"rule", "lemma", "procedure", "pass", "step"}


def test_a_word_that_fits_no_rule_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "mod-small", "nonsense"]) == 2
    assert "no rule's name contains 'nonsense'" in capsys.readouterr().err


def test_prove_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "proofs.json"
    assert main(["prove", "mod-small", "fold", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "mod-small" in out
    assert "2 rows, all established, in " in out
    actual = json.loads(file.read_text(encoding="utf-8"))
    assert actual["ok"] is True
    assert [(row["name"], row["status"]) for row in actual["rows"]] == [
        ("fold", "evaluated"),
        ("mod-small", "proved"),
    ]


def test_a_false_rule_fails_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = stated(INTEGERS, (x // c0) // c1, x // (c0 * c1))
    assert not proof_report.run([wrong], with_bounds=False).ok
    out = capsys.readouterr().out
    assert "1 not established" in out
    assert "x = 1, c0 = 2, c1 = -1: before is 0, after is -1" in out


def test_a_rule_that_grows_has_a_row_that_says_so() -> None:
    rows = proof_report.gather([stated(INTEGERS, x * 2, x + x)], with_bounds=False).rows
    assert [row.status for row in rows] == ["proved", "does not shrink"]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record and a page of rules that a test may write."""
    monkeypatch.setattr(proof_record, "FILE", tmp_path / "established.json")
    monkeypatch.setattr(rules_page, "FILE", tmp_path / "rules.md")
    rules_page.FILE.write_text("old", encoding="utf-8")
    return proof_record.FILE


def test_what_is_established_is_recorded(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = proof_record.Entry("00", "proved")
    proof_record.write({"mod-small": old, "gone": old, "add-zero": old})
    assert prove.main(["mod-small", "fold"]) == 0
    out = capsys.readouterr().out
    assert "the record is out of date for 2 rules: fold, mod-small" in out
    assert "./dev prove --record" in out
    assert proof_record.entries()["mod-small"] == old
    assert prove.main(["mod-small", "fold", "--record"]) == 0
    assert "recorded 2 rules in established.json" in capsys.readouterr().out
    assert rules_page.FILE.read_text(encoding="utf-8").startswith("# Rules\n")
    rows = json.loads(record.read_text(encoding="utf-8"))
    assert {name: row["established"] for name, row in rows.items()} == {
        "add-zero": "proved",  # as it was
        "fold": "evaluated",
        "mod-small": "proved",
    }
    assert rows["mod-small"]["example"].startswith("x % 4  =>  x")
    assert set(rows["mod-small"]) == {"digest", "established", "example"}
    assert prove.main(["mod-small", "fold"]) == 0
    assert "out of date" not in capsys.readouterr().out


def test_only_what_has_changed_is_proved_again(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prove.main(["mod-small", "after-nothing", "--record"]) == 0
    assert "0 of 2 rules are recorded as they are" in capsys.readouterr().out
    first = record.read_bytes()
    assert prove.main(["mod-small", "after-nothing", "--record"]) == 0
    out = capsys.readouterr().out
    assert "2 of 2 rules are recorded as they are" in out
    assert "recorded 0 rules" in out
    assert prove.main(["mod-small", "after-nothing", "--record", "--all"]) == 0
    assert "recorded 2 rules" in capsys.readouterr().out
    assert record.read_bytes() == first
    entries = dict(proof_record.entries())
    entries["after-nothing"] = replace(entries["after-nothing"], examples="00")  # others than now
    proof_record.write(entries)
    assert prove.main(["mod-small", "after-nothing", "--record"]) == 0
    assert "1 of 2 rules are recorded as they are" in capsys.readouterr().out
    assert record.read_bytes() == first


def test_nothing_is_recorded_of_a_run_that_fails(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = stated(INTEGERS, (x // c0) // c1, x // (c0 * c1))
    monkeypatch.setattr(rule_listing, "KNOWN", (wrong,))
    assert prove.main(["--record"]) == 1
    assert "nothing is recorded, since not all is established" in capsys.readouterr().out
    assert not record.exists()


def test_an_installed_package_has_no_examples_of_procedures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["prove", "mod-small", "after-nothing"]) == 0
    out = capsys.readouterr().out
    assert "1 rows, all established, in " in out
    assert "1 procedures are left out: their examples are part of the source tree" in out
    assert main(["prove", "after-nothing"]) == 2
    message = capsys.readouterr().err
    assert "after-nothing is a procedure, which is tried on examples" in message
    assert "fix: run './dev prove' in a checkout of the sources" in message


def test_mistakes_on_the_command_line_of_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert prove.main(["nonsense"]) == 2
    assert "no rule's name contains 'nonsense'" in capsys.readouterr().err
    assert prove.main(["--rule", "x + 0 -> x", "--record"]) == 2
    assert "--rule does not go together with --record and --all" in capsys.readouterr().err
    assert prove.main(["--rule", "x + 0 -> x"]) == 0


def test_bounds_are_tried_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interval_checks, "checked_ops", lambda: (ops.NEG, ops.CAST))
    actual = proof_report.gather([], with_bounds=True)
    assert [(row.name, row.status) for row in actual.rows] == [
        ("bounds of neg", "exhaustive"),
        ("bounds of cast", "exhaustive"),
    ]
    assert main(["prove", "bounds"]) == 0


def test_without_the_solver_the_message_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide_solver(monkeypatch)
    with pytest.raises(PorismError, match="proving needs the solver z3, which is not installed"):
        importlib.import_module("porism.prove.rule_proof")
    assert main(["prove", "mod-small"]) == 2
    assert "fix: pip install z3-solver" in capsys.readouterr().err
