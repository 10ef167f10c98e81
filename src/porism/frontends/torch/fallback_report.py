"""Fallback report: which operators of ATen were compiled, and which were left to torch, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Report:
    """How often operators were compiled and left to torch since the last `reset`."""

    compiled: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why an operator was left to torch, by its name."""

    def reset(self) -> None:
        """Forget all counts."""
        self.compiled.clear()
        self.fallbacks.clear()
        self.reasons.clear()

    def __str__(self) -> str:
        total = self.compiled.total() + self.fallbacks.total()
        lines = [f"{self.compiled.total()} of {total} calls of operators were compiled by Porism"]
        for name, count in self.fallbacks.most_common():
            lines.append(f"  {name}: {count} calls by torch, {self.reasons[name]}")
        return "\n".join(lines)


_report = Report()


def report() -> Report:
    """Return the counts of operators that were compiled and left to torch; it prints as a table."""
    return _report


def note_compiled(names: Iterable[str]) -> None:
    """Count operators that a compiled piece has computed."""
    _report.compiled.update(names)


def note_fallback(name: str, why: str) -> None:
    """Count a call of torch."""
    _report.fallbacks[name] += 1
    _report.reasons[name] = why
