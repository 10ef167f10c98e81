"""Finished tiles: that what follows the sums of a tile reads them where they were written.

    tile of y[i, j] = f(s, b[j])          tile of t[i, j] = s
                                          for a: for b: y[a, b] = f(t[a, b], b[b])

The loops behind the tile count its elements once more. Which element of the tile an iteration of
theirs is, the index says at which the kept sum is read; under this meaning their accesses are those
of before. Sums that are kept and not used are computed all the same: that is no fault.
"""

from __future__ import annotations

import itertools
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
from porism.verification.accesses.index_evaluation import Reading, Value, World
from porism.verification.accesses.iteration_conjectures import Answer, Claim, decide, symbols_of
from porism.verification.accesses.kernel_accesses import accesses, taken_apart
from porism.verification.accesses.loop_correspondence import Guess, ranges_in
from porism.verification.accesses.stage_equivalence import Compared, paired
from porism.verification.verification_report import How

UNSURE: Final = "not compared: whether each sum of a tile is read once"


@dataclass(frozen=True)
class _Kept:
    """Sums in new memory: where they are written, and where they are read again."""

    memory: UOp
    written: UOp
    read: UOp
    meaning: Mapping[UOp, UOp]
    """What the loops of the tile are, in the loops behind it."""
    each_once: bool
    """Whether every sum is known to be read in one iteration."""


def compared(before: UOp, after: UOp) -> list[Compared] | None:
    """All accesses, compared; None if the stage did something else."""
    kept = _kept(before, after)
    return None if kept is None else list(_compared(before, after, kept))


def _compared(before: UOp, after: UOp, kept: _Kept) -> Iterator[Compared]:
    come = set(ranges_in(after)) - set(ranges_in(before))
    old = accesses(before)
    known = set(old)
    new = [a for a in accesses(after) if a not in known and base_of(a.node) is not kept.memory]
    behind = [a for a in new if a.ranges() & come]
    (again,) = [a for a in accesses(after) if a.node is kept.read]
    answer = decide(_leads_there(kept)) if kept.each_once else Answer(How.OPEN, UNSURE)
    yield Compared(again, None, answer)
    still = set(toposort(after))
    done = {a for a in old if a.node in still}
    tile = paired(old, [a for a in new if a not in behind], Guess({}), before, after)
    rest = paired(old, behind, Guess(dict(kept.meaning)), before, after)
    for found in itertools.chain(tile, rest):
        done |= {found.before} if found.before is not None else set()
        yield found
    for access in (a for a in old if a not in done):
        yield Compared(access, access, Answer(None, "the access is gone"))


def _kept(before: UOp, after: UOp) -> _Kept | None:
    fresh = _memories(after) - _memories(before)
    if len(fresh) != 1 or set(ranges_in(before)) - set(ranges_in(after)):
        return None
    (memory,) = fresh
    places = [n for n in toposort(after) if n.op is ops.INDEX and base_of(n) is memory]
    stores = [n for n in toposort(after) if n.op is ops.STORE and n.src[0] in places]
    reads = [n for n in places if all(n is not s.src[0] for s in stores)]
    if len(stores) != 1 or len(reads) != 1 or stores[0].src[1].op is not ops.REDUCE:
        return None
    written, read = stores[0].src[0].src[1], reads[0].src[1]
    around = set(reads[0].src[0].ranges)
    tile = [r for r in written.ranges if r not in around]
    behind = [r for r in read.ranges if r not in around]
    meaning = taken_apart(written, tile, read)
    size = memory.dtype.size
    if meaning is None or _counts(written, tile) != size:
        return None
    return _Kept(memory, written, reads[0], meaning, _counts(read, behind) == size)


def _memories(kernel: UOp) -> set[UOp]:
    return {n for n in toposort(kernel) if n.op is ops.DEFINE_LOCAL}


def _counts(at: UOp, loops: Sequence[UOp]) -> int | None:
    """The numbers from 0 on that an index counts, each once, if it does so."""
    rest = substitute(at, {r: UOp.const(r.dtype, 0) for r in loops})
    if not all(r.src[0].op is ops.CONST for r in loops) or rest.op is not ops.CONST or rest.arg:
        return None
    sizes = {r: int(r.src[0].arg) for r in loops if r.src[0].arg != 1}
    steps = sorted((stride(at, r) or 0, size) for r, size in sizes.items())
    done = 1
    for step, size in steps:
        if step != done:
            return None
        done *= size
    return math.prod(sizes.values())


def _leads_there(kept: _Kept) -> Claim:
    """That what is read is what the iteration wrote that it is taken for."""

    def make(world: World) -> Value:
        then, now = Reading(world, kept.meaning), Reading(world)
        return world.apply(ops.EQ, index, then.value(kept.written), now.value(kept.read.src[1]))

    symbols = dict.fromkeys(
        [*symbols_of([kept.written], kept.meaning), *symbols_of([kept.read.src[1]])]
    )
    return Claim(make, tuple(symbols), kept.memory.dtype.size)
