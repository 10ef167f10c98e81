"""Trial: one kernel, with loops as somebody has arranged them, compiled and run on given data."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from porism.backends.backend_table import Backend
from porism.backends.kernel_function import Function
from porism.base.dtypes import DType, Kind
from porism.base.errors import ActionError
from porism.engine.run import array_allocator
from porism.engine.run.bound_sizes import number_of
from porism.engine.run.program import pool
from porism.evaluate import Memory, run_arrays, run_kernel
from porism.evaluate.evaluation import in_order
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.local_buffers import MAX_LOCAL_BYTES, local_bytes
from porism.pipeline import lower_kernel

Data = Mapping[int, Array]
"""The buffers of a kernel by number, each in one dimension; number 0 is written."""

TOLERANCE: Final = {1: 0.3, 2: 0.03, 4: 1e-4, 8: 1e-10}
"""How far floats of so many bytes may be off, in proportion to the largest value: the order of a
sum is not the same."""


def parameters(kernel: UOp) -> dict[int, UOp]:
    """The PARAMs of a kernel by number."""
    return {int(n.arg): n for n in toposort(kernel) if n.op is ops.PARAM}


def expected(kernel: UOp, data: Data, variables: Mapping[str, int]) -> Array:
    """What the evaluator says that a kernel writes."""
    written = Memory(data[0].copy())
    numbers = range(max(data) + 1)
    buffers = [Memory(data[k]) if k in data else Memory(np.zeros(0)) for k in numbers]
    buffers[0] = written
    run = run_kernel if in_order(toposort(kernel)) else run_arrays
    with np.errstate(all="ignore"):
        run(kernel, buffers, variables)
    return written.data


class Trial:
    """An arranged kernel in machine code."""

    def __init__(self, kernel: UOp, backend: Backend) -> None:
        assert backend.load is not None, "the evaluator has no machine code"
        self.lines: Sequence[UOp] = lower_kernel(kernel, backend.target(), scheduled=True)
        _refuse_much_memory(self.lines[-1])
        self.function: Function = backend.load({"kernel": self.lines})["kernel"]

    def run(self, data: Data, variables: Mapping[str, int]) -> float:
        """Run it once on the arrays, on all threads; the seconds that this took."""
        return call(self.function, data, variables)


def call(function: Function, data: Data, variables: Mapping[str, int]) -> float:
    """Run a kernel once on arrays, on all threads; the seconds that this took."""
    words = [array_allocator.address_of(data[number]) for number in function.buffers]
    words += [variables[name] for name in function.variables]
    block = (ctypes.c_int64 * max(len(words), 1))(*words)
    size = function.parallel
    shared = 1 if size is None else number_of(size, variables)
    jobs = (ctypes.c_int64 * 3)(function.address, ctypes.addressof(block), shared)
    threads = pool()
    begin = time.perf_counter()
    threads.run(ctypes.addressof(jobs), 1)
    return time.perf_counter() - begin


def _refuse_much_memory(kernel: UOp) -> None:
    """Copies that are made for several iterations at once are known only now."""
    taken = local_bytes(kernel)
    if taken > MAX_LOCAL_BYTES:
        raise ActionError(
            f"the local buffers of a kernel take {taken} bytes",
            why=f"they are on the stack of a thread, and may take {MAX_LOCAL_BYTES}; unrolled or "
            "vectorized iterations around a buffer have one each",
            fix="Pack less, or leave out an Upcast or Unroll around it",
        )


# -- data and results ------------------------------------------------------------------------------


def values_of(generator: np.random.Generator, dtype: DType, size: int) -> Array:
    """Random values of a type."""
    if dtype.kind is Kind.BOOL:
        return generator.integers(0, 2, size).astype(np.bool_)
    if dtype.is_float:
        return generator.normal(size=size).astype(dtype.numpy)
    low = 0 if dtype.kind is Kind.UNSIGNED else -8
    return generator.integers(low, 9, size).astype(dtype.numpy)


def tolerance(wanted: Array) -> float:
    """The largest difference that rounding in another order explains."""
    return TOLERANCE[wanted.dtype.itemsize] if wanted.dtype.kind in "fV" else 0.0


def difference(wanted: Array, found: Array) -> tuple[float, int]:
    """The largest difference in proportion to the largest value, and where it is."""
    if not wanted.size:
        return 0.0, 0
    a, b = (x.astype(np.float64) if x.dtype.kind in "fVb" else x for x in (wanted, found))
    same = (a == b) | ((a != a) & (b != b))
    with np.errstate(all="ignore"):
        finite = np.abs(a[np.isfinite(a)]).astype(np.float64)
        scale = max(1.0, float(finite.max(initial=0)))
        off = np.where(same, 0.0, np.abs(a.astype(np.float64) - b.astype(np.float64)) / scale)
        off = np.where(~same & ~(off > 0), np.inf, off)
    place = int(np.argmax(off))
    return float(off[place]), place
