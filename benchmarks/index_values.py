"""Values of index expressions, by Python's own reading of the text: are two equal everywhere?

It shares nothing with the compiler, so that it cannot share its mistakes.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Bounds = Mapping[str, Sequence[int | str]]

MOST_POINTS = 300_000
"""Boxes up to this size are gone through point by point."""
SAMPLES = 4000
"""Of larger boxes, as many points: corners, edges and others."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.LShift: np.left_shift,
    ast.RShift: np.right_shift,
    ast.BitAnd: np.bitwise_and,
    ast.BitOr: np.bitwise_or,
    ast.BitXor: np.bitwise_xor,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}


def tree_of(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def value(tree: ast.expr, point: Mapping[str, Any]) -> Any:
    """The value of an expression, for arrays of points at once."""
    match tree:
        case ast.Constant(value=number):
            return number
        case ast.Name(id=name):
            return point[name]
        case ast.BinOp(left=left, op=operator, right=right):
            return _BINARY[type(operator)](value(left, point), value(right, point))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return np.negative(value(operand, point))
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return np.invert(value(operand, point))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return np.logical_not(value(operand, point))
        case ast.BoolOp(op=operator, values=values):
            join = np.logical_and if isinstance(operator, ast.And) else np.logical_or
            whole = value(values[0], point)
            for part in values[1:]:
                whole = join(whole, value(part, point))
            return whole
        case ast.Compare(left=left, ops=operators, comparators=comparators):
            sides = [value(side, point) for side in (left, *comparators)]
            whole = True
            for compare, a, b in zip(operators, sides[:-1], sides[1:], strict=True):
                whole = np.logical_and(whole, _COMPARE[type(compare)](a, b))
            return whole
        case ast.IfExp(test=test, body=body, orelse=other):
            return np.where(value(test, point), value(body, point), value(other, point))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=arguments):
            choose = np.minimum if name == "min" else np.maximum
            whole = value(arguments[0], point)
            for part in arguments[1:]:
                whole = choose(whole, value(part, point))
            return whole
    raise ValueError(f"an expression does not contain {ast.dump(tree)[:80]}")


def _ordered(bounds: Bounds) -> list[str]:
    """Names after those that their bounds mention."""
    order: list[str] = []
    while len(order) < len(bounds):
        before = len(order)
        for name, ends in bounds.items():
            texts = [tree_of(end) for end in ends if isinstance(end, str)]
            names = {n.id for t in texts for n in ast.walk(t) if isinstance(n, ast.Name)}
            if name not in order and names & set(bounds) <= set(order):
                order.append(name)
        if len(order) == before:
            raise ValueError("bounds in a circle")
    return order


def _end(end: int | str, point: Mapping[str, Any]) -> Any:
    return end if isinstance(end, int) else value(tree_of(end), point)


def points(bounds: Bounds, seed: int = 0) -> tuple[dict[str, Array], bool]:
    """Points of a box, and whether they are all of them."""
    order = _ordered(bounds)
    hull: dict[str, tuple[int, int]] = {}
    corners: dict[str, Array] = {}
    for name in order:
        low, high = (np.asarray(_end(end, corners)) for end in bounds[name])
        hull[name] = (int(low.min()), int(high.max()))
        ends = np.array(hull[name])
        count = len(next(iter(corners.values()))) if corners else 1
        corners = {n: np.repeat(a, 2) for n, a in corners.items()}
        corners[name] = np.tile(ends, count)
    sizes = [high - low + 1 for low, high in (hull[name] for name in order)]
    if math.prod(sizes) <= MOST_POINTS:
        axes = [np.arange(hull[n][0], hull[n][1] + 1, dtype=np.int64) for n in order]
        grid = np.meshgrid(*axes, indexing="ij")
        found = {n: g.reshape(-1) for n, g in zip(order, grid, strict=True)}
        inside = np.ones(len(found[order[0]]) if order else 1, dtype=bool)
        for name in order:
            low, high = (_end(end, found) for end in bounds[name])
            inside &= (found[name] >= low) & (found[name] <= high)
        return {name: array[inside] for name, array in found.items()}, True
    return _samples(order, bounds, seed), False


def _samples(order: list[str], bounds: Bounds, seed: int) -> dict[str, Array]:
    chance = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name in order:
        low, high = (
            np.broadcast_to(np.asarray(_end(end, found), dtype=np.int64), (SAMPLES,))
            for end in bounds[name]
        )
        low, high = np.asarray(low), np.maximum(np.asarray(high), low)
        anywhere = chance.integers(low, high, endpoint=True)
        edge = np.where(chance.random(SAMPLES) < 0.5, low, high)
        # the first quarter are corners; of the others every third coordinate is at an end
        at_end = (np.arange(SAMPLES) < SAMPLES // 4) | (chance.random(SAMPLES) < 0.3)
        found[name] = np.where(at_end, edge, anywhere)
    return found


def difference(before: str, after: str, bounds: Bounds, seed: int = 0) -> dict[str, int] | None:
    """A point at which two expressions differ; None if there is none among those looked at."""
    found, _ = points(bounds, seed)
    count = len(next(iter(found.values()))) if found else 1
    a, b = (
        np.broadcast_to(np.asarray(value(tree_of(text), found)), (count,))
        for text in (before, after)
    )
    wrong = np.flatnonzero(a != b)
    if not len(wrong):
        return None
    return {name: int(array[wrong[0]]) for name, array in found.items()}


def divisions(text: str) -> tuple[int, int]:
    """How many different `//` and `%` a text has, and how many pairs of numerator and divisor."""
    nodes: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    names: dict[str, str] = {}

    def key(tree: ast.AST) -> str:
        """A short name for a structure, so that deep trees are not written again and again."""
        parts = [type(tree).__name__]
        for _, part in ast.iter_fields(tree):
            items = part if isinstance(part, list) else [part]
            parts += [key(i) if isinstance(i, ast.AST) else repr(i) for i in items]
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.FloorDiv | ast.Mod):
            pairs.add((parts[1], parts[3]))
            nodes.add(" ".join(parts))
        return names.setdefault(" ".join(parts), str(len(names)))

    key(tree_of(text))
    return len(nodes), len(pairs)
