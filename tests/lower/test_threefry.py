"""Threefry: the decomposition gives the same bits as the evaluator."""

from __future__ import annotations

import numpy as np

from porism.base.dtypes import u64
from porism.ir import ops
from tests.lower.arrays import check, operands


def test_threefry() -> None:
    chance = np.random.default_rng(4)
    counters = chance.integers(0, 1 << 64, 400, dtype=np.uint64)
    counters[:3] = 0, 1, (1 << 64) - 1
    keys = chance.permutation(counters)
    for lanes in (1, 4):
        x, y = operands(len(keys), u64, u64, lanes=lanes)
        check(ops.THREEFRY(x, y), [counters, keys])
