"""Node collector: free the nodes that only the intern tables refer to.

A table of weak references would cost every node a weak reference and every hit a call. So the
tables are strong, and a sweep finds dead nodes by their reference counts: first the nodes that
nothing uses, then those of their sources that only they kept alive. It takes time linear in the
tables, and runs when a program asks Python for a full garbage collection (`gc.collect`), or when
Python makes one by itself after the tables have doubled.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from porism.base.fork_locks import held_while_forking
from porism.base.interrupts import PENDING_INTERRUPT, run_off_main_thread
from porism.ir import node, ops, traversal
from porism.ir.facts import open_ranges
from porism.ir.node import UOp, is_exactly, key_of, lock, small_constants
from porism.ir.ops import Op


def live_nodes() -> int:
    """Return how many nodes there are in this process."""
    return sum(
        sum(is_exactly(entry, op, key) for key, entry in list(op.nodes.items()))
        + len(op.raw)
        + len(op.weak_nodes)
        for op in ops.table()
    )


def sweep() -> int:
    """Free the nodes that only the tables refer to, and cached normal forms; return how many.

    A node that was taken out of its table and may have to go back must not be lost, so the sweep
    runs where no interrupt can stop it.
    """
    return run_off_main_thread(_sweep_locked)


def _sweep_locked() -> int:
    if not lock.acquire(blocking=False):
        return 0
    before, node.lock_required = node.lock_required, True
    try:
        return _sweep()
    finally:
        node.lock_required = before
        lock.release()


# Reference counts, as getrefcount returns them, of a node that only its table refers to.
_IN_TABLE: Final = 3  # the table, the variable, the call of getrefcount
_POPPED: Final = 2  # the variable and the call
_IN_SOURCES: Final = 4  # the table, the key of `uses`, the variable, the call; plus each use


def _sweep() -> int:
    small_constants.clear()
    open_ranges.clear_unions()
    traversal.clear_orders()
    for op in ops.table():
        _forget_normal_forms(op)
    return sum(_sweep_table(op, nodes) for op in ops.table() for nodes in (op.nodes, op.raw))


def _forget_normal_forms(op: Op) -> None:
    # Other threads may add some meanwhile, so the table is walked by a copy of its keys.
    for key in list(op.nodes):
        entry = op.nodes.get(key)
        if entry is not None and not is_exactly(entry, op, key):
            op.nodes.pop(key, None)


def _sweep_table(op: Op, nodes: dict[Any, UOp]) -> int:
    """Free the dead nodes of one table, users first (they were added last); return how many."""
    count = sys.getrefcount
    freed = 0
    keys = list(nodes)
    while keys:
        key = keys.pop()
        entry = nodes.get(key)
        if entry is None:
            # The node was freed, but the key in this list kept its sources alive.
            waiting = _dead_sources(key[-1] if op.keyed else key)
            del key
        elif count(entry) <= _IN_TABLE:
            waiting = [(op, nodes, key)]
            del key, entry
        else:
            continue
        freed += _free(waiting)
    return freed


Entry = tuple[Op, dict[Any, UOp], Any]
"""An op, one of its tables, and a key in it."""


def _dead_sources(src: tuple[UOp, ...]) -> list[Entry]:
    """Return the entries of sources that only their table and their dead user refer to."""
    uses = Counter(src)
    entries: list[Entry] = []
    for child in uses:
        if sys.getrefcount(child) <= _IN_SOURCES + uses[child]:
            key = key_of(child.op, child.dtype, child.src, child.arg)
            table = child.op.nodes if key in child.op.nodes else child.op.raw
            entries.append((child.op, table, key))
    return entries


def _free(waiting: list[Entry]) -> int:
    """Drop entries of dead nodes, then the sources that only these kept alive; return how many."""
    freed = 0
    while waiting:
        _, nodes, key = waiting.pop()
        dead = nodes.pop(key, None)
        if dead is None:
            continue
        if sys.getrefcount(dead) > _POPPED:  # another thread has got it in the meantime
            nodes[key] = dead
            continue
        freed += 1
        waiting += _dead_sources(dead.src)
    return freed


on_full_collection: Final[list[Callable[[], object]]] = []
"""Functions called before the sweep of a requested full collection: they drop caches, so that the
nodes in these can be freed."""


def drop_unreferenced(
    table: dict[Any, Any], is_kept: Callable[[Any], bool] = lambda _: False
) -> None:
    """Drop the entries of a table whose values nothing else refers to, unless `is_kept` holds."""
    for key in list(table):
        value = table.pop(key, None)
        if value is None or (sys.getrefcount(value) <= _POPPED and not is_kept(value)):
            continue
        table[key] = value


def _on_collection(phase: str, info: dict[str, int]) -> None:
    """Sweep after a full collection, if a program requested it or the tables have doubled."""
    global _is_requested, _noticed, _entries_after_sweep
    _noticed = info if _noticed is _passed else None  # the other one was interrupted the last time
    if info["generation"] < 2 or sys.is_finalizing():
        return
    try:
        if phase == "start":
            _is_requested = gc.get_count()[2] <= gc.get_threshold()[2]
        elif _is_requested or _entries() > 2 * _entries_after_sweep:
            if _is_requested and not _is_own_collection:
                for forget in on_full_collection:
                    forget()
            sweep()
            _entries_after_sweep = max(_entries(), 10_000)
    except KeyboardInterrupt:
        _noticed = None


def _after_collection(phase: str, info: dict[str, int]) -> object:
    """Interrupt the program again if a callback was interrupted.

    Python ignores what a callback raises. An interrupt that came during the collection is raised as
    the first callback begins, before that can catch it; then it has noticed nothing.
    """
    global _noticed, _passed
    lost = _noticed is not info
    _noticed = _passed = info
    return PENDING_INTERRUPT.again if lost else None


def _entries() -> int:
    return sum(len(op.nodes) + len(op.raw) for op in ops.table())


_entries_after_sweep = 10_000
_is_requested = False
_is_own_collection = False  # whether `_skip_collection` requested the collection
_noticed: dict[str, int] | None = None
_passed: dict[str, int] | None = None
"""The `info` that the garbage collector last passed to the first and to the second callback."""
gc.callbacks += [_on_collection, _after_collection]


_quiet = held_while_forking(threading.Lock())
_inside = 0  # how many threads are inside `quiet_collector`
_usual_thresholds: tuple[int, int, int] = gc.get_threshold()
_skipped_objects = 0  # about how many objects no collection has visited
_RARE_THRESHOLD: Final = 1_000_000  # new objects per collection inside `quiet_collector`; by hand


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Keep Python's garbage collector from walking a growing graph again and again.

    A collection finds nothing in graphs, so while many nodes are made it can cost more than making
    them; and so it can afterwards.
    """
    global _inside, _usual_thresholds
    with _quiet:
        if _inside == 0:
            _usual_thresholds = gc.get_threshold()
            if 0 < _usual_thresholds[0] < _RARE_THRESHOLD:
                gc.set_threshold(_RARE_THRESHOLD, *_usual_thresholds[1:])
        _inside += 1
    try:
        yield
    finally:
        with _quiet:
            _inside -= 1
            if _inside == 0:
                traversal.clear_orders()
                _skip_collection()
                gc.set_threshold(*_usual_thresholds)


def _skip_collection() -> None:
    """If a collection is due, move all objects to the oldest generation without visiting them.

    Otherwise the collection would visit the new graphs at once. After `_RARE_THRESHOLD` skipped
    objects it runs.
    """
    global _is_own_collection, _skipped_objects
    young = gc.get_count()[0]
    if not 0 < _usual_thresholds[0] < young or not gc.isenabled():
        return
    _skipped_objects += young
    if _skipped_objects >= _RARE_THRESHOLD:
        _skipped_objects = 0
        _is_own_collection = True
        try:
            gc.collect()
        finally:
            _is_own_collection = False
    elif not gc.get_freeze_count():  # what a user has frozen stays so
        gc.freeze()
        gc.unfreeze()
