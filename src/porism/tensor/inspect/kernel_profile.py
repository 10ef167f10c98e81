"""Profile: which kernels take the time, as a table for people and as rows for programs."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType

from porism.base.fork_locks import held_while_forking
from porism.engine.profile import kernel_observer
from porism.engine.profile.kernel_observer import Run
from porism.engine.profile.work_counts import Speed, Work
from porism.ir.node import UOp
from porism.tensor.shapes import refuse


@dataclass(frozen=True, slots=True)
class Row:
    """All runs of one kernel."""

    name: str
    """What it does, how large it is, and which of such kernels it is."""
    backend: str
    runs: int
    seconds: float
    """Of all runs together."""
    share: float
    """Of the time of all kernels, from 0 to 1."""
    work: Work
    """Of all runs together."""
    kernel: UOp
    """The kernel itself, as a graph."""

    @property
    def gflops(self) -> float:
        """Operations on floats, 10⁹ a second."""
        return Speed(self.seconds, self.work).gflops

    @property
    def gigabytes(self) -> float:
        """Memory that is read and written, 10⁹ bytes a second."""
        return Speed(self.seconds, self.work).gigabytes


@dataclass(slots=True)
class _Sum:
    name: str
    runs: int = 0
    seconds: float = 0.0
    flops: int = 0
    bytes: int = 0


_adding = held_while_forking(threading.Lock())
"""Held while the sums of any profile change or are read."""


class Profile:
    """What ran inside of a `with` block, in all threads."""

    def __init__(self, show: bool) -> None:
        self.show = show
        self.wall = 0.0
        """Seconds between the begin and the end of the block."""
        self._sums: dict[tuple[UOp, str], _Sum] = {}
        self._listening: AbstractContextManager[None] | None = None
        self._began = 0.0

    def __enter__(self) -> Profile:
        if self._listening is not None:
            raise refuse(
                "a profile is begun while it is on",
                "it would count every kernel twice",
                "make another one with porism.profile(); profiles may be inside of each other",
            )
        self._listening = kernel_observer.listening(self._see)
        self._listening.__enter__()
        self._began = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: TracebackType | None,
    ) -> None:
        self.wall += time.perf_counter() - self._began
        listening, self._listening = self._listening, None
        assert listening is not None
        listening.__exit__(None, None, None)
        if self.show and kind is None:
            print(self)

    def _see(self, ran: Run) -> None:
        with _adding:
            one = self._sums.setdefault((ran.kernel, ran.backend), _Sum(ran.name))
            one.runs += 1
            one.seconds += ran.speed.seconds
            one.flops += ran.speed.work.flops
            one.bytes += ran.speed.work.bytes

    @property
    def seconds(self) -> float:
        """Of all kernels; more than the wall has seen, if threads ran some at the same time."""
        with _adding:
            return sum(one.seconds for one in self._sums.values())

    @property
    def rows(self) -> list[Row]:
        """A row for each kernel, the one that took longest first."""
        with _adding:
            found = [(key, one) for key, one in self._sums.items()]
            total = sum(one.seconds for _, one in found)
            rows = [
                Row(
                    one.name, backend, one.runs, one.seconds,
                    one.seconds / total if total else 0.0, Work(one.flops, one.bytes), kernel,
                )
                for (kernel, backend), one in found
            ]  # fmt: skip
        return sorted(rows, key=lambda row: -row.seconds)

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
        return f"<profile of {len(self._sums)} kernels, {1e3 * self.seconds:.3f} ms>"


def profile(*, show: bool = True) -> Profile:
    """Time every kernel that is run inside a `with` block, from whichever thread.

    At the end of the block a table is printed, unless `show` is false. Inside of it kernels run one
    after the other, also those that would run side by side.

    >>> import porism
    >>> with porism.profile(show=False) as seen:
    ...     y = (porism.arange(4.0) + 1).realize()
    >>> [(row.runs, row.work.flops) for row in seen.rows]
    [(1, 4)]
    """
    return Profile(show)


def _table(rows: Sequence[Row]) -> str:
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
