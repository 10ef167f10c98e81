"""Loops: the few changes to the loops of a kernel that every action is made of.

Each gives a kernel that computes the same. A range is named by its node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from porism.base.dtypes import Kind, index
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.text.expression import name_of_axis
from porism.ir.traversal import toposort
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked, masked

CLOSERS: Final = frozenset({ops.END, ops.REDUCE, ops.BUFFERIZE})


def ranges_of(kernel: UOp) -> list[UOp]:
    """The ranges of a kernel, by axis."""
    return sorted((n for n in toposort(kernel) if n.op is ops.RANGE), key=lambda r: r.arg[0])


def is_part_of(counter: UOp, whole: UOp) -> bool:
    """Whether a range is another one, or one of the loops that actions have split that one into.

    A range `r0` is split into `r0_0` and `r0_1`, and `r0_1` into `r0_1_0` and `r0_1_1`. A kernel
    may come with ranges that were split before: `r0_0` is no part of `r0_1`.
    """
    axis = whole.arg[0]
    return bool(counter.arg[0][: len(axis)] == axis)


_latest: tuple[UOp, dict[str, UOp]] | None = None
"""The kernel whose loops were asked for last: one action asks several times."""


def named_ranges(kernel: UOp) -> dict[str, UOp]:
    """The ranges of a kernel by the names that listings show."""
    global _latest
    latest = _latest
    if latest is None or latest[0] is not kernel:
        latest = _latest = (kernel, {name_of_axis(r.arg[0]): r for r in ranges_of(kernel)})
    return latest[1]


def with_kind(counter: UOp, kind: Axis) -> UOp:
    """A range of another kind."""
    return ops.RANGE(*counter.src, arg=(counter.arg[0], kind))


def replaced(kernel: UOp, counter: UOp, value: UOp, ranges: Sequence[UOp]) -> UOp:
    """A kernel with a range's value said by other ranges, which are closed where it was."""
    return replaced_together(kernel, {counter: (value, ranges)})


Parts = tuple[UOp, Sequence[UOp]]
"""The value of a range said by other ranges, and these."""


def replaced_together(kernel: UOp, changes: Mapping[UOp, Parts]) -> UOp:
    """The same for several ranges, in one walk."""
    new = {counter: value for counter, (value, _) in changes.items()}
    changed = new.keys()  # what does not depend on one of them stays
    for node in toposort(kernel):
        if changed.isdisjoint(node.src):
            continue
        if node.op in CLOSERS and not changes.keys().isdisjoint(node.src[1:]):
            src = [new.get(node.src[0], node.src[0])]
            for s in node.src[1:]:
                src += changes[s][1] if s in changes else [new.get(s, s)]
        else:
            src = [new.get(s, s) for s in node.src]
        new[node] = node.replace(tuple(src))
    return new.get(kernel, kernel)


def retyped(kernel: UOp, counter: UOp, kind: Axis) -> UOp:
    """A kernel with one range of another kind."""
    other = with_kind(counter, kind)
    return replaced(kernel, counter, other, [other])


def split(
    kernel: UOp, counter: UOp, amount: int, kind: Axis, *, top: bool = False
) -> tuple[UOp, UOp, UOp]:
    """A range of n as one of n/amount around one of `amount`; the kernel and the two ranges.

    With `top` the new range counts the large steps instead of the small ones.
    """
    outer, inner, said = in_parts(counter, amount, kind, top=top)
    return replaced_together(kernel, {counter: said}), outer, inner


def in_parts(counter: UOp, amount: int, kind: Axis, *, top: bool = False) -> tuple[UOp, UOp, Parts]:
    """The two ranges of a split one, and its value said by them."""
    size = counter.src[0]
    assert size.op is ops.CONST, "the size is known"
    assert size.arg % amount == 0, "the parts are equal"
    axis, own = counter.arg
    rest = size.arg // amount
    outer = UOp.range(rest, (*axis, 0), own)
    inner = UOp.range(amount, (*axis, 1), kind)
    kept = UOp.const(size.dtype, 0) if rest == 1 else outer
    value = inner * rest + kept if top else kept * amount + inner
    return outer, inner, (value, [inner] if rest == 1 else [outer, inner])


def padded(kernel: UOp, counter: UOp, multiple: int) -> tuple[UOp, UOp]:
    """A range made longer, to a multiple; what is beyond its end has no effect.

    Accesses beyond the end are masked, and a reduction takes its identity there. Local memory with
    room for it is accessed all the same: what is there has no effect, and no mask is needed.
    """
    size = int(counter.src[0].arg)
    longer = -(-size // multiple) * multiple
    if longer == size:
        return kernel, counter
    other = UOp.range(longer, counter.arg[0], counter.arg[1])
    inside = other < size
    order = toposort(kernel)
    places = {n.src[0] for n in order if n.op is ops.STORE}
    new = {counter: other}  # what does not depend on it stays
    changed = new.keys()
    for node in order:
        if changed.isdisjoint(node.src):
            continue
        src = tuple([new.get(s, s) for s in node.src])
        if node.op is ops.INDEX and counter in node.ranges:
            if not _has_room(node, src[1], other, node in places):
                src = (src[0], _under(inside, src[1]), *src[2:])
        elif node.op is ops.REDUCE and counter in node.src[1:]:
            src = (inside.where(src[0], UOp.const(node.dtype, _neutral(node))), *src[1:])
        new[node] = node.replace(src)
    return new.get(kernel, kernel), other


def _has_room(access: UOp, at: UOp, counter: UOp, is_stored: bool) -> bool:
    """Whether local memory has elements for all iterations, which nothing else is stored in.

    Only of floats: with what happens to be there, integers could be divided or looked up.
    """
    memory = access.src[0]
    while memory.op is ops.AFTER:
        memory = memory.src[0]
    if memory.op is not ops.DEFINE_LOCAL or not access.dtype.is_float or is_masked(at):
        return False
    if at.vmin < 0 or at.vmax >= memory.dtype.size:
        return False
    if not is_stored:
        return True
    own = stride(at, counter)
    others = [stride(at, r) for r in at.ranges if r is not counter]
    return own == 1 and all(step is not None and step > counter.vmax for step in others)


def _neutral(node: UOp) -> Any:
    """A value that changes nothing of a reduction, if possible one that it may have anyway."""
    value = node.src[0]
    if node.dtype.kind in (Kind.SIGNED, Kind.UNSIGNED):
        if node.arg is ops.MAX:
            return value.vmin
        if node.arg is ops.MIN:
            return value.vmax
    return identity(node.arg, node.dtype)


def _under(condition: UOp, at: UOp) -> UOp:
    if is_masked(at):
        return masked(at.src[0] & condition, at.src[1])
    return masked(condition, at)


def moved_before(kernel: UOp, counter: UOp, other: UOp) -> UOp:
    """A kernel with one loop of its output directly around another.

    Only loops of ENDs: what is stored in one iteration no other iteration reads or writes.
    """
    new: dict[UOp, UOp] = {}
    for node in toposort(kernel):
        src = [new[s] for s in node.src]
        if node.op is ops.END and counter in node.src[1:] and other in node.src[1:]:
            kept = [s for s in node.src[1:] if s is not counter]
            place = kept.index(other)
            src = [src[0], *(new[r] for r in (*kept[:place], counter, *kept[place:]))]
        new[node] = node.replace(tuple(src))
    return new[kernel]


def covered(kernel: UOp, counter: UOp, amount: int) -> UOp:
    """A range of n as one around one of `amount`, the last of which begins at n - amount.

    What is beyond the end of no part is accessed. What two parts have in common is computed in
    both, and stored by the first.
    """
    size = int(counter.src[0].arg)
    axis, own = counter.arg
    outer = UOp.range(-(-size // amount), (*axis, 0), own)
    inner = UOp.range(amount, (*axis, 1), Axis.LOOP)
    first = ops.MIN(outer * amount, UOp.const(counter.dtype, size - amount))
    value = first + inner
    is_new = value >= outer * amount
    changed = replaced(kernel, counter, value, [outer, inner])
    new: dict[UOp, UOp] = {}
    for node in toposort(changed):
        src = tuple([new[s] for s in node.src])
        if node.op is ops.STORE and {outer, inner} & set(node.src[0].ranges):
            place = node.src[0]
            at = (new[place.src[0]], _under(is_new, new[place.src[1]]), *src[0].src[2:])
            src = (place.replace(at), *src[1:])
        new[node] = node if src == node.src else node.replace(src)
    return new[changed]


def says_where(kernel: UOp, values: Collection[UOp]) -> bool:
    """Whether an index is computed from some values: their bounds must stay known then."""
    reached = set(values)
    for node in toposort(kernel):
        if not reached.isdisjoint(node.src) and (node.op.elementwise or node.op is ops.CAST):
            if node.dtype is index:
                return True
            reached.add(node)
    return False
