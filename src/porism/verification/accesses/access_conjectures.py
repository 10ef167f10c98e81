"""Access conjectures: statements that two accesses are the same, or that one has no effect.

An access before a stage is evaluated with its loops replaced by expressions in the loops after it,
and compared with an access after the stage at all iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import boolean, index
from porism.ir import ops
from porism.ir.node import UOp
from porism.verification.accesses.index_evaluation import Domain, Evaluation, Value
from porism.verification.accesses.iteration_conjectures import Conjecture, symbols_in
from porism.verification.accesses.kernel_accesses import Access
from porism.verification.accesses.loop_correspondence import LoopMap

NOT_EXECUTED: Final = -1
"""The address of an access that is not executed."""


@dataclass(frozen=True, slots=True)
class LaneInstance:
    """An access before a stage, at some values of the loops that have become lanes."""

    access: Access
    fixed: tuple[tuple[UOp, int], ...] = ()

    def substitution(self, loop_map: LoopMap) -> dict[UOp, UOp]:
        constants = {r: UOp.const(index, value) for r, value in self.fixed}
        return {**loop_map.substitution, **constants}


def effective_address(
    access: Access, evaluation: Evaluation, inside: Sequence[Value] = ()
) -> Value:
    """Return the address of an access where it has an effect, else NOT_EXECUTED."""
    address = access.address(evaluation)
    happens = evaluation.conjunction(access.has_effect(evaluation), *inside)
    if happens is None:
        return address
    nowhere = evaluation.domain.constant(index, NOT_EXECUTED)
    return evaluation.domain.apply(ops.WHERE, index, happens, address, nowhere)


def loop_guards_of(access: Access, loop_map: LoopMap) -> tuple[list[UOp], list[UOp]]:
    """Return the guards of a loop map: on the loops of an access, and on other loops.

    Beyond the end of a loop of its own the access must have no effect; beyond that of another loop
    there is nothing to compare it with, nor is there in local memory, which may be larger now.
    """
    own = access.ranges() if access.buffer[0] != ops.DEFINE_LOCAL.name else set()
    inner = [condition for r, condition in loop_map.inside.items() if r in own]
    outer = [condition for r, condition in loop_map.inside.items() if r not in own]
    for r, condition in loop_map.first_only.items():
        (inner if access.store and r in own else outer).append(condition)
    return inner, outer


def same_access(copy: LaneInstance, after: Access, loop_map: LoopMap) -> Conjecture:
    """Return the conjecture that an access after a stage equals a lane instance before it."""
    substitution = copy.substitution(loop_map)
    roots, (inner, outer) = copy.access.roots(), loop_guards_of(copy.access, loop_map)

    def make(domain: Domain) -> Value:
        then, now = Evaluation(domain, substitution), Evaluation(domain)
        around = [now.value(condition) for condition in outer]
        inside = [now.value(condition) for condition in inner]
        a = effective_address(copy.access, then, [*inside, *around])
        return domain.apply(ops.EQ, index, a, effective_address(after, now, around))

    symbols = dict.fromkeys(
        [*symbols_in(roots, substitution), *symbols_in([*after.roots(), *inner, *outer])]
    )
    return Conjecture(make, tuple(symbols), max(copy.access.size, after.size))


def never_has_effect(access: Access) -> Conjecture:
    """Return the conjecture that an access never has an effect, as an unused lane."""

    def make(domain: Domain) -> Value:
        matters = access.has_effect(Evaluation(domain))
        if matters is None:
            return domain.constant(boolean, False)
        return domain.apply(ops.NOT, boolean, matters)

    return Conjecture(make, tuple(symbols_in(access.roots())), access.size)


def no_effect_outside(access: Access, r: UOp, low: int, high: int) -> Conjecture | None:
    """Return the conjecture that an access has no effect in removed iterations."""
    if not any(r in root.ranges for root in access.roots()):
        return None

    def make(domain: Domain) -> Value:
        evaluation = Evaluation(domain)
        matters = access.has_effect(evaluation)
        iteration = evaluation.value(r)
        first = domain.apply(ops.GE, index, iteration, domain.constant(index, low))
        last = domain.apply(ops.LT, index, iteration, domain.constant(index, high))
        within = evaluation.conjunction(first, last)
        if matters is None:
            return within
        return evaluation.disjunction(domain.apply(ops.NOT, boolean, matters), within)

    return Conjecture(make, tuple(symbols_in([*access.roots(), r])), access.size)
