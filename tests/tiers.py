"""Tiers: of the cases of a parametrized test, some run always and the others are marked as slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def quick_if(is_quick: Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """Return the cases in their order; those for which `is_quick` is false are marked as slow."""
    return [
        case if is_quick(case) else pytest.param(case, marks=pytest.mark.slow) for case in cases
    ]


def quick_every(step: int, cases: Iterable[Any]) -> list[Any]:
    """Return the cases in their order; all but each `step`-th one are marked as slow."""
    numbered = enumerate(cases)
    return [
        pytest.param(case, marks=pytest.mark.slow) if number % step else case
        for number, case in numbered
    ]
