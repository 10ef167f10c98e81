"""Ranges: the loops of a kernel, split, flattened and merged.

Split: a range that is divided by a divisor of its size becomes two, and neither is divided.

    p1[r0 % 4 * 6 + r0 // 4] for r0 < 24    p1[r0.1 * 6 + r0.0] for r0.0 < 6, r0.1 < 4

Flatten: an END of an END is one END.

    END(END(x, r1), r0)                     END(x, r0, r1)

Merge: neighbouring ranges that are only used as the number they make up become one.

    p1[r0 * 8 + r1] for r0 < 4, r1 < 8      p1[r0] for r0 < 32

Ranges nest in the order of their axes, the first one outermost. The parts of a split range have the
axes (axis, 0), (axis, 1), …, and a merged range has the axis of the outer one, so a float sum is
added up in the order in which it was. All users of a range are rewritten at once. The ranges of a
BUFFERIZE are its dims and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import gcd, prod
from typing import Final

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.facts.open_ranges import CLOSERS
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.traversal import rebuild, substitute, toposort
from porism.rules.index.normalize import divisions
from porism.schedule.affine_forms import Affine, affine_forms, boundaries, collected
from porism.schedule.loops.initial_symbolic import simplify_indices

LARGEST: Final = 2**31 - 1
"""Iterations that a merged range may have: its counter stays a word of 32 bits."""

MOST_ATTEMPTS: Final = 4
"""Merges of a kernel that are tried out because divisions may come and go."""

DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD})


def size_of(node: UOp) -> int | None:
    """The iterations of a range, if their number is known."""
    end = node.src[0]
    return int(end.arg) if len(node.src) == 1 and end.op is ops.CONST else None


def closers_of(order: Sequence[UOp]) -> dict[UOp, list[UOp]]:
    """For each range, the nodes that close it."""
    found: dict[UOp, list[UOp]] = {n: [] for n in order if n.op is ops.RANGE}
    for node in order:
        if node.op in CLOSERS:
            for r in dict.fromkeys(node.src[1:]):
                if r.op is ops.RANGE:
                    found[r].append(node)
    return found


def is_free(r: UOp, closers: Mapping[UOp, Sequence[UOp]]) -> bool:
    """Whether a range may change: its size is known, and it is no dim of a buffer."""
    size = size_of(r)
    if size is None or size < 2 or r.dtype is not index:
        return False
    return bool(closers[r]) and all(c.op in (ops.END, ops.REDUCE) for c in closers[r])


def exchanged(sink: UOp, values: Mapping[UOp, UOp], loops: Mapping[UOp, Sequence[UOp]]) -> UOp:
    """The graph with values instead of ranges, and other loops where those were closed."""

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        found = values.get(node)
        if found is not None:
            return found
        if node.op in (ops.END, ops.REDUCE) and any(r in values for r in node.src[1:]):
            closed = [
                new
                for r, old in zip(src[1:], node.src[1:], strict=True)
                for new in loops.get(old, (r,))
            ]
            return node.replace((src[0], *closed))
        return node.replace(src)

    return rebuild(sink, change)


# -- flatten ---------------------------------------------------------------------------------------


def flatten_ends(sink: UOp) -> UOp:
    """The graph with one END for those that only close loops around another END."""
    order = toposort(sink)
    inner = [n for n in order if n.op is ops.END and n.src[0].op is ops.END]
    if not inner:
        return sink
    uses: dict[UOp, int] = {}
    for node in order:
        for s in node.src:
            uses[s] = uses.get(s, 0) + 1

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        if node.op is ops.END and src[0].op is ops.END and uses[node.src[0]] == 1:
            outside, inside = src[1:], src[0].src[1:]
            if not inside or not outside or max(map(_axis, outside)) < min(map(_axis, inside)):
                return src[0].src[0].end(*outside, *inside)
        return node.replace(src)

    return rebuild(sink, change)


def _axis(r: UOp) -> tuple[int, ...]:
    axis: tuple[int, ...] = r.arg[0]
    return axis


# -- split -----------------------------------------------------------------------------------------


def split_ranges(sink: UOp) -> UOp:
    """The graph with ranges split where that saves divisions."""
    order = toposort(sink)
    divided = [
        n
        for n in order
        if n.op in DIVISIONS and n.dtype is index and n.src[1].op is ops.CONST and n.src[1].arg > 1
    ]
    if not divided:
        return sink
    closers = closers_of(order)
    forms = affine_forms(order)
    wanted: dict[UOp, dict[int, int]] = {}
    for node in divided:
        numerator, divisor = node.src[0], node.src[1].arg
        for r in numerator.ranges:
            if r in closers and is_free(r, closers):
                for part in sorted(set(_periods(numerator, r, divisor, forms))):
                    if _settles(numerator, r, part, divisor):
                        counts = wanted.setdefault(r, {})
                        counts[part] = counts.get(part, 0) + 1
    if not wanted:
        return sink
    values: dict[UOp, UOp] = {}
    loops: dict[UOp, tuple[UOp, ...]] = {}
    for r, counts in wanted.items():
        values[r], loops[r] = _parts(r, chain(counts))
    return collected(exchanged(sink, values, loops))


def _periods(node: UOp, r: UOp, divisor: int, forms: Mapping[UOp, Affine]) -> Iterator[int]:
    """After how many iterations of a range a quotient by the divisor goes up by whole numbers."""
    size = size_of(r)
    assert size is not None
    for part, factor in forms[node].factors.items():
        step = divisor // gcd(divisor, factor)
        if part is r:
            if 1 < step < size and size % step == 0:
                yield step
        elif part.op in DIVISIONS and r in part.ranges and part.src[1].op is ops.CONST:
            inner = part.src[1].arg
            if inner > 0:
                whole = inner * step if part.op is ops.IDIV else step
                yield from _periods(part.src[0], r, whole, forms)


def _settles(numerator: UOp, r: UOp, part: int, divisor: int) -> bool:
    """Whether the quotient is known where the range stays inside one part."""
    inside = substitute(numerator, {r: UOp.variable("inside", 0, part - 1)})
    low, high = inside.vmin, inside.vmax
    if low == -float("inf") or high == float("inf"):
        return False
    return bool(low // divisor == high // divisor)


def chain(counts: Mapping[int, int]) -> tuple[int, ...]:
    """The sizes of parts, each a divisor of the next, that save most; the smallest of equals.

    >>> chain({4: 1, 12: 2, 6: 1})
    (4, 12)
    >>> chain({6: 1, 4: 1})
    (4,)
    """
    best: dict[int, tuple[int, tuple[int, ...]]] = {}
    for part in sorted(counts):
        below = [best[other] for other in best if part % other == 0]
        saved, path = min(below, key=_most_saved, default=(0, ()))
        best[part] = saved + counts[part], (*path, part)
    return min(best.values(), key=_most_saved)[1]


def _most_saved(found: tuple[int, tuple[int, ...]]) -> tuple[int, tuple[int, ...]]:
    return -found[0], found[1]


def _parts(r: UOp, parts: Sequence[int]) -> tuple[UOp, tuple[UOp, ...]]:
    """A range as a sum of ranges, the outermost first."""
    size = size_of(r)
    assert size is not None
    axis, kind = r.arg
    steps = [*reversed(parts), 1]
    sizes = [whole // step for whole, step in zip([size, *steps[:-1]], steps, strict=True)]
    loops = tuple(
        ops.RANGE(UOp.const(index, n), arg=((*axis, place), kind)) for place, n in enumerate(sizes)
    )
    total = loops[-1]
    for loop, step in zip(loops[:-1], steps[:-1], strict=True):
        total = loop * step + total
    return total, loops


# -- merge -----------------------------------------------------------------------------------------


def merge_ranges(sink: UOp, attempts: int = MOST_ATTEMPTS) -> UOp:
    """The graph with neighbouring ranges merged where no division is needed for that."""
    merging = _Merging(sink)
    if not merging.pairs:
        return sink
    done = merging.exactly()
    if not attempts or not merging.doubtful:
        return done
    if done is not sink:
        merging = _Merging(done)
    for outer, inner in merging.doubtful_pairs():
        found = merging.tried(outer, inner)
        attempts -= 1
        if found is not None:
            return merge_ranges(found, attempts)
        if not attempts:
            break
    return done


class _Merging:
    """The ranges of a kernel, and what they are used for."""

    def __init__(self, sink: UOp) -> None:
        self.sink = sink
        self.order = toposort(sink)
        self.closers = closers_of(self.order)
        self.pairs = self._neighbours()
        self.uses: dict[UOp, list[UOp]] = {}  # of a range: the sums that it is a part of
        self.users: dict[UOp, list[UOp]] = {}  # of such a sum
        self.forms: dict[UOp, Affine] = {}
        if self.pairs:
            self._read()
        self.doubtful = False

    def _neighbours(self) -> list[tuple[UOp, UOp]]:
        """Ranges of one kind that the same nodes close, one right inside of the other."""
        found: dict[tuple[UOp, UOp], None] = {}
        for node in self.order:
            if node.op in (ops.END, ops.REDUCE) and len(node.src) > 2:
                ranges = sorted(set(node.src[1:]), key=_axis)
                found.update(dict.fromkeys(pairwise(ranges)))
        return [pair for pair in found if self._belong(*pair)]

    def _belong(self, outer: UOp, inner: UOp) -> bool:
        if outer.arg[1] is not inner.arg[1] or self.closers[outer] != self.closers[inner]:
            return False
        if not is_free(outer, self.closers) or not is_free(inner, self.closers):
            return False
        low, high = _axis(outer), _axis(inner)
        return not any(low < _axis(r) < high for node in self.closers[outer] for r in node.src[1:])

    def _read(self) -> None:
        self.forms = affine_forms(self.order)
        loops = {r for pair in self.pairs for r in pair}
        for total, user in boundaries(self.order):
            if user.op in CLOSERS and total is not user.src[0]:
                continue
            if total not in self.users:
                for part in self.forms[total].factors:
                    if part in loops:
                        self.uses.setdefault(part, []).append(total)
            self.users.setdefault(total, []).append(user)

    def exactly(self) -> UOp:
        """Merge what is used as one number wherever it is used."""
        values: dict[UOp, UOp] = {}
        loops: dict[UOp, tuple[UOp, ...]] = {}
        inner_of = dict(self.pairs)
        starts = [r for r in inner_of if r not in set(inner_of.values())]
        for start in starts:
            run = [start]
            while run[-1] in inner_of:
                run.append(inner_of[run[-1]])
            group = [run[0]]
            for r in run[1:]:
                if self._is_number(group[-1], r) and _iterations([*group, r]) <= LARGEST:
                    group.append(r)
                    continue
                _merged(group, values, loops)
                group = [r]
            _merged(group, values, loops)
        return exchanged(self.sink, values, loops) if values else self.sink

    def _is_number(self, outer: UOp, inner: UOp) -> bool:
        """Whether all that is used of two ranges is `outer * size of inner + inner`."""
        size = size_of(inner)
        assert size is not None
        exact = True
        for total in (*self.uses.get(outer, ()), *self.uses.get(inner, ())):
            form = self.forms[total]
            if form.of(outer) != form.of(inner) * size:
                exact = False
                may = _may_stay(form.of(outer), form.of(inner))
                if not all(may(user, size) for user in self.users[total]):
                    return False
        self.doubtful = self.doubtful or not exact
        return exact

    def doubtful_pairs(self) -> list[tuple[UOp, UOp]]:
        """Pairs whose merging may cost divisions, or save some; the innermost first."""
        found = []
        for outer, inner in reversed(self.pairs):
            self.doubtful = False
            if not self._is_number(outer, inner) and self.doubtful:
                found.append((outer, inner))
        return found

    def tried(self, outer: UOp, inner: UOp) -> UOp | None:
        """The graph with two ranges merged, if it has no more divisions and loses no loop level."""
        if _iterations((outer, inner)) > LARGEST:
            return None
        for node in self.order:
            if node.op is ops.REDUCE or node.op is ops.BUFFERIZE:
                ranges = node.ranges
                if (outer in ranges) != (inner in ranges):
                    return None
        merged = _whole((outer, inner))
        size = inner.src[0]
        values = {outer: merged // size, inner: merged % size}
        loops = {outer: (merged,), inner: ()}
        found = simplify_indices(exchanged(self.sink, values, loops))
        return found if divisions(found) <= divisions(self.sink) else None


def _may_stay(outer: int, inner: int) -> Callable[[UOp, int], bool]:
    """Which users of a sum, by its factors of two ranges, may need no division more if they merge.

    With R for `outer * size + inner`: outer < c is R < c * size, outer // c is R // (c * size), and
    inner % c is R % c where c divides the size.
    """
    if not inner:
        return lambda user, size: user.op is ops.IDIV or user.op.group is Group.COMPARISON
    if not outer:
        return lambda user, size: _is_remainder(user) and size % int(user.src[1].arg) == 0
    return lambda user, size: False


def _is_remainder(node: UOp) -> bool:
    return node.op is ops.MOD and node.src[1].op is ops.CONST and node.src[1].arg > 0


def _merged(
    group: Sequence[UOp],
    values: dict[UOp, UOp],
    loops: dict[UOp, tuple[UOp, ...]],
) -> None:
    """Note what becomes of ranges that are merged: in a sum, the last one stands for them all."""
    if len(group) < 2:
        return
    whole = _whole(group)
    for r in group[:-1]:
        values[r], loops[r] = UOp.const(index, 0), ()
    values[group[-1]], loops[group[-1]] = whole, (whole,)


def _whole(group: Sequence[UOp]) -> UOp:
    return ops.RANGE(UOp.const(index, _iterations(group)), arg=group[0].arg)


def _iterations(ranges: Sequence[UOp]) -> int:
    return prod(size_of(r) or 0 for r in ranges)
