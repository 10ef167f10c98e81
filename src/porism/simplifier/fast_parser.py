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
_PREFIXES: Final = {"(": _OPEN, "-": _MINUS}
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
                if word in _PREFIXES and len(pending) <= MOST_PENDING:
                    pending.append(_PREFIXES[word])
                    continue
                leaf = _number(word, leaves)
                if leaf is None:
                    return None
            if pending and pending[-1] is _MINUS and leaf.op is ops.CONST:
                pending.pop()  # a sign before a number is part of it
                leaf = number(-leaf.arg)
            values.append(leaf)
            expects_value = False
            continue
        operator = _OPERATORS.get(word)
        if operator is None:
            expects_value = word != ")"
            if expects_value:
                if not _choose(word, values, pending, make):
                    return None
            elif not _reduce(values, pending, 1, make) or not pending or pending.pop() is not _OPEN:
                return None
            continue
        precedence = operator[0]
        if precedence == COMPARISON and _follows_comparison(pending):
            return None  # a chain
        is_complete = not pending or pending[-1][0] < precedence
        if not is_complete and not _reduce(values, pending, precedence, make):
            return None
        pending.append(operator)
        expects_value = True
    if expects_value or not _reduce(values, pending, 1, make) or pending:
        return None
    return values[0]


def _choose(word: str, values: list[UOp], pending: list[Pending], make: Make) -> bool:
    """Parse the `if` or `else` of a choice; return whether it may stand there."""
    if word not in ("if", "else") or not _reduce(values, pending, CHOICE + 1, make):
        return False
    is_open = bool(pending) and pending[-1] is _IF
    if is_open == (word == "if"):
        return False
    if word == "if":
        pending.append(_IF)
    else:
        pending[-1] = _ELSE
    return True


def _reduce(values: list[UOp], pending: list[Pending], precedence: int, make: Make) -> bool:
    """Combine pending operators of at least a precedence; return whether their types fit."""
    while pending and pending[-1][0] >= precedence:
        if not _combine(values, pending.pop()[1], make):
            return False
    return True


def _number(word: str, leaves: dict[str, UOp]) -> UOp | None:
    """Return a decimal number as a constant, which is added to the leaves; None for other words."""
    if not word.isascii() or not word.isdigit() or len(word) > _MOST_DIGITS:
        return None
    if word[0] == "0" and len(word) > 1:
        return None
    leaf = leaves[word] = number(int(word))
    return leaf


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
