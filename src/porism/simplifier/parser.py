"""The parser: an expression in Python syntax as a graph, exactly as written.

    choice      a if c else b           lowest
    conditions  a or b, a and b, not a
    comparison  a < b <= c  == !=       a chain is the conjunction of its pairs
    bits        a | b, a ^ b, a & b
    shifts      a << b, a >> b
    arithmetic  a + b - c, a * b // c % d
    signs       -a, +a, ~a
    the rest    names, 12, 1_000, 0x1f, True, False, (a), min(a, b, …), max(a, b, …), int(a)

Values are whole numbers or conditions: `&`, `|` and `^` work on two of a kind, `==` and `!=` too.
On conditions `&` is `and`, `|` is `or`, `^` and `!=` are one operation, and `a == b` is
`not a != b`. A condition is a number only where that is said, `int(c)`, and as a factor: `c * x`;
then it is `1 if c else 0`. No part of this calls itself, so nesting costs no stack.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.ops import Op
from porism.simplifier.tokenizer import (
    KEYWORDS,
    LIMITS,
    Limits,
    Token,
    fail,
    tokens,
    whole_number,
)

CHOICE, OR, AND, NOT, COMPARISON, PREFIX = 1, 3, 4, 5, 6, 13
BINDING: Final = {
    "or": OR,
    "and": AND,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), COMPARISON),
    "|": 7,
    "^": 8,
    "&": 9,
    **dict.fromkeys(("<<", ">>"), 10),
    **dict.fromkeys(("+", "-"), 11),
    **dict.fromkeys(("*", "//", "%"), 12),
}
"""How tightly each operator on two values holds them together."""

ARITHMETIC: Final[dict[str, Op]] = {
    "+": ops.ADD,
    "-": ops.SUB,
    "*": ops.MUL,
    "//": ops.IDIV,
    "%": ops.MOD,
    "<<": ops.SHL,
    ">>": ops.SHR,
}
COMPARISONS: Final[dict[str, Op]] = {
    "<": ops.LT,
    "<=": ops.LE,
    ">": ops.GT,
    ">=": ops.GE,
    "==": ops.EQ,
    "!=": ops.NE,
}
LOGIC: Final[dict[str, Op]] = {"and": ops.AND, "or": ops.OR}
BITS: Final[dict[str, Op]] = {"&": ops.AND, "|": ops.OR, "^": ops.XOR}
CALLS: Final[dict[str, Op]] = {"min": ops.MIN, "max": ops.MAX}
NUMBER: Final = "int"
"""The call that makes a number of a condition."""

LARGEST_SHIFT: Final = 4096
"""A number shifted to the left by more would only fill the memory."""

_BOOL: Final = dtypes.boolean


@dataclass(slots=True)
class Waiting:
    """Something that began, and waits for what stands to its right."""

    symbol: str
    binding: int
    at: int
    values: list[UOp] = field(default_factory=list)
    """What it holds already: the operands of a chain, a call or a choice."""
    chain: list[Token] = field(default_factory=list)
    """The operators of a chain of comparisons."""


NESTING: Final = ("(", "min", "max", NUMBER, "neg", "~", "pos", "not", "if", "else")
_OPEN: Final = 0  # the binding of what only its own closing ends


def parse(text: str, variables: Mapping[str, UOp], limits: Limits = LIMITS) -> UOp:
    """The graph of an expression over known variables.

    >>> r, v = UOp.variable("r", 0, 3), UOp.variable("v", 0, 2)
    >>> parse("(r*8 + v) % 7", {"r": r, "v": v})
    UOp(MOD index (r * 8 + v) % 7)
    >>> parse("(r*8 + w) % 7", {"r": r, "v": v})
    Traceback (most recent call last):
        ...
    porism.base.errors.ParseError: there is no variable 'w'
      where: line 1, column 8
        (r*8 + w) % 7
               ^
      why: the bounds name r, v
      fix: give 'w' bounds, or did you mean 'v'?
    """
    return Parser(text, variables, limits).run()


def names_in(text: str, limits: Limits = LIMITS) -> list[str]:
    """The names of variables in a text, each once, in the order in which they appear."""
    found = (token for token in tokens(text, limits) if token.kind == "name")
    return list(dict.fromkeys(t.text for t in found if t.text not in KEYWORDS))


class Parser:
    """One reading of one text: what is complete lies in `values`, the rest waits."""

    calls: frozenset[str] = frozenset({*CALLS, NUMBER})
    """The names that take arguments in parentheses."""

    def __init__(self, text: str, variables: Mapping[str, UOp], limits: Limits) -> None:
        self.text = text
        self.variables = variables
        self.limits = limits
        self.values: list[UOp] = []
        self.waiting: list[Waiting] = []
        self.nesting = 0
        self.count = 0

    def run(self) -> UOp:
        stream = tokens(self.text, self.limits)
        expects_value = True
        for token in stream:
            if token.kind == "end":
                self.end(token, expects_value)
                break
            if expects_value:
                if token.text in self.calls:
                    self.call(token, next(stream))
                else:
                    expects_value = self.value(token)
            else:
                expects_value = self.operator(token)
        (result,) = self.values
        return result

    def fail(self, at: int, what: str, why: str | None = None, fix: str | None = None) -> NoReturn:
        fail(self.text, at, what, why, fix)

    # -- where a value is expected -----------------------------------------------------------------

    def value(self, token: Token) -> bool:
        """Take a token where a value begins; says whether one is still expected."""
        if token.kind == "number":
            self.number(token)
        elif token.text == "(":
            self.wait(Waiting("(", _OPEN, token.at))
            return True
        elif token.text in ("-", "+", "~"):
            symbol = {"-": "neg", "+": "pos"}.get(token.text, token.text)
            self.wait(Waiting(symbol, PREFIX, token.at))
            return True
        elif token.text == "not":
            if self.waiting and self.waiting[-1].binding > NOT:
                self.fail(token.at, "'not' needs parentheses here", fix="write (not …)")
            self.wait(Waiting("not", NOT, token.at))
            return True
        elif token.text in ("True", "False"):
            self.push(raw(ops.CONST, _BOOL, (), token.text == "True"), token.at)
        elif token.kind == "name" and token.text not in KEYWORDS:
            self.push(self.variable(token), token.at)
        else:
            self.misplaced(token)
        return False

    def number(self, token: Token) -> None:
        """A number; a sign before it is part of it."""
        number = whole_number(self.text, token, self.limits)
        if self.waiting and self.waiting[-1].symbol == "neg":
            self.waiting.pop()
            self.nesting -= 1
            number = -number
        self.push(raw(ops.CONST, dtypes.index, (), number), token.at)

    def misplaced(self, token: Token) -> NoReturn:
        before = self.waiting[-1] if self.waiting else None
        fix = None
        if token.text == ")" and before is not None and before.symbol == "(":
            fix = "put a value between the parentheses"
        elif token.text == "*" and self.text[token.at - 1 : token.at] == "*":
            fix = "write a power as a product"
        elif token.text in ("&", "|"):
            fix = "write 'and' or 'or'"
        self.fail(token.at, f"expected a value, found {token.text!r}", fix=fix)

    def variable(self, token: Token) -> UOp:
        name = token.text
        found = self.variables.get(name)
        if found is not None:
            return found
        known = list(self.variables)
        if len(name) > self.limits.name:
            self.fail(token.at, f"a name of {len(name)} characters", why="it may have at most 100")
        close = difflib.get_close_matches(name, known, 1, cutoff=0.0) if len(known) < 1000 else []
        shown = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        self.fail(
            token.at,
            f"there is no variable {name!r}",
            why=f"the bounds name {shown}" if known else "no bounds were given",
            fix=f"give {name!r} bounds" + (f", or did you mean {close[0]!r}?" if close else ""),
        )

    def call(self, token: Token, following: Token) -> None:
        if following.text != "(":
            self.fail(
                following.at, f"expected '(' after {token.text}", fix=f"write {token.text}(…)"
            )
        self.wait(Waiting(token.text, _OPEN, token.at))

    # -- where an operator is expected -------------------------------------------------------------

    def operator(self, token: Token) -> bool:
        """Take a token after a value; says whether a value is expected next."""
        symbol = token.text
        if symbol in COMPARISONS:
            self.comparison(token)
        elif symbol in BINDING:
            binding = BINDING[symbol]
            self.settle(binding - 1)
            self.waiting.append(Waiting(symbol, binding, token.at, [self.values.pop()]))
        elif symbol == "if":
            self.settle(CHOICE)
            if self.waiting and self.waiting[-1].symbol == "if":
                self.fail(token.at, "a choice as a condition needs parentheses")
            self.wait(Waiting("if", _OPEN, token.at, [self.values.pop()]))
        elif symbol == "else":
            self.settle(CHOICE)
            top = self.waiting[-1] if self.waiting else None
            if top is None or top.symbol != "if":
                self.fail(token.at, "an 'else' without its 'if'", fix="write 'a if c else b'")
            top.symbol, top.binding = "else", CHOICE
            top.values.append(self.condition(self.values.pop(), top.at, "'if'"))
        elif symbol == ")":
            self.close(token)
            return False
        elif symbol == ",":
            self.settle(_OPEN)
            if not self.waiting or self.waiting[-1].symbol not in self.calls:
                self.fail(token.at, "a comma outside of min( ) and max( )")
            self.waiting[-1].values.append(self.values.pop())
        else:
            self.no_operator(token)
        return True

    def no_operator(self, token: Token) -> NoReturn:
        fix = "write the operator between two values, such as a * b"
        if token.text == "~":
            fix = "write != to compare, or ^ for the bits in which two numbers differ"
        self.fail(token.at, f"expected an operator, found {_shown(token)}", fix=fix)

    def comparison(self, token: Token) -> None:
        self.settle(COMPARISON)
        top = self.waiting[-1] if self.waiting else None
        if top is None or not top.chain:
            top = Waiting("<", COMPARISON, token.at)
            self.waiting.append(top)
        top.values.append(self.values.pop())
        top.chain.append(token)

    def close(self, token: Token) -> None:
        self.settle(_OPEN)
        if not self.waiting:
            self.fail(token.at, "a ')' without its '('")
        top = self.waiting[-1]
        if top.symbol == "if":
            self.fail(token.at, "expected 'else'", fix="write 'a if c else b'")
        self.waiting.pop()
        self.nesting -= 1
        if top.symbol in self.calls:
            self.values.append(self.called(top, [*top.values, self.values.pop()], token.at))

    def called(self, top: Waiting, values: list[UOp], at: int) -> UOp:
        """What a call gives; `at` is the place of its closing parenthesis."""
        if top.symbol == NUMBER:
            if len(values) > 1:
                self.fail(at, "int takes one value")
            return _as_number(values[0])
        if len(values) < 2:
            self.fail(at, f"{top.symbol} takes two values or more")
        for value in values:
            self.numeric(value, top.at, f"{top.symbol}( )")
        result = values[0]
        for value in values[1:]:
            result = _make(CALLS[top.symbol], (result, value))
        return result

    def end(self, token: Token, expects_value: bool) -> None:
        if expects_value:
            if not self.waiting:
                self.fail(token.at, "there is no expression", fix="write one, such as (r*8 + v)%7")
            self.fail(token.at, "expected a value, found the end of the text")
        self.settle(_OPEN)
        if self.waiting:
            top = self.waiting[-1]
            if top.symbol == "if":
                self.fail(token.at, "expected 'else'", fix="write 'a if c else b'")
            self.fail(top.at, f"this {top.symbol!r} is never closed", fix="add a ')'")

    # -- putting together --------------------------------------------------------------------------

    def wait(self, began: Waiting) -> None:
        self.nesting += 1
        if self.nesting > self.limits.depth:
            self.fail(
                began.at,
                f"the expression nests more than {self.limits.depth} deep",
                why="parentheses, signs and choices inside one another are limited",
                fix="simplify its parts one by one",
            )
        self.waiting.append(began)

    def push(self, node: UOp, at: int) -> None:
        self.count += 1
        if self.count > self.limits.nodes:
            self.fail(
                at,
                f"the expression has more than {self.limits.nodes} parts",
                why="that is as many as this parser takes",
                fix="simplify its parts one by one",
            )
        self.values.append(node)

    def settle(self, binding: int) -> None:
        """Complete everything that holds its operands more tightly than this."""
        waiting = self.waiting
        while waiting and waiting[-1].binding > binding:
            top = waiting.pop()
            if top.symbol in NESTING:
                self.nesting -= 1
            self.push(self.completed(top, self.values.pop()), top.at)

    def completed(self, top: Waiting, last: UOp) -> UOp:
        symbol, at = top.symbol, top.at
        if top.chain:
            return self.chained(top, [*top.values, last])
        if symbol == "else":
            return self.choice(top.values[0], top.values[1], last, at)
        if symbol == "not":
            return _make(ops.NOT, (self.condition(last, at, "'not'"),))
        if symbol in ("neg", "pos", "~"):
            shown = {"neg": "'-'", "pos": "'+'"}.get(symbol, "'~'")
            fix = "write 'not'" if symbol == "~" else None
            self.numeric(last, at, shown, fix=fix)
            if symbol == "pos":
                return last
            return _make(ops.NEG if symbol == "neg" else ops.NOT, (last,))
        first = top.values[0]
        if symbol in LOGIC:
            for value in (first, last):
                self.condition(value, at, repr(symbol))
            return _make(LOGIC[symbol], (first, last))
        if symbol in BITS:
            self.alike(first, last, at, symbol)
            return _make(BITS[symbol], (first, last))
        if symbol == "*":
            first, last = _as_number(first), _as_number(last)
        for value in (first, last):
            self.numeric(value, at, repr(symbol))
        self.defined(symbol, last, at)
        return _make(ARITHMETIC[symbol], (first, last))

    def chained(self, top: Waiting, values: list[UOp]) -> UOp:
        """The conjunction of the comparisons of neighbours."""
        result: UOp | None = None
        for token, a, b in zip(top.chain, values[:-1], values[1:], strict=True):
            self.alike(a, b, token.at, token.text)
            if a.dtype is not _BOOL:
                pair = _make(COMPARISONS[token.text], (a, b))
            else:
                pair = self.of_conditions(token, a, b)
            result = pair if result is None else _make(ops.AND, (result, pair))
        assert result is not None
        return result

    def of_conditions(self, token: Token, a: UOp, b: UOp) -> UOp:
        if token.text not in ("==", "!="):
            self.fail(
                token.at,
                f"{token.text!r} compares numbers, and these are conditions",
                fix="use 'and', 'or' and 'not'",
            )
        differ = _make(ops.XOR, (a, b))
        return differ if token.text == "!=" else _make(ops.NOT, (differ,))

    def choice(self, yes: UOp, condition: UOp, no: UOp, at: int) -> UOp:
        if yes.dtype is not no.dtype:
            self.fail(
                at,
                "a choice between a number and a condition",
                why=f"the first is {_kind(yes)}, the other is {_kind(no)}",
                fix="write int(condition) for a condition as a number",
            )
        return _make(ops.WHERE, (condition, yes, no))

    # -- what does not go together -----------------------------------------------------------------

    def numeric(self, value: UOp, at: int, what: str, fix: str | None = None) -> None:
        if value.dtype is _BOOL:
            self.fail(
                at,
                f"{what} takes numbers, and this is a condition",
                fix=fix or "write int(condition) for a condition as a number",
            )

    def condition(self, value: UOp, at: int, what: str) -> UOp:
        if value.dtype is not _BOOL:
            self.fail(
                at,
                f"{what} takes a condition, and this is a number",
                fix="compare the number, such as x != 0",
            )
        return value

    def alike(self, a: UOp, b: UOp, at: int, symbol: str) -> None:
        if a.dtype is not b.dtype:
            self.fail(
                at,
                f"{symbol!r} takes two numbers or two conditions",
                why=f"the first is {_kind(a)}, the other is {_kind(b)}",
                fix="write int(condition) for a condition as a number",
            )

    def defined(self, symbol: str, last: UOp, at: int) -> None:
        """Refuse what has no value anywhere, and shifts that would fill the memory."""
        if symbol in ("//", "%") and last.vmin == 0 == last.vmax:
            self.fail(at, "division by zero", why="the divisor is always 0")
        if symbol in ("<<", ">>") and last.vmax < 0:
            self.fail(at, "a shift by a negative amount", why="the amount is always below 0")
        if symbol == "<<" and last.vmax > LARGEST_SHIFT:
            self.fail(
                at,
                "a shift to the left by too much",
                why=f"the amount may be more than {LARGEST_SHIFT}",
                fix="give the amount smaller bounds",
            )


def _make(op: Op, src: tuple[UOp, ...]) -> UOp:
    return raw(op, None, src, None)


def _as_number(value: UOp) -> UOp:
    """A condition as 1 or 0; a number as it is."""
    if value.dtype is not _BOOL:
        return value
    one, zero = (raw(ops.CONST, dtypes.index, (), number) for number in (1, 0))
    return _make(ops.WHERE, (value, one, zero))


def _kind(value: UOp) -> str:
    return "a condition" if value.dtype is _BOOL else "a number"


def _shown(token: Token) -> str:
    return repr(token.text if len(token.text) <= 30 else token.text[:29] + "…")
