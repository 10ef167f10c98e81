"""Quick parser: the texts that compilers write, read in one loop over their words.

It knows names, decimal numbers, parentheses, `-x`, `+ - * // %`, comparisons of two numbers, `and`,
`or`, and `a if c else b`. Of everything else, and of every mistake, it says that it cannot read it:
`porism.simplifier.parser` can, or tells what is wrong. What it reads, it reads as that does.
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
    BINDING,
    CHOICE,
    COMPARISON,
    COMPARISONS,
    LOGIC,
    PREFIX,
)

LONGEST: Final = 20_000
"""Characters of a text; what is longer is left to the parser."""

DEEPEST: Final = 200
"""What may wait for its right side at a time."""

_WORDS: Final = re.compile(r"\w+|//|[<>=!]=|\S")
_BOOL: Final = dtypes.boolean
_INDEX: Final = dtypes.index
_DIGITS: Final = 18
"""Of a number."""

Waiting = tuple[int, Op | None]
"""What waits for its right side: how tightly it holds its operands, and its op."""

_OPEN: Final[Waiting] = (0, None)
_IF: Final[Waiting] = (0, ops.WHERE)
_ELSE: Final[Waiting] = (CHOICE, ops.WHERE)
_MINUS: Final[Waiting] = (PREFIX, ops.NEG)
_OPERATORS: Final[dict[str, Waiting]] = {
    word: (BINDING[word], op)
    for word, op in {**ARITHMETIC, **COMPARISONS, **LOGIC}.items()
    if word not in ("<<", ">>")
}


def quick_parse(text: str, variables: Mapping[str, UOp], make: Make) -> UOp | None:
    """The graph of an expression over known variables; None if that is for the parser to read."""
    if len(text) > LONGEST:
        return None
    leaves = dict(variables)
    values: list[UOp] = []
    waiting: list[Waiting] = []
    expects_value = True
    for word in _WORDS.findall(text):
        if expects_value:
            leaf = leaves.get(word)
            if leaf is None:
                if word == "(" or word == "-":
                    if len(waiting) > DEEPEST:
                        return None
                    waiting.append(_OPEN if word == "(" else _MINUS)
                    continue
                leaf = _number(word)
                if leaf is None:
                    return None
                leaves[word] = leaf
            if waiting and waiting[-1] is _MINUS and leaf.op is ops.CONST:
                waiting.pop()  # a sign before a number is part of it
                leaf = number(-leaf.arg)
            values.append(leaf)
            expects_value = False
            continue
        operator = _OPERATORS.get(word)
        if operator is not None:
            binding = operator[0]
            if binding == COMPARISON and waiting and _has_comparison(waiting):
                return None  # a chain
            while waiting and waiting[-1][0] >= binding:
                if not _complete(values, waiting.pop()[1], make):
                    return None
            waiting.append(operator)
            expects_value = True
        elif word == ")":
            while waiting and waiting[-1][0]:
                if not _complete(values, waiting.pop()[1], make):
                    return None
            if not waiting or waiting.pop() is not _OPEN:
                return None
        elif word == "if" or word == "else":
            while waiting and waiting[-1][0] > CHOICE:
                if not _complete(values, waiting.pop()[1], make):
                    return None
            if word == "if":
                if waiting and waiting[-1] is _IF:
                    return None
                waiting.append(_IF)
            elif waiting and waiting[-1] is _IF:
                waiting[-1] = _ELSE
            else:
                return None
            expects_value = True
        else:
            return None
    if expects_value:
        return None
    while waiting:
        binding, op = waiting.pop()
        if not binding or not _complete(values, op, make):
            return None
    return values[0]


def _number(word: str) -> UOp | None:
    if not word.isascii() or not word.isdigit() or len(word) > _DIGITS:
        return None
    return number(int(word)) if word[0] != "0" or len(word) == 1 else None


def _has_comparison(waiting: list[Waiting]) -> bool:
    """Whether the comparison that comes next belongs to one that waits."""
    for binding, _ in reversed(waiting):
        if binding <= COMPARISON:
            return binding == COMPARISON
    return False


def _complete(values: list[UOp], op: Op | None, make: Make) -> bool:
    """Put together what waited; says whether it fits together."""
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
