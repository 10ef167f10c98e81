"""Interrupts: handle Ctrl-C while native code runs, and where Python would lose it.

Python runs signal handlers in its main thread, between two bytecode instructions. So a long native
call is made by another thread, while the main thread waits for it in a way that a signal
interrupts; the call then goes on in the background. A critical section, such as a change to a table
in several steps, runs in another thread too: no handler can interrupt it there.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, TypeVar

T = TypeVar("T")


def run_off_main_thread(function: Callable[[], T]) -> T:
    """Return the result of a function, which another thread calls if this is the main thread.

    An interrupt ends the waiting but not the function, which goes on in the background: what it
    uses must not be changed, and is kept alive by its closure.
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
        except BaseException as fault:  # raised again in the main thread
            faults.append(fault)
        finally:
            done.release()

    try:
        _thread.start_new_thread(work, ())  # unlike threading.Thread, it takes no lock
    except RuntimeError:  # there are too many threads, or the interpreter ends
        return function()
    done.acquire()
    if faults:
        raise faults[0]
    return results[0]


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Let Ctrl-C wait until the end of the `with` block, in the main thread."""
    previous = None
    if threading.current_thread() is threading.main_thread():
        previous = signal.getsignal(signal.SIGINT)
    if not callable(previous):
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *arguments: received.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if received:
            previous(*received[0])


class _RaisingSignal(int):
    """A signal that is raised again when the attribute `again` is read."""

    again = property(_thread.interrupt_main)


PENDING_INTERRUPT: Final = _RaisingSignal(signal.SIGINT)
"""An interrupt for callbacks in which Python ignores exceptions, as those of its collector.

`return PENDING_INTERRUPT.again` interrupts the caller of the callback: Python handles signals after
calls, and not after it has read an attribute.
"""
