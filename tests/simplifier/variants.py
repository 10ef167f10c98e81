"""Variants of an expression that must come out the same: other names, other orders of operands."""

from __future__ import annotations

import ast
import random
import re
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
    """Operands of commutative operations in a random order, and comparisons turned around."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Mult) and self.chance.random() < 0.5:
            node.left, node.right = node.right, node.left
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        self.chance.shuffle(node.values)
        return node

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


def swapped(text: str, chance: random.Random) -> str:
    return ast.unparse(_Swapping(chance).visit(ast.parse(text.strip(), mode="eval")))


def renamed(text: Any, names: dict[str, str]) -> Any:
    """A text, or an end of bounds, with other names."""
    if not isinstance(text, str):
        return text
    return re.sub(r"[A-Za-z_]\w*", lambda m: names.get(m[0], m[0]), text)


def other_names(bounds: dict[str, Any], chance: random.Random) -> dict[str, str]:
    """A new name for each variable, in no order."""
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
    found = simplify(renamed(text, names), new)
    assert found.text == renamed(result.text, names), f"other names: {text}"
    return result
