"""A program of the survey: a function of operations and inputs, and how its inputs are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.cpu_operations import Program
from benchmarks.cpu_workloads import Workload

Operations = Any
"""Those of `cpu_operations`, and what the modules `survey_on_…` of a backend add to them."""
Draw = Callable[[Generator], NDArray[Any]]
DTYPES = {"bfloat16": ml_dtypes.bfloat16}
"""Those that NumPy has no name for."""
LENGTHS = (1, 1, 1)
"""The survey has no roofline: operations and bytes are not counted."""


def entry(run: Program, tolerance: Any = 1e-4, weights: Any = False, **inputs: Draw) -> Workload:
    """A program on inputs; with `weights` all but x are constants of a model."""

    def make(rng: Generator) -> dict[str, NDArray[Any]]:
        return {name: draw(rng) for name, draw in inputs.items()}

    return Workload(run, make, *LENGTHS, tolerance, weights=weights)


def normal(*shape: int, scale: float = 1.0, dtype: str = "float32") -> Draw:
    def draw(rng: Generator) -> NDArray[Any]:
        values = rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)
        return np.asarray(values).astype(DTYPES.get(dtype, dtype))

    return draw


def positive(*shape: int) -> Draw:
    """From 0.1 to 1.1."""
    return lambda rng: np.asarray(rng.random(shape, dtype=np.float32) + np.float32(0.1))


def whole(high: int, *shape: int, low: int = 0, dtype: str = "int64") -> Draw:
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


def ordered(size: int) -> Draw:
    return lambda rng: np.sort(rng.standard_normal(size, dtype=np.float32))


def shuffled(size: int) -> Draw:
    return lambda rng: rng.permutation(size)


def waves(*shape: int) -> Draw:
    """Complex numbers."""

    def draw(rng: Generator) -> NDArray[Any]:
        parts = rng.standard_normal((2, *shape), dtype=np.float32)
        return np.asarray(parts[0] + 1j * parts[1]).astype(np.complex64)

    return draw
