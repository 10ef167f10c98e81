"""Running: kernels on backends and on the evaluator, and the comparison of what they leave."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pytest

from porism.backends.backend_table import BACKENDS, Backend
from porism.backends.c.c_compiler import load as load_c
from porism.backends.kernel_function import KernelFunction
from porism.base.dtypes import DType, Kind, Space
from porism.base.errors import PorismError
from porism.evaluate import Memory, run_arrays, run_list
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp

STRICT: Final = ("-Wall", "-Wextra", "-Werror")
"""The text of every kernel has to compile without a warning."""

Data = list[Array]
"""The buffers of a kernel by number; they are written in place."""


@functools.cache
def works(name: str) -> bool:
    """Whether a backend can be used here: C needs a compiler."""
    try:
        BACKENDS[name].target()
    except PorismError:
        return False
    return True


NATIVE: Final = [
    pytest.param(
        row, id=row.name, marks=pytest.mark.skipif(not works(row.name), reason="no compiler")
    )
    for row in BACKENDS.values()
    if row.load is not None
]
"""The backends that make machine code, as parameters of a test."""


def loaded(backend: Backend, named: Mapping[str, Sequence[UOp]]) -> dict[str, KernelFunction]:
    """Kernels in machine code; C without warnings."""
    if backend.name == "c":
        return load_c(named, STRICT)
    assert backend.load is not None
    return backend.load(named)


def call(
    function: KernelFunction,
    buffers: Data,
    variables: Mapping[str, int] | None = None,
    parts: int = 1,
) -> None:
    """Run a function; a loop that is shared among threads in so many parts, the last one first."""
    words = [buffers[number].ctypes.data for number in function.buffers]
    words += [(variables or {})[name] for name in function.variables]
    block = (ctypes.c_int64 * max(len(words), 1))(*words)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(function.address)
    if function.parallel is None:
        run(ctypes.addressof(block), 0, 1)
        return
    total = int(function.parallel.arg)
    ends = [total * k // parts for k in range(parts + 1)]
    for begin, end in reversed(list(itertools.pairwise(ends))):
        run(ctypes.addressof(block), begin, end)


def special_values(dtype: DType) -> Array:
    """The edges of a type, and some numbers between them."""
    if dtype.kind is Kind.BOOL:
        return np.array([False, True])
    if dtype.is_float:
        some = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.1, 3.7, -127.6, 255.5, 65504.0, 1e-7]
        some += (math.nan, math.inf, -math.inf, 3e9, -3e9, 2.0**31, 2.0**63, -(2.0**63), 2.0**64)
        some += (1e-39, 2.0**-24, 3.0 * 2.0**-26, 1 + 2.0**-8, 1 + 2.0**-11, 3.4e38, 1e300, 464.0)
        with np.errstate(all="ignore"):
            return np.array(some).astype(dtype.numpy)
    low, high = int(dtype.min), int(dtype.max)
    more = (
        low,
        low + 1,
        low // 2,
        -7,
        -1,
        0,
        1,
        2,
        3,
        7,
        8,
        31,
        32,
        63,
        64,
        high // 3,
        high - 1,
        high,
    )
    return np.array(sorted({n for n in more if low <= n <= high}), dtype.numpy)


def pointer(number: int, dtype: DType, size: int) -> UOp:
    """A kernel's parameter."""
    return UOp(ops.PARAM, dtype.pointer(Space.GLOBAL, size), (), number)


def evaluated(kernel: UOp, buffers: Data, variables: Mapping[str, int] | None = None) -> Data:
    """What the evaluator leaves in the buffers, for all iterations at once."""
    copies = [b.copy() for b in buffers]
    with np.errstate(all="ignore"):
        run_arrays(kernel, [Memory(b) for b in copies], variables or {})
    return copies


def stepped(
    lines: Sequence[UOp], buffers: Data, variables: Mapping[str, int] | None = None
) -> Data:
    """What the evaluator leaves in the buffers, step by step."""
    copies = [b.copy() for b in buffers]
    with np.errstate(all="ignore"):
        run_list(lines, [Memory(b) for b in copies], variables or {})
    return copies


def same_bits(expected: Array, found: Array, what: str, *, zeros: bool = False) -> None:
    """The same, bit by bit; NaN is NaN, and with `zeros` the sign of zero does not count."""
    assert expected.dtype == found.dtype
    if expected.dtype.kind in "fV":
        a, b = expected.astype(np.float64), found.astype(np.float64)
        equal = (a == b) | (np.isnan(a) & np.isnan(b))
        if not zeros:
            equal &= np.isnan(a) | (np.signbit(a) == np.signbit(b))
    else:
        equal = expected == found
    if not equal.all():
        at = int(np.flatnonzero(~equal)[0])
        message = f"{what}: element {at} is {found[at]!r}, not {expected[at]!r}"
        raise AssertionError(message)


def random_data(dtype: DType, size: int, seed: int) -> Array:
    """Values of a type: special ones among small whole numbers."""
    generator = np.random.default_rng(seed)
    values = special_values(dtype)
    chosen = values[generator.integers(0, len(values), size)]
    if dtype.kind is Kind.BOOL:
        return np.asarray(chosen)
    low = 0 if dtype.kind is Kind.UNSIGNED else -4
    small = generator.integers(low, 5, size).astype(dtype.numpy)
    return np.asarray(np.where(generator.random(size) < 0.5, small, chosen)).astype(dtype.numpy)


def small_numbers(dtype: DType, size: int, seed: int) -> Array:
    """Small whole numbers, whose sums are exact."""
    generator = np.random.default_rng(seed)
    if dtype.kind is Kind.BOOL:
        return generator.integers(0, 2, size).astype(np.bool_)
    low = 0 if dtype.kind is Kind.UNSIGNED else -3
    return generator.integers(low, 4, size).astype(dtype.numpy)
