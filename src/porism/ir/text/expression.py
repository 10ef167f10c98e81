"""Expressions: a node as people write it, `(r0 * 4 + r1) // 8`, for messages and traces.

The text is for reading only (`porism.ir.text.serialization` has the form that can be read back):
constants show no dtype, ranges no end. It is never longer than asked for. What lies too deep is
left out first, so that the part near the root stays whole; neither the depth of a graph nor how
often its nodes are shared makes a difference to the time this takes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.ops import Op
from porism.ir.text import argument_text

if TYPE_CHECKING:
    from porism.ir.node import UOp

ELISION: Final = "…"

# Operator precedences; an operand of lower precedence is put into parentheses.
ATOM, POWER, PREFIX = 15, 14, 13
_BINDING: Final = {
    "**": POWER,
    **dict.fromkeys(("*", "/", "//", "%"), 12),
    **dict.fromkeys(("+", "-"), 11),
    **dict.fromkeys(("<<", ">>"), 10),
    "&": 9,
    "^": 8,
    "|": 7,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), 6),
}
COMPARISON: Final = 6

_DEPTHS: Final = (64, 32, 16, 12, 8, 6, 5, 4, 3, 2, 1)

# A piece of text still to be written: a string, or (node, least precedence, depth).
Piece = str | tuple["UOp", int, int]


def show(node: UOp, limit: int = 500, names: Mapping[UOp, str] | None = None) -> str:
    """Return the node as an expression of at most `limit` characters; some nodes may have names.

    >>> from porism.ir.node import UOp
    >>> def node(op, *src):
    ...     return UOp(op, None, src)
    >>> i, j = UOp.variable("i", 0, 9), UOp.variable("j", 0, 9)
    >>> show(node(ops.IDIV, node(ops.ADD, node(ops.MUL, i, i), j), j))
    '(i * i + j) // j'
    >>> show(node(ops.WHERE, node(ops.LT, i, j), node(ops.NEG, i), node(ops.MAX, i, j)))
    'where(i < j, -i, max(i, j))'
    >>> for _ in range(50):
    ...     i = node(ops.ADD, node(ops.MUL, i, i), j)
    >>> show(i, limit=60)
    '((… + j) * (… + j) + j) * ((… + j) * (… + j) + j) + j'
    """
    # No text of `limit` characters is deeper than that: at first nothing is left out.
    text = ""
    for depth in (limit, *(d for d in _DEPTHS if d < limit)):
        text = _write(node, limit, depth, names or {})
        if len(text) <= limit:
            return text
    return text[: limit - 1] + ELISION if limit > 0 else ""


def size_text(node: UOp) -> str | None:
    """Return a size with bound variables by their names; None for a node that has none.

    >>> from porism.ir.node import UOp
    >>> n = ops.BIND(UOp.variable("n", 1, 8), UOp.const(index, 5))
    >>> size_text(n), size_text(n * 2 - 1)
    ('n=5', 'n * 2 - 1')
    """
    if node.dtype is not index:
        return None
    if node.op is ops.BIND:
        return f"{node.src[0].arg[0]}={show(node.src[1], limit=40)}"
    text = show(node, limit=200)
    return _BOUND.sub(r"\1", text).replace(" + -", " - ") if "BIND(" in text else None


_BOUND: Final = re.compile(r"BIND\((\w+), \d+\)")


def _write(node: UOp, limit: int, depth: int, names: Mapping[UOp, str]) -> str:
    """Return the text of a node, cut off after more than `limit` characters."""
    written: list[str] = []
    length = 0
    waiting: list[Piece] = [(node, 0, 0)]
    while waiting and length <= limit:
        piece = waiting.pop()
        if isinstance(piece, str):
            written.append(piece)
            length += len(piece)
        else:
            name = names.get(piece[0])
            waiting += [name] if name else reversed(_pieces(*piece, depth=depth, most=limit))
    return "".join(written)


def _pieces(node: UOp, binding: int, level: int, *, depth: int, most: int) -> list[Piece]:
    """Return the pieces of a node's text: its own strings, with its sources between them."""
    leaf = _leaf(node)
    if leaf is not None:
        return [f"({leaf})"] if leaf[0] == "-" and binding > PREFIX else [leaf]
    if level >= depth:
        return [ELISION]
    below = level + 1
    symbol = node.op.symbol
    own = ATOM
    pieces: list[Piece]
    if symbol in _BINDING and len(node.src) == 2:
        own = _BINDING[symbol]
        left, right = _operands(own)
        pieces = [(node.src[0], left, below), f" {symbol} ", (node.src[1], right, below)]
    elif symbol in ("-", "~"):
        own = PREFIX
        # `-1` is the constant, and `-(1)` its negation
        constant = node.src[0].op is ops.CONST
        pieces = [symbol, *_enclosed([(node.src[0], PREFIX, below)], constant)]
    elif node.op is ops.INDEX:
        pieces = _access(node, below, most)
    else:
        pieces = [_head(node), *_listed(node.src[:most], below)]
        if node.op in (ops.CAST, ops.BITCAST):
            pieces.append(f", {node.dtype}")
        pieces.append(")")
    return _enclosed(pieces, own < binding)


def _enclosed(pieces: list[Piece], needed: bool) -> list[Piece]:
    return ["(", *pieces, ")"] if needed else pieces


def _operands(own: int) -> tuple[int, int]:
    """Return the least precedence of the left and the right operand of an infix operator."""
    if own == POWER:  # a ** b ** c is a ** (b ** c); the exponent may have a sign
        return POWER + 1, PREFIX
    if own == COMPARISON:  # a < b < c would mean something else
        return COMPARISON + 1, COMPARISON + 1
    return own, own + 1


@functools.lru_cache(maxsize=10_000)
def name_of_axis(axis: tuple[int, ...]) -> str:
    """Return the name of a range on this axis.

    >>> name_of_axis((3, 0, 1))
    'r3_0_1'
    """
    return "r" + "_".join(str(i).replace("-", "m") for i in axis)


def _leaf(node: UOp) -> str | None:
    """Return the text of a node that shows no sources; None for other nodes."""
    op, arg = node.op, node.arg
    if op is ops.CONST:
        return str(arg) if isinstance(arg, bool) else argument_text.to_text(arg)
    if op is ops.RANGE:
        return name_of_axis(arg[0])
    if op is ops.VARIABLE:
        return str(arg[0])
    if op is ops.SPECIAL or op is ops.HOLE:
        return str(arg)
    if op is ops.PARAM:
        return f"p{arg}"
    if op is ops.INVALID:
        return op.symbol
    if op is ops.VCONST:
        return argument_text.to_text(arg)
    return None


def _head(node: UOp) -> str:
    """Return the text of a call up to its opening parenthesis."""
    op, arg = node.op, node.arg
    if op is ops.FACT:
        return f"{arg}("
    if op.elementwise or op in (ops.CAST, ops.BITCAST):
        return f"{op.symbol or op.name.lower()}("
    if arg is None:
        return f"{op.name}("
    return f"{op.name}[{arg.name if isinstance(arg, Op) else argument_text.to_text(arg)}]("


def _listed(src: tuple[UOp, ...], level: int) -> list[Piece]:
    pieces: list[Piece] = []
    for number, s in enumerate(src):
        pieces += [", "] * (number > 0)
        pieces.append((s, 0, level))
    return pieces


def _access(node: UOp, level: int, most: int) -> list[Piece]:
    """Return the text of an element of a buffer: `p0[r0 * 4, r1]`, or `p0[r0 if r0 < 3]`."""
    buffer, *rest = node.src[:most]
    gated = len(rest) > 1 and rest[-1].dtype.element.mask is rest[-1].dtype.element
    indices = tuple(rest[:-1] if gated else rest)
    pieces: list[Piece] = [(buffer, ATOM, level), "[", *_listed(indices, level)]
    if gated:
        pieces += [" if ", (rest[-1], 0, level)]
    return [*pieces, "]"]
