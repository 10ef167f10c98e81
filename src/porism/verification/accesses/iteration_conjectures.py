"""Claims: statements about all iterations of a kernel, and whether they hold.

A claim is asked of three worlds in turn: of sums, of the solver, and of points. The first two prove
it. Points refute it, or hold for all of them, or for as many as were tried.
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
from porism.verification.accesses.index_evaluation import SYMBOLS, Unknown, World
from porism.verification.accesses.linear_constraints import Sums
from porism.verification.accesses.sample_points import Points, Symbol
from porism.verification.verification_report import How

FIRST: Final = 128
"""Points that are tried before the solver is asked: what is wrong is mostly wrong there."""

MISSING: Final = "without a solver: pip install z3-solver for more proofs"


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that holds for all values of some symbols."""

    make: Callable[[World], Any]
    symbols: tuple[Symbol, ...]
    width: int = 0
    """How far from 0 indices go, for what is read from buffers."""
    at_sight: Callable[[Sums], bool] | None = None
    """Another way to see it in the world of sums."""
    any_data: bool = False
    """Whether it holds whatever buffers hold, so that the solver may choose that."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a claim was decided; if it is false, for which values."""

    how: How | None
    detail: str
    point: Mapping[Symbol, int] | None = None
    data: bool = False
    """Whether it depends on what buffers hold."""

    @property
    def holds(self) -> bool:
        return self.how is not None


def symbols_of(
    roots: Sequence[UOp], meaning: Mapping[UOp, UOp] | None = None, copy: int = 0,
    shared: frozenset[UOp] = frozenset(),
) -> list[Symbol]:  # fmt: skip
    """The symbols that some expressions are about, sources first."""
    meaning = meaning or {}
    found: dict[Symbol, None] = {}
    seen: set[UOp] = set()
    todo = list(roots)
    while todo:
        within = list(toposort(todo.pop(), within=lambda n: n not in seen))
        seen.update(within)
        for node in within:
            if node in meaning:
                todo.append(meaning[node])
            elif node.op in SYMBOLS:
                same = node.op is ops.VARIABLE or node in shared
                found[node, 0 if same else copy] = None
    return list(found)


def decide(claim: Claim) -> Answer:
    """Whether a claim holds; by proof if there is one in time."""
    for see in (claim.make, claim.at_sight):
        try:
            if see is not None and see(Sums()) is True:
                return Answer(How.PROVED, "proved")
        except Unknown:
            pass
    tried = _tried(claim, sample=FIRST, most=FIRST)
    if tried is not None and not tried.holds:
        return tried
    if tried is not None and tried.how is How.ALL:
        return tried
    solved = _solved(claim)
    if solved is not None:
        return solved
    tried = _tried(claim)
    if tried is not None:
        return tried
    return Answer(How.ASSUMED, "assumed: it depends on floats, or on what a loop computes")


def solver() -> Any:
    """How the solver decides a claim, or None where it is not installed."""
    try:
        from porism.prove.arithmetic.kernel_formulas import decide as by_solver
    except PorismError:
        return None
    return by_solver


def _solved(claim: Claim) -> Answer | None:
    by_solver = solver()
    if by_solver is None:
        return None
    try:
        truth, point, data = by_solver(claim.make, settings.verify_ms, any_data=claim.any_data)
    except Unknown:
        return None
    if truth:
        return Answer(How.PROVED, "proved")
    return None if truth is None else Answer(None, "refuted", point, data)


def _tried(claim: Claim, **limits: int) -> Answer | None:
    try:
        points = Points(claim.symbols, width=claim.width, **limits)
        truths = points.truth(claim.make(points))
    except Unknown:
        return None
    if not truths.all():
        return Answer(None, "refuted", points.at(int(np.argmin(truths))), points.data)
    if points.every and not points.data:
        return Answer(How.ALL, f"checked for all {points.total} points")
    if points.every:
        return Answer(How.SAMPLED, f"sampled: all {points.total} points, with data by chance")
    return Answer(How.SAMPLED, f"sampled {points.count} of {points.total:.3g} points")
