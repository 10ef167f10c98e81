"""Watch: kernels seen as they run, one by one, by those who want to know.

Nobody does as a rule, and then a whole program is one native call. While somebody listens, or the
setting `debug` is more than 0, each kernel is run and timed on its own.
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
from porism.base.settings import loud
from porism.engine.profile.work_counts import Speed, Work, name_of, work_of
from porism.ir.node import UOp
from porism.schedule.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from porism.backends.backend_table import Backend

MOST_KERNELS: Final = 10_000
"""Kernels whose work and name are remembered."""


@dataclass(frozen=True, slots=True)
class Run:
    """A kernel that was run."""

    kernel: UOp
    backend: str
    name: str
    """What it does, how large it is, and which of such kernels it is."""
    speed: Speed


Listener = Callable[[Run], None]

listeners: tuple[Listener, ...] = ()
"""Those who want to know, from whichever thread a kernel is run."""
_lock = held_while_forking(threading.Lock())


def wanted() -> bool:
    """Whether kernels are to be run one by one; asked before every run."""
    return bool(listeners) or (loud() and debug.level() > 0)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let a function see every kernel that is run in this process inside a `with` block."""
    global listeners
    with _lock:
        listeners = (*listeners, listener)
    try:
        yield
    finally:
        with _lock:
            listeners = tuple(other for other in listeners if other is not listener)


def run_each(
    schedule: Schedule,
    backend: Backend,
    variables: Mapping[str, int],
    run: Callable[[int], None],
) -> None:
    """Run the kernels of a schedule by number, and tell of each when it is over."""
    for number, step in enumerate(schedule.steps):
        kernel = step.kernel
        begin = time.perf_counter()
        run(number)
        seconds = time.perf_counter() - begin
        name, work = _known(kernel, variables)
        ran = Run(kernel, backend.name, name, Speed(seconds, work))
        for listener in listeners:
            listener(ran)
        if debug.level():
            names = {k: schedule.buffers[b].name for k, b in enumerate(step.buffers)}
            _tell(ran, backend, names)


_found: dict[tuple[UOp, tuple[tuple[str, int], ...]], tuple[str, Work]] = {}


def _known(kernel: UOp, variables: Mapping[str, int]) -> tuple[str, Work]:
    """The name and the work of a kernel, counted once."""
    key = (kernel, tuple(variables.items()))
    if key not in _found:
        if len(_found) >= MOST_KERNELS:
            _found.clear()
        _found[key] = name_of(kernel), work_of(kernel, variables)
    return _found[key]


# -- telling ---------------------------------------------------------------------------------------


_told: dict[tuple[UOp, str], int] = {}
"""The level at which kernels were told of, the loops and the source of each once."""


def _tell(ran: Run, backend: Backend, names: Mapping[int, str]) -> None:
    debug.say(
        f"{1e3 * ran.speed.seconds:9.3f} ms {ran.speed.gflops:8.1f} GFLOP/s "
        f"{ran.speed.gigabytes:7.1f} GB/s  {ran.name}"
    )
    level, key = debug.level(), (ran.kernel, ran.backend)
    before = _told.get(key, 0)
    if level <= before or level < debug.LOOPS:
        return
    if len(_told) >= MOST_KERNELS:
        _told.clear()
    _told[key] = level
    if before < debug.LOOPS:
        debug.say(f"the loops of {ran.name}", _loops(ran.kernel, backend, names))
    if level >= debug.SOURCE and backend.load is not None:
        from porism.engine.run.kernel_source import source_of

        debug.say(f"the source of {ran.name}", source_of(ran.kernel, backend.name))


def _loops(kernel: UOp, backend: Backend, names: Mapping[int, str]) -> str:
    """As they are compiled; the evaluator runs them as they are."""
    from porism.engine.tune.tuning_cache import tuned_actions
    from porism.pipeline import optimize_kernel
    from porism.schedule.loop_listing import listing

    arranged = (
        kernel
        if backend.load is None
        else optimize_kernel(kernel, backend.target(), actions=tuned_actions(kernel, backend))
    )
    return listing(arranged, names)
