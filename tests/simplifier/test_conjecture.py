"""`porism prove --rule`: conjectures are proved or refuted, and mistakes pointed at."""

from __future__ import annotations

import pytest

from porism.base.dtypes import Theory
from porism.base.errors import ParseError, PorismError
from porism.cli import main
from porism.prove.arithmetic.solver import Answer
from porism.rewrite import terms
from porism.rewrite.terms import c0, c1, divides, hi, lo, p, q, x, y
from porism.simplifier.conjecture import FACTS, read
from tests.absent_solver import hide_solver

TRUE = [
    "x*0 -> 0",
    "(x*c0)//c0 -> x when c0 > 0",
    "x//c0//c1 -> x//(c0*c1) when c0 > 0 and c1 > 0",
    "(x*c0 + y)//c1 -> x*(c0//c1) + y//c1 when divides(c1, c0)",
    "x % c0 -> x when vmin(x) >= 0 and vmax(x) < c0",
    "x % c0 -> x when 0 <= x < c0",
    "min(x, y) -> x when x <= y",
    "max(x, y) -> y when hi(x) <= lo(y)",
    "x << c0 -> x * (1 << c0) when c0 >= 0",
    "x % c0 -> remainder(x) % c0 when divides(c0, modulus(x))",
    "x // c0 -> lo(x) // c0 when lo(x)//c0 == hi(x)//c0",
    "p and not p -> False",
    "p and (p or q1) -> p",
    "x < y -> not y <= x",
    "x if p else y -> y if not p else x",
    "x if x < y else y -> min(x, y)",
    "row // 8 * 8 + row % 8 -> row",
    "(x < y) == (y > x) -> True",
]
FALSE = {
    "x//c0//c1 -> x//(c0*c1)": "for x = 1, c0 = 2, c1 = -1 the left side is 0, and the right",
    "x % c0 -> x when 0 <= x <= c0": "for x = 1, c0 = 1 the left side is 0, and the right side is",
    "min(x, y) -> x when lo(x) <= lo(y)": "lo(y) = ",
    "x*y -> 0 when x == 0 or y > 0": "the right side is 0",
    "p or q -> p": "the left side is True, and the right side is False",
    "x if p else 0 -> x": "p = False",
    "x - y - x -> y * 0 - y // y * y when x < 9": "y = 0",
}
"""False conjectures, each with a part of the printed counterexample."""


def test_terms_are_those_of_rules() -> None:
    conjecture = read("(x*c0 + y)//c1 -> x when divides(c1, c0) and hi(y) < c1 and x < y")
    assert conjecture.rule.before is (x * c0 + y) // c1
    assert conjecture.rule.after is x
    assert conjecture.rule.when is divides(c1, c0) & (hi(y) < c1)
    assert conjecture.conditions == (x < y,)
    assert conjecture.rule.theories == (Theory.INTEGERS,)
    assert read("x % c0 -> x when vmin(x) >= 0").rule.when is (lo(x) >= 0)
    logical = read("p and q -> q")
    assert logical.rule.before is p & q
    assert logical.rule.theories == (Theory.BOOLEANS,)


def test_every_fact_can_be_asked() -> None:
    assert set(FACTS.values()) == set(terms.FACTS)
    for name, fact in FACTS.items():
        arguments = ("x", "x + c0")[: terms.FACTS[fact].arity]
        if not terms.FACTS[fact].on_nodes:
            arguments = ("c0", "c0")
        asked = f"{name}({', '.join(arguments)})"
        if not terms.FACTS[fact].truth:
            asked += " > 0"
        conjecture = read(f"x + c0 -> x when {asked}")
        assert f"{fact}(" in str(conjecture)
        assert not conjecture.conditions


@pytest.mark.parametrize("text", TRUE)
def test_true_conjectures_are_proved(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--rule", text]) == 0
    out = capsys.readouterr().out
    assert out.startswith("proved: ")
    assert "shrink, by" in out or "shrinks, by" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("text", FALSE)
def test_false_conjectures_are_refuted(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--rule", text]) == 1
    out = capsys.readouterr().out
    assert out.startswith("refuted: ")
    assert FALSE[text] in out


def test_an_idle_part_of_the_guard_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    idle = "a part of the guard is idle, the rule holds without it: "
    assert main(["prove", "--rule", "x//c0//c1 -> x//(c0*c1) when c0 > 0 and c1 > 0"]) == 0
    assert f"{idle}c0 > 0\n" in capsys.readouterr().out
    assert main(["prove", "--rule", "min(x, y) -> x when x <= y and x < 8"]) == 0
    out = capsys.readouterr().out
    assert f"{idle}x < 8\n" in out
    assert f"{idle}x <= y" not in out
    assert "it is about values, which the compiler does not know" in out


def test_whether_it_shrinks_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--rule", "x + x -> x*2"]) == 0
    assert "it shrinks, by precedence: " in capsys.readouterr().out
    assert main(["prove", "--rule", "x*2 -> x + x"]) == 0
    assert "it does not shrink, by occurrences: " in capsys.readouterr().out


@pytest.mark.parametrize("guard", ["x < x", "c0 < c0", "x < c0 and c0 < x", "lo(x) > hi(x)"])
def test_a_rule_that_can_never_fire_is_not_proved(
    guard: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prove", "--rule", f"x + c0 -> x when {guard}"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("vacuous: ")
    assert "it can never fire" in out


def test_what_the_solver_leaves_open_is_no_proof(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("porism.prove.rule_proof.ask", lambda *_, **__: (Answer.UNKNOWN, None))
    assert main(["prove", "--rule", "x + 0 -> x"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("unknown: x + 0 -> x\n")
    assert "on integers (index): unknown, the solver does not know, after 10 s" in out


def test_theories_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--rule", "x*c0//c0 -> x", "--theory", "fixed-width"]) == 1
    assert "  on fixed width (i8): for x = " in capsys.readouterr().out
    both = ["--theory", "integers", "--theory", "Fixed Width"]
    assert main(["prove", "--rule", "x + x -> x*2", *both]) == 0
    out = capsys.readouterr().out
    assert "  on integers (index): proved, in " in out
    assert "  on fixed width (i8 i16 i32 i64 u8 u16 u32 u64): proved, in " in out
    assert main(["prove", "--rule", "x + 0 -> x", "--theory", "floats"]) == 1
    assert "for x = -0.0 the left side is 0.0, and the right" in capsys.readouterr().out
    assert main(["prove", "--rule", "x and x -> x", "--theory", "booleans"]) == 0


MISTAKES = {
    "x - x": (6, "expected '->' between the two sides of a rule"),
    "x - x = 0": (7, "expected '->' between the two sides of a rule"),
    "x - x when x > 0": (7, "expected '->' between the two sides of a rule"),
    "x + 0 -> x -> x": (12, "a second '->'"),
    "x + 0 when x -> x": (7, "'when' before '->'"),
    "x + 0 -> x when x > 0 when x > 1": (23, "a second 'when'"),
    "x - x -> y": (10, "'y' does not occur on the left side"),
    "x*c0 -> x when c1 > 0": (16, "'c1' does not occur on the left side"),
    "x +* y -> y": (4, "expected a value, found '*'"),
    "x + y -> (x": (10, "this '(' is never closed"),
    "x + y -> x when x <": (20, "expected a value, found the end of the text"),
    "x + y\n-> x when @": (17, "the character '@' has no place in an expression"),
    "x + 0 -> x when x": (16, "the guard is a number"),
    "x + 0 -> x == 0": (9, "one side is a number, the other is a condition"),
    "x // 0 -> x": (3, "division by zero"),
    "x -> x + 0": (1, "this states no rule"),
    "x + y -> x + y": (1, "this states no rule"),
    "1 + 1 -> 2": (1, "the left side has no variable"),
    "lo(x) + 1 -> x": (1, "'lo' is a fact, and the left side has none"),
    "x + 0 -> x when lo(x, x) > 0": (24, "lo takes one argument, not 2"),
    "x + y -> x when lo(x) <= y": (16, "a part of the guard asks for facts and values at once"),
    "x + 0 -> x when lo(p) > 0": (20, "'p' does not occur on the left side"),
    "x + p -> x": (3, "'+' takes numbers, and this is a condition"),
    "": (1, "expected '->' between the two sides of a rule"),
    "(" * 200 + "x": (201 + 1, "expected '->' between the two sides of a rule"),
    "(" * 200 + "x -> x": (101, "the expression nests more than 100 deep"),
    "x" * 20_000: (10_001, "a rule of 20000 characters"),
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text[:40])
def test_mistakes_are_pointed_at(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    column, message = MISTAKES[text]
    with pytest.raises(ParseError) as caught:
        read(text)
    assert message in caught.value.what
    assert (caught.value.line, caught.value.column) == (1, column)
    assert main(["prove", "--rule", text]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x + 0 -> x", "--theory", "magic"], "there is no theory 'magic'"),
        (["x & 1 -> x", "--theory", "floats"], "this has no meaning on floats: x & 1"),
        (["x + y -> x", "--theory", "booleans"], "'+' takes numbers, and this is a condition"),
        (["x + 0 -> x", "mod-small"], "--rule does not go together with words"),
        (["x + 0 -> x", "--json", "f"], "--rule does not go together with words"),
    ],
)
def test_mistakes_in_arguments(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prove", "--rule", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_theory_without_a_rule_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "mod-small", "--theory", "floats"]) == 2
    assert "a theory is given without a rule" in capsys.readouterr().err


def test_shifts_that_are_too_large_are_no_crash(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--rule", "(x << (x << x)) -> 1"]) == 1
    assert main(["prove", "--rule", "(~1 >> x) -> 1", "--theory", "fixed-width"]) == 1
    assert capsys.readouterr().err == ""


def test_without_the_solver_the_message_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide_solver(monkeypatch)
    assert main(["prove", "--rule", "x + 0 -> x"]) == 2
    message = capsys.readouterr().err
    assert "proving needs the solver z3, which is not installed" in message
    assert "fix: pip install z3-solver" in message
    with pytest.raises(PorismError, match="does not occur"):  # a mistake is found without it
        read("x + 0 -> y")
