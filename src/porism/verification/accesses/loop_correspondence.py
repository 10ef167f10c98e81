"""Loop correspondence: how the loops of a kernel before a stage map to those after it.

A stage may split, merge, shorten or lengthen loops. What a loop has become is *guessed* from the
axes of its parts and from extents:

    r0 -> r0_0 * 4 + r0_1       split
    r0 -> r0_1 * 8 + r0_0       split, with the loops interchanged
    r0 -> r0_0 * 8 + r0_3 * 2 + r0_1    split into more than two loops, in any order
    r0, r1 -> r0 // 8, r0 % 8   merged
    r0, r1 -> r2 // 8, r2 % 8   merged into a loop with a new axis
    r0 -> r0 + 2                shortened
    r0 -> r0, where r0 < 10     lengthened (padded)
    r0 -> min(r0_0 * 8, 5) + r0_1, where that is at least r0_0 * 8     split, overlapping tail tile
    r0 -> r0_0 in one loop, r0_1 + 8 in another     peeled

A wrong guess cannot make a wrong stage look right: each is a one-to-one map between iterations, and
accesses are compared under it. Where several maps are possible many are tried, the likeliest first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort

MAX_CANDIDATES: Final = 256
MAX_SHIFT: Final = 64
"""Largest start of a shortened loop that is tried, in iterations; chosen by hand."""
MAX_PERMUTED: Final = 4
"""Up to so many parts of a loop, all their orders are tried; chosen by hand."""


@dataclass(frozen=True)
class LoopMap:
    """What each loop before a stage is, in the loops after it."""

    substitution: Mapping[UOp, UOp] = field(default_factory=dict)
    inside: Mapping[UOp, UOp] = field(default_factory=dict)
    """For a lengthened loop the condition for iterations that existed before."""
    first_only: Mapping[UOp, UOp] = field(default_factory=dict)
    """For a loop with an overlapping tail the condition for iterations that are not repeated."""
    shortened: tuple[tuple[UOp, int, int], ...] = ()
    """Shortened loops, with the first of the iterations that are left and their end."""


@dataclass(frozen=True, slots=True)
class _Replacement:
    value: UOp
    inside: UOp | None = None
    first_only: UOp | None = None
    shortened: tuple[tuple[UOp, int, int], ...] = ()


_Option = tuple[UOp, _Replacement]
"""A loop before the stage, and what it may have become."""


def loops_in(kernel: UOp) -> list[UOp]:
    return [n for n in toposort(kernel) if n.op is ops.RANGE]


def candidate_loop_maps(before: UOp, after: UOp) -> Iterator[LoopMap]:
    """Yield the maps by which the loops of two kernels may correspond."""
    old, new = loops_in(before), loops_in(after)
    renamed = _renamed_symbols(before, after)
    removed = sorted((r for r in old if r not in set(new)), key=lambda r: r.arg[0])
    added = sorted((r for r in new if r not in set(old)), key=lambda r: r.arg[0])
    if not removed or not added:
        yield LoopMap(renamed)
        return
    yield from _merged_into_new_loop(removed, added, renamed)
    options = _options(removed, added)
    for chosen in itertools.islice(_likeliest_first(options), MAX_CANDIDATES):
        yield LoopMap(
            {r: part.value for r, part in chosen} | renamed,
            {r: part.inside for r, part in chosen if part.inside is not None},
            {r: part.first_only for r, part in chosen if part.first_only is not None},
            tuple(c for _, part in chosen for c in part.shortened),
        )


def _options(removed: Sequence[UOp], added: Sequence[UOp]) -> list[list[_Option]]:
    """Return what each removed loop may have become, without loops of which nothing is known."""
    merged = dict(_merged_loops(removed, added))
    options: list[list[_Option]] = []
    for r in removed:
        values = [_Replacement(merged[r])] if r in merged else list(_replacements(r, added))
        if values:
            options.append([(r, value) for value in values])
    return options


def peeled_loop_maps(before: UOp, after: UOp) -> list[LoopMap]:
    """Return a map for the main loop and one for the peeled last iterations; or no map."""
    old, new = loops_in(before), loops_in(after)
    removed = [r for r in old if r not in set(new)]
    if len(removed) != 1 or _extent(removed[0]) is None:
        return []
    (r,) = removed
    axis = r.arg[0]
    parts = [n for n in new if n not in set(old) and n.arg[0][: len(axis)] == axis]
    *first, last = sorted(parts, key=lambda n: n.arg[0]) or [r]
    if not first or any(_extent(n) is None for n in parts):
        return []
    renamed = _renamed_symbols(before, after)
    for value, count in _linear_combinations(axis, first):
        if count + (_extent(last) or 0) == _extent(r):
            return [
                LoopMap({r: value} | renamed),
                LoopMap({r: _raw(ops.ADD, last, count)} | renamed),
            ]
    return []


def _likeliest_first(options: Sequence[Sequence[_Option]]) -> Iterator[tuple[_Option, ...]]:
    """Yield all choices of one option per loop, those with the earliest options first."""

    def chosen(depth: int, steps: int) -> Iterator[tuple[_Option, ...]]:
        if depth == len(options):
            yield ()
            return
        most = sum(len(choices) - 1 for choices in options[depth + 1 :])
        for k in range(max(steps - most, 0), min(steps, len(options[depth]) - 1) + 1):
            for rest in chosen(depth + 1, steps - k):
                yield (options[depth][k], *rest)

    for steps in range(sum(len(choices) - 1 for choices in options) + 1):
        yield from chosen(0, steps)


def _renamed_symbols(before: UOp, after: UOp) -> dict[UOp, UOp]:
    """Return the variables and thread indices whose type has changed."""
    kinds = (ops.SPECIAL, ops.VARIABLE)
    new = {(n.op, n.arg): n for n in toposort(after) if n.op in kinds}
    old = [n for n in toposort(before) if n.op in kinds]
    return {n: new[n.op, n.arg] for n in old if new.get((n.op, n.arg), n) is not n}


def _extent(r: UOp) -> int | None:
    return int(r.src[0].arg) if r.src[0].op is ops.CONST else None


def _merged_loops(removed: Sequence[UOp], added: Sequence[UOp]) -> Iterator[tuple[UOp, UOp]]:
    """Yield loops that were merged into one with the axis of the first, with their values."""
    by_axis = {r.arg[0]: r for r in added}
    for start, first in enumerate(removed):
        merged, extent = by_axis.get(first.arg[0]), _extent(first)
        trip_count = _extent(merged) if merged is not None else None
        if merged is None or extent is None or trip_count is None or trip_count <= extent:
            continue
        stride = trip_count
        for r in _loops_with_trip_count(removed[start:], trip_count):
            count = _extent(r) or 1
            stride //= count
            value = _raw(ops.IDIV, merged, stride) if stride > 1 else merged
            yield r, _raw(ops.MOD, value, count)


def _loops_with_trip_count(loops: Sequence[UOp], trip_count: int) -> list[UOp]:
    """Return the first loops whose trip count is a given one; none if no number of them has it."""
    chosen: list[UOp] = []
    product = 1
    for r in loops:
        extent = _extent(r)
        if extent is None or (chosen and product >= trip_count):
            break
        chosen.append(r)
        product *= extent
    return chosen if len(chosen) > 1 and product == trip_count else []


def _merged_into_new_loop(
    removed: Sequence[UOp], added: Sequence[UOp], renamed: Mapping[UOp, UOp]
) -> Iterator[LoopMap]:
    """Yield the maps of two loops that were merged into one with a new axis."""
    if len(removed) != 2 or len(added) != 1 or any(r.arg[0] == added[0].arg[0] for r in removed):
        return
    sizes = [_extent(r) for r in (*removed, *added)]
    if None in sizes or sizes[2] != (sizes[0] or 0) * (sizes[1] or 0):
        return
    for outer, inner in itertools.permutations(removed):
        count = _extent(inner) or 1
        substitution = {
            outer: _raw(ops.IDIV, added[0], count),
            inner: _raw(ops.MOD, added[0], count),
        }
        yield LoopMap(substitution | dict(renamed))


def _replacements(r: UOp, added: Sequence[UOp]) -> Iterator[_Replacement]:
    """Yield what a loop may have become: a loop of the same axis, or parts of it."""
    axis, extent = r.arg[0], _extent(r)
    same = [n for n in added if n.arg[0] == axis]
    for n in same:
        yield from _resized(r, n, _extent(n))
    parts = [n for n in added if n.arg[0][: len(axis)] == axis and n not in same]
    if not parts or same:
        return
    if extent is not None:
        yield from _overlapping(axis, extent, parts)
    for value, trip_count in _linear_combinations(axis, parts):
        yield from _resized(r, value, trip_count)


def _resized(r: UOp, value: UOp, trip_count: int | None) -> Iterator[_Replacement]:
    """Yield a value in place of a loop: with a guard if it is longer, moved if it is shorter."""
    extent = _extent(r)
    if extent is None or trip_count is None or trip_count == extent:
        yield _Replacement(value)
    elif trip_count > extent:
        yield _Replacement(value, _below(value, extent))
    else:
        for low in range(min(extent - trip_count, MAX_SHIFT) + 1):
            yield _Replacement(_raw(ops.ADD, value, low), shortened=((r, low, low + trip_count),))


def _overlapping(axis: tuple[int, ...], size: int, parts: Sequence[UOp]) -> Iterator[_Replacement]:
    """Yield a split whose last tile begins early, so that it ends with the loop."""
    outer = [n for n in parts if n.arg[0][len(axis)] == 0]
    inner = [n for n in parts if n.arg[0][len(axis)] != 0]
    if not outer or not inner:
        return
    for first, count in _linear_combinations((*axis, 0), outer):
        for last, amount in _linear_combinations((*axis, 1), inner):
            if count * amount > size > amount and count == -(-size // amount):
                begin = _raw(ops.MUL, first, amount)
                start = _raw(ops.MIN, begin, size - amount)
                value = UOp(ops.ADD, None, (start, last))
                yield _Replacement(value, first_only=UOp(ops.GE, None, (value, begin)))


def _linear_combinations(axis: tuple[int, ...], parts: Sequence[UOp]) -> Iterator[tuple[UOp, int]]:
    """Yield the linear combinations of the parts of a loop, with their trip counts."""
    if len(parts) == 1:
        yield parts[0], _extent(parts[0]) or 1
        return
    depth = len(axis)
    groups: dict[int, list[UOp]] = {}
    for n in parts:
        groups.setdefault(n.arg[0][depth] if len(n.arg[0]) > depth else -1, []).append(n)
    if len(groups.get(-1, ())) > 1:
        return  # loops of the same name, one after the other, are no parts of one
    inner = [
        list(_linear_combinations((*axis, number), group))
        if len(group) > 1
        else [(group[0], _extent(group[0]) or 1)]
        for number, group in groups.items()
    ]
    for chosen in itertools.product(*inner):
        for order in dict.fromkeys((chosen, chosen[::-1], *_permutations(chosen))):
            value, total = order[-1]
            for part, count in order[-2::-1]:
                value = UOp(ops.ADD, None, (_raw(ops.MUL, part, total), value))
                total *= count
            yield value, total


def _permutations(parts: tuple[tuple[UOp, int], ...]) -> Iterator[tuple[tuple[UOp, int], ...]]:
    return itertools.permutations(parts) if len(parts) <= MAX_PERMUTED else iter(())


def _raw(op: ops.Op, a: UOp, number: int) -> UOp:
    return UOp(op, None, (a, UOp.const(index, number)))


def _below(a: UOp, size: int) -> UOp:
    return UOp(ops.LT, None, (a, UOp.const(index, size)))
