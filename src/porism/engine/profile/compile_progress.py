"""Compile progress: a progress bar on the terminal when compiling takes longer than a second.

The bar is drawn by another thread, which is started only if there is a terminal. Observers are told
of every task that a bar may be drawn for, with its time.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from porism.base.fork_locks import held_while_forking
from porism.base.settings import settings

if TYPE_CHECKING:
    from rich.progress import Progress

SHOW_AFTER_SECONDS: Final = 1.0
"""Seconds before a bar is shown; chosen by hand."""

SAME_WAIT_SECONDS: Final = 0.05
"""Largest gap in seconds between two tasks that count as one wait; chosen by hand."""

TaskObserver = Callable[[str, float, float], None]
"""Takes the text of a task, when it began in seconds of `time.perf_counter`, and its seconds."""

_observers: tuple[TaskObserver, ...] = ()
_changing = held_while_forking(threading.Lock())

_drawing = held_while_forking(threading.Lock())
"""Held while a bar of any thread appears or disappears."""


class ProgressBar:
    """The progress of one task, drawn when it takes long."""

    def __init__(self, text: str, total: int | None) -> None:
        self.text = text
        self.total = total
        self.done = 0
        self._progress: Progress | None = None
        self._over = False

    def step(self) -> None:
        """Count one more part as done."""
        self.done += 1
        progress = self._progress
        if progress is not None:
            progress.update(progress.task_ids[0], completed=self.done)

    def show(self) -> None:
        """Start drawing, unless the task is over."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed

        counted = [MofNCompleteColumn()] if self.total is not None else []
        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), *counted, Elapsed()]
        progress = Progress(*columns, console=Console(file=sys.stderr), transient=True)
        with _drawing:
            if self._over:
                return
            progress.add_task(self.text, total=self.total, completed=self.done)
            progress.start()
            self._progress = progress

    def end(self) -> None:
        """Remove the bar."""
        with _drawing:
            self._over = True
            if self._progress is not None:
                self._progress.stop()


class _LastWait(threading.local):
    """When the last wait of a thread began and ended, in seconds of the monotonic clock."""

    began = 0.0
    ended = -1.0


_last_wait = _LastWait()


@contextmanager
def observing(observer: TaskObserver) -> Iterator[None]:
    """Call a function for every task that ends inside the `with` block, in the task's thread."""
    global _observers
    with _changing:
        _observers = (*_observers, observer)
    try:
        yield
    finally:
        with _changing:
            _observers = tuple(other for other in _observers if other is not observer)


@contextmanager
def progress_bar(text: str, total: int | None = None) -> Iterator[ProgressBar]:
    """Show a progress bar if the block takes long; without a total it has no percentage."""
    with observed_task(text), _drawn(ProgressBar(text, total)) as task:
        yield task


@contextmanager
def observed_task(text: str) -> Iterator[None]:
    """Tell the observers of a task when the block ends."""
    begin = time.perf_counter()
    try:
        yield
    finally:
        for observer in _observers:
            observer(text, begin, time.perf_counter() - begin)


@contextmanager
def _drawn(task: ProgressBar) -> Iterator[ProgressBar]:
    """Draw a task while it runs, if there is a terminal."""
    if not _is_enabled():
        yield task
        return
    now = time.monotonic()
    if now - _last_wait.ended > SAME_WAIT_SECONDS:
        _last_wait.began = now
    timer = threading.Timer(max(SHOW_AFTER_SECONDS - (now - _last_wait.began), 0.0), task.show)
    timer.daemon = True
    timer.start()
    try:
        yield task
    finally:
        timer.cancel()
        task.end()
        _last_wait.ended = time.monotonic()


def _is_enabled() -> bool:
    try:
        return bool(settings.progress and sys.stderr.isatty())
    except (AttributeError, ValueError):  # stderr is missing or closed
        return False
