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

from collections.abc import Iterator, Mapping, Sequence
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
    scan = _match_scan(before, after)
    return None if scan is None else list(_compare(before, after, scan))


def _compare(before: UOp, after: UOp, scan: _Scan) -> Iterator[Comparison]:
    """Yield all accesses but those of the carried values, compared under the scan's loops."""
    old = accesses(before)
    new = [a for a in accesses(after) if base_of(a.node) not in scan.buffers]
    matched = set()
    for comparison in compare_under(old, new, LoopMap(scan.substitution), before, after):
        matched |= {comparison.before} if comparison.before is not None else set()
        yield comparison
    for access in (a for a in old if a not in matched):
        yield Comparison(access, access, Answer(None, "the access is gone"))


class _ScanLoops(NamedTuple):
    """The scanned loop before the stage, and the ordered and the inner loop that it became."""

    scanned: UOp
    outer: UOp
    inner: UOp | None

    def iteration_number(self, inner: UOp | None) -> UOp:
        """Return the number of an iteration of the outer loop and of one like the inner loop."""
        if inner is None or self.inner is None:
            return self.outer
        extent = UOp.const(index, int(self.inner.src[0].arg))
        return UOp(ops.ADD, None, (UOp(ops.MUL, None, (self.outer, extent)), inner))


def _match_scan(before: UOp, after: UOp) -> _Scan | None:
    """Return the scan that a stage made; None if the kernels do not have that form."""
    old, new = set(loops_in(before)), set(loops_in(after))
    loops = _match_scan_loops(old - new, new - old)
    buffers = frozenset(_local_buffers(after) - _local_buffers(before))
    if loops is None or not buffers:
        return None
    reductions = [n for n in toposort(before) if n.op is ops.REDUCE and loops.scanned in n.ranges]
    if not all(_is_prefix_reduction(n, loops.scanned) for n in reductions):
        return None
    substitution = {loops.scanned: loops.iteration_number(loops.inner)}
    for reduction in reductions:
        number = _term_number(reduction, loops, new - old, after)
        if number is None:
            return None
        substitution[reduction.src[1]] = number
    if old - new != substitution.keys() or len(buffers) != len(reductions):
        return None
    stores = _stores_to(buffers, after)
    return _Scan(substitution, buffers) if _is_loop_carried(stores, reductions, loops) else None


def _match_scan_loops(removed: set[UOp], added: set[UOp]) -> _ScanLoops | None:
    """Return the loops of a scan; None if others were removed or added."""
    scanned = [r for r in removed if r.arg[1] is Axis.LOOP]
    outer = [r for r in added if r.arg[1] is Axis.ORDERED]
    inner = [r for r in added if r.arg[1] is Axis.LOOP]
    if len(scanned) != 1 or len(outer) != 1 or len(inner) > 1:
        return None
    return _ScanLoops(scanned[0], outer[0], inner[0] if inner else None)


def _term_number(reduction: UOp, loops: _ScanLoops, added: set[UOp], after: UOp) -> UOp | None:
    """Return which term of a prefix reduction an iteration adds; None if that is not known."""
    parts = [r for r in added if r.arg[0] == (*reduction.src[1].arg[0], 1)]
    if loops.inner is None:
        return None if parts else loops.outer
    if len(parts) != 1:
        return None
    partial = [n for n in toposort(after) if n.op is ops.REDUCE and parts[0] in n.src]
    if all(_is_prefix_reduction(n, loops.inner) for n in partial if loops.inner in n.ranges):
        return loops.iteration_number(parts[0])
    return None


def _stores_to(buffers: frozenset[UOp], kernel: UOp) -> list[UOp]:
    """Return the stores to some buffers."""
    return [n for n in toposort(kernel) if n.op is ops.STORE and base_of(n.src[0]) in buffers]


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


def _is_loop_carried(stores: Sequence[UOp], reductions: Sequence[UOp], loops: _ScanLoops) -> bool:
    """Return whether each buffer is initialized by the identity, then updated in every iteration.

    An update adds the terms of one iteration of the outer loop.
    """
    starts = [s for s in stores if loops.outer not in s.ranges]
    updates = [s for s in stores if loops.outer in s.ranges]
    kinds = {(n.arg, n.dtype) for n in reductions}
    return len(starts) == len(updates) == len(reductions) and all(
        (s.src[1].op, s.src[1].dtype) in kinds
        and _adds_terms(s, reduced=loops.inner is not None)
        and _is_initialized(s, starts)
        for s in updates
    )


def _adds_terms(update: UOp, *, reduced: bool) -> bool:
    """Return whether a store adds to its element a term, or the reduction of several."""
    address, value = update.src
    if len(value.src) != 2 or value.src[0] is not address:
        return False
    added = value.src[1]
    return not reduced or (added.op is ops.REDUCE and added.arg is value.op)


def _is_initialized(update: UOp, starts: Sequence[UOp]) -> bool:
    """Return whether one store initializes the buffer of an update, by the identity of its op."""
    address, value = update.src
    values = [s.src[1] for s in starts if base_of(s.src[0]) is base_of(address)]
    zero = identity(value.op, value.dtype)
    return len(values) == 1 and values[0].op is ops.CONST and values[0].arg == zero
