"""Epilogues: what follows a register tile reads its sums at the index at which they were written.

    tile of y[i, j] = f(s, b[j])          tile of t[i, j] = s
                                          for a: for b: y[a, b] = f(t[a, b], b[b])

The loops of the epilogue enumerate the elements of the tile once more. The index at which a sum is
read tells which element of the tile an iteration handles; under this substitution the accesses are
those before the stage. Sums that are stored and not used are computed all the same: no fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.rules.addresses.strides import stride
from porism.verification.accesses.index_evaluation import Domain, Evaluation, Value
from porism.verification.accesses.iteration_conjectures import (
    Answer,
    Conjecture,
    decide,
    symbols_in,
)
from porism.verification.accesses.kernel_accesses import accesses, invert_linear_index
from porism.verification.accesses.loop_correspondence import LoopMap, loops_in
from porism.verification.accesses.stage_equivalence import Comparison, compare_under
from porism.verification.verification_report import How

UNDETERMINED: Final = "not compared: whether each sum of a tile is read once"


@dataclass(frozen=True)
class _TileBuffer:
    """A new local buffer for the sums of a tile: where it is written, and where it is read."""

    memory: UOp
    written: UOp
    read: UOp
    substitution: Mapping[UOp, UOp]
    """The loops of the tile, as functions of the loops of the epilogue."""
    reads_each_once: bool
    """Whether every sum is read in exactly one iteration."""


def compare(before: UOp, after: UOp) -> list[Comparison] | None:
    """Return all accesses, compared; None if the stage made no epilogue."""
    tile_buffer = _match_epilogue(before, after)
    return None if tile_buffer is None else list(_compare(before, after, tile_buffer))


def _compare(before: UOp, after: UOp, tile_buffer: _TileBuffer) -> Iterator[Comparison]:
    """Yield the read of the sums, then all other accesses of the tile and of the epilogue."""
    old, new = accesses(before), accesses(after)
    (sum_read,) = [a for a in new if a.node is tile_buffer.read]
    answer = (
        decide(_reads_what_was_written(tile_buffer))
        if tile_buffer.reads_each_once
        else Answer(How.OPEN, UNDETERMINED)
    )
    yield Comparison(sum_read, None, answer)
    nodes = set(toposort(after))
    matched = {a for a in old if a.node in nodes}
    for comparison in _compare_parts(before, after, tile_buffer):
        matched |= {comparison.before} if comparison.before is not None else set()
        yield comparison
    for access in (a for a in old if a not in matched):
        yield Comparison(access, access, Answer(None, "the access is gone"))


def _compare_parts(before: UOp, after: UOp, tile_buffer: _TileBuffer) -> Iterator[Comparison]:
    """Yield the new accesses of the tile, then those of the epilogue under its substitution."""
    added = set(loops_in(after)) - set(loops_in(before))
    old = accesses(before)
    known = set(old)
    new = [
        a for a in accesses(after) if a not in known and base_of(a.node) is not tile_buffer.memory
    ]
    tile = [a for a in new if not a.ranges() & added]
    epilogue = [a for a in new if a.ranges() & added]
    yield from compare_under(old, tile, LoopMap({}), before, after)
    yield from compare_under(old, epilogue, LoopMap(tile_buffer.substitution), before, after)


def _match_epilogue(before: UOp, after: UOp) -> _TileBuffer | None:
    """Return the buffer of the sums of a tile; None if the kernels do not have that form."""
    new_buffers = _local_buffers(after) - _local_buffers(before)
    if len(new_buffers) != 1 or set(loops_in(before)) - set(loops_in(after)):
        return None
    (memory,) = new_buffers
    indices = [n for n in toposort(after) if n.op is ops.INDEX and base_of(n) is memory]
    stores = [n for n in toposort(after) if n.op is ops.STORE and n.src[0] in indices]
    reads = [n for n in indices if all(n is not s.src[0] for s in stores)]
    if len(stores) != 1 or len(reads) != 1 or stores[0].src[1].op is not ops.REDUCE:
        return None
    return _tile_buffer(memory, stores[0].src[0].src[1], reads[0])


def _tile_buffer(memory: UOp, written: UOp, read: UOp) -> _TileBuffer | None:
    """Return the buffer with its loops mapped; None if not all of it is written once."""
    around = set(read.src[0].ranges)
    tile = [r for r in written.ranges if r not in around]
    epilogue = [r for r in read.src[1].ranges if r not in around]
    substitution = invert_linear_index(written, tile, read.src[1])
    size = memory.dtype.size
    if substitution is None or _enumerated_count(written, tile) != size:
        return None
    reads_each_once = _enumerated_count(read.src[1], epilogue) == size
    return _TileBuffer(memory, written, read, substitution, reads_each_once)


def _local_buffers(kernel: UOp) -> set[UOp]:
    return {n for n in toposort(kernel) if n.op is ops.DEFINE_LOCAL}


def _enumerated_count(index_node: UOp, loops: Sequence[UOp]) -> int | None:
    """Return n if an index has each value from 0 to n - 1 exactly once; else None."""
    rest = substitute(index_node, {r: UOp.const(r.dtype, 0) for r in loops})
    if not all(r.src[0].op is ops.CONST for r in loops) or rest.op is not ops.CONST or rest.arg:
        return None
    sizes = {r: int(r.src[0].arg) for r in loops if r.src[0].arg != 1}
    steps = sorted((stride(index_node, r) or 0, size) for r, size in sizes.items())
    count = 1
    for step, size in steps:
        if step != count:
            return None
        count *= size
    return math.prod(sizes.values())


def _reads_what_was_written(tile_buffer: _TileBuffer) -> Conjecture:
    """Return the conjecture that each sum is read at the index at which it was written."""

    def make(domain: Domain) -> Value:
        then, now = Evaluation(domain, tile_buffer.substitution), Evaluation(domain)
        return domain.apply(
            ops.EQ, index, then.value(tile_buffer.written), now.value(tile_buffer.read.src[1])
        )

    symbols = dict.fromkeys(
        [
            *symbols_in([tile_buffer.written], tile_buffer.substitution),
            *symbols_in([tile_buffer.read.src[1]]),
        ]
    )
    return Conjecture(make, tuple(symbols), tile_buffer.memory.dtype.size)
