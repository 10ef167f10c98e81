"""A graph of many layers, in a process of its own: `cpu_layers COUNT`.

Prints the seconds of each step from a function to its results, and the largest memory. The layers
have three widths in turn, so that there are more kernels than one; nothing is read from disk.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np

import porism
from porism import Tensor
from porism.backends.backend_table import BACKENDS
from porism.base.settings import settings
from porism.engine.run import backend_runners, realize

WIDTHS = (64, 96, 128)
BATCH = 32
RUNS = 9


def main() -> None:
    count = int(sys.argv[1])
    rng = np.random.default_rng(0)

    def data(*shape: int) -> Tensor:
        array = rng.standard_normal(shape, dtype=np.float32) / np.float32(shape[0]) ** 0.5
        return porism.asarray(array.astype(np.float32)).realize()

    widths = [WIDTHS[k % len(WIDTHS)] for k in range(count + 1)]
    pairs = list(pairwise(widths))
    weights = [(data(before, after), data(after)) for before, after in pairs]
    x = data(BATCH, widths[0])

    def network(y: Tensor) -> Tensor:
        for weight, bias in weights:
            y = porism.relu(y @ weight + bias)
        return y

    outcome: dict[str, float] = {"layers": count}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        outcome[name] = time.perf_counter() - begin

    (data(5, 7) @ data(7, 3)).sum().realize()  # loads what is loaded when it is first used
    with step("build"):
        result = network(x)
    with step("schedule"):
        schedule = realize.schedule_of(realize.request([result.node]).graph)
    with step("compile"):
        backend_runners.program_of(schedule, BACKENDS[settings.backend])
    with step("first run"):
        result.realize()
    jitted = porism.jit(network)
    jitted(x).realize()
    begin = time.perf_counter()
    for _ in range(RUNS):
        jitted(x).realize()
    outcome["run"] = (time.perf_counter() - begin) / RUNS
    outcome["kernels"] = len(schedule.steps)
    outcome["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
