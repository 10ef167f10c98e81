"""Parser: an expression in Python syntax as a graph, without any simplification.

    choice      a if c else b           lowest
    conditions  a or b, a and b, not a
    comparison  a < b <= c  == !=       a chain is the conjunction of its pairs
    bits        a | b, a ^ b, a & b
    shifts      a << b, a >> b
    arithmetic  a + b - c, a * b // c % d
    signs       -a, +a, ~a
    the rest    names, 12, 1_000, 0x1f, True, False, (a), min(a, b, …), max(a, b, …), int(a)

Values are integers or conditions: `&`, `|` and `^` work on two of a kind, `==` and `!=` too.
On conditions `&` is `and`, `|` is `or`, `^` and `!=` are one operation, and `a == b` is
`not a != b`. A condition is a number only in `int(c)` and as a factor, `c * x`; then it is
`1 if c else 0`. This is an operator-precedence parser without recursion, so nesting costs no stack.
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
PRECEDENCE: Final = {
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
"""The precedence of each binary operator; a higher one binds more tightly."""

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
"""The function that turns a condition into a number."""

LARGEST_SHIFT: Final = 4096
"""The largest shift to the left, in bits, that is accepted; more would only fill the memory."""

_BOOL: Final = dtypes.boolean


@dataclass(slots=True)
class Pending:
    """An operator, a parenthesis, a call or a choice whose right side is not parsed yet."""

    symbol: str
    precedence: int
    at: int
    """The offset in the text."""
    values: list[UOp] = field(default_factory=list)
    """The operands so far: of an operator, a chain, a call or a choice."""
    chain: list[Token] = field(default_factory=list)
    """The operators of a chain of comparisons."""


NESTING: Final = ("(", "min", "max", NUMBER, "neg", "~", "pos", "not", "if", "else")
"""The symbols that count as a level of nesting."""
_OPEN: Final = 0
"""The precedence of what ends only at its closing symbol."""


def parse(text: str, variables: Mapping[str, UOp], limits: Limits = LIMITS) -> UOp:
    """Return the graph of an expression over known variables.

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
    """Return the names of variables in a text, each once, in order of appearance."""
    names = (token.text for token in tokens(text, limits) if token.kind == "name")
    return list(dict.fromkeys(name for name in names if name not in KEYWORDS))


class Parser:
    """The parsing of one text: a stack of complete values, and one of pending operators."""

    calls: frozenset[str] = frozenset({*CALLS, NUMBER})
    """The names that take arguments in parentheses."""

    def __init__(self, text: str, variables: Mapping[str, UOp], limits: Limits) -> None:
        self.text = text
        self.variables = variables
        self.limits = limits
        self.values: list[UOp] = []
        self.pending: list[Pending] = []
        self.nesting = 0
        self.count = 0

    def run(self) -> UOp:
        """Return the graph of the whole text."""
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
        """Raise the error for a mistake at an offset of the text."""
        fail(self.text, at, what, why, fix)

    # -- where a value is expected -----------------------------------------------------------------

    def value(self, token: Token) -> bool:
        """Parse a token where a value begins; return whether a value is still expected."""
        if token.kind == "number":
            self.number(token)
        elif token.text == "(":
            self.push_pending(Pending("(", _OPEN, token.at))
            return True
        elif token.text in ("-", "+", "~"):
            symbol = {"-": "neg", "+": "pos"}.get(token.text, token.text)
            self.push_pending(Pending(symbol, PREFIX, token.at))
            return True
        elif token.text == "not":
            if self.pending and self.pending[-1].precedence > NOT:
                self.fail(token.at, "'not' needs parentheses here", fix="write (not …)")
            self.push_pending(Pending("not", NOT, token.at))
            return True
        elif token.text in ("True", "False"):
            self.push(raw(ops.CONST, _BOOL, (), token.text == "True"), token.at)
        elif token.kind == "name" and token.text not in KEYWORDS:
            self.push(self.variable(token), token.at)
        else:
            self.fail_misplaced(token)
        return False

    def number(self, token: Token) -> None:
        """Push a number; a sign before it is part of it."""
        number = whole_number(self.text, token, self.limits)
        if self.pending and self.pending[-1].symbol == "neg":
            self.pending.pop()
            self.nesting -= 1
            number = -number
        self.push(raw(ops.CONST, dtypes.index, (), number), token.at)

    def fail_misplaced(self, token: Token) -> NoReturn:
        """Raise the error for a token that begins no value."""
        before = self.pending[-1] if self.pending else None
        fix = None
        if token.text == ")" and before is not None and before.symbol == "(":
            fix = "put a value between the parentheses"
        elif token.text == "*" and self.text[token.at - 1 : token.at] == "*":
            fix = "write a power as a product"
        elif token.text in ("&", "|"):
            fix = "write 'and' or 'or'"
        self.fail(token.at, f"expected a value, found {token.text!r}", fix=fix)

    def variable(self, token: Token) -> UOp:
        """Return the variable of a name; an unknown name is an error."""
        name = token.text
        variable = self.variables.get(name)
        if variable is not None:
            return variable
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
        """Push a call, which is followed by its parenthesis."""
        if following.text != "(":
            self.fail(
                following.at, f"expected '(' after {token.text}", fix=f"write {token.text}(…)"
            )
        self.push_pending(Pending(token.text, _OPEN, token.at))

    # -- where an operator is expected -------------------------------------------------------------

    def operator(self, token: Token) -> bool:
        """Parse a token after a value; return whether a value is expected next."""
        symbol = token.text
        if symbol in COMPARISONS:
            self.comparison(token)
        elif symbol in PRECEDENCE:
            precedence = PRECEDENCE[symbol]
            self.reduce(precedence - 1)
            self.pending.append(Pending(symbol, precedence, token.at, [self.values.pop()]))
        elif symbol == "if":
            self.reduce(CHOICE)
            if self.pending and self.pending[-1].symbol == "if":
                self.fail(token.at, "a choice as a condition needs parentheses")
            self.push_pending(Pending("if", _OPEN, token.at, [self.values.pop()]))
        elif symbol == "else":
            self.reduce(CHOICE)
            top = self.pending[-1] if self.pending else None
            if top is None or top.symbol != "if":
                self.fail(token.at, "an 'else' without its 'if'", fix="write 'a if c else b'")
            top.symbol, top.precedence = "else", CHOICE
            top.values.append(self.check_condition(self.values.pop(), top.at, "'if'"))
        elif symbol == ")":
            self.close(token)
            return False
        elif symbol == ",":
            self.reduce(_OPEN)
            if not self.pending or self.pending[-1].symbol not in self.calls:
                self.fail(token.at, "a comma outside of min( ) and max( )")
            self.pending[-1].values.append(self.values.pop())
        else:
            self.fail_no_operator(token)
        return True

    def fail_no_operator(self, token: Token) -> NoReturn:
        """Raise the error for a token that is no operator."""
        fix = "write the operator between two values, such as a * b"
        if token.text == "~":
            fix = "write != to compare, or ^ for the bits in which two numbers differ"
        self.fail(token.at, f"expected an operator, found {_quoted(token)}", fix=fix)

    def comparison(self, token: Token) -> None:
        """Push a comparison, or add it to the chain that it continues."""
        self.reduce(COMPARISON)
        top = self.pending[-1] if self.pending else None
        if top is None or not top.chain:
            top = Pending("<", COMPARISON, token.at)
            self.pending.append(top)
        top.values.append(self.values.pop())
        top.chain.append(token)

    def close(self, token: Token) -> None:
        """Reduce up to the parenthesis that a token closes."""
        self.reduce(_OPEN)
        if not self.pending:
            self.fail(token.at, "a ')' without its '('")
        top = self.pending[-1]
        if top.symbol == "if":
            self.fail(token.at, "expected 'else'", fix="write 'a if c else b'")
        self.pending.pop()
        self.nesting -= 1
        if top.symbol in self.calls:
            self.values.append(self.call_result(top, [*top.values, self.values.pop()], token.at))

    def call_result(self, top: Pending, values: list[UOp], at: int) -> UOp:
        """Return the result of a call; `at` is the offset of its closing parenthesis."""
        if top.symbol == NUMBER:
            if len(values) > 1:
                self.fail(at, "int takes one value")
            return _as_number(values[0])
        if len(values) < 2:
            self.fail(at, f"{top.symbol} takes two values or more")
        for value in values:
            self.check_number(value, top.at, f"{top.symbol}( )")
        result = values[0]
        for value in values[1:]:
            result = _make(CALLS[top.symbol], (result, value))
        return result

    def end(self, token: Token, expects_value: bool) -> None:
        """Reduce all that is pending at the end of the text."""
        if expects_value:
            if not self.pending:
                self.fail(token.at, "there is no expression", fix="write one, such as (r*8 + v)%7")
            self.fail(token.at, "expected a value, found the end of the text")
        self.reduce(_OPEN)
        if self.pending:
            top = self.pending[-1]
            if top.symbol == "if":
                self.fail(token.at, "expected 'else'", fix="write 'a if c else b'")
            self.fail(top.at, f"this {top.symbol!r} is never closed", fix="add a ')'")

    # -- reducing ----------------------------------------------------------------------------------

    def push_pending(self, pending: Pending) -> None:
        """Push something that nests, within the limit of nesting."""
        self.nesting += 1
        if self.nesting > self.limits.depth:
            self.fail(
                pending.at,
                f"the expression nests more than {self.limits.depth} deep",
                why="parentheses, signs and choices inside one another are limited",
                fix="simplify its parts one by one",
            )
        self.pending.append(pending)

    def push(self, node: UOp, at: int) -> None:
        """Push a complete value, within the limit of nodes."""
        self.count += 1
        if self.count > self.limits.nodes:
            self.fail(
                at,
                f"the expression has more than {self.limits.nodes} parts",
                why="that is as many as this parser takes",
                fix="simplify its parts one by one",
            )
        self.values.append(node)

    def reduce(self, precedence: int) -> None:
        """Combine all pending operators of a higher precedence with their operands."""
        pending = self.pending
        while pending and pending[-1].precedence > precedence:
            top = pending.pop()
            if top.symbol in NESTING:
                self.nesting -= 1
            self.push(self.combine(top, self.values.pop()), top.at)

    def combine(self, top: Pending, last: UOp) -> UOp:
        """Return the value of a pending operator and its last operand."""
        symbol, at = top.symbol, top.at
        if top.chain:
            return self.conjunction_of_pairs(top, [*top.values, last])
        if symbol == "else":
            return self.choice(top.values[0], top.values[1], last, at)
        if symbol == "not":
            return _make(ops.NOT, (self.check_condition(last, at, "'not'"),))
        if symbol in ("neg", "pos", "~"):
            shown = {"neg": "'-'", "pos": "'+'"}.get(symbol, "'~'")
            fix = "write 'not'" if symbol == "~" else None
            self.check_number(last, at, shown, fix=fix)
            if symbol == "pos":
                return last
            return _make(ops.NEG if symbol == "neg" else ops.NOT, (last,))
        first = top.values[0]
        if symbol in LOGIC:
            for value in (first, last):
                self.check_condition(value, at, repr(symbol))
            return _make(LOGIC[symbol], (first, last))
        if symbol in BITS:
            self.check_same_kind(first, last, at, symbol)
            return _make(BITS[symbol], (first, last))
        if symbol == "*":
            first, last = _as_number(first), _as_number(last)
        for value in (first, last):
            self.check_number(value, at, repr(symbol))
        self.check_defined(symbol, last, at)
        return _make(ARITHMETIC[symbol], (first, last))

    def conjunction_of_pairs(self, top: Pending, values: list[UOp]) -> UOp:
        """Return a chain of comparisons as the conjunction of the comparisons of neighbours."""
        result: UOp | None = None
        for token, a, b in zip(top.chain, values[:-1], values[1:], strict=True):
            self.check_same_kind(a, b, token.at, token.text)
            if a.dtype is not _BOOL:
                pair = _make(COMPARISONS[token.text], (a, b))
            else:
                pair = self.compare_conditions(token, a, b)
            result = pair if result is None else _make(ops.AND, (result, pair))
        assert result is not None
        return result

    def compare_conditions(self, token: Token, a: UOp, b: UOp) -> UOp:
        """Return the comparison of two conditions, which is `==` or `!=`."""
        if token.text not in ("==", "!="):
            self.fail(
                token.at,
                f"{token.text!r} compares numbers, and these are conditions",
                fix="use 'and', 'or' and 'not'",
            )
        differ = _make(ops.XOR, (a, b))
        return differ if token.text == "!=" else _make(ops.NOT, (differ,))

    def choice(self, yes: UOp, condition: UOp, no: UOp, at: int) -> UOp:
        """Return `yes if condition else no`."""
        if yes.dtype is not no.dtype:
            self.fail(
                at,
                "a choice between a number and a condition",
                why=f"the first is {_kind(yes)}, the other is {_kind(no)}",
                fix="write int(condition) for a condition as a number",
            )
        return _make(ops.WHERE, (condition, yes, no))

    # -- checks ------------------------------------------------------------------------------------

    def check_number(self, value: UOp, at: int, what: str, fix: str | None = None) -> None:
        """Refuse a condition where a number is needed."""
        if value.dtype is _BOOL:
            self.fail(
                at,
                f"{what} takes numbers, and this is a condition",
                fix=fix or "write int(condition) for a condition as a number",
            )

    def check_condition(self, value: UOp, at: int, what: str) -> UOp:
        """Refuse a number where a condition is needed; return the condition."""
        if value.dtype is not _BOOL:
            self.fail(
                at,
                f"{what} takes a condition, and this is a number",
                fix="compare the number, such as x != 0",
            )
        return value

    def check_same_kind(self, a: UOp, b: UOp, at: int, symbol: str) -> None:
        """Refuse a number beside a condition."""
        if a.dtype is not b.dtype:
            self.fail(
                at,
                f"{symbol!r} takes two numbers or two conditions",
                why=f"the first is {_kind(a)}, the other is {_kind(b)}",
                fix="write int(condition) for a condition as a number",
            )

    def check_defined(self, symbol: str, last: UOp, at: int) -> None:
        """Refuse operations that are never defined, and shifts that would fill the memory."""
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
    """Return a node without rewriting."""
    return raw(op, None, src, None)


def _as_number(value: UOp) -> UOp:
    """Return a condition as 1 or 0, and a number as it is."""
    if value.dtype is not _BOOL:
        return value
    one, zero = (raw(ops.CONST, dtypes.index, (), number) for number in (1, 0))
    return _make(ops.WHERE, (value, one, zero))


def _kind(value: UOp) -> str:
    """Return what a value is, for messages."""
    return "a condition" if value.dtype is _BOOL else "a number"


def _quoted(token: Token) -> str:
    """Return the text of a token in quotes, cut if it is long."""
    return repr(token.text if len(token.text) <= 30 else token.text[:29] + "…")
