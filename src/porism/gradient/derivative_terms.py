"""Derivative terms: the pullback of an elementwise op or function, written as terms over holes.

A row states, for y = f(a, b, c), the cotangent of each operand as a term in g, the cotangent of y:

    derivative("SIN", g * ops.SIN(a + math.pi / 2))

Terms are nodes, as those of rewrite rules are, so the same row is applied to graphs, printed, and
compared with derivatives from elsewhere (`tests/gradient`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rewrite.terms import hole

g, y = hole("g"), hole("y")
a, b, c = hole("a"), hole("b"), hole("c")
OPERANDS = (a, b, c)
condition = hole("a", dtypes.schema_bool)
"""The first operand where it is a truth value."""


@dataclass(frozen=True)
class Derivative:
    """The pullback of an elementwise function as terms, one for each operand."""

    name: str
    terms: tuple[UOp | None, ...]
    """None for an operand whose derivative is 0."""
    convention: str = ""
    """The value at points where there is no derivative, and why."""

    def pull_back(
        self, cotangent: UOp, value: UOp, operands: Sequence[UOp], wanted: Sequence[bool]
    ) -> list[UOp | None]:
        """Return the cotangent of each wanted operand, from that of the value."""
        filled = {g: cotangent, y: value, **dict(zip(OPERANDS, operands, strict=False))}
        filled[condition] = operands[0]
        return [
            fill(term, filled, cotangent.dtype) if term is not None and is_wanted else None
            for term, is_wanted in zip(self.terms, wanted, strict=True)
        ]


def derivative(name: str, *terms: UOp | None, convention: str = "") -> Derivative:
    """Return the row of an op or a function, with a term for each operand."""
    return Derivative(name, terms, convention)


def number(value: float) -> UOp:
    """Return a number as a term."""
    return UOp.const(dtypes.schema, value)


def fill(term: UOp, holes: Mapping[UOp, UOp], dtype: dtypes.DType) -> UOp:
    """Return a term with nodes for its holes; numbers get the type of the cotangent."""
    built: dict[UOp, UOp] = {}
    for part in toposort(term):
        if part.op is ops.HOLE:
            built[part] = holes[part]
        elif part.op is ops.CONST:
            built[part] = UOp.const(dtype, part.arg)
        else:
            sources = [built[s] for s in part.src]
            built[part] = part.op(*sources, arg=part.arg)
    return built[term]
