"""Scans: a loop that carries a reduction reduces the terms up to each iteration.

    before   for i:  p[at(i)] = f(sum of (v(j) where j <= i, else 0) for j)
    after    t = 0
             for b in order, k:  p[at(b*n + k)] = f(t + sum of (v(b*n + l) where l <= k) for l)
                                 t += sum of v(b*n + l) for l

An iteration before, of the loop that stores and of the one that reduces, is one after: both are
numbered alike, by the ordered loop and by a loop inside of it. Under this substitution all reads
and stores must be those before. Which terms are summed follows from the form of the loops; a kernel
of another form is compared like the result of any other stage.
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
from porism.verification.accesses.loop_correspondence import LoopMap, loops_in
from porism.verification.accesses.stage_equivalence import Comparison, compare_under


class _Scan(NamedTuple):
    """The loops before, in those after; and the local buffers that carry the reductions."""

    substitution: Mapping[UOp, UOp]
    buffers: frozenset[UOp]


def compare(before: UOp, after: UOp) -> list[Comparison] | None:
    """Return all accesses, compared; None if the stage made no scan."""
    found = _match_scan(before, after)
    return None if found is None else list(_compare(before, after, found))


def _compare(before: UOp, after: UOp, found: _Scan) -> Iterator[Comparison]:
    old = accesses(before)
    new = [a for a in accesses(after) if base_of(a.node) not in found.buffers]
    done = set()
    for each in compare_under(old, new, LoopMap(found.substitution), before, after):
        done |= {each.before} if each.before is not None else set()
        yield each
    for access in (a for a in old if a not in done):
        yield Comparison(access, access, Answer(None, "the access is gone"))


def _match_scan(before: UOp, after: UOp) -> _Scan | None:
    old, new = set(loops_in(before)), set(loops_in(after))
    ordered = [r for r in new - old if r.arg[1] is Axis.ORDERED]
    buffers = frozenset(_local_buffers(after) - _local_buffers(before))
    gone = [r for r in old - new if r.arg[1] is Axis.LOOP]
    if len(ordered) != 1 or len(gone) != 1 or not buffers:
        return None
    (step,), (loop,) = ordered, gone
    lanes = [r for r in new - old if r.arg[1] is Axis.LOOP]
    sums = [n for n in toposort(before) if n.op is ops.REDUCE and loop in n.ranges]
    if len(lanes) > 1 or not all(_is_prefix_reduction(n, loop) for n in sums):
        return None
    amount = int(lanes[0].src[0].arg) if lanes else 1
    lane = lanes[0] if lanes else None
    substitution = {loop: _linear_index(step, amount, lane)}
    for whole in sums:
        terms = whole.src[1]
        parts = [r for r in new - old if r.arg[0] == (*terms.arg[0], 1)]
        if len(parts) != len(lanes):
            return None
        substitution[terms] = _linear_index(step, amount, parts[0] if parts else None)
        inner = [n for n in toposort(after) if n.op is ops.REDUCE and parts and parts[0] in n.src]
        if any(
            lane in n.ranges and not _is_prefix_reduction(n, lane)
            for n in inner
            if lane is not None
        ):
            return None
    carried = [n for n in toposort(after) if n.op is ops.STORE and base_of(n.src[0]) in buffers]
    if len(buffers) != len(sums) or len(carried) != 2 * len(sums):
        return None
    if set(old - new) != substitution.keys() or not _is_loop_carried(carried, sums, step, lanes):
        return None
    return _Scan(substitution, buffers)


def _linear_index(step: UOp, amount: int, part: UOp | None) -> UOp:
    if part is None:
        return step
    return UOp(ops.ADD, None, (UOp(ops.MUL, None, (step, UOp.const(index, amount))), part))


def _local_buffers(kernel: UOp) -> set[UOp]:
    return {n for n in toposort(kernel) if n.op is ops.DEFINE_LOCAL}


def _is_prefix_reduction(node: UOp, loop: UOp) -> bool:
    """Return whether a reduction is over the terms up to an iteration of a loop."""
    value = node.src[0]
    start = identity(node.arg, node.dtype)
    while value.op is ops.WHERE and value.src[2].op is ops.CONST and value.src[2].arg == start:
        condition, value, _ = value.src
        if condition.op is ops.LE and condition.src == (node.src[1], loop):
            return len(node.src) == 2 and loop not in value.ranges
    return False


def _is_loop_carried(carried: list[UOp], sums: list[UOp], step: UOp, lanes: list[UOp]) -> bool:
    """Return whether each buffer begins with the identity and then adds all terms of a step."""
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
