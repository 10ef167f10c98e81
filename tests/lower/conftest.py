"""Decompositions are tested under the algebra, which simplifies what they build."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from porism.rewrite.construction import install, installed_rules
from porism.rules.rule_sets import ALGEBRA


@pytest.fixture(autouse=True, scope="module")
def _algebra_at_construction() -> Iterator[None]:
    before = installed_rules()
    install(ALGEBRA)
    yield
    install(before)
