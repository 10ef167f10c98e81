"""Every procedure on all of its examples: the evaluator sees no difference."""

from __future__ import annotations

import pytest

from porism.prove.examples import established
from porism.rewrite.rule import Procedure
from porism.rules.algebra import EVERYTHING
from porism.rules.examples import EXAMPLES, TYPED

PROCEDURES = {item.name: item for item in EVERYTHING if isinstance(item, Procedure)}


def test_every_procedure_has_examples() -> None:
    assert {*EXAMPLES, *TYPED, "fold"} == set(PROCEDURES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    found = established(PROCEDURES[name], EXAMPLES[name]())
    assert not found.fault, found.fault
    assert found.fired > 0
