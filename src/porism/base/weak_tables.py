"""Weak tables: dictionaries with weak references to their values or keys.

Those of Python's library have callbacks written in Python. An interrupt inside of such a callback
is ignored, and lost; so the callbacks of these tables are functions of C.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Generic, TypeVar
from weakref import ref

K = TypeVar("K")
V = TypeVar("V")


class WeakValues(Generic[K, V]):
    """A table with weak references to its values; an entry is removed with its value.

    >>> class Thing: pass
    >>> table, thing = WeakValues(), Thing()
    >>> table.setdefault("a", thing) is table.setdefault("a", Thing()) is thing
    True
    >>> del thing
    >>> len(table)
    0
    """

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references: dict[K, ref[Any]] = {}

    def setdefault(self, key: K, value: V) -> V:
        """Return the value of a key, after adding this one if there is none."""
        reference = self._references.get(key)
        current: V | None = None if reference is None else reference()
        if current is not None:
            return current
        # The callback gets the reference as its argument: the default of `pop`.
        self._references[key] = ref(value, partial(self._references.pop, key))
        return value

    def __len__(self) -> int:
        return len(self._references)


class WeakKeys(Generic[K, V]):
    """A table with weak references to its keys, which are compared by identity.

    >>> class Thing: pass
    >>> table, thing = WeakKeys(), Thing()
    >>> table[thing] = 1
    >>> table.get(thing), table.get(Thing())
    (1, None)
    >>> [value for _, value in table.items()]
    [1]
    >>> del thing
    >>> len(table)
    0
    """

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references: dict[ref[Any], V] = {}

    def __setitem__(self, key: K, value: V) -> None:
        if ref(key) in self._references:
            self._references[ref(key)] = value
        else:
            self._references[ref(key, self._references.__delitem__)] = value

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        return self._references.get(ref(key))

    def items(self) -> list[tuple[K, V]]:
        """Return the keys that are alive, with their values."""
        found = [(reference(), value) for reference, value in list(self._references.items())]
        return [(key, value) for key, value in found if key is not None]

    def clear(self) -> None:
        """Remove all entries."""
        self._references.clear()

    def __len__(self) -> int:
        return len(self._references)
