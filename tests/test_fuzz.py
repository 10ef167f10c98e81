"""The fuzzers for a short time; `./dev fuzz NAME --minutes N` is the long run."""

from __future__ import annotations

import importlib
import re

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from fuzz import compile as compiled
from fuzz import simplify
from fuzz.search import batch, for_seconds
from porism.base.dtypes import DType, Scalar, i32
from porism.ir import ops
from porism.ir.facts.reduction_identity import identity
from porism.ir.ops import Op
from porism.optimize.actions.loops import loop_padding
from tests.tensor.functions import FUNCTIONS

NAMES = ("rewrite", "text")
PROPERTIES = {
    f"{name}: {label}": check
    for name in NAMES
    for label, check in importlib.import_module(f"fuzz.{name}").PROPERTIES.items()
}
SECONDS = 60
"""For all the properties of the simplifier together."""
COMPILED = {"graphs": 4, "programs": 4, "functions": 4, "convolutions": 1, "tensor cores": 1}
"""Batches of each property of compiled kernels: a minute and a half together."""
SEED = 1
"""The same cases in each run, so that a failure is about the change; a long run has new ones."""


@pytest.mark.parametrize("label", PROPERTIES)
def test_no_counterexample_in_a_short_run(label: str) -> None:
    batch(label, PROPERTIES[label], 1, examples=60)


@pytest.mark.slow
@pytest.mark.parametrize("label", simplify.PROPERTIES)
def test_a_minute_of_simplifying(label: str) -> None:
    check = simplify.PROPERTIES[label]
    assert for_seconds(label, check, SECONDS / len(simplify.PROPERTIES), SEED) > 0


@pytest.mark.slow
@pytest.mark.parametrize("label", compiled.PROPERTIES)
def test_compiled_kernels_for_a_minute_and_a_half(label: str) -> None:
    for number in range(SEED, SEED + COMPILED[label]):
        batch(label, compiled.PROPERTIES[label], number)


def test_a_kernel_that_is_compiled_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that is made longer begins at 1."""

    def with_one(op: Op, dtype: DType) -> Scalar | None:
        return identity(op, dtype) if op is not ops.ADD else 1

    @seed(SEED)
    @settings(max_examples=1000, deadline=None, database=None, phases=[Phase.generate])
    @given(st.data())
    def search(data: st.DataObject) -> None:
        compiled.check_tensor(FUNCTIONS["reduction"](data, i32), data)

    monkeypatch.setattr(loop_padding, "identity", with_one)
    with pytest.raises(AssertionError, match="differ after"):
        search()


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
