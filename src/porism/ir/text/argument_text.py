"""Arguments: the `arg` of a node as text, the same in every process, and back.

An argument is None, a bool, int, float or string, an op, a dtype, a kind of axis, an address space,
or a tuple of these. Floats print exactly; a NaN has a sign, and nothing else tells it from others.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from porism.base import dtypes
from porism.base.dtypes import DType, Space
from porism.base.errors import ParseError, TypeMismatch
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.ops import Op

DEEPEST: Final = 32
"""Tuples in tuples stay below this depth, so that walking them needs little of Python's stack."""

DECIMAL_BITS: Final = 2048
"""An int with more bits is written in hexadecimal: Python may be set to refuse 641 digits."""


def to_text(arg: Any, depth: int = 0) -> str:
    """Return the canonical text of an argument.

    >>> to_text((1, True, -0.0, "x", Axis.LOOP))
    '(1, true, -0.0, "x", axis.loop)'
    """
    kind = type(arg)
    if kind is bool:
        return "true" if arg else "false"
    if kind is int:
        return int_to_text(arg)
    if kind is float:
        if math.isnan(arg):
            return nan_to_text(arg)
        return ("inf" if arg > 0 else "-inf") if math.isinf(arg) else repr(arg)
    if kind is str:
        return _string_to_text(arg)
    if kind is tuple:
        if depth >= DEEPEST:
            raise TypeMismatch("an argument is nested too deeply", why=f"{DEEPEST} tuples at most")
        inner = ", ".join([to_text(a, depth + 1) for a in arg])
        return f"({inner},)" if len(arg) == 1 else f"({inner})"
    if kind is Op:
        return f"op.{arg.name}"
    if kind is DType:
        return f"dtype.{arg.name}"
    if kind is Axis:
        return f"axis.{arg.value}"
    if kind is Space:
        return f"space.{arg.value}"
    if arg is None:
        return "none"
    raise TypeMismatch(
        f"{arg!r} cannot be the argument of a node",
        why="arguments are numbers, strings, ops, dtypes, axes, spaces and tuples of these",
    )


def nan_to_text(value: float) -> str:
    """Return a NaN with its sign as text.

    >>> nan_to_text(math.nan), nan_to_text(-math.nan)
    ('nan', '-nan')
    """
    return "nan" if math.copysign(1.0, value) > 0 else "-nan"


def int_to_text(value: int) -> str:
    """Return decimal text, or hexadecimal where Python may refuse to print so many digits."""
    return str(value) if value.bit_length() < DECIMAL_BITS else hex(value)


def _string_to_text(value: str) -> str:
    if not value.isascii() and _SURROGATE.search(value):
        raise TypeMismatch(
            f"{value!r} cannot be the argument of a node",
            why="it holds half of a surrogate pair, which is no character",
        )
    return json.dumps(value)


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def key(arg: Any) -> Any:
    """Return a hashable key of an argument that tells 0.0 from -0.0, and 1 from 1.0 and True.

    Classes mark the types: they cannot be part of an argument.
    """
    kind = type(arg)
    if kind is float:
        return (float, nan_to_text(arg) if arg != arg else arg.hex())
    if kind is bool:
        return (bool, arg)
    if kind is tuple and not _MARKED.isdisjoint(map(type, arg)):
        return tuple([key(a) for a in arg])
    return arg


_MARKED: Final = frozenset({float, bool, tuple})


# -- reading ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """The largest text that is read: far above any graph, far below the memory of a machine."""

    characters: int = 1 << 29
    nodes: int = 10_000_000
    digits: int = 1 << 20  # of a hexadecimal int; decimal ones have at most DECIMAL_DIGITS


DECIMAL_DIGITS: Final = 640
LONGEST_NAME: Final = 100

_NUMBER: Final = re.compile(r"-?(?:0[xX](?P<hex>[0-9a-fA-F]+)|(?P<whole>[0-9]+)(?P<rest>[.eE])?)")
_FLOAT: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DTYPE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\*[A-Za-z]+(?:\[[0-9]+\])?)?")
_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f]+')
_ESCAPE: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')

_WORDS: Final[dict[str, Any]] = {
    "none": None,
    "true": True,
    "false": False,
    "nan": math.nan,
    "inf": math.inf,
}


class Reader:
    """A text and an offset in it, with methods that read on from there or raise a `ParseError`."""

    __slots__ = ("at", "limits", "text")

    def __init__(self, text: str, at: int = 0, limits: Limits | None = None) -> None:
        self.text = text
        self.at = at
        self.limits = Limits() if limits is None else limits

    def fail(
        self, what: str, *, at: int | None = None, why: str | None = None, fix: str | None = None
    ) -> NoReturn:
        offset = self.at if at is None else at
        raise ParseError(what, text=self.text, offset=offset, why=why, fix=fix) from None

    def skip(self) -> str:
        """Skip blanks; return the character after them, or "" at the end of the line."""
        text, at = self.text, self.at
        following = text[at : at + 1]
        while following and following in " \t\r":
            at += 1
            following = text[at : at + 1]
        self.at = at
        return "" if following == "\n" else following

    def expect(self, wanted: str, why: str) -> None:
        if self.skip() != wanted:
            self.fail(f"expected {wanted!r}, found {self.next_thing()}", why=why)
        self.at += 1

    def next_thing(self) -> str:
        """Return the next character in words, for a message."""
        character = self.text[self.at : self.at + 1]
        if character in ("", "\n"):
            return "the end of the line" if character else "the end of the text"
        return ascii(character)

    def name(self, pattern: re.Pattern[str], what: str, fix: str | None = None) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            self.fail(f"expected {what}, found {self.next_thing()}", fix=fix)
        if match.end() - self.at > LONGEST_NAME:
            self.fail(f"{what} of more than {LONGEST_NAME} characters", why="no name is so long")
        self.at = match.end()
        return match[0]

    def word(self, what: str, fix: str | None = None) -> str:
        return self.name(_WORD, what, fix)

    def dtype(self) -> DType:
        start = self.at
        name = self.name(_DTYPE, "a dtype", "the dtype follows the op: %2 = ADD index %0 %1")
        try:
            return dtypes.dtype(name)
        except TypeMismatch as error:
            self.fail(error.what, at=start, why=error.why, fix=error.fix)

    def op(self) -> Op:
        start = self.at
        name = self.word("the name of an op")
        try:
            return ops.op(name)
        except TypeMismatch as error:
            self.fail(error.what, at=start, why=error.why, fix=error.fix)

    def number(self) -> int | float:
        """Read a decimal or hexadecimal int, or a float."""
        start = self.at
        if self.text.startswith(("-inf", "-nan"), start):
            self.at += 4
            return -math.inf if self.text[start + 1] == "i" else -math.nan
        match = _NUMBER.match(self.text, start)
        if match is None:
            self.fail(f"expected a number, found {self.next_thing()}")
        if match["hex"] is not None:
            if len(match["hex"]) > self.limits.digits:
                self.fail(f"a number of {len(match['hex'])} digits", why=self._too_long())
            self.at = match.end()
            return int(match[0], 16)
        if match["rest"] is None:
            if len(match["whole"]) > DECIMAL_DIGITS:
                self.fail(
                    f"a decimal number of {len(match['whole'])} digits",
                    why=f"decimal numbers have at most {DECIMAL_DIGITS} digits",
                    fix="write it in hexadecimal, 0x…",
                )
            self.at = match.end()
            return int(match[0])
        return self._float(start)

    def _float(self, start: int) -> float:
        match = _FLOAT.match(self.text, start)
        assert match is not None
        if match.end() - start > DECIMAL_DIGITS:
            self.fail("a float of too many digits", why=f"it has at most {DECIMAL_DIGITS}")
        value = float(match[0])
        if math.isinf(value):
            self.fail(f"the number {match[0]} is too large", why="no float holds it", fix="inf")
        self.at = match.end()
        return value

    def _too_long(self) -> str:
        return f"this reader takes at most {self.limits.digits}"

    def string(self) -> str:
        """Read a string in quotes, with the escapes of JSON."""
        start = self.at
        self.at += 1
        while True:
            match = _PLAIN.match(self.text, self.at)
            if match is not None:
                self.at = match.end()
            character = self.text[self.at : self.at + 1]
            if character == '"':
                self.at += 1
                value: str = json.loads(self.text[start : self.at])
                if _SURROGATE.search(value):
                    self.fail("a string with half of a surrogate pair", at=start)
                return value
            if character != "\\":
                self.fail(
                    f"the string is not closed: {self.next_thing()} in it",
                    why="a string ends with a quote, on its own line",
                    fix='write control characters as escapes, such as "\\n"',
                )
            match = _ESCAPE.match(self.text, self.at)
            if match is None:
                self.fail(
                    "an unknown escape in a string",
                    why='the escapes are \\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with four digits',
                )
            self.at = match.end()

    def argument(self, depth: int = 0) -> Any:
        """Read an argument, as `to_text` writes it."""
        character = self.skip()
        if character == "(":
            return self._tuple(depth)
        if character == '"':
            return self.string()
        if character.isascii() and (character.isdigit() or character == "-"):
            return self.number()
        start = self.at
        word = self.word("an argument", 'such as 4, -0.5, true, none, "name", axis.loop, (1, 2)')
        if self.text[self.at : self.at + 1] != ".":
            if word not in _WORDS:
                self.fail(f"unknown word {word!r}", at=start, fix="one of " + ", ".join(_WORDS))
            return _WORDS[word]
        self.at += 1
        return self._member(word, start)

    def _member(self, kind: str, start: int) -> Any:
        """Read what follows `op.`, `dtype.`, `axis.` or `space.`."""
        if kind == "op":
            return self.op()
        if kind == "dtype":
            return self.dtype()
        enum = {"axis": Axis, "space": Space}.get(kind)
        if enum is None:
            self.fail(f"unknown kind {kind!r}", at=start, fix="one of op, dtype, axis, space")
        start = self.at
        value = self.word(f"the name of a kind of {kind}")
        names = [member.value for member in enum]
        if value not in names:
            self.fail(f"there is no {kind} {value!r}", at=start, fix="one of " + ", ".join(names))
        return enum(value)

    def _tuple(self, depth: int) -> tuple[Any, ...]:
        if depth >= DEEPEST:
            self.fail("an argument is nested too deeply", why=f"{DEEPEST} tuples at most")
        self.at += 1
        parts: list[Any] = []
        while self.skip() != ")":
            parts.append(self.argument(depth + 1))
            if self.skip() == ",":
                self.at += 1
            elif self.skip() != ")" or len(parts) == 1:
                # one part without a comma is not a tuple: `(4,)` is
                self.expect(",", "the parts of a tuple are separated by commas")
        self.at += 1
        return tuple(parts)
