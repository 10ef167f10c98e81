"""`porism simplify`: one expression, an explanation, C, and files of many."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from porism.cli import main

EXPRESSION = ("simplify", "(r*8+v)%7", "r=0..3", "v=0..2")


def test_one_expression(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(EXPRESSION) == 0
    assert capsys.readouterr() == ("r + v\n", "")


def test_an_explanation_is_plain_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EXPRESSION, "--explain"]) == 0
    out, errors = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "  1. quotient-one-bucket  (proved)"
    assert lines[1].strip() == "(r + v) // 7"
    assert lines[3] == "  2. quotient-multiples  (proved)"
    assert lines[4].strip() == "(r * 8 + v) // 7"
    assert lines[7].strip() == "(r * 8 + v) % 7"
    assert lines[-3].startswith("     → ")
    assert lines[-2:] == ["0 divisions, cost 1", "r + v"]
    assert "\x1b" not in out
    assert errors == ""


def test_c(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simplify", "--c", "x % 5", "x=-9..9"]) == 0
    definition, text = capsys.readouterr().out.splitlines()
    assert definition.startswith("static inline long long floormod(")
    assert text == "floormod(x, 5)"


def test_the_input_as_expression(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("(x*4 + 3) // 4\n"))
    assert main(["simplify", "-", "x=0.."]) == 0
    assert capsys.readouterr().out == "x\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x +", "x=0..3"], "expected a value, found the end of the text"),
        (["x // 0", "x=0..3"], "division by zero"),
        (["y", "x=0..3"], "there is no variable 'y'"),
        (["x", "x=3..0"], "no number is within the bounds of 'x'"),
        (["x", "x"], "'x' gives no bounds"),
        ([], "there is no expression"),
        (["--jsonl", "nowhere.jsonl"], "cannot read nowhere.jsonl"),
        (["x", "--jsonl", "-"], "an expression and a file are given"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["simplify", *arguments]) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert message in errors
    assert "Traceback" not in errors


def test_many(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    bounds = {"n": [1, None], "r": [0, 3], "s": [0, "n-1"]}
    good = {"name": "one", "expr": "(r*n + s) // n", "vars": bounds}
    lines = [json.dumps(good), "", '{"expr": "1 +"}', "[1]", "{", '{"expr": 3}', "[" * 100_000]
    file.write_text("\n".join(lines))
    assert main(["simplify", "--jsonl", str(file), "--explain", "--c"]) == 1
    out, errors = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[0]["name"] == "one"
    assert (rows[0]["text"], rows[0]["c"], rows[0]["divmods"]) == ("r", "r", 0)
    assert rows[0]["steps"]
    assert all("error" in row for row in rows[1:])
    assert errors == "porism: 5 of 6 lines have no answer\n"
