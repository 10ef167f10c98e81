"""Interrupts: handle Ctrl-C while native code runs, and where Python would lose it.

Python runs signal handlers in its main thread, between two bytecode instructions. So a long native
call is made by another thread, while the main thread waits for it in a way that a signal
interrupts; the call then goes on in the background. A critical section, such as a change to a table
in several steps, runs in another thread too: no handler can interrupt it there.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # its functions are fast: they make no enums
import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
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


DEFERRED: Final = tuple(
    int(getattr(signal, name))
    for name in ("SIGALRM", "SIGHUP", "SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGVTALRM")
    if hasattr(signal, name)
)
"""Signals whose handlers raise errors in programs: Ctrl-C, time limits, requests to end."""


Handler = Callable[[int, FrameType | None], object]
"""What Python calls for a signal, with its number and the frame that it interrupts."""


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Let Ctrl-C and other signals wait until the end of the `with` block, in the main thread.

    No handler of the program runs inside of the block, so that none can raise an error there.
    """
    previous: dict[int, Handler] = {}
    if threading.current_thread() is threading.main_thread():
        for number in DEFERRED:
            handler = _signal.getsignal(number)
            if callable(handler):
                previous[number] = handler
    received: dict[int, FrameType | None] = {}
    try:
        for number in previous:
            _signal.signal(number, received.setdefault)
        yield
    finally:
        try:
            _put_back(previous)
        finally:
            with contextlib.ExitStack() as calls:  # all are made, whatever one of them raises
                for number, frame in reversed(received.items()):
                    calls.callback(previous[number], number, frame)


def _put_back(handlers: Mapping[int, Handler]) -> None:
    """Set the handlers of signals; raise what one of them raises meanwhile, when all are set."""
    left = list(handlers)
    error: BaseException | None = None
    while left:
        try:
            while left:
                _signal.signal(left[-1], handlers[left[-1]])
                left.pop()
        except BaseException as raised:
            error = error or raised
    if error is not None:
        raise error


class _RaisingSignal(int):
    """A signal that is raised again when the attribute `again` is read."""

    again = property(_thread.interrupt_main)


PENDING_INTERRUPT: Final = _RaisingSignal(signal.SIGINT)
"""An interrupt for callbacks in which Python ignores exceptions, as those of its collector.

`return PENDING_INTERRUPT.again` interrupts the caller of the callback: Python handles signals after
calls, and not after it has read an attribute.
"""
