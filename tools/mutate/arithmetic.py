"""Mutants of arithmetic: how a step of the normal form uses its lemma, bent.

a + b       a, b, a - b          a - b      a, a + b         a * b       a, b
a // b      -(-a // b)           -a         a                0, 1        1; 0, 2, -1
min(...)    max(...)             divmod(a, b)                divmod(a + 1, b)
f(..., x)   the last constant of a call by one more
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tools.mutate.conditions import BOTH, Change

_SWAPPED: Final = {"min": "max", "max": "min"}


def changes(function: ast.FunctionDef) -> Iterator[Change]:
    """Every way in which a sum, a product, a quotient or a constant of a function is bent."""
    outside = _not_computed(function)
    for node in ast.walk(function):
        if node in outside or not isinstance(node, ast.expr):
            continue
        for new in _bent(node):
            yield Change(node, new, BOTH)


def _not_computed(function: ast.FunctionDef) -> set[ast.AST]:
    """Annotations, defaults, asserts, decorators and what only indexes a fixed place.

    Defaults belong to the definition of a function, and not to its code, which a mutant replaces.
    """
    found: set[ast.AST] = set()
    for node in ast.walk(function):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.Assert):
            parts = [node]
        elif isinstance(node, ast.AnnAssign | ast.arg):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef):
            defaults = [*node.args.defaults, *node.args.kw_defaults]
            parts = [node.returns, *node.decorator_list, *defaults]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        for part in parts:
            found |= set(ast.walk(part)) if part is not None else set()
    return found


def _bent(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp):
        left, right = node.left, node.right
        if isinstance(node.op, ast.Add):
            yield from (left, right, ast.BinOp(left, ast.Sub(), right))
        elif isinstance(node.op, ast.Sub):
            yield from (left, ast.BinOp(left, ast.Add(), right))
        elif isinstance(node.op, ast.Mult):
            yield from (left, right)
        elif isinstance(node.op, ast.FloorDiv):
            minus = ast.BinOp(ast.UnaryOp(ast.USub(), left), ast.FloorDiv(), right)
            yield ast.UnaryOp(ast.USub(), minus)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        for value in {0: (1,), 1: (0, 2, -1)}.get(node.value, (node.value + 1,)):
            yield ast.Constant(value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        name, args = node.func.id, node.args
        if name in _SWAPPED and len(args) > 1:
            yield ast.Call(ast.Name(_SWAPPED[name], ast.Load()), args, node.keywords)
        elif name == "divmod":
            more = ast.BinOp(args[0], ast.Add(), ast.Constant(1))
            yield ast.Call(node.func, [more, args[1]], [])
