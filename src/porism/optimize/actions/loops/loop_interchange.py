"""Loop interchange: the loops of a nest in another order.

Swap("r0", "r1")    two adjacent loops exchanged
Move("r1", "r0")    an output loop moved outwards, directly around another
"""

from __future__ import annotations

from dataclasses import dataclass

from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action
from porism.optimize.actions.loop_substitution import closers_of


@dataclass(frozen=True)
class Swap(Action):
    """Exchange two adjacent loops."""

    axis: str
    other: str

    def apply(self, kernel: UOp, target: Target) -> UOp:
        first, second = self.loop(kernel, self.axis), self.loop(kernel, self.other)
        closers = closers_of(kernel, first)
        is_one_nest = closers == closers_of(kernel, second) and first is not second
        if not is_one_nest or not all(_are_adjacent(c, first, second) for c in closers):
            raise self.refuse(
                f"{self.axis} and {self.other} are not adjacent",
                "only loops that are perfectly nested are swapped",
                "swap adjacent loops, one after the other",
            )
        if any(set(n.ranges) & {first, second} for n in (first.src[0], second.src[0])):
            raise self.refuse(
                "the extent of one loop depends on the other",
                "it must be known when the loop begins",
                "leave them",
            )
        if Axis.ORDERED in (first.arg[1], second.arg[1]) and any(map(_is_loop_carried, closers)):
            raise self.refuse(
                "one of the loops carries values from iteration to iteration",
                "they are kept in local memory for one iteration of the other loop",
                "leave them",
            )
        if any(c.op is ops.REDUCE and c.dtype.is_float for c in closers):
            raise self.refuse(
                "they are the loops of a reduction of floats",
                "the order of a sum of floats matters",
                "swap loops of the output",
            )
        new: dict[UOp, UOp] = {}
        for node in toposort(kernel):
            src = [new[s] for s in node.src]
            if node in closers:
                a, b = node.src.index(first, 1), node.src.index(second, 1)
                src[a], src[b] = src[b], src[a]
            new[node] = node.replace(tuple(src))
        return new[kernel]


def _is_loop_carried(closer: UOp) -> bool:
    """Return whether a loop stores to local memory beside what it stores elsewhere."""
    effects = closer.src[0].src if closer.src[0].op is ops.GROUP else ()
    return any(s.op is ops.STORE and base_of(s.src[0]).op is ops.DEFINE_LOCAL for s in effects)


def _are_adjacent(closer: UOp, first: UOp, second: UOp) -> bool:
    """Return whether two loops that a node closes are directly nested."""
    return abs(closer.src.index(first, 1) - closer.src.index(second, 1)) == 1


@dataclass(frozen=True)
class Move(Action):
    """Move an output loop outwards, directly around another loop of its nest."""

    axis: str
    before: str

    def apply(self, kernel: UOp, target: Target) -> UOp:
        loop, other = self.loop(kernel, self.axis), self.loop(kernel, self.before)
        for r in (loop, other):
            self.require_kind(r, (Axis.LOOP, Axis.UPCAST))
        closers = closers_of(kernel, loop)
        if loop is other or closers != closers_of(kernel, other):
            raise self.refuse(
                f"{self.axis} and {self.before} are not loops of the same stores",
                "a loop is moved within its nest",
                "name two loops of one nest",
            )
        if any(c.op is not ops.END for c in closers):
            raise self.refuse(
                "they are loops of a reduction", "its order is kept", "move loops of the output"
            )
        if any(c.src.index(loop, 1) < c.src.index(other, 1) for c in closers):
            raise self.refuse(
                f"{self.axis} is around {self.before} already",
                "loops are moved outwards",
                "leave it out",
            )
        if any({loop, other} & set(r.src[0].ranges) for c in closers for r in c.src[1:]):
            raise self.refuse(
                "the extent of a loop depends on one of them",
                "it must be known when the loop begins",
                "leave them",
            )
        return move_before(kernel, loop, other)


def move_before(kernel: UOp, loop: UOp, other: UOp) -> UOp:
    """Return a kernel with one output loop directly around another.

    Only loops of ENDs move: no iteration accesses what another one stores.
    """
    new: dict[UOp, UOp] = {}
    for node in toposort(kernel):
        src = [new[s] for s in node.src]
        if node.op is ops.END and loop in node.src[1:] and other in node.src[1:]:
            rest = [s for s in node.src[1:] if s is not loop]
            position = rest.index(other)
            src = [src[0], *(new[r] for r in (*rest[:position], loop, *rest[position:]))]
        new[node] = node.replace(tuple(src))
    return new[kernel]
