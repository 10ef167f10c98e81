"""Kernel trial: a scheduled kernel compiled, run on given data, and compared."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from porism.backends.backend_table import Backend
from porism.backends.kernel_function import KernelFunction
from porism.base.dtypes import DType, Kind
from porism.base.errors import ActionError
from porism.engine.run import array_allocator
from porism.engine.run.bound_sizes import evaluate_size
from porism.engine.run.program import thread_pool
from porism.evaluate import Memory, run_arrays, run_kernel
from porism.evaluate.evaluation import needs_steps
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.local_buffers import MAX_LOCAL_BYTES, local_bytes
from porism.pipeline import lower_kernel

Buffers = Mapping[int, Array]
"""The buffers of a kernel by PARAM number, each one-dimensional; number 0 is written."""

TOLERANCE: Final = {1: 0.3, 2: 0.03, 4: 1e-4, 8: 1e-10}
"""The largest error by bytes of a float, relative to the largest value: sums are reordered.

Chosen by hand.
"""


def parameters(kernel: UOp) -> dict[int, UOp]:
    """Return the PARAMs of a kernel by number."""
    return {int(n.arg): n for n in toposort(kernel) if n.op is ops.PARAM}


def reference_result(kernel: UOp, data: Buffers, variables: Mapping[str, int]) -> Array:
    """Return what a kernel writes according to the evaluator."""
    written = Memory(data[0].copy())
    numbers = range(max(data) + 1)
    buffers = [Memory(data[k]) if k in data else Memory(np.zeros(0)) for k in numbers]
    buffers[0] = written
    run = run_kernel if needs_steps(toposort(kernel)) else run_arrays
    with np.errstate(all="ignore"):
        run(kernel, buffers, variables)
    return written.data


class CompiledTrial:
    """A scheduled kernel in machine code."""

    def __init__(self, kernel: UOp, backend: Backend) -> None:
        assert backend.load is not None, "the evaluator has no machine code"
        self.lines: Sequence[UOp] = lower_kernel(kernel, backend.target(), scheduled=True)
        _check_stack_bytes(self.lines[-1])
        self.function: KernelFunction = backend.load({"kernel": self.lines})["kernel"]

    def run(self, data: Buffers, variables: Mapping[str, int]) -> float:
        """Run once on the arrays, on all threads; return the seconds."""
        return run_function(self.function, data, variables)


def run_function(function: KernelFunction, data: Buffers, variables: Mapping[str, int]) -> float:
    """Run a function once on arrays, on all threads; return the seconds."""
    words = [array_allocator.address_of(data[number]) for number in function.buffers]
    words += [variables[name] for name in function.variables]
    arguments = (ctypes.c_int64 * max(len(words), 1))(*words)
    size = function.parallel
    iterations = 1 if size is None else evaluate_size(size, variables)
    jobs = (ctypes.c_int64 * 3)(function.address, ctypes.addressof(arguments), iterations)
    threads = thread_pool()
    begin = time.perf_counter()
    threads.run(ctypes.addressof(jobs), 1)
    return time.perf_counter() - begin


def _check_stack_bytes(kernel: UOp) -> None:
    """Raise an `ActionError` if the local buffers of a lowered kernel exceed the stack.

    Vectorizing and unrolling multiply them, so their size is known only after lowering.
    """
    local_buffer_bytes = local_bytes(kernel)
    if local_buffer_bytes > MAX_LOCAL_BYTES:
        raise ActionError(
            f"the local buffers of a kernel take {local_buffer_bytes} bytes",
            why=f"they are on the stack of a thread, and may take {MAX_LOCAL_BYTES}; unrolled or "
            "vectorized iterations around a buffer have one each",
            fix="Pack less, or leave out an Upcast or Unroll around it",
        )


# -- data and results ------------------------------------------------------------------------------


def random_values(generator: np.random.Generator, dtype: DType, size: int) -> Array:
    """Return `size` random values of a type."""
    if dtype.kind is Kind.BOOL:
        return generator.integers(0, 2, size).astype(np.bool_)
    if dtype.is_float:
        return generator.normal(size=size).astype(dtype.numpy)
    low = 0 if dtype.kind is Kind.UNSIGNED else -8
    return generator.integers(low, 9, size).astype(dtype.numpy)


def tolerance(expected: Array) -> float:
    """Return the largest relative difference that reordered rounding explains."""
    return TOLERANCE[expected.dtype.itemsize] if expected.dtype.kind in "fV" else 0.0


def largest_difference(expected: Array, actual: Array) -> tuple[float, int]:
    """Return the largest difference, relative to the largest value, and its position."""
    if not expected.size:
        return 0.0, 0
    a, b = (x.astype(np.float64) if x.dtype.kind in "fVb" else x for x in (expected, actual))
    same = (a == b) | ((a != a) & (b != b))
    with np.errstate(all="ignore"):
        finite = np.abs(a[np.isfinite(a)]).astype(np.float64)
        scale = max(1.0, float(finite.max(initial=0)))
        error = np.where(same, 0.0, np.abs(a.astype(np.float64) - b.astype(np.float64)) / scale)
        error = np.where(~same & ~(error > 0), np.inf, error)
    position = int(np.argmax(error))
    return float(error[position]), position
