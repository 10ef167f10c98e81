"""Subscripts: the text of an `einsum`, read into one label for each axis of each operand.

    text      term ("," term)* ["->" term]          blanks mean nothing
    term      letters, and at most one "..."

The axes under `...` get labels of their own, numbered from the last one, so that they line up as in
broadcasting. Without `->` the result has the axes of `...`, then the letters that occur once, in
the order of the alphabet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from porism.base.errors import ParseError
from porism.tensor.user_line import users_line

ELLIPSIS: Final = "..."
ARROW: Final = "->"


@dataclass(frozen=True)
class Axis:
    """A label, and where it stands in the text."""

    label: str
    offset: int


@dataclass(frozen=True)
class Term:
    """The labels of one operand."""

    axes: tuple[Axis, ...]
    start: int
    end: int

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(axis.label for axis in self.axes)


@dataclass(frozen=True)
class Subscripts:
    """What an `einsum` is asked to do."""

    inputs: tuple[Term, ...]
    output: tuple[str, ...]


def refuse(text: str, offset: int, what: str, *, why: str, fix: str) -> NoReturn:
    """Raise the error at a place of the text, which it shows below the user's line."""
    error = ParseError(what, text=text, offset=offset, why=why, fix=fix)
    line = users_line()
    if line is not None:
        error.where = f"{line}\n{error.where}"
    raise error


def read(text: str, ranks: Sequence[int]) -> Subscripts:
    """The labels of operands with so many axes.

    >>> [term.labels for term in read("ij,jk", (2, 2)).inputs], read("ij,jk", (2, 2)).output
    ([('i', 'j'), ('j', 'k')], ('i', 'k'))
    >>> read("...i->...", (3,)).inputs[0].labels
    ('...1', '...0', 'i')
    """
    left, arrow, _ = text.partition(ARROW)
    terms = _terms(text, left)
    if len(terms) != len(ranks):
        refuse(
            text,
            terms[-1].end if len(terms) < len(ranks) else terms[len(ranks)].start,
            f"einsum of {len(ranks)} operands with subscripts for {len(terms)}",
            why="each operand has a term of its own",
            fix="separate the terms with commas, and give one for each operand",
        )
    inputs = tuple(
        _numbered(text, k, term, rank)
        for k, (term, rank) in enumerate(zip(terms, ranks, strict=True))
    )
    if arrow:
        return Subscripts(inputs, _output(text, len(left) + len(ARROW), inputs))
    return Subscripts(inputs, _implied(inputs))


def _terms(text: str, left: str) -> list[Term]:
    terms: list[Term] = []
    start = 0
    for part in left.split(","):
        terms.append(_term(text, start, start + len(part)))
        start += len(part) + 1
    return terms


def _term(text: str, start: int, end: int) -> Term:
    axes: list[Axis] = []
    at = start
    while at < end:
        found = text[at]
        if text.startswith(ELLIPSIS, at):
            if any(axis.label == ELLIPSIS for axis in axes):
                refuse(
                    text,
                    at,
                    "a second '...' in one term",
                    why="'...' stands for all axes that have no letter, so there is one at most",
                    fix="give the other axes letters",
                )
            axes.append(Axis(ELLIPSIS, at))
            at += len(ELLIPSIS)
            continue
        if found.isascii() and found.isalpha():
            axes.append(Axis(found, at))
        elif not found.isspace():
            refuse(
                text,
                at,
                f"{found!r} in the subscripts of an einsum",
                why="an axis is a letter from a to z or A to Z; '...' stands for further axes",
                fix="write them such as 'ij,jk->ik'",
            )
        at += 1
    return Term(tuple(axes), start, end)


def _numbered(text: str, number: int, term: Term, rank: int) -> Term:
    """A term with a label for every axis that its '...' stands for."""
    letters = [axis for axis in term.axes if axis.label != ELLIPSIS]
    open_ended = len(letters) < len(term.axes)
    if len(letters) > rank or (len(letters) < rank and not open_ended):
        at = letters[rank].offset if len(letters) > rank else term.end
        refuse(
            text,
            at,
            f"operand {number} of an einsum has {rank} axes, and subscripts for {len(letters)}",
            why="each axis has a letter, or is meant by '...'",
            fix="add or remove letters, or write '...' for the axes that need no name",
        )
    axes: list[Axis] = []
    for axis in term.axes:
        if axis.label == ELLIPSIS:
            missing = range(rank - len(letters) - 1, -1, -1)
            axes.extend(Axis(f"{ELLIPSIS}{k}", axis.offset) for k in missing)
        else:
            axes.append(axis)
    return Term(tuple(axes), term.start, term.end)


def _ellipsis_labels(inputs: Sequence[Term]) -> tuple[str, ...]:
    hidden = {label for term in inputs for label in term.labels if label.startswith(ELLIPSIS)}
    return tuple(f"{ELLIPSIS}{k}" for k in range(len(hidden) - 1, -1, -1))


def _implied(inputs: Sequence[Term]) -> tuple[str, ...]:
    times = Counter(label for term in inputs for label in term.labels)
    letters = sorted(k for k, n in times.items() if n == 1 and not k.startswith(ELLIPSIS))
    return (*_ellipsis_labels(inputs), *letters)


def _output(text: str, start: int, inputs: Sequence[Term]) -> tuple[str, ...]:
    term = _term(text, start, len(text))
    known = {label for one in inputs for label in one.labels}
    found: list[str] = []
    for axis in term.axes:
        if axis.label == ELLIPSIS:
            found.extend(_ellipsis_labels(inputs))
            continue
        if axis.label not in known:
            refuse(
                text,
                axis.offset,
                f"the result of an einsum has the axis {axis.label!r}, and no operand does",
                why="the size of an axis comes from an operand",
                fix=f"remove {axis.label!r} after the arrow, or name it in a term before",
            )
        if axis.label in found:
            refuse(
                text,
                axis.offset,
                f"the axis {axis.label!r} comes twice in the result of an einsum",
                why="an axis of the result has one place",
                fix="name it once; multiply with an identity matrix to fill a diagonal",
            )
        found.append(axis.label)
    hidden = _ellipsis_labels(inputs)
    if hidden and hidden[0] not in found:
        # NumPy refuses this too: it is nearly always a slip.
        refuse(
            text,
            len(text),
            "the operands of an einsum have axes under '...', and the result has no '...'",
            why="axes without a letter are kept, not summed",
            fix="write '...' after the arrow, or give the axes letters",
        )
    return tuple(found)
