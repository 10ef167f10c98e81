"""Fourier transforms: time and error beside NumPy, and SciPy, PyTorch and JAX where they are there.

    ./dev bench fft [--json FILE] [--quick]

Each library transforms the same complex64 numbers, in memory and compiled before; the time is the
least of several calls. The error is the largest difference from NumPy in double precision, over the
largest element. Porism transforms parts; interleaving them to an array of NumPy's is not included.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import porism

SHAPES: tuple[tuple[tuple[int, ...], int], ...] = (
    *(((1 << k,), 1) for k in (3, 6, 8, 10, 12, 14, 16, 18, 20, 22)),
    ((1000,), 1),
    ((100_000,), 1),
    ((10_007,), 1),
    ((1_000_003,), 1),
    ((64, 1024), 1),
    ((4096, 64), 1),
    ((512, 512), 2),
    ((2048, 2048), 2),
)
"""Shapes, and over how many of the last axes: powers of two, mixed, primes, batches, 2-D."""


def least_seconds(function: Callable[[], Any], budget: float) -> float:
    """Return the least time of a call, in a budget of seconds, after two calls to warm up."""
    function()
    function()
    least, end = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < end:
        start = time.perf_counter()
        function()
        least = min(least, time.perf_counter() - start)
    return least


def peers(x: Any, axes: tuple[int, ...]) -> dict[str, Callable[[], Any]]:
    """Return a transform by each library that can be imported."""
    found: dict[str, Callable[[], Any]] = {"numpy": lambda: np.fft.fftn(x, axes=axes)}
    if importlib.util.find_spec("scipy"):
        import scipy.fft

        found["scipy"] = lambda: scipy.fft.fftn(x, axes=axes, workers=-1)
    if importlib.util.find_spec("torch"):
        import torch

        tensor = torch.from_numpy(x)
        found["torch"] = lambda: torch.fft.fftn(tensor, dim=axes)
    if importlib.util.find_spec("jax"):
        import jax

        jitted, array = jax.jit(lambda x: jax.numpy.fft.fftn(x, axes=axes)), jax.numpy.asarray(x)
        found["jax"] = lambda: jitted(array).block_until_ready()
    return found


def measure(shape: tuple[int, ...], count: int, budget: float) -> dict[str, Any]:
    """Return the times of all libraries, in seconds, and our error, for one shape."""
    random = np.random.default_rng(0)
    x = (random.normal(size=shape) + 1j * random.normal(size=shape)).astype(np.complex64)
    axes = tuple(range(-count, 0))
    tensor = porism.asarray(x)
    jitted = porism.jit(lambda z: porism.fft.fftn(z, axes=axes))
    started = time.perf_counter()
    result = jitted(tensor).numpy()
    first = time.perf_counter() - started
    exact = np.fft.fftn(x.astype(np.complex128), axes=axes)
    times = {name: least_seconds(f, budget) for name, f in peers(x, axes).items()}
    return {
        "shape": list(shape),
        "axes": count,
        "first": first,
        "error": float(np.abs(result - exact).max() / np.abs(exact).max()),
        "numpy_error": float(np.abs(np.fft.fftn(x, axes=axes) - exact).max() / np.abs(exact).max()),
        "seconds": {"porism": least_seconds(lambda: jitted(tensor), budget), **times},
    }


def main() -> int:
    """Print a table, and write the figures to a file."""
    parser = argparse.ArgumentParser(prog="./dev bench fft", description=__doc__)
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--quick", action="store_true", help="a tenth of the time")
    options = parser.parse_args()
    rows = []
    for shape, count in SHAPES:
        row = measure(shape, count, 0.05 if options.quick else 0.5)
        rows.append(row)
        own = row["seconds"]["porism"]
        beside = "  ".join(
            f"{name} {seconds * 1e6:9.0f} µs ({seconds / own:5.2f}x)"
            for name, seconds in row["seconds"].items()
            if name != "porism"
        )
        name = "x".join(map(str, shape)) + (" 2-D" if count == 2 else "")
        errors = f"error {row['error']:.1e} (numpy {row['numpy_error']:.1e})"
        first = f"first {row['first']:.2f} s"
        print(f"{name:>14}  porism {own * 1e6:9.0f} µs  {beside}  {errors}  {first}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
