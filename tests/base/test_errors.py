"""Errors say what, where, why and how to fix it, and stay short."""

from __future__ import annotations

import pickle

import pytest

from porism.base import errors
from porism.base.errors import (
    LONGEST_PART,
    MOST_LINES,
    ParseError,
    PorismError,
    ShapeError,
)

CLASSES = [
    each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)
]


def test_all_four_parts_are_shown_in_order() -> None:
    error = PorismError("it broke", where="node 3", why="it is glass", fix="use steel")
    assert str(error) == "it broke\n  where: node 3\n  why: it is glass\n  fix: use steel"


def test_only_what_is_needed() -> None:
    error = PorismError("it broke")
    assert str(error) == "it broke"
    assert (error.where, error.why, error.fix) == (None, None, None)


def test_parts_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        PorismError("it broke", "node 3")  # type: ignore[call-arg]


def test_lines_of_a_part_are_indented_below_it() -> None:
    assert str(PorismError("it broke", where="a\nb")) == "it broke\n  where: a\n    b"


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_is_documented_and_of_one_family(cls: type[Exception]) -> None:
    assert issubclass(cls, PorismError)
    assert cls.__doc__


@pytest.mark.parametrize("text", ["x" * 10_000_000, "x\n" * 5_000_000, "\n" * 10_000_000])
def test_a_huge_part_is_cut(text: str) -> None:
    error = PorismError(text, where=text, why=text, fix=text)
    assert len(str(error)) < 4 * (LONGEST_PART + 5 * MOST_LINES + 100)
    assert len(str(error).splitlines()) <= 4 * MOST_LINES
    assert "characters more)" in str(error)


@pytest.mark.parametrize("length", [LONGEST_PART, LONGEST_PART - 1, 1, 0])
def test_a_part_within_the_limit_is_kept(length: int) -> None:
    assert errors.shorten("x" * length) == "x" * length
    assert errors.shorten("\n" * min(length, MOST_LINES - 1)) == "\n" * min(length, MOST_LINES - 1)


@pytest.mark.parametrize("text", ["x" * (LONGEST_PART + 7), "x\n" * (MOST_LINES + 7)])
def test_what_is_left_out_is_counted(text: str) -> None:
    kept, _, rest = errors.shorten(text).rpartition(" … (")
    assert text.startswith(kept)
    assert rest == f"{len(text) - len(kept)} characters more)"


@pytest.mark.parametrize(
    "error",
    [
        ShapeError("no", where="here", why="so", fix="thus"),
        ParseError("no", text="a\nbc", offset=3, why="so"),
    ],
)
def test_errors_travel_between_processes(error: PorismError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def where(text: str, offset: int) -> str:
    return str(ParseError("no", text=text, offset=offset)).removeprefix("no\n")


def test_the_caret_stands_below_the_column() -> None:
    assert where("ab\ncde\nf", 5) == "  where: line 2, column 3\n    cde\n      ^"


@pytest.mark.parametrize(
    ("text", "offset", "line", "column"),
    [
        ("", 0, 1, 1),
        ("ab", 2, 1, 3),
        ("ab\n", 2, 1, 3),
        ("ab\n", 3, 2, 1),
        ("ab\n\ncd", 3, 2, 1),
        ("ab\r\ncd", 4, 2, 1),
        ("ab", 99, 1, 3),
        ("ab", -99, 1, 1),
    ],
)
def test_lines_and_columns_count_from_one(text: str, offset: int, line: int, column: int) -> None:
    error = ParseError("no", text=text, offset=offset)
    assert (error.line, error.column) == (line, column)


@pytest.mark.parametrize("offset", [0, 10, 40, 5_000, 99_960, 99_999, 100_000])
def test_a_long_line_is_shown_around_the_caret(offset: int) -> None:
    text = "first\n" + "a" * offset + "B" + "c" * (100_000 - offset)
    _, shown, caret = where(text, len("first\n") + offset).splitlines()
    assert shown[caret.index("^")] == "B"
    assert len(shown) < 90


def test_tabs_and_other_invisible_characters_keep_their_column() -> None:
    _, shown, caret = where("\t\x00\x1b!", 3).splitlines()
    assert shown[caret.index("^")] == "!"
    assert shown.isprintable()
