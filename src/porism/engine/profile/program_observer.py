"""Program observer: callbacks that are told of each tensor graph that is scheduled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from porism.base.fork_locks import held_while_forking
from porism.ir.node import UOp
from porism.schedule.schedule import Schedule

Observer = Callable[[UOp, Schedule], None]

observers: tuple[Observer, ...] = ()
"""The observers, which are called in the thread that schedules a graph."""
_lock = held_while_forking(threading.Lock())


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Call a function with every graph and its schedule inside the `with` block."""
    global observers
    with _lock:
        observers = (*observers, observer)
    try:
        yield
    finally:
        with _lock:
            observers = tuple(other for other in observers if other is not observer)
