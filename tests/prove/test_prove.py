"""Every rule is proved; rules wrong on purpose are refused, with a counterexample that is one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from porism.base import dtypes
from porism.base.dtypes import Theory
from porism.base.errors import ProofError
from porism.ir import ops
from porism.ir.node import UOp
from porism.prove import rule_cases
from porism.prove.arithmetic.op_meanings import Unsupported
from porism.prove.arithmetic.solver import Answer
from porism.prove.rule_proof import Question, Status, prove, require, solver_encodings
from porism.prove.structure_rules import Example, compare_on_examples
from porism.prove.type_instances import instances
from porism.rewrite.rule import Rule, rule
from porism.rewrite.terms import (
    FALSE,
    c0,
    c1,
    c2,
    constant,
    divides,
    hi,
    least,
    literal,
    lo,
    maximum,
    minimum,
    modulus,
    most,
    p,
    q,
    remainder,
    signed,
    where,
    x,
    y,
    z,
)
from porism.rules.rule_sets import ALGEBRA
from tests.prove.stated import BOOLEANS, FIXED_WIDTH, FLOATS, INTEGERS, stated
from tests.tiers import quick_if

RULES = [item for item in ALGEBRA if isinstance(item, Rule)]


@pytest.mark.parametrize("item", RULES, ids=lambda item: item.name)
def test_every_rule_of_the_algebra_is_proved(item: Rule) -> None:
    proof = prove(item)
    assert proof.ok, proof.explain()


@pytest.mark.slow
@pytest.mark.parametrize("item", RULES, ids=lambda item: item.name)
def test_no_proof_is_empty(item: Rule) -> None:
    """What is said of unknowns does not contradict itself, so not everything follows from it."""
    fires = False
    for theory in item.theories:
        for instance in instances(item, theory):
            if not rule_cases.try_simple_cases(item, instance).fires:
                continue
            fires = True
            for world in solver_encodings(item, instance):
                try:
                    question = Question(item, world)
                except Unsupported:  # eight bits of a float, or bits of integers that wrap
                    continue
                answer, _ = question.ask(question.has_value, question.fires, milliseconds=500)
                assert answer is not Answer.NO
    assert fires


# -- rules that are true ---------------------------------------------------------------------------

TRUE: dict[str, Rule] = {
    "the gcd comes out of a modulo": stated(INTEGERS, (x * c0) % (y * c0), (x % y) * c0),
    "a quotient in a comparison": stated(INTEGERS, (x // c0) < c1, x < c0 * c1, c0 > 0),
    "nested division with an offset": stated(
        INTEGERS, (x // c0 + c1) // c2, (x + c0 * c1) // (c0 * c2), c2 > 0
    ),
    "digits put together": stated(
        INTEGERS, (x // c0) % c1 + (x // c2) * c1, x // c0, (c1 > 0) & (c0 * c1).eq(c2)
    ),
    "truncating division of what is not negative": stated(
        INTEGERS, ops.CDIV(x, c0), x // c0, (lo(x) >= 0) & (c0 > 0)
    ),
    "truncating remainder": stated(INTEGERS, ops.CDIV(x, c0) * c0 + ops.CMOD(x, c0), x),
    "a residue decides a modulo": stated(
        INTEGERS, x % c0, remainder(x) % c0, divides(c0, modulus(x))
    ),
    "a shift is a product": stated(INTEGERS, x << c0, x * (literal(1) << c0)),
    "a shift is a division": stated(INTEGERS, x >> c0, x // (literal(1) << c0)),
    "a shift by a known amount": stated(
        (INTEGERS, FIXED_WIDTH), x >> 3, x // 8, signed(x) | ~signed(x)
    ),
    "bounds decide a comparison": stated(
        (INTEGERS, FIXED_WIDTH), x < y, literal(True, p.dtype), hi(x) < lo(y)
    ),
    "nothing is above the largest": stated(FIXED_WIDTH, x > c0, FALSE, c0.eq(most(x))),
    "nothing is below the least": stated(FIXED_WIDTH, x < c0, FALSE, c0.eq(least(x))),
    "no bit stays": stated((INTEGERS, FIXED_WIDTH), (x & y) & ~x, x & 0),
    "unsigned types have no minus one": stated(FIXED_WIDTH, x // literal(-1), -x),
    "offsets that do not wrap": stated(
        FIXED_WIDTH,
        (x + c0) < c1,
        x < c1 - c0,
        (lo(x) + c0 >= least(x))
        & (hi(x) + c0 <= most(x))
        & (c1 - c0 >= least(x))
        & (c1 - c0 <= most(x)),
    ),
    "an undecided choice": stated((INTEGERS, FLOATS), where(p, where(p, x, y), z), where(p, x, z)),
    "a choice moves into any function": stated(
        FLOATS, where(p, ops.EXP2(x), ops.EXP2(y)), ops.EXP2(where(p, x, y))
    ),
    "floats turned": stated(FLOATS, (-x) < (-y), y < x),
    "a maximum twice": stated(FLOATS, maximum(maximum(x, y), x), maximum(x, y)),
    "comparisons of booleans": stated(BOOLEANS, ops.LE(p, q), ~p | q, constant(p) | ~constant(p)),
}


@pytest.mark.parametrize("case", TRUE)
def test_true_rules_are_proved(case: str) -> None:
    proof = prove(TRUE[case])
    assert all(result.status is Status.PROVED for result in proof.results), proof.explain()
    assert not proof.idle_in


# -- rules that are false --------------------------------------------------------------------------

FALSE_RULES: dict[str, tuple[Rule, str]] = {
    # division
    "nested division by what may be negative": (
        stated(INTEGERS, (x // c0) // c1, x // (c0 * c1)),
        "x = 1, c0 = 2, c1 = -1: before is 0, after is -1",
    ),
    "a modulo loses its gcd": (
        stated(INTEGERS, (x * c0) % (y * c0), x % y),
        "x = 1, y = 2, c0 = -1: before is -1, after is 1",
    ),
    "an offset dropped with no lower limit": (
        stated(INTEGERS, (x + c0) // c1, x // c1, (c0 < c1)),
        "x = 0, c0 = -1, c1 = 1: before is -1, after is 0",
    ),
    "digits with a negative radix": (
        stated(INTEGERS, (x // c0) % c1 + (x // c2) * c1, x // c0, (c0 * c1).eq(c2)),
        "",
    ),
    "a bound of the wrong side": (
        stated(INTEGERS, x % c0, x, (hi(x) >= 0) & (hi(x) < c0)),
        "x = -1, c0 = 1, hi(x) = 0: before is 0, after is -1",
    ),
    "truncating is not floor division": (
        stated(INTEGERS, ops.CDIV(x, c0), x // c0, c0 > 0),
        "x = -1, c0 = 2: before is 0, after is -1",
    ),
    "the truncating form of a comparison": (
        stated(INTEGERS, (x // c0) < c1, x < c1 * c0 - (c0 - 1), (c0 > 0) & (c1 <= 0)),
        "x = -1, c0 = 2, c1 = 0: before is True, after is False",
    ),
    # fixed widths
    "a product and its division wrap": (
        stated(FIXED_WIDTH, (x * c0) // c0, x, c0.ne(0)),
        "",
    ),
    "an offset in a comparison wraps": (
        stated(FIXED_WIDTH, (x + c0) < c1, x < c1 - c0),
        "x = 127, c0 = 1, c1 = 0: before is True, after is False",
    ),
    "negation of the least value": (
        stated(FIXED_WIDTH, (-x) < (-y), y < x),
        "x = -128, y = 0: before is True, after is False",
    ),
    "a minimum by negation": (
        stated(FIXED_WIDTH, minimum(x, y), -maximum(-x, -y)),
        "x = -128, y = 0: before is -128, after is 0",
    ),
    "the largest value is no minus one": (
        stated(FIXED_WIDTH, x // literal(255), -x),
        "",
    ),
    "a power of two that is too large for the type": (
        stated(FIXED_WIDTH, (x << c0) >> c0, x, (c0 >= 0) & (c0 < 8)),
        "",
    ),
    # laws of booleans on integers
    "or with one": (stated(INTEGERS, x | 1, literal(1)), "x = -1: before is -1, after is 1"),
    "and with one": (stated(FIXED_WIDTH, x & 1, x), "x = -1: before is 1, after is -1"),
    "or with itself turned": (
        stated(FIXED_WIDTH, x | ~x, literal(1)),
        "x = 0: before is -1, after is 1",
    ),
    # floats
    "adding zero": (stated(FLOATS, x + 0.0, x), "x = -0.0: before is 0.0, after is -0.0"),
    "times zero": (stated(FLOATS, x * 0.0, 0.0), "x = -0.0: before is -0.0, after is 0.0"),
    "x by itself": (stated(FLOATS, x / x, 1.0), "x = 0.0: before is nan, after is 1.0"),
    "x less itself": (stated(FLOATS, x - x, 0.0), "x = inf: before is nan, after is 0.0"),
    "x equals itself": (
        stated(FLOATS, ops.EQ(x, x), literal(True, p.dtype)),
        "x = nan: before is False, after is True",
    ),
    "sums reassociated": (stated(FLOATS, (x + c0) + c1, x + (c0 + c1)), ""),
    "two roundings for one": (stated(FLOATS, x * y + z, ops.MULACC(x, y, z)), ""),
    "a choice for a product": (
        stated(FLOATS, where(p, x, literal(0.0)) + y, where(p, x + y, y)),
        "p = False, x = 1.0, y = -0.0: before is 0.0, after is -0.0",
    ),
    "bounds say nothing of NaN": (
        stated(FLOATS, x < c0, literal(True, p.dtype), hi(x) < c0),
        "",
    ),
    # booleans
    "and for or": (
        stated(BOOLEANS, p & q, p | q),
        "p = True, q = False: before is False, after is True",
    ),
    "a type that the root leaves open": (
        stated(BOOLEANS, (x < c0) & (x < c1), x < minimum(c0, c1)),
        "",
    ),
    # definedness
    "a new division by zero": (
        stated(INTEGERS, where(p, x // y, z), where(p, x, z * y) // y),
        "p = False, x = 0, y = 0, z = 0: before is 0, after is undefined",
    ),
    "a hole needed more eagerly": (
        stated(BOOLEANS, p & q, minimum(p, q)),
        "p is undefined, q = False: before is False, after is undefined",
    ),
    "a choice that is no longer lazy": (
        stated(INTEGERS, where(p, x, y), x * y, lo(x) > hi(y)),
        "",
    ),
}


@pytest.mark.parametrize("case", FALSE_RULES)
def test_false_rules_are_refuted(case: str) -> None:
    wrong, sentence = FALSE_RULES[case]
    proof = prove(wrong)
    assert not proof.ok
    assert [result.status for result in proof.results] == [Status.REFUTED], proof.explain()
    actual = proof.results[0].counterexample
    assert ": before is " in actual
    assert not sentence or actual == sentence


WITHOUT_MEANING = {"or with one"}
"""Bits of unbounded integers: the solver is not asked."""


MAY_TAKE_LONG = {"a modulo loses its gcd", "sums reassociated"}
"""The solver finds counterexamples to these in a second or in minutes, as it happens."""


@pytest.mark.parametrize("case", quick_if(lambda case: case not in MAY_TAKE_LONG, FALSE_RULES))
def test_the_solver_alone_refutes_them_too(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the search among simple cases: what it finds must be right in the evaluator."""
    monkeypatch.setattr(
        rule_cases, "try_simple_cases", lambda *_: rule_cases.SearchResult(None, False, 0)
    )
    wrong, _ = FALSE_RULES[case]
    proof = prove(wrong, milliseconds=60_000)
    assert not proof.ok
    wanted = {Status.UNKNOWN if case in WITHOUT_MEANING else Status.REFUTED}
    if case in MAY_TAKE_LONG:
        wanted.add(Status.UNKNOWN)
    assert proof.results[0].status in wanted, proof.explain()


def test_a_rule_true_on_one_type_only_is_refuted_on_the_other() -> None:
    proof = prove(stated((INTEGERS, FIXED_WIDTH), (x * c0) // c0, x, c0.ne(0)))
    assert [result.status for result in proof.results] == [Status.PROVED, Status.REFUTED]


# -- what else is asked of a rule ------------------------------------------------------------------


def test_an_idle_part_of_a_guard_is_reported() -> None:
    proof = prove(stated(INTEGERS, x % c0, x, (lo(x) >= 0) & (hi(x) < c0) & (c0 > 0)))
    assert proof.idle == ("c0 > 0",)
    assert not proof.ok
    with pytest.raises(ProofError, match=r"a part of its guard is idle, .* without it: c0 > 0"):
        require(proof)


def test_a_part_needed_in_one_theory_is_not_idle() -> None:
    fits = (lo(x) * c0 >= least(x)) & (hi(x) * c0 <= most(x))
    guard = (c0 > 0) & fits & (c0 <= most(x))
    proof = prove(stated(FIXED_WIDTH, (x * c0) // c0, x, guard))
    assert [result.status for result in proof.results] == [Status.PROVED], proof.explain()
    assert proof.idle == ("c0 <= most(x)",)


def test_definedness_is_not_idle() -> None:
    proof = prove(stated(INTEGERS, (x // c0) // c1, x // (c0 * c1), (c1 > 0) & c0.ne(0)))
    assert proof.ok, proof.explain()
    assert proof.idle == ()


def test_what_always_holds_is_idle() -> None:
    proof = prove(stated(INTEGERS, x % c0, x, (lo(x) >= 0) & (hi(x) < c0) & (c0 * c0 >= 0)))
    assert proof.idle == ("c0 * c0 >= 0",)


def test_a_guard_that_cannot_hold_is_refused() -> None:
    proof = prove(stated(INTEGERS, x % c0, x, (lo(x) >= c0) & (hi(x) < c0)))
    assert proof.idle_in == (INTEGERS,)
    assert not proof.ok
    told = "integers: it can never fire: its left side never has a value where its guard holds"
    with pytest.raises(ProofError, match=told):
        require(proof)


@pytest.mark.parametrize("sides", [(x // 0, -x), (x % 0, x), ((x + y) << literal(-1), x)])
def test_a_left_side_that_never_has_a_value_is_refused(sides: tuple[Any, ...]) -> None:
    """Anything would follow from it."""
    proof = prove(stated(INTEGERS, *sides))
    assert proof.idle_in == (INTEGERS,)
    with pytest.raises(ProofError, match=r"it can never fire: its left side never has a value\n"):
        require(proof)


def test_a_rule_must_be_able_to_fire_in_each_of_its_theories() -> None:
    proof = prove(stated((INTEGERS, FIXED_WIDTH), x // 0, literal(0)))
    assert [result.status for result in proof.results] == [Status.PROVED, Status.PROVED]
    assert proof.idle_in == (INTEGERS,)
    assert not proof.ok


def test_the_limits_of_index_are_no_numbers() -> None:
    proof = prove(stated(INTEGERS, x > c0, FALSE, c0.eq(most(x))))
    assert proof.idle_in
    assert prove(stated(INTEGERS, x > c0, FALSE, c0 + 1 > most(x) + 0)).idle_in


def test_a_rule_that_does_not_shrink_is_refused() -> None:
    proof = prove(stated(INTEGERS, x * 2, x + x))
    assert [result.status for result in proof.results] == [Status.PROVED]
    assert not proof.ok
    with pytest.raises(ProofError, match="does not shrink, by occurrences: x occurs 2 times"):
        require(proof)


def test_unknown_is_a_failure() -> None:
    """This one is true, but too much for the solver."""
    guard = divides(c1, c0) & (c0 > 0) & (c1 > 0)
    hard = stated(INTEGERS, (x % c0) // c1, (x // c1) % (c0 // c1), guard)
    proof = prove(hard, milliseconds=200)
    (result,) = proof.results
    assert result.status is Status.UNKNOWN
    assert result.note == "the solver does not know, after 0.2 s"
    with pytest.raises(ProofError, match="'case' is not established"):
        require(proof)


def test_bits_among_arithmetic_of_unbounded_integers_are_left_open() -> None:
    made = stated(INTEGERS, x & 7, x % 8)
    assert prove(made).results[0].note == "AND has no meaning on unbounded integers here"
    assert prove(stated(FIXED_WIDTH, x & 7, x % 8)).results[0].status is Status.PROVED


def test_a_theory_in_which_a_rule_never_fires_is_told() -> None:
    proof = prove(stated(INTEGERS, p & q & p, p & q))
    assert proof.results[0].status is Status.UNKNOWN
    assert proof.results[0].note.startswith("no type of this theory has AND")


def test_a_rule_without_a_theory_is_not_established() -> None:
    with pytest.raises(ProofError, match="it belongs to no theory"):
        require(prove(rule("add-zero", x + 0, x)))


def test_fast_math_is_listed_as_changing_results() -> None:
    proof = prove(stated(FLOATS, x * 0.0, 0.0, fast_math="NaN, infinities and -0 become 0"))
    (result,) = proof.results
    assert result.status is Status.CHANGES
    assert result.counterexample == "x = -0.0: before is -0.0, after is 0.0"
    assert proof.ok
    assert proof.established == "proved"
    assert result.note.endswith("; true of real numbers")
    harmless = prove(stated(FLOATS, x * 1.0, x, fast_math="nothing"))
    assert harmless.results[0].note == "nothing; no case of it was found; true of real numbers"


@pytest.mark.parametrize(
    ("sides", "told"),
    [
        ((x * 0.0, 1.0), "x = 0: before is 0, after is 1"),
        ((x / y, y / x), "before is"),
        ((maximum(x, y), x), "before is"),
        ((x - y, ops.ADD(x, y)), "before is"),
    ],
)
def test_fast_math_that_is_false_of_real_numbers_is_refused(
    sides: tuple[Any, ...], told: str
) -> None:
    proof = prove(stated(FLOATS, *sides, fast_math="everything"))
    (result,) = proof.results
    assert result.status is Status.REFUTED
    assert result.types == "real numbers"
    assert told in result.counterexample
    assert not proof.ok


def test_fast_math_beyond_real_numbers_is_left_open() -> None:
    beyond = prove(stated(FLOATS, x / 0.0, literal(math.inf), fast_math="the sign of it"))
    assert beyond.results[0].status is Status.UNKNOWN
    assert beyond.results[0].note == "inf among real numbers"
    unknown = prove(stated(FLOATS, ops.SQRT(x), x, fast_math="everything"))
    assert unknown.results[0].status is Status.UNKNOWN


@pytest.mark.slow
@pytest.mark.parametrize(
    "sides",
    [
        (ops.RECIPROCAL(ops.RECIPROCAL(x)), x),
        (ops.MULACC(x, y, z), x * y + z),
        (where(p, x, x), x * 1.0),
        (minimum(x, y), ops.NEG(maximum(-x, -y))),
        ((x - y).eq(0.0), x.eq(y)),
        ((x - y) < 0.0, x < y),
        ((x - y) >= 0.0, x >= y),
        ((x - y) <= 0.0, x <= y),
        ((x - y) > 0.0, x > y),
        ((x - y).ne(0.0), x.ne(y)),
    ],
)
def test_fast_math_that_is_true_of_real_numbers_is_proved(sides: tuple[Any, ...]) -> None:
    (result,) = prove(stated(FLOATS, *sides, fast_math="roundings")).results
    assert result.status is Status.CHANGES


# -- how it is told --------------------------------------------------------------------------------


def test_a_refused_rule_says_what_where_why_and_how_to_fix_it() -> None:
    with pytest.raises(ProofError) as caught:
        require(prove(stated(INTEGERS, (x // c0) // c1, x // (c0 * c1))))
    assert str(caught.value).splitlines() == [
        "the rule 'case' is false",
        "  where: x // c0 // c1 -> x // (c0 * c1)",
        "  why: integers: refuted (index): x = 1, c0 = 2, c1 = -1: before is 0, after is -1",
        "  fix: restrict its theories or add the guard that excludes the counterexample",
    ]
    require(prove(RULES[0]))


def test_a_proof_explains_itself() -> None:
    item = ALGEBRA["mod-small"]
    assert isinstance(item, Rule)
    lines = prove(item).explain().splitlines()
    assert lines[0] == "mod-small: x % c0 -> x  when (lo(x) >= 0) & (hi(x) < c0)"
    assert lines[1].startswith("  integers: proved on index in ")
    assert lines[2:] == [
        "  the guard can hold",
        "  shrinks, by weight: the weight goes from 7 to 1",
    ]


# -- structure -------------------------------------------------------------------------------------


def structural(after: Any) -> Rule:
    """max(x, y) becomes something else, wherever it stands."""
    return stated(Theory.STRUCTURE, maximum(x, y), after)


def test_structural_rules_are_evaluated_on_examples() -> None:
    a = UOp(ops.PARAM, dtypes.f32, (), 0)
    b = UOp(ops.PARAM, dtypes.f32, (), 1)
    graph = UOp(ops.NEG, None, (UOp(ops.MAX, None, (a, b)),))
    examples = [Example(graph, {0: np.float32(n), 1: np.float32(2)}) for n in (1, 2, 3)]
    good = prove(structural(where(x > y, x, y)), examples=examples)
    assert good.results[0].status is Status.EVALUATED
    assert good.results[0].note == "it fired on 3 of 3 examples"
    bad = prove(structural(x), examples=examples)
    assert bad.results[0].status is Status.REFUTED
    assert "before is [array(-2., dtype=float32)], after is" in bad.results[0].counterexample
    silent = prove(structural(x), examples=[Example(a, {0: np.float32(1)})])
    assert silent.results[0].status is Status.UNKNOWN
    assert compare_on_examples(structural(x), []).fired == 0
