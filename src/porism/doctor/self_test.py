"""The self-test: small programs on every backend, compared with NumPy, within a few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from porism.backends.backend_table import BACKENDS
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.ir.facts.semantics import Array
from porism.tensor import namespace

SECONDS: Final = 5.0
"""What the whole test may take; programs that would begin later are left out."""

ROOM: Final = 1.0
"""Of these, seconds that are left to a program that has begun."""


@dataclass(frozen=True, slots=True)
class Program:
    """A computation in both worlds."""

    name: str
    compute: Callable[..., Any]
    """On tensors of Porism."""
    expected: Callable[..., Array]
    """On arrays of NumPy."""
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"
    tolerance: float = 1e-5


@dataclass(frozen=True, slots=True)
class Result:
    """How a program went on a backend."""

    backend: str
    program: str
    ok: bool
    seconds: float
    text: str
    """What is wrong; nothing if it is all right."""


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _convolved(x: Array, w: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.asarray(np.einsum("nchwij,ocij->nohw", windows, w))


def programs() -> tuple[Program, ...]:
    """Those of the test: elementwise, a reduction, products, windows, integers, indices, a scan."""
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
            "convolution", conv2d, _convolved, ((1, 3, 9, 9), (4, 3, 3, 3)), tolerance=1e-4
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
    """Run every program on every backend that is there, as long as there is time."""
    begin = time.perf_counter()
    for name in backends or usable():
        for program in programs():
            if time.perf_counter() - begin > seconds - ROOM:
                return
            yield _run(program, name)


def usable() -> list[str]:
    """The backends that can be used, the fastest to compile first."""
    found = []
    for name in sorted(BACKENDS, key=lambda name: name == "c"):
        try:
            BACKENDS[name].target()
        except (PorismError, OSError):
            continue
        found.append(name)
    return found


def _run(program: Program, backend: str) -> Result:
    arrays = _data(program)
    begin = time.perf_counter()
    try:
        # What is on disk is not used: this is a test of the compiler.
        with settings.override(backend=backend, cache=False), np.errstate(all="ignore"):
            found = _computed(program, arrays)
            fault = _fault(np.asarray(program.expected(*arrays)), found, program.tolerance)
    except Exception as error:  # whatever it is, the others are to be tried
        fault = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    return Result(backend, program.name, not fault, time.perf_counter() - begin, fault)


def _computed(program: Program, arrays: Sequence[Array]) -> Array:
    asarray = namespace.find("asarray")
    result = program.compute(*map(asarray, arrays))
    return np.asarray(result.numpy())


def _data(program: Program) -> list[Array]:
    generator = np.random.default_rng(0)
    if program.dtype == "int64":
        return [generator.integers(-99, 99, shape) for shape in program.shapes]
    return [generator.standard_normal(shape).astype(program.dtype) for shape in program.shapes]


def _fault(expected: Array, found: Array, tolerance: float) -> str:
    if found.shape != expected.shape:
        return f"the shape is {found.shape} and not {expected.shape}"
    off = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    worst = float(off.max(initial=0))
    allowed = tolerance * max(1.0, float(np.abs(expected).max(initial=0)))
    return "" if worst <= allowed else f"off by {worst:.2g}, where {allowed:.2g} is allowed"


def summary(results: Sequence[Result]) -> Mapping[str, str]:
    """For each backend how its programs went, in words."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(result.backend for result in results):
        own = [result for result in results if result.backend == name]
        wrong = [f"{r.program}: {r.text}" for r in own if not r.ok]
        took = f"{sum(r.seconds for r in own):.2f} s"
        right = f"{len(own) - len(wrong)} of {len(own)} programs agree with NumPy, {took}"
        found[name] = "; ".join([right, *wrong])
    return found
