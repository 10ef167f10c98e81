"""Models whose bytes are mutated: they run, or raise an error for users, and nothing else.

`./dev fuzz onnx_models --minutes 10` tries more of them.
"""

from __future__ import annotations

import itertools

import pytest

from fuzz import onnx_models


def test_the_models_run() -> None:
    for data in onnx_models.messages():
        assert onnx_models.try_model(data) == "ran"


@pytest.mark.parametrize("seed", range(2))
def test_mutated_models_raise_errors_for_users_alone(seed: int) -> None:
    outcomes = {"ran": 0, "refused": 0}
    for _, data in itertools.islice(onnx_models.examples(seed), 200):
        outcome = onnx_models.try_model(data)
        assert outcome in outcomes, f"{outcome}\n{data.hex()}"
        outcomes[outcome] += 1
    assert min(outcomes.values()) > 20


def test_truncated_models_raise_errors_for_users_alone() -> None:
    for data in onnx_models.messages():
        for length in range(0, len(data), max(len(data) // 25, 1)):
            assert onnx_models.try_model(data[:length]) in ("ran", "refused")
