"""Range transforms: the loops of a kernel are split, flattened and merged.

Split: a loop that is divided by a divisor of its extent becomes two, and neither is divided.

    p1[r0 % 4 * 6 + r0 // 4] for r0 < 24    p1[r0.1 * 6 + r0.0] for r0.0 < 6, r0.1 < 4

Flatten: an END of an END is one END.

    END(END(x, r1), r0)                     END(x, r0, r1)

Merge: adjacent loops that are only used in the linear combination they make up become one.

    p1[r0 * 8 + r1] for r0 < 4, r1 < 8      p1[r0] for r0 < 32

Loops nest in the order of their axes, the first one outermost. The parts of a split loop have the
axes (axis, 0), (axis, 1), …, and a merged loop has the axis of the outer one, so the order of a
float sum does not change. All users of a loop are rewritten at once. The loops of a BUFFERIZE are
its dims and stay as they are.
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
from porism.rules.index.normalize import division_count
from porism.schedule.affine_forms import Affine, affine_forms, collect_terms, index_uses
from porism.schedule.loops.initial_symbolic import simplify_indices

MAX_EXTENT: Final = 2**31 - 1
"""Most iterations of a merged loop: its induction variable stays a signed 32-bit integer."""

MAX_ATTEMPTS: Final = 4
"""Merges of a kernel that are tried because they may remove divisions; chosen by hand."""

DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD})


def extent(node: UOp) -> int | None:
    """Return the number of iterations of a loop, or None if it is symbolic."""
    end = node.src[0]
    return int(end.arg) if len(node.src) == 1 and end.op is ops.CONST else None


def closers_of(order: Sequence[UOp]) -> dict[UOp, list[UOp]]:
    """Return for each loop the nodes that close it."""
    closers: dict[UOp, list[UOp]] = {n: [] for n in order if n.op is ops.RANGE}
    for node in order:
        if node.op in CLOSERS:
            for r in dict.fromkeys(node.src[1:]):
                if r.op is ops.RANGE:
                    closers[r].append(node)
    return closers


def is_transformable(r: UOp, closers: Mapping[UOp, Sequence[UOp]]) -> bool:
    """Return whether a loop may be split or merged: its extent is known, and no dim of a buffer."""
    iterations = extent(r)
    if iterations is None or iterations < 2 or r.dtype is not index:
        return False
    return bool(closers[r]) and all(c.op in (ops.END, ops.REDUCE) for c in closers[r])


def replace_loops(sink: UOp, values: Mapping[UOp, UOp], loops: Mapping[UOp, Sequence[UOp]]) -> UOp:
    """Return the graph with `values` for loops, and `loops` closed where those were closed."""

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        value = values.get(node)
        if value is not None:
            return value
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
    """Return the graph with one END for each chain of ENDs."""
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
    """Return the graph with loops split where that saves divisions."""
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
    saved: dict[UOp, dict[int, int]] = {}  # of a loop: the divisions that an inner extent saves
    for node in divided:
        numerator, divisor = node.src[0], node.src[1].arg
        for r in numerator.ranges:
            if r in closers and is_transformable(r, closers):
                for inner in sorted(set(_periods(numerator, r, divisor, forms))):
                    if _is_quotient_constant(numerator, r, inner, divisor):
                        counts = saved.setdefault(r, {})
                        counts[inner] = counts.get(inner, 0) + 1
    if not saved:
        return sink
    values: dict[UOp, UOp] = {}
    loops: dict[UOp, tuple[UOp, ...]] = {}
    for r, counts in saved.items():
        values[r], loops[r] = _split_loop(r, divisor_chain(counts))
    return collect_terms(replace_loops(sink, values, loops))


def _periods(node: UOp, r: UOp, divisor: int, forms: Mapping[UOp, Affine]) -> Iterator[int]:
    """Yield numbers of iterations after which a quotient by the divisor has grown by an integer."""
    iterations = extent(r)
    assert iterations is not None
    for term, coefficient in forms[node].coefficients.items():
        period = divisor // gcd(divisor, coefficient)
        if term is r:
            if 1 < period < iterations and iterations % period == 0:
                yield period
        elif term.op in DIVISIONS and r in term.ranges and term.src[1].op is ops.CONST:
            inner = term.src[1].arg
            if inner > 0:
                outer = inner * period if term.op is ops.IDIV else period
                yield from _periods(term.src[0], r, outer, forms)


def _is_quotient_constant(numerator: UOp, r: UOp, inner: int, divisor: int) -> bool:
    """Return whether the quotient is constant during the first `inner` iterations of a loop."""
    inside = substitute(numerator, {r: UOp.variable("inside", 0, inner - 1)})
    low, high = inside.vmin, inside.vmax
    if low == -float("inf") or high == float("inf"):
        return False
    return bool(low // divisor == high // divisor)


def divisor_chain(saved: Mapping[int, int]) -> tuple[int, ...]:
    """Return the numbers, each a divisor of the next, that save most in all.

    `saved` has the divisions that each number saves. Of equal chains the smallest is returned.

    >>> divisor_chain({4: 1, 12: 2, 6: 1})
    (4, 12)
    >>> divisor_chain({6: 1, 4: 1})
    (4,)
    """
    best: dict[int, tuple[int, tuple[int, ...]]] = {}
    for number in sorted(saved):
        shorter = [best[divisor] for divisor in best if number % divisor == 0]
        total, chain = min(shorter, key=_most_saved_first, default=(0, ()))
        best[number] = total + saved[number], (*chain, number)
    return min(best.values(), key=_most_saved_first)[1]


def _most_saved_first(chain: tuple[int, tuple[int, ...]]) -> tuple[int, tuple[int, ...]]:
    return -chain[0], chain[1]


def _split_loop(r: UOp, inner_extents: Sequence[int]) -> tuple[UOp, tuple[UOp, ...]]:
    """Return a loop as a sum of loops times strides, and these loops, the outermost first."""
    iterations = extent(r)
    assert iterations is not None
    axis, kind = r.arg
    strides = [*reversed(inner_extents), 1]
    outer_strides = [iterations, *strides[:-1]]
    extents = [outer // inner for outer, inner in zip(outer_strides, strides, strict=True)]
    loops = tuple(
        ops.RANGE(UOp.const(index, n), arg=((*axis, number), kind))
        for number, n in enumerate(extents)
    )
    total = loops[-1]
    for loop, stride in zip(loops[:-1], strides[:-1], strict=True):
        total = loop * stride + total
    return total, loops


# -- merge -----------------------------------------------------------------------------------------


def merge_ranges(sink: UOp, attempts: int = MAX_ATTEMPTS) -> UOp:
    """Return the graph with adjacent loops merged where that needs no more divisions."""
    merging = _LoopMerging(sink)
    if not merging.pairs:
        return sink
    merged = merging.merge_exact()
    if not attempts or not merging.has_uncertain:
        return merged
    if merged is not sink:
        merging = _LoopMerging(merged)
    for outer, inner in merging.uncertain_pairs():
        attempt = merging.try_merge(outer, inner)
        attempts -= 1
        if attempt is not None:
            return merge_ranges(attempt, attempts)
        if not attempts:
            break
    return merged


class _LoopMerging:
    """The loops of a kernel, and the indices that they occur in."""

    def __init__(self, sink: UOp) -> None:
        self.sink = sink
        self.order = toposort(sink)
        self.closers = closers_of(self.order)
        self.pairs = self._adjacent_loops()
        self.uses: dict[UOp, list[UOp]] = {}  # of a loop: the sums that it is a term of
        self.users: dict[UOp, list[UOp]] = {}  # of such a sum: the nodes that use it
        self.forms: dict[UOp, Affine] = {}
        if self.pairs:
            self._find_uses()
        self.has_uncertain = False
        """Whether there are pairs of loops that only an attempt can tell whether to merge."""

    def _adjacent_loops(self) -> list[tuple[UOp, UOp]]:
        """Return the pairs of loops of one kind that the same nodes close, directly nested."""
        pairs: dict[tuple[UOp, UOp], None] = {}
        for node in self.order:
            if node.op in (ops.END, ops.REDUCE) and len(node.src) > 2:
                ranges = sorted(set(node.src[1:]), key=_axis)
                pairs.update(dict.fromkeys(pairwise(ranges)))
        return [pair for pair in pairs if self._is_adjacent(*pair)]

    def _is_adjacent(self, outer: UOp, inner: UOp) -> bool:
        if outer.arg[1] is not inner.arg[1] or self.closers[outer] != self.closers[inner]:
            return False
        if not is_transformable(outer, self.closers) or not is_transformable(inner, self.closers):
            return False
        low, high = _axis(outer), _axis(inner)
        return not any(low < _axis(r) < high for node in self.closers[outer] for r in node.src[1:])

    def _find_uses(self) -> None:
        """Note the sums that the loops of the pairs occur in, and who uses these."""
        self.forms = affine_forms(self.order)
        loops = {r for pair in self.pairs for r in pair}
        for total, user in index_uses(self.order):
            if user.op in CLOSERS and total is not user.src[0]:
                continue
            if total not in self.users:
                for term in self.forms[total].coefficients:
                    if term in loops:
                        self.uses.setdefault(term, []).append(total)
            self.users.setdefault(total, []).append(user)

    def merge_exact(self) -> UOp:
        """Return the graph with the loops merged that are only used in one linear combination."""
        values: dict[UOp, UOp] = {}
        loops: dict[UOp, tuple[UOp, ...]] = {}
        inner_of = dict(self.pairs)
        outermost = [r for r in inner_of if r not in set(inner_of.values())]
        for start in outermost:
            nest = [start]
            while nest[-1] in inner_of:
                nest.append(inner_of[nest[-1]])
            group = [nest[0]]
            for r in nest[1:]:
                if self._is_linear_pair(group[-1], r) and _trip_count([*group, r]) <= MAX_EXTENT:
                    group.append(r)
                    continue
                _merge_group(group, values, loops)
                group = [r]
            _merge_group(group, values, loops)
        return replace_loops(self.sink, values, loops) if values else self.sink

    def _is_linear_pair(self, outer: UOp, inner: UOp) -> bool:
        """Return whether two loops are only used as `outer * extent of inner + inner`.

        Notes in `has_uncertain` if they are not, but their merging may need no more divisions.
        """
        inner_extent = extent(inner)
        assert inner_extent is not None
        exact = True
        for total in (*self.uses.get(outer, ()), *self.uses.get(inner, ())):
            form = self.forms[total]
            if form.coefficient(outer) != form.coefficient(inner) * inner_extent:
                exact = False
                allows = _mergeable_users(form.coefficient(outer), form.coefficient(inner))
                if not all(allows(user, inner_extent) for user in self.users[total]):
                    return False
        self.has_uncertain = self.has_uncertain or not exact
        return exact

    def uncertain_pairs(self) -> list[tuple[UOp, UOp]]:
        """Return the pairs whose merging may add or remove divisions, the innermost first."""
        pairs = []
        for outer, inner in reversed(self.pairs):
            self.has_uncertain = False
            if not self._is_linear_pair(outer, inner) and self.has_uncertain:
                pairs.append((outer, inner))
        return pairs

    def try_merge(self, outer: UOp, inner: UOp) -> UOp | None:
        """Return the graph with two loops merged, if it has no more divisions than before.

        None, too, if a value would not be hoisted out of the inner loop any more.
        """
        if _trip_count((outer, inner)) > MAX_EXTENT:
            return None
        for node in self.order:
            if node.op is ops.REDUCE or node.op is ops.BUFFERIZE:
                ranges = node.ranges
                if (outer in ranges) != (inner in ranges):
                    return None
        merged = _merged_loop((outer, inner))
        inner_extent = inner.src[0]
        values = {outer: merged // inner_extent, inner: merged % inner_extent}
        loops = {outer: (merged,), inner: ()}
        attempt = simplify_indices(replace_loops(self.sink, values, loops))
        return attempt if division_count(attempt) <= division_count(self.sink) else None


def _mergeable_users(outer: int, inner: int) -> Callable[[UOp, int], bool]:
    """Return which users of a sum may need no further division if two loops are merged.

    `outer` and `inner` are the coefficients of the loops in the sum; the result takes a user and
    the extent n of the inner loop. With R = outer * n + inner: outer < c is R < c * n, outer // c
    is R // (c * n), and inner % c is R % c where c divides n.
    """
    if not inner:
        return lambda user, extent: user.op is ops.IDIV or user.op.group is Group.COMPARISON
    if not outer:
        return lambda user, extent: _is_remainder(user) and extent % int(user.src[1].arg) == 0
    return lambda user, extent: False


def _is_remainder(node: UOp) -> bool:
    return node.op is ops.MOD and node.src[1].op is ops.CONST and node.src[1].arg > 0


def _merge_group(
    group: Sequence[UOp],
    values: dict[UOp, UOp],
    loops: dict[UOp, tuple[UOp, ...]],
) -> None:
    """Add the values and loops of merged loops: the last one is replaced, the others become 0."""
    if len(group) < 2:
        return
    merged = _merged_loop(group)
    for r in group[:-1]:
        values[r], loops[r] = UOp.const(index, 0), ()
    values[group[-1]], loops[group[-1]] = merged, (merged,)


def _merged_loop(group: Sequence[UOp]) -> UOp:
    return ops.RANGE(UOp.const(index, _trip_count(group)), arg=group[0].arg)


def _trip_count(loops: Sequence[UOp]) -> int:
    return prod(extent(loop) or 0 for loop in loops)
