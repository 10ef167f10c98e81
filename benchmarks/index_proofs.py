"""Proofs about index expressions: the solver is asked for a point at which two texts differ.

Texts are read as Python reads them, and share nothing with the compiler. A division is stated, not
computed: q = a // b is the integer with b*q <= a < b*q + b, and a % b is a - b*q.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import z3

from benchmarks.index_values import Bounds, difference_at, tree_of

Formula = Any
"""A z3 expression; the package has no types."""


class Verdict(enum.Enum):
    """What is known about the equality of two expressions."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


_LINEAR: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}


class _Reader:
    """Texts over the same variables as formulas; equal divisions are one."""

    def __init__(self, bounds: Bounds) -> None:
        self.variables: dict[str, Formula] = {name: z3.Int(name) for name in bounds}
        self.assertions: list[Formula] = []
        self.quotients: dict[tuple[Formula, Formula], Formula] = {}
        for name, (low, high) in bounds.items():
            variable = self.variables[name]
            self.assertions += [self.end(low) <= variable, variable <= self.end(high)]

    def end(self, end: int | str) -> Formula:
        return z3.IntVal(end) if isinstance(end, int) else self.formula(tree_of(end))

    def quotient(self, a: Formula, b: Formula) -> Formula:
        """A number that is a // b wherever b is not 0."""
        a, b = z3.simplify(a), z3.simplify(b)
        result = self.quotients.get((a, b))
        if result is None:
            result = self.quotients[a, b] = z3.Int(f"//{len(self.quotients)}")
            rest = a - b * result
            self.assertions += [
                z3.Implies(b > 0, z3.And(rest >= 0, rest < b)),
                z3.Implies(b < 0, z3.And(rest > b, rest <= 0)),
            ]
        return result

    def formula(self, tree: ast.expr) -> Formula:
        match tree:
            case ast.Constant(value=bool() as truth):
                return z3.BoolVal(truth)
            case ast.Constant(value=int() as number):
                return z3.IntVal(number)
            case ast.Name(id=name):
                return self.variables[name]
            case ast.BinOp(left=left, op=operator, right=right):
                return self.arithmetic(operator, self.formula(left), self.formula(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.formula(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.formula(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return z3.Not(self.formula(operand))
            case ast.BoolOp(op=operator, values=values):
                join = z3.And if isinstance(operator, ast.And) else z3.Or
                return join(*(self.formula(part) for part in values))
            case ast.Compare(left=left, ops=operators, comparators=comparators):
                sides = [self.formula(side) for side in (left, *comparators)]
                pairs = zip(operators, sides[:-1], sides[1:], strict=True)
                return z3.And(*(_COMPARE[type(op)](a, b) for op, a, b in pairs))
            case ast.IfExp(test=test, body=body, orelse=other):
                return z3.If(self.formula(test), self.formula(body), self.formula(other))
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=arguments):
                larger = name == "max"
                return reduce(
                    lambda a, b: z3.If(a >= b if larger else a <= b, a, b),
                    [self.formula(part) for part in arguments],
                )
        raise ValueError(f"the solver is not asked about {ast.dump(tree)[:80]}")

    def arithmetic(self, operator: ast.operator, a: Formula, b: Formula) -> Formula:
        if isinstance(operator, ast.FloorDiv):
            return self.quotient(a, b)
        if isinstance(operator, ast.Mod):
            return a - b * self.quotient(a, b)
        if isinstance(operator, ast.LShift | ast.RShift) and z3.is_int_value(b):
            power = z3.IntVal(1 << b.as_long())
            return a * power if isinstance(operator, ast.LShift) else self.quotient(a, power)
        if isinstance(operator, ast.BitAnd) and z3.is_int_value(b):
            size = b.as_long() + 1
            if size > 1 and size & (size - 1) == 0:
                return a - size * self.quotient(a, z3.IntVal(size))
        if type(operator) not in _LINEAR:
            raise ValueError(f"the solver is not asked about {type(operator).__name__}")
        return _LINEAR[type(operator)](a, b)


def compare(
    before: str, after: str, bounds: Bounds, *, milliseconds: int
) -> tuple[Verdict, dict[str, int] | None]:
    """Whether two expressions are equal everywhere in a box, and a point at which they are not.

    The time is a limit for the solver. A point that it gives is looked at again by values; if they
    are equal there after all, nothing is known.
    """
    reader = _Reader(bounds)
    try:
        a, b = (reader.formula(tree_of(text)) for text in (before, after))
    except ValueError:
        return Verdict.UNKNOWN, None
    # Equations that give a variable are used up first: stated divisions have many.
    solver = z3.Then("simplify", "propagate-values", "solve-eqs", "smt").solver()
    solver.set("timeout", milliseconds)
    solver.add(*reader.assertions, a != b)
    result = solver.check()
    if result == z3.unsat:
        return Verdict.PROVED, None
    if result != z3.sat:
        return Verdict.UNKNOWN, None
    model = solver.model()
    point = {
        name: np.array([model.eval(variable, model_completion=True).as_long()])
        for name, variable in reader.variables.items()
    }
    differs = difference_at(before, after, point)
    return (Verdict.UNKNOWN if differs is None else Verdict.REFUTED), differs
