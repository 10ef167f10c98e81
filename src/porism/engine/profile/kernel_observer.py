"""Kernel observer: callbacks that are told of each kernel that runs, with its time.

Without observers a whole program is one native call. While there is an observer, or the setting
`debug` is more than 0, each kernel is run and timed separately.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from porism.base import debug
from porism.base.fork_locks import held_while_forking
from porism.base.settings import is_debugging
from porism.engine.profile.work_counts import Speed, Work, kernel_name, work_of
from porism.ir.node import UOp
from porism.schedule.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from porism.backends.backend_table import Backend
    from porism.engine.profile.thread_shares import Share

MAX_KERNELS: Final = 10_000
"""Entries of each table in memory, chosen by hand; a full table is cleared."""


@dataclass(frozen=True, slots=True)
class KernelRun:
    """One run of a kernel."""

    kernel: UOp
    backend: str
    name: str
    """As `work_counts.kernel_name` returns it."""
    speed: Speed
    begin: float
    """When it began, in seconds of `time.perf_counter`."""
    schedule: Schedule
    step: int
    """The position of the kernel in the schedule."""
    shares: tuple[Share, ...] = ()
    """What each thread ran of it; none if it was not compiled."""


Observer = Callable[[KernelRun], None]

observers: tuple[Observer, ...] = ()
"""The observers, which are called in the thread that runs a kernel."""
_lock = held_while_forking(threading.Lock())


def is_observed() -> bool:
    """Return whether kernels are to be run one by one."""
    return bool(observers) or (is_debugging() and debug.level() > 0)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Call a function for every kernel that this process runs inside the `with` block."""
    global observers
    with _lock:
        observers = (*observers, observer)
    try:
        yield
    finally:
        with _lock:
            observers = tuple(other for other in observers if other is not observer)


def run_observed(
    schedule: Schedule,
    backend: Backend,
    variables: Mapping[str, int],
    run: Callable[[int], tuple[Share, ...]],
) -> None:
    """Run the kernels of a schedule one by one by number, and report each to the observers."""
    for number, step in enumerate(schedule.steps):
        kernel = step.kernel
        begin = time.perf_counter()
        shares = run(number)
        seconds = time.perf_counter() - begin
        name, work = _name_and_work(kernel, variables)
        speed = Speed(seconds, work)
        kernel_run = KernelRun(kernel, backend.name, name, speed, begin, schedule, number, shares)
        for observer in observers:
            observer(kernel_run)
        if debug.level():
            names = {k: schedule.buffers[b].name for k, b in enumerate(step.buffers)}
            _print_run(kernel_run, backend, names)


_names_and_work: dict[tuple[UOp, tuple[tuple[str, int], ...]], tuple[str, Work]] = {}


def _name_and_work(kernel: UOp, variables: Mapping[str, int]) -> tuple[str, Work]:
    """Return the name and the work of a kernel; cached by kernel and variables."""
    key = (kernel, tuple(variables.items()))
    if key not in _names_and_work:
        if len(_names_and_work) >= MAX_KERNELS:
            _names_and_work.clear()
        _names_and_work[key] = kernel_name(kernel), work_of(kernel, variables)
    return _names_and_work[key]


# -- debug output ----------------------------------------------------------------------------------


_printed_levels: dict[tuple[UOp, str], int] = {}
"""The highest debug level at which each kernel was printed, by kernel and backend."""


def _print_run(kernel_run: KernelRun, backend: Backend, names: Mapping[int, str]) -> None:
    debug.log(
        f"{1e3 * kernel_run.speed.seconds:9.3f} ms {kernel_run.speed.gflops:8.1f} GFLOP/s "
        f"{kernel_run.speed.gigabytes:7.1f} GB/s  {kernel_run.name}"
    )
    level, key = debug.level(), (kernel_run.kernel, kernel_run.backend)
    printed_level = _printed_levels.get(key, 0)
    if level <= printed_level or level < debug.LOOPS:
        return
    if len(_printed_levels) >= MAX_KERNELS:
        _printed_levels.clear()
    _printed_levels[key] = level
    if printed_level < debug.LOOPS:
        debug.log(
            f"the loops of {kernel_run.name}", _loop_listing(kernel_run.kernel, backend, names)
        )
    if level >= debug.SOURCE and backend.load is not None:
        from porism.engine.run.kernel_source import source_of

        debug.log(f"the source of {kernel_run.name}", source_of(kernel_run.kernel, backend.name))


def _loop_listing(kernel: UOp, backend: Backend, names: Mapping[int, str]) -> str:
    """Return the loops of a kernel as they are compiled, or as the evaluator runs them."""
    from porism.engine.tune.tuning_cache import tuned_actions
    from porism.pipeline import optimize_kernel
    from porism.schedule.loop_listing import listing

    scheduled = (
        kernel
        if backend.load is None
        else optimize_kernel(kernel, backend.target(), actions=tuned_actions(kernel, backend))
    )
    return listing(scheduled, names)
