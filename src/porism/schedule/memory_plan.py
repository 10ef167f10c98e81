"""Memory: one arena for the values that live only between kernels, so that they share it.

Values get their place in the order in which they are written, each the smallest gap that is large
enough, and give it back after their last reader. Kernels need not run in the order of the list: a
kernel that writes to a place also waits for those that used what was there before. A value may take
the place of one that its own kernel is the last to read, if that kernel can work in place.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ALIGNMENT: Final = 128
"""Bytes; a cache line or two, and the widest vector."""


@dataclass(frozen=True, slots=True)
class Life:
    """A value between kernels: its size, who writes it and who reads it, by place in the list."""

    size: int
    written: int
    read: tuple[int, ...]
    over: int | None = None
    """The number of another value, whose place it may take while that is read."""

    @property
    def end(self) -> int:
        return max(self.read, default=self.written)


@dataclass(frozen=True, slots=True)
class Plan:
    """Where in the arena each value is."""

    offsets: tuple[int, ...]
    peak: int
    """Bytes of the arena."""
    sum: int
    """Bytes that all values would take without sharing."""
    waits: tuple[tuple[int, int], ...]
    """Pairs (kernel, earlier kernel): the first writes where something of the second's was."""


def aligned(size: int) -> int:
    """A size in bytes, up to the next place where a value may begin."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan(lives: Sequence[Life]) -> Plan:
    """Places for values of which each is written once.

    >>> plan([Life(100, 0, (1,)), Life(100, 1, (2,)), Life(100, 2, (3,))])
    Plan(offsets=(0, 128, 0), peak=256, sum=384, waits=((2, 0), (2, 1)))
    """
    offsets = [0] * len(lives)
    gaps = _Gaps()
    past = _Past()
    waits: dict[tuple[int, int], None] = {}
    leaving: dict[int, list[int]] = {}
    for which in sorted(range(len(lives)), key=lambda k: lives[k].written):
        life = lives[which]
        for end in [e for e in leaving if e < life.written]:
            for gone in leaving.pop(end):
                gaps.give(offsets[gone], aligned(lives[gone].size))
        size = aligned(life.size)
        if life.over is not None and _is_free(lives[life.over], life):
            leaving[life.written].remove(life.over)
            offsets[which] = offsets[life.over]
        else:
            offsets[which] = gaps.take(size)
        leaving.setdefault(life.end, []).append(which)
        for before in past.replace(offsets[which], offsets[which] + size, which):
            for user in (lives[before].written, *lives[before].read):
                if user != life.written:
                    waits[life.written, user] = None
    return Plan(
        tuple(offsets),
        gaps.top,
        sum(aligned(life.size) for life in lives),
        tuple(sorted(waits)),
    )


def _is_free(other: Life, life: Life) -> bool:
    """Whether a value has the room that another takes, and is last read when that is written."""
    return other.written < life.written == other.end and aligned(other.size) == aligned(life.size)


class _Gaps:
    """The free places of an arena that grows at its end."""

    def __init__(self) -> None:
        self.top = 0
        self.free: list[tuple[int, int]] = []  # (begin, end), sorted, none touching another

    def take(self, size: int) -> int:
        """The smallest gap that is large enough, or the end."""
        if size == 0:
            return 0
        fitting = [(end - begin, begin) for begin, end in self.free if end - begin >= size]
        if fitting:
            room, begin = min(fitting)
            self.free.remove((begin, begin + room))
            if room > size:
                bisect.insort(self.free, (begin + size, begin + room))
            return begin
        begin = self.top
        if self.free and self.free[-1][1] == self.top:  # the last gap, and some more
            begin = self.free.pop()[0]
        self.top = begin + size
        return begin

    def give(self, begin: int, size: int) -> None:
        if size == 0:
            return
        end = begin + size
        at = bisect.bisect(self.free, (begin, end))
        if at < len(self.free) and self.free[at][0] == end:
            end = self.free.pop(at)[1]
        if at and self.free[at - 1][1] == begin:
            at -= 1
            begin = self.free.pop(at)[0]
        self.free.insert(at, (begin, end))


class _Past:
    """Who was last at each place of the arena."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, int, int]] = []  # (begin, end, value), sorted, not overlapping

    def replace(self, begin: int, end: int, value: int) -> list[int]:
        """Put a value somewhere; gives those that were there before."""
        first = bisect.bisect(self.parts, (begin,))
        if first and self.parts[first - 1][1] > begin:
            first -= 1
        last = first
        found, kept = [], []
        while last < len(self.parts) and self.parts[last][0] < end:
            low, high, who = self.parts[last]
            found.append(who)
            if low < begin:
                kept.append((low, begin, who))
            if high > end:
                kept.append((end, high, who))
            last += 1
        if end > begin:
            kept.append((begin, end, value))
        self.parts[first:last] = sorted(kept)
        return list(dict.fromkeys(found))
