"""What tuning shows: a bar while it goes on, and a table of what it has come to."""

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

UNITS: Final = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))


def duration(seconds: float) -> str:
    """A time as people read it.

    >>> duration(2.5), duration(0.00125), duration(3.2e-06)
    ('2.5 s', '1.25 ms', '3.2 µs')
    """
    for unit, size in UNITS:
        if seconds >= size or unit == "µs":
            return f"{seconds / size:.3g} {unit}"
    raise AssertionError


@contextmanager
def shown() -> Iterator[Listener | None]:
    """A bar on a terminal with the best time so far; nothing where there is no terminal."""
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


def table(reports: Sequence[TuningReport]) -> Table:
    """What became of each kernel."""
    made = Table(title=None, show_lines=False)
    for head in ("kernel", "before", "after", "times as fast", "GFLOP/s", "candidates"):
        right = head not in ("kernel", "candidates")
        made.add_column(head, justify="right" if right else "left", overflow="fold")
    for each in reports:
        if each.error:
            made.add_row(each.name, "", "", "", "", f"not tuned: {each.error}")
            continue
        made.add_row(
            each.name,
            duration(each.before),
            duration(each.after),
            f"{each.before / each.after:.2f}",
            f"{each.gflops:.1f}" if each.flops else "",
            _candidates(each),
        )
    return made


def _candidates(each: TuningReport) -> str:
    """How many there were; without actions that a kernel allows there are none."""
    dropped = sum(each.faults.values())
    if not each.tried:
        return f"none tried, {each.pruned} hopeless" if each.pruned else "every action is refused"
    return f"{each.tried} tried" + (f", {dropped} dropped" if dropped else "")


def changes(reports: Sequence[TuningReport]) -> str:
    """The actions of each kernel that became faster, a line each."""
    return "\n".join(
        f"{each.name}: {', '.join(map(action_text, each.actions)) or 'no actions'}"
        for each in reports
        if each.after < each.before
    )


def action_text(action: object) -> str:
    """An action in short.

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
