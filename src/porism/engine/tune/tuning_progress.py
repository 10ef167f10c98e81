"""Tuning progress: a progress bar while tuning runs, and a table of its reports."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from porism.base.settings import settings
from porism.engine.tune.tuning import Listener, TuningReport, TuningState

TIME_UNITS: Final = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))


def duration(seconds: float) -> str:
    """Return a number of seconds as text with a unit.

    >>> duration(2.5), duration(0.00125), duration(3.2e-06)
    ('2.5 s', '1.25 ms', '3.2 µs')
    """
    for unit, size in TIME_UNITS:
        if seconds >= size or unit == "µs":
            return f"{seconds / size:.3g} {unit}"
    raise AssertionError


@contextmanager
def progress_bar() -> Iterator[Listener | None]:
    """Show a progress bar with the best time; yield its listener, None without a terminal."""
    console = Console(file=sys.stderr)
    if not console.is_terminal or not settings.progress:
        yield None
        return
    columns = (
        TextColumn("tuning {task.fields[number]}/{task.fields[count]}"),
        TextColumn("{task.fields[name]}"),
        BarColumn(),
        TextColumn("{task.fields[tried]} tried, best {task.fields[best]}{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        totals: dict[int, float] = {}
        task = bar.add_task("", total=None, number=0, count=0, name="", tried=0, best="", speed="")

        def listen(state: TuningState) -> None:
            if state.number not in totals:
                totals[state.number] = max(state.left, 1e-3)
                bar.reset(task)
            total = totals[state.number]
            rate = state.flops / state.best * 1e-9 if state.best else 0.0
            bar.update(
                task,
                total=total,
                completed=total - max(state.left, 0.0),
                number=state.number + 1,
                count=state.count,
                name=state.name,
                tried=state.tried,
                best=duration(state.best),
                speed=f", {rate:.1f} GFLOP/s" if rate else "",
            )

        yield listen


def report_table(reports: Sequence[TuningReport]) -> Table:
    """Return a table with the times of each kernel before and after tuning."""
    table = Table(title=None, show_lines=False)
    for head in ("kernel", "before", "after", "times as fast", "GFLOP/s", "candidates"):
        right = head not in ("kernel", "candidates")
        table.add_column(head, justify="right" if right else "left", overflow="fold")
    for report in reports:
        if report.error:
            table.add_row(report.name, "", "", "", "", f"not tuned: {report.error}")
            continue
        table.add_row(
            report.name,
            duration(report.before),
            duration(report.after),
            f"{report.before / report.after:.2f}",
            f"{report.gflops:.1f}" if report.flops else "",
            _candidate_counts(report),
        )
    return table


def _candidate_counts(report: TuningReport) -> str:
    """Return how many candidates were tried and dropped, as text."""
    dropped = sum(report.faults.values())
    if not report.tried:
        return (
            f"none tried, {report.pruned} hopeless" if report.pruned else "every action is refused"
        )
    return f"{report.tried} tried" + (f", {dropped} dropped" if dropped else "")


def action_lines(reports: Sequence[TuningReport]) -> str:
    """Return the actions of each kernel that became faster, a line each."""
    return "\n".join(
        f"{report.name}: {', '.join(map(action_text, report.actions)) or 'no actions'}"
        for report in reports
        if report.after < report.before
    )


def action_text(action: object) -> str:
    """Return an action as text, without fields that have their default value.

    >>> from porism.optimize.actions.loops.upcast_unroll import Upcast
    >>> action_text(Upcast("r1", 16))
    "Upcast('r1', 16)"
    """
    values = [
        repr(getattr(action, f.name))
        for f in dataclasses.fields(action)  # type: ignore[arg-type]
        if getattr(action, f.name) != f.default
    ]
    return f"{type(action).__name__}({', '.join(values)})"
