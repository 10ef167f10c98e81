"""Einsum subscripts: the parser of an equation, to one label for each axis of each operand.

    text      term ("," term)* ["->" term]          whitespace is ignored
    term      letters, and at most one "..."

The axes of `...` get labels that are numbered from the last axis, so that they align as in
broadcasting. Without `->` the result has the axes of `...`, then the letters that occur once, in
alphabetical order.
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
    """A label and its offset in the text, in characters."""

    label: str
    offset: int


@dataclass(frozen=True)
class Term:
    """The labels of one operand, and where its term starts and ends in the text."""

    axes: tuple[Axis, ...]
    start: int
    end: int

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the operand's axes, in order."""
        return tuple(axis.label for axis in self.axes)


@dataclass(frozen=True)
class Subscripts:
    """The labels of all operands and of the result."""

    inputs: tuple[Term, ...]
    output: tuple[str, ...]


def fail_at(text: str, offset: int, what: str, *, why: str, fix: str) -> NoReturn:
    """Raise a ParseError that points at an offset of the text, below the user's line."""
    error = ParseError(what, text=text, offset=offset, why=why, fix=fix)
    line = users_line()
    if line is not None:
        error.where = f"{line}\n{error.where}"
    raise error


def parse(text: str, ranks: Sequence[int]) -> Subscripts:
    """Return the labels of operands with the given numbers of axes.

    >>> [term.labels for term in parse("ij,jk", (2, 2)).inputs], parse("ij,jk", (2, 2)).output
    ([('i', 'j'), ('j', 'k')], ('i', 'k'))
    >>> parse("...i->...", (3,)).inputs[0].labels
    ('...1', '...0', 'i')
    """
    left, arrow, _ = text.partition(ARROW)
    terms = _parse_terms(text, left)
    if len(terms) != len(ranks):
        fail_at(
            text,
            terms[-1].end if len(terms) < len(ranks) else terms[len(ranks)].start,
            f"einsum of {len(ranks)} operands with subscripts for {len(terms)}",
            why="each operand has a term of its own",
            fix="separate the terms with commas, and give one for each operand",
        )
    inputs = tuple(
        _expand_ellipsis(text, k, term, rank)
        for k, (term, rank) in enumerate(zip(terms, ranks, strict=True))
    )
    if arrow:
        return Subscripts(inputs, _explicit_output(text, len(left) + len(ARROW), inputs))
    return Subscripts(inputs, _implicit_output(inputs))


def _parse_terms(text: str, left: str) -> list[Term]:
    """Return the terms left of the arrow."""
    terms: list[Term] = []
    start = 0
    for part in left.split(","):
        terms.append(_parse_term(text, start, start + len(part)))
        start += len(part) + 1
    return terms


def _parse_term(text: str, start: int, end: int) -> Term:
    """Return the term between two offsets of the text."""
    axes: list[Axis] = []
    position = start
    while position < end:
        character = text[position]
        if text.startswith(ELLIPSIS, position):
            if any(axis.label == ELLIPSIS for axis in axes):
                fail_at(
                    text,
                    position,
                    "a second '...' in one term",
                    why="'...' stands for all axes that have no letter, so there is one at most",
                    fix="give the other axes letters",
                )
            axes.append(Axis(ELLIPSIS, position))
            position += len(ELLIPSIS)
            continue
        if character.isascii() and character.isalpha():
            axes.append(Axis(character, position))
        elif not character.isspace():
            fail_at(
                text,
                position,
                f"{character!r} in the subscripts of an einsum",
                why="an axis is a letter from a to z or A to Z; '...' stands for further axes",
                fix="write them such as 'ij,jk->ik'",
            )
        position += 1
    return Term(tuple(axes), start, end)


def _expand_ellipsis(text: str, number: int, term: Term, rank: int) -> Term:
    """Return a term in which `...` is replaced by one label for each axis it stands for."""
    letters = [axis for axis in term.axes if axis.label != ELLIPSIS]
    open_ended = len(letters) < len(term.axes)
    if len(letters) > rank or (len(letters) < rank and not open_ended):
        position = letters[rank].offset if len(letters) > rank else term.end
        fail_at(
            text,
            position,
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
    """Return the labels that `...` stands for in the result."""
    ellipsis_labels = {
        label for term in inputs for label in term.labels if label.startswith(ELLIPSIS)
    }
    return tuple(f"{ELLIPSIS}{k}" for k in range(len(ellipsis_labels) - 1, -1, -1))


def _implicit_output(inputs: Sequence[Term]) -> tuple[str, ...]:
    """Return the labels of the result of an equation without an arrow."""
    times = Counter(label for term in inputs for label in term.labels)
    letters = sorted(k for k, n in times.items() if n == 1 and not k.startswith(ELLIPSIS))
    return (*_ellipsis_labels(inputs), *letters)


def _explicit_output(text: str, start: int, inputs: Sequence[Term]) -> tuple[str, ...]:
    """Return the labels of the result, which are right of the arrow."""
    term = _parse_term(text, start, len(text))
    input_labels = {label for operand in inputs for label in operand.labels}
    labels: list[str] = []
    for axis in term.axes:
        if axis.label == ELLIPSIS:
            labels.extend(_ellipsis_labels(inputs))
            continue
        if axis.label not in input_labels:
            fail_at(
                text,
                axis.offset,
                f"the result of an einsum has the axis {axis.label!r}, and no operand does",
                why="the size of an axis comes from an operand",
                fix=f"remove {axis.label!r} after the arrow, or name it in a term before",
            )
        if axis.label in labels:
            fail_at(
                text,
                axis.offset,
                f"the axis {axis.label!r} comes twice in the result of an einsum",
                why="an axis occurs once in the result",
                fix="name it once; multiply with an identity matrix to fill a diagonal",
            )
        labels.append(axis.label)
    ellipsis_labels = _ellipsis_labels(inputs)
    if ellipsis_labels and ellipsis_labels[0] not in labels:
        # NumPy refuses this too: it is nearly always a mistake.
        fail_at(
            text,
            len(text),
            "the operands of an einsum have axes under '...', and the result has no '...'",
            why="axes without a letter are kept, not summed",
            fix="write '...' after the arrow, or give the axes letters",
        )
    return tuple(labels)
