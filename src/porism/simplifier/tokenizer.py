"""Tokenizer: the names, numbers and symbols of an expression in Python syntax, with offsets.

The text may be untrusted. It is never executed, and `Limits` bound the cost of parsing it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn

from porism.base.errors import ParseError


@dataclass(frozen=True, slots=True)
class Limits:
    """How large an expression may be; chosen by hand, far above what people write."""

    characters: int = 1_000_000
    nodes: int = 200_000
    depth: int = 1_000
    """Nested parentheses, signs and choices."""
    digits: int = 10_000
    """Digits of one number."""
    name: int = 100
    """Characters of one name."""


LIMITS: Final = Limits()

KEYWORDS: Final = frozenset(
    {"and", "or", "not", "if", "else", "True", "False", "min", "max", "int"}
)
"""Words that cannot be names of variables."""


class Token(NamedTuple):
    """A name, a number or a symbol."""

    kind: str
    """One of number, name, symbol and end."""
    text: str
    at: int
    """The offset in the text, in characters."""


_PIECES: Final = re.compile(
    r"(?P<blank>\s+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<number>[0-9][0-9A-Za-z_]*(?:\.[0-9A-Za-z_]*)?)"
    r"|(?P<symbol><<|>>|<=|>=|==|!=|//|[-+*%<>()&|^~,])"
)
_WHOLE: Final = re.compile(
    r"(?P<decimal>[1-9](?:_?[0-9])*|0(?:_?0)*)"
    r"|0[xX](?P<hexadecimal>(?:_?[0-9a-fA-F])+)"
    r"|0[oO](?P<octal>(?:_?[0-7])+)"
    r"|0[bB](?P<binary>(?:_?[01])+)"
)
_BASES: Final = {"decimal": 10, "hexadecimal": 16, "octal": 8, "binary": 2}

_HINTS: Final = {
    "=": "write == to compare",
    "/": "write // for the quotient, rounded down",
    "!": "write 'not', or != to compare",
    "?": "write 'a if condition else b'",
    ":": "write 'a if condition else b'",
    "[": "use round parentheses",
    "{": "use round parentheses",
    ".": "only whole numbers are allowed",
    "#": "leave comments out",
}
"""Advice for characters of other languages, by character."""


def fail(text: str, at: int, what: str, why: str | None = None, fix: str | None = None) -> NoReturn:
    """Raise the error for a mistake at an offset of the text."""
    raise ParseError(what, text=text, offset=at, why=why, fix=fix)


def tokens(text: str, limits: Limits = LIMITS) -> Iterator[Token]:
    """Yield the tokens of a text, then one that marks its end.

    >>> [token.text for token in tokens("(r*8 + v) % 0x10")]
    ['(', 'r', '*', '8', '+', 'v', ')', '%', '0x10', '']
    """
    if len(text) > limits.characters:
        fail(
            text,
            limits.characters,
            f"an expression of {len(text)} characters",
            why=f"it may have at most {limits.characters}",
            fix="simplify its parts one by one",
        )
    at = 0
    match = _PIECES.match
    while at < len(text):
        piece = match(text, at)
        if piece is None:
            _unknown_character(text, at)
        if piece.lastgroup != "blank":
            yield Token(piece.lastgroup or "", piece[0], at)
        at = piece.end()
    yield Token("end", "", at)


def _unknown_character(text: str, at: int) -> NoReturn:
    """Raise the error for a character that begins no token."""
    character = text[at]
    hint = _HINTS.get(character)
    if character.isidentifier():
        hint = "names have only the letters A to Z, a to z, digits and underscores"
    fail(text, at, f"the character {character!r} has no place in an expression", fix=hint)


def whole_number(text: str, token: Token, limits: Limits = LIMITS) -> int:
    """Return the value of a token that is a number."""
    match = _WHOLE.fullmatch(token.text)
    if match is None or match.lastgroup is None:
        _no_number(text, token)
    digits = match[match.lastgroup].replace("_", "")
    if len(digits) > limits.digits:
        fail(
            text,
            token.at,
            f"a number of {len(digits)} digits",
            why=f"a number may have at most {limits.digits}",
        )
    base = _BASES[match.lastgroup]
    return _decimal(digits) if base == 10 else int(digits, base)


def _no_number(text: str, token: Token) -> NoReturn:
    """Raise the error for a token that begins like a number and is none."""
    shown = token.text if len(token.text) <= 20 else token.text[:19] + "…"
    fix = "write it in digits, such as 12, 1_000 or 0x1f"
    why = None
    if "." in shown or re.fullmatch(r"[0-9]+[eE][0-9]*", shown):
        why = "only whole numbers are allowed"
    elif re.fullmatch(r"0[0-9_]+", shown):
        why = "a number does not begin with 0"
    elif re.fullmatch(r"[0-9]+[A-Za-z]\w*", shown):
        why = "a name does not begin with a digit, and a product needs its *"
    fail(text, token.at, f"{shown!r} is no number", why=why, fix=fix)


_MOST_DIGITS_OF_INT: Final = 600
"""Digits that `int` converts at a time; Python may be set to refuse more than 640."""


def _decimal(digits: str) -> int:
    """Return the value of any number of decimal digits, converted in halves."""
    if len(digits) <= _MOST_DIGITS_OF_INT:
        return int(digits)
    half = len(digits) // 2
    scale: int = 10 ** (len(digits) - half)
    return _decimal(digits[:half]) * scale + _decimal(digits[half:])
