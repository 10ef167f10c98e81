"""Background: kernels tuned while the program goes on with those of the heuristic.

A process of low priority does all of the work: the search, the compiling and timing, and at the end
the program with what was found beside the program without it. A thread here waits for that. One
program is tuned at a time. When this process ends, so does the tuning; a process that was forked
from this one knows nothing of it.
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

NICE: Final = 10
"""By how much the priority is lowered."""

WIDTH: Final = 4
"""Lists of actions that are kept in each round, if the setting `beam` does not say."""

SPARE_SECONDS: Final = 60.0
"""What a tuner may take beyond its budget, for starting and for the last candidates."""

_turn = threading.Lock()
_running: list[Background] = []


class Background:
    """The tuning of a program, some of whose inputs are constants, which goes on by itself."""

    def __init__(
        self,
        schedule: Schedule,
        constants: frozenset[int],
        backend: Backend,
        seconds: float,
        then: Callable[[], None],
    ) -> None:
        self.schedule = schedule
        self.constants = constants
        self.backend = backend
        self.seconds = seconds
        self.then = then
        """Called when better kernels were found, in another thread."""
        self._crew: WorkerPool | None = None
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
        """Wait until it has ended; whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End it; what it has not told yet is lost."""
        self._stopped = True
        crew = self._crew
        if crew is not None:
            crew.stop()

    def _run(self) -> None:
        try:
            with _turn, settings.override(beam=0):
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
        there = tuning_cache.TuningCache(self.backend)
        known = [(place, there.get(kernel)) for place, kernel in enumerate(kernels)]
        job = {
            "job": "tune",
            "schedule": serialize(self.schedule),
            "constants": sorted(self.constants),
            "known": [
                (place, write_actions(each.actions), each.before, each.after)
                for place, each in known
                if each is not None
            ],
            "width": settings.beam or WIDTH,
            "seconds": self.seconds,
        }
        with WorkerPool(1, nice=NICE) as crew:
            self._crew = crew
            ((_, answer),) = crew.run_jobs([job], self.seconds + SPARE_SECONDS)
        if self._stopped or isinstance(answer, WorkerFault) or "error" in answer:
            return
        better = False
        for place, data, before, after in answer["tuned"]:
            try:
                actions = read_actions(data)
            except ActionError:
                continue
            faster = after < before  # if not, another day there may be more time
            tuning_cache.record(
                kernels[place], self.backend, actions, before, after, on_disk=faster
            )
            better = better or faster
        if better:
            self.then()


def stop_all() -> None:
    """End what goes on in the background."""
    for each in list(_running):
        each.stop()
    for each in list(_running):
        each.wait(1.0)


def _after_fork() -> None:
    # The threads are not in this process, and the tuners are the other one's.
    global _turn
    _turn = threading.Lock()
    _running.clear()


atexit.register(stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
