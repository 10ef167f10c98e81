"""Program: a schedule compiled to machine code, and its argument block.

The kernels of a schedule are compiled together. Those that were compiled before come from a table
in memory, by backend, kernel and tuned actions, or from disk (`cache/kernel_cache`).

To run, the addresses of the buffers are written into an *argument block*, and one native call to
the thread pool runs all kernels. The block is reused by the next run, which writes only the
addresses that change: inputs, outputs, and the arena of temporaries if it has moved.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from porism.backends.backend_table import BACKENDS, Backend
from porism.backends.kernel_function import KernelFunction
from porism.backends.llvm.thread_pool import ORDER_WORDS, ThreadPool
from porism.base.interrupts import run_off_main_thread
from porism.base.settings import is_debugging, settings, unoverridden
from porism.engine.cache import kernel_cache, program_cache
from porism.engine.cache.program_cache import CompiledSchedule
from porism.engine.profile import kernel_observer
from porism.engine.profile.work_counts import Extents, node_evaluations, nodes_by_loops
from porism.engine.run import array_allocator
from porism.engine.run.argument_block import (
    ArgumentBlock,
    ArgumentLayout,
    RunSizes,
    lay_out_arguments,
)
from porism.engine.run.array_allocator import allocate, array_view
from porism.engine.run.bound_sizes import element_count, evaluate_size, lay_out_arena
from porism.engine.run.buffer_storage import Storage
from porism.engine.run.prepacked_constants import Prepacking
from porism.engine.tune.tuning_cache import TuningCache, known_actions
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.node_collector import drop_unreferenced
from porism.ir.traversal import toposort
from porism.schedule.schedule import Buffer, Role, Schedule, launches

if TYPE_CHECKING:
    from porism.engine.profile.thread_shares import Share
    from porism.optimize.actions.action import Actions

T = TypeVar("T")

JOB_BYTES: Final = 24
"""Bytes of a job: the address of a function, of its arguments, and the iterations to share."""

MAX_SIZES: Final = 4096
"""Values of the variables for which a program caches sizes, chosen by hand."""

MAX_FUNCTIONS: Final = 4096
"""Compiled kernels in memory, chosen by hand; the oldest is evicted first, programs keep theirs."""

LONG_RUN_NODES: Final = 1e9
"""Node evaluations from which on a run may take a second, at one a cycle of 1 GHz."""

SHARED_NODES: Final = 1 << 19
"""Node evaluations from which on threads share a kernel of symbolic sizes, chosen by hand: about
twice as long as it takes to wake them."""

_functions: dict[tuple[str, UOp, Actions | None], KernelFunction] = {}
"""Compiled kernels by backend, kernel, and tuned actions (None: those of the heuristic)."""
_lock = threading.RLock()
_pools: dict[int, ThreadPool] = {}
_NO_POOL: Final[tuple[Any, Any]] = (object(), None)
_latest_pool: tuple[Any, Any] = _NO_POOL
"""The settings when a thread pool was last requested, and that pool."""


def thread_pool() -> ThreadPool:
    """Return the thread pool of this process for the setting `threads`."""
    global _latest_pool
    values, threads = unoverridden(), settings.threads
    pool = _pools.get(threads)
    if pool is None:
        with _lock:
            if threads not in _pools:
                _pools[threads] = ThreadPool(threads or os.cpu_count() or 1)
            pool = _pools[threads]
    if values is not None:
        _latest_pool = values, pool
    return pool


def _after_fork() -> None:
    # The threads are not in this process, and one of them may have held the lock.
    global _lock, _latest_pool
    _pools.clear()
    _latest_pool = _NO_POOL
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, slots=True, eq=False)
class FixedInputs:
    """What is the same in several calls: prepacked constants, and all inputs but some."""

    packs: Sequence[Storage] = ()
    varying: frozenset[int] | None = None
    """The inputs that each call has of its own; None for all."""
    token: object = field(default_factory=object)
    """What argument blocks with these addresses hold, so that they keep no memory alive."""


NOTHING_FIXED: Final = FixedInputs()


def words_by_role(
    schedule: Schedule, layout: ArgumentLayout
) -> dict[Role, list[tuple[Buffer, list[int]]]]:
    """Return the buffers of each role, with the argument words that hold their addresses."""
    words_of: dict[Role, list[tuple[Buffer, list[int]]]] = {role: [] for role in Role}
    for buffer, words in zip(schedule.buffers, layout.buffers, strict=True):
        words_of[buffer.role].append((buffer, words))
    return words_of


def output_order(schedule: Schedule) -> list[int] | None:
    """Return the output buffer of each root of the graph; None if they correspond one to one."""
    written = [k for k, b in enumerate(schedule.buffers) if b.role is Role.OUTPUT]
    order = [written.index(position) for position in schedule.outputs]
    return None if order == list(range(len(written))) else order


def in_place_outputs(schedule: Schedule) -> dict[int, int]:
    """Return outputs by number, and the numbers of the inputs that they may overwrite."""
    written = [k for k, b in enumerate(schedule.buffers) if b.role is Role.OUTPUT]
    return {written.index(new): schedule.buffers[old].number for new, old in schedule.in_place}


class Program:
    """A compiled schedule that can be run repeatedly."""

    def __init__(
        self,
        schedule: Schedule,
        backend: Backend = BACKENDS["llvm"],
        constants: frozenset[int] = frozenset(),
    ) -> None:
        self.schedule = schedule
        self.backend = backend
        if settings.beam:
            from porism.engine.tune.program_comparison import tune_program_kernels

            tune_program_kernels(schedule, backend, constants)
        self.compiled = compile_schedule(schedule, backend, constants)
        self.functions = self.compiled.functions
        layout = lay_out_arguments(schedule, self.compiled)
        self._layout = layout
        words_of = words_by_role(schedule, layout)
        self.inputs = [(b.number, word) for b, words in words_of[Role.INPUT] for word in words]
        """PARAM number and argument word of each use of an input."""
        self.outputs = [(b.dtype.numpy, words) for b, words in words_of[Role.OUTPUT]]
        self.temporaries = [
            (b.number, word) for b, words in words_of[Role.TEMPORARY] for word in words
        ]
        """Number and argument word of each use of a temporary."""
        self.output_order = output_order(schedule)
        """The output buffer of each root of the graph; None if they correspond one to one."""
        self.in_place = in_place_outputs(schedule)
        """Outputs by number, and the numbers of the inputs in whose memory they may be written."""
        self.launch_count = len(launches(schedule.steps))
        self.is_recent = True
        """Whether it was used since unused programs were last evicted."""
        self.variable_names = tuple(self.compiled.variables)
        self.variables = [
            (word, self.variable_names.index(name)) for word, name in layout.variables
        ]
        self.packs = [(copy, word) for copy, words in enumerate(layout.packed) for word in words]
        """Number and argument word of each use of a prepacked constant."""
        self._sizes: dict[tuple[int, ...], RunSizes] = {}
        self._node_counts: list[dict[Extents, int]] | None = None
        """The instructions of each kernel by their loops."""
        self._idle_blocks: list[ArgumentBlock] = []

    def run(self, inputs: Sequence[Array], variables: Mapping[str, int]) -> list[Array]:
        """Run on arrays; return the outputs, each one-dimensional."""
        storages = [(array, array_allocator.address_of(array)) for array in inputs]
        return [array for array, _ in self.call(storages, variables)]

    def pack(self, inputs: Sequence[Storage]) -> list[Storage]:
        """Return the prepacked copies of constant inputs that the kernels read."""
        copies = []
        for spec, function in zip(self.compiled.copies, self.compiled.pack_functions, strict=True):
            copy = array_allocator.new_array(spec.size, spec.dtype.numpy)
            addresses = (copy[1], inputs[spec.source][1])
            words = (ctypes.c_int64 * 2)(*(addresses[number] for number in function.buffers))
            size = 1 if function.parallel is None else evaluate_size(function.parallel, {})
            job = (ctypes.c_int64 * 3)(function.address, ctypes.addressof(words), size)
            thread_pool().run(ctypes.addressof(job), 1)
            copies.append(copy)
        return copies

    def call(
        self,
        inputs: Sequence[Storage],
        variables: Mapping[str, int],
        fixed: FixedInputs = NOTHING_FIXED,
        overwritten: Collection[int] = (),
    ) -> list[Storage]:
        """Run on arrays whose addresses are known; return the outputs with theirs.

        Some outputs, by the numbers of `in_place`, overwrite the inputs that they replace.
        """
        try:
            block = self._idle_blocks.pop()
        except IndexError:
            block = ArgumentBlock(self._layout, self.functions, self.schedule)
        sizes = block.sizes
        if sizes is None or self.variable_names:
            sizes = self._set_sizes(block, variables)
        words = block.words
        if block.fixed is fixed.token:
            for number, slot in block.varying:
                words[slot] = inputs[number][1]
        else:
            self._set_inputs(block, inputs, fixed)
        outputs: list[Storage] = []
        for size, dtype, slots in sizes.outputs:
            if overwritten and len(outputs) in overwritten:
                outputs.append(inputs[self.in_place[len(outputs)]])
                address = outputs[-1][1]
            else:
                owner, address = allocate(size)
                outputs.append((array_view(owner, dtype), address))
            for slot in slots:
                words[slot] = address
        arena = self._arena(block, sizes) if self.temporaries else None
        values, threads = _latest_pool
        if (
            values is not unoverridden()
            or kernel_observer.observers
            or is_debugging()
            or sizes.is_long
        ):
            alive = (self, inputs, fixed, outputs, arena, array_allocator.leases)
            self._run_observed(block, variables, alive)
        else:
            if block.pool != threads.address:
                block.pool = block.order[0] = threads.address
            threads.go(block.address)
        del arena  # it was in use until here
        self._idle_blocks.append(block)
        return [outputs[k] for k in self.output_order] if self.output_order else outputs

    def _run_observed(
        self, block: ArgumentBlock, variables: Mapping[str, int], alive: object
    ) -> None:
        """Run the kernels of an argument block, one by one if they are observed.

        Ctrl-C during a long run ends the waiting only: the kernel that runs goes on, and its memory
        is kept alive, also when Python ends. The kernels after it are not started.
        """
        threads, jobs = thread_pool(), ctypes.addressof(block.jobs)
        is_long = block.sizes is not None and block.sizes.is_long

        def run_all(_alive: object = (block, alive)) -> None:
            threads.run(block.address + 8 * ORDER_WORDS, self.launch_count)

        def start(run: Callable[[], T]) -> T:
            return run_off_main_thread(run) if is_long else run()

        try:
            if kernel_observer.is_observed():
                from porism.engine.profile.thread_shares import run_timed, timed_function

                def run_one(number: int, _alive: object = (block, alive)) -> tuple[Share, ...]:
                    return run_timed(threads, jobs + JOB_BYTES * number)

                timed_function()  # compiled before the clock runs
                values = {name: variables[name] for name in self.variable_names}
                kernel_observer.run_observed(
                    self.schedule, self.backend, values, lambda k: start(lambda: run_one(k))
                )
            else:
                start(run_all)
        except BaseException:  # kernels that were not started do nothing
            for k in range(self.launch_count):
                block.order[ORDER_WORDS + 3 * k] = threads.nothing
            for k in range(len(self.functions)):
                block.jobs[3 * k] = threads.nothing
            raise

    def _set_inputs(
        self, block: ArgumentBlock, inputs: Sequence[Storage], fixed: FixedInputs
    ) -> None:
        """Write the addresses of all inputs and of prepacked constants into a block."""
        for number, slot in self.inputs:
            block.words[slot] = inputs[number][1]
        if fixed.packs:
            for number, slot in self.packs:
                block.words[slot] = fixed.packs[number][1]
        varying = fixed.varying
        block.varying = [
            (number, slot) for number, slot in self.inputs if varying is None or number in varying
        ]
        block.fixed = fixed.token

    def _arena(self, block: ArgumentBlock, sizes: RunSizes) -> Any:
        """Return memory for the temporaries, and write their addresses."""
        arena, address = allocate(sizes.arena)
        if block.arena != address:
            block.arena = address
            for offset, slot in sizes.temporaries:
                block.words[slot] = address + offset
        return arena

    def _new_sizes(self, variables: Mapping[str, int]) -> RunSizes:
        values = tuple(variables[name] for name in self.variable_names)
        buffers = [b for b in self.schedule.buffers if b.role is Role.OUTPUT]
        shared = [function.parallel for function in self.functions]
        offsets, arena = lay_out_arena(self.schedule, variables)
        iterations = tuple(1 if n is None else evaluate_size(n, variables) for n in shared)
        units, evaluations = iterations, self.compiled.node_evaluations
        if values:
            work = self._work(variables)
            evaluations = sum(work)
            units = tuple(
                n if w >= SHARED_NODES else 1 for n, w in zip(iterations, work, strict=True)
            )
        sizes = RunSizes(
            values,
            tuple(
                (element_count(buffer, variables) * dtype.itemsize, dtype, slots)
                for buffer, (dtype, slots) in zip(buffers, self.outputs, strict=True)
            ),
            iterations,
            units,
            tuple((offsets[number], word) for number, word in self.temporaries),
            arena,
            evaluations >= LONG_RUN_NODES,
        )
        if len(self._sizes) >= MAX_SIZES:
            self._sizes.clear()
        self._sizes[values] = sizes
        return sizes

    def _work(self, variables: Mapping[str, int]) -> list[float]:
        """Return how many nodes each kernel evaluates for some values of the variables."""
        if self._node_counts is None:
            self._node_counts = _node_counts(self.schedule)
        return [node_evaluations(counts, variables) for counts in self._node_counts]

    def _set_sizes(self, block: ArgumentBlock, variables: Mapping[str, int]) -> RunSizes:
        """Return the sizes for some values of the variables, and write them into a block."""
        values = tuple([variables[name] for name in self.variable_names])
        sizes = self._sizes.get(values) or self._new_sizes(variables)
        if block.sizes is not sizes:
            block.sizes = sizes
            block.arena = 0  # its offsets are others
            for slot, position in self.variables:
                block.words[slot] = sizes.variables[position]
            for k, (count, (words, slot)) in enumerate(
                zip(sizes.shared, block.counts, strict=True)
            ):
                block.jobs[3 * k + 2] = words[slot] = count
            block.set_units(sizes.units)
        return sizes


def forget_functions() -> None:
    """Evict compiled kernels that no program uses."""
    kernel_cache.forget_modules()
    if _lock.acquire(blocking=False):
        try:
            drop_unreferenced(_functions)
        finally:
            _lock.release()


def compile_schedule(
    schedule: Schedule, backend: Backend, constants: frozenset[int]
) -> CompiledSchedule:
    """Return the functions that run a schedule with constant inputs, loaded or compiled."""
    keeps = not (settings.beam or TuningCache(backend))
    if keeps:
        loaded = program_cache.load(schedule, backend, constants)
        if loaded is not None:
            return loaded
    packing = Prepacking(schedule, backend, constants)
    kernels = [*packing.kernels, *packing.copy_kernels]
    functions = compile_kernels(kernels, backend, packing.scheduled)
    count = len(packing.kernels)
    names_of_variables = sorted(variable_names(schedule))
    compiled = CompiledSchedule(
        functions[:count],
        functions[count:],
        packing.copies,
        packing.copy_of_parameter,
        names_of_variables,
        0.0 if names_of_variables else _sum_of_work(schedule),
    )
    if keeps and schedule.key:
        names = kernel_cache.entry_names(kernels, backend, dict.fromkeys(packing.scheduled, ()))
        if names is not None:
            program_cache.keep(schedule, backend, constants, compiled, names)
    return compiled


def _node_counts(schedule: Schedule) -> list[dict[Extents, int]]:
    """Return the instructions of each kernel by their loops."""
    counts = {step.kernel: nodes_by_loops(step.kernel) for step in schedule.steps}
    return [counts[step.kernel] for step in schedule.steps]


def _sum_of_work(schedule: Schedule) -> float:
    """Return how many nodes all kernels of constant sizes evaluate in a run."""
    return sum(node_evaluations(counts, {}) for counts in _node_counts(schedule))


def variable_names(schedule: Schedule) -> set[str]:
    """Return the names of the variables that kernels and buffer sizes depend on."""
    roots = [step.kernel for step in schedule.steps]
    dims = [dim for buffer in schedule.buffers for dim in buffer.dims]
    return {str(n.arg[0]) for n in toposort(*roots, *dims) if n.op is ops.VARIABLE}


def compile_kernels(
    kernels: Sequence[UOp],
    backend: Backend = BACKENDS["llvm"],
    scheduled: Collection[UOp] = frozenset(),
) -> list[KernelFunction]:
    """Return kernels as machine code; new ones are loaded from disk or compiled together.

    Kernels in `scheduled` are compiled with the loops they have, without the heuristic.
    """
    if settings.beam:
        from porism.engine.tune.tuning import tune_new_kernels

        tune_new_kernels([kernel for kernel in kernels if kernel not in scheduled], backend)
    with _lock:
        tuned = {**known_actions(kernels, backend), **dict.fromkeys(scheduled, ())}
        keys = [(backend.name, kernel, tuned.get(kernel)) for kernel in kernels]
        # Referred to here, since the table may evict them while others are compiled.
        alive = {key: _functions[key] for key in dict.fromkeys(keys) if key in _functions}
        missing = [key for key in dict.fromkeys(keys) if key not in alive]
        if missing:
            functions = kernel_cache.load_or_compile(
                [kernel for _, kernel, _ in missing], backend, tuned
            )
            compiled = {key: functions[key[1]] for key in missing}
            _functions.update(compiled)
            alive.update(compiled)
        wanted = [alive[key] for key in keys]
        while len(_functions) > MAX_FUNCTIONS:
            del _functions[next(iter(_functions))]
        return wanted
