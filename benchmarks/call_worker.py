"""One library, on tiny tensors: microseconds of a compiled call, and of a small operation."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

SIZE = 4
BATCHES = 300
SECONDS = 0.003
"""Of one batch, about: short, so that some fall between what else the machine does."""

Step = Callable[[], Any]
Steps = dict[str, Step]


def microseconds(step: Step) -> dict[str, float]:
    """Of one step: the best and the median of some batches."""
    for _ in range(10):
        step()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < SECONDS:
        step()
        count += 1
    batches = []
    for _ in range(BATCHES):
        begin = time.perf_counter()
        for _ in range(count):
            step()
        batches.append((time.perf_counter() - begin) / count * 1e6)
    return {"best": min(batches), "median": statistics.median(batches)}


def chain(first: Any, follow: Callable[[Any], Any]) -> Step:
    """A step that works on what the last one gave, so that nothing is known beforehand."""
    kept = [first]

    def step() -> None:
        kept[0] = follow(kept[0])

    return step


def stencil(grid: Any) -> Any:
    """Assign to the inner part of a matrix what heat conduction makes of it."""
    neighbours = grid[2:, 1:-1] + grid[:-2, 1:-1] + grid[1:-1, 2:] + grid[1:-1, :-2]
    grid[1:-1, 1:-1] += 0.1 * (neighbours - 4 * grid[1:-1, 1:-1])
    return grid


def stencils(new: Callable[[int], Any], finish: Callable[[Any], Any]) -> Steps:
    """Stencil steps on matrices of several sizes."""
    return {
        f"stencil step, {n} x {n}": chain(new(n), lambda grid: finish(stencil(grid)))
        for n in (32, 256, 512)
    }


def numpy() -> Steps:
    import numpy

    x, y = numpy.zeros(SIZE, numpy.float32), numpy.ones(SIZE, numpy.float32)
    return {
        "small operation": chain(x, lambda a: a + y),
        **stencils(lambda n: numpy.ones((n, n), numpy.float32), lambda grid: grid),
    }


def porism() -> Steps:
    import porism

    x, y = (porism.full((SIZE,), value).realize() for value in (0.0, 1.0))
    add = porism.jit(lambda a, b: a + b)
    weights = [porism.full((SIZE,), float(k)).realize() for k in range(100)]

    @porism.jit
    def many(a: Any) -> Any:
        for weight in weights:
            a = a + weight
        return a

    return {
        "jitted call": lambda: add(x, y),
        "jitted call, result fed back": chain(x, lambda a: add(a, y)),
        "jitted call with 100 weights": lambda: many(x),
        "small operation": chain(x, lambda a: (a + y).realize()),
        **stencils(lambda n: porism.ones((n, n)).realize(), lambda grid: grid.realize()),
    }


def torch() -> Steps:
    import torch  # type: ignore[import-not-found, unused-ignore]

    torch.set_num_threads(1)
    x, y = torch.zeros(SIZE), torch.ones(SIZE)
    steps: Steps = {
        "small operation": chain(x, lambda a: a + y),
        **stencils(lambda n: torch.ones(n, n), lambda grid: grid),
    }
    try:
        add = torch.compile(lambda a, b: a + b)
        add(x, y)
    except Exception as error:
        print(f"torch.compile is not measured: {type(error).__name__}", file=sys.stderr)
        return steps
    return {
        "jitted call": lambda: add(x, y),
        "jitted call, result fed back": chain(x, lambda a: add(a, y)),
        **steps,
    }


def jax() -> Steps:
    import jax  # type: ignore[import-not-found, unused-ignore]

    x, y = jax.numpy.zeros(SIZE), jax.numpy.ones(SIZE)
    add = jax.jit(lambda a, b: a + b)
    return {
        "jitted call": lambda: add(x, y).block_until_ready(),
        "jitted call, result fed back": chain(x, lambda a: add(a, y).block_until_ready()),
        "small operation": chain(x, lambda a: (a + y).block_until_ready()),
    }


def tinygrad() -> Steps:
    from tinygrad import Tensor, TinyJit  # type: ignore[import-not-found]

    x, y = Tensor.zeros(SIZE).contiguous().realize(), Tensor.ones(SIZE).contiguous().realize()
    add = TinyJit(lambda a, b: (a + b).realize())
    for _ in range(3):
        add(x, y)
    return {
        "jitted call": lambda: add(x, y),
        "small operation": chain(x, lambda a: (a + y).realize()),
    }


LIBRARIES: dict[str, Callable[[], Steps]] = {
    "porism": porism,
    "numpy": numpy,
    "torch": torch,
    "jax": jax,
    "tinygrad": tinygrad,
}


def main() -> None:
    steps = LIBRARIES[sys.argv[1]]()
    print(json.dumps({name: microseconds(step) for name, step in steps.items()}))


if __name__ == "__main__":
    main()
