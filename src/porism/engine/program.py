"""Program: a schedule in machine code, and what it needs to run.

The kernels of a schedule are compiled together, those that were compiled before are taken from a
table. To run, the addresses of the buffers are written into one block of arguments, and one native
call does the rest.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from porism.backends.function import Function
from porism.backends.llvm.pool import Pool
from porism.backends.table import BACKENDS, Backend
from porism.base.settings import settings
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.semantics import Array
from porism.pipeline import to_lines
from porism.schedule.schedule import Buffer, Role, Schedule

ALIGNMENT: Final = 128
"""Of buffers, in bytes."""

_functions: dict[tuple[str, UOp], Function] = {}
_lock = threading.RLock()
_pools: dict[tuple[int, int], Pool] = {}


def pool() -> Pool:
    """The threads of this process; after a fork, new ones."""
    threads = settings.threads or os.cpu_count() or 1
    key = (os.getpid(), threads)
    found = _pools.get(key)
    if found is None:
        with _lock:
            if key not in _pools:
                _pools[key] = Pool(threads)
            found = _pools[key]
    return found


def new_array(size: int, dtype: np.dtype[np.generic]) -> Array:
    """An array that is not set to anything, aligned for vectors."""
    room = np.empty(size * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + size * dtype.itemsize].view(dtype)


class Program:
    """One schedule, ready to run."""

    def __init__(self, schedule: Schedule, backend: Backend = BACKENDS["llvm"]) -> None:
        self.schedule = schedule
        self.functions = compiled([step.kernel for step in schedule.steps], backend)
        self.slots: list[list[int]] = [[] for _ in schedule.buffers]
        self.variables: list[tuple[int, str]] = []
        self.begins: list[int] = []
        at = 0
        for step, function in zip(schedule.steps, self.functions, strict=True):
            self.begins.append(at)
            for number in function.buffers:
                self.slots[step.buffers[number]].append(at)
                at += 1
            for name in function.variables:
                self.variables.append((at, name))
                at += 1
        self.words = at

    def run(self, inputs: Sequence[Array], variables: Mapping[str, int]) -> list[Array]:
        """The outputs, each in one dimension."""
        schedule = self.schedule
        words = (ctypes.c_int64 * max(self.words, 1))()
        arena = new_array(schedule.arena.peak, np.dtype(np.uint8))
        base = arena.ctypes.data
        outputs: dict[int, Array] = {}
        for place, buffer in enumerate(schedule.buffers):
            if buffer.role is Role.INPUT:
                address = inputs[buffer.number].ctypes.data
            elif buffer.role is Role.OUTPUT:
                outputs[place] = new_array(size_of(buffer, variables), buffer.dtype.numpy)
                address = outputs[place].ctypes.data
            else:
                address = base + schedule.arena.offsets[buffer.number]
            for slot in self.slots[place]:
                words[slot] = address
        for slot, name in self.variables:
            words[slot] = variables[name]
        many = len(schedule.steps)
        jobs = (ctypes.c_int64 * (3 * max(many, 1)))()
        start = ctypes.addressof(words)
        for k, function in enumerate(self.functions):
            jobs[3 * k] = function.address
            jobs[3 * k + 1] = start + 8 * self.begins[k]
            shared = function.parallel
            jobs[3 * k + 2] = 1 if shared is None else number(shared, variables)
        pool().run(ctypes.addressof(jobs), many)
        return [outputs[place] for place in schedule.outputs]


def number(size: UOp, variables: Mapping[str, int]) -> int:
    """A size in this run."""
    return int(size.arg) if size.op is ops.CONST else int(evaluate(size, {}, variables)[0])


def size_of(buffer: Buffer, variables: Mapping[str, int]) -> int:
    """The elements of a buffer in this run."""
    total = 1
    for dim in buffer.dims:
        total *= number(dim, variables)
    return total


def compiled(kernels: Sequence[UOp], backend: Backend = BACKENDS["llvm"]) -> list[Function]:
    """Kernels in machine code; new ones are compiled together."""
    assert backend.load is not None, "the evaluator has no machine code"
    with _lock:
        keys = [(backend.name, kernel) for kernel in kernels]
        missing = [key for key in dict.fromkeys(keys) if key not in _functions]
        if missing:
            target = backend.target()
            named = {f"kernel{n}": to_lines(k, target) for n, (_, k) in enumerate(missing)}
            found = backend.load(named)
            for n, key in enumerate(missing):
                _functions[key] = found[f"kernel{n}"]
        return [_functions[key] for key in keys]
