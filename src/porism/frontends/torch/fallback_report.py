"""Fallback report: which operators of ATen were compiled, and which were left to torch, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class CompiledNames:
    """The operators of something that is run often; each of its runs adds 1."""

    names: Sequence[str]
    runs: int = 0
    is_listed: bool = False
    """Whether the report knows of it."""


@dataclass
class Report:
    """How often operators were compiled and left to torch since the last `reset`."""

    fallbacks: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why an operator was left to torch, by its name."""
    static_sizes: dict[str, str] = field(default_factory=dict)
    """Why a size that torch lets vary has one program for each value, by an operator's name."""
    _counted: Counter[str] = field(default_factory=Counter)
    _running: list[CompiledNames] = field(default_factory=list)

    @property
    def compiled(self) -> Counter[str]:
        """How often each operator was computed by Porism."""
        for entry in self._running:
            for name in entry.names:
                self._counted[name] += entry.runs
            entry.runs, entry.is_listed = 0, False
        self._running.clear()
        return self._counted

    def reset(self) -> None:
        """Forget all counts."""
        self.compiled.clear()
        self.fallbacks.clear()
        self.reasons.clear()
        self.static_sizes.clear()

    def note_run(self, names: CompiledNames) -> None:
        """Count a run of something that computes some operators."""
        names.runs += 1
        if not names.is_listed:
            names.is_listed = True
            self._running.append(names)

    def note_fallback(self, name: str, why: str) -> None:
        """Count a call of torch."""
        self.fallbacks[name] += 1
        self.reasons[name] = why

    def note_static_size(self, name: str, why: str) -> None:
        """Note an operator for which a symbolic size got a program for each of its values."""
        self.static_sizes[name] = why

    def __str__(self) -> str:
        total = self.compiled.total() + self.fallbacks.total()
        lines = [f"{self.compiled.total()} of {total} calls of operators were compiled by Porism"]
        for name, count in self.fallbacks.most_common():
            lines.append(f"  {name}: {count} calls by torch, {self.reasons[name]}")
        for name, why in self.static_sizes.items():
            lines.append(f"  {name}: compiled for each size, {why}")
        return "\n".join(lines)


_report = Report()


def report() -> Report:
    """Return the counts of operators that were compiled and left to torch; it prints as a table."""
    return _report
