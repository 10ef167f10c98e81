"""The case file of the simplifier: each line is right at every point, and comes out as stated."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from porism.simplifier.simplify import simplify

LINES = (Path(__file__).parent / "cases.txt").read_text().splitlines()
BOUNDS = {
    actual[1]: (int(actual[2]), int(actual[3]))
    for line in LINES
    if (actual := re.fullmatch(r"(\w): (-?\d+) \.\. (-?\d+)", line))
}
CASES = [tuple(line.split("  =>  ")) for line in LINES if "  =>  " in line and line[0] != "#"]


def values(text: str) -> list[object]:
    """Return the values of a text at every point of the box; None where it is undefined."""
    names = sorted(set(re.findall(r"[a-z]\w*", text)) & BOUNDS.keys())
    code, result = compile(text, "text", "eval"), []
    for point in itertools.product(*(range(BOUNDS[n][0], BOUNDS[n][1] + 1) for n in names)):
        try:
            result.append(eval(code, dict(zip(names, point, strict=True))))
        except ZeroDivisionError:
            result.append(None)
    return result


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[case[0] for case in CASES])
def test_case(text: str, expected: str) -> None:
    result = simplify(text, BOUNDS).text
    both = f"({text}, {result})"
    assert all(pair is None or pair[0] == pair[1] for pair in values(both))  # type: ignore[index]
    assert result == expected


def test_there_are_cases() -> None:
    assert len(CASES) > 40
    assert len(BOUNDS) == 9
