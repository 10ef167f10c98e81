"""Traces: which rule turned what into what, in which stage; recorded only when asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from porism.ir.expression import show
from porism.ir.node import UOp


@dataclass(frozen=True, slots=True)
class Step:
    """One rewrite."""

    rule: str
    before: UOp
    after: UOp
    stage: str = ""

    def __str__(self) -> str:
        stage = f"{self.stage}: " if self.stage else ""
        return (
            f"{stage}{show(self.before, limit=80)} -> {show(self.after, limit=80)}  [{self.rule}]"
        )


@dataclass
class Trace:
    """The rewrites of one run, in the order in which they finished (inner ones first)."""

    stage: str = ""
    steps: list[Step] = field(default_factory=list)

    def record(self, rule: str, before: UOp, after: UOp) -> None:
        self.steps.append(Step(rule, before, after, self.stage))

    def counts(self) -> Counter[str]:
        """How often each rule fired."""
        return Counter(step.rule for step in self.steps)

    def __str__(self) -> str:
        return "\n".join(str(step) for step in self.steps)
