"""The fuzzers for a short time; `./dev fuzz NAME --minutes N` is the long run."""

from __future__ import annotations

import importlib
import re

import pytest
from hypothesis import strategies as st

from fuzz import simplify
from fuzz.search import batch, for_seconds

NAMES = ("rewrite", "text")
PROPERTIES = {
    f"{name}: {label}": check
    for name in NAMES
    for label, check in importlib.import_module(f"fuzz.{name}").PROPERTIES.items()
}
SECONDS = 60
"""For all the properties of the simplifier together; each run has new seeds."""


@pytest.mark.parametrize("label", PROPERTIES)
def test_no_counterexample_in_a_short_run(label: str) -> None:
    batch(label, PROPERTIES[label], 1, examples=60)


@pytest.mark.parametrize("label", simplify.PROPERTIES)
def test_a_minute_of_simplifying(label: str) -> None:
    check = simplify.PROPERTIES[label]
    assert for_seconds(label, check, SECONDS / len(simplify.PROPERTIES)) > 0


def _mostly_true(data: st.DataObject) -> None:
    assert data.draw(st.integers(0, 10**6)) < 900_000


def test_a_counterexample_is_found_again_with_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError):
        for_seconds("mostly true", _mostly_true, 30)
    said = capsys.readouterr().err
    found = re.search(r"--only 'mostly true' --seed (\d+)", said)
    assert found is not None
    with pytest.raises(AssertionError):
        batch("mostly true", _mostly_true, int(found[1]))
