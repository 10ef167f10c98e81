"""Background tuning: kernels are tuned in another process while the program goes on.

Meanwhile the program runs the heuristic's kernels. A worker process of low priority does all of the
tuning: the search, compiling and timing, and at the end the comparison of the whole program with
and without tuned kernels. A thread here waits for its answer. One program is tuned at a time. The
tuning ends with this process; a forked child does not take part in it.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import sys
import threading
from collections.abc import Callable
from typing import Final

from porism.backends.backend_table import Backend
from porism.base.errors import ActionError, PorismError
from porism.base.settings import settings
from porism.engine.cache.schedule_cache import serialize
from porism.engine.tune import tuning_cache
from porism.engine.tune.worker_pool import WorkerFault, WorkerPool
from porism.optimize.actions.action_serialization import read_actions, write_actions
from porism.schedule.schedule import Schedule

NICE_INCREMENT: Final = 10
"""By how much the priority of the worker is lowered, as `nice` counts; chosen by hand."""

DEFAULT_BEAM_WIDTH: Final = 4
"""Beam width if the setting `beam` is 0: lists of actions kept in each round; chosen by hand."""

SPARE_SECONDS: Final = 60.0
"""Seconds that a worker may take beyond its budget, for its start and the last candidates."""

_one_at_a_time = threading.Lock()
_running: list[BackgroundTuning] = []


class BackgroundTuning:
    """The tuning of one program in the background."""

    def __init__(
        self,
        schedule: Schedule,
        constants: frozenset[int],
        backend: Backend,
        seconds: float,
        on_faster: Callable[[], None],
    ) -> None:
        self.schedule = schedule
        self.constants = constants
        self.backend = backend
        self.seconds = seconds
        self.on_faster = on_faster
        """Called in another thread when faster kernels were found."""
        self._pool: WorkerPool | None = None
        self._stopped = False
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(self._run,),
            name="porism-tuning",
            daemon=True,
        )
        _running.append(self)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until tuning has ended, at most `timeout` seconds; return whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End the tuning; results that were not reported yet are lost."""
        self._stopped = True
        pool = self._pool
        if pool is not None:
            pool.stop()

    def _run(self) -> None:
        try:
            with _one_at_a_time, settings.override(beam=0):
                if not self._stopped:
                    self._tune()
        except PorismError as error:
            if settings.debug >= 1:
                print(f"porism: kernels are not tuned: {error.what}", file=sys.stderr)
        finally:
            if self in _running:
                _running.remove(self)

    def _tune(self) -> None:
        kernels = [step.kernel for step in self.schedule.steps]
        cache = tuning_cache.TuningCache(self.backend)
        entries = [(number, cache.get(kernel)) for number, kernel in enumerate(kernels)]
        job = {
            "job": "tune",
            "parent": os.getpid(),
            "schedule": serialize(self.schedule),
            "constants": sorted(self.constants),
            "known": [
                (number, write_actions(tuned.actions), tuned.before, tuned.after)
                for number, tuned in entries
                if tuned is not None
            ],
            "width": settings.beam or DEFAULT_BEAM_WIDTH,
            "seconds": self.seconds,
        }
        with WorkerPool(1, nice=NICE_INCREMENT) as pool:
            self._pool = pool
            ((_, answer),) = pool.run_jobs([job], self.seconds + SPARE_SECONDS)
        if self._stopped or isinstance(answer, WorkerFault) or "error" in answer:
            return
        is_faster = False
        for number, data, before, after in answer["tuned"]:
            try:
                actions = read_actions(data)
            except ActionError:
                continue
            faster = after < before  # if not, another process may have more time
            tuning_cache.record(
                kernels[number], self.backend, actions, before, after, on_disk=faster
            )
            is_faster = is_faster or faster
        if is_faster:
            self.on_faster()


def stop_all() -> None:
    """End all background tuning."""
    for tuning in list(_running):
        tuning.stop()
    for tuning in list(_running):
        tuning.wait(1.0)


def _after_fork() -> None:
    # A forked child has no copy of the threads, and the workers belong to the parent.
    global _one_at_a_time
    _one_at_a_time = threading.Lock()
    _running.clear()


atexit.register(stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
