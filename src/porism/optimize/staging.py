"""Staging: the part of a buffer that some loops read, copied into local memory first.

    for j: for i: for k: … b[j * n + k] …        for j: t[k] = b[j * n + k] for all k
                                                        for i: for k: … t[k] …

The copy is laid out as the inner loops walk it, so that what jumped in memory reads neighbours. It
pays where each element is read many times inside the loops that the copy is made in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from porism.base.dtypes import Space, index
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.walk import substitute, toposort
from porism.optimize.loops import ranges_of

SPREAD = frozenset({Axis.UPCAST, Axis.UNROLL})


@dataclass(frozen=True, slots=True)
class Staging:
    """What staging a load would take."""

    inner: tuple[UOp, ...]
    """The ranges that the copy is made for: those of the load that its loops do not fix."""
    size: int
    """Elements of the copy."""
    copies: int
    """How often it is made."""
    reads: int
    """How often its elements are read in all."""

    @property
    def gain(self) -> float:
        """How often an element is read once it is copied."""
        return self.reads / max(self.copies * self.size, 1)


def staging(kernel: UOp, load: UOp) -> Staging | None:
    """What it would take to stage a load inside the outermost loops that it depends on."""
    end = kernel.src[0]
    if len(kernel.src) != 1 or end.op is not ops.END:
        return None
    loops = [r for r in end.src[1:] if r.arg[1] not in SPREAD]
    level = [place for place, r in enumerate(loops) if r in load.ranges]
    around = loops[: max(level) + 1] if level else []
    inner = tuple(r for r in load.ranges if r not in around)
    every = [*around, *inner, *_others(kernel, load)]
    if not inner or any(r.src[0].op is not ops.CONST for r in every):
        return None
    size = _iterations(inner)
    return Staging(inner, size, _iterations(around), _iterations(every))


def staged(kernel: UOp, load: UOp, inner: Sequence[UOp]) -> UOp:
    """A kernel that copies what a load reads in the ranges `inner`, the last walked fastest."""
    order = toposort(kernel)
    numbers = [n.arg for n in order if n.op is ops.DEFINE_LOCAL]
    first = max(r.arg[0][0] for r in ranges_of(kernel)) + 1
    fresh = {r: UOp.range(r.src[0], first + k) for k, r in enumerate(inner)}
    size = _iterations(inner)
    dtype = load.dtype.pointer(Space.LOCAL, size)
    memory = UOp(ops.DEFINE_LOCAL, dtype, (), max(numbers, default=-1) + 1)
    source = substitute(load, fresh)
    place = memory.index(_flat([fresh[r] for r in inner]), dtype=load.dtype)
    filled = memory.after(place.store(source).end(*fresh.values()))
    return substitute(kernel, {load: filled.index(_flat(inner), dtype=load.dtype)})


def _others(kernel: UOp, load: UOp) -> list[UOp]:
    """The ranges around a load that it does not depend on."""
    found: dict[UOp, None] = {}
    above = {load}
    for node in toposort(kernel):
        if any(s in above for s in node.src):
            above.add(node)
            for r in node.ranges:
                if r not in load.ranges:
                    found[r] = None
    return list(found)


def _iterations(ranges: Sequence[UOp]) -> int:
    total = 1
    for r in ranges:
        total *= int(r.vmax) + 1
    return total


def _flat(ranges: Sequence[UOp]) -> UOp:
    number = UOp.const(index, 0)
    for r in ranges:
        number = number * r.src[0] + r
    return number
