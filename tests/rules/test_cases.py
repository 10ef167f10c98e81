"""The case files: what the simplifier must do, a line each."""

from __future__ import annotations

from pathlib import Path

import pytest

from porism.ir.text.expression import show
from porism.rewrite.construction import COMMUTE
from porism.rewrite.graph_rewrite import normalize
from porism.rewrite.rewrite_trace import Trace
from porism.rules.examples.procedure_examples import EXAMPLES
from porism.rules.index.normalize import simplify
from porism.rules.rule_sets import ALGEBRA
from tests.rules.expressions import Case, read

FILES = sorted((Path(__file__).parent / "cases").glob("*.txt"))
CASES = [(f"{file.stem}:{case[0]}", case) for file in FILES for case in read(file.read_text())]


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_case(case: Case) -> None:
    _, before, after = case
    trace = Trace()
    assert normalize(before) is normalize(after, trace), show(normalize(before))
    # the right side is a normal form already, but for the order of operands
    assert set(trace.counts()) <= {COMMUTE}


FORMED = sorted((Path(__file__).parent / "cases" / "normal_form").glob("*.txt"))
FORMS = [(f"{file.stem}:{case[0]}", case) for file in FORMED for case in read(file.read_text())]


@pytest.mark.parametrize("case", [case for _, case in FORMS], ids=[name for name, _ in FORMS])
def test_case_of_the_normal_form(case: Case) -> None:
    _, before, after = case
    assert simplify(before) is simplify(after), show(simplify(before))


def test_every_rule_has_a_case() -> None:
    fired: set[str] = set()
    for _, (_, before, _) in CASES:
        trace = Trace()
        normalize(before, trace)
        fired |= set(trace.counts())
    # procedures about structure have examples of their own
    assert {item.name for item in ALGEBRA if item.name not in EXAMPLES} - fired == set()
