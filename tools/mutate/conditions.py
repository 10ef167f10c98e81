"""Mutants of conditions: a guard of a function made to refuse less, or to allow more.

A condition has a direction. `if TEST: return None` refuses, so its mutants make TEST true less
often; `return X if TEST else None` allows, so its mutants make TEST true more often. Where neither
is plain, as in a function that returns a truth value, both kinds are made.

    a and b     a, b                  allows more
    a or b      a, b                  refuses less
    a < b       a <= b                allows more       a <= b      a <= b + 1
    a <= b      a < b                 refuses less      a < b       a < b - 1
    all(...)    any(...)              allows more
    TEST        True, False           whole conditions
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Final, NamedTuple

MORE: Final = 1
LESS: Final = -1
BOTH: Final = 0


class Change(NamedTuple):
    """An expression of a function, and what takes its place."""

    old: ast.expr
    new: ast.expr
    direction: int
    """Whether the condition is true more often, less often, or either."""


def changes(function: ast.FunctionDef) -> Iterator[Change]:
    """Every way in which a condition of a function is weakened, in the order of the text."""
    seen: set[tuple[ast.expr, str]] = set()
    for change in _changes(function):
        key = change.old, ast.unparse(change.new)
        if key not in seen:
            seen.add(key)
            yield change


def _changes(function: ast.FunctionDef) -> Iterator[Change]:
    for node in _own_nodes(function):
        if isinstance(node, ast.If):
            yield from _whole(node.test, LESS if _refuses(node.body) else BOTH)
        elif isinstance(node, ast.While):
            yield from _parts(node.test, BOTH)
        elif isinstance(node, ast.IfExp):
            direction = LESS if _is_none(node.body) else MORE if _is_none(node.orelse) else BOTH
            yield from _whole(node.test, direction)
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield from _whole(test, BOTH)
    done = _within_tests(function)
    for node in _own_nodes(function):
        if isinstance(node, ast.BoolOp | ast.Compare) and node not in done:
            done |= set(ast.walk(node))
            yield from _parts(node, BOTH)


def _within_tests(function: ast.FunctionDef) -> set[ast.AST]:
    """The nodes that belong to a test of a statement."""
    found: set[ast.AST] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            found |= set(ast.walk(node.test))
        elif isinstance(node, ast.comprehension):
            found |= {part for test in node.ifs for part in ast.walk(test)}
    return found


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function in the order of the text, without its decorators and asserts."""
    stack: list[ast.AST] = list(reversed(function.body))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Assert):
            continue
        yield node
        stack += reversed(list(ast.iter_child_nodes(node)))


def _refuses(body: list[ast.stmt]) -> bool:
    """Whether a block gives up: it returns None, or goes on to the next candidate."""
    last = body[0] if len(body) == 1 else None
    if isinstance(last, ast.Return):
        return last.value is None or _is_none(last.value)
    return isinstance(last, ast.Continue)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _whole(test: ast.expr, direction: int) -> Iterator[Change]:
    if direction != LESS:
        yield Change(test, ast.Constant(True), MORE)
    if direction != MORE:
        yield Change(test, ast.Constant(False), LESS)
    yield from _parts(test, direction)


_LOOSER: Final[dict[type[ast.cmpop], ast.cmpop]] = {ast.Lt: ast.LtE(), ast.Gt: ast.GtE()}
_TIGHTER: Final[dict[type[ast.cmpop], ast.cmpop]] = {ast.LtE: ast.Lt(), ast.GtE: ast.Gt()}
_BY_ONE: Final[dict[type[ast.cmpop], ast.operator]] = {
    ast.Lt: ast.Add(),
    ast.LtE: ast.Add(),
    ast.Gt: ast.Sub(),
    ast.GtE: ast.Sub(),
}


def _parts(test: ast.expr, direction: int) -> Iterator[Change]:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        for part in _parts(test.operand, -direction):
            yield part._replace(direction=-part.direction)
    elif isinstance(test, ast.BoolOp):
        dropping = MORE if isinstance(test.op, ast.And) else LESS
        for place, operand in enumerate(test.values):
            if direction in (dropping, BOTH):
                left = [*test.values[:place], *test.values[place + 1 :]]
                rest = left[0] if len(left) == 1 else ast.BoolOp(test.op, left)
                yield Change(test, rest, dropping)
            yield from _parts(operand, direction)
    elif isinstance(test, ast.Compare):
        yield from _comparison(test, direction)
    elif isinstance(test, ast.Call) and _called(test) in ("any", "all"):
        wanted = MORE if _called(test) == "all" else LESS
        if direction in (wanted, BOTH):
            other = ast.Name("any" if wanted == MORE else "all", ast.Load())
            yield Change(test, ast.Call(other, test.args, test.keywords), wanted)
        for argument in test.args:
            if isinstance(argument, ast.GeneratorExp):
                yield from _parts(argument.elt, direction)


def _comparison(test: ast.Compare, direction: int) -> Iterator[Change]:
    for place, op in enumerate(test.ops):
        if len(test.ops) > 1 and direction != LESS:
            yield Change(test, _without(test, place), MORE)
        kind = type(op)
        if kind not in _BY_ONE:
            continue
        if direction != LESS:
            looser = _LOOSER.get(kind)
            yield Change(test, _with(test, place, looser, _BY_ONE[kind]), MORE)
        if direction != MORE:
            tighter = _TIGHTER.get(kind)
            back = ast.Sub() if isinstance(_BY_ONE[kind], ast.Add) else ast.Add()
            yield Change(test, _with(test, place, tighter, back), LESS)


def _without(test: ast.Compare, place: int) -> ast.expr:
    """A chain without one of its comparisons: `a <= b < c` becomes `b < c` or `a <= b`."""
    sides = [test.left, *test.comparators]
    chains = [(sides[: place + 1], test.ops[:place]), (sides[place + 1 :], test.ops[place + 1 :])]
    kept: list[ast.expr] = [
        ast.Compare(values[0], list(signs), values[1:]) for values, signs in chains if signs
    ]
    return kept[0] if len(kept) == 1 else ast.BoolOp(ast.And(), kept)


def _with(
    test: ast.Compare, place: int, sign: ast.cmpop | None, by_one: ast.operator
) -> ast.Compare:
    """A comparison with another sign, or with its right side moved by one."""
    new = copy.deepcopy(test)
    if sign is not None:
        new.ops[place] = sign
    else:
        new.comparators[place] = ast.BinOp(new.comparators[place], by_one, ast.Constant(1))
    return new
