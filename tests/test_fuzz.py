"""The fuzzers for a short time, from one seed; `./dev fuzz NAME --minutes N` is the long run."""

from __future__ import annotations

import importlib

import pytest

from fuzz.search import batch

NAMES = ("rewrite", "simplify", "text")
PROPERTIES = {
    f"{name}: {label}": check
    for name in NAMES
    for label, check in importlib.import_module(f"fuzz.{name}").PROPERTIES.items()
}


@pytest.mark.parametrize("label", PROPERTIES)
def test_no_counterexample_in_a_short_run(label: str) -> None:
    batch(label, PROPERTIES[label], 1, examples=60)
