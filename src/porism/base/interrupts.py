"""Interrupts: Ctrl-C is answered while native code runs, and where Python would lose it.

Python runs the handlers of signals in its main thread, between two of its instructions. So a native
call that takes long is made by another thread, while the main thread waits for it in a way that a
signal interrupts: the call is then left to itself. And what must not stop halfway, as a change to a
table in several steps, is done by another thread too: no handler runs there.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")


def run_off_main_thread(function: Callable[[], T]) -> T:
    """What a function gives, which another thread calls if this is the main one.

    An interrupt ends the waiting and not the function, which goes on; all that it uses has to stay
    as it is, and is kept alive by it.
    """
    main = threading.main_thread()
    if threading.get_ident() != main.ident or not main.is_alive() or sys.is_finalizing():
        return function()
    results: list[T] = []
    faults: list[BaseException] = []
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            results.append(function())
        except BaseException as fault:  # it is raised where the result is wanted
            faults.append(fault)
        finally:
            done.release()

    try:
        _thread.start_new_thread(work, ())  # which takes no lock that this thread may hold
    except RuntimeError:  # there are too many, or the interpreter ends
        return function()
    done.acquire()
    if faults:
        raise faults[0]
    return results[0]


class _RaisingSignal(int):
    """A signal that arrives once more when `again` is read."""

    again = property(_thread.interrupt_main)


PENDING_INTERRUPT: Final = _RaisingSignal(signal.SIGINT)
"""An interrupt for those whom Python does not let raise one, as callbacks of its collector.

`return INTERRUPT.again` interrupts whom they return to: Python looks for signals after calls, and
not after it has read an attribute.
"""
