"""Verification: each new computation checked before it runs, while the setting `verify` is on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from porism.backends.backend_table import Backend, native
from porism.base import debug
from porism.base.settings import settings
from porism.engine.run.array_allocator import ALIGNMENT, address_of
from porism.engine.tune.tuning_cache import tuned_actions
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.optimize.actions.action import Action, Actions
from porism.pipeline import lower_kernel
from porism.schedule.schedule import Schedule
from porism.verification.verification_report import Report

if TYPE_CHECKING:
    from porism.verification.values.kernel_references import Reference
    from porism.verification.values.stored_values import Runner
    from porism.verification.values.value_comparison import Machine

MOST_REPORTS: Final = 1000
"""Reports that are kept; the oldest goes first."""

GUARD: Final = 4 * ALIGNMENT
"""Bytes in front of and behind each buffer of a kernel that is tried."""

FILLS: Final = (0x4D, 0x35)
"""What these bytes hold, and a result before it is written, in two runs: no zeros, and no NaN. What
is written there is found, and what depends on what is read there differs between the two."""

_reports: dict[tuple[UOp, str, bool, int], Report] = {}
_tuned: set[tuple[UOp, str, Actions, int]] = set()
"""Kernels that were checked as they were tuned."""


def report_of(graph: UOp, level: int | None = None) -> Report:
    """The report of a graph; a `VerifyError` if something is wrong. The same graph only once."""
    from porism.verification.verify_kernel import verified

    backend = native()
    asked = max(settings.verify, 1) if level is None else level
    key = (graph, backend.name, settings.fast_math, asked)
    found = _reports.get(key)
    if found is None:
        found = verified(graph, backend.target(), asked, machine_of(backend))
        if len(_reports) >= MOST_REPORTS:
            del _reports[next(iter(_reports))]
        _reports[key] = found
        if debug.level() >= debug.KERNELS:
            debug.say(found.summary)
    return found


def check_tuned(schedule: Schedule, backend: Backend) -> None:
    """Check the tuned kernels of a schedule as they run; a `VerifyError` if something is wrong."""
    from porism.verification.verify_kernel import lowered

    level = settings.verify
    for step in schedule.steps:
        actions = tuned_actions(step.kernel, backend)
        if actions is None or (step.kernel, backend.name, actions, level) in _tuned:
            continue
        buffers = [schedule.buffers[b] for b in step.buffers]
        sizes = {
            k: b.dims for k, b in enumerate(buffers) if any(d.op is not ops.CONST for d in b.dims)
        }
        names = {k: b.name for k, b in enumerate(buffers)}
        rows = lowered(
            step.kernel, backend.target(), sizes, names,
            actions=actions, level=level, machine=machine_of(backend),
        )  # fmt: skip
        _tuned.add((step.kernel, backend.name, actions, level))
        if debug.level() >= debug.KERNELS:
            debug.say(f"verified 1 tuned kernel: {len(rows)} questions")


def machine_of(backend: Backend) -> Machine:
    """What makes machine code of a kernel, to run it on the data of a reference."""

    def made(kernel: UOp, actions: Sequence[Action] | None) -> Runner:
        from porism.engine.tune.kernel_trial import call
        from porism.verification.values.stored_values import Outside, Unwritten

        assert backend.load is not None
        lines = lower_kernel(kernel, backend.target(), actions=actions)
        function = backend.load({"kernel": lines})["kernel"]

        def run(reference: Reference, over: int | None) -> tuple[Array, Array]:
            results: list[Array] = []
            for fill in FILLS:
                data = {k: _guarded(array, fill) for k, array in reference.inputs.items()}
                empty = np.empty(reference.size, reference.dtype.numpy)
                empty.view(np.uint8)[...] = fill
                data[0] = _guarded(empty, fill) if over is None else data[over]
                call(function, data, reference.variables)
                for number, array in data.items():
                    if not _is_whole(array, fill):
                        raise Outside(number)
                results.append(data[0])
            stored = reference.stored()
            first, second = (r.view(np.uint8).reshape(-1, r.itemsize)[stored] for r in results)
            differs = (first != second).any(axis=-1)
            if differs.any():
                raise Unwritten(int(np.flatnonzero(stored)[np.argmax(differs)]))
            return results[0], stored

        return run

    return made


def _guarded(array: Array, fill: int) -> Array:
    """A copy of an array, aligned as tensors are, between bytes that are known."""
    room = np.full(array.nbytes + 2 * GUARD + ALIGNMENT, fill, np.uint8)
    begin = GUARD + -(address_of(room) + GUARD) % ALIGNMENT
    copy = room[begin : begin + array.nbytes].view(array.dtype)
    copy[...] = array
    return copy


def _is_whole(array: Array, fill: int) -> bool:
    """Whether the bytes around a copy are as they were."""
    room = array
    while isinstance(room.base, np.ndarray):
        room = room.base
    begin = address_of(array) - address_of(room)
    around = np.concatenate([room[:begin], room[begin + array.nbytes :]])
    return bool((around == fill).all())
