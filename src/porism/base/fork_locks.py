"""Fork locks: locks that no other thread holds while a process forks.

A child process has only the thread that forked. A lock that another thread held at that moment is
never released in the child, and the data it protects stays half changed. So a fork waits for these
locks, as long as it takes to add a node to a table, or to compile a module with LLVM.
"""

from __future__ import annotations

import os
from typing import Protocol, TypeVar


class Lock(Protocol):
    """A lock, such as `threading.Lock`."""

    def acquire(self) -> bool: ...

    def release(self) -> None: ...


L = TypeVar("L", bound=Lock)


def held_while_forking(lock: L) -> L:
    """Make a fork acquire a lock; of nested locks, the inner one must be registered first."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock
