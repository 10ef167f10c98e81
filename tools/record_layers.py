"""Records what PyTorch computes for the cases of layers; needs torch, which nothing else here does.

    PYTHONPATH=. python -m tools.record_layers

writes tests/nn/layer_results.json, which `tests/nn/test_layers.py` compares with.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import torch

from tests.nn.layer_cases import CASES, LayerCase, inputs_of, sampling_step, weight_values

RESULTS = pathlib.Path(__file__).parent.parent / "tests" / "nn" / "layer_results.json"


def tensors(value: Any) -> list[Any]:
    """Return the tensors in nested tuples."""
    if isinstance(value, (tuple, list)):
        return [t for item in value for t in tensors(item)]
    return [] if value is None else [value]


def sample(tensor: Any) -> list[float]:
    """Return some elements of a tensor, in order."""
    flat: list[float] = tensor.flatten().tolist()
    return flat[:: sampling_step(len(flat))]


def record(case: LayerCase) -> dict[str, Any]:
    """Return the names of the state and the results of a case."""
    layer = getattr(torch.nn, case.layer)(*case.args, **case.options)
    state = layer.state_dict()
    filled = {
        name: torch.from_numpy(np.array(weight_values(name, tuple(t.shape), k)))
        for k, (name, t) in enumerate(state.items())
    }
    layer.load_state_dict(filled)
    layer.train(case.training)
    with torch.no_grad():
        result = layer(*map(torch.from_numpy, inputs_of(case)), **case.call)
    outputs = tensors(result) + (list(layer.buffers()) if case.training else [])
    return {
        "state": {name: list(t.shape) for name, t in state.items()},
        "results": [
            {"shape": list(t.shape), "values": [float(f"{v:.7g}") for v in sample(t)]}
            for t in outputs
        ],
    }


if __name__ == "__main__":
    recorded = {case.name: record(case) for case in CASES}
    assert len(recorded) == len(CASES), "two cases have one name"
    RESULTS.write_text(
        json.dumps(recorded, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n"
    )
    print(f"{len(recorded)} cases, {RESULTS.stat().st_size // 1024} kB")
