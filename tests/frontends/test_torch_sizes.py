"""Sizes that torch writes as expressions of sympy; `./dev suite zoo --dynamic` has the rest."""

from __future__ import annotations

from typing import Any

import pytest
import sympy

from porism.engine.run.bound_sizes import evaluate_size
from porism.frontends.torch.size_expressions import (
    UnknownSizeError,
    evaluate_expression,
    symbols_of,
)
from porism.ir.node import UOp

A, B = sympy.symbols("a b", integer=True)
FLOOR, MOD, MODULAR, MAXIMUM, MINIMUM = (
    sympy.Function(name) for name in ("FloorDiv", "Mod", "ModularIndexing", "Max", "Min")
)


@pytest.mark.parametrize(
    ("expression", "meaning"),
    [
        (A, lambda a, b: a),
        (sympy.Integer(7), lambda a, b: 7),
        (3 * A * B + 2 * A - 1, lambda a, b: 3 * a * b + 2 * a - 1),
        (A**2 - B, lambda a, b: a * a - b),
        (A * (A + 1) / 2, lambda a, b: a * (a + 1) // 2),
        (FLOOR(A - 1, 2) + 1, lambda a, b: (a - 1) // 2 + 1),
        (MOD(A * B, 5), lambda a, b: a * b % 5),
        (MODULAR(A, 3, 4), lambda a, b: a // 3 % 4),
        (MAXIMUM(A, B - 3, 2), lambda a, b: max(a, b - 3, 2)),
        (MINIMUM(4, A, B), lambda a, b: min(4, a, b)),
    ],
)
def test_expressions_are_computed_with_ints_and_with_variables(
    expression: Any, meaning: Any
) -> None:
    variables = {A: UOp.variable("a", 2, 4096), B: UOp.variable("b", 2, 4096)}
    size = evaluate_expression(expression, variables)
    for a, b in ((2, 2), (5, 9), (12, 3), (100, 4095)):
        assert evaluate_expression(expression, {A: a, B: b}) == meaning(a, b)
        found = evaluate_size(size, {"a": a, "b": b}) if isinstance(size, UOp) else size
        assert found == meaning(a, b)


@pytest.mark.parametrize("expression", [B, A**-1, sympy.sqrt(A), sympy.log(A)])
def test_other_expressions_are_refused(expression: Any) -> None:
    with pytest.raises(UnknownSizeError):
        evaluate_expression(expression, {A: 5})


def test_ints_are_computed_by_sympy_where_nodes_cannot_be() -> None:
    expression = sympy.floor(A * sympy.Rational(3, 5)) + 1
    assert evaluate_expression(expression, {A: 7}) == 5
    with pytest.raises(UnknownSizeError):
        evaluate_expression(expression, {A: UOp.variable("a", 2, 4096)})


def test_the_symbols_of_sizes() -> None:
    assert symbols_of([3, A * 2, A + B]) == {A, B}
    assert symbols_of([3]) == set()
