"""Loops: how the ranges of a kernel before a stage correspond to those after it.

A stage may split ranges, merge them, shorten or lengthen them. What a range has become is *guessed*
from the names that its parts have, and from sizes:

    r0 -> r0_0 * 4 + r0_1       split
    r0 -> r0_1 * 8 + r0_0       split the other way
    r0 -> r0_0 * 8 + r0_3 * 2 + r0_1    in more than two parts, in any order
    r0, r1 -> r0 // 8, r0 % 8   merged
    r0, r1 -> r2 // 8, r2 % 8   merged under a new name
    r0 -> r0 + 2                shortened
    r0 -> r0, where r0 < 10     lengthened
    r0 -> min(r0_0 * 8, 5) + r0_1, where that is at least r0_0 * 8     split, the last part early
    r0 -> r0_0 in one loop, r0_1 + 8 in another     cut in two pieces

A wrong guess cannot make a wrong stage look right: each is a one-to-one map between iterations, and
accesses are compared under it. Where several guesses are possible, many are tried, those first that
differ least from the likeliest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort

MOST_GUESSES: Final = 256
LONGEST_SHIFT: Final = 64
"""Starts of a shortened range that are tried."""
MOST_ORDERED: Final = 4
"""Parts of a range of which all orders are tried, and not two only."""


@dataclass(frozen=True)
class Guess:
    """What each range of before is, in the ranges of after."""

    meaning: Mapping[UOp, UOp] = field(default_factory=dict)
    inside: Mapping[UOp, UOp] = field(default_factory=dict)
    """For a range that is longer now: what holds in the iterations that there were before."""
    once: Mapping[UOp, UOp] = field(default_factory=dict)
    """For a range with parts that overlap: what holds in the first of them."""
    cut: tuple[tuple[UOp, int, int], ...] = ()
    """Ranges of before that are shortened: the iterations that are left."""


@dataclass(frozen=True, slots=True)
class _Part:
    value: UOp
    inside: UOp | None = None
    once: UOp | None = None
    cut: tuple[tuple[UOp, int, int], ...] = ()


_Option = tuple[UOp, _Part]
"""A range of before, and what it may have become."""


def ranges_in(kernel: UOp) -> list[UOp]:
    return [n for n in toposort(kernel) if n.op is ops.RANGE]


def guesses(before: UOp, after: UOp) -> Iterator[Guess]:
    """The ways in which the ranges of two graphs may correspond."""
    old, new = ranges_in(before), ranges_in(after)
    renamed = _renamed(before, after)
    gone = sorted((r for r in old if r not in set(new)), key=lambda r: r.arg[0])
    come = sorted((r for r in new if r not in set(old)), key=lambda r: r.arg[0])
    if not gone or not come:
        yield Guess(renamed)
        return
    yield from _in_a_new_one(gone, come, renamed)
    options: list[list[_Option]] = []
    merged = dict(_merges(gone, come))
    for r in gone:
        if r in merged:
            options.append([(r, _Part(merged[r]))])
        else:
            found = [(r, part) for part in _becomes(r, come)]
            if found:
                options.append(found)
    for chosen in itertools.islice(_likeliest_first(options), MOST_GUESSES):
        yield Guess(
            {r: part.value for r, part in chosen} | renamed,
            {r: part.inside for r, part in chosen if part.inside is not None},
            {r: part.once for r, part in chosen if part.once is not None},
            tuple(c for _, part in chosen for c in part.cut),
        )


def pieces(before: UOp, after: UOp) -> list[Guess]:
    """What a range is in each of the loops that go through it, if these are one after the other.

    The last iterations are those of a loop of their own: there are two guesses, or none.
    """
    old, new = ranges_in(before), ranges_in(after)
    gone = [r for r in old if r not in set(new)]
    if len(gone) != 1 or _size(gone[0]) is None:
        return []
    (r,) = gone
    axis = r.arg[0]
    parts = [n for n in new if n not in set(old) and n.arg[0][: len(axis)] == axis]
    *first, last = sorted(parts, key=lambda n: n.arg[0]) or [r]
    if not first or any(_size(n) is None for n in parts):
        return []
    renamed = _renamed(before, after)
    for value, count in _sums(axis, first):
        if count + (_size(last) or 0) == _size(r):
            return [Guess({r: value} | renamed), Guess({r: _raw(ops.ADD, last, count)} | renamed)]
    return []


def _likeliest_first(options: Sequence[Sequence[_Option]]) -> Iterator[tuple[_Option, ...]]:
    """One of each list, in all ways; those first that take the early ones of all lists."""

    def chosen(at: int, steps: int) -> Iterator[tuple[_Option, ...]]:
        if at == len(options):
            yield ()
            return
        most = sum(len(each) - 1 for each in options[at + 1 :])
        for k in range(max(steps - most, 0), min(steps, len(options[at]) - 1) + 1):
            for rest in chosen(at + 1, steps - k):
                yield (options[at][k], *rest)

    for steps in range(sum(len(each) - 1 for each in options) + 1):
        yield from chosen(0, steps)


def _renamed(before: UOp, after: UOp) -> dict[UOp, UOp]:
    """Variables, and indices of blocks and threads, that have another type by now."""
    kinds = (ops.SPECIAL, ops.VARIABLE)
    new = {(n.op, n.arg): n for n in toposort(after) if n.op in kinds}
    old = [n for n in toposort(before) if n.op in kinds]
    return {n: new[n.op, n.arg] for n in old if new.get((n.op, n.arg), n) is not n}


def _size(r: UOp) -> int | None:
    return int(r.src[0].arg) if r.src[0].op is ops.CONST else None


def _merges(gone: Sequence[UOp], come: Sequence[UOp]) -> Iterator[tuple[UOp, UOp]]:
    """Ranges that have become one, with the axis of the first."""
    by_axis = {r.arg[0]: r for r in come}
    for start, first in enumerate(gone):
        whole, size = by_axis.get(first.arg[0]), _size(first)
        total = _size(whole) if whole is not None else None
        if whole is None or size is None or total is None or total <= size:
            continue
        run = [first]
        for r in gone[start + 1 :]:
            own = _size(r)
            if own is None or math.prod(_size(x) or 0 for x in run) >= total:
                break
            run.append(r)
        if len(run) > 1 and math.prod(_size(x) or 0 for x in run) == total:
            step = total
            for r in run:
                count = _size(r) or 1
                step //= count
                value = _raw(ops.IDIV, whole, step) if step > 1 else whole
                yield r, _raw(ops.MOD, value, count)


def _in_a_new_one(
    gone: Sequence[UOp], come: Sequence[UOp], renamed: Mapping[UOp, UOp]
) -> Iterator[Guess]:
    """Two ranges that have become one with a name of its own."""
    if len(gone) != 2 or len(come) != 1 or any(r.arg[0] == come[0].arg[0] for r in gone):
        return
    sizes = [_size(r) for r in (*gone, *come)]
    if None in sizes or sizes[2] != (sizes[0] or 0) * (sizes[1] or 0):
        return
    for outer, inner in itertools.permutations(gone):
        count = _size(inner) or 1
        meaning = {outer: _raw(ops.IDIV, come[0], count), inner: _raw(ops.MOD, come[0], count)}
        yield Guess(meaning | dict(renamed))


def _becomes(r: UOp, come: Sequence[UOp]) -> Iterator[_Part]:
    axis, size = r.arg[0], _size(r)
    same = [n for n in come if n.arg[0] == axis]
    for n in same:
        own = _size(n)
        if size is None or own is None or own == size:
            yield _Part(n)
        elif own > size:
            yield _Part(n, _below(n, size))
        else:
            for low in range(min(size - own, LONGEST_SHIFT) + 1):
                yield _Part(_raw(ops.ADD, n, low), cut=((r, low, low + own),))
    parts = [n for n in come if n.arg[0][: len(axis)] == axis and n not in same]
    if not parts or same:
        return
    if size is not None:
        yield from _overlapping(axis, size, parts)
    for value, count in _sums(axis, parts):
        if size is None or count == size:
            yield _Part(value)
        elif count > size:
            yield _Part(value, _below(value, size))
        else:
            for low in range(min(size - count, LONGEST_SHIFT) + 1):
                yield _Part(_raw(ops.ADD, value, low), cut=((r, low, low + count),))


def _overlapping(axis: tuple[int, ...], size: int, parts: Sequence[UOp]) -> Iterator[_Part]:
    """A range in parts of which the last begins earlier, so that it ends where the range does."""
    outer = [n for n in parts if n.arg[0][len(axis)] == 0]
    inner = [n for n in parts if n.arg[0][len(axis)] != 0]
    if not outer or not inner:
        return
    for first, count in _sums((*axis, 0), outer):
        for last, amount in _sums((*axis, 1), inner):
            if count * amount > size > amount and count == -(-size // amount):
                begin = _raw(ops.MUL, first, amount)
                start = _raw(ops.MIN, begin, size - amount)
                value = UOp(ops.ADD, None, (start, last))
                yield _Part(value, once=UOp(ops.GE, None, (value, begin)))


def _sums(axis: tuple[int, ...], parts: Sequence[UOp]) -> Iterator[tuple[UOp, int]]:
    """The numbers that parts of a range make up, in any order at each level."""
    if len(parts) == 1:
        yield parts[0], _size(parts[0]) or 1
        return
    depth = len(axis)
    groups: dict[int, list[UOp]] = {}
    for n in parts:
        groups.setdefault(n.arg[0][depth] if len(n.arg[0]) > depth else -1, []).append(n)
    if len(groups.get(-1, ())) > 1:
        return  # loops of the same name, one after the other, are no parts of one
    inner = [
        list(_sums((*axis, place), group)) if len(group) > 1 else [(group[0], _size(group[0]) or 1)]
        for place, group in groups.items()
    ]
    for chosen in itertools.product(*inner):
        for order in dict.fromkeys((chosen, chosen[::-1], *_orders(chosen))):
            value, total = order[-1]
            for part, count in order[-2::-1]:
                value = UOp(ops.ADD, None, (_raw(ops.MUL, part, total), value))
                total *= count
            yield value, total


def _orders(parts: tuple[tuple[UOp, int], ...]) -> Iterator[tuple[tuple[UOp, int], ...]]:
    return itertools.permutations(parts) if len(parts) <= MOST_ORDERED else iter(())


def _raw(op: ops.Op, a: UOp, number: int) -> UOp:
    return UOp(op, None, (a, UOp.const(index, number)))


def _below(a: UOp, size: int) -> UOp:
    return UOp(ops.LT, None, (a, UOp.const(index, size)))
