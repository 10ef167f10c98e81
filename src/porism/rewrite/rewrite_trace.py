"""Rewrite traces: which rule rewrote which node into which, in which stage; off by default.

A pass can be given a trace of its own. With PORISM_TRACE=1 every rewrite of the process is written
to the standard error, a line each: those of passes, those that happen while nodes are made, and the
steps of the normal form. `porism.rewrite.construction.record_rewrites` records them in any trace.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from porism.base.settings import settings
from porism.ir.node import UOp
from porism.ir.text.expression import show

LONGEST_NODE_TEXT = 160
"""The most characters that are written of a node."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rewrite: a rule, the node before and after, and the stage."""

    rule: str
    before: UOp
    after: UOp
    stage: str = ""

    def __str__(self) -> str:
        stage = f"{self.stage}: " if self.stage else ""
        before, after = (show(node, limit=LONGEST_NODE_TEXT) for node in (self.before, self.after))
        return f"{stage}{before} -> {after}  [{self.rule}]"


@dataclass
class Trace:
    """The rewrites of one run, in the order in which they finished (inner ones first)."""

    stage: str = ""
    steps: list[Step] = field(default_factory=list)

    def record(self, rule: str, before: UOp, after: UOp) -> None:
        self.steps.append(Step(rule, before, after, self.stage))

    def rules_tried(self, rules: Iterable[Any]) -> None:
        """Called when a pass begins to try these rules; does nothing, for subclasses to count."""

    def counts(self) -> Counter[str]:
        """Return how often each rule fired."""
        return Counter(step.rule for step in self.steps)

    def __str__(self) -> str:
        return "\n".join(str(step) for step in self.steps)


class PrintingTrace(Trace):
    """A trace that writes each rewrite to the standard error, and keeps none."""

    def record(self, rule: str, before: UOp, after: UOp) -> None:
        print(Step(rule, before, after, self.stage), file=sys.stderr)


_process_trace: Trace | None = PrintingTrace("import") if settings.trace else None


def process_trace() -> Trace | None:
    """Return the trace of all rewrites of the process; None if they are not traced."""
    return _process_trace


def set_process_trace(trace: Trace | None) -> Trace | None:
    """Record all rewrites of the process in a trace from now on; return the previous trace.

    Construction-time rules are recorded only once they are installed again.
    """
    global _process_trace
    before, _process_trace = _process_trace, trace
    return before


def begin_stage(stage: str) -> None:
    """Attribute the rewrites recorded from now on to a stage."""
    if _process_trace is not None:
        _process_trace.stage = stage
