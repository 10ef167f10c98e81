"""Every procedure on its examples, and on variations of them: the evaluator sees no difference."""

from __future__ import annotations

import pytest

from porism.prove.procedure_trials import cases_of, try_procedure
from porism.rewrite.rule import Procedure
from porism.rules.rule_sets import EVERYTHING
from tests.examples.procedure_examples import EXAMPLES, TYPED

LEAST = 20
"""On how many cases a procedure fires at least: a check of a few cases shows little."""

PROCEDURES = {item.name: item for item in EVERYTHING if isinstance(item, Procedure)}


def test_every_procedure_has_examples() -> None:
    assert {*EXAMPLES, *TYPED, "fold"} == set(PROCEDURES)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    item = PROCEDURES[name]
    actual = try_procedure(item, cases_of(item, EXAMPLES[name]()))
    assert not actual.fault, actual.fault
    assert actual.fired >= LEAST
