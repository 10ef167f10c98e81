"""Layers compared with what PyTorch computes for the same weights (`tools/record_layers.py`)."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Final

import numpy as np
import pytest

import porism
from porism import nn
from tests.nn.layer_cases import CASES, LayerCase, inputs_of, sampling_step, weight_values
from tests.tiers import quick_if

RECORDED: Final[dict[str, Any]] = json.loads(
    (pathlib.Path(__file__).parent / "layer_results.json").read_text()
)


def build(case: LayerCase) -> nn.Module:
    """Return the layer of a case, with the weights that were recorded."""
    layer: nn.Module = getattr(nn, case.layer)(*case.args, **case.options)
    state = layer.state_dict()
    layer.load_state_dict(
        {name: weight_values(name, t.numpy().shape, k) for k, (name, t) in enumerate(state.items())}
    )
    return layer.train(case.training)


def flat(value: Any) -> list[Any]:
    """Return the tensors in nested tuples."""
    if isinstance(value, tuple):
        return [t for item in value for t in flat(item)]
    return [] if value is None else [value]


def check(case: LayerCase, outputs: list[Any]) -> None:
    """Compare tensors with the recorded ones."""
    recorded = RECORDED[case.name]["results"]
    assert len(outputs) == len(recorded)
    for actual, expected in zip(outputs, recorded, strict=True):
        assert actual.shape == tuple(expected["shape"])
        values = actual.numpy().reshape(-1)[:: sampling_step(actual.size)]
        np.testing.assert_allclose(values, expected["values"], rtol=2e-5, atol=3e-6)


FIRST: Final = {case.layer: case for case in reversed(CASES)}
"""The first case of each layer."""


def is_small(case: LayerCase) -> bool:
    """Whether a layer is compiled quickly; the first case of each layer counts as such, too."""
    return case is FIRST[case.layer] or not (
        case.layer.endswith(("1d", "3d")) or "num_layers" in case.options or "kdim" in case.options
    )


@pytest.mark.parametrize("case", quick_if(is_small, CASES), ids=lambda case: case.name)
def test_a_layer_computes_what_pytorch_does(case: LayerCase) -> None:
    layer = build(case)
    shapes = {name: list(t.shape) for name, t in layer.state_dict().items()}
    assert shapes == RECORDED[case.name]["state"]
    outputs = flat(layer(*inputs_of(case), **case.call))
    check(case, outputs + (list(layer.buffers()) if case.training else []))


JITTED: Final = [c for c in CASES if c.training or c.layer in ("GRU", "Conv2d", "LayerNorm")]


@pytest.mark.parametrize("case", quick_if(is_small, JITTED), ids=lambda case: case.name)
def test_a_jitted_layer_computes_the_same_and_updates_its_state(case: LayerCase) -> None:
    layer = build(case)
    jitted = porism.jit(lambda *inputs: layer(*inputs, **case.call))
    outputs = flat(jitted(*inputs_of(case)))
    check(case, outputs + (list(layer.buffers()) if case.training else []))


def test_a_jitted_call_sees_weights_that_were_loaded_later() -> None:
    layer = nn.Linear(2, 1)
    jitted = porism.jit(layer)
    jitted(porism.ones(1, 2))
    layer.load_state_dict({"weight": [[2.0, 3.0]], "bias": [1.0]})
    assert jitted(porism.ones(1, 2)).tolist() == [[6.0]]
    layer.weight = nn.Parameter([[5.0, 5.0]])
    assert jitted(porism.ones(1, 2)).tolist() == [[11.0]]


def test_a_jitted_function_follows_training_and_evaluation() -> None:
    layer = nn.Sequential(nn.Dropout(1.0))
    jitted = porism.jit(lambda x: layer(x) + 1)
    x = porism.ones(3)
    for _ in range(2):
        assert jitted(x).tolist() == [1.0] * 3
        layer.eval()
        assert jitted(x).tolist() == [2.0] * 3
        layer.train()
