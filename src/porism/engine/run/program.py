"""Program: a schedule in machine code, and what it needs to run.

The kernels of a schedule are compiled together, those that were compiled before are taken from a
table. To run, the addresses of the buffers are written into one block of arguments, and one native
call does the rest. A block is kept for the next run, which does not have to set it up again.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from porism.backends.backend_table import BACKENDS, Backend
from porism.backends.kernel_function import Function
from porism.backends.llvm.thread_pool import ORDER, Pool
from porism.base.interrupts import apart
from porism.base.settings import loud, plain, settings
from porism.engine.cache import kernel_cache
from porism.engine.profile import kernel_observer
from porism.engine.profile.work_counts import most_steps
from porism.engine.run import array_allocator
from porism.engine.run.array_allocator import array_in, take
from porism.engine.run.bound_sizes import number_of, size_of
from porism.engine.run.buffer_storage import Held
from porism.engine.run.prepacked_constants import Packing
from porism.engine.tune.tuning_cache import known_actions
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.node_collector import forget_unused
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Actions
from porism.schedule.schedule import Role, Schedule

JOB: Final = 24
"""Bytes of a job: a function, its arguments, and the iterations to share."""

MOST_SIZES: Final = 4096
"""Values of variables for which a program keeps the sizes that follow from them."""

MOST_FUNCTIONS: Final = 4096
"""Kernels in machine code that are kept; the oldest go, but for those of programs that are kept."""

LONG: Final = 1e9
"""Nodes computed in a run from which on it may take a second, on a slow core without vectors."""

_functions: dict[tuple[str, UOp, Actions | None], Function] = {}
"""By backend, kernel, and the actions that it was tuned with."""
_lock = threading.RLock()
_pools: dict[int, Pool] = {}
_NEVER: Final[tuple[Any, Any]] = (object(), None)
_latest: tuple[Any, Any] = _NEVER
"""The settings as they were when threads were last asked for, and those threads."""


def pool() -> Pool:
    """The threads of this process; after a fork, new ones."""
    global _latest
    values, threads = plain(), settings.threads
    found = _pools.get(threads)
    if found is None:
        with _lock:
            if threads not in _pools:
                _pools[threads] = Pool(threads or os.cpu_count() or 1)
            found = _pools[threads]
    if values is not None:
        _latest = values, found
    return found


def _after_fork() -> None:
    # The threads are not in this process, and one of them may have held the lock.
    global _lock, _latest
    _pools.clear()
    _latest = _NEVER
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


Output = tuple[int, np.dtype[Any], list[int]]
"""The bytes of an output, the type of its elements, and the words with its address."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What follows from the values of the variables."""

    variables: tuple[int, ...]
    outputs: tuple[Output, ...]
    shared: tuple[int, ...]
    """For each kernel the iterations that threads share."""


class Frame:
    """A block of arguments; one run at a time uses it."""

    __slots__ = ("address", "arena", "order", "pool", "sizes", "words")

    def __init__(self, program: Program) -> None:
        self.words = (ctypes.c_int64 * max(program.words, 1))()
        self.order = (ctypes.c_int64 * (ORDER + 3 * len(program.functions)))()
        self.order[1] = len(program.functions)
        self.address = ctypes.addressof(self.order)
        self.pool = 0
        self.sizes: Sizes | None = None
        self.arena = 0
        start = ctypes.addressof(self.words)
        for k, function in enumerate(program.functions):
            self.order[ORDER + 3 * k] = function.address
            self.order[ORDER + 3 * k + 1] = start + 8 * program.begins[k]


class Program:
    """One schedule, ready to run."""

    def __init__(
        self,
        schedule: Schedule,
        backend: Backend = BACKENDS["llvm"],
        constants: frozenset[int] = frozenset(),
    ) -> None:
        self.schedule = schedule
        self.backend = backend
        if settings.beam:
            from porism.engine.tune.program_comparison import tune_whole

            tune_whole(schedule, backend, constants)
        self.packing = Packing(schedule, backend, constants)
        self.functions, copying = self._compiled()
        self.begins: list[int] = []
        slots: list[list[int]] = [[] for _ in schedule.buffers]
        packed: list[list[int]] = [[] for _ in copying]
        variables: list[tuple[int, str]] = []
        at = 0
        for k, (step, function) in enumerate(zip(schedule.steps, self.functions, strict=True)):
            self.begins.append(at)
            for number in function.buffers:
                copy = self.packing.places.get((k, number))
                where = slots[step.buffers[number]] if copy is None else packed[copy]
                where.append(at)
                at += 1
            for name in function.variables:
                variables.append((at, name))
                at += 1
        self.words = at
        """Of a block of arguments."""
        placed = list(zip(schedule.buffers, slots, strict=True))
        self.inputs = [(b.number, s) for b, where in placed if b.role is Role.INPUT for s in where]
        """The words with the addresses of inputs, by the numbers of their PARAMs."""
        self.outputs = [(b.dtype.numpy, where) for b, where in placed if b.role is Role.OUTPUT]
        offsets = schedule.arena.offsets
        self.temporaries = [
            (offsets[b.number], slot)
            for b, where in placed
            if b.role is Role.TEMPORARY
            for slot in where
        ]
        written = [k for k, b in enumerate(schedule.buffers) if b.role is Role.OUTPUT]
        order = [written.index(place) for place in schedule.outputs]
        self.order = None if order == list(range(len(written))) else order
        """Which of the outputs is wanted for each root of the graph, if not each for one."""
        self.count = len(self.functions)
        self.is_recent = True
        """Whether somebody asked for it since programs were last forgotten."""
        self.is_long = _steps(schedule) >= LONG
        """Whether a run is not made in the main thread, so that an interrupt is answered."""
        self.names = tuple(sorted(_variables(schedule)))
        self.variables = [(slot, self.names.index(name)) for slot, name in variables]
        self.packs = [(copy, slot) for copy, where in enumerate(packed) for slot in where]
        """The words with the addresses of copies of constants."""
        self._copying = copying
        self._sizes: dict[tuple[int, ...], Sizes] = {}
        self._idle: list[Frame] = []

    def run(self, inputs: Sequence[Array], variables: Mapping[str, int]) -> list[Array]:
        """The outputs, each in one dimension."""
        held = [(array, array_allocator.address_of(array)) for array in inputs]
        return [array for array, _ in self.call(held, variables)]

    def _compiled(self) -> tuple[list[Function], list[Function]]:
        """The kernels in machine code, and those that make copies of constants for them."""
        packing = self.packing
        kernels = [*packing.kernels, *(each.kernel for each in packing.copies)]
        found = compiled(kernels, self.backend, packing.arranged)
        count = len(packing.kernels)
        return found[:count], found[count:]

    def pack(self, inputs: Sequence[Held]) -> list[Held]:
        """The copies of constants that its kernels read."""
        found = []
        for each, function in zip(self.packing.copies, self._copying, strict=True):
            copy = array_allocator.new_array(each.size, each.dtype.numpy)
            addresses = (copy[1], inputs[each.source][1])
            words = (ctypes.c_int64 * 2)(*(addresses[number] for number in function.buffers))
            size = 1 if function.parallel is None else number_of(function.parallel, {})
            job = (ctypes.c_int64 * 3)(function.address, ctypes.addressof(words), size)
            pool().run(ctypes.addressof(job), 1)
            found.append(copy)
        return found

    def call(
        self, inputs: Sequence[Held], variables: Mapping[str, int], packs: Sequence[Held] = ()
    ) -> list[Held]:
        """The same with addresses, so that nobody has to ask for them."""
        try:
            frame = self._idle.pop()
        except IndexError:
            frame = Frame(self)
        sizes = frame.sizes
        if sizes is None or self.names:
            sizes = self._set_sizes(frame, variables)
        words = frame.words
        for number, slot in self.inputs:
            words[slot] = inputs[number][1]
        if packs:
            for number, slot in self.packs:
                words[slot] = packs[number][1]
        outputs: list[Held] = []
        for size, dtype, slots in sizes.outputs:
            owner, address = take(size)
            outputs.append((array_in(owner, dtype), address))
            for slot in slots:
                words[slot] = address
        arena = self._arena(frame) if self.temporaries else None
        values, threads = _latest
        if values is not plain() or kernel_observer.listeners or loud() or self.is_long:
            kept = (self, inputs, packs, outputs, arena, array_allocator.leases)
            self._run_seen(frame, variables, kept)
        else:
            if frame.pool != threads.address:
                frame.pool = frame.order[0] = threads.address
            threads.go(frame.address)
        del arena  # it was in use until here
        self._idle.append(frame)
        return [outputs[k] for k in self.order] if self.order else outputs

    def _run_seen(self, frame: Frame, variables: Mapping[str, int], kept: object) -> None:
        """The same, kernel by kernel if somebody wants to see them.

        An interrupt of a long run ends the waiting: the kernel that runs goes on, and what it uses
        is kept for it, also when Python ends. Those that come after it are not begun.
        """
        threads, jobs = pool(), frame.address + 8 * ORDER

        def run(first: int, many: int, _kept: object = (frame, kept)) -> None:
            threads.run(jobs + JOB * first, many)

        def start(first: int, many: int) -> None:
            if self.is_long:
                apart(lambda: run(first, many))
            else:
                run(first, many)

        try:
            if kernel_observer.wanted():
                values = {name: variables[name] for name in self.names}
                kernel_observer.run_each(self.schedule, self.backend, values, lambda k: start(k, 1))
            else:
                start(0, self.count)
        except BaseException:  # what was not begun does nothing
            for k in range(self.count):
                frame.order[ORDER + 3 * k] = threads.nothing
            raise

    def _arena(self, frame: Frame) -> Any:
        """Memory for the temporaries, whose addresses are set."""
        arena, address = take(self.schedule.arena.peak)
        if frame.arena != address:
            frame.arena = address
            for offset, slot in self.temporaries:
                frame.words[slot] = address + offset
        return arena

    def _new_sizes(self, variables: Mapping[str, int]) -> Sizes:
        values = tuple(variables[name] for name in self.names)
        buffers = [b for b in self.schedule.buffers if b.role is Role.OUTPUT]
        shared = [function.parallel for function in self.functions]
        found = Sizes(
            values,
            tuple(
                (size_of(buffer, variables) * dtype.itemsize, dtype, slots)
                for buffer, (dtype, slots) in zip(buffers, self.outputs, strict=True)
            ),
            tuple(1 if size is None else number_of(size, variables) for size in shared),
        )
        if len(self._sizes) >= MOST_SIZES:
            self._sizes.clear()
        self._sizes[values] = found
        return found

    def _set_sizes(self, frame: Frame, variables: Mapping[str, int]) -> Sizes:
        """The sizes for some values of the variables, which a frame has now."""
        values = tuple([variables[name] for name in self.names])
        sizes = self._sizes.get(values) or self._new_sizes(variables)
        if frame.sizes is not sizes:
            frame.sizes = sizes
            for slot, place in self.variables:
                frame.words[slot] = sizes.variables[place]
            for k, count in enumerate(sizes.shared):
                frame.order[ORDER + 3 * k + 2] = count
        return sizes


def forget_functions() -> None:
    """Let go of kernels that no program has."""
    kernel_cache.forget_modules()
    if _lock.acquire(blocking=False):
        try:
            forget_unused(_functions)
        finally:
            _lock.release()


def _steps(schedule: Schedule) -> float:
    """The nodes that all kernels compute in a run, at most."""
    kernels = Counter(step.kernel for step in schedule.steps)
    return sum(most_steps(kernel) * times for kernel, times in kernels.items())


def _variables(schedule: Schedule) -> set[str]:
    """The names of the variables that kernels and the sizes of buffers depend on."""
    roots = [step.kernel for step in schedule.steps]
    dims = [dim for buffer in schedule.buffers for dim in buffer.dims]
    return {str(n.arg[0]) for n in toposort(*roots, *dims) if n.op is ops.VARIABLE}


def compiled(
    kernels: Sequence[UOp],
    backend: Backend = BACKENDS["llvm"],
    arranged: Collection[UOp] = frozenset(),
) -> list[Function]:
    """Kernels in machine code; new ones are found on disk, or compiled together.

    Those that are `arranged` keep the loops that they have.
    """
    if settings.beam:
        from porism.engine.tune.tuning import tune_new

        tune_new([kernel for kernel in kernels if kernel not in arranged], backend)
    with _lock:
        tuned = {**known_actions(kernels, backend), **dict.fromkeys(arranged, ())}
        keys = [(backend.name, kernel, tuned.get(kernel)) for kernel in kernels]
        # Held here, since the table may forget them while others are compiled.
        held = {key: _functions[key] for key in dict.fromkeys(keys) if key in _functions}
        missing = [key for key in dict.fromkeys(keys) if key not in held]
        if missing:
            found = kernel_cache.functions([kernel for _, kernel, _ in missing], backend, tuned)
            new = {key: found[key[1]] for key in missing}
            _functions.update(new)
            held.update(new)
        wanted = [held[key] for key in keys]
        while len(_functions) > MOST_FUNCTIONS:
            del _functions[next(iter(_functions))]
        return wanted
