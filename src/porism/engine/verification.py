"""Verification: each new computation checked before it runs, while the setting `verify` is on."""

from __future__ import annotations

from typing import Final

from porism.backends.table import Backend, native
from porism.base import debug
from porism.base.settings import settings
from porism.engine.tuned import tuned_actions
from porism.ir import ops
from porism.ir.node import UOp
from porism.optimize.known_actions import Actions
from porism.schedule.schedule import Schedule
from porism.verification.report import Report

MOST_REPORTS: Final = 1000
"""Reports that are kept; the oldest goes first."""

_reports: dict[tuple[UOp, str, bool], Report] = {}
_tuned: set[tuple[UOp, str, Actions]] = set()
"""Kernels that were checked as they were tuned."""


def report_of(graph: UOp) -> Report:
    """The report of a graph; a `VerifyError` if something is wrong. The same graph only once."""
    from porism.verification.kernel import verified

    backend = native()
    key = (graph, backend.name, settings.fast_math)
    found = _reports.get(key)
    if found is None:
        found = verified(graph, backend.target())
        if len(_reports) >= MOST_REPORTS:
            del _reports[next(iter(_reports))]
        _reports[key] = found
        if debug.level() >= debug.KERNELS:
            debug.say(found.summary)
    return found


def check_tuned(schedule: Schedule, backend: Backend) -> None:
    """Check the tuned kernels of a schedule as they run; a `VerifyError` if something is wrong."""
    from porism.verification.kernel import lowered

    for step in schedule.steps:
        actions = tuned_actions(step.kernel, backend)
        if actions is None or (step.kernel, backend.name, actions) in _tuned:
            continue
        buffers = [schedule.buffers[b] for b in step.buffers]
        sizes = {
            k: b.dims for k, b in enumerate(buffers) if any(d.op is not ops.CONST for d in b.dims)
        }
        names = {k: b.name for k, b in enumerate(buffers)}
        rows = lowered(step.kernel, backend.target(), sizes, names, actions=actions)
        _tuned.add((step.kernel, backend.name, actions))
        if debug.level() >= debug.KERNELS:
            debug.say(f"verified 1 tuned kernel: {len(rows)} questions")
