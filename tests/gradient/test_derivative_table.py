"""The table of derivatives: each row of terms is sympy's derivative; every op has a row."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import sympy

from porism.catalogue import derivative_listing
from porism.gradient.derivative_terms import Derivative
from porism.gradient.elementwise_derivatives import FUNCTIONS, OPS
from porism.gradient.structural_pullbacks import PULLBACKS
from porism.ir import ops
from porism.ir.levels import GRAPH
from porism.ir.node import UOp
from porism.ir.ops import Group, Op
from porism.ir.traversal import toposort
from porism.tensor import namespace

PAGE = Path(__file__).parents[2] / "docs" / "derivatives.md"
DIGITS: Final = 25
A, B, C, G, N = sympy.symbols("a b c g n", real=True)
"""Operands, the cotangent, and a quotient that is constant near a point: floor(a / b)."""

MEANING: Final[dict[Op, Callable[..., Any]]] = {
    ops.NEG: lambda x: -x,
    ops.SQRT: sympy.sqrt,
    ops.EXP: sympy.exp,
    ops.EXP2: lambda x: sympy.Integer(2) ** x,
    ops.EXPM1: lambda x: sympy.exp(x) - 1,
    ops.TANH: sympy.tanh,
    ops.LOG2: lambda x: sympy.log(x) / sympy.log(2),
    ops.SIN: sympy.sin,
    ops.RECIPROCAL: lambda x: 1 / x,
    ops.TRUNC: lambda x: sympy.sign(x) * sympy.floor(abs(x)),
    ops.FLOOR: sympy.floor,
    ops.CEIL: sympy.ceiling,
    ops.ROUND: lambda x: sympy.floor(x + sympy.Rational(1, 2)),
    ops.ADD: lambda x, y: x + y,
    ops.SUB: lambda x, y: x - y,
    ops.MUL: lambda x, y: x * y,
    ops.FDIV: lambda x, y: x / y,
    ops.MAX: lambda x, y: sympy.Piecewise((x, x > y), (y, True)),
    ops.MIN: lambda x, y: sympy.Piecewise((x, x < y), (y, True)),
    ops.POW: lambda x, y: x**y,
    ops.LDEXP: lambda x, y: x * sympy.Integer(2) ** y,
    ops.WHERE: lambda p, x, y: sympy.Piecewise((x, p), (y, True)),
    ops.MULACC: lambda x, y, z: x * y + z,
    ops.LT: lambda x, y: x < y,
    ops.LE: lambda x, y: x <= y,
    ops.GT: lambda x, y: x > y,
    ops.GE: lambda x, y: x >= y,
    ops.EQ: sympy.Eq,
    ops.AND: sympy.And,
    ops.OR: sympy.Or,
    ops.PULLBACK: lambda value, *inputs: value,
}

NAMED: Final[dict[str, Any]] = {
    "abs": sympy.Piecewise((A, A > 0), (-A, True)),
    "relu": sympy.Piecewise((A, A > 0), (0, True)),
    "leaky_relu": sympy.Piecewise((A, A > 0), (A * B, True)),
    "clip": sympy.Piecewise((C, (C < B) | (A > C)), (B, A < B), (A, True)),
    "log": sympy.log(A),
    "log1p": sympy.log(1 + A),
    "logaddexp": sympy.log(sympy.exp(A) + sympy.exp(B)),
    "sigmoid": 1 / (1 + sympy.exp(-A)),
    "softplus": sympy.log(1 + sympy.exp(A)),
    "erf": sympy.erf(A),
    "erfc": sympy.erfc(A),
    "erfinv": sympy.erfinv(A),
    "cbrt": sympy.sign(A) * sympy.Abs(A) ** sympy.Rational(1, 3),
    "xlogy": A * sympy.log(B),
    "asinh": sympy.asinh(A),
    "acosh": sympy.acosh(A),
    "atanh": sympy.atanh(A),
    "tan": sympy.tan(A),
    "asin": sympy.asin(A),
    "acos": sympy.acos(A),
    "atan": sympy.atan(A),
    "atan2": sympy.atan2(A, B),
    "hypot": sympy.sqrt(A**2 + B**2),
    "copysign": sympy.Piecewise((sympy.Abs(A), B > 0), (-sympy.Abs(A), True)),
    "remainder": A - N * B,
}

POINTS: Final = (
    ("0.37", "0.61", "0.93"), ("0.83", "0.22", "0.57"), ("-0.41", "0.77", "1.3"),
    ("0.15", "-0.68", "0.4"), ("-0.72", "-0.29", "0.11"), ("1.9", "0.7", "2.4"),
    ("2.6", "3.1", "-1.7"), ("-3.3", "1.6", "0.9"),
)  # fmt: skip
"""Values of a, b and c; those where a function is not defined are left out."""

CONSTANT: Final = {"leaky_relu": (B,), "LDEXP": (B,)}
"""Operands that are parameters: a function is not differentiated by them."""


def as_sympy(term: UOp, holes: dict[Any, Any]) -> Any:
    """A term as an expression of sympy."""
    built: dict[UOp, Any] = {}
    for part in toposort(term):
        if part.op is ops.HOLE:
            built[part] = holes[part.arg]
        elif part.op is ops.CONST:
            built[part] = _exact(part.arg)
        else:
            built[part] = MEANING[part.op](*(built[s] for s in part.src))
    return built[term]


def _exact(value: float) -> Any:
    """A constant of a term, which stands for a number that no float is."""
    known = {
        math.log(2): sympy.log(2),
        math.pi / 2: sympy.pi / 2,
        2 / math.sqrt(math.pi): 2 / sympy.sqrt(sympy.pi),
        math.sqrt(math.pi) / 2: sympy.sqrt(sympy.pi) / 2,
    }
    return known.get(value, sympy.Rational(value))


def function_of(row: Derivative) -> Any:
    """What a row is the derivative of."""
    if row.name in NAMED:
        return NAMED[row.name]
    op = ops.op(row.name)
    if op is ops.WHERE:
        return sympy.Piecewise((B, A > 0), (C, True))
    return MEANING[op](*(A, B, C)[: op.arity])


@pytest.mark.parametrize("row", [*OPS.values(), *FUNCTIONS.values()], ids=lambda row: row.name)
def test_a_row_is_the_derivative_of_sympy(row: Derivative) -> None:
    function = function_of(row)
    first = A > 0 if row.name == "WHERE" else A
    holes = {"a": first, "b": B, "c": C, "g": G, "y": function}
    compared = 0
    for operand, term in zip((A, B, C), row.terms, strict=False):
        if operand in CONSTANT.get(row.name, ()) or (row.name == "WHERE" and operand is A):
            continue
        by_row = sympy.Integer(0) if term is None else as_sympy(term, holes)
        by_sympy = G * sympy.diff(function, operand)
        for point in POINTS:
            numbers = dict(zip((A, B, C), map(sympy.Rational, point), strict=True))
            numbers[N] = sympy.floor(numbers[A] / numbers[B])
            values = [_at(e, {**numbers, G: sympy.Rational("1.7")}) for e in (by_row, by_sympy)]
            if any(value is None for value in (*values, _at(function, numbers))):
                continue
            assert abs(values[0] - values[1]) < 10**-DIGITS * max(1, abs(values[1])), point
            compared += 1
    assert compared >= len(row.terms) or set(row.terms) == {None}


def _at(expression: Any, numbers: dict[Any, Any]) -> Any:
    """The real value of an expression at a point; None if there is none."""
    try:
        value = expression.subs(numbers).doit().evalf(40)
    except ValueError:  # of mpmath, as for erfinv(2)
        return None
    return value if value.is_real and value.is_number and value.is_finite else None


def test_a_wrong_row_is_refused() -> None:
    from porism.gradient.derivative_terms import derivative, g, y

    with pytest.raises(AssertionError):
        test_a_row_is_the_derivative_of_sympy(derivative("EXP2", g * y))


WITHOUT: Final = {
    ops.ASSIGN: "an effect, which no function on tensors makes",
    ops.AFTER: "an order of effects",
    ops.BITCAST: "bits have no derivative; functions by bits state theirs",
    ops.THREEFRY: "random bits",
    ops.SINK: "no value",
}


def test_every_op_of_the_graph_has_a_row_or_no_floats() -> None:
    for op in GRAPH.ops:
        if op in OPS or op in PULLBACKS or op in WITHOUT:
            continue
        integers = op.group in (Group.COMPARISON, Group.LEAF) or op.symbol in (
            "~", "//", "%", "&", "|", "^", "<<", ">>",
        )  # fmt: skip
        assert integers, op


def test_the_page_is_in_step() -> None:
    namespace.load()
    assert PAGE.read_text(encoding="utf-8") == derivative_listing.page(), (
        "run: python -m porism rules --derivatives --page > docs/derivatives.md"
    )


def test_the_listing_chooses_by_words() -> None:
    names = [row["name"] for row in derivative_listing.rows(["tan"])]
    assert {"TANH", "tan", "atan", "atan2", "standardize"} <= set(names)
    assert "at kinks: half to each" in derivative_listing.text(derivative_listing.rows(["MAX"]))
