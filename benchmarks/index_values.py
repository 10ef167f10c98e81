"""Values of index expressions, by Python's own reading of the text: are two equal everywhere?

It shares nothing with the compiler, so that it cannot share its mistakes.
"""

from __future__ import annotations

import ast
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
WORD = 63
"""Bits of the numbers in an array, but for the sign."""

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
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: np.negative,
    ast.UAdd: np.positive,
    ast.Invert: np.invert,
    ast.Not: np.logical_not,
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
    """The value of an expression, for arrays of points at once; anything where it has none."""
    return _Reading(point).read(tree)[0]


class _Reading:
    """Expressions at one array of points, in machine words or in Python's own integers."""

    def __init__(self, point: Mapping[str, Any], exact: bool = False) -> None:
        self.exact = exact
        self.point = {n: a.astype(object) for n, a in point.items()} if exact else point

    def read(self, tree: ast.expr) -> tuple[Any, Any]:
        """The value, and where there is none: by a division by zero or a negative shift."""
        match tree:
            case ast.Constant(value=number):
                return np.asarray(number, dtype=object) if self.exact else number, False
            case ast.Name(id=name):
                return self.point[name], False
            case ast.BinOp(left=left, op=operator, right=right):
                (a, lost), (b, also_lost) = self.read(left), self.read(right)
                lost = np.logical_or(lost, also_lost)
                if isinstance(operator, ast.FloorDiv | ast.Mod):
                    zero = np.equal(b, 0)
                    b, lost = np.where(zero, 1, b), np.logical_or(lost, zero)
                elif isinstance(operator, ast.LShift | ast.RShift):
                    negative = np.less(b, 0)
                    b, lost = np.where(negative, 0, b), np.logical_or(lost, negative)
                return _BINARY[type(operator)](a, b), lost
            case ast.UnaryOp(op=operator, operand=operand):
                a, lost = self.read(operand)
                return _UNARY[type(operator)](a), lost
            case ast.BoolOp(op=operator, values=values):
                whole, lost = self.read(values[0])
                for part in values[1:]:  # reached only where those before have not decided
                    reached = whole if isinstance(operator, ast.And) else np.logical_not(whole)
                    b, also_lost = self.read(part)
                    lost = np.logical_or(lost, np.logical_and(reached, also_lost))
                    join = np.logical_and if isinstance(operator, ast.And) else np.logical_or
                    whole = join(whole, b)
                return whole, lost
            case ast.Compare(left=left, ops=operators, comparators=comparators):
                sides = [self.read(side) for side in (left, *comparators)]
                whole, lost = True, sides[0][1]
                for compare, (a, _), (b, also_lost) in zip(
                    operators, sides[:-1], sides[1:], strict=True
                ):
                    lost = np.logical_or(lost, np.logical_and(whole, also_lost))
                    whole = np.logical_and(whole, _COMPARE[type(compare)](a, b))
                return whole, lost
            case ast.IfExp(test=test, body=body, orelse=other):
                (c, lost), (a, a_lost), (b, b_lost) = (self.read(t) for t in (test, body, other))
                return np.where(c, a, b), np.logical_or(lost, np.where(c, a_lost, b_lost))
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=arguments):
                choose = np.minimum if name == "min" else np.maximum
                whole, lost = self.read(arguments[0])
                for part in arguments[1:]:
                    b, also_lost = self.read(part)
                    whole, lost = choose(whole, b), np.logical_or(lost, also_lost)
                return whole, lost
        raise ValueError(f"an expression does not contain {ast.dump(tree)[:80]}")


def _size(tree: ast.expr, sizes: Mapping[str, int]) -> int:
    """A number that no part of an expression exceeds, without its sign."""
    match tree:
        case ast.Constant(value=int() as number):
            return abs(number)
        case ast.Name(id=name):
            return sizes[name]
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return max(1, _size(left, sizes)) * max(1, _size(right, sizes))
        case ast.BinOp(left=left, op=ast.LShift(), right=right):
            return max(1, _size(left, sizes)) << min(_size(right, sizes), WORD)
        case ast.Call(args=arguments):
            return max(_size(part, sizes) for part in arguments)
    parts = (part for part in ast.iter_child_nodes(tree) if isinstance(part, ast.expr))
    return sum(_size(part, sizes) for part in parts) + 1


def _exact(text: str, result: Mapping[str, Array]) -> tuple[Any, Any]:
    """The value of a text at points, in Python's own integers if machine words may overflow."""
    sizes = {name: _largest(array) for name, array in result.items()}
    tree = tree_of(text)
    return _Reading(result, exact=_size(tree, sizes) >= 1 << (WORD - 1)).read(tree)


def _largest(array: Array) -> int:
    return max(abs(int(array.min())), abs(int(array.max()))) if len(array) else 0


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


def _ends(bounds: Bounds, name: str, result: Mapping[str, Array], count: int) -> list[Array]:
    """The lower and the upper end of a variable at each of so many points."""
    made = []
    for end in bounds[name]:
        number = end if isinstance(end, int) else value(tree_of(end), result)
        made.append(np.broadcast_to(np.asarray(number, dtype=np.int64), (count,)))
    return made


def points(bounds: Bounds, seed: int = 0) -> tuple[dict[str, Array], bool]:
    """Points of a box, and whether they are all of them."""
    order = _ordered(bounds)
    result: dict[str, Array] = {}
    count = 1
    for name in order:
        low, high = _ends(bounds, name, result, count)
        sizes = np.maximum(high - low + 1, 0)
        count = int(sizes.sum())
        if count > MOST_POINTS:
            return _samples(order, bounds, seed), False
        result = {n: np.repeat(array, sizes) for n, array in result.items()}
        begins = np.repeat(np.cumsum(sizes) - sizes, sizes)
        result[name] = np.repeat(low, sizes) + np.arange(count) - begins
    return result, True


def _samples(order: list[str], bounds: Bounds, seed: int) -> dict[str, Array]:
    """First corners of the box, all of them if there are so few; then points at some ends."""
    chance = np.random.default_rng(seed)
    numbers = np.arange(SAMPLES)
    corner = numbers < SAMPLES // 4
    inside = np.ones(SAMPLES, dtype=bool)
    result: dict[str, Array] = {}
    for place, name in enumerate(order):
        low, high = _ends(bounds, name, result, SAMPLES)
        inside &= low <= high
        high = np.maximum(high, low)
        anywhere = chance.integers(low, high, endpoint=True)
        upper = np.where(corner, numbers >> place & 1, chance.random(SAMPLES) < 0.5)
        at_end = corner | (chance.random(SAMPLES) < 0.3)
        result[name] = np.where(at_end, np.where(upper, high, low), anywhere)
    return {name: array[inside] for name, array in result.items()}


def difference(before: str, after: str, bounds: Bounds, seed: int = 0) -> dict[str, int] | None:
    """A point at which two expressions differ; None if there is none among those looked at.

    Where the first has no value the other may have any; where it has one the other must.
    """
    return difference_at(before, after, points(bounds, seed)[0])


def difference_at(before: str, after: str, result: Mapping[str, Array]) -> dict[str, int] | None:
    """The same at given points."""
    count = len(next(iter(result.values()))) if result else 1
    (a, free), (b, lost) = (_exact(text, result) for text in (before, after))
    differ = np.logical_and(np.logical_not(free), np.logical_or(np.not_equal(a, b), lost))
    wrong = np.flatnonzero(np.broadcast_to(differ, (count,)))
    if not len(wrong):
        return None
    return {name: int(array[wrong[0]]) for name, array in result.items()}


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
