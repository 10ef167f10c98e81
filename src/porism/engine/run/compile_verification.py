"""Compile verification: new computations are verified before they run, if `verify` is set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from porism.backends.backend_table import Backend, native_backend
from porism.base import debug
from porism.base.settings import settings
from porism.engine.run.array_allocator import ALIGNMENT, address_of
from porism.engine.tune.tuning_cache import tuned_actions
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.node_collector import drop_unreferenced, on_full_collection
from porism.optimize.actions.action import Action, Actions
from porism.pipeline import lower_kernel
from porism.schedule.schedule import Schedule
from porism.verification.verification_report import Report

if TYPE_CHECKING:
    from porism.verification.values.kernel_references import Reference
    from porism.verification.values.stored_values import Runner
    from porism.verification.values.value_comparison import Machine

MAX_REPORTS: Final = 1000
"""Reports in memory, chosen by hand; the oldest is evicted first."""

GUARD_BYTES: Final = 4 * ALIGNMENT
"""Guard bytes before and after each buffer of a kernel under test; chosen by hand."""

GUARD_FILLS: Final = (0x4D, 0x35)
"""The value of guard bytes, and of the output before it is written, in each of two runs.

They are no zeros and no NaNs. A write to a guard changes it, and a result that depends on a read
from a guard, or on an element that was not written, differs between the two runs.
"""

_reports: dict[tuple[UOp, str, bool, int], Report] = {}
on_full_collection.append(lambda: drop_unreferenced(_reports))  # and the values of their graphs
_verified_tuned: set[tuple[UOp, str, Actions, int]] = set()
"""Tuned kernels that were verified: kernel, backend, actions, level."""


def report_of(graph: UOp, level: int | None = None) -> Report:
    """Return the verification report of a graph, cached; a `VerifyError` if something is wrong."""
    from porism.verification.verify_kernel import verify_graph

    backend = native_backend()
    wanted_level = max(settings.verify, 1) if level is None else level
    key = (graph, backend.name, settings.fast_math, wanted_level)
    report = _reports.get(key)
    if report is None:
        report = verify_graph(graph, backend.target(), wanted_level, kernel_runner_factory(backend))
        if len(_reports) >= MAX_REPORTS:
            del _reports[next(iter(_reports))]
        _reports[key] = report
        if debug.level() >= debug.KERNELS:
            debug.log(report.summary)
    return report


def verify_tuned_kernels(schedule: Schedule, backend: Backend) -> None:
    """Verify the tuned kernels of a schedule; a `VerifyError` if something is wrong."""
    from porism.verification.verify_kernel import verify_lowering

    level = settings.verify
    for step in schedule.steps:
        actions = tuned_actions(step.kernel, backend)
        if actions is None or (step.kernel, backend.name, actions, level) in _verified_tuned:
            continue
        buffers = [schedule.buffers[b] for b in step.buffers]
        sizes = {
            k: b.dims for k, b in enumerate(buffers) if any(d.op is not ops.CONST for d in b.dims)
        }
        names = {k: b.name for k, b in enumerate(buffers)}
        rows = verify_lowering(
            step.kernel, backend.target(), sizes, names,
            actions=actions, level=level, machine=kernel_runner_factory(backend),
        )  # fmt: skip
        _verified_tuned.add((step.kernel, backend.name, actions, level))
        if debug.level() >= debug.KERNELS:
            debug.log(f"verified 1 tuned kernel: {len(rows)} questions")


def kernel_runner_factory(backend: Backend) -> Machine:
    """Return a function that compiles a kernel into one that runs on the data of a reference."""

    def compile_runner(kernel: UOp, actions: Sequence[Action] | None) -> Runner:
        from porism.engine.tune.kernel_trial import run_function
        from porism.verification.values.stored_values import OutOfBoundsWrite, Unwritten

        assert backend.load is not None
        instructions = lower_kernel(kernel, backend.target(), actions=actions)
        function = backend.load({"kernel": instructions})["kernel"]

        def run(reference: Reference, over: int | None) -> tuple[Array, Array]:
            results: list[Array] = []
            for fill in GUARD_FILLS:
                data = {k: _guarded(array, fill) for k, array in reference.inputs.items()}
                empty = np.empty(reference.size, reference.dtype.numpy)
                empty.view(np.uint8)[...] = fill
                data[0] = _guarded(empty, fill) if over is None else data[over]
                run_function(function, data, reference.variables)
                for number, array in data.items():
                    if not _are_guards_intact(array, fill):
                        raise OutOfBoundsWrite(number)
                results.append(data[0])
            stored = reference.stored()
            first, second = (r.view(np.uint8).reshape(-1, r.itemsize)[stored] for r in results)
            differs = (first != second).any(axis=-1)
            if differs.any():
                raise Unwritten(int(np.flatnonzero(stored)[np.argmax(differs)]))
            return results[0], stored

        return run

    return compile_runner


def _guarded(array: Array, fill: int) -> Array:
    """Return a copy of an array, aligned as tensors are, between guard bytes."""
    padded = np.full(array.nbytes + 2 * GUARD_BYTES + ALIGNMENT, fill, np.uint8)
    begin = GUARD_BYTES + -(address_of(padded) + GUARD_BYTES) % ALIGNMENT
    copy = padded[begin : begin + array.nbytes].view(array.dtype)
    copy[...] = array
    return copy


def _are_guards_intact(array: Array, fill: int) -> bool:
    """Return whether the guard bytes around a copy are unchanged."""
    padded = array
    while isinstance(padded.base, np.ndarray):
        padded = padded.base
    begin = address_of(array) - address_of(padded)
    guards = np.concatenate([padded[:begin], padded[begin + array.nbytes :]])
    return bool((guards == fill).all())
