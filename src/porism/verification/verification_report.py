"""Verification report: what was checked, and how each check was decided."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum


class Check(Enum):
    """What is checked of a kernel."""

    INDEX = "index"  # the same elements before and after a stage
    BOUNDS = "bounds"  # inside of the buffer
    WRITES = "writes"  # each element written by one of the parallel iterations
    PLAN = "memory"  # values that live at the same time share no bytes
    VALUES = "values"  # the elements that are stored, by the evaluator
    MACHINE = "machine code"  # the elements that the compiled kernel stores


class How(Enum):
    """How a check was decided."""

    PROVED = "proved"
    ALL = "checked for all points"
    SAMPLED = "sampled"
    ASSUMED = "assumed"
    OPEN = "not compared"


@dataclass(frozen=True, slots=True)
class Row:
    """One check and how it was decided; all checks in a report have passed."""

    kernel: int
    stage: str
    check: Check
    text: str
    """The access, or what is compared."""
    how: How
    detail: str
    """How it was decided, as text."""
    seconds: float

    def __str__(self) -> str:
        return f"kernel {self.kernel}, {self.stage}, {self.check.value}: {self.detail}: {self.text}"


@dataclass(frozen=True)
class Report:
    """All checks of a computation."""

    rows: tuple[Row, ...]
    note: str = ""
    """A remark for the reader, such as that the solver is missing."""
    kernels: int = 0
    seconds: float = 0.0
    counts: Counter[How] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", Counter(row.how for row in self.rows))

    def share(self, how: How = How.PROVED) -> float:
        """Return the share of the checks that were decided in a way, from 0 to 1."""
        return self.counts[how] / len(self.rows) if self.rows else 1.0

    @property
    def summary(self) -> str:
        """One line: how many kernels and checks there are, and how these were decided."""
        parts = [f"{self.counts[how]} {how.value}" for how in How if self.counts[how]]
        many = f"{self.kernels} kernel{'s' * (self.kernels != 1)}"
        line = f"verified {many}: {len(self.rows)} questions, {', '.join(parts) or 'none open'}"
        return f"{line} ({self.note})" if self.note else line

    def __str__(self) -> str:
        lines = [self.summary]
        for check in Check:
            own = [row for row in self.rows if row.check is check]
            if own:
                counts = Counter(row.how for row in own)
                parts = [f"{counts[how]} {how.value}" for how in How if counts[how]]
                lines.append(f"  {check.value}: {', '.join(parts)}")
        rest = [row for row in self.rows if row.how is not How.PROVED]
        return "\n".join([*lines, *(f"  {row}" for row in rest)])
