"""Ops: how long each op takes, beside what the table of ops says (`Op.cost`).

A long chain of an op on vectors that stay in the first cache, minus a short one, in one thread; the
lowest of many runs. The unit is such that EXP has its cost in the table: an addition in a chain,
which loads and stores nothing, is faster than one in most loops. The schedule and the optimizer of
loops weigh values by these costs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import porism
from porism import Tensor
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.ops import Op

SIZE = 4096
LENGTHS = (4, 12)
"""Two chains of an op: the difference of their times is that of the op alone."""
RUNS = 400

ONES = porism.asarray(np.linspace(1, 2, SIZE, dtype=np.float32)).realize()
DIVISORS = porism.asarray((np.arange(SIZE) % 37 + 3).astype(np.int32)).realize()

CHAINS: dict[Op, tuple[str, Callable[[Tensor], Any]]] = {
    ops.ADD: ("float32", lambda x: x + ONES),
    ops.MUL: ("float32", lambda x: x * ONES),
    ops.FDIV: ("float32", lambda x: ONES / x),
    ops.RECIPROCAL: ("float32", lambda x: 1 / x),
    ops.SQRT: ("float32", porism.sqrt),
    ops.EXP: ("float32", lambda x: porism.exp(-x)),
    ops.EXP2: ("float32", lambda x: porism.exp2(-x)),
    ops.EXPM1: ("float32", porism.expm1),
    ops.TANH: ("float32", porism.tanh),
    ops.LOG2: ("float32", lambda x: porism.log2(x + 2)),
    ops.SIN: ("float32", porism.sin),
    ops.POW: ("float32", lambda x: x**ONES),
    ops.IDIV: ("int32", lambda x: x // DIVISORS + 100),
    ops.MOD: ("int32", lambda x: x % DIVISORS + 100),
}
"""For each op a type and a link of a chain, whose values stay in its domain."""


def seconds(dtype: str, link: Callable[[Tensor], Any], length: int) -> float:
    """Return the time of a chain of so many links."""

    @porism.jit
    def chain(x: Tensor) -> Any:
        for _ in range(length):
            x = link(x)
        return x

    start = porism.asarray(np.linspace(1, 2, SIZE).astype(dtype)).realize()
    chain(start).realize()
    best = float("inf")
    for _ in range(RUNS):
        begin = time.perf_counter()
        chain(start).realize()
        best = min(best, time.perf_counter() - begin)
    return best


def measure() -> dict[str, float]:
    """Return the cost of each op, in the unit of the table."""
    each = {}
    with settings.override(threads=1):
        for op, (dtype, link) in CHAINS.items():
            short, long = (seconds(dtype, link, length) for length in LENGTHS)
            each[op.name] = (long - short) / (LENGTHS[1] - LENGTHS[0])
    unit = each["EXP"] / ops.EXP.cost
    return {name: value / unit for name, value in each.items()}


def main() -> None:
    """Print the measured costs beside those of the table."""
    parser = argparse.ArgumentParser(
        prog="./dev bench ops", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    costs = measure()
    table = Table("op", "measured", "Op.cost")
    for op in CHAINS:
        table.add_row(op.name, f"{costs[op.name]:.1f}", f"{op.cost:g}")
    Console().print(table)
    if options.json is not None:
        options.json.write_text(json.dumps(costs, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
