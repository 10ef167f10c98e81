"""Common subterms: every grouping of an expression becomes the cheapest one."""

from __future__ import annotations

import pytest

from porism.simplifier.common_subterms import MOST_OPERAND_LISTS, share_subterms
from porism.simplifier.expression_cost import measure, measure_unordered
from porism.simplifier.parser import parse
from porism.simplifier.printer import to_python
from porism.simplifier.readable_order import reorder
from porism.simplifier.simplify import simplify
from porism.simplifier.variable_bounds import box

NAMES = "abcd"
BOUNDS = dict.fromkeys(NAMES, (-9, 9))


def shared(text: str) -> str:
    """Return a text reordered and with shared subterms, but not simplified."""
    known = box(BOUNDS)
    root = reorder(parse(text, known.variables), known.internal_names())
    return known.named_text(to_python(share_subterms(root)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(a + b + c) % (b + c)", "(a + (b + c)) % (b + c)"),
        ("(a + b + c) % (a + b)", "(a + b + c) % (a + b)"),
        ("(a + b + c) % (b + c + d)", "(a + (b + c)) % (b + c + d)"),
        ("(a - b - c) % (b + c)", "(a - (b + c)) % (b + c)"),
        ("(a + b - c) % (c - b)", "(a - (c - b)) % (c - b)"),
        ("(a + d - b - c) % (b + c - d)", "(a - (b + c - d)) % (b + c - d)"),
        ("(a + b + c) % (-b - c)", "(a + (b + c)) % -(b + c)"),
        ("(a + b*4 + c*4) % (b*4 + c*4)", "(b * 4 + c * 4 + a) % (b * 4 + c * 4)"),
        ("a * b * c < b * c", "a * (b * c) < b * c"),
        ("a * b * 4 < a * 4", "a * 4 * b < a * 4"),
        ("max(a, b, c) < max(b, c)", "max(a, max(b, c)) < max(b, c)"),
        ("(a + b + c) % (b + d)", "(a + b + c) % (b + d)"),
        ("(a + b) % (a * b)", "(a + b) % (a * b)"),
        ("(a * a * b) % (a * a)", "a * a * b % (a * a)"),
    ],
)
def test_what_sums_have_in_common_is_one_part(text: str, expected: str) -> None:
    assert shared(text) == expected


def test_what_all_have_in_common_comes_before_what_two_have() -> None:
    text = "(a + b + c) * (b + c + d) * (b + c) + max(a + d, a + d + b)"
    assert shared(text).startswith("(a + (b + c)) * (b + c) * (b + c + d)")


def test_it_never_costs_more() -> None:
    known = box(BOUNDS)
    for text in ("(a + b - c) % (c - b)", "(a + b + c) * (b + c + d) % (a + d)", "-a - b < a + b"):
        root = reorder(parse(text, known.variables), known.internal_names())
        assert measure(share_subterms(root)) <= measure(root)


def test_very_many_sums_stay_as_they_are() -> None:
    names = [f"v{number}" for number in range(MOST_OPERAND_LISTS + 2)]
    known = box(dict.fromkeys((*names, "a", "b"), (0, 9)))
    text = " ^ ".join(f"({name} + a + b)" for name in names)
    root = parse(text, known.variables)
    assert share_subterms(root) is root


def test_a_guard_stays_before_its_division() -> None:
    text = "(a < 3 and b != 0 and c // b < 3) ^ (a < 3 and c // b < 3 and b > 0)"
    assert "(a < 3 and c" not in shared(text)


def test_the_cost_in_any_order() -> None:
    known = box(BOUNDS)
    one = parse("(a + b) % (b*2 + a) if a + b < c else a + 2*b", known.variables)
    other = parse("(b + a) % (a + 2*b) if c > a + b else b*2 + a", known.variables)
    assert measure_unordered(one) == measure_unordered(other) == (1, 38)
    assert measure(other)[1] > measure_unordered(other)[1]


@pytest.mark.parametrize(
    "text",
    [
        "(p*4 + q)*1024 + (r*2 + s)*64 + (t*4 + u) if (t*4 + u) % 16 <= r*2 + s else -1",
        "(p*4 + q)*1024 + (r*2 + s)*64 + t*4 + u if r*2 + s >= (t*4 + u) % 16 else -1",
        "1024*(4*p + q) + (2*r + s)*64 + (4*t + u) if (t*4 + u) % 16 <= s + 2*r else -1",
        "u + ((q + p*4)*1024 + (t*4 + 64*(s + r*2))) if s + 2*r >= (u + 4*t) % 16 else -1",
    ],
)
def test_neither_order_nor_grouping_nor_the_side_matters(text: str) -> None:
    bounds = {"p": (0, 1), "q": (0, 3), "r": (0, 3), "s": (0, 1), "t": (0, 15), "u": (0, 3)}
    result = simplify(text, bounds)
    assert result.text == (
        "(p * 4 + q) * 1024 + (r * 2 + s) * 64 + (t * 4 + u)"
        " if r * 2 + s >= (t * 4 + u) % 16 else -1"
    )
    assert simplify(result.text, bounds).text == result.text


def test_what_no_grouping_finds_is_kept() -> None:
    """The squares are shared as they were given, and in every order."""
    bounds = dict.fromkeys(NAMES, (0, 9))
    texts = ("(a*a*b) * c // (a*a*d + 1)", "c * (b*(a*a)) // (1 + d*(a*a))")
    for text in texts:
        cost = measure(parse(text, box(bounds).variables))[1]
        assert simplify(text, bounds).cost <= cost
