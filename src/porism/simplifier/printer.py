"""Printer: a graph as an expression in Python syntax, which `parse` reads back.

Only the parentheses that are needed are written. Ops without a syntax of their own are written as
equal expressions: a condition as a number is `(1 if c else 0)`, the larger of two conditions is
`a or b`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from porism.base import dtypes
from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.text.argument_text import int_to_text
from porism.simplifier.parser import AND, CHOICE, COMPARISON, NOT, OR, PRECEDENCE, PREFIX

ATOM: Final = 15
LONGEST: Final = 10_000_000
"""The most characters of a text; a graph with much sharing could have an endless one."""

Piece = str | tuple[UOp, int]
"""A text, or a node still to be written with the lowest precedence that needs no parentheses."""

Pieces = Callable[[UOp], tuple[list[Piece], int]]
"""Returns the text of a node with its sources in their places, and its precedence."""

_SYMBOLS: Final[dict[Op, str]] = {
    ops.ADD: "+",
    ops.SUB: "-",
    ops.MUL: "*",
    ops.IDIV: "//",
    ops.MOD: "%",
    ops.SHL: "<<",
    ops.SHR: ">>",
    ops.AND: "&",
    ops.OR: "|",
    ops.XOR: "^",
    ops.LT: "<",
    ops.LE: "<=",
    ops.GT: ">",
    ops.GE: ">=",
    ops.EQ: "==",
    ops.NE: "!=",
}
_INFIX: Final = {
    # a < b < c would mean something else
    op: (f" {symbol} ", PRECEDENCE[symbol], PRECEDENCE[symbol] + (PRECEDENCE[symbol] == COMPARISON))
    for op, symbol in _SYMBOLS.items()
}
"""Of ops on numbers the symbol, the precedence, and the precedence of the first operand."""
_OF_CONDITIONS: Final[dict[Op, str]] = {
    ops.AND: "and",
    ops.MIN: "and",
    ops.OR: "or",
    ops.MAX: "or",
    ops.XOR: "!=",
    ops.NE: "!=",
    ops.EQ: "==",
}


def to_python(root: UOp, longest: int = LONGEST) -> str:
    """Return an expression of numbers and conditions in Python syntax.

    >>> r, v = UOp.variable("r", 0, 3), UOp.variable("v", 0, 2)
    >>> to_python(UOp(ops.MOD, None, (UOp(ops.ADD, None, (r, v)), r.lift(7))))
    '(r + v) % 7'
    >>> to_python((r < v).where(r, -v))
    'r if r < v else -v'
    """
    return write(root, _pieces, longest)


def write(root: UOp, pieces: Pieces, longest: int) -> str:
    """Return the text of a graph in the language whose syntax `pieces` is."""
    written: list[str] = []
    length = 0
    pending: list[Piece] = [(root, 0)]
    while pending:
        piece = pending.pop()
        if isinstance(piece, str):
            written.append(piece)
            length += len(piece)
            continue
        if length + len(pending) > longest:  # each piece is a character or more
            raise PorismError(
                f"the text of an expression has more than {longest} characters",
                why="parts that are shared in the graph are repeated in the text",
            )
        node, needed = piece
        inner, own = pieces(node)
        inner.reverse()
        if own < needed:
            pending.append(")")
            pending += inner
            pending.append("(")
        else:
            pending += inner
    return "".join(written)


def is_condition(node: UOp) -> bool:
    """Whether a node is a condition, and not a number."""
    return node.dtype.mask is node.dtype


def refused(node: UOp) -> PorismError:
    """Return the error for an op that is neither arithmetic nor logic."""
    return PorismError(
        f"{node.op.name} cannot be written as an expression",
        where=repr(node),
        why="only arithmetic on whole numbers and conditions has a text of this kind",
    )


def _pieces(node: UOp) -> tuple[list[Piece], int]:
    """Return the text of a node with its sources in their places, and its precedence."""
    op, src = node.op, node.src
    operator = _INFIX.get(op)
    if operator is not None and src[0].dtype is dtypes.index:
        between, own, first = operator
        return [(src[0], first), between, (src[1], own + 1)], own
    if op is ops.CONST:
        if isinstance(node.arg, bool):
            return [str(node.arg)], ATOM
        return [int_to_text(node.arg)], ATOM if node.arg >= 0 else PREFIX
    if op is ops.VARIABLE:
        return [str(node.arg[0])], ATOM
    if op is ops.NEG:
        # `-1` is the constant, and `-(1)` its negation
        needed = ATOM + 1 if src[0].op is ops.CONST and src[0].arg >= 0 else PREFIX
        return ["-", (src[0], needed)], PREFIX
    if op is ops.NOT:
        if is_condition(node):
            return ["not ", (src[0], NOT)], NOT
        return ["~", (src[0], PREFIX)], PREFIX
    if op is ops.WHERE:
        condition, yes, no = src
        return [(yes, OR), " if ", (condition, OR), " else ", (no, CHOICE)], CHOICE
    if op is ops.CAST and is_condition(src[0]) and not is_condition(node):
        return ["1 if ", (src[0], OR), " else 0"], CHOICE
    conditions = bool(src) and is_condition(src[0])
    if op in (ops.MAX, ops.MIN) and not conditions:
        return call("max" if op is ops.MAX else "min", node), ATOM
    symbol = (_OF_CONDITIONS if conditions else _SYMBOLS).get(op)
    if symbol is None:
        raise refused(node)
    own = PRECEDENCE[symbol]
    # a < b < c would mean something else
    return infix(symbol, src, own, alone=own == COMPARISON)


def infix(
    symbol: str, src: tuple[UOp, ...], own: int, *, alone: bool = False
) -> tuple[list[Piece], int]:
    """Return two operands with an operator between them, left-associative unless `alone`."""
    return [(src[0], own + alone), f" {symbol} ", (src[1], own + 1)], own


def call(name: str, node: UOp) -> list[Piece]:
    """Return a call with all operands of nested calls of the same function: `max(a, b, c)`."""
    operands = [node.src[1]]
    first = node.src[0]
    while first.op is node.op:
        operands.append(first.src[1])
        first = first.src[0]
    operands.append(first)
    pieces: list[Piece] = [f"{name}("]
    for number, operand in enumerate(reversed(operands)):
        pieces += [", "] * (number > 0)
        pieces.append((operand, 0))
    return [*pieces, ")"]


assert AND > OR > CHOICE  # a condition inside a choice needs no parentheses
