"""Forking: locks that no other thread holds while a process is copied.

A child has only the thread that forked. What another thread held at that moment stays held there
for ever, and what it was in the middle of stays half done. So a fork waits for these locks: for as
long as one node is added to a table, or one module is compiled by LLVM.
"""

from __future__ import annotations

import os
from typing import Protocol, TypeVar


class Lock(Protocol):
    """What can be held."""

    def acquire(self) -> bool: ...

    def release(self) -> None: ...


L = TypeVar("L", bound=Lock)


def held_while_forking(lock: L) -> L:
    """A lock for which a fork waits; of two that are held together, the inner one comes first."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock
