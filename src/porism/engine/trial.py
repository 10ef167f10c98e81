"""Trial: one kernel, with loops as somebody has arranged them, compiled and run on given data."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence

import numpy as np

from porism.backends.function import Function
from porism.backends.table import Backend
from porism.engine import memory
from porism.engine.program import pool
from porism.engine.sizes import number_of
from porism.evaluate import Memory, run_arrays, run_kernel
from porism.evaluate.run import in_order
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.semantics import Array
from porism.ir.walk import toposort
from porism.pipeline import to_lines

Data = Mapping[int, Array]
"""The buffers of a kernel by number, each in one dimension; number 0 is written."""


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
        self.lines: Sequence[UOp] = to_lines(kernel, backend.target(), arranged=True)
        self.function: Function = backend.load({"kernel": self.lines})["kernel"]

    def run(self, data: Data, variables: Mapping[str, int]) -> float:
        """Run it once on the arrays, on all threads; the seconds that this took."""
        function = self.function
        words = [memory.address_of(data[number]) for number in function.buffers]
        words += [variables[name] for name in function.variables]
        block = (ctypes.c_int64 * max(len(words), 1))(*words)
        size = function.parallel
        shared = 1 if size is None else number_of(size, variables)
        jobs = (ctypes.c_int64 * 3)(function.address, ctypes.addressof(block), shared)
        threads = pool()
        begin = time.perf_counter()
        threads.run(ctypes.addressof(jobs), 1)
        return time.perf_counter() - begin
