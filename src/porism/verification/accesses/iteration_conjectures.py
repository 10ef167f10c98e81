"""Iteration conjectures: statements about all iterations of a kernel, and whether they hold.

A conjecture is evaluated in three domains in turn: linear sums, the solver, and sample points. The
first two prove it. Points refute it, or confirm it for all points, or for as many as are sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.verification.accesses.index_evaluation import SYMBOLS, Domain, Unknown
from porism.verification.accesses.linear_constraints import LinearDomain
from porism.verification.accesses.sample_points import PointDomain, Symbol
from porism.verification.verification_report import How

QUICK_POINTS: Final = 128
"""Points that are sampled before the solver is asked: most faults show there; chosen by hand."""

NO_SOLVER: Final = "without a solver: pip install z3-solver for more proofs"


@dataclass(frozen=True, slots=True)
class Conjecture:
    """A statement about all values of some symbols."""

    make: Callable[[Domain], Any]
    symbols: tuple[Symbol, ...]
    width: int = 0
    """Bound of the absolute values of elements that are read as indices."""
    linear_proof: Callable[[LinearDomain], bool] | None = None
    """Another proof in the domain of linear sums."""
    any_data: bool = False
    """Whether it must hold for any contents of buffers, so that the solver may choose them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a conjecture was decided, with a counterexample if it is false."""

    how: How | None
    detail: str
    point: Mapping[Symbol, int] | None = None
    data: bool = False
    """Whether the counterexample depends on the contents of buffers."""

    @property
    def holds(self) -> bool:
        return self.how is not None


def symbols_in(
    roots: Sequence[UOp], substitution: Mapping[UOp, UOp] | None = None, copy: int = 0,
    shared: frozenset[UOp] = frozenset(),
) -> list[Symbol]:  # fmt: skip
    """Return the symbols that expressions depend on, sources first."""
    substitution = substitution or {}
    symbols: dict[Symbol, None] = {}
    seen: set[UOp] = set()
    todo = list(roots)
    while todo:
        within = list(toposort(todo.pop(), within=lambda n: n not in seen))
        seen.update(within)
        for node in within:
            if node in substitution:
                todo.append(substitution[node])
            elif node.op in SYMBOLS:
                is_shared = node.op is ops.VARIABLE or node in shared
                symbols[node, 0 if is_shared else copy] = None
    return list(symbols)


def decide(conjecture: Conjecture) -> Answer:
    """Return whether a conjecture holds, by proof if one is found in time."""
    for prove in (conjecture.make, conjecture.linear_proof):
        try:
            if prove is not None and prove(LinearDomain()) is True:
                return Answer(How.PROVED, "proved")
        except Unknown:
            pass
    sampled = _check_points(conjecture, sample=QUICK_POINTS, max_exhaustive=QUICK_POINTS)
    if sampled is not None and not sampled.holds:
        return sampled
    if sampled is not None and sampled.how is How.ALL:
        return sampled
    solved = _ask_solver(conjecture)
    if solved is not None:
        return solved
    sampled = _check_points(conjecture)
    if sampled is not None:
        return sampled
    return Answer(How.ASSUMED, "assumed: it depends on floats, or on what a loop computes")


def solver() -> Any:
    """Return the decision function of the solver, or None where z3 is not installed."""
    try:
        from porism.prove.arithmetic.kernel_formulas import decide as by_solver
    except PorismError:
        return None
    return by_solver


def _ask_solver(conjecture: Conjecture) -> Answer | None:
    """Return the answer of the solver; None if it has none."""
    by_solver = solver()
    if by_solver is None:
        return None
    try:
        truth, point, data = by_solver(
            conjecture.make, settings.verify_ms, any_data=conjecture.any_data
        )
    except Unknown:
        return None
    if truth:
        return Answer(How.PROVED, "proved")
    return None if truth is None else Answer(None, "refuted", point, data)


def _check_points(conjecture: Conjecture, **limits: int) -> Answer | None:
    """Return whether a conjecture holds at all or some points; None if it has no value there."""
    try:
        points = PointDomain(conjecture.symbols, width=conjecture.width, **limits)
        truths = points.truth(conjecture.make(points))
    except Unknown:
        return None
    if not truths.all():
        return Answer(None, "refuted", points.at(int(np.argmin(truths))), points.reads_data)
    if points.is_exhaustive and not points.reads_data:
        return Answer(How.ALL, f"checked for all {points.total} points")
    if points.is_exhaustive:
        return Answer(How.SAMPLED, f"sampled: all {points.total} points, with data by chance")
    return Answer(How.SAMPLED, f"sampled {points.count} of {points.total:.3g} points")
