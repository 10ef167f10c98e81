"""Records the steps of PyTorch's optimizers and schedules; needs torch, as nothing else here does.

    PYTHONPATH=. python -m tools.record_optimizers

writes tests/optim/optimizer_results.json, which the tests there compare with.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import torch

from tests.optim.optimizer_cases import (
    OPTIMIZERS,
    SCHEDULE_STEPS,
    SCHEDULES,
    STEPS,
    case_name,
    shapes_for,
    values,
)

RESULTS = pathlib.Path(__file__).parent.parent / "tests" / "optim" / "optimizer_results.json"


def steps_of(name: str, options: dict[str, Any]) -> list[list[float]]:
    """Return all elements of all parameters after each step."""
    shapes = shapes_for(name)
    params = [torch.nn.Parameter(torch.tensor(values(s, k))) for k, s in enumerate(shapes)]
    optimizer = getattr(torch.optim, name)(params, **options)
    results = []
    for step in range(STEPS):
        for k, p in enumerate(params):
            p.grad = torch.tensor(values(shapes[k], 10 * step + k + 20))
        optimizer.step()
        flat = [v for p in params for v in p.detach().flatten().tolist()]
        results.append([float(f"{v:.7g}") for v in flat])
    return results


def rates_of(name: str, options: dict[str, Any]) -> list[float]:
    """Return the learning rates of a schedule, from the first on."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.3)
    schedule = getattr(torch.optim.lr_scheduler, name)(optimizer, **options)
    rates = [optimizer.param_groups[0]["lr"]]
    for _ in range(SCHEDULE_STEPS):
        optimizer.step()
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


if __name__ == "__main__":
    recorded = {
        "optimizers": {case_name(n, o): steps_of(n, o) for n, o in OPTIMIZERS},
        "schedules": {case_name(n, o): rates_of(n, o) for n, o in SCHEDULES},
    }
    RESULTS.write_text(json.dumps(recorded, separators=(",", ":")).replace("],[", "],\n[") + "\n")
    print(f"{RESULTS.stat().st_size // 1024} kB")
