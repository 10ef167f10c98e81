"""Scanning: that a loop which carries a reduction on reduces what is up to each iteration.

    before   for i:  p[at(i)] = f(sum of (v(j) where j <= i, else 0) for j)
    after    t = 0
             for b in order, k:  p[at(b*n + k)] = f(t + sum of (v(b*n + l) where l <= k) for l)
                                 t += sum of v(b*n + l) for l

An iteration of before, of the loop that stores and of the one that reduces, is one of after: both
are numbered alike, by the loop in order and by one of the loops inside of it. Under this meaning it
is asked that all that is read and stored is what was. Which of them the sums are made of is told by
their form; what is not of this form is compared like the result of any other stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.verification.accesses.iteration_conjectures import Answer
from porism.verification.accesses.kernel_accesses import accesses
from porism.verification.accesses.loop_correspondence import Guess, ranges_in
from porism.verification.accesses.stage_equivalence import Compared, paired


class _Scanned(NamedTuple):
    """What the loops of before are, in those of after; and what carries the reductions on."""

    meaning: Mapping[UOp, UOp]
    memories: frozenset[UOp]


def compared(before: UOp, after: UOp) -> list[Compared] | None:
    """All accesses, compared; None if the stage did something else."""
    found = _scanned(before, after)
    return None if found is None else list(_compared(before, after, found))


def _compared(before: UOp, after: UOp, found: _Scanned) -> Iterator[Compared]:
    old = accesses(before)
    new = [a for a in accesses(after) if base_of(a.node) not in found.memories]
    done = set()
    for each in paired(old, new, Guess(found.meaning), before, after):
        done |= {each.before} if each.before is not None else set()
        yield each
    for access in (a for a in old if a not in done):
        yield Compared(access, access, Answer(None, "the access is gone"))


def _scanned(before: UOp, after: UOp) -> _Scanned | None:
    old, new = set(ranges_in(before)), set(ranges_in(after))
    ordered = [r for r in new - old if r.arg[1] is Axis.ORDERED]
    memories = frozenset(_memories(after) - _memories(before))
    gone = [r for r in old - new if r.arg[1] is Axis.LOOP]
    if len(ordered) != 1 or len(gone) != 1 or not memories:
        return None
    (step,), (counter,) = ordered, gone
    lanes = [r for r in new - old if r.arg[1] is Axis.LOOP]
    sums = [n for n in toposort(before) if n.op is ops.REDUCE and counter in n.ranges]
    if len(lanes) > 1 or not all(_is_up_to(n, counter) for n in sums):
        return None
    amount = int(lanes[0].src[0].arg) if lanes else 1
    lane = lanes[0] if lanes else None
    meaning = {counter: _numbered(step, amount, lane)}
    for whole in sums:
        terms = whole.src[1]
        parts = [r for r in new - old if r.arg[0] == (*terms.arg[0], 1)]
        if len(parts) != len(lanes):
            return None
        meaning[terms] = _numbered(step, amount, parts[0] if parts else None)
        inner = [n for n in toposort(after) if n.op is ops.REDUCE and parts and parts[0] in n.src]
        if any(lane in n.ranges and not _is_up_to(n, lane) for n in inner if lane is not None):
            return None
    carried = [n for n in toposort(after) if n.op is ops.STORE and base_of(n.src[0]) in memories]
    if len(memories) != len(sums) or len(carried) != 2 * len(sums):
        return None
    if set(old - new) != meaning.keys() or not _are_carried(carried, sums, step, lanes):
        return None
    return _Scanned(meaning, memories)


def _numbered(step: UOp, amount: int, part: UOp | None) -> UOp:
    if part is None:
        return step
    return UOp(ops.ADD, None, (UOp(ops.MUL, None, (step, UOp.const(index, amount))), part))


def _memories(kernel: UOp) -> set[UOp]:
    return {n for n in toposort(kernel) if n.op is ops.DEFINE_LOCAL}


def _is_up_to(node: UOp, counter: UOp) -> bool:
    """Whether the terms of a reduction are those up to an iteration of a loop."""
    value = node.src[0]
    start = identity(node.arg, node.dtype)
    while value.op is ops.WHERE and value.src[2].op is ops.CONST and value.src[2].arg == start:
        condition, value, _ = value.src
        if condition.op is ops.LE and condition.src == (node.src[1], counter):
            return len(node.src) == 2 and counter not in value.ranges
    return False


def _are_carried(carried: list[UOp], sums: list[UOp], step: UOp, lanes: list[UOp]) -> bool:
    """Whether memory begins with what changes nothing, and then takes in all terms of a step."""
    starts = [s for s in carried if step not in s.ranges]
    steps = [s for s in carried if step in s.ranges]
    known = {(n.arg, n.dtype) for n in sums}
    if len(starts) != len(steps):
        return False
    for store in steps:
        place, value = store.src
        if (value.op, value.dtype) not in known or len(value.src) != 2 or value.src[0] is not place:
            return False
        taken = value.src[1]
        if lanes and (taken.op is not ops.REDUCE or taken.arg is not value.op):
            return False
        zero = identity(value.op, value.dtype)
        own = [s for s in starts if base_of(s.src[0]) is base_of(place)]
        if len(own) != 1 or own[0].src[1].op is not ops.CONST or own[0].src[1].arg != zero:
            return False
    return True
