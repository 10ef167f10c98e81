"""Weak tables: entries that go with an object which the table does not keep alive.

Those of Python's library have callbacks written in Python. An interrupt that comes inside of one is
ignored there, and lost; so the callbacks of these are functions of C.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Generic, TypeVar
from weakref import ref

K = TypeVar("K")
V = TypeVar("V")


class WeakValues(Generic[K, V]):
    """A table whose entries go with their values.

    >>> class Thing: pass
    >>> table, thing = WeakValues(), Thing()
    >>> table.setdefault("a", thing) is table.setdefault("a", Thing()) is thing
    True
    >>> del thing
    >>> len(table)
    0
    """

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[K, ref[Any]] = {}

    def setdefault(self, key: K, value: V) -> V:
        """The value of a key that is there already, or else this one, which is put there."""
        found = self._found.get(key)
        there: V | None = None if found is None else found()
        if there is not None:
            return there
        # Called with the reference, which is then what `pop` would give if there were no entry.
        self._found[key] = ref(value, partial(self._found.pop, key))
        return value

    def __len__(self) -> int:
        return len(self._found)


class WeakKeys(Generic[K, V]):
    """A table whose entries go with their keys, which are equal to themselves alone.

    >>> class Thing: pass
    >>> table, thing = WeakKeys(), Thing()
    >>> table[thing] = 1
    >>> table.get(thing), table.get(Thing())
    (1, None)
    >>> del thing
    >>> len(table)
    0
    """

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[ref[Any], V] = {}

    def __setitem__(self, key: K, value: V) -> None:
        if ref(key) in self._found:
            self._found[ref(key)] = value
        else:
            self._found[ref(key, self._found.__delitem__)] = value

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        return self._found.get(ref(key))

    def __len__(self) -> int:
        return len(self._found)
