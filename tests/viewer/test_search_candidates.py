"""Candidates that tuning measured are part of the report of a kernel."""

from __future__ import annotations

import numpy as np

import porism
from porism.engine.tune.search_history import keep_candidates, searched


def test_candidates_are_reported_in_order() -> None:
    x = porism.asarray(np.ones((13, 17), np.float32)) * 3
    (kernel,) = porism.kernels(x)
    assert searched(kernel.node) == []
    keep_candidates(kernel.node, [(2e-6, ()), (1e-6, (porism.Upcast("r0", 4),))])
    data = porism.view(x, runs=1).data
    assert data["kernels"][0]["search"] == [[2e-6, "no actions"], [1e-6, "Upcast('r0', 4)"]]
