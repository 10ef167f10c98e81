"""Rules for tests of the prover, stated in one call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from porism.base.dtypes import Theory
from porism.rewrite.rule import Rule, rule

INTEGERS = Theory.INTEGERS
FIXED_WIDTH = Theory.FIXED_WIDTH
FLOATS = Theory.FLOATS
BOOLEANS = Theory.BOOLEANS


def stated(theory: Theory | tuple[Theory, ...], *sides: Any, **options: Any) -> Rule:
    """A rule in a theory, named "case"."""
    theories = theory if isinstance(theory, tuple) else (theory,)
    return replace(rule("case", *sides, **options), theories=theories)
