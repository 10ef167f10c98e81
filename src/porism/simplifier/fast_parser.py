"""Fast parser: the expressions that compilers write, parsed in one loop over their words.

It knows names, decimal numbers, parentheses, `-x`, `+ - * // %`, comparisons of two numbers, `and`,
`or`, and `a if c else b`. For everything else, and for every mistake, it returns None, and
`porism.simplifier.parser` parses the text or reports the mistake. Both give the same graph.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.simplifier.light_nodes import Make, number
from porism.simplifier.parser import (
    ARITHMETIC,
    CHOICE,
    COMPARISON,
    COMPARISONS,
    LOGIC,
    PRECEDENCE,
    PREFIX,
)

MOST_CHARACTERS: Final = 20_000
"""A text with more characters is left to the parser; chosen by hand."""

MOST_PENDING: Final = 200
"""With more pending operators at a time, the text is left to the parser; chosen by hand."""

_WORDS: Final = re.compile(r"\w+|//|[<>=!]=|\S")
_BOOL: Final = dtypes.boolean
_INDEX: Final = dtypes.index
_MOST_DIGITS: Final = 18
"""A number with more digits is left to the parser."""

Pending = tuple[int, Op | None]
"""An operator whose right side is not parsed yet: its precedence, and its op."""

_OPEN: Final[Pending] = (0, None)
_IF: Final[Pending] = (0, ops.WHERE)
_ELSE: Final[Pending] = (CHOICE, ops.WHERE)
_MINUS: Final[Pending] = (PREFIX, ops.NEG)
_OPERATORS: Final[dict[str, Pending]] = {
    word: (PRECEDENCE[word], op)
    for word, op in {**ARITHMETIC, **COMPARISONS, **LOGIC}.items()
    if word not in ("<<", ">>")
}


def fast_parse(text: str, variables: Mapping[str, UOp], make: Make) -> UOp | None:
    """Return the graph of an expression over known variables; None if the parser has to read it."""
    if len(text) > MOST_CHARACTERS:
        return None
    leaves = dict(variables)
    values: list[UOp] = []
    pending: list[Pending] = []
    expects_value = True
    for word in _WORDS.findall(text):
        if expects_value:
            leaf = leaves.get(word)
            if leaf is None:
                if word == "(" or word == "-":
                    if len(pending) > MOST_PENDING:
                        return None
                    pending.append(_OPEN if word == "(" else _MINUS)
                    continue
                leaf = _number(word)
                if leaf is None:
                    return None
                leaves[word] = leaf
            if pending and pending[-1] is _MINUS and leaf.op is ops.CONST:
                pending.pop()  # a sign before a number is part of it
                leaf = number(-leaf.arg)
            values.append(leaf)
            expects_value = False
            continue
        operator = _OPERATORS.get(word)
        if operator is not None:
            precedence = operator[0]
            if precedence == COMPARISON and pending and _follows_comparison(pending):
                return None  # a chain
            while pending and pending[-1][0] >= precedence:
                if not _combine(values, pending.pop()[1], make):
                    return None
            pending.append(operator)
            expects_value = True
        elif word == ")":
            while pending and pending[-1][0]:
                if not _combine(values, pending.pop()[1], make):
                    return None
            if not pending or pending.pop() is not _OPEN:
                return None
        elif word == "if" or word == "else":
            while pending and pending[-1][0] > CHOICE:
                if not _combine(values, pending.pop()[1], make):
                    return None
            if word == "if":
                if pending and pending[-1] is _IF:
                    return None
                pending.append(_IF)
            elif pending and pending[-1] is _IF:
                pending[-1] = _ELSE
            else:
                return None
            expects_value = True
        else:
            return None
    if expects_value:
        return None
    while pending:
        precedence, op = pending.pop()
        if not precedence or not _combine(values, op, make):
            return None
    return values[0]


def _number(word: str) -> UOp | None:
    """Return a decimal number as a constant; None for any other word."""
    if not word.isascii() or not word.isdigit() or len(word) > _MOST_DIGITS:
        return None
    return number(int(word)) if word[0] != "0" or len(word) == 1 else None


def _follows_comparison(pending: list[Pending]) -> bool:
    """Whether the next comparison continues a pending one to a chain."""
    for precedence, _ in reversed(pending):
        if precedence <= COMPARISON:
            return precedence == COMPARISON
    return False


def _combine(values: list[UOp], op: Op | None, make: Make) -> bool:
    """Combine a pending operator with the values on the stack; return whether their types fit."""
    last = values.pop()
    first = values[-1] if op is not ops.NEG else last
    if first.dtype is _INDEX is last.dtype and op in _ON_NUMBERS:
        if op is ops.NEG:
            values.append(make(ops.NEG, (last,)))
            return True
        if (op is ops.IDIV or op is ops.MOD) and (
            last.arg == 0 if last.op is ops.CONST else last.vmin == 0 == last.vmax
        ):
            return False
        values[-1] = make(op, (first, last))
        return True
    if first.dtype is not _BOOL or op is None or op in _ON_NUMBERS:
        return False
    if op is ops.WHERE:
        values.pop()
        if values[-1].dtype is not last.dtype:
            return False
        values[-1] = make(op, (first, values[-1], last))
        return True
    values[-1] = make(op, (first, last))
    return last.dtype is _BOOL


_ON_NUMBERS: Final = frozenset({ops.NEG, *ARITHMETIC.values(), *COMPARISONS.values()})
