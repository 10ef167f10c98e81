"""Memory plan: one arena for the temporaries, which share its memory.

Temporaries are allocated in the order in which they are written, best fit first, and freed after
their last reader. Kernels need not run in the order of the list: a kernel that writes to memory
also waits for those that used what was there before. A temporary may be allocated over one that its
own kernel is the last to read, if that kernel can work in place.

Where sizes are symbolic, temporaries get *slots*: those of one slot live one after the other,
whatever their sizes are. Each run lays out the slots for its values of the variables, every slot as
large as the largest of its temporaries is then.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ALIGNMENT: Final = 128
"""Bytes that offsets are multiples of: two cache lines, and twice the widest vector (AVX-512)."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A temporary: its size in bytes, and the kernels that write and read it, by position."""

    size: int
    written: int
    read: tuple[int, ...]
    overwrites: int | None = None
    """The number of another temporary that it may overwrite while that is read."""

    @property
    def end(self) -> int:
        """The last kernel that uses it."""
        return max(self.read, default=self.written)


@dataclass(frozen=True, slots=True)
class Plan:
    """The arena: where in it each temporary is allocated."""

    offsets: tuple[int, ...]
    """For each temporary its first byte in the arena."""
    peak: int
    """Bytes of the arena."""
    sum: int
    """Bytes that all temporaries would take without sharing."""
    waits: tuple[tuple[int, int], ...]
    """Pairs (kernel, earlier kernel): the first overwrites a temporary that the second used."""
    slots: tuple[int, ...] = ()
    """For each temporary its slot, if sizes are symbolic; the offsets are then for their bounds."""


def aligned(size: int) -> int:
    """Return a size in bytes, rounded up to a multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan_memory(lifetimes: Sequence[Lifetime]) -> Plan:
    """Allocate temporaries, each of which is written once.

    >>> plan_memory([Lifetime(100, 0, (1,)), Lifetime(100, 1, (2,)), Lifetime(100, 2, (3,))])
    Plan(offsets=(0, 128, 0), peak=256, sum=384, waits=((2, 0), (2, 1)), slots=())
    """
    offsets = [0] * len(lifetimes)
    free = _FreeList()
    contents = _Contents()
    waits: dict[tuple[int, int], None] = {}
    ending: dict[int, list[int]] = {}  # a kernel -> the temporaries that it uses last
    for number in sorted(range(len(lifetimes)), key=lambda k: lifetimes[k].written):
        lifetime = lifetimes[number]
        for end in [e for e in ending if e < lifetime.written]:
            for ended in ending.pop(end):
                free.release(offsets[ended], aligned(lifetimes[ended].size))
        size = aligned(lifetime.size)
        over = lifetime.overwrites
        if over is not None and _can_overwrite(lifetime, lifetimes[over]):
            ending[lifetime.written].remove(over)
            offsets[number] = offsets[over]
        else:
            offsets[number] = free.allocate(size)
        ending.setdefault(lifetime.end, []).append(number)
        for previous in contents.replace(offsets[number], offsets[number] + size, number):
            for user in (lifetimes[previous].written, *lifetimes[previous].read):
                if user != lifetime.written:
                    waits[lifetime.written, user] = None
    return Plan(
        tuple(offsets),
        free.top,
        sum(aligned(lifetime.size) for lifetime in lifetimes),
        tuple(sorted(waits)),
    )


def plan_slots(lifetimes: Sequence[Lifetime]) -> Plan:
    """Allocate temporaries of symbolic sizes, whose `size` is an upper bound, to slots.

    A temporary gets the free slot whose size is nearest to its own, so that equal sizes share.

    >>> plan = plan_slots([Lifetime(9, 0, (1,)), Lifetime(900, 1, (2,)), Lifetime(8, 2, (3,))])
    >>> plan.slots, plan.offsets, plan.peak
    ((0, 1, 0), (0, 128, 0), 1152)
    """
    slots = [0] * len(lifetimes)
    users: list[list[int]] = []  # the temporaries of each slot; the last one may be live
    waits: dict[tuple[int, int], None] = {}
    for number in sorted(range(len(lifetimes)), key=lambda k: lifetimes[k].written):
        lifetime = lifetimes[number]
        over = lifetime.overwrites
        slot = None
        if over is not None and _can_overwrite(lifetime, lifetimes[over]):
            slot = slots[over]
        if slot is None or users[slot][-1] != over:
            free = [k for k, used in enumerate(users) if lifetimes[used[-1]].end < lifetime.written]
            slot = min(
                free,
                key=lambda k: abs(lifetimes[users[k][-1]].size - lifetime.size),
                default=len(users),
            )
        if slot == len(users):
            users.append([])
        elif users[slot]:
            previous = lifetimes[users[slot][-1]]
            for user in (previous.written, *previous.read):
                if user != lifetime.written:
                    waits[lifetime.written, user] = None
        users[slot].append(number)
        slots[number] = slot
    sizes = [lifetime.size for lifetime in lifetimes]
    offsets, peak = lay_out_slots(slots, sizes)
    return Plan(offsets, peak, sum(map(aligned, sizes)), tuple(sorted(waits)), tuple(slots))


def lay_out_slots(slots: Sequence[int], sizes: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Return the offset of each temporary, and the bytes of the arena, for sizes in bytes.

    >>> lay_out_slots([0, 1, 0], [100, 1, 200])
    ((0, 256, 0), 384)
    """
    largest = [0] * (max(slots, default=-1) + 1)
    for slot, size in zip(slots, sizes, strict=True):
        largest[slot] = max(largest[slot], aligned(size))
    begins = [0, *itertools.accumulate(largest)]
    return tuple(begins[slot] for slot in slots), begins[-1]


def _can_overwrite(new: Lifetime, old: Lifetime) -> bool:
    """Return whether `old` is as large as `new` and last read by the kernel that writes it."""
    return old.written < new.written == old.end and aligned(old.size) == aligned(new.size)


class _FreeList:
    """The free byte ranges of an arena that grows at its end."""

    def __init__(self) -> None:
        self.top = 0
        """Bytes of the arena."""
        self.free: list[tuple[int, int]] = []  # (begin, end), sorted, none adjacent to another

    def allocate(self, size: int) -> int:
        """Return the offset of the smallest free range that is large enough, or grow the arena."""
        if size == 0:
            return 0
        fitting = [(end - begin, begin) for begin, end in self.free if end - begin >= size]
        if fitting:
            available, begin = min(fitting)
            self.free.remove((begin, begin + available))
            if available > size:
                bisect.insort(self.free, (begin + size, begin + available))
            return begin
        begin = self.top
        if self.free and self.free[-1][1] == self.top:  # the last free range, extended
            begin = self.free.pop()[0]
        self.top = begin + size
        return begin

    def release(self, begin: int, size: int) -> None:
        """Free a byte range, joined with the free ranges on either side of it."""
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


class _Contents:
    """Which temporary was last allocated at each byte of the arena."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, int, int]] = []  # (begin, end, number), sorted and disjoint

    def replace(self, begin: int, end: int, number: int) -> list[int]:
        """Allocate a temporary at a byte range; return those that were there before."""
        first = bisect.bisect(self.parts, (begin,))
        if first and self.parts[first - 1][1] > begin:
            first -= 1
        last = first
        previous, parts = [], []
        while last < len(self.parts) and self.parts[last][0] < end:
            low, high, owner = self.parts[last]
            previous.append(owner)
            if low < begin:
                parts.append((low, begin, owner))
            if high > end:
                parts.append((end, high, owner))
            last += 1
        if end > begin:
            parts.append((begin, end, number))
        self.parts[first:last] = sorted(parts)
        return list(dict.fromkeys(previous))
