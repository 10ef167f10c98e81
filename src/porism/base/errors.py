"""Errors a user can cause: each says what happened, where, why it is not allowed, how to fix it.

A mistake of the user raises a subclass of `PorismError`; where Python has a class for the mistake,
it is of that class too: a `ShapeError` is a `ValueError`, a `TypeMismatch` a `TypeError`. A mistake
of the compiler itself is an `assert` and never a class of this module.

>>> raise ShapeError(
...     "cannot add tensors of shapes (2, 3) and (4, 3)",
...     where="model.py, line 12",
...     why="the first dimensions differ (2 and 4) and neither is 1",
...     fix="reshape or expand one of them first",
... )
Traceback (most recent call last):
    ...
porism.base.errors.ShapeError: cannot add tensors of shapes (2, 3) and (4, 3)
  where: model.py, line 12
  why: the first dimensions differ (2 and 4) and neither is 1
  fix: reshape or expand one of them first
"""

from __future__ import annotations

from typing import Any, Final

LONGEST_PART: Final = 2000
"""A part of a message is cut to this many characters."""

MOST_LINES: Final = 40
"""A part of a message is cut to this many lines."""

WIDEST_EXCERPT: Final = 76
"""A `ParseError` shows this many columns of the line it is about."""


def shorten(text: str) -> str:
    """Return a part of a message, cut to `LONGEST_PART` characters and `MOST_LINES` lines.

    >>> shorten("short")
    'short'
    >>> shorten("x" * 5000)[-30:]
    'xxxxx … (3000 characters more)'
    """
    lines = text[: LONGEST_PART + 1].split("\n", MOST_LINES)
    kept = "\n".join(lines[:MOST_LINES])[:LONGEST_PART]
    left = len(text) - len(kept)
    return f"{kept} … ({left} characters more)" if left else text


def _unpickle(
    cls: type[PorismError], args: tuple[object, ...], state: dict[str, Any]
) -> PorismError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


class PorismError(Exception):
    """The base class of all errors for users; the four parts are attributes."""

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        why: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.what = shorten(what)
        self.where = None if where is None else shorten(where)
        self.why = None if why is None else shorten(why)
        self.fix = None if fix is None else shorten(fix)
        super().__init__(self.what)

    def __str__(self) -> str:
        lines = [self.what]
        for label, part in (("where", self.where), ("why", self.why), ("fix", self.fix)):
            if part is not None:
                lines.append(f"  {label}: " + part.replace("\n", "\n    "))
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with positional arguments, which it does not take.
        return _unpickle, (type(self), self.args, self.__dict__)


class TypeMismatch(PorismError, TypeError):  # noqa: N818 - the name says it all
    """Operands of incompatible dtypes, or a dtype that an operation does not accept."""


class ShapeError(PorismError, ValueError):
    """Incompatible shapes, or an axis that a tensor does not have."""


class LevelError(PorismError):
    """A graph holds an op, or breaks an invariant, that its level forbids."""


class RuleError(PorismError):
    """A rule or procedure that is not well formed."""


class ProofError(PorismError):
    """A rule that is false, that introduces undefinedness, or that could not be decided."""


class RewriteError(PorismError):
    """A rewrite that goes in circles or grows without end."""


class EvaluationError(PorismError):
    """A program with undefined behaviour: out of bounds, uninitialized memory, a race."""


class SettingsError(PorismError):
    """An environment variable or an override with a value that is not allowed."""


class TargetError(PorismError):
    """A description of a machine that cannot exist."""


class ActionError(PorismError):
    """A transformation of a kernel's loops that is not legal."""


class VerifyError(PorismError):
    """A miscompilation that verify mode has detected: see docs/verify.md."""


class ParseError(PorismError):
    """Text that is not in the grammar; points at the column where reading stopped.

    >>> raise ParseError("expected a closing ')'", text="a = add(b,\\nc = mul(d", offset=21)
    Traceback (most recent call last):
        ...
    porism.base.errors.ParseError: expected a closing ')'
      where: line 2, column 10
        c = mul(d
                 ^
    """

    def __init__(
        self,
        what: str,
        *,
        text: str,
        offset: int,
        why: str | None = None,
        fix: str | None = None,
    ) -> None:
        offset = max(0, min(offset, len(text)))
        start = text.rfind("\n", 0, offset) + 1
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - start + 1
        super().__init__(
            what,
            where=f"line {self.line}, column {self.column}\n{_excerpt(text, start, offset)}",
            why=why,
            fix=fix,
        )


def _excerpt(text: str, start: int, offset: int) -> str:
    """Return the line from `start` on, cut around `offset`, with a caret below that character."""
    newline = text.find("\n", offset)
    end = len(text) if newline < 0 else newline
    first = max(start, offset - WIDEST_EXCERPT // 2)
    last = min(end, first + WIDEST_EXCERPT)
    before, after = "… " * (first > start), " …" * (last < end)
    shown = "".join(c if c.isprintable() else " " for c in text[first:last])
    return f"{before}{shown}{after}".rstrip() + "\n" + " " * (len(before) + offset - first) + "^"
