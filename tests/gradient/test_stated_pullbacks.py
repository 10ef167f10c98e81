"""Stated pullbacks: every name that a function states has a pullback where it is stated."""

from __future__ import annotations

import re
from pathlib import Path

from porism.gradient.elementwise_derivatives import FUNCTIONS

TENSOR = Path(__file__).parents[2] / "src" / "porism" / "tensor"


def test_a_stated_name_has_a_pullback_in_the_table_or_in_the_same_module() -> None:
    """Modules are loaded when they are used, so a pullback elsewhere might not be there."""
    found = set()
    for path in TENSOR.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        stated = set(re.findall(r'\bstated\(\s*"(\w+)"', text))
        registered = set(re.findall(r'@pullback\(\s*"(\w+)"', text))
        assert stated <= FUNCTIONS.keys() | registered, path.name
        assert registered <= stated, path.name
        found |= stated
    assert len(found) > 20
