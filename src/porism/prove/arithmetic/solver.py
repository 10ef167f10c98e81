"""The solver: z3, asked one question at a time, each with a limit on its time."""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Any

import z3

Formula = Any
"""A z3 expression; the package has no types."""


class Answer(enum.Enum):
    """Whether the assertions can all hold at once."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def ask(
    assertions: Sequence[Formula], *, milliseconds: int, nonlinear: bool = False
) -> tuple[Answer, Any]:
    """Whether these can all hold, and then a model in which they do.

    Questions about unbounded integers are `nonlinear`: equations are solved for a variable where
    that is possible before the search begins, which is what proves most laws of division.
    """
    if nonlinear:
        solver = z3.Then("simplify", "propagate-values", "solve-eqs", "smt").solver()
    else:
        solver = z3.Solver()
    solver.set("timeout", milliseconds)
    solver.add(*assertions)
    found = solver.check()
    if found == z3.sat:
        return Answer.YES, solver.model()
    return (Answer.NO if found == z3.unsat else Answer.UNKNOWN), None


def value_in(model: Any, expression: Formula) -> bool | int | float:
    """An expression's value in a model: a truth, a signed word, an integer, a real or a float."""
    found = model.eval(expression, model_completion=True)
    if z3.is_bool(found):
        return bool(z3.is_true(found))
    if z3.is_bv(found):
        return int(found.as_signed_long())
    if z3.is_int(found):
        return int(found.as_long())
    if z3.is_real(found):
        near = found if z3.is_rational_value(found) else found.approx(10)
        return float(near.as_fraction())
    wide = z3.fpToFP(z3.RNE(), found, z3.Float64())
    if z3.is_true(z3.simplify(z3.fpIsNaN(wide))):
        return float("nan")
    bits = z3.simplify(z3.fpToIEEEBV(wide)).as_long()
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
