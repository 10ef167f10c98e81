"""Rules are checked when they are declared; each mistake has its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from porism.base import dtypes
from porism.base.dtypes import Theory
from porism.base.errors import PorismError, RuleError
from porism.ir import ops
from porism.ir.node import UOp
from porism.rewrite.rule import (
    Procedure,
    Rule,
    RuleSet,
    family,
    procedure,
    rule,
    rules_of_theory,
    rules_with_words,
)
from porism.rewrite.terms import (
    FACTS,
    c0,
    c1,
    cast,
    conjunction,
    conjuncts,
    divides,
    fact,
    hi,
    hole,
    holes_of,
    is_constant_hole,
    is_value,
    lo,
    p,
    u,
    where,
    x,
    y,
)
from porism.rules.rule_sets import ALGEBRA

I = Theory.INTEGERS  # noqa: E741
variable = UOp.variable("i", 0, 9)

MALFORMED: dict[str, tuple[Callable[[], Any], str]] = {
    "a hole that only the right side has": (
        lambda: rule("case", x + 0, y),
        "its right side uses y, which the left side does not bind",
    ),
    "several holes that only the right side has": (
        lambda: rule("case", x + 0, y * c0),
        "its right side uses c0, y, which the left side does not bind",
    ),
    "a hole that only the guard has": (
        lambda: rule("case", x + 0, x, lo(y) > 0),
        "its guard uses y, which the left side does not bind",
    ),
    "a bare hole": (lambda: rule("case", x, x + 0), "its left side matches any node"),
    "a bare constant": (lambda: rule("case", c0, c0 + 0), "its left side matches any node"),
    "equal sides": (lambda: rule("case", x + y, x + y), "its two sides are the same"),
    "sides of different types": (
        lambda: rule("case", x < y, x),
        "its sides have different types, B and T",
    ),
    "a node used as a number": (
        lambda: rule("case", x % c0, x, x < c0),
        "its guard uses a node as a number",
    ),
    "a number for a condition": (
        lambda: rule("case", x % c0, x, (lo(x) >= 0) & (c0 + 1)),
        "",
    ),
    "a bound for a condition": (
        lambda: rule("case", x % c0, x, lo(x)),
        "a part of its guard is no condition: lo(x)",
    ),
    "a guard that is no condition": (
        lambda: rule("case", x % c0, x, True),  # type: ignore[arg-type]
        "its guard is True, not a condition on constants and facts",
    ),
    "a fact about a term that is not there": (
        lambda: rule("case", x % c0, x, lo(x + x) >= 0),
        "lo(x + x) asks about a term that the left side does not have",
    ),
    "a node where a fact wants a number": (
        lambda: rule("case", x % c0, x, divides(c0, x)),
        "divides(c0, x) uses a node as a number",
    ),
    "a power of constants": (
        lambda: rule("case", x * c0, x + c0**2),
        "POW cannot be computed on constants: c0 ** 2",
    ),
    "a name that is none": (
        lambda: rule("Bad Name", x + 0, x),
        "names are words of small letters and digits, with hyphens",
    ),
    "a left side that is no term": (
        lambda: rule("case", 3, x),  # type: ignore[arg-type]
        "its left side is 3, not a term",
    ),
    "a fact on the left side": (
        lambda: rule("case", lo(x) + x, x),
        "facts belong into the guard, not into the left side",
    ),
    "a concrete type on the left side": (
        lambda: rule("case", UOp(ops.MUL, None, (variable, variable)), variable),
        "i has the type index; a rule is for any type of its theory",
    ),
    "two rules of one name": (
        lambda: RuleSet("set", theory=I, rules=(rule("a", x + 0, x), rule("a", x * 1, x))),
        "the rule set 'set' has two rules of this name",
    ),
    "a name in both parts of a sum": (
        lambda: (
            RuleSet("a", theory=I, rules=(rule("one", x * 1, x),))
            + RuleSet("b", theory=I, rules=(rule("one", x + 0, x),))
        ),
        "the rule set 'a + b' has two rules of this name",
    ),
    "a rule without a theory": (
        lambda: RuleSet("set", rules=(rule("a", x + 0, x),)),
        "the rule set 'set' gives it no theory",
    ),
    "a procedure without a docstring": (
        lambda: procedure("quiet", (ops.ADD,))(lambda node: None),
        "a procedure's docstring says what it does",
    ),
    "a procedure with a bad name": (
        lambda: procedure("Quiet", (ops.ADD,))(lambda node: None),
        "names are words of small letters and digits, with hyphens",
    ),
    "an unknown fact": (lambda: fact("shape", x), "there is no fact 'shape' of 1 arguments"),
    "a fact of too many nodes": (
        lambda: fact("lo", x, y),
        "there is no fact 'lo' of 2 arguments",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_rule_is_refused(case: str) -> None:
    declare, why = MALFORMED[case]
    with pytest.raises(PorismError) as caught:
        declare()
    assert why in str(caught.value)
    if isinstance(caught.value, RuleError) and "fact" not in caught.value.what:
        assert "is malformed" in caught.value.what


def test_the_message_of_an_unbound_hole_in_full() -> None:
    with pytest.raises(RuleError) as caught:
        rule("shift", x << c0, x * c1)
    assert str(caught.value).splitlines() == [
        "the rule 'shift' is malformed",
        "  where: x << c0 -> x * c1",
        "  why: its right side uses c1, which the left side does not bind",
        "  fix: let c1 occur on the left side",
    ]


def test_an_unknown_fact_lists_those_there_are() -> None:
    with pytest.raises(RuleError) as caught:
        fact("vmin", x)
    assert caught.value.fix == "known facts: " + ", ".join(
        f"{f.name}/{f.arity}" for f in FACTS.values()
    )


# -- declarations ----------------------------------------------------------------------------------


def test_a_rule_reads_as_it_was_written() -> None:
    made = rule("mod-small", x % c0, x, when=(lo(x) >= 0) & (hi(x) < c0), seeds="000.2.1 002.19.1")
    assert str(made) == "x % c0 -> x  when (lo(x) >= 0) & (hi(x) < c0)"
    assert made.op is ops.MOD
    assert made.seeds == ("000.2.1", "002.19.1")
    assert str(rule("add-zero", x + 0, x)) == "x + 0 -> x"


def test_a_number_on_the_right_is_a_constant_of_the_rule() -> None:
    made = rule("mul-zero", x * 0, 0)
    assert made.after.op is ops.CONST
    assert made.after.dtype is made.before.dtype
    assert rule("less", x < x, False).after.arg is False


def test_a_family_declares_a_rule_for_each_op() -> None:
    made = family("{op}-self", (ops.AND, ops.MAX), lambda op: (op(x, x), x), seeds="002.3.4")
    assert [(r.name, r.op, r.seeds) for r in made] == [
        ("and-self", ops.AND, ("002.3.4",)),
        ("max-self", ops.MAX, ("002.3.4",)),
    ]


def test_a_procedure_keeps_the_first_line_of_its_docstring() -> None:
    @procedure("nothing", (ops.ADD, ops.MUL), seeds="1.2")
    def nothing(node: UOp) -> UOp | None:
        """Do nothing.

        At all.
        """
        return None

    assert isinstance(nothing, Procedure)
    assert (nothing.name, nothing.doc, nothing.ops) == (
        "nothing",
        "Do nothing.",
        (ops.ADD, ops.MUL),
    )
    assert nothing.function(variable) is None


def test_rule_sets_add_up_and_keep_their_order_and_theories() -> None:
    one, zero = rule("mul-one", x * 1, x), rule("add-zero", x + 0, x)
    first = RuleSet("first", theory=I, rules=(one,))
    second = RuleSet("second", theory=(Theory.FIXED_WIDTH, I), rules=(zero,))
    both = first + second
    assert both.name == "first + second"
    assert [r.name for r in both] == ["mul-one", "add-zero"]
    assert [r.theories for r in both] == [(I,), (Theory.FIXED_WIDTH, I)]
    assert len(both) == 2
    assert both["add-zero"].theories == (Theory.FIXED_WIDTH, I)
    with pytest.raises(KeyError):
        both["mul-zero"]


def test_families_and_rules_may_be_mixed_in_a_set() -> None:
    made = RuleSet(
        "set",
        theory=I,
        rules=(
            family("{op}-self", (ops.AND, ops.OR), lambda op: (op(x, x), x)),
            rule("a", x + 0, x),
        ),
    )
    assert [r.name for r in made] == ["and-self", "or-self", "a"]


def test_rules_are_found_by_theory_and_by_name() -> None:
    floats = rules_of_theory(ALGEBRA, Theory.FLOATS)
    assert "float-mul-one" in [r.name for r in floats]
    assert "mul-one" not in [r.name for r in floats]
    assert [r.name for r in rules_with_words(ALGEBRA, ["div", "small"])] == ["div-small"]
    with pytest.raises(PorismError, match="no rule's name contains 'no such'"):
        rules_with_words(ALGEBRA, ["no", "such"])


# -- terms -----------------------------------------------------------------------------------------


def test_holes_are_counted_as_often_as_they_occur() -> None:
    term = (x + y) * (x + c0) + x
    assert {h.arg: n for h, n in holes_of(term).items()} == {"x": 3, "y": 1, "c0": 1}


def test_constants_are_told_by_their_names() -> None:
    assert [is_constant_hole(hole(name)) for name in ("c", "c0", "c12", "cat", "x", "d0")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


def test_a_value_is_what_is_known_when_a_rule_fires() -> None:
    assert is_value(c0 * c1 + 3)
    assert is_value(lo(x) // c0)
    assert not is_value(x + c0)


def test_conjuncts_in_the_order_in_which_they_are_written() -> None:
    parts = [lo(x) >= 0, hi(x) < c0, divides(c0, c1)]
    whole = conjunction(parts)
    assert list(conjuncts(whole)) == parts
    assert conjunction([]) is None
    assert list(conjuncts(None)) == []


def test_terms_stay_as_they_are_written() -> None:
    assert (x + 0).op is ops.ADD
    assert where(p, x, x).op is ops.WHERE
    assert cast(u, dtypes.f32).dtype is dtypes.f32
    assert isinstance(rule("cast", cast(cast(x, u.dtype), x.dtype), x), Rule)
