"""Variants of an expression that must have the same simplified form.

They have other names, other orders of operands, and other groupings of sums and products.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable
from typing import Any

from porism.simplifier.simplify import Result, simplify

_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}


class _Swapping(ast.NodeTransformer):
    """Reorders and regroups the operands of commutative operations, and swaps comparisons."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if not isinstance(node.op, ast.Add | ast.Mult):
            return self.generic_visit(node)
        operands = [self.visit(part) for part in _operands(node, type(node.op))]
        return self.grouped(operands, lambda a, b: ast.BinOp(a, node.op, b))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        return self.grouped(node.values, lambda a, b: ast.BoolOp(node.op, [a, b]))

    def grouped(
        self, operands: list[ast.expr], join: Callable[[ast.expr, ast.expr], ast.expr]
    ) -> ast.expr:
        """Join random pairs of operands until one is left."""
        while len(operands) > 1:
            self.chance.shuffle(operands)
            operands.append(join(operands.pop(), operands.pop()))
        return operands[0]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        self.chance.shuffle(node.args)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1 and self.chance.random() < 0.5:
            node.left, node.comparators = node.comparators[0], [node.left]
            node.ops = [_FLIPPED[type(node.ops[0])]()]
        return node


def _operands(node: ast.expr, op: type[ast.operator]) -> list[ast.expr]:
    """Return the operands of a chain of sums or products."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, op):
        return _operands(node.left, op) + _operands(node.right, op)
    return [node]


def swapped(text: str, chance: random.Random) -> str:
    return ast.unparse(_Swapping(chance).visit(ast.parse(text.strip(), mode="eval")))


def renamed(text: Any, names: dict[str, str]) -> Any:
    """Return a text, or an end of bounds, with other names."""
    if not isinstance(text, str):
        return text
    return re.sub(r"[A-Za-z_]\w*", lambda m: names.get(m[0], m[0]), text)


def other_names(bounds: dict[str, Any], chance: random.Random) -> dict[str, str]:
    """Return a new name for each variable, in random order."""
    numbers = chance.sample(range(1000), len(bounds))
    return {name: f"{chance.choice('abxyz')}_{n}" for name, n in zip(bounds, numbers, strict=True)}


def unchanged(row: dict[str, Any], chance: random.Random) -> Result:
    """Simplify an expression and its variants, and compare the texts."""
    text, bounds = row["expr"], row["vars"]
    result = simplify(text, bounds)
    assert simplify(result.text, bounds).text == result.text, f"twice: {text}"
    other = swapped(text, chance)
    assert simplify(other, bounds).text == result.text, f"another order: {text}\n{other}"
    names = other_names(bounds, chance)
    new = {names[n]: [renamed(end, names) for end in ends] for n, ends in bounds.items()}
    actual = simplify(renamed(text, names), new)
    assert actual.text == renamed(result.text, names), f"other names: {text}"
    return result
