"""The evaluator is tested on graphs as they are written, whatever rules other tests install."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from porism.rewrite.construction import install, installed_rules
from porism.rewrite.rule import RuleSet


@pytest.fixture(autouse=True, scope="module")
def _no_rules_at_construction() -> Iterator[None]:
    before = installed_rules()
    install(RuleSet("none"))
    yield
    install(before)
