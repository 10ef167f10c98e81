"""Profile: the time of each kernel in a block of code, as a table and as rows."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from porism.base.fork_locks import held_while_forking
from porism.engine.profile import kernel_observer
from porism.engine.profile.kernel_observer import KernelRun
from porism.engine.profile.work_counts import Speed, Work
from porism.ir.node import UOp
from porism.tensor.shapes import shape_error

if TYPE_CHECKING:
    from porism.tensor.inspect.program_view import View
    from porism.viewer.program_recorder import Recorder
    from porism.viewer.tensor_origins import Origins


@dataclass(frozen=True, slots=True)
class Row:
    """The runs of one kernel on one backend, added up."""

    name: str
    """What the kernel computes, its extents, and four digits of its digest."""
    backend: str
    runs: int
    seconds: float
    """The time of all runs together."""
    share: float
    """The fraction of the time of all kernels, from 0 to 1."""
    work: Work
    """The operations on floats and the bytes of all runs together."""
    kernel: UOp
    """The kernel as a graph."""

    @property
    def gflops(self) -> float:
        """Operations on floats, in 10⁹ a second."""
        return Speed(self.seconds, self.work).gflops

    @property
    def gigabytes(self) -> float:
        """Memory that is read and written, in 10⁹ bytes a second."""
        return Speed(self.seconds, self.work).gigabytes


@dataclass(slots=True)
class _Total:
    """The runs of one kernel so far, added up."""

    name: str
    runs: int = 0
    seconds: float = 0.0
    flops: int = 0
    bytes: int = 0


_totals_lock = held_while_forking(threading.Lock())
"""Held while the totals of any profile change or are read."""


class Profile:
    """The kernels that ran inside a `with` block, in all threads."""

    def __init__(self, show: bool) -> None:
        self._shows = show
        self.wall = 0.0
        """Seconds from the beginning to the end of the block."""
        self._totals: dict[tuple[UOp, str], _Total] = {}
        self._observing: AbstractContextManager[None] | None = None
        self._start = 0.0
        self._recording: AbstractContextManager[tuple[Recorder, Origins]] | None = None
        self._recorders: list[tuple[Recorder, Origins]] = []

    def __enter__(self) -> Profile:
        if self._observing is not None:
            raise shape_error(
                "a profile is started that is running already",
                "it would count every kernel twice",
                "make another one with porism.profile(); profiles may be nested",
            )
        from porism.tensor.inspect.program_view import recorded

        self._recording = recorded()
        self._recorders.append(self._recording.__enter__())
        self._observing = kernel_observer.observing(self._add)
        self._observing.__enter__()
        self._start = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.wall += time.perf_counter() - self._start
        observing, self._observing = self._observing, None
        assert observing is not None
        observing.__exit__(None, None, None)
        assert self._recording is not None
        self._recording.__exit__(None, None, None)
        if self._shows and kind is None:
            self.show()

    def _add(self, run: KernelRun) -> None:
        """Add one run of a kernel to its total."""
        with _totals_lock:
            total = self._totals.setdefault((run.kernel, run.backend), _Total(run.name))
            total.runs += 1
            total.seconds += run.speed.seconds
            total.flops += run.speed.work.flops
            total.bytes += run.speed.work.bytes

    @property
    def seconds(self) -> float:
        """The time of all kernels; more than `wall` if threads ran some concurrently."""
        with _totals_lock:
            return sum(total.seconds for total in self._totals.values())

    @property
    def rows(self) -> list[Row]:
        """A row for each kernel, the slowest first."""
        with _totals_lock:
            seconds = sum(total.seconds for total in self._totals.values())
            rows = [
                Row(
                    total.name, backend, total.runs, total.seconds,
                    total.seconds / seconds if seconds else 0.0,
                    Work(total.flops, total.bytes), kernel,
                )
                for (kernel, backend), total in self._totals.items()
            ]  # fmt: skip
        return sorted(rows, key=lambda row: -row.seconds)

    def show(self) -> None:
        """Print the table of kernels."""
        print(self)

    def html(self, path: str | Path | None = None) -> str:
        """Return a page about the kernels that ran, as `porism.view` does; write it to `path`."""
        page = self._view().html
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def _repr_html_(self) -> str:
        """Return the page in a frame, for a notebook."""
        return self._view()._repr_html_()

    def _view(self) -> View:
        from porism.tensor.inspect.program_view import View
        from porism.viewer.program_recorder import joined
        from porism.viewer.program_report import report

        recording = joined([recorder for recorder, _ in self._recorders])
        origins = self._recorders[0][1] if self._recorders else None
        return View(report(recording, origins, title="profile", first_tab="Trace"))

    def chrome_trace(self, path: str | Path | None = None) -> dict[str, Any]:
        """Return the runs of kernels and the stages of compiling as trace events.

        Written to `path` as JSON, they can be opened in Perfetto and in `chrome://tracing`.
        """
        from porism.viewer.chrome_trace import chrome_trace
        from porism.viewer.program_recorder import joined

        trace = chrome_trace(joined([recorder for recorder, _ in self._recorders]))
        if path is not None:
            Path(path).write_text(json.dumps(trace), encoding="utf-8")
        return trace

    def __str__(self) -> str:
        rows = self.rows
        if not rows:
            return f"no kernel was run in {1e3 * self.wall:.1f} ms"
        runs = sum(row.runs for row in rows)
        return "\n".join(
            [
                _table(rows),
                f"{runs} runs of {len(rows)} kernels took {1e3 * self.seconds:.3f} ms "
                f"of {1e3 * self.wall:.3f} ms",
            ]
        )

    def __repr__(self) -> str:
        return f"<profile of {len(self._totals)} kernels, {1e3 * self.seconds:.3f} ms>"


def profile(*, show: bool = True) -> Profile:
    """Time every kernel that runs inside a `with` block, in any thread.

    At the end of the block a table is printed, unless `show` is false; `profile.show()` prints it
    again, `profile.html(path)` makes a page, `profile.chrome_trace(path)` trace events, with the
    stages of compiling in this thread. Inside the block kernels run one after the other, also those
    that would otherwise run concurrently.

    >>> import porism
    >>> with porism.profile(show=False) as profile:
    ...     y = (porism.arange(4.0) + 1).realize()
    >>> [(row.runs, row.work.flops) for row in profile.rows]
    [(1, 4)]
    """
    return Profile(show)


def _table(rows: Sequence[Row]) -> str:
    """Return the rows as a table in text."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("kernel", overflow="fold")
    for head in ("runs", "total ms", "share", "GFLOP/s", "GB/s"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.name if row.backend == "llvm" else f"{row.name} ({row.backend})",
            str(row.runs),
            f"{1e3 * row.seconds:.3f}",
            f"{row.share:.1%}",
            f"{row.gflops:.1f}",
            f"{row.gigabytes:.1f}",
        )
    console = Console(file=io.StringIO(), width=100, highlight=False, markup=False)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
