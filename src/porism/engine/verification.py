"""Verification: each new computation checked before it runs, while the setting `verify` is on."""

from __future__ import annotations

from typing import Final

from porism.backends.table import native
from porism.base import debug
from porism.ir.node import UOp
from porism.verification.report import Report

MOST_REPORTS: Final = 1000
"""Reports that are kept; the oldest goes first."""

_reports: dict[tuple[UOp, str], Report] = {}


def report_of(graph: UOp) -> Report:
    """The report of a graph; a `VerifyError` if something is wrong. The same graph only once."""
    from porism.verification.kernel import verified

    backend = native()
    key = (graph, backend.name)
    found = _reports.get(key)
    if found is None:
        found = verified(graph, backend.target())
        if len(_reports) >= MOST_REPORTS:
            del _reports[next(iter(_reports))]
        _reports[key] = found
        if debug.level() >= debug.KERNELS:
            debug.say(found.summary)
    return found
