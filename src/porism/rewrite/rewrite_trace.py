"""Traces: which rule turned what into what, in which stage; recorded only when asked for.

A pass can be given a trace of its own. With PORISM_TRACE=1 every rewrite of the process is written
to the standard error, a line each: those of passes, those that happen while nodes are made, and the
steps of the normal form. `porism.rewrite.construction.recorded` does the same into any trace.
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

LONGEST = 160
"""Characters of a node that are written."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rewrite."""

    rule: str
    before: UOp
    after: UOp
    stage: str = ""

    def __str__(self) -> str:
        stage = f"{self.stage}: " if self.stage else ""
        before, after = (show(node, limit=LONGEST) for node in (self.before, self.after))
        return f"{stage}{before} -> {after}  [{self.rule}]"


@dataclass
class Trace:
    """The rewrites of one run, in the order in which they finished (inner ones first)."""

    stage: str = ""
    steps: list[Step] = field(default_factory=list)

    def record(self, rule: str, before: UOp, after: UOp) -> None:
        self.steps.append(Step(rule, before, after, self.stage))

    def tried(self, rules: Iterable[Any]) -> None:
        """Take note that these rules are tried in the stage; nothing, unless somebody counts."""

    def counts(self) -> Counter[str]:
        """How often each rule fired."""
        return Counter(step.rule for step in self.steps)

    def __str__(self) -> str:
        return "\n".join(str(step) for step in self.steps)


class Written(Trace):
    """Writes each rewrite to the standard error, and keeps none."""

    def record(self, rule: str, before: UOp, after: UOp) -> None:
        print(Step(rule, before, after, self.stage), file=sys.stderr)


_of_all: Trace | None = Written("import") if settings.trace else None


def of_all() -> Trace | None:
    """The trace of all rewrites of the process; None if there is none."""
    return _of_all


def set_of_all(trace: Trace | None) -> Trace | None:
    """Record all rewrites there from now on; what was recorded into before.

    Rules that are applied at construction follow when they are installed.
    """
    global _of_all
    before, _of_all = _of_all, trace
    return before


def begin(stage: str) -> None:
    """Say that what is recorded from now on belongs to a stage."""
    if _of_all is not None:
        _of_all.stage = stage
