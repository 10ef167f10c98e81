"""`porism.simplify`: right at every point, never worse than what was given, the same every time."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

import porism
from benchmarks import index_values
from benchmarks.index_corpus import corpus
from porism.base.errors import ParseError, PorismError
from porism.ir import ops
from porism.ir.traversal import toposort
from porism.simplifier.expression_cost import measure
from porism.simplifier.parser import parse
from porism.simplifier.simplify import simplify
from porism.simplifier.variable_bounds import BoundsError, box, from_arguments

ROWS = corpus(60, seed=7)


def by_name(row: dict[str, Any]) -> str:
    return str(row["name"])


def checked(text: str, bounds: dict[str, Any]) -> porism.simplifier.simplify.Result:
    result = simplify(text, bounds)
    assert index_values.difference(text, result.text, bounds) is None, result.text
    return result


def test_the_package_offers_it() -> None:
    assert porism.simplify is simplify
    assert "simplify" in porism.__all__
    with pytest.raises(AttributeError, match="no attribute 'simplfy'"):
        _ = porism.simplfy  # type: ignore[attr-defined]


def test_importing_the_package_is_light() -> None:
    program = "import porism, sys; print('numpy' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert output.stdout == "False\n"


def test_a_result() -> None:
    result = simplify("(r*8 + v) % 7", {"r": (0, 3), "v": (0, 2)})
    assert (result.text, str(result), result.c) == ("r + v", "r + v", "r + v")
    assert (result.divmods, result.cost, result.steps) == (0, 1, ())
    assert result.node is parse("r + v", {n.arg[0]: n for n in result.node.src})


def test_an_explanation() -> None:
    steps = simplify("(r*8 + v) % 7", {"r": (0, 3), "v": (0, 2)}, explain=True).steps
    assert steps
    assert steps[0].rule == "quotient-one-bucket"
    assert steps[-1].before == "(r * 8 + v) % 7"
    assert all(step.rule and step.before != step.after for step in steps)


@pytest.mark.parametrize("row", ROWS, ids=by_name)
def test_is_right_and_never_worse(row: dict[str, Any]) -> None:
    result = checked(row["expr"], row["vars"])
    before = measure(parse(row["expr"], box(row["vars"]).variables))
    assert result.divmods <= before[0]
    assert result.cost <= before[1]
    assert result.divmods == index_values.divisions(result.text)[0]


# -- what people write -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "bounds", "simpler"),
    [
        ("(i * 4 + j) // 4", {"i": (0, 9), "j": (0, 3)}, "i"),
        ("(i * 4 + j) % 4", {"i": (0, 9), "j": (0, 3)}, "j"),
        ("x // 8 * 8 + x % 8", {"x": (None, None)}, "x"),
        ("(x >> 3 << 3) + (x & 7)", {"x": (None, None)}, "x"),
        ("(x * 16 + y) >> 2", {"x": (0, 9), "y": (0, 15)}, "x * 4 + (y >> 2)"),
        ("(r0 * n + r1) % n", {"n": (1, 64), "r0": (0, 3), "r1": (0, "n - 1")}, "r1"),
        ("0 <= x < 10", {"x": (0, 9)}, "True"),
        ("x if x < 10 else -1", {"x": (0, 9)}, "x"),
        ("3 + 4 * 5", {}, "23"),
        ("max(x, 0) * 4 // 4", {"x": (-9, 9)}, "max(x, 0)"),
    ],
)
def test_examples(text: str, bounds: dict[str, Any], simpler: str) -> None:
    assert simplify(text, bounds).text == simpler


SYMBOLIC = (
    ("(r0 * n + r1) // n", {"n": [1, 9], "r0": [0, 3], "r1": [0, "n - 1"]}, "r0"),
    ("r // n", {"n": [1, 9], "r": [0, "n - 1"]}, "0"),
    ("r * 2 // n", {"n": [1, 9], "r": [0, "(n - 1) // 2"]}, "0"),
)


@pytest.mark.parametrize(("text", "bounds", "simpler"), SYMBOLIC)
def test_symbolic_bounds(text: str, bounds: dict[str, Any], simpler: str) -> None:
    assert checked(text, bounds).text == simpler


def test_bounds_on_the_command_line() -> None:
    words = from_arguments(["r=0..3", " v = ..2", "n=1..", "k=0..n-1", "s=4", "e=n%2..n//2"])
    assert words["e"] == ("n%2", "n//2")
    known = box(words).variables
    assert [(v.vmin, v.vmax) for v in known.values()][:2] == [(0, 3), (-float("inf"), 2)]


WRONG_BOUNDS: dict[str, tuple[Any, str]] = {
    "empty": ({"x": (3, 2)}, "no number is within the bounds of 'x'"),
    "empty symbolic": ({"n": (1, 3), "x": (9, "n")}, "no number is within the bounds of 'x'"),
    "itself": ({"x": (0, "x")}, "the bounds of 'x' depend on themselves"),
    "circle": ({"x": (0, "y"), "y": ("x", 9)}, "the bounds of 'x' depend on themselves"),
    "name": ({"1x": (0, 3)}, "'1x' cannot be the name of a variable"),
    "keyword": ({"if": (0, 3)}, "'if' cannot be the name of a variable"),
    "no text": ({3: (0, 3)}, "3 cannot be the name of a variable"),
    "no pair": ({"x": 3}, "the bounds of 'x' are 3"),
    "three": ({"x": (0, 1, 2)}, "the bounds of 'x' are"),
    "text": ({"x": "03"}, "the bounds of 'x' are '03'"),
    "float": ({"x": (0, 1.5)}, "an end of the bounds of 'x' is 1.5"),
    "bool": ({"x": (False, 3)}, "an end of the bounds of 'x' is False"),
}


@pytest.mark.parametrize("case", WRONG_BOUNDS)
def test_wrong_bounds(case: str) -> None:
    bounds, message = WRONG_BOUNDS[case]
    with pytest.raises(BoundsError, match=re.escape(message)):
        simplify("1", bounds)


def test_ends_are_read_like_expressions() -> None:
    with pytest.raises(ParseError, match="there is no variable 'm'"):
        simplify("x", {"n": (0, 3), "x": (0, "m - 1")})
    with pytest.raises(ParseError, match="an end of the bounds of 'x' is a condition"):
        simplify("x", {"n": (0, 3), "x": (0, "n < 2")})
    with pytest.raises(BoundsError, match="'r' has bounds twice"):
        from_arguments(["r=0..3", "r=0..4"])
    with pytest.raises(BoundsError, match="'r' gives no bounds"):
        from_arguments(["r"])
    with pytest.raises(PorismError, match="an expression is a text, not a int"):
        simplify(3)  # type: ignore[arg-type]


def test_pieces_of_a_large_expression_are_right() -> None:
    names = [f"x{i}" for i in range(4)]
    parts = [
        f"({names[i % 4]} * {i % 9} + {names[(i + 1) % 4]}) // {i % 7 + 2}" for i in range(200)
    ]
    text = " + ".join(parts)
    bounds = {name: [0, 7] for name in names}
    nested = "(" * 30 + "x0" + " * 3 + x1) // 2" * 30
    for each in (text, nested, f"({text} if {nested} % 5 < 3 else x2) % 64"):
        checked(each, bounds)
        leaves = toposort(simplify(each, bounds).node)
        assert {n.arg[0] for n in leaves if n.op is ops.VARIABLE} <= set(names)
