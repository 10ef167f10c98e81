"""The proof report: results for rules, procedures and bounds functions, as a table or JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from porism.ir.ops import Op
from porism.prove import interval_checks, procedure_checks
from porism.prove.procedure_checks import NO_EXAMPLES, Examples
from porism.prove.rule_proof import Proof, Status, prove
from porism.rewrite.rule import Procedure, Rewrite, Rule
from porism.rules import proof_record

MILLISECONDS: Final = 60_000
"""Time limit of the solver for one query: longer than for a typed rule, since a busy machine must
not change the record."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: the outcome for a rule in one theory."""

    name: str
    theory: str
    status: str
    seconds: float
    detail: str
    ok: bool


@dataclass(slots=True)
class Report:
    """The results of a run."""

    rows: list[Row] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    established: dict[str, str] = field(default_factory=dict)
    """By the names of the rules that are established: "proved" or "evaluated"."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.faults

    def json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "rows": [
                {
                    "name": row.name,
                    "theory": row.theory,
                    "status": row.status,
                    "seconds": round(row.seconds, 4),
                    "detail": row.detail,
                }
                for row in self.rows
            ],
            "faults": self.faults,
        }


def run(
    rules: Sequence[Rewrite],
    *,
    with_bounds: bool,
    json_file: str | None = None,
    milliseconds: int = MILLISECONDS,
    examples: Examples = NO_EXAMPLES,
) -> Report:
    """Prove rules, print the table and the faults, and return the report.

    Procedures are tried on `examples`. With `json_file` the report is also written to that file.
    """
    report = gather(rules, with_bounds=with_bounds, milliseconds=milliseconds, examples=examples)
    console = Console()
    console.print(_table(report.rows))
    for fault in report.faults:
        console.print(fault, markup=False, highlight=False, style="red")
    verdict = "all established" if report.ok else f"{len(report.faults)} not established"
    console.print(f"{len(report.rows)} rows, {verdict}, in {report.seconds:.1f} s")
    if json_file is not None:
        Path(json_file).write_text(json.dumps(report.json(), indent=1) + "\n", encoding="utf-8")
    return report


def warn_of_stale_record(report: Report, rules: Sequence[Rewrite]) -> None:
    """Print which of the rules that have just been established are recorded otherwise."""
    stale = [item.name for item in rules if _is_stale(report, item)]
    if stale:
        names = ", ".join(stale[:8]) + (", …" if len(stale) > 8 else "")
        warning = f"the record is out of date for {len(stale)} rules: {names}"
        warning += f"\n{proof_record.HOW_TO_UPDATE}"
        Console().print(warning, markup=False, highlight=False, style="yellow")


def _is_stale(report: Report, item: Rewrite) -> bool:
    """Whether a rule that has just been established is recorded otherwise, or not at all."""
    established, entry = report.established.get(item.name), proof_record.current_entry(item)
    return established is not None and (entry is None or entry.established != established)


def gather(
    rules: Sequence[Rewrite],
    *,
    with_bounds: bool,
    milliseconds: int = MILLISECONDS,
    examples: Examples = NO_EXAMPLES,
) -> Report:
    """Prove the rules, try the procedures and, if asked, check the bounds of every op."""
    report = Report()
    began = time.perf_counter()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    checked = interval_checks.checked_ops() if with_bounds else ()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(rules) + len(checked))
        for item in rules:
            progress.update(task, description=item.name)
            _add(report, item, milliseconds, examples)
            progress.advance(task)
        for op in checked:
            progress.update(task, description=f"bounds of {op.name.lower()}")
            _add_bounds(report, op, interval_checks.check(op))
            progress.advance(task)
    report.seconds = time.perf_counter() - began
    return report


def _add(report: Report, item: Rewrite, milliseconds: int, examples: Examples) -> None:
    if isinstance(item, Procedure):
        tried = procedure_checks.check(item, examples)
        theories = ", ".join(theory.value for theory in item.theories)
        status = "evaluated" if tried.ok else "refuted" if tried.cases else "unknown"
        detail = f"{tried.cases} cases {tried.how}"
        report.rows.append(Row(item.name, theories, status, tried.seconds, detail, tried.ok))
        report.faults += [f"{item.name}: {tried.fault}"] * (not tried.ok)
        if tried.ok:
            report.established[item.name] = Status.EVALUATED.value
    elif isinstance(item, Rule):
        proof = prove(item, milliseconds=milliseconds)
        report.rows += _rows(proof)
        if proof.ok:
            report.established[item.name] = proof.established
        else:
            report.faults.append(proof.explain())


def _rows(proof: Proof) -> Iterator[Row]:
    for result in proof.results:
        detail = "; ".join(p for p in (result.types, result.counterexample, result.note) if p)
        status = result.status.value
        ok = result.status.ok
        yield Row(proof.rule.name, result.theory.value, status, result.seconds, detail, ok)
    for part in proof.idle:
        yield Row(proof.rule.name, "guard", "idle", 0.0, part, False)
    for theory in proof.idle_in:
        yield Row(proof.rule.name, theory.value, "never fires", 0.0, "", False)
    if not proof.shrinks and not (proof.rule.lemma or proof.rule.grows):
        yield Row(proof.rule.name, "order", "does not shrink", 0.0, proof.shrinks.reason, False)


def _add_bounds(report: Report, op: Op, checks: Sequence[interval_checks.BoundsCheck]) -> None:
    fault = next((check.fault for check in checks if check.fault), "")
    types = " ".join(check.dtype.name for check in checks)
    detail = f"{sum(check.boxes for check in checks)} boxes on {types}"
    seconds = sum(check.seconds for check in checks)
    status = "refuted" if fault else "exhaustive"
    name = f"bounds of {op.name.lower()}"
    report.rows.append(Row(name, "bounds", status, seconds, detail, not fault))
    report.faults += [f"{name}: {fault}"] * bool(fault)


def _table(rows: Iterable[Row]) -> Table:
    table = Table("rule", "theory", "status", "seconds", "how", box=None, pad_edge=False)
    table.columns[3].justify = "right"
    for row in rows:
        style = None if row.ok else "red"
        seconds = f"{row.seconds:.2f}"
        table.add_row(row.name, row.theory, row.status, seconds, row.detail, style=style)
    return table
