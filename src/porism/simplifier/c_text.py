"""C text: an expression in C, with divisions that round down as in Python.

In C `/` and `%` round towards zero, so they are used only where the bounds show that the dividend
is not negative and the divisor is positive. Elsewhere a function is called, whose definition comes
first. Variables are assumed to be wide enough for every intermediate value.
"""

from __future__ import annotations

from typing import Final

from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.simplifier.printer import (
    ATOM,
    LONGEST,
    Piece,
    infix,
    is_condition,
    refused,
    write,
)

CHOICE, OR, AND, BIT_OR, BIT_XOR, BIT_AND, EQUALITY, RELATION = 2, 3, 4, 5, 6, 7, 8, 9
SHIFT, SUM, PRODUCT, PREFIX = 10, 11, 12, 13

_NUMBERS: Final[dict[Op, tuple[str, int]]] = {
    ops.ADD: ("+", SUM),
    ops.SUB: ("-", SUM),
    ops.MUL: ("*", PRODUCT),
    ops.AND: ("&", BIT_AND),
    ops.OR: ("|", BIT_OR),
    ops.XOR: ("^", BIT_XOR),
    ops.LT: ("<", RELATION),
    ops.LE: ("<=", RELATION),
    ops.GT: (">", RELATION),
    ops.GE: (">=", RELATION),
    ops.EQ: ("==", EQUALITY),
    ops.NE: ("!=", EQUALITY),
}
_CONDITIONS: Final[dict[Op, tuple[str, int]]] = {
    ops.AND: ("&&", AND),
    ops.MIN: ("&&", AND),
    ops.OR: ("||", OR),
    ops.MAX: ("||", OR),
    ops.XOR: ("!=", EQUALITY),
    ops.NE: ("!=", EQUALITY),
    ops.EQ: ("==", EQUALITY),
}

DEFINITIONS: Final = {
    "floordiv": "{ return a / b - (a % b != 0 && (a < 0) != (b < 0)); }",
    "floormod": "{ return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0); }",
    "smaller": "{ return a < b ? a : b; }",
    "larger": "{ return a < b ? b : a; }",
}
"""The bodies of the functions of a and b that an expression may call, by name."""

_SMALLEST_LONG: Final = 1 << 31
"""A constant of this magnitude or more gets the suffix LL."""
_LARGEST: Final = 1 << 63
"""Constants of this magnitude or more do not fit in a long long."""


def to_c(root: UOp, longest: int = LONGEST) -> str:
    """Return an expression in C, after the definitions of the functions that it calls.

    >>> from porism.simplifier.parser import parse
    >>> i = UOp.variable("i", 0, 99)
    >>> print(to_c(parse("(i + 3) // 4", {"i": i})))
    (i + 3) / 4
    >>> print(to_c(parse("(i - 3) // 4", {"i": i})))  # doctest: +ELLIPSIS
    static inline long long floordiv(long long a, long long b) { ... }
    floordiv(i - 3, 4)
    """
    text = write(root, _pieces, longest)
    called = {name for node in toposort(root) if (name := _function(node)) is not None}
    return "\n".join([*(_definition(name) for name in DEFINITIONS if name in called), text])


def _definition(name: str) -> str:
    """Return the definition of a function in C."""
    return f"static inline long long {name}(long long a, long long b) {DEFINITIONS[name]}"


def _function(node: UOp) -> str | None:
    """Return the name of the function that a node calls, if it calls one."""
    op = node.op
    if op in (ops.IDIV, ops.MOD) and not _rounds_alike(node):
        return "floordiv" if op is ops.IDIV else "floormod"
    if op is ops.SHR and node.src[0].vmin < 0:
        return "floordiv"
    if op in (ops.MIN, ops.MAX) and not is_condition(node):
        return "smaller" if op is ops.MIN else "larger"
    return None


def _rounds_alike(node: UOp) -> bool:
    """Whether rounding down and rounding towards zero give the same result for a division."""
    return node.src[0].vmin >= 0 and node.src[1].vmin > 0


def _pieces(node: UOp) -> tuple[list[Piece], int]:
    """Return the text of a node with its sources in their places, and its precedence."""
    op, src = node.op, node.src
    if op is ops.CONST:
        return _constant(node)
    if op is ops.VARIABLE:
        return [str(node.arg[0])], ATOM
    if op is ops.NEG:
        # two signs in a row would be a decrement
        return ["-", (src[0], ATOM)], PREFIX
    if op is ops.NOT:
        return ["!" if is_condition(node) else "~", (src[0], PREFIX)], PREFIX
    if op is ops.WHERE:
        pieces: list[Piece] = [(src[0], OR), " ? ", (src[1], OR), " : ", (src[2], CHOICE)]
        return pieces, CHOICE
    if op is ops.CAST and is_condition(src[0]) and not is_condition(node):
        return [(src[0], OR), " ? 1 : 0"], CHOICE
    name = _function(node)
    if name is not None:
        divisor: list[Piece] = _power(src[1]) if op is ops.SHR else [(src[1], 0)]
        return [f"{name}(", (src[0], 0), ", ", *divisor, ")"], ATOM
    if op is ops.SHL:
        # a negative number cannot be shifted to the left in C
        return [(src[0], PRODUCT), " * ", *_power(src[1])], PRODUCT
    if op is ops.SHR:
        return infix(">>", src, SHIFT)
    if op in (ops.IDIV, ops.MOD):
        return infix("/" if op is ops.IDIV else "%", src, PRODUCT)
    operator = (_CONDITIONS if src and is_condition(src[0]) else _NUMBERS).get(op)
    if operator is None:
        raise refused(node)
    return infix(operator[0], src, operator[1])


def _power(amount: UOp) -> list[Piece]:
    """Return the text of 2 to the power of a shift's amount."""
    if amount.op is ops.CONST and 0 <= amount.arg < 62:
        return [_number(1 << amount.arg)]
    return ["(1LL << ", (amount, SHIFT + 1), ")"]


def _constant(node: UOp) -> tuple[list[Piece], int]:
    """Return the text of a constant, and its precedence."""
    if isinstance(node.arg, bool):
        return ["1" if node.arg else "0"], ATOM
    if not -_LARGEST < node.arg < _LARGEST:
        raise PorismError(
            "a number does not fit in 64 bits",
            where=f"a number of {node.arg.bit_length()} bits",
            why="C has no wider integers",
        )
    return [_number(node.arg)], ATOM if node.arg >= 0 else PREFIX


def _number(value: int) -> str:
    """Return an integer literal in C."""
    return f"{value}LL" if abs(value) >= _SMALLEST_LONG else str(value)
