"""Solver: queries to z3, each with a time limit."""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Any

import z3

Formula = Any
"""A z3 expression; the package has no types."""


class Answer(enum.Enum):
    """Whether assertions are satisfiable."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def ask(
    assertions: Sequence[Formula], *, milliseconds: int, nonlinear: bool = False
) -> tuple[Answer, Any]:
    """Return whether assertions are satisfiable, with a model if they are.

    Queries about unbounded integers are `nonlinear`: equations are solved for a variable where
    that is possible before the search begins, which is what proves most lemmas of division.
    """
    if nonlinear:
        solver = z3.Then("simplify", "propagate-values", "solve-eqs", "smt").solver()
    else:
        solver = z3.Solver()
    solver.set("timeout", milliseconds)
    solver.add(*assertions)
    verdict = solver.check()
    if verdict == z3.sat:
        return Answer.YES, solver.model()
    return (Answer.NO if verdict == z3.unsat else Answer.UNKNOWN), None


def value_in(model: Any, expression: Formula) -> bool | int | float:
    """Return the value of an expression in a model; bit-vectors are signed."""
    value = model.eval(expression, model_completion=True)
    if z3.is_bool(value):
        return bool(z3.is_true(value))
    if z3.is_bv(value):
        return int(value.as_signed_long())
    if z3.is_int(value):
        return int(value.as_long())
    if z3.is_real(value):
        near = value if z3.is_rational_value(value) else value.approx(10)
        return float(near.as_fraction())
    wide = z3.fpToFP(z3.RNE(), value, z3.Float64())
    if z3.is_true(z3.simplify(z3.fpIsNaN(wide))):
        return float("nan")
    bits = z3.simplify(z3.fpToIEEEBV(wide)).as_long()
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
