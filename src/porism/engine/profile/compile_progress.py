"""Progress: a bar on the terminal while something is compiled for longer than a second.

The bar is drawn by a thread of its own, which is started only where there is a terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from porism.base.fork_locks import held_while_forking
from porism.base.settings import settings

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE: Final = 1.0
"""Seconds before a bar is shown."""

PAUSE: Final = 0.05
"""Seconds between two tasks that still belong to one wait."""

_drawing = held_while_forking(threading.Lock())
"""Held while a bar of any thread appears or goes."""


class Bar:
    """How far a task is."""

    def __init__(self, text: str, total: int | None) -> None:
        self.text = text
        self.total = total
        self.done = 0
        self._progress: Progress | None = None
        self._over = False

    def step(self) -> None:
        """One more part is done."""
        self.done += 1
        progress = self._progress
        if progress is not None:
            progress.update(progress.task_ids[0], completed=self.done)

    def show(self) -> None:
        """Begin to draw, unless the task is over."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed

        counted = [MofNCompleteColumn()] if self.total is not None else []
        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), *counted, Elapsed()]
        made = Progress(*columns, console=Console(file=sys.stderr), transient=True)
        with _drawing:
            if self._over:
                return
            made.add_task(self.text, total=self.total, completed=self.done)
            made.start()
            self._progress = made

    def end(self) -> None:
        """Take the bar away."""
        with _drawing:
            self._over = True
            if self._progress is not None:
                self._progress.stop()


class _Last(threading.local):
    """The wait that a thread was last in: when it began, and when it ended."""

    began = 0.0
    ended = -1.0


_last = _Last()


@contextmanager
def bar(text: str, total: int | None = None) -> Iterator[Bar]:
    """A task that may take long; without a total, nothing is known of how far it is."""
    made = Bar(text, total)
    if not _is_wanted():
        yield made
        return
    now = time.monotonic()
    if now - _last.ended > PAUSE:
        _last.began = now
    timer = threading.Timer(max(PATIENCE - (now - _last.began), 0.0), made.show)
    timer.daemon = True
    timer.start()
    try:
        yield made
    finally:
        timer.cancel()
        made.end()
        _last.ended = time.monotonic()


def _is_wanted() -> bool:
    try:
        return bool(settings.progress and sys.stderr.isatty())
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False
