"""Self-test: small programs on every backend and device, compared with NumPy, within seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from porism.backends.backend_table import BACKENDS
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.engine.device.device_table import device_names
from porism.ir.facts.semantics import Array
from porism.tensor import namespace

SECONDS: Final = 5.0
"""The time limit of the whole test, in seconds; chosen by hand."""

RESERVE: Final = 1.0
"""No program is started in the last so many seconds of the limit; chosen by hand."""


@dataclass(frozen=True, slots=True)
class Program:
    """A computation in Porism, and the same in NumPy."""

    name: str
    compute: Callable[..., Any]
    """Computes the result of tensors."""
    expected: Callable[..., Array]
    """Computes the result of NumPy arrays."""
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"
    tolerance: float = 1e-5
    """The largest difference relative to the largest value; absolute below 1."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a program on a backend."""

    backend: str
    """The backend, or the device if it is not the processor."""
    program: str
    ok: bool
    seconds: float
    text: str
    """What is wrong; empty if the result is right."""


def _softmax(x: Array) -> Array:
    """Return the softmax of the last axis in NumPy."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _convolve(x: Array, w: Array) -> Array:
    """Return a 2-D convolution without padding in NumPy."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.asarray(np.einsum("nchwij,ocij->nohw", windows, w))


def programs() -> tuple[Program, ...]:
    """Return the programs: elementwise, reduction, products, convolution, integers, scan."""
    exp, sin, conv2d = map(namespace.find, ("exp", "sin", "conv2d"))
    return (
        Program(
            "elementwise",
            lambda x, y: exp(-x * x) + sin(y) / 2,
            lambda x, y: np.exp(-x * x) + np.sin(y) / 2,
            ((7, 33), (7, 33)),
        ),
        Program("softmax", lambda x: x.softmax(), _softmax, ((9, 40),)),
        Program(
            "matmul",
            lambda a, b: (a @ b).relu(),
            lambda a, b: np.maximum(a @ b, 0),
            ((24, 33), (33, 40)),
            tolerance=1e-4,
        ),
        Program(
            "convolution", conv2d, _convolve, ((1, 3, 9, 9), (4, 3, 3, 3)), tolerance=1e-4
        ),
        Program(
            "integers",
            lambda x, y: (x // 7 + y % 5).sum(axis=0),
            lambda x, y: (x // 7 + y % 5).sum(axis=0),
            ((12, 19), (12, 19)),
            dtype="int64",
            tolerance=0.0,
        ),
        Program(
            "cumulative sum", lambda x: x.cumsum(1)[:, ::-1],
            lambda x: np.cumsum(x, axis=1)[:, ::-1], ((5, 31),), tolerance=1e-4,
        ),
    )  # fmt: skip


def run(seconds: float = SECONDS, backends: Sequence[str] = ()) -> Iterator[Result]:
    """Run every program on every usable backend and device until the time limit.

    Yields the outcomes.
    """
    begin = time.perf_counter()
    for name in backends or (*device_names()[1:], *usable()):
        for program in programs():
            if time.perf_counter() - begin > seconds - RESERVE:
                return
            yield _run(program, name)


def usable() -> list[str]:
    """Return the names of the usable backends, the fastest to compile first."""
    names = []
    for name in sorted(BACKENDS, key=lambda name: name == "c"):
        try:
            BACKENDS[name].target()
        except (PorismError, OSError):
            continue
        names.append(name)
    return names


def _run(program: Program, backend: str) -> Result:
    """Run one program on a backend or a device, and compare its result with that of NumPy."""
    arrays = _data(program)
    begin = time.perf_counter()
    try:
        # The cache on disk is not used: this tests the compiler.
        chosen = {"backend": backend} if backend in BACKENDS else {"device": backend}
        with settings.override(**chosen, cache=False), np.errstate(all="ignore"):
            actual = _compute(program, arrays)
            fault = _fault(np.asarray(program.expected(*arrays)), actual, program.tolerance)
    except Exception as error:  # any error is a result of the test
        fault = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    return Result(backend, program.name, not fault, time.perf_counter() - begin, fault)


def _compute(program: Program, arrays: Sequence[Array]) -> Array:
    """Return the result of a program on the backend of the settings."""
    asarray = namespace.find("asarray")
    result = program.compute(*map(asarray, arrays))
    return np.asarray(result.numpy())


def _data(program: Program) -> list[Array]:
    """Return random operands of a program, the same in every run."""
    generator = np.random.default_rng(0)
    if program.dtype == "int64":
        return [generator.integers(-99, 99, shape) for shape in program.shapes]
    return [generator.standard_normal(shape).astype(program.dtype) for shape in program.shapes]


def _fault(expected: Array, actual: Array, tolerance: float) -> str:
    """Return what is wrong with a result; empty if it is right."""
    if actual.shape != expected.shape:
        return f"the shape is {actual.shape} and not {expected.shape}"
    off = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    worst = float(off.max(initial=0))
    allowed = tolerance * max(1.0, float(np.abs(expected).max(initial=0)))
    return "" if worst <= allowed else f"off by {worst:.2g}, where {allowed:.2g} is allowed"


def summary(results: Sequence[Result]) -> Mapping[str, str]:
    """Return for each backend how many programs are right, in words."""
    texts: dict[str, str] = {}
    for name in dict.fromkeys(result.backend for result in results):
        own = [result for result in results if result.backend == name]
        wrong = [f"{r.program}: {r.text}" for r in own if not r.ok]
        took = f"{sum(r.seconds for r in own):.2f} s"
        right = f"{len(own) - len(wrong)} of {len(own)} programs agree with NumPy, {took}"
        texts[name] = "; ".join([right, *wrong])
    return texts
