"""The parser: Python's own reading of the same text is the judge; what is wrong is pointed at."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.base.errors import ParseError
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.node import UOp
from porism.simplifier.parser import names_in, parse
from porism.simplifier.tokenizer import Limits

NAMES = ("a", "b", "c")
VARIABLES = {name: UOp.variable(name, -3, 5) for name in NAMES}
PLACES = itertools.product((-3, 0, 5), (1, 4), (2, -1))
POINTS = [dict(zip(NAMES, place, strict=True)) for place in PLACES]


def value(text: str, point: dict[str, int]) -> int:
    (result,) = evaluate(parse(text, VARIABLES), variables=point)
    return int(result)


def same_as_python(text: str) -> None:
    for point in POINTS:
        wanted = eval(text, {"min": min, "max": max}, dict(point))
        assert value(text, point) == wanted, (text, point)


PRECEDENCE = """
a + b * c
a - b - c
a * b // 2 % 3
-a // 2
- a * b
-3 // 2
- 3 % 4
a - -b
--a
-(3)
+a
~a & b | c ^ 3
~a * 2
a << 1 + 1
a >> 1 << 2
a & b == c & b
a | b < c
a < b < c
a <= b == c != a
a < b and b < c or not a < c
not a < b and b < c
not not a < b
a if b < c else b
a if b < c else b if a < b else c
(a if b < c else b) + 1
1 + (2 if a < b else 3) * 4
a if b < c and a < c or a == b else c
min(a, b)
max(a, b, c, 3)
min(a + 1, max(b, c) * 2) % 5
a if not a < b else -b
(a < b) == (b < c)
(a < b) != (b < c) != (a < c)
(a < b) & (b < c) | (a < c)
(a < b) ^ True
(a < b) == False
a < 3 if b < 3 else c < 3
1_000 + 0x1F + 0b101 + 0o17 + 00
a*b//c if c > 0 else 7
int(a < b) + int(a)
int(a) * -int(b < c) % 5
(a < b) * c
a * (a < b) * (b < c)
2 * int(not a < b)
""".strip().splitlines()


@pytest.mark.parametrize("text", PRECEDENCE)
def test_reads_as_python_does(text: str) -> None:
    same_as_python(text)


def _numbers(deeper: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(deeper, st.sampled_from(("+", "-", "*", "&", "|", "^")), deeper)
    compares = st.tuples(deeper, st.sampled_from(("<", "<=", ">", ">=", "==", "!=")), deeper)
    logic = st.tuples(compares.map(" ".join), st.sampled_from(("and", "or", "and not")), compares)
    condition = compares.map(" ".join) | logic.map(lambda t: f"{t[0]} {t[1]} {' '.join(t[2])}")
    return st.one_of(
        pairs.map(" ".join),
        pairs.map(lambda t: f"({' '.join(t)})"),
        st.tuples(deeper, st.sampled_from(("//", "%")), st.integers(1, 7)).map(
            lambda t: f"{t[0]} {t[1]} {t[2]}"
        ),
        # in parentheses, since a sum after it would be part of the amount, and could be negative
        st.tuples(deeper, st.integers(0, 7)).map(lambda t: f"({t[0]} >> {t[1]})"),
        deeper.map(lambda t: f"-{t}"),
        deeper.map(lambda t: f"~{t}"),
        st.tuples(deeper, condition, deeper).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        st.tuples(deeper, deeper).map(lambda t: f"max({t[0]}, {t[1]})"),
    )


@given(st.recursive(st.sampled_from((*NAMES, "1", "7", "12")), _numbers, max_leaves=12))
def test_random_text_reads_as_python_does(text: str) -> None:
    same_as_python(text)


MALFORMED = {
    "": ("there is no expression", 1),
    "   ": ("there is no expression", 4),
    "a +": ("expected a value, found the end", 4),
    "a b": ("expected an operator, found 'b'", 3),
    "a 3": ("expected an operator, found '3'", 3),
    "(a": ("this '(' is never closed", 1),
    "a)": ("a ')' without its '('", 2),
    "()": ("expected a value, found ')'", 2),
    "a + * b": ("expected a value, found '*'", 5),
    "a ** b": ("expected a value, found '*'", 4),
    "a / b": ("the character '/' has no place", 3),
    "a = b": ("the character '=' has no place", 3),
    "a && b": ("expected a value, found '&'", 4),
    "a ! b": ("the character '!' has no place", 3),
    "a ? b : c": ("the character '?' has no place", 3),
    "a[0]": ("the character '[' has no place", 2),
    "é + a": ("the character 'é' has no place", 1),
    "1.5 * a": ("'1.5' is no number", 1),
    "1e3": ("'1e3' is no number", 1),
    "012": ("'012' is no number", 1),
    "3a": ("'3a' is no number", 1),
    "1__0": ("'1__0' is no number", 1),
    "0x": ("'0x' is no number", 1),
    "a if b < c": ("expected 'else'", 11),
    "(a if b < c)": ("expected 'else'", 12),
    "a else b": ("an 'else' without its 'if'", 3),
    "a if b if a < b else b else c": ("a choice as a condition needs parentheses", 8),
    "min a": ("expected '(' after min", 5),
    "min(a)": ("min takes two values or more", 6),
    "min(a,)": ("expected a value, found ')'", 7),
    "int a": ("expected '(' after int", 5),
    "int(a, b)": ("int takes one value", 9),
    "int()": ("expected a value, found ')'", 5),
    "max()": ("expected a value, found ')'", 5),
    "a, b": ("a comma outside of min( ) and max( )", 2),
    "(a, b)": ("a comma outside of min( ) and max( )", 3),
    "1 + not a": ("'not' needs parentheses here", 5),
    "d + 1": ("there is no variable 'd'", 1),
    "a // 0": ("division by zero", 3),
    "a % (2 - 2)": ("division by zero", 3),
    "a >> -1": ("a shift by a negative amount", 3),
    "a << 100000": ("a shift to the left by too much", 3),
    "(a < b) + 1": ("'+' takes numbers, and this is a condition", 9),
    "-(a < b)": ("'-' takes numbers", 1),
    "~(a < b)": ("'~' takes numbers", 1),
    "min(a, b < c)": ("min( ) takes numbers", 1),
    "not a": ("'not' takes a condition, and this is a number", 1),
    "a and b < c": ("'and' takes a condition", 3),
    "a if b else c": ("'if' takes a condition", 3),
    "a if b < c else b < c": ("a choice between a number and a condition", 3),
    "a & (b < c)": ("'&' takes two numbers or two conditions", 3),
    "a == (b < c)": ("'==' takes two numbers or two conditions", 3),
    "(a < b) < (b < c)": ("'<' compares numbers", 9),
    "lambda": ("there is no variable 'lambda'", 1),
    "a\n+\n$": ("the character '$' has no place", 1),
}


@pytest.mark.parametrize("text", MALFORMED)
def test_points_at_what_is_wrong(text: str) -> None:
    what, column = MALFORMED[text]
    with pytest.raises(ParseError, match=re.escape(what)) as caught:
        parse(text, VARIABLES)
    assert caught.value.column == column


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ParseError) as caught:
        parse("row * 4 + colum", {"row": VARIABLES["a"], "column": VARIABLES["b"]})
    assert caught.value.why == "the bounds name row, column"
    assert caught.value.fix == "give 'colum' bounds, or did you mean 'column'?"


LIMITS = Limits(characters=1000, nodes=55, depth=20, digits=30)

TOO_LARGE = {
    "characters": ("a" * 2000, "an expression of 2000 characters"),
    "nodes": ("+".join("a" * 60), "the expression has more than 55 parts"),
    "parentheses": ("(" * 30 + "a" + ")" * 30, "the expression nests more than 20 deep"),
    "signs": ("-" * 30 + "a", "the expression nests more than 20 deep"),
    "choices": ("a if True else " * 30 + "b", "the expression nests more than 20 deep"),
    "calls": ("min(a, " * 30 + "b" + ")" * 30, "the expression nests more than 20 deep"),
    "digits": ("1" * 31, "a number of 31 digits"),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_limits(case: str) -> None:
    text, message = TOO_LARGE[case]
    with pytest.raises(ParseError, match=message):
        parse(text, VARIABLES, LIMITS)


@pytest.mark.parametrize("operand", ["(-a)", "min(a, b)", "(a if a < b else b)"])
def test_only_open_parentheses_count_as_nesting(operand: str) -> None:
    """Twelve operands of one sum are one level deep; the same parentheses nested are refused."""
    limits = Limits(depth=4)
    wide = parse("+".join([operand] * 12), VARIABLES, limits)
    assert wide is parse("+".join([operand] * 12), VARIABLES)
    with pytest.raises(ParseError, match="nests more than 4 deep"):
        parse("(" * 4 + operand + ")" * 4, VARIABLES, limits)


def test_numbers_of_any_length() -> None:
    digits = "9" * 4001
    result = parse(digits, {})
    assert result.op is ops.CONST
    assert result.arg == 10**4001 - 1


def test_depth_costs_no_stack() -> None:
    assert parse("(" * 900 + "a" + ")" * 900, VARIABLES) is VARIABLES["a"]
    long = parse("+".join(["a"] * 20_000), VARIABLES)
    assert long.vmax == 100_000


def test_the_graph_is_exactly_what_is_written() -> None:
    a = VARIABLES["a"]
    result = parse("a + 0", VARIABLES)
    assert result.op is ops.ADD
    assert result.src == (a, a.lift(0))
    assert parse("-5", VARIABLES) is a.lift(-5)
    assert parse("-(5)", VARIABLES).op is ops.NEG


def test_names() -> None:
    assert names_in("min(b, a) if a < c and True else 3") == ["b", "a", "c"]
